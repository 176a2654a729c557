/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/enclave/limiter.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * The kernel never holds RLIMIT_NPROC against the machine's own root. In a user
 * namespace 0 may be somebody else; one that maps 0 to 0 is taken for root.
 */
static bool is_machine_root(void)
{
	unsigned int inside = 0;
	unsigned int outside = 0;
	FILE *file;

	if (geteuid() != 0)
		return false;
	file = fopen("/proc/self/uid_map", "re");
	if (!file)
		return true;
	if (fscanf(file, "%u %u", &inside, &outside) != 2)
		outside = 0;
	(void)fclose(file);
	return inside != 0 || outside == 0;
}

/* By the order in which they are refused. */
static const struct {
	uint32_t limit;
	const char *option;
	const char *why;
} refusals[] = {
	{ NEXBOX_LIMIT_MEMORY, "--memory", "that takes a control group, and none can be made here" },
	{ NEXBOX_LIMIT_CPUS, "--cpus", "that takes a control group, and none can be made here" },
	{ NEXBOX_LIMIT_PIDS, "--pids",
	  "for root and without namespaces that takes a control group, and none can be made" },
	{ NEXBOX_LIMIT_CPU_TIME, "--cpu-time",
	  "without namespaces that takes a control group, and none can be made" },
};

static int refuse(uint32_t loose, struct nexbox_error *err)
{
	size_t i = 0;

	while (!(loose & refusals[i].limit))
		i++;
	return nx_fail(err, NEXBOX_E_REFUSED, 0, "limits",
	               "%s cannot be enforced: %s; run as root, or by 'systemd-run --user --scope', "
	               "or accept less with --best-effort",
	               refusals[i].option, refusals[i].why);
}

static uint32_t asked_for(const struct nx_limits *limits)
{
	return (limits->memory_bytes ? NEXBOX_LIMIT_MEMORY : 0) |
	       (limits->pids ? NEXBOX_LIMIT_PIDS : 0) |
	       (limits->cpus_milli ? NEXBOX_LIMIT_CPUS : 0) |
	       (limits->cpu_time_ms ? NEXBOX_LIMIT_CPU_TIME : 0);
}

int nx_limiter_open(struct nx_limiter *limiter, const struct nx_start *start, uint32_t n_own,
                    bool looks, struct nexbox_error *err)
{
	struct nx_measure *measure = &limiter->measure;
	uint32_t asked;
	uint32_t loose;
	int r;

	measure->usage = NX_USAGE_UNKNOWN;
	limiter->n_own = n_own;
	limiter->looks = looks;
	if (!start->limits)
		return 0;
	limiter->limits = *start->limits;
	asked = asked_for(&limiter->limits);
	if (!asked)
		return 0;
	r = nx_cgroup_open(&limiter->limits, n_own, &limiter->cgroup, &limiter->counted, err);
	if (r < 0)
		return r;
	measure->kernel = limiter->counted & ~(uint32_t)NEXBOX_LIMIT_CPU_TIME;
	if (looks && !is_machine_root())
		measure->kernel |= asked & NEXBOX_LIMIT_PIDS;
	measure->watched = asked & NEXBOX_LIMIT_CPU_TIME &
	                   (looks ? NEXBOX_LIMIT_CPU_TIME : limiter->counted);
	loose = asked & ~(measure->kernel | measure->watched);
	if (loose && !(start->flags & NX_START_BEST_EFFORT))
		return refuse(loose, err);
	if (looks)
		measure->watched |= loose & NEXBOX_LIMIT_MEMORY;
	return 0;
}

int nx_limiter_enter(const struct nx_limiter *limiter, pid_t pid, struct nexbox_error *err)
{
	int r = limiter->cgroup ? nx_cgroup_enter(limiter->cgroup, pid) : 0;

	return r < 0 ? nx_fail(err, NEXBOX_E_REFUSED, -r, "limits",
	                       "the box cannot be put into its control group: use --best-effort "
	                       "without that limit, or run as root") :
	               0;
}

void nx_limiter_plan(struct nx_limiter *limiter, struct nx_plan *plan)
{
	const struct nx_limits *limits = &limiter->limits;

	/* What serves the view is in the box, and ours. */
	if (plan->flags & NX_PLAN_SERVED) {
		limiter->n_own++;
		if (limiter->cgroup)
			nx_cgroup_set_own(limiter->cgroup, limiter->n_own);
	}
	plan->disk_max_bytes = limits->disk_bytes;
	plan->cpu_time_max_ms = limits->cpu_time_ms;
	if (!limiter->looks)
		return;
	plan->pids_max = limits->pids ? limits->pids + limiter->n_own : 0;
	/* One more, so that it is the group that is met, which counts how often. */
	if (limits->pids && (limiter->counted & NEXBOX_LIMIT_PIDS))
		plan->pids_max++;
	/* What a cgroup counts needs nobody who looks. */
	if (limits->pids && !(limiter->counted & NEXBOX_LIMIT_PIDS))
		plan->lookout |= NEXBOX_LIMIT_PIDS;
	if (limits->cpu_time_ms && !(limiter->counted & NEXBOX_LIMIT_CPU_TIME))
		plan->lookout |= NEXBOX_LIMIT_CPU_TIME;
	if (limiter->measure.watched & NEXBOX_LIMIT_MEMORY) {
		plan->lookout |= NEXBOX_LIMIT_MEMORY;
		plan->memory_max_bytes = limits->memory_bytes;
	}
}

static void raise_to(uint64_t *figure, uint64_t value)
{
	if (value != NX_UNKNOWN && (*figure == NX_UNKNOWN || *figure < value))
		*figure = value;
}

void nx_limiter_hear(struct nx_limiter *limiter, const struct nx_wire *wire)
{
	struct nx_usage *usage = &limiter->measure.usage;
	uint64_t n_others = limiter->n_own - 1; /* ours, besides who looked */

	if (!limiter->looks)
		return;
	limiter->measure.hit |= wire->limits_hit;
	raise_to(&usage->cpu_time_micros, wire->cpu_time_micros);
	raise_to(&usage->peak_memory_bytes, wire->peak_memory_bytes);
	raise_to(&usage->bytes_written, wire->bytes_written);
	if (wire->processes != NX_UNKNOWN && wire->processes >= n_others)
		raise_to(&usage->processes, wire->processes - n_others);
}

void nx_limiter_measure(const struct nx_limiter *limiter, struct nx_measure *ret_measure)
{
	uint64_t max_micros = limiter->limits.cpu_time_ms * 1000;

	*ret_measure = limiter->measure;
	if (limiter->cgroup)
		nx_cgroup_measure(limiter->cgroup, ret_measure);
	if (max_micros && ret_measure->usage.cpu_time_micros != NX_UNKNOWN &&
	    ret_measure->usage.cpu_time_micros >= max_micros)
		ret_measure->hit |= NEXBOX_LIMIT_CPU_TIME;
}

void nx_limiter_fini(struct nx_limiter *limiter)
{
	limiter->cgroup = nx_cgroup_free(limiter->cgroup);
}
