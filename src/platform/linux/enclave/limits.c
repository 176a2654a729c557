/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/enclave/limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

/* Looking takes at most one part in that many of the time. */
#define COST_SHARE 20

/* The shortest and the longest time between two looks. */
#define PAUSE_MIN_MS 10
#define PAUSE_MAX_MS 100

/* Lowers both limits; one that is lower already stays. */
static int lower(int resource, uint64_t value)
{
	struct rlimit limit;

	if (value == 0)
		return 0;
	if (getrlimit((__rlimit_resource_t)resource, &limit) < 0)
		return -errno;
	if (limit.rlim_max > value)
		limit.rlim_max = value;
	if (limit.rlim_cur > limit.rlim_max)
		limit.rlim_cur = limit.rlim_max;
	return setrlimit((__rlimit_resource_t)resource, &limit) < 0 ? -errno : 0;
}

int nx_limits_apply(const struct nx_plan *plan)
{
	int r = lower(RLIMIT_NPROC, plan->pids_max);

	if (r == 0)
		r = lower(RLIMIT_FSIZE, plan->disk_max_bytes);
	/* In whole seconds, and of each process: whoever looks is exact, and of all. */
	if (r == 0)
		r = lower(RLIMIT_CPU, (plan->cpu_time_max_ms + 999) / 1000);
	return r;
}

static uint64_t micros_of(const struct rusage *used)
{
	return (uint64_t)(used->ru_utime.tv_sec + used->ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(used->ru_utime.tv_usec + used->ru_stime.tv_usec);
}

/* What one look has found. */
struct sight {
	uint64_t cpu_micros;
	uint64_t memory_bytes;
	uint64_t tasks;
};

static bool read_text(int proc_fd, const char *pid, const char *name, char *text, size_t size)
{
	char path[64];
	NX_AUTO_FD fd = -1;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/%s", pid, name);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, size - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	return true;
}

/* The fields of "stat" from the third on, whose first is behind the name. */
#define FIELD(number) ((number)-3)

static void see_process(const struct nx_lookout *lookout, const char *pid, struct sight *sight)
{
	uint64_t fields[FIELD(20) + 1] = { 0 };
	char text[1024];
	char *at;

	if (!read_text(lookout->proc_fd, pid, "stat", text, sizeof(text)))
		return;
	at = strrchr(text, ')');
	if (!at || at[1] == '\0')
		return;
	at += 2;
	for (size_t i = 0; i < NX_ARRAY_SIZE(fields); i++) {
		if (i > 0) /* the state is a letter */
			fields[i] = strtoull(at, NULL, 10);
		at = strchr(at, ' ');
		if (!at)
			return;
		at++;
	}
	for (size_t i = FIELD(14); i <= FIELD(17); i++) /* its own, and its reaped children's */
		sight->cpu_micros += fields[i] * 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
	sight->tasks += fields[FIELD(20)];
	if ((lookout->plan->lookout & NEXBOX_LIMIT_MEMORY) &&
	    read_text(lookout->proc_fd, pid, "statm", text, sizeof(text))) {
		uint64_t resident = 0;
		uint64_t shared = 0;

		at = strchr(text, ' ');
		if (at) {
			resident = strtoull(at, &at, 10);
			shared = strtoull(at, NULL, 10);
		}
		if (resident > shared)
			sight->memory_bytes += (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
	}
}

/* Without opendir(), which allocates. */
static void see_all(const struct nx_lookout *lookout, struct sight *sight)
{
	static char bytes[16 * 1024] __attribute__((aligned(16)));
	long n;

	(void)lseek(lookout->proc_fd, 0, SEEK_SET);
	while ((n = syscall(SYS_getdents64, lookout->proc_fd, bytes, sizeof(bytes))) > 0) {
		for (long at = 0; at < n;) {
			const struct dirent64 *entry = (const void *)(bytes + at);

			at += entry->d_reclen;
			/* Number 1 is ours. */
			if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
			    strcmp(entry->d_name, "1") != 0)
				see_process(lookout, entry->d_name, sight);
		}
	}
}

/* The private places: one tmpfs, which holds memory that is nobody's. */
static uint64_t private_bytes(void)
{
	struct statfs st;

	if (statfs("/tmp", &st) < 0 || st.f_type != 0x01021994 /* tmpfs */)
		return 0;
	return (st.f_blocks - st.f_bfree) * (uint64_t)st.f_bsize;
}

/*
 * What a process has used goes to its parent when it is reaped, and to nobody
 * when the parent does not care for its children: then the sum is less than
 * before, and the difference is remembered.
 */
static uint64_t sum_cpu(struct nx_lookout *lookout, uint64_t seen_micros)
{
	struct rusage reaped;

	if (getrusage(RUSAGE_CHILDREN, &reaped) == 0)
		seen_micros += micros_of(&reaped);
	/* /proc counts in ticks: less by that much is no loss. */
	if (seen_micros + 1000000 / (uint64_t)sysconf(_SC_CLK_TCK) < lookout->last_micros)
		lookout->lost_micros += lookout->last_micros - seen_micros;
	lookout->last_micros = seen_micros;
	return seen_micros + lookout->lost_micros;
}

static void raise_to(uint64_t *figure, uint64_t value)
{
	if (*figure == NX_UNKNOWN || *figure < value)
		*figure = value;
}

int nx_lookout_open(struct nx_lookout *lookout, const struct nx_plan *plan)
{
	*lookout = (struct nx_lookout){
		.plan = plan,
		.proc_fd = -1,
		.wire = { .kind = NX_WIRE_LIMIT,
		          .cpu_time_micros = NX_UNKNOWN,
		          .peak_memory_bytes = NX_UNKNOWN,
		          .bytes_written = NX_UNKNOWN,
		          .processes = NX_UNKNOWN },
	};
	if (!plan->lookout)
		return 0;
	lookout->proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return lookout->proc_fd < 0 ? -errno : 0;
}

uint32_t nx_lookout_look(struct nx_lookout *lookout, uint64_t now_ms)
{
	const struct nx_plan *plan = lookout->plan;
	struct nx_wire *wire = &lookout->wire;
	struct sight sight = { 0 };
	uint64_t begin = nx_clock_micros();
	uint32_t hit = 0;
	uint64_t pause_ms;

	see_all(lookout, &sight);
	raise_to(&wire->cpu_time_micros, sum_cpu(lookout, sight.cpu_micros));
	raise_to(&wire->processes, sight.tasks);
	if ((plan->lookout & NEXBOX_LIMIT_PIDS) && sight.tasks + 1 >= plan->pids_max)
		hit |= NEXBOX_LIMIT_PIDS;
	if ((plan->lookout & NEXBOX_LIMIT_CPU_TIME) &&
	    wire->cpu_time_micros >= plan->cpu_time_max_ms * 1000)
		hit |= NEXBOX_LIMIT_CPU_TIME;
	if (plan->lookout & NEXBOX_LIMIT_MEMORY) {
		raise_to(&wire->peak_memory_bytes, sight.memory_bytes + private_bytes());
		if (wire->peak_memory_bytes >= plan->memory_max_bytes)
			hit |= NEXBOX_LIMIT_MEMORY;
	}
	pause_ms = (nx_clock_micros() - begin) * COST_SHARE / 1000;
	pause_ms = pause_ms < PAUSE_MIN_MS ? PAUSE_MIN_MS : pause_ms;
	lookout->due_ms = now_ms + (pause_ms > PAUSE_MAX_MS ? PAUSE_MAX_MS : pause_ms);
	hit &= ~wire->limits_hit;
	wire->limits_hit |= hit;
	return hit;
}

void nx_lookout_sum(struct nx_lookout *lookout, bool alone, struct nx_wire *wire)
{
	struct rusage used;

	if (lookout->proc_fd < 0 && !alone)
		lookout->proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (lookout->proc_fd >= 0)
		(void)nx_lookout_look(lookout, 0);
	wire->limits_hit = lookout->wire.limits_hit;
	wire->cpu_time_micros = lookout->wire.cpu_time_micros;
	wire->peak_memory_bytes = lookout->wire.peak_memory_bytes;
	wire->bytes_written = NX_UNKNOWN;
	/* One look at the end is no maximum. */
	wire->processes = lookout->plan->lookout ? lookout->wire.processes : NX_UNKNOWN;
	if (getrusage(RUSAGE_CHILDREN, &used) < 0)
		return;
	raise_to(&wire->cpu_time_micros, micros_of(&used) + lookout->lost_micros);
	raise_to(&wire->peak_memory_bytes, (uint64_t)used.ru_maxrss * 1024);
	if (alone)
		wire->bytes_written = (uint64_t)used.ru_oublock * 512;
}
