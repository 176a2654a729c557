/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Stage caps: what was privileged to build the enclave becomes unprivileged.
 *
 * gives:            the command and its descendants hold no capability, in any
 *                   namespace, and no exec (set-ID, file capabilities, uid 0)
 *                   gives one back; a root caller's command keeps eight
 * needs:            Linux 3.5 (no_new_privs); CAP_SETPCAP for the bounding set
 * must come after:  user namespace, mounts, network, cgroup: they spend them
 * lost without:     everything: CAP_SYS_ADMIN in the box's user namespace
 *                   unmounts the view
 *
 * Raw system calls, not libcap: this runs between fork and exec of a process
 * that may have threads, and libcap allocates.
 */
#include "platform/linux/enclave/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/prctl.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BIT(cap) (UINT64_C(1) << (cap))

/* What Docker's default leaves that works on files and processes of other users. */
#define FILE_CAPS                                                                     \
	(BIT(CAP_DAC_OVERRIDE) | BIT(CAP_CHOWN) | BIT(CAP_FOWNER) | BIT(CAP_FSETID) | \
	 BIT(CAP_SETUID) | BIT(CAP_SETGID) | BIT(CAP_KILL) | BIT(CAP_NET_BIND_SERVICE))

/* What the kernel's own overlay does its work with. */
#define SERVER_CAPS                                                                            \
	(BIT(CAP_DAC_OVERRIDE) | BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_CHOWN) | BIT(CAP_FOWNER) | \
	 BIT(CAP_FSETID))

/* The kernel's sets are 64 bits wide; which of them exist it says by EINVAL. */
#define MAX_CAPS 64

struct sets {
	uint64_t effective, permitted, inheritable;
};

static int get_sets(struct sets *ret_sets)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct half[_LINUX_CAPABILITY_U32S_3] = { { 0 }, { 0 } };

	if (syscall(SYS_capget, &header, half) < 0)
		return -errno;
	ret_sets->effective = half[0].effective | (uint64_t)half[1].effective << 32;
	ret_sets->permitted = half[0].permitted | (uint64_t)half[1].permitted << 32;
	ret_sets->inheritable = half[0].inheritable | (uint64_t)half[1].inheritable << 32;
	return 0;
}

static int set_sets(const struct sets *sets)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct half[_LINUX_CAPABILITY_U32S_3] = {
		{
			.effective = (uint32_t)sets->effective,
			.permitted = (uint32_t)sets->permitted,
			.inheritable = (uint32_t)sets->inheritable,
		},
		{
			.effective = (uint32_t)(sets->effective >> 32),
			.permitted = (uint32_t)(sets->permitted >> 32),
			.inheritable = (uint32_t)(sets->inheritable >> 32),
		},
	};

	return syscall(SYS_capset, &header, half) < 0 ? -errno : 0;
}

/* prctl(2) with all its arguments: some operations insist on zeros. */
static int process_control(unsigned long operation, unsigned long a, unsigned long b)
{
	long r = syscall(SYS_prctl, operation, a, b, 0UL, 0UL);

	return r < 0 ? -errno : (int)r;
}

static int shrink_bounding_set(uint64_t keep)
{
	for (unsigned long cap = 0; cap < MAX_CAPS; cap++) {
		int r;

		if (keep & BIT(cap))
			continue;
		r = process_control(PR_CAPBSET_READ, cap, 0);
		if (r == -EINVAL) /* past this kernel's last one */
			return 0;
		if (r == 0)
			continue; /* dropped before: looking is cheaper than dropping again */
		r = process_control(PR_CAPBSET_DROP, cap, 0);
		if (r < 0)
			return r;
	}
	return 0;
}

int nx_caps_bound(int keep_file_caps)
{
	return shrink_bounding_set(keep_file_caps ? FILE_CAPS : 0);
}

int nx_caps_apply(int keep_file_caps)
{
	uint64_t keep = keep_file_caps ? FILE_CAPS : 0;
	struct sets sets = { 0 };
	int r;

	/* First, so that no failure further down leaves a way back. */
	r = process_control(PR_SET_NO_NEW_PRIVS, 1, 0);
	if (r < 0)
		return r;

	r = get_sets(&sets);
	if (r < 0)
		return r;
	if (sets.permitted & BIT(CAP_SETPCAP)) {
		/* The bounding set asks for the effective bit, which a setuid() clears. */
		sets.effective |= BIT(CAP_SETPCAP);
		r = set_sets(&sets);
		if (r < 0)
			return r;
		r = shrink_bounding_set(keep);
		if (r < 0)
			return r;
	}

	/* Ambient capabilities are inheritable ones: emptying that set drops them too. */
	sets.permitted &= keep;
	sets.effective = sets.permitted;
	sets.inheritable = 0;
	return set_sets(&sets);
}

int nx_caps_serve(void)
{
	struct sets sets = { 0 };
	int r = process_control(PR_SET_NO_NEW_PRIVS, 1, 0);

	if (r == 0)
		r = get_sets(&sets);
	if (r < 0)
		return r;
	/* Taking them away lowers the ambient ones too. */
	sets.permitted &= sets.inheritable & SERVER_CAPS;
	sets.effective = sets.permitted;
	sets.inheritable = sets.permitted;
	r = set_sets(&sets);
	for (unsigned long cap = 0; r == 0 && cap < MAX_CAPS; cap++)
		if (sets.permitted & BIT(cap))
			r = process_control(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap);
	return r;
}

int nx_caps_raise_ambient(void)
{
	struct sets sets = { 0 };
	int r;

	r = get_sets(&sets);
	if (r < 0)
		return r;
	sets.effective = sets.permitted;
	sets.inheritable = sets.permitted;
	r = set_sets(&sets);
	if (r < 0)
		return r;

	for (unsigned long cap = 0; cap < MAX_CAPS; cap++) {
		if (!(sets.permitted & BIT(cap)))
			continue;
		r = process_control(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap);
		if (r < 0)
			return r;
	}
	return 0;
}
