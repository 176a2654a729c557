/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/watch.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"

/* How long one look adds sizes up, and in what share of the time it does. */
#define SLICE_MICROS 4000
#define COST_SHARE 10

/* Between two looks, with and without a limit. */
#define PAUSE_MIN_MICROS 10000
#define PAUSE_LIMIT_MICROS 20000
#define PAUSE_MAX_MICROS 1000000

/* No disk that we know of fills up faster; its caches do not count for long. */
#define DISK_BYTES_PER_MICRO 4000

#define FLOOR_MAX_BYTES (256u * 1024 * 1024)
#define FLOOR_PART 100

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* What an ordinary user may still take of the disk. */
static bool see_disk(const struct nx_watch *watch, struct statvfs *ret_disk, uint64_t *ret_free)
{
	if (watch->upper_fd < 0 || fstatvfs(watch->upper_fd, ret_disk) < 0)
		return false;
	*ret_free = (uint64_t)ret_disk->f_bavail * ret_disk->f_frsize;
	return true;
}

/* A scratch that is no filesystem of its own cannot be asked what is in it. */
static bool is_one_disk(int a_fd, int b_fd)
{
	struct stat a;
	struct stat b;

	return a_fd >= 0 && b_fd >= 0 && fstat(a_fd, &a) == 0 && fstat(b_fd, &b) == 0 &&
	       a.st_dev == b.st_dev;
}

uint64_t nx_watch_begin(struct nx_watch *watch)
{
	struct statvfs disk;
	uint64_t part;

	watch->disk_peak_bytes = 0;
	watch->is_at_floor = watch->is_sizing = watch->is_in_scratch = false;
	watch->is_on_disk = is_one_disk(watch->upper_fd, watch->scratch_fd);
	watch->size_due_micros = 0;
	watch->floor_bytes = watch->floor_files = 0;
	watch->measure = (struct nx_measure){ .usage = NX_USAGE_UNKNOWN };
	if (see_disk(watch, &disk, &watch->free_bytes)) {
		part = (uint64_t)disk.f_blocks * disk.f_frsize / FLOOR_PART;
		watch->floor_bytes = least(least(part, FLOOR_MAX_BYTES), watch->free_bytes / 2);
		watch->floor_files = least(disk.f_files / FLOOR_PART, disk.f_favail / 2);
	}
	watch->lowest_bytes = watch->free_bytes;
	return PAUSE_MIN_MICROS;
}

/* Whether the disk is at its floor; else how long it takes at least to get there. */
static uint64_t look_at_disk(struct nx_watch *watch)
{
	struct statvfs disk;
	uint64_t free_bytes;

	if (!see_disk(watch, &disk, &free_bytes))
		return PAUSE_MAX_MICROS;
	watch->lowest_bytes = least(watch->lowest_bytes, free_bytes);
	if (free_bytes < watch->floor_bytes ||
	    (disk.f_files > 0 && disk.f_favail < watch->floor_files)) {
		watch->is_at_floor = true;
		watch->measure.hit |= NEXBOX_LIMIT_DISK;
		return 0;
	}
	return (free_bytes - watch->floor_bytes) / DISK_BYTES_PER_MICRO;
}

static uint64_t scratch_bytes(const struct nx_watch *watch)
{
	struct statvfs scratch;

	if (watch->is_on_disk || watch->scratch_fd < 0 || fstatvfs(watch->scratch_fd, &scratch) < 0)
		return 0;
	return (uint64_t)(scratch.f_blocks - scratch.f_bfree) * scratch.f_frsize;
}

/*
 * A complete sum. Where the command has shut folders, or we had no memory, what the
 * disk has lost stands in for it: somebody else's writes may be in that.
 */
static void take_sum(struct nx_watch *watch)
{
	uint64_t bytes = watch->sum_bytes + watch->sizer.bytes;

	if (watch->sizer.is_blurred && watch->free_bytes > watch->lowest_bytes)
		bytes = most(bytes, watch->free_bytes - watch->lowest_bytes);
	watch->disk_peak_bytes = most(watch->disk_peak_bytes, bytes + scratch_bytes(watch));
}

static void judge_sum(struct nx_watch *watch)
{
	/* A sum that is not complete is too low at worst. */
	if (watch->is_sizing)
		watch->disk_peak_bytes = most(watch->disk_peak_bytes, watch->sum_bytes +
		                                                              watch->sizer.bytes +
		                                                              scratch_bytes(watch));
	if (watch->disk_peak_bytes >= watch->limits->disk_bytes)
		watch->measure.hit |= NEXBOX_LIMIT_DISK;
}

static void begin_sum(struct nx_watch *watch)
{
	nx_sizer_begin(&watch->sizer, watch->upper_fd, &watch->since);
	watch->sum_bytes = 0;
	watch->is_sizing = true;
	watch->is_in_scratch = false;
}

static bool add_up(struct nx_watch *watch, uint64_t until_micros)
{
	const struct timespec ever = { 0 };
	bool is_blurred;

	if (!nx_sizer_go_on(&watch->sizer, until_micros))
		return false;
	if (!watch->is_on_disk || watch->is_in_scratch)
		return true;
	watch->sum_bytes = watch->sizer.bytes;
	watch->is_in_scratch = true;
	is_blurred = watch->sizer.is_blurred;
	nx_sizer_begin(&watch->sizer, watch->scratch_fd, &ever);
	watch->sizer.is_blurred |= is_blurred;
	return nx_sizer_go_on(&watch->sizer, until_micros);
}

static uint64_t look_at_changes(struct nx_watch *watch)
{
	uint64_t begin = nx_clock_micros();

	if (!watch->limits->disk_bytes || watch->upper_fd < 0)
		return PAUSE_MAX_MICROS;
	if (!watch->is_sizing && begin >= watch->size_due_micros) {
		begin_sum(watch);
		watch->size_cost_micros = 0;
	}
	if (watch->is_sizing) {
		bool done = add_up(watch, begin + SLICE_MICROS);
		uint64_t end = nx_clock_micros();

		watch->size_cost_micros += end - begin;
		judge_sum(watch);
		if (done) {
			take_sum(watch);
			judge_sum(watch);
			watch->is_sizing = false;
			watch->size_due_micros = end + most(PAUSE_LIMIT_MICROS,
			                                    watch->size_cost_micros * COST_SHARE);
		}
	}
	return PAUSE_LIMIT_MICROS;
}

/* Processor time cannot run faster than all processors together. */
static uint64_t look_at_enclave(struct nx_watch *watch)
{
	const struct nx_limits *limits = watch->limits;
	uint32_t hit = watch->measure.hit;
	uint64_t pause = PAUSE_MAX_MICROS;
	uint64_t used;

	if (!limits->memory_bytes && !limits->pids && !limits->cpu_time_ms)
		return PAUSE_MAX_MICROS;
	watch->tier->measure(watch->enclave, &watch->measure);
	watch->measure.hit |= hit;
	used = watch->measure.usage.cpu_time_micros;
	if (limits->memory_bytes)
		pause = PAUSE_LIMIT_MICROS;
	if (limits->cpu_time_ms && used != NX_UNKNOWN && used < limits->cpu_time_ms * 1000) {
		long n_processors = sysconf(_SC_NPROCESSORS_ONLN);

		pause = least(pause, (limits->cpu_time_ms * 1000 - used) /
		                             (uint64_t)(n_processors > 0 ? n_processors : 1));
	}
	return pause;
}

uint64_t nx_watch_look(struct nx_watch *watch, uint32_t *ret_hit)
{
	uint64_t pause = look_at_enclave(watch);

	pause = least(pause, look_at_disk(watch));
	pause = least(pause, look_at_changes(watch));
	*ret_hit = watch->measure.hit;
	return pause < PAUSE_MIN_MICROS ? PAUSE_MIN_MICROS : least(pause, PAUSE_MAX_MICROS);
}

uint32_t nx_watch_end(struct nx_watch *watch)
{
	uint32_t hit = watch->measure.hit;

	watch->tier->measure(watch->enclave, &watch->measure);
	watch->measure.hit |= hit;
	if (watch->limits->disk_bytes && watch->upper_fd >= 0) {
		begin_sum(watch);
		(void)add_up(watch, UINT64_MAX);
		watch->is_sizing = false;
		take_sum(watch);
		judge_sum(watch);
	}
	return watch->measure.hit;
}

void nx_watch_fini(struct nx_watch *watch)
{
	nx_sizer_fini(&watch->sizer);
}
