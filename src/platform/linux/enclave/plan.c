/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/enclave/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/path.h"
#include "platform/linux/enclave/secrets.h"
#include "platform/linux/enclave/server.h"
#include "platform/linux/enclave/table.h"
#include "platform/linux/view/fuse_overlayfs.h"
#include "platform/linux/view/layers.h"

/* ---- what the plans of both tiers are made of ---- */

uint32_t nx_plan_put(struct nx_buf *plan, const void *data, size_t size)
{
	static const char zeroes[8] = { 0 };
	uint32_t offset;

	nx_buf_append(plan, zeroes, -plan->size & 7);
	offset = (uint32_t)plan->size;
	nx_buf_append(plan, data, size);
	return offset;
}

uint32_t nx_plan_put_string(struct nx_buf *plan, const char *s)
{
	uint32_t offset = (uint32_t)plan->size;

	nx_buf_append(plan, s, strlen(s) + 1);
	return offset;
}

uint32_t nx_plan_put_strings(struct nx_buf *plan, const char *const *strings)
{
	NX_AUTO_FREE uint32_t *offsets = NULL;
	size_t n = 0;

	while (strings && strings[n])
		n++;
	offsets = calloc(n + 1, sizeof(*offsets));
	if (!offsets) {
		plan->failed = true;
		return 0;
	}
	for (size_t i = 0; i < n; i++)
		offsets[i] = nx_plan_put_string(plan, strings[i]);
	return nx_plan_put(plan, offsets, (n + 1) * sizeof(*offsets));
}

/* Whether "NAME=VALUE" is about @name. */
static bool is_about(const char *entry, const char *name)
{
	size_t n = strlen(name);

	return strncmp(entry, name, n) == 0 && entry[n] == '=';
}

uint32_t nx_plan_put_environment(struct nx_buf *plan, const char *const *envp, const char *note)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf variable = NX_BUF_INIT;
	NX_AUTO_FREE const char **all = NULL;
	bool is_set = false;
	size_t n = 0;

	for (; envp[n]; n++)
		is_set = is_set || is_about(envp[n], NX_NOTE_VARIABLE);
	all = calloc(n + 2, sizeof(*all));
	if (!all || !nx_buf_printf(&variable, NX_NOTE_VARIABLE "=%s", note)) {
		plan->failed = true;
		return 0;
	}
	memcpy(all, envp, n * sizeof(*all));
	all[n] = is_set ? NULL : variable.data;
	return nx_plan_put_strings(plan, all);
}

static uint32_t flags_of(const struct nx_launch *launch)
{
	uint32_t flags = 0;

	if (launch->flags & NX_LAUNCH_TERMINAL)
		flags |= NX_PLAN_TERMINAL;
	if (geteuid() == 0)
		flags |= NX_PLAN_KEEP_CAPS;
	if (launch->stdin_fd >= 0)
		flags |= NX_PLAN_HAS_STDIN;
	if (launch->stdout_fd >= 0)
		flags |= NX_PLAN_HAS_STDOUT;
	if (launch->stderr_fd >= 0)
		flags |= NX_PLAN_HAS_STDERR;
	if (launch->strategy == &nx_strategy_fuse_overlayfs)
		flags |= NX_PLAN_SERVED;
	return flags;
}

void nx_plan_begin(struct nx_plan *head, struct nx_buf *plan, const struct nx_launch *launch)
{
	*head = (struct nx_plan){
		.magic = NX_PLAN_MAGIC,
		.flags = flags_of(launch),
		.rows = launch->rows,
		.columns = launch->columns,
		.deadline_ms = launch->deadline_ms,
	};
	(void)pthread_sigmask(SIG_SETMASK, NULL, &head->signals);
	nx_buf_append(plan, head, sizeof(*head));
}

int nx_plan_end(struct nx_plan *head, struct nx_buf *plan, struct nexbox_error *err)
{
	if (plan->failed || plan->size > INT32_MAX)
		return nx_nomem(err, "plan");
	head->size_bytes = (uint32_t)plan->size;
	memcpy(plan->data, head, sizeof(*head));
	return 0;
}

bool nx_launch_gives(const struct nx_launch *launch, const char *path)
{
	for (size_t i = 0; i < launch->n_grants; i++)
		if (launch->grants[i].kind != NEXBOX_GRANT_HIDE &&
		    nx_path_is_below(path, launch->grants[i].path))
			return true;
	return false;
}

/* ---- the plan of the namespaces tier ---- */

/* Private and empty in every box. "/dev" is made from "devices". */
static const struct {
	const char *path;
	const char *scratch; /* its folder in the scratch */
	uint32_t mode;
} private_places[] = {
	{ "/tmp", "/tmp", 01777 },
	{ "/var/tmp", "/vartmp", 01777 },
	{ "/run", "/run", 0755 },
	{ "/dev", "/dev", 0755 },
};

static const char *const devices[] = { "null", "zero", "full", "random", "urandom", "tty" };

static const struct {
	const char *path;
	const char *target;
} device_links[] = {
	{ "/dev/fd", "/proc/self/fd" },       { "/dev/stdin", "/proc/self/fd/0" },
	{ "/dev/stdout", "/proc/self/fd/1" }, { "/dev/stderr", "/proc/self/fd/2" },
	{ "/dev/ptmx", "pts/ptmx" },
};

/*
 * Parts of /proc that reach the whole machine. An ordinary user's permissions
 * close them already; a root caller's do not (KERNEL-FACTS, Confinement 2).
 */
static const char *const locked[] = {
	"/proc/sys", "/proc/sysrq-trigger", "/proc/irq",  "/proc/bus",
	"/proc/fs",  "/proc/acpi",          "/proc/scsi", "/proc/mtrr",
};
static const char *const masked[] = {
	"/proc/kcore",       "/proc/kmsg",          "/proc/keys",        "/proc/key-users",
	"/proc/timer_list",  "/proc/latency_stats", "/proc/sched_debug", "/sys/firmware",
	"/sys/kernel/debug", "/sys/kernel/tracing",
};

/* Where tools insist on writing, when the home directory cannot be a layer. */
static const char *const caches[] = { ".cache", ".npm", ".cargo/registry" };

/* One mount that is put in place when the private places are there. */
struct place {
	const char *path;
	uint32_t slot;
	uint32_t flags; /* of the op */
	bool is_file;
};

struct builder {
	const struct nx_launch *launch;
	struct nx_buf *out;
	struct nx_arena arena;
	struct nx_op *ops;
	size_t n_ops;
	size_t capacity;
	struct place *places;
	size_t n_places;
	size_t places_capacity;
	uint32_t n_slots;
	uint32_t writable[64];
	size_t n_writable;
	struct nx_plan_cow *cow;
	bool failed; /* memory, or slots, ran out */
};

static void builder_fini(struct builder *b)
{
	nx_arena_fini(&b->arena);
	free(b->ops);
	free(b->places);
}

static uint32_t new_slot(struct builder *b)
{
	if (b->n_slots + 1 >= NX_PLAN_SLOTS) {
		b->failed = true;
		return 0;
	}
	return ++b->n_slots; /* slot 0 stays empty */
}

static void add_op(struct builder *b, struct nx_op op)
{
	if (!nx_grow(&b->ops, &b->capacity, b->n_ops, sizeof(*b->ops))) {
		b->failed = true;
		return;
	}
	b->ops[b->n_ops++] = op;
}

static void add(struct builder *b, enum nx_op_kind kind, uint32_t flags, uint32_t slot,
                const char *a)
{
	add_op(b, (struct nx_op){ .kind = (uint16_t)kind,
	                          .flags = (uint16_t)flags,
	                          .slot = slot,
	                          .a = a ? nx_plan_put_string(b->out, a) : 0 });
}

static void add_place(struct builder *b, const char *path, uint32_t slot, uint32_t flags,
                      bool is_file)
{
	if (!nx_grow(&b->places, &b->places_capacity, b->n_places, sizeof(*b->places))) {
		b->failed = true;
		return;
	}
	b->places[b->n_places++] = (struct place){ path, slot, flags, is_file };
}

static void add_writable(struct builder *b, const char *path)
{
	if (b->n_writable + 1 >= NX_ARRAY_SIZE(b->writable))
		b->failed = true;
	else
		b->writable[b->n_writable++] = nx_plan_put_string(b->out, path);
}

static const char *format(struct builder *b, const char *before, const char *after)
{
	size_t n = strlen(before);
	char *s = nx_arena_alloc(&b->arena, n + strlen(after) + 1);

	if (!s) {
		b->failed = true;
		return "";
	}
	memcpy(s, before, n);
	memcpy(s + n, after, strlen(after) + 1);
	return s;
}

static bool is_private_place(const char *path)
{
	for (size_t i = 0; i < NX_ARRAY_SIZE(private_places); i++)
		if (nx_path_is_below(path, private_places[i].path))
			return true;
	return false;
}

static bool is_dir(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/*
 * A device on a read-only mount can be written to, but its mode, owner and times
 * cannot be changed: the inode is the host's.
 */
static void clone_devices(struct builder *b, uint32_t *slots)
{
	for (size_t i = 0; i < NX_ARRAY_SIZE(devices); i++) {
		slots[i] = new_slot(b);
		add(b, NX_OP_CLONE, 0, slots[i], format(b, "/dev/", devices[i]));
		add_op(b, (struct nx_op){ .kind = NX_OP_ATTRIBUTES,
		                          .slot = slots[i],
		                          .n = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
		                               MOUNT_ATTR_NOEXEC });
	}
}

static void clone_place(struct builder *b, const char *path, uint64_t attributes, bool is_file,
                        uint32_t flags)
{
	uint32_t slot = new_slot(b);

	add(b, NX_OP_CLONE, NX_OP_RECURSIVE | NX_OP_REAL | flags, slot, path);
	add_op(b, (struct nx_op){ .kind = NX_OP_ATTRIBUTES,
	                          .flags = NX_OP_RECURSIVE | NX_OP_IF,
	                          .slot = slot,
	                          .n = (uint32_t)attributes });
	add_place(b, path, slot, NX_OP_IF, is_file);
}

static bool is_below_secret(const struct nx_launch *launch, const char *path);

static void clone_grants(struct builder *b)
{
	for (size_t i = 0; i < b->launch->n_grants; i++) {
		const struct nexbox_grant *grant = &b->launch->grants[i];
		struct stat st;
		bool is_file = stat(grant->path, &st) == 0 && !S_ISDIR(st.st_mode);

		if (grant->kind == NEXBOX_GRANT_WRITE) {
			clone_place(b, grant->path, NX_HARMLESS, is_file, 0);
			add_writable(b, grant->path);
		} else if (grant->kind == NEXBOX_GRANT_READ &&
		           (is_private_place(grant->path) ||
		            is_below_secret(b->launch, grant->path))) {
			/* Elsewhere the host's own tree shows it, read-only. */
			clone_place(b, grant->path, NX_HARMLESS | MOUNT_ATTR_RDONLY, is_file, 0);
		}
	}
}

/* The resolver's file is often a link into /run, which is private. */
static void clone_resolver(struct builder *b, bool net_host)
{
	char path[PATH_MAX];

	if (!net_host || !realpath("/etc/resolv.conf", path) || !is_private_place(path))
		return;
	clone_place(b, format(b, path, ""), NX_HARMLESS | MOUNT_ATTR_RDONLY, true, NX_OP_OPTIONAL);
}

/*
 * Mounts inside the workspace stay visible, read-only. They are covered by the
 * view, so a copy is taken before and put back over it.
 */
static void clone_nested(struct builder *b, const struct nx_table *table)
{
	const char *last = NULL;

	for (size_t i = 0; i < table->n_mounts; i++) {
		const char *path = table->mounts[i].path;
		struct stat st;

		if (!nx_path_is_below(path, b->launch->workspace) ||
		    strcmp(path, b->launch->workspace) == 0)
			continue;
		if (last && nx_path_is_below(path, last))
			continue; /* came along with the one above it */
		last = path;
		clone_place(b, path, NX_HARMLESS | MOUNT_ATTR_RDONLY,
		            lstat(path, &st) == 0 && !S_ISDIR(st.st_mode), 0);
	}
}

static const char *choose_scratch(const struct nx_launch *launch);

/*
 * The program sees the workspace at a fixed place of the system's, whose path holds
 * none of the characters that its options are parted by.
 */
static void make_served_view(struct builder *b)
{
	const struct nx_launch *launch = b->launch;
	const char *place = choose_scratch(launch);
	const char *session = launch->session + strlen(launch->workspace);
	uint32_t slot = new_slot(b);
	const char *argv[] = { nx_fuse_program(), "-f", "-o", NULL, NX_SERVER_MOUNT_POINT, NULL };
	NX_CLEANUP(nx_buf_fini) struct nx_buf options = NX_BUF_INIT;

	if (!place)
		place = "/dev";
	session = format(b, place, session);
	/* Writing through keeps the times exact, and leaves nothing behind in the kernel. */
	nx_buf_printf(&options,
	              "lowerdir=%s,upperdir=%s/" NX_LAYER_UPPER ",workdir=%s/" NX_LAYER_WORK
	              ",volatile,writeback=0,plugins=",
	              place, session, session);
	argv[3] = options.data;
	b->failed = b->failed || options.failed;
	add_op(b, (struct nx_op){ .kind = NX_OP_SERVE,
	                          .slot = slot,
	                          .a = nx_plan_put_string(b->out, launch->workspace),
	                          .b = nx_plan_put_string(b->out, place),
	                          .c = nx_plan_put_strings(b->out, argv),
	                          .n = nx_plan_put_string(b->out, session) });
	add_place(b, launch->workspace, slot, 0, false);
	add_writable(b, launch->workspace);
}

static void make_view(struct builder *b)
{
	const struct nx_launch *launch = b->launch;
	/* Relative to the workspace, where no name can hold a ':' or a ','. */
	const char *session = launch->session + strlen(launch->workspace) + 1;
	struct nx_op op = { .kind = NX_OP_VIEW,
		            .slot = new_slot(b),
		            .a = nx_plan_put_string(b->out, launch->workspace) };
	uint32_t slot = op.slot;

	if (launch->strategy->kind == NX_VIEW_TREE) {
		op.b = nx_plan_put_string(b->out, format(b, session, "/" NX_TREE_NAME));
	} else {
		op.b = nx_plan_put_string(b->out, format(b, session, "/" NX_LAYER_UPPER));
		op.c = nx_plan_put_string(b->out, format(b, session, "/" NX_LAYER_WORK));
	}
	add_op(b, op);
	add_place(b, launch->workspace, slot, 0, false);
	add_writable(b, launch->workspace);
}

/*
 * KERNEL < 6.6: a tmpfs takes no user.* attributes. An overlay whose upper is one
 * cannot mark there that a folder hides the lower one, so that removing a folder
 * of the lower is EIO. Asked of a memfd, which lies in a tmpfs of the kernel's.
 */
static bool tmpfs_takes_marks(void)
{
	NX_AUTO_FD fd = memfd_create("nex-box-marks", MFD_CLOEXEC);

	return fd < 0 || fsetxattr(fd, "user.nexbox", "", 0, 0) == 0 || errno != EOPNOTSUPP;
}

/* An overlay over @path whose upper is thrown away; returns its slot. */
static uint32_t add_cow(struct builder *b, const char *scratch, const char *path, uint32_t flags)
{
	struct nx_plan_cow *cow = b->cow;
	uint32_t slot = new_slot(b);
	char name[32];

	(void)snprintf(name, sizeof(name), "/%zu", cow->n_places);
	add_op(b, (struct nx_op){ .kind = NX_OP_SCRATCH_COW,
	                          .flags = (uint16_t)flags,
	                          .slot = slot,
	                          .a = nx_plan_put_string(b->out, path),
	                          .b = nx_plan_put_string(b->out, format(b, scratch, name)) });
	add_place(b, path, slot, NX_OP_IF, false);
	if (!nx_grow(&cow->places, &cow->capacity, cow->n_places, sizeof(*cow->places))) {
		b->failed = true;
		return slot;
	}
	(void)snprintf(name, sizeof(name), "%zu/u", cow->n_places);
	cow->places[cow->n_places] = (struct nx_cow_place){
		.path = nx_arena_strdup(&cow->arena, path),
		.upper = nx_arena_strdup(&cow->arena, name),
	};
	if (!cow->places[cow->n_places].path || !cow->places[cow->n_places].upper)
		b->failed = true;
	cow->n_places++;
	return slot;
}

/*
 * The home, and what else was asked for; their layers are folders of @layers.
 * Returns the slot of the home's overlay.
 */
static uint32_t add_cows(struct builder *b, const char *layers)
{
	const struct nx_launch *launch = b->launch;
	uint32_t home_slot = 0;

	if (launch->home) {
		home_slot = add_cow(b, layers, launch->home, NX_OP_OPTIONAL);
		add_writable(b, launch->home);
	}
	for (size_t i = 0; i < launch->n_grants; i++) {
		if (launch->grants[i].kind != NEXBOX_GRANT_COW)
			continue;
		(void)add_cow(b, layers, launch->grants[i].path, 0);
		add_writable(b, launch->grants[i].path);
	}
	return home_slot;
}

/* Layers in the session, which is there when the view is. */
static uint32_t add_cows_on_disk(struct builder *b)
{
	const char *layers = format(b, b->launch->session, "/" NX_THROWN_AWAY_NAME);

	if (!b->launch->home && b->launch->n_grants == 0)
		return 0;
	add(b, NX_OP_SCRATCH_ON_DISK, 0, 0, layers);
	return add_cows(b, layers);
}

/* Whether somebody's files are to be seen in a private place. */
static bool is_taken(const struct nx_launch *launch, const char *path)
{
	bool taken = !is_dir(path) || (launch->home && nx_path_is_below(launch->home, path)) ||
	             nx_path_is_below(launch->workspace, path);

	for (size_t i = 0; i < launch->n_grants; i++)
		taken = taken || nx_path_is_below(launch->grants[i].path, path);
	return taken;
}

/* A private place that is on nobody's way while the layers are made in it. */
static const char *choose_scratch(const struct nx_launch *launch)
{
	for (size_t i = 0; i < NX_ARRAY_SIZE(private_places); i++)
		if (!is_taken(launch, private_places[i].path))
			return private_places[i].path;
	return NULL;
}

/* The note lies where nothing of the user's can cover it, and /tmp is to be empty. */
static const char *choose_note(const struct nx_launch *launch)
{
	return is_taken(launch, "/run") ? "/dev/nex-box-policy.txt" : "/run/nex-box-policy.txt";
}

/* What is writable besides the workspace, and where that is said. */
static void add_note(struct builder *b, uint32_t home_slot)
{
	const struct nx_launch *launch = b->launch;
	NX_CLEANUP(nx_buf_fini) struct nx_buf text = NX_BUF_INIT;
	struct nx_op op = { .kind = NX_OP_TEXT,
		            .slot = home_slot,
		            .a = nx_plan_put_string(b->out, choose_note(launch)) };

	nx_buf_puts(&text, launch->note);
	nx_buf_puts(&text, "Private, empty at the start, and thrown away: /dev/shm");
	for (size_t i = 0; i < NX_ARRAY_SIZE(private_places); i++)
		if (strcmp(private_places[i].path, "/dev") != 0 && is_dir(private_places[i].path))
			nx_buf_printf(&text, ", %s", private_places[i].path);
	nx_buf_puts(&text, ".\n");
	b->failed = b->failed || text.failed;
	op.b = nx_plan_put_string(b->out, text.data ? text.data : "");
	if (launch->home) {
		nx_buf_truncate(&text, 0);
		nx_buf_printf(&text,
		              "The home directory '%s' is a copy: writable, and thrown away.\n",
		              nx_quote(launch->home));
		op.c = nx_plan_put_string(b->out, text.data ? text.data : "");
		nx_buf_truncate(&text, 0);
		nx_buf_puts(&text,
		            "In the home directory, only these can be written to, and are empty "
		            "and thrown away:");
		for (size_t i = 0; i < NX_ARRAY_SIZE(caches); i++)
			nx_buf_printf(&text, " ~/%s", caches[i]);
		nx_buf_puts(&text, ".\n");
		op.n = nx_plan_put_string(b->out, text.data ? text.data : "");
		b->failed = b->failed || text.failed;
	}
	add_op(b, op);
}

/*
 * Makes, in one tmpfs, the private places and the layers of what is thrown away.
 * Fills @slots, one a private place; returns the tmpfs' path.
 */
static const char *make_scratch(struct builder *b, uint32_t *slots, uint32_t *ret_shm)
{
	const char *scratch = choose_scratch(b->launch);

	/* Somebody's files are in every place: what covers them cannot be copied then. */
	if (!scratch)
		scratch = "/dev";
	add(b, NX_OP_SCRATCH, 0, 0, scratch);
	for (size_t i = 0; i < NX_ARRAY_SIZE(private_places); i++) {
		slots[i] = new_slot(b);
		add_op(b, (struct nx_op){
				  .kind = NX_OP_SCRATCH_DIR,
				  .slot = slots[i],
				  .b = nx_plan_put_string(b->out, format(b, scratch,
		                                                         private_places[i].scratch)),
				  .n = private_places[i].mode });
	}
	*ret_shm = new_slot(b);
	add_op(b, (struct nx_op){ .kind = NX_OP_SCRATCH_DIR,
	                          .slot = *ret_shm,
	                          .b = nx_plan_put_string(b->out, format(b, scratch, "/shm")),
	                          .n = 01777 });
	return scratch;
}

static void attach_private_places(struct builder *b, const uint32_t *slots, uint32_t shm_slot,
                                  const uint32_t *device_slots)
{
	for (size_t i = 0; i < NX_ARRAY_SIZE(private_places); i++) {
		const char *path = private_places[i].path;

		if (!is_dir(path))
			continue;
		add(b, NX_OP_ATTACH, 0, slots[i], path);
		add_writable(b, path);
	}
	for (size_t i = 0; i < NX_ARRAY_SIZE(devices); i++) {
		const char *path = format(b, "/dev/", devices[i]);

		add(b, NX_OP_FILE, 0, 0, path);
		add(b, NX_OP_ATTACH, 0, device_slots[i], path);
	}
	for (size_t i = 0; i < NX_ARRAY_SIZE(device_links); i++)
		add_op(b, (struct nx_op){ .kind = NX_OP_SYMLINK,
		                          .a = nx_plan_put_string(b->out, device_links[i].path),
		                          .b = nx_plan_put_string(b->out, device_links[i].target) });
	add(b, NX_OP_WAY, 0, 0, "/dev/pts");
	add(b, NX_OP_DEVPTS, 0, 0, "/dev/pts");
	add(b, NX_OP_WAY, 0, 0, "/dev/shm");
	add(b, NX_OP_ATTACH, 0, shm_slot, "/dev/shm");
}

static int by_length(const void *a, const void *b)
{
	size_t la = strlen(((const struct place *)a)->path);
	size_t lb = strlen(((const struct place *)b)->path);

	return la < lb ? -1 : la > lb;
}

/* The home directories in which credentials are hidden. */
static const char *home_of(const struct nx_launch *launch, size_t i)
{
	return i < NX_ARRAY_SIZE(launch->secret_homes) ? launch->secret_homes[i] : NULL;
}

/* Whether a path lies below something that is hidden. */
static bool is_below_secret(const struct nx_launch *launch, const char *path)
{
	const char *home;

	for (size_t h = 0; (home = home_of(launch, h)); h++) {
		const char *rest = path + strlen(home) + 1;

		if (!nx_path_is_below(path, home) || strlen(path) <= strlen(home))
			continue;
		for (size_t i = 0; nx_secrets[i]; i++)
			if (strcmp(rest, nx_secrets[i]) != 0 && nx_path_is_below(rest, nx_secrets[i]))
				return true;
	}
	return false;
}

static void make_mount_point(struct builder *b, const struct place *place)
{
	const char *slash = strrchr(place->path, '/');
	char *parent;

	if (!place->is_file) {
		add(b, NX_OP_WAY, place->flags, place->slot, place->path);
		return;
	}
	parent = nx_arena_strndup(&b->arena, place->path, (size_t)(slash - place->path));
	add(b, NX_OP_WAY, place->flags, place->slot, parent ? parent : "/");
	add(b, NX_OP_FILE, place->flags, place->slot, place->path);
}

/*
 * What contains another place is shorter, and comes first. Those below a secret
 * come when it has been covered, on top of the cover.
 */
static void attach_places(struct builder *b, bool below_secrets)
{
	if (b->n_places > 0)
		qsort(b->places, b->n_places, sizeof(*b->places), by_length);
	for (size_t i = 0; i < b->n_places; i++) {
		const struct place *place = &b->places[i];

		if (is_below_secret(b->launch, place->path) != below_secrets)
			continue;
		if (below_secrets || is_private_place(place->path))
			make_mount_point(b, place);
		add(b, NX_OP_ATTACH, place->flags | NX_OP_REAL, place->slot, place->path);
	}
}

static void protect_proc(struct builder *b)
{
	add(b, NX_OP_PROC, 0, 0, "/proc");
	add_writable(b, "/proc");
	for (size_t i = 0; i < NX_ARRAY_SIZE(locked); i++)
		if (i == 0 || geteuid() == 0)
			add(b, NX_OP_LOCK, NX_OP_OPTIONAL, 0, locked[i]);
	for (size_t i = 0; geteuid() == 0 && i < NX_ARRAY_SIZE(masked); i++)
		if (access(masked[i], F_OK) == 0)
			add(b, NX_OP_MASK, NX_OP_OPTIONAL, 0, masked[i]);
}

static bool has_place_below(const struct builder *b, const char *path)
{
	for (size_t i = 0; i < b->n_places; i++)
		if (nx_path_is_below(b->places[i].path, path))
			return true;
	return false;
}

static void mask_secrets(struct builder *b, const char *home)
{
	NX_AUTO_FD home_fd = open(home, O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (size_t i = 0; home_fd >= 0 && nx_secrets[i]; i++) {
		const char *path;

		if (faccessat(home_fd, nx_secrets[i], F_OK, 0) < 0)
			continue;
		path = format(b, format(b, home, "/"), nx_secrets[i]);
		if (nx_launch_gives(b->launch, path))
			continue;
		/* A workspace, or one file that was granted, may lie in a hidden folder. */
		if (has_place_below(b, path))
			add_op(b, (struct nx_op){ .kind = NX_OP_TMPFS,
			                          .a = nx_plan_put_string(b->out, path),
			                          .n = 0755 });
		else
			add(b, NX_OP_MASK, 0, 0, path);
	}
}

/*
 * A socket on a path answers through a read-only mount, but not through an
 * overlay (KERNEL-FACTS, Confinement 3).
 */
static bool is_nested(const struct nx_launch *launch, const struct nx_table *table, const char *path)
{
	for (size_t i = 0; i < table->n_mounts; i++)
		if (strcmp(table->mounts[i].path, launch->workspace) != 0 &&
		    nx_path_is_below(table->mounts[i].path, launch->workspace) &&
		    nx_path_is_below(path, table->mounts[i].path))
			return true;
	return false;
}

static void mask_sockets(struct builder *b, const struct nx_table *table)
{
	const struct nx_launch *launch = b->launch;

	for (size_t i = 0; i < table->n_sockets; i++) {
		char path[PATH_MAX];
		struct stat st;

		if (is_private_place(table->sockets[i]) || !realpath(table->sockets[i], path) ||
		    is_private_place(path) ||
		    (nx_path_is_below(path, launch->workspace) && !is_nested(launch, table, path)) ||
		    lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
			continue;
		if (!nx_launch_gives(launch, path))
			add(b, NX_OP_MASK, NX_OP_OPTIONAL, 0, path);
	}
	for (size_t i = 0; i < table->n_mounts; i++) {
		const char *path = table->mounts[i].path;
		struct stat st;

		if (!is_private_place(path) && lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
			add(b, NX_OP_MASK, 0, 0, path);
	}
}

static void build_tree(struct builder *b, const struct nx_table *table, bool net_host)
{
	const struct nx_launch *launch = b->launch;
	uint32_t device_slots[NX_ARRAY_SIZE(devices)];
	uint32_t place_slots[NX_ARRAY_SIZE(private_places)];
	bool on_disk = !tmpfs_takes_marks();
	const char *scratch;
	uint32_t shm_slot;
	uint32_t home_slot = 0;

	add(b, NX_OP_PRIVATE, 0, 0, NULL);
	clone_devices(b, device_slots);
	clone_grants(b);
	clone_resolver(b, net_host);
	clone_nested(b, table);
	scratch = make_scratch(b, place_slots, &shm_slot);
	if (!on_disk)
		home_slot = add_cows(b, scratch);
	/* As late as can be: until here the caller makes the session's folders. */
	if (launch->strategy == &nx_strategy_fuse_overlayfs)
		make_served_view(b);
	else
		make_view(b);
	if (on_disk)
		home_slot = add_cows_on_disk(b);
	add(b, NX_OP_READ_ONLY, 0, 0, NULL);
	attach_private_places(b, place_slots, shm_slot, device_slots);
	attach_places(b, false);
	add_note(b, home_slot);
	for (size_t i = 0; launch->home && i < NX_ARRAY_SIZE(caches); i++) {
		const char *path = format(b, format(b, launch->home, "/"), caches[i]);

		add_op(b, (struct nx_op){ .kind = NX_OP_TMPFS,
		                          .flags = NX_OP_OPTIONAL | NX_OP_UNLESS,
		                          .slot = home_slot,
		                          .a = nx_plan_put_string(b->out, path),
		                          .n = 0700 });
	}
	protect_proc(b);
	for (size_t i = 0; home_of(launch, i); i++)
		mask_secrets(b, home_of(launch, i));
	attach_places(b, true);
	mask_sockets(b, table);
	for (size_t i = 0; i < launch->n_grants; i++)
		if (launch->grants[i].kind == NEXBOX_GRANT_HIDE)
			add(b, NX_OP_MASK, NX_OP_OPTIONAL, 0, launch->grants[i].path);
}

static const char *path_of(const char *const *envp)
{
	for (size_t i = 0; envp[i]; i++)
		if (strncmp(envp[i], "PATH=", 5) == 0)
			return envp[i] + 5;
	return "/usr/local/bin:/usr/bin:/bin";
}

/* An overlay without privilege cannot have somebody else's mount in its lower. */
static int refuse_nested(const struct nx_launch *launch, const struct nx_table *table,
                         struct nexbox_error *err)
{
	if (geteuid() == 0 || launch->strategy->kind != NX_VIEW_LAYER ||
	    launch->strategy == &nx_strategy_fuse_overlayfs)
		return 0;
	for (size_t i = 0; i < table->n_mounts; i++) {
		const char *path = table->mounts[i].path;

		if (nx_path_is_below(path, launch->workspace) && strcmp(path, launch->workspace) != 0)
			return nx_fail(err, NEXBOX_E_UNSUPPORTED, 0, NX_WHERE_VIEW,
			               "'%s' is a mount inside the workspace, which an overlay cannot "
			               "hold without privilege: unmount it, or run as root",
			               nx_quote(path));
	}
	return 0;
}

int nx_plan_build(const struct nx_launch *launch, bool net_host, struct nx_plan_cow *cow,
                  struct nx_buf *out, struct nexbox_error *err)
{
	NX_CLEANUP(builder_fini) struct builder b = { .launch = launch, .out = out, .cow = cow };
	NX_CLEANUP(nx_table_fini) struct nx_table table = { 0 };
	struct nx_plan plan;
	int r = nx_table_read(&table, err);

	if (r < 0)
		return r;
	r = refuse_nested(launch, &table, err);
	if (r < 0)
		return r;
	nx_plan_begin(&plan, out, launch);
	plan.argv = nx_plan_put_strings(out, launch->argv);
	plan.envp = nx_plan_put_environment(out, launch->envp, choose_note(launch));
	plan.path = nx_plan_put_string(out, path_of(launch->envp));
	plan.directory = nx_plan_put_string(out, launch->directory);
	plan.workspace = nx_plan_put_string(out, launch->workspace);
	build_tree(&b, &table, net_host);
	b.writable[b.n_writable] = 0;
	plan.writable = nx_plan_put(out, b.writable, (b.n_writable + 1) * sizeof(b.writable[0]));
	plan.ops = nx_plan_put(out, b.ops, b.n_ops * sizeof(*b.ops));
	plan.n_ops = (uint32_t)b.n_ops;
	if (b.n_slots + 1 >= NX_PLAN_SLOTS)
		return nx_fail(err, NEXBOX_E_INVALID, 0, "plan",
		               "too many grants and mounts for one box: name fewer folders");
	return b.failed ? nx_nomem(err, "plan") : nx_plan_end(&plan, out, err);
}

/* What each step is, in words; %s is its first path. */
static const char *const words[] = {
	[NX_OP_PRIVATE] = "cannot make the mounts private",
	[NX_OP_CLONE] = "cannot take '%s' into the box",
	[NX_OP_VIEW] = "no view can be mounted over '%s'",
	[NX_OP_SERVE] = "fuse-overlayfs cannot serve a view of '%s'",
	[NX_OP_SCRATCH] = "cannot mount a tmpfs at '%s'",
	[NX_OP_SCRATCH_DIR] = "cannot make a private place",
	[NX_OP_SCRATCH_ON_DISK] = "cannot make the folder '%s'",
	[NX_OP_SCRATCH_COW] = "no overlay can be mounted over '%s'",
	[NX_OP_READ_ONLY] = "cannot make the host read-only",
	[NX_OP_TMPFS] = "cannot mount a tmpfs at '%s'",
	[NX_OP_WAY] = "cannot make the folder '%s' in the box",
	[NX_OP_FILE] = "cannot make the file '%s' in the box",
	[NX_OP_TEXT] = "cannot write the file '%s' in the box",
	[NX_OP_SYMLINK] = "cannot make the link '%s' in the box",
	[NX_OP_ATTACH] = "cannot mount at '%s'",
	[NX_OP_ATTRIBUTES] = "cannot make a mount harmless",
	[NX_OP_PROC] = "cannot mount a fresh '%s': something below the outer one is masked (a "
		       "container?)",
	[NX_OP_DEVPTS] = "cannot mount terminals at '%s'",
	[NX_OP_LOCK] = "cannot make '%s' read-only",
	[NX_OP_MASK] = "cannot hide '%s'",
};

/* What no other way to make a view would change. */
static bool is_of_the_disk(int os_code)
{
	return os_code == ENOSPC || os_code == EDQUOT || os_code == EIO || os_code == ENOMEM;
}

int nx_plan_describe(const struct nx_plan *plan, uint32_t op, int os_code, struct nexbox_error *err)
{
	const struct nx_op *ops = nx_plan_at(plan, plan->ops);
	enum nexbox_errc code = NEXBOX_E_SYSTEM;
	struct nx_quoted quoted;
	char message[200];

	if (op >= plan->n_ops || ops[op].kind >= NX_ARRAY_SIZE(words))
		return nx_fail(err, NEXBOX_E_SYSTEM, os_code, "mounts", "step %u failed", op);
	(void)nx_quote_to(&quoted, ops[op].a ? nx_plan_string(plan, ops[op].a) : "");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	(void)snprintf(message, sizeof(message), words[ops[op].kind], quoted.text);
#pragma GCC diagnostic pop
	if (os_code == EPERM || os_code == EACCES || os_code == EINVAL || os_code == ENODEV ||
	    os_code == ENOSYS || os_code == EOPNOTSUPP)
		code = NEXBOX_E_UNSUPPORTED;
	if (ops[op].kind == NX_OP_VIEW || ops[op].kind == NX_OP_SERVE)
		return nx_fail(err, is_of_the_disk(os_code) ? NEXBOX_E_SYSTEM : NEXBOX_E_UNSUPPORTED,
		               os_code, NX_WHERE_VIEW, "%s", message);
	if (op == 0 && code == NEXBOX_E_UNSUPPORTED)
		return nx_fail(err, code, os_code, "mounts",
		               "%s: this host restricts user namespaces (AppArmor? see "
		               "kernel.apparmor_restrict_unprivileged_userns)",
		               message);
	return nx_fail(err, code, os_code, "mounts", "%s", message);
}
