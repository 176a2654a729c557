/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef NEXBOX_NEXBOX_H
#define NEXBOX_NEXBOX_H

/*
 * libnexbox: run an untrusted command on a copy-on-write view of a workspace,
 * inside a kernel enclave, and promote or forget what it changed.
 *
 * The calling sequence of a run is three calls:
 *
 *	struct nexbox_run_options options = NEXBOX_RUN_OPTIONS_INIT;
 *	struct nexbox_outcome *outcome = NULL;
 *	struct nexbox_error error = { 0 };
 *
 *	options.argv = argv;
 *	options.envp = environ;
 *	options.flags = NEXBOX_RUN_COMMIT;
 *	if (nexbox_run(&options, &outcome, &error) < 0)
 *		fprintf(stderr, "%s: %s\n", error.where, error.message);
 *	...
 *	outcome = nexbox_outcome_free(outcome);
 *
 * What the library never does: print, exit, read the environment, keep global
 * state, install a signal handler, or leave a descriptor or a process behind.
 * Any function may be called from any thread; two threads may run two boxes
 * at once. None of them may be called between fork() and execve().
 *
 * Strings are NUL-terminated. Paths are bytes, not text: they need not be
 * UTF-8. Times are in the unit that the name ends in.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define NEXBOX_PUBLIC __attribute__((visibility("default")))
#else
#define NEXBOX_PUBLIC
#endif

/**
 * enum nexbox_errc - what the caller can do about a failure
 * @NEXBOX_E_INVALID:     an argument is wrong: mend the call
 * @NEXBOX_E_SYSTEM:      the operating system refused: see os_code
 * @NEXBOX_E_NOMEM:       out of memory
 * @NEXBOX_E_UNSUPPORTED: this host, or this version, cannot do it
 * @NEXBOX_E_CORRUPT:     a file of ours, or a layer of the view, holds what it must not
 * @NEXBOX_E_BUSY:        somebody else holds it: try again later
 * @NEXBOX_E_DENIED:      permission is missing: grant it, or choose another workspace
 * @NEXBOX_E_REFUSED:     a guarantee that was required cannot be given
 */
enum nexbox_errc {
	NEXBOX_E_INVALID = 1,
	NEXBOX_E_SYSTEM = 2,
	NEXBOX_E_NOMEM = 3,
	NEXBOX_E_UNSUPPORTED = 4,
	NEXBOX_E_CORRUPT = 5,
	NEXBOX_E_BUSY = 6,
	NEXBOX_E_DENIED = 7,
	NEXBOX_E_REFUSED = 8
};

/**
 * struct nexbox_error - one failure, described where it happened
 * @code:    enum nexbox_errc, or 0 while nothing failed
 * @os_code: errno (POSIX) or GetLastError() (Windows); 0 when no OS call failed
 * @where:   module or stage, e.g. "store"
 * @message: one sentence in UTF-8 without a newline; it names the object in
 *           single quotes and says what to do; bytes of a path that are not
 *           printable stand as \xNN
 */
struct nexbox_error {
	int32_t code;
	int32_t os_code;
	char where[24];
	char message[224];
};

/** enum nexbox_guarantee - what holds, or must hold, for a run; a bit mask */
enum nexbox_guarantee {
	NEXBOX_GUARANTEE_FS_WRITE = 1u << 0,   /* writes land in the view and private places only */
	NEXBOX_GUARANTEE_FS_SECRETS = 1u << 1, /* credentials in the home directory cannot be read */
	NEXBOX_GUARANTEE_NET = 1u << 2,        /* no network but a private loopback */
	NEXBOX_GUARANTEE_PROCESSES = 1u << 3, /* other processes can be neither seen nor signalled */
	NEXBOX_GUARANTEE_SYSCALLS = 1u << 4,  /* a system call filter is in force */
	NEXBOX_GUARANTEE_SAME_PATH = 1u << 5, /* the view lies at the workspace's own path */
	NEXBOX_GUARANTEE_SNAPSHOT = 1u << 6   /* later edits on the host do not show in the view */
};

/** NEXBOX_REQUIRE_DEFAULT - what a plain run insists on */
#define NEXBOX_REQUIRE_DEFAULT                                                            \
	(NEXBOX_GUARANTEE_FS_WRITE | NEXBOX_GUARANTEE_FS_SECRETS | NEXBOX_GUARANTEE_NET | \
	 NEXBOX_GUARANTEE_PROCESSES | NEXBOX_GUARANTEE_SYSCALLS)

/** enum nexbox_run_flags - bits of nexbox_run_options.flags */
enum nexbox_run_flags {
	NEXBOX_RUN_COMMIT = 1u << 0,      /* promote the changes if the command exits 0 */
	NEXBOX_RUN_KEEP = 1u << 1,        /* keep the box in the store after the run */
	NEXBOX_RUN_NET_HOST = 1u << 2,    /* the host's network instead of none */
	NEXBOX_RUN_BEST_EFFORT = 1u << 3, /* accept less than @require and report it */
	NEXBOX_RUN_CLEAN_ENV = 1u << 4,   /* start from a minimal environment, not from @envp */
	NEXBOX_RUN_CAPTURE = 1u << 5,     /* hand the kept output out in the outcome */
	/*
	 * The caller is a small program with a single thread: the box is forked
	 * from it and no helper program is started, which saves one exec (about
	 * 0.5 ms). Never set it in a process with threads or a large heap.
	 */
	NEXBOX_RUN_FORK = 1u << 6,
	/*
	 * With COMMIT: the promotion survives a loss of power from the moment that
	 * it is reported. Each file and each folder is synced once, the journal twice.
	 */
	NEXBOX_RUN_DURABLE = 1u << 12,
	/*
	 * With KEEP: do not put the box on the disk. It is refused when the machine was
	 * started anew, which a caller that discards it soon does not mind.
	 */
	NEXBOX_RUN_UNSYNCED = 1u << 13
};

/** enum nexbox_grant_kind - what a path outside the workspace is to the command */
enum nexbox_grant_kind {
	NEXBOX_GRANT_READ = 1,  /* readable; also gives back what is hidden by default */
	NEXBOX_GRANT_WRITE = 2, /* live: writes reach the host at once and are not undone */
	NEXBOX_GRANT_COW = 3,   /* writable, copy-on-write, thrown away */
	NEXBOX_GRANT_HIDE = 4   /* invisible; may lie inside the workspace */
};

/** struct nexbox_grant - one path and what is to be done with it */
struct nexbox_grant {
	uint32_t kind; /* enum nexbox_grant_kind */
	uint32_t reserved_zero;
	const char *path; /* relative to nexbox_run_options.cwd, or absolute */
};

/** enum nexbox_stream - a stream of the command's output */
enum nexbox_stream {
	NEXBOX_STREAM_STDOUT = 1,
	NEXBOX_STREAM_STDERR = 2
};

/** enum nexbox_on_conflict - what becomes of paths that the host changed as well */
enum nexbox_on_conflict {
	NEXBOX_ON_CONFLICT_FAIL = 0,  /* nothing is promoted */
	NEXBOX_ON_CONFLICT_OURS = 1,  /* the box's version is; the host's is kept in the box */
	NEXBOX_ON_CONFLICT_THEIRS = 2 /* the host's version stays, all the rest is promoted */
};

/** enum nexbox_guard - which paths are not promoted because the host runs them unasked */
enum nexbox_guard {
	NEXBOX_GUARD_DEFAULT = 0,
	NEXBOX_GUARD_STRICT = 1 /* also what runs beside an install, an import or a push */
};

/**
 * struct nexbox_run_options - all that a run is asked for
 *
 * Everything is borrowed for the time of the call. Start from
 * NEXBOX_RUN_OPTIONS_INIT and set what you need; only @argv must be set.
 *
 * @size:      sizeof(struct nexbox_run_options) of the caller
 * @flags:     enum nexbox_run_flags
 * @require:   guarantees (enum nexbox_guarantee) that must hold, or the run is
 *             refused; NEXBOX_GUARANTEE_NET falls away with NEXBOX_RUN_NET_HOST
 * @argv:      the command and its arguments, NULL-terminated; argv[0] is looked
 *             up in the PATH of the command's environment, inside the box
 * @envp:      the caller's environment, NULL-terminated; variables that carry
 *             credentials or name host sockets are dropped by a table
 * @env_set:   (optional) array of @n_env_set "NAME=VALUE" (set it) or "NAME"
 *             (keep it although the table or CLEAN_ENV would drop it)
 * @workspace: (optional) the workspace; NULL: @cwd
 * @cwd:       (optional) where the command starts if that lies inside the
 *             workspace, else it starts in the workspace; NULL: the directory
 *             of the calling process
 * @home:      (optional) the caller's $HOME; anything but an existing absolute
 *             directory of the caller's, and NULL, means the passwd entry
 * @strategy:  (optional) "overlay", …; NULL or "auto": the best that works here
 * @helper:    (optional) the nex-box program; NULL: the one of the installation
 * @grants:    (optional) array of @n_grants
 * @timeout_ms: deadline, counted from the start of the command; 0: none
 * @grace_ms:  that long before the deadline the command gets SIGTERM; 0: it does
 *             not. Must be smaller than @timeout_ms
 * @output_max_bytes: how much of each output stream is kept; more is passed on
 *             but not kept
 * @stdin_fd:  the command's input; -1: empty
 * @stdout_fd: where its output goes; -1: it is only kept
 * @stderr_fd: likewise
 * @control_fd: (optional, -1: none) a pipe or socket that the caller writes
 *             signal numbers to, one byte each, to be sent to the command:
 *             the second of SIGINT, SIGTERM, SIGHUP kills the box; SIGWINCH
 *             copies the size of the terminal at stdin_fd. After any of the
 *             first three nothing is promoted. SIGKILL gives the run up: the box
 *             is killed at once, nothing is promoted, and nothing is kept
 * @on_output: (optional) called in the calling thread with each piece of output
 * @on_stop:   (optional) called when the command's process group was stopped at
 *             its terminal (control-Z), with the caller's terminal restored; the
 *             box goes on when the callback returns
 * @userdata:  (optional) first argument of the callbacks
 * @on_conflict: enum nexbox_on_conflict
 * @guard:     enum nexbox_guard
 * @allow_guarded: (optional) array of @n_allow_guarded patterns of guarded paths that
 *             are promoted all the same; "*" is all of them. Patterns here and below
 *             follow gitignore(5), without comments
 * @include:   (optional) array of @n_include patterns: only what they match is
 *             promoted
 * @exclude:   (optional) array of @n_exclude patterns: what they match is not. What is
 *             left out is reported and forgotten
 * @commit_on: (optional) array of @n_commit_on exit codes of the command that count as
 *             success with NEXBOX_RUN_COMMIT, besides 0
 * @on_wake:   (optional) called in the calling thread when a signal handler has
 *             interrupted the wait for the command, and every 50 ms besides,
 *             since a handler may run in any thread. Not 0 gives the run up, as
 *             SIGKILL on @control_fd does
 * @memory_max_bytes: of the whole box, its private places included; 0: no limit. Of
 *             this and the next four: one that cannot be enforced here refuses the
 *             run, unless NEXBOX_RUN_BEST_EFFORT
 * @pids_max:  processes and threads at once; 0: no limit
 * @cpus_max_milli: thousandths of a processor; 0: no limit
 * @cpu_time_max_ms: processor time of all that runs in the box; 0: no limit
 * @disk_max_bytes: what its changes and private places may take; watched, so that a
 *             quick writer gets some milliseconds further; 0: no limit
 * @box:       (optional) id of a kept box of the workspace, or the beginning of one: the
 *             command runs in its view, which goes on where it was. It stays kept, unless
 *             all of it is promoted without NEXBOX_RUN_KEEP. Conflicts are counted from
 *             the start of its first run
 */
struct nexbox_run_options {
	size_t size;
	uint32_t flags;
	uint32_t require;
	const char *const *argv;
	const char *const *envp;
	const char *const *env_set;
	size_t n_env_set;
	const char *workspace;
	const char *cwd;
	const char *home;
	const char *strategy;
	const char *helper;
	const struct nexbox_grant *grants;
	size_t n_grants;
	uint64_t timeout_ms;
	uint64_t grace_ms;
	uint64_t output_max_bytes;
	int32_t stdin_fd;
	int32_t stdout_fd;
	int32_t stderr_fd;
	int32_t control_fd;
	void (*on_output)(void *userdata, uint32_t stream, const void *data, size_t size_bytes);
	void (*on_stop)(void *userdata, int32_t signal_number);
	void *userdata;
	uint32_t on_conflict;
	uint32_t guard;
	const char *const *allow_guarded;
	size_t n_allow_guarded;
	const char *const *include;
	size_t n_include;
	const char *const *exclude;
	size_t n_exclude;
	const uint8_t *commit_on;
	size_t n_commit_on;
	int (*on_wake)(void *userdata);
	uint64_t memory_max_bytes;
	uint64_t pids_max;
	uint64_t cpus_max_milli;
	uint64_t cpu_time_max_ms;
	uint64_t disk_max_bytes;
	const char *box;
};

/** NEXBOX_OUTPUT_MAX_DEFAULT - bytes of each output stream that are kept */
#define NEXBOX_OUTPUT_MAX_DEFAULT (64u * 1024 * 1024)

#define NEXBOX_RUN_OPTIONS_INIT                                                                 \
	{                                                                                       \
		.size = sizeof(struct nexbox_run_options), .require = NEXBOX_REQUIRE_DEFAULT,   \
		.output_max_bytes = NEXBOX_OUTPUT_MAX_DEFAULT, .stdin_fd = -1, .stdout_fd = -1, \
		.stderr_fd = -1, .control_fd = -1,                                              \
	}

/** enum nexbox_entry_kind - what became of a path */
enum nexbox_entry_kind {
	NEXBOX_ENTRY_CREATED = 1,
	NEXBOX_ENTRY_MODIFIED = 2,
	NEXBOX_ENTRY_DELETED = 3,
	NEXBOX_ENTRY_TYPE_CHANGED = 4
};

/** enum nexbox_file_type - what a path is */
enum nexbox_file_type {
	NEXBOX_TYPE_FILE = 1,
	NEXBOX_TYPE_DIRECTORY = 2,
	NEXBOX_TYPE_SYMLINK = 3,
	NEXBOX_TYPE_FIFO = 4,
	NEXBOX_TYPE_SOCKET = 5,
	NEXBOX_TYPE_DEVICE = 6
};

/** enum nexbox_what - which property of a path changed; a bit mask */
enum nexbox_what {
	NEXBOX_WHAT_CONTENT = 1u << 0,
	NEXBOX_WHAT_MODE = 1u << 1,
	NEXBOX_WHAT_MTIME = 1u << 2,
	NEXBOX_WHAT_XATTR = 1u << 3,
	NEXBOX_WHAT_OWNER = 1u << 4,
	NEXBOX_WHAT_TARGET = 1u << 5,
	NEXBOX_WHAT_LINKS = 1u << 6
};

/** enum nexbox_entry_flags - bits of nexbox_entry.flags */
enum nexbox_entry_flags {
	NEXBOX_ENTRY_OUTSIDE = 1u << 0,    /* a symlink that leads out of the workspace */
	NEXBOX_ENTRY_HAS_BEFORE = 1u << 1, /* blake3_before is set */
	NEXBOX_ENTRY_HAS_AFTER = 1u << 2   /* blake3_after is set */
};

/**
 * struct nexbox_entry - one difference between the view and the workspace
 * @path:          relative to the workspace; "." is the workspace itself
 * @target:        of a symlink after the run (of a deleted one before it), else NULL
 * @kind:          enum nexbox_entry_kind
 * @type:          enum nexbox_file_type after the run; of a deleted path before it
 * @what:          enum nexbox_what; 0 unless @kind is NEXBOX_ENTRY_MODIFIED
 * @flags:         enum nexbox_entry_flags
 * @mode:          permission bits (07777) after the run; of a deleted path before it
 * @size_bytes:    of a regular file after the run; of a deleted one before it
 * @blake3_before: hash of the content of a regular file before the run
 * @blake3_after:  and after it
 */
struct nexbox_entry {
	const char *path;
	const char *target;
	uint32_t kind;
	uint32_t type;
	uint32_t what;
	uint32_t flags;
	uint32_t mode;
	uint32_t reserved_zero;
	uint64_t size_bytes;
	unsigned char blake3_before[32];
	unsigned char blake3_after[32];
};

/** enum nexbox_commit_status - what became of the changes */
enum nexbox_commit_status {
	NEXBOX_COMMIT_NOT_ASKED = 0,
	NEXBOX_COMMIT_PROMOTED = 1,
	NEXBOX_COMMIT_NOTHING = 2,        /* asked, succeeded, and there was no change */
	NEXBOX_COMMIT_COMMAND_FAILED = 3, /* exit status, signal or deadline */
	NEXBOX_COMMIT_REFUSED = 4,        /* something cannot, or must not, be promoted */
	NEXBOX_COMMIT_FAILED = 5          /* an error in the middle; all was taken back */
};

/** struct nexbox_side - one side of a conflict; type 0: the path is not there */
struct nexbox_side {
	uint32_t type; /* enum nexbox_file_type */
	uint32_t has_blake3;
	int64_t mtime_ns;
	unsigned char blake3[32];
};

/**
 * struct nexbox_objection - why a path keeps the changes from being promoted
 * @path:   relative to the workspace
 * @reason: one word or sentence
 * @host:   what the workspace holds (conflicts only)
 * @box:    what the box holds (conflicts only)
 */
struct nexbox_objection {
	const char *path;
	const char *reason;
	struct nexbox_side host;
	struct nexbox_side box;
};

/**
 * struct nexbox_passed_over - a better way to run, and why it could not be had
 * @strategy: its name
 * @tier:     name of the tier
 * @reason:   one sentence
 */
struct nexbox_passed_over {
	const char *strategy;
	const char *tier;
	const char *reason;
};

/**
 * struct nexbox_denial - something that was refused to the command, or kept from it
 * @path:      a path, relative to the workspace if it lies in it; "" when it was none
 * @address:   an address; "" when it was none, or nobody knows
 * @operation: what was tried: "mount", "socket AF_VSOCK", "connect", …
 * @stage:     which part of the enclave refused it: "seccomp", "clerk", "network", "view", …
 * @reason:    why, in one sentence
 * @allow:     the option that would allow it; "": none does
 * @count:     how often
 */
struct nexbox_denial {
	const char *path;
	const char *address;
	const char *operation;
	const char *stage;
	const char *reason;
	const char *allow;
	uint64_t count;
};

/** enum nexbox_limit - a limit that was hit; a bit mask */
enum nexbox_limit {
	NEXBOX_LIMIT_DEADLINE = 1u << 0,
	NEXBOX_LIMIT_MEMORY = 1u << 1,
	NEXBOX_LIMIT_PIDS = 1u << 2,
	NEXBOX_LIMIT_CPU_TIME = 1u << 3,
	NEXBOX_LIMIT_DISK = 1u << 4,
	NEXBOX_LIMIT_OUTPUT = 1u << 5,
	NEXBOX_LIMIT_CPUS = 1u << 6 /* never hit: it only slows down */
};

/** enum nexbox_holder - who sees to it that a limit is kept */
enum nexbox_holder {
	NEXBOX_HELD_BY_NOBODY = 0, /* only with NEXBOX_RUN_BEST_EFFORT */
	NEXBOX_HELD_BY_KERNEL = 1,
	NEXBOX_HELD_BY_WATCH = 2 /* nex-box looks now and then, and ends the box */
};

/**
 * struct nexbox_limit_report - a limit that was asked for
 * @limit:   enum nexbox_limit
 * @held_by: enum nexbox_holder
 * @max:     what was allowed: bytes, processes, thousandths of a processor, ms
 * @peak:    the most that was used; UINT64_MAX: not known
 */
struct nexbox_limit_report {
	uint32_t limit;
	uint32_t held_by;
	uint64_t max;
	uint64_t peak;
};

/**
 * struct nexbox_outcome - everything that a run reports; read only
 *
 * Owned by the caller and freed as a whole by nexbox_outcome_free(). New fields
 * are only ever appended.
 *
 * @size:        size of the structure that the library filled
 * @box:         the id of the box, "box_…"; "" when none was made
 * @command:     array of @n_command, as it was given
 * @workspace:   its real path; "" when it was not found
 * @exit_code:   the command's own, or -1 (killed, deadline, never started)
 * @signal_number: the signal that ended the command, or 0
 * @status:      what nex-box exits with: 0-255, see nex-box-run(1)
 * @timed_out:   1 when the deadline passed
 * @unreaped:    1 when a process could not be ended within a second of its kill
 * @committed:   1 when the changes were asked to be promoted and were (or there
 *               was none)
 * @kept:        1 when the box is still in the store
 * @limits_hit:  enum nexbox_limit
 * @error:       code 0, or why the command never started
 * @guarantees:  those that held (enum nexbox_guarantee)
 * @strategy, @tier: what was used; "" when none was
 * @commit_status: enum nexbox_commit_status
 * @commit_reason: one sentence, or ""
 * @denied:      array of @n_denied: what was refused to the command. Complete for what
 *               the system call filter, and who answers for it, refuse, if
 *               @denied_complete is 1; an address that could not be reached is there
 *               when the command failed or was killed. What no caller misses, since an
 *               old kernel has not got it either (ENOSYS), is no refusal
 * @stdout_data: what was kept of the output, with NEXBOX_RUN_CAPTURE; else NULL
 * @passed_over: array of @n_passed_over: what was tried before, best first
 * @conflicts:   array of @n_conflicts: paths that changed on the host, too; also when
 *               they were promoted, or left to the host, as asked
 * @guarded:     array of @n_guarded: what must not, or cannot, be promoted
 * @left_out:    array of @n_left_out: changes that were not promoted although the
 *               rest was, or would have been, and why
 * @limits:      array of @n_limits: those that were asked for
 * @cpu_time_micros: of all that ran in the box; UINT64_MAX here and below: not known
 * @peak_memory_bytes: of the box, where a control group counted it; else of its
 *               largest process
 * @bytes_written: to disks, rewriting included
 * @processes:   the most that there were at once, threads included
 */
struct nexbox_outcome {
	size_t size;
	const char *box;
	const char *const *command;
	size_t n_command;
	const char *workspace;
	int32_t exit_code;
	int32_t signal_number;
	int32_t status;
	uint32_t timed_out;
	uint32_t unreaped;
	uint32_t committed;
	uint32_t kept;
	uint32_t limits_hit;
	struct nexbox_error error;
	uint64_t duration_ms;
	uint64_t clone_duration_micros;
	uint64_t diff_duration_micros;
	uint64_t commit_duration_micros;
	const char *strategy;
	const char *tier;
	uint32_t guarantees;
	uint32_t commit_status;
	const char *commit_reason;
	const struct nexbox_objection *conflicts;
	size_t n_conflicts;
	const struct nexbox_objection *guarded;
	size_t n_guarded;
	const struct nexbox_entry *entries;
	size_t n_entries;
	const struct nexbox_denial *denied;
	size_t n_denied;
	const char *const *outside_writes;
	size_t n_outside_writes;
	const unsigned char *stdout_data;
	uint64_t stdout_size_bytes;
	const unsigned char *stderr_data;
	uint64_t stderr_size_bytes;
	uint32_t stdout_truncated;
	uint32_t stderr_truncated;
	const struct nexbox_passed_over *passed_over;
	size_t n_passed_over;
	const struct nexbox_objection *left_out;
	size_t n_left_out;
	const struct nexbox_limit_report *limits;
	size_t n_limits;
	uint64_t cpu_time_micros;
	uint64_t peak_memory_bytes;
	uint64_t bytes_written;
	uint64_t processes;
	uint32_t denied_complete;
	uint32_t reserved_zero;
};

/**
 * nexbox_run() - run a command in a box of its own, and wait for it
 * @options:     (borrowed) what is asked for
 * @ret_outcome: (transfer full) set on success and on failure alike, so that
 *               the document can be written either way; NULL only when memory
 *               ran out or @options itself is malformed
 * @error:       (out, optional) why the command never started
 *
 * Blocks until the command and all that it started have ended. Whatever the
 * command did, also a command that cannot be found, is an outcome and returns 0.
 *
 * Return: 0, or a negative enum nexbox_errc when the command never started.
 * Errors: NEXBOX_E_INVALID     an option, the workspace or a path is wrong.
 *         NEXBOX_E_SYSTEM      a system call failed, see os_code.
 *         NEXBOX_E_NOMEM       out of memory.
 *         NEXBOX_E_UNSUPPORTED this host cannot give the strategy, or @options
 *                              is of a newer version.
 *         NEXBOX_E_DENIED      the workspace or the store cannot be written.
 *         NEXBOX_E_REFUSED     a required guarantee cannot be given.
 *         NEXBOX_E_BUSY        the store is being removed by somebody else.
 *         NEXBOX_E_CORRUPT     the store holds something that is not ours.
 * Context: any thread; not after fork.
 */
NEXBOX_PUBLIC int nexbox_run(const struct nexbox_run_options *options,
                             struct nexbox_outcome **ret_outcome, struct nexbox_error *error);

/**
 * nexbox_outcome_new_refused() - the outcome of a run that was not even tried
 * @argv:        (borrowed, optional) the command, as far as it is known
 * @refusal:     (borrowed) why
 * @ret_outcome: (transfer full)
 * @error:       (out, optional)
 *
 * For a caller that finds a mistake itself, so that whoever reads its documents
 * gets one in this case as well. Its status is 125.
 *
 * Return: 0, or a negative enum nexbox_errc.
 * Errors: NEXBOX_E_INVALID @refusal or @ret_outcome is NULL.
 *         NEXBOX_E_NOMEM   out of memory.
 * Context: any thread.
 */
NEXBOX_PUBLIC int nexbox_outcome_new_refused(const char *const *argv,
                                             const struct nexbox_error *refusal,
                                             struct nexbox_outcome **ret_outcome,
                                             struct nexbox_error *error);

/**
 * nexbox_outcome_free() - free an outcome and all that it points to
 * @outcome: (transfer full, optional) may be NULL
 *
 * Return: NULL, so that the pointer can be cleared in the same statement.
 * Context: any thread.
 */
NEXBOX_PUBLIC struct nexbox_outcome *nexbox_outcome_free(struct nexbox_outcome *outcome);

/** enum nexbox_json_flags - bits for nexbox_outcome_write_json() */
enum nexbox_json_flags {
	NEXBOX_JSON_OUTPUT = 1u << 0 /* with "stdout" and "stderr" */
};

/**
 * nexbox_outcome_write_json() - write the document "nexbox.outcome.v1"
 * @outcome:  (borrowed)
 * @flags:    enum nexbox_json_flags
 * @write:    called with each piece, in order; it returns 0, or an errno that
 *            ends the writing
 * @userdata: (optional) first argument of @write
 * @error:    (out, optional)
 *
 * The document is one line, without the newline. Bytes that are not UTF-8 are
 * {"bytes": "<base64>"} in paths and U+FFFD in captured output.
 *
 * Return: 0, or a negative enum nexbox_errc.
 * Errors: NEXBOX_E_INVALID a flag is unknown.
 *         NEXBOX_E_SYSTEM  @write answered with an errno (os_code).
 *         NEXBOX_E_NOMEM   out of memory.
 * Context: any thread.
 */
NEXBOX_PUBLIC int nexbox_outcome_write_json(const struct nexbox_outcome *outcome, uint32_t flags,
                                            int (*write)(void *userdata, const void *data,
                                                         size_t size_bytes),
                                            void *userdata, struct nexbox_error *error);

/** enum nexbox_transaction_state - what became of a promotion */
enum nexbox_transaction_state {
	NEXBOX_TRANSACTION_PROMOTED = 1, /* it is in place */
	NEXBOX_TRANSACTION_UNDONE = 2,   /* what was before is in place */
	NEXBOX_TRANSACTION_BROKEN = 3,   /* a process died in it: nexbox_recover() is due */
	NEXBOX_TRANSACTION_FOREIGN = 4 /* its journal is not the caller's, or a copy, or no journal */
};

/** enum nexbox_recovery - what a recovery did with a transaction */
enum nexbox_recovery {
	NEXBOX_RECOVERY_NONE = 0,
	NEXBOX_RECOVERY_TAKEN_BACK = 1, /* its process died in it: it is as if it had not been */
	NEXBOX_RECOVERY_FINISHED = 2,   /* it was committed; what was left to do is done */
	NEXBOX_RECOVERY_TORN = 3,       /* a loss of power had emptied files: it was undone whole */
	NEXBOX_RECOVERY_FOREIGN = 4     /* somebody else's journal: it was left alone */
};

/**
 * struct nexbox_transaction - one promotion in the history of a workspace
 * @id:       "tx_…"; ids sort by time
 * @box:      whose changes they were
 * @folder:   where the versions are that are not in place, relative to the workspace
 * @time_ns:  when, since 1970
 * @state:    enum nexbox_transaction_state
 * @recovery: enum nexbox_recovery
 * @command:  array of @n_command; a very long one is cut
 * @n_created, @n_modified, @n_deleted, @n_type_changed: how many entries of which kind
 * @old_bytes: size of the files that it replaced or deleted
 * @entries:  array of @n_entries; only in nexbox_show()
 * @left:     array of @n_left paths that the host had changed when it was taken back, and
 *            that were left as they are
 */
struct nexbox_transaction {
	const char *id;
	const char *box;
	const char *folder;
	int64_t time_ns;
	uint32_t state;
	uint32_t recovery;
	const char *const *command;
	size_t n_command;
	uint64_t n_created;
	uint64_t n_modified;
	uint64_t n_deleted;
	uint64_t n_type_changed;
	uint64_t old_bytes;
	const struct nexbox_entry *entries;
	size_t n_entries;
	const char *const *left;
	size_t n_left;
};

/**
 * struct nexbox_report - what a call about the history has to say; read only
 *
 * Owned by the caller and freed by nexbox_report_free(). New fields are only ever
 * appended.
 *
 * @size:         size of the structure that the library filled
 * @workspace:    its real path
 * @transactions: array of @n_transactions: all of them, the newest first
 *                (nexbox_log); those that were looked into (nexbox_recover); the one
 *                in question (the rest)
 * @conflicts:    array of @n_conflicts: what an undo would have destroyed
 * @n_removed:    transactions that nexbox_gc() removed
 * @freed_bytes:  of old versions in them
 */
struct nexbox_report {
	size_t size;
	const char *workspace;
	const struct nexbox_transaction *transactions;
	size_t n_transactions;
	const struct nexbox_objection *conflicts;
	size_t n_conflicts;
	uint64_t n_removed;
	uint64_t freed_bytes;
};

/** NEXBOX_CONFLICT - nexbox_undo() and nexbox_redo() did nothing: see the conflicts */
#define NEXBOX_CONFLICT 1

/**
 * nexbox_recover() - make whole what a process that died has left half promoted
 * @workspace:  (borrowed, optional) NULL: the current directory
 * @ret_report: (transfer full) set on success
 * @error:      (out, optional)
 *
 * Every other call on a workspace does this first. That there is nothing to do, or no
 * store, is a success.
 *
 * Return: 0, or a negative enum nexbox_errc: then something is still half done.
 * Errors: NEXBOX_E_INVALID     the workspace is wrong.
 *         NEXBOX_E_SYSTEM      a system call failed; nothing more was touched.
 *         NEXBOX_E_NOMEM       out of memory.
 *         NEXBOX_E_UNSUPPORTED a journal is of a newer version.
 *         NEXBOX_E_CORRUPT     a journal makes no sense.
 *         NEXBOX_E_DENIED      the store is another user's.
 *         NEXBOX_E_BUSY        the store vanishes again and again.
 * Context: any thread; not after fork.
 */
NEXBOX_PUBLIC int nexbox_recover(const char *workspace, struct nexbox_report **ret_report,
                                 struct nexbox_error *error);

/**
 * nexbox_log() - the history of a workspace, the newest first
 * @workspace:  (borrowed, optional) NULL: the current directory
 * @ret_report: (transfer full) set on success
 * @error:      (out, optional)
 *
 * Return: 0, or a negative enum nexbox_errc.
 * Errors: as of nexbox_recover().
 * Context: any thread; not after fork.
 */
NEXBOX_PUBLIC int nexbox_log(const char *workspace, struct nexbox_report **ret_report,
                             struct nexbox_error *error);

/**
 * nexbox_show() - one transaction, with its entries
 * @workspace:  (borrowed, optional) NULL: the current directory
 * @id:         (borrowed, optional) NULL: the newest
 * @ret_report: (transfer full) set on success
 * @error:      (out, optional)
 *
 * Return: 0, or a negative enum nexbox_errc.
 * Errors: as of nexbox_recover(); NEXBOX_E_INVALID also when there is no such one.
 * Context: any thread; not after fork.
 */
NEXBOX_PUBLIC int nexbox_show(const char *workspace, const char *id,
                              struct nexbox_report **ret_report, struct nexbox_error *error);

/**
 * nexbox_undo() - put back what was there before a promotion
 * @workspace:  (borrowed, optional) NULL: the current directory
 * @id:         (borrowed, optional) NULL: the newest that is in place
 * @ret_report: (transfer full) set on success and on NEXBOX_CONFLICT
 * @error:      (out, optional)
 *
 * All of it or nothing, as a promotion is. Whatever was worked on since is a conflict.
 *
 * Return: 0, NEXBOX_CONFLICT, or a negative enum nexbox_errc.
 * Errors: as of nexbox_show().
 * Context: any thread; not after fork.
 */
NEXBOX_PUBLIC int nexbox_undo(const char *workspace, const char *id,
                              struct nexbox_report **ret_report, struct nexbox_error *error);

/**
 * nexbox_redo() - put back what an undo took away
 * @workspace:  (borrowed, optional) NULL: the current directory
 * @id:         (borrowed, optional) NULL: the one that was undone last
 * @ret_report: (transfer full) set on success and on NEXBOX_CONFLICT
 * @error:      (out, optional)
 *
 * Return: 0, NEXBOX_CONFLICT, or a negative enum nexbox_errc.
 * Errors: as of nexbox_show().
 * Context: any thread; not after fork.
 */
NEXBOX_PUBLIC int nexbox_redo(const char *workspace, const char *id,
                              struct nexbox_report **ret_report, struct nexbox_error *error);

/** struct nexbox_gc_options - how much history is kept; NEXBOX_GC_UNCHANGED: as it is set */
struct nexbox_gc_options {
	size_t size;               /* sizeof(struct nexbox_gc_options) of the caller */
	uint64_t max_transactions; /* default 20 */
	uint64_t max_bytes;        /* of old versions; default 2 GiB */
};

#define NEXBOX_GC_UNCHANGED UINT64_MAX
#define NEXBOX_GC_OPTIONS_INIT                                                             \
	{                                                                                  \
		sizeof(struct nexbox_gc_options), NEXBOX_GC_UNCHANGED, NEXBOX_GC_UNCHANGED \
	}

/**
 * nexbox_gc() - remove what is not kept any more
 * @workspace:  (borrowed, optional) NULL: the current directory
 * @options:    (borrowed, optional) new limits; they stay, for promotions as well
 * @ret_report: (transfer full) set on success
 * @error:      (out, optional)
 *
 * Return: 0, or a negative enum nexbox_errc.
 * Errors: as of nexbox_recover().
 * Context: any thread; not after fork.
 */
NEXBOX_PUBLIC int nexbox_gc(const char *workspace, const struct nexbox_gc_options *options,
                            struct nexbox_report **ret_report, struct nexbox_error *error);

/**
 * nexbox_report_write_json() - write the document "nexbox.history.v1"
 * @report:   (borrowed)
 * @write:    called with each piece, in order; it returns 0, or an errno that ends
 *            the writing
 * @userdata: (optional) first argument of @write
 * @error:    (out, optional)
 *
 * Return: 0, or a negative enum nexbox_errc.
 * Errors: NEXBOX_E_INVALID @report or @write is NULL.
 *         NEXBOX_E_SYSTEM  @write answered with an errno (os_code).
 * Context: any thread.
 */
NEXBOX_PUBLIC int nexbox_report_write_json(const struct nexbox_report *report,
                                           int (*write)(void *userdata, const void *data,
                                                        size_t size_bytes),
                                           void *userdata, struct nexbox_error *error);

/**
 * nexbox_report_free() - free a report and all that it points to
 * @report: (transfer full, optional) may be NULL
 *
 * Return: NULL.
 * Context: any thread.
 */
NEXBOX_PUBLIC struct nexbox_report *nexbox_report_free(struct nexbox_report *report);

/**
 * struct nexbox_box - a kept box; read only
 * @id:        "box_…"
 * @strategy:  how its view is made
 * @tier:      of its last run
 * @command:   array of @n_command: of its last run
 * @time_ns:   when its first run was over, since 1970
 * @n_runs:    how many runs there were in it
 * @n_promoted: paths that were promoted from it, and that it remembers
 * @exit_code, @signal_number, @status: as in struct nexbox_outcome, of its last run
 * @in_use:    1 when another process has it just now
 * @is_usable: 1 when it can be promoted, and run in again
 * @reason:    why not; else why its changes were not promoted, or ""
 */
struct nexbox_box {
	const char *id;
	const char *strategy;
	const char *tier;
	const char *const *command;
	size_t n_command;
	int64_t time_ns;
	uint64_t n_runs;
	uint64_t n_promoted;
	int32_t exit_code;
	int32_t signal_number;
	int32_t status;
	uint32_t in_use;
	uint32_t is_usable;
	uint32_t reserved_zero;
	const char *reason;
};

/**
 * struct nexbox_boxes - the kept boxes of a workspace; read only
 *
 * Owned by the caller and freed by nexbox_boxes_free(). New fields are only ever
 * appended.
 *
 * @size:      size of the structure that the library filled
 * @workspace: its real path
 * @boxes:     array of @n_boxes, the oldest first
 */
struct nexbox_boxes {
	size_t size;
	const char *workspace;
	const struct nexbox_box *boxes;
	size_t n_boxes;
};

/**
 * nexbox_box_list() - the boxes that were kept
 * @workspace: (borrowed, optional) NULL: the current directory
 * @ret_list:  (transfer full) set on success
 * @error:     (out, optional)
 *
 * Return: 0, or a negative enum nexbox_errc.
 * Errors: as of nexbox_recover().
 * Context: any thread; not after fork.
 */
NEXBOX_PUBLIC int nexbox_box_list(const char *workspace, struct nexbox_boxes **ret_list,
                                  struct nexbox_error *error);

/**
 * nexbox_boxes_write_json() - write the document "nexbox.boxes.v1"
 * @list:     (borrowed)
 * @write:    called with each piece, in order; it returns 0, or an errno that ends
 *            the writing
 * @userdata: (optional) first argument of @write
 * @error:    (out, optional)
 *
 * Return: 0, or a negative enum nexbox_errc.
 * Errors: NEXBOX_E_INVALID @list or @write is NULL.
 *         NEXBOX_E_SYSTEM  @write answered with an errno (os_code).
 * Context: any thread.
 */
NEXBOX_PUBLIC int nexbox_boxes_write_json(const struct nexbox_boxes *list,
                                          int (*write)(void *userdata, const void *data,
                                                       size_t size_bytes),
                                          void *userdata, struct nexbox_error *error);

/**
 * nexbox_boxes_free() - free a list and all that it points to
 * @list: (transfer full, optional) may be NULL
 *
 * Return: NULL.
 * Context: any thread.
 */
NEXBOX_PUBLIC struct nexbox_boxes *nexbox_boxes_free(struct nexbox_boxes *list);

/**
 * struct nexbox_content - one side of an entry; all borrowed for the time of a callback
 * @type:       enum nexbox_file_type; 0: the path is not there
 * @mode:       permission bits
 * @fd:         a regular file, open for reading at its beginning; -1: it is none, or
 *              may not be read
 * @target:     of a symlink, else NULL
 * @size_bytes: of a regular file
 */
struct nexbox_content {
	uint32_t type;
	uint32_t mode;
	int32_t fd;
	uint32_t reserved_zero;
	const char *target;
	uint64_t size_bytes;
};

/** enum nexbox_diff_flags - bits of nexbox_diff_options.flags */
enum nexbox_diff_flags {
	NEXBOX_DIFF_QUICK = 1u << 0 /* sizes and times decide; nothing is read or hashed */
};

/**
 * struct nexbox_diff_options - which box, and what else is wanted; all borrowed
 * @size:      sizeof(struct nexbox_diff_options) of the caller
 * @flags:     enum nexbox_diff_flags
 * @workspace: (optional) NULL: the current directory
 * @box:       id of the box, or the beginning of one that is no other's
 * @on_entry:  (optional) called for each entry, in order, with both sides; not 0 ends
 *             it, and is the error's os_code. The workspace is live: a file that the
 *             host writes meanwhile may not be the one that was compared
 * @userdata:  (optional) its first argument
 */
struct nexbox_diff_options {
	size_t size;
	uint32_t flags;
	uint32_t reserved_zero;
	const char *workspace;
	const char *box;
	int (*on_entry)(void *userdata, const struct nexbox_entry *entry,
	                const struct nexbox_content *before, const struct nexbox_content *after);
	void *userdata;
};

#define NEXBOX_DIFF_OPTIONS_INIT                            \
	{                                                   \
		.size = sizeof(struct nexbox_diff_options), \
	}

/**
 * nexbox_box_diff() - what a kept box holds that the workspace does not
 * @options:     (borrowed)
 * @ret_outcome: (transfer full) set on success: its entries, and of the last run what
 *               is known of it; its status is 0
 * @error:       (out, optional)
 *
 * Nothing is promoted or changed. What was promoted from the box is no entry any more.
 *
 * Return: 0, or a negative enum nexbox_errc.
 * Errors: NEXBOX_E_INVALID     there is no such box, or the options are not right.
 *         NEXBOX_E_BUSY        another process uses the box.
 *         NEXBOX_E_CORRUPT     the box is damaged.
 *         NEXBOX_E_SYSTEM      a system call failed, or @options->on_entry ended it.
 *         NEXBOX_E_UNSUPPORTED its strategy, or a journal, is of another version.
 *         NEXBOX_E_DENIED      the store is another user's.
 *         NEXBOX_E_NOMEM       out of memory.
 * Context: any thread; not after fork.
 */
NEXBOX_PUBLIC int nexbox_box_diff(const struct nexbox_diff_options *options,
                                  struct nexbox_outcome **ret_outcome, struct nexbox_error *error);

/** enum nexbox_commit_flags - bits of nexbox_commit_options.flags */
enum nexbox_commit_flags {
	NEXBOX_COMMIT_KEEP = 1u << 0,   /* the box stays, even if nothing is left in it */
	NEXBOX_COMMIT_DURABLE = 1u << 1 /* as NEXBOX_RUN_DURABLE */
};

/**
 * struct nexbox_commit_options - which box, and what of it; all borrowed
 * @size:      sizeof(struct nexbox_commit_options) of the caller
 * @flags:     enum nexbox_commit_flags
 * @on_conflict, @guard, @allow_guarded, @include, @exclude: as in struct
 *             nexbox_run_options
 * @workspace: (optional) NULL: the current directory
 * @box:       id of the box, or the beginning of one that is no other's
 * @paths:     (optional) array of @n_paths, relative to the workspace: only these, with
 *             what is in them, and what @include matches
 */
struct nexbox_commit_options {
	size_t size;
	uint32_t flags;
	uint32_t on_conflict;
	uint32_t guard;
	uint32_t reserved_zero;
	const char *workspace;
	const char *box;
	const char *const *paths;
	size_t n_paths;
	const char *const *include;
	size_t n_include;
	const char *const *exclude;
	size_t n_exclude;
	const char *const *allow_guarded;
	size_t n_allow_guarded;
};

#define NEXBOX_COMMIT_OPTIONS_INIT                            \
	{                                                     \
		.size = sizeof(struct nexbox_commit_options), \
	}

/**
 * nexbox_box_commit() - promote what is in a kept box, or some of it
 * @options:     (borrowed)
 * @ret_outcome: (transfer full) set on success: entries, conflicts and all, as of a run
 *               with promotion; its status is 0, or 123 when nothing was promoted, and
 *               @kept is 1 when the box is still there
 * @error:       (out, optional)
 *
 * One transaction, as of a run. The box is gone afterwards if all of it was promoted;
 * what is left out stays in it, and so does everything when the promotion is refused or
 * fails.
 *
 * Return: 0, or a negative enum nexbox_errc: nothing was tried.
 * Errors: as of nexbox_box_diff(); NEXBOX_E_INVALID also when a path is no change of the
 *         box; NEXBOX_E_CORRUPT also when a run in it was killed, or the machine was
 *         started anew before it was on the disk.
 * Context: any thread; not after fork.
 */
NEXBOX_PUBLIC int nexbox_box_commit(const struct nexbox_commit_options *options,
                                    struct nexbox_outcome **ret_outcome, struct nexbox_error *error);

/**
 * nexbox_box_discard() - remove a kept box with all that is in it
 * @workspace: (borrowed, optional) NULL: the current directory
 * @box:       (borrowed) its id, or the beginning of one that is no other's
 * @error:     (out, optional)
 *
 * Also one that cannot be used any more.
 *
 * Return: 0, or a negative enum nexbox_errc.
 * Errors: as of nexbox_box_diff().
 * Context: any thread; not after fork.
 */
NEXBOX_PUBLIC int nexbox_box_discard(const char *workspace, const char *box,
                                     struct nexbox_error *error);

/**
 * struct nexbox_doctor_options - what is to be tried; all borrowed
 * @size:      sizeof(struct nexbox_doctor_options) of the caller
 * @flags:     NEXBOX_RUN_FORK, or 0
 * @workspace: (optional) NULL: @cwd
 * @cwd:       (optional) NULL: the directory of the calling process
 * @home:      (optional) the caller's $HOME
 * @helper:    (optional) the nex-box program; NULL: the one of the installation
 */
struct nexbox_doctor_options {
	size_t size;
	uint32_t flags;
	uint32_t reserved_zero;
	const char *workspace;
	const char *cwd;
	const char *home;
	const char *helper;
};

#define NEXBOX_DOCTOR_OPTIONS_INIT                            \
	{                                                     \
		.size = sizeof(struct nexbox_doctor_options), \
	}

/**
 * struct nexbox_check - a part of an enclave, tried by itself
 * @name:   what was tried
 * @tier:   that cannot be without it; "" when none
 * @works:  it can be had
 * @reason: why not, or what of it there is; "" when there is nothing to say
 * @remedy: what to do, in lines; "" when it works or nothing is known
 */
struct nexbox_check {
	const char *name;
	const char *tier;
	int32_t works;
	uint32_t reserved_zero;
	const char *reason;
	const char *remedy;
};

/**
 * struct nexbox_trial - a run of nothing, with one strategy in one tier
 * @tier, @strategy: which
 * @works:           it ran
 * @is_apart:        in an empty folder of the store, since cloning the workspace would
 *                   take its time; else in the workspace itself
 * @guarantees:      enum nexbox_guarantee that held
 * @duration_micros: of the whole run, cleaning up included
 * @reason, @remedy: as in struct nexbox_check
 */
struct nexbox_trial {
	const char *tier;
	const char *strategy;
	int32_t works;
	int32_t is_apart;
	uint32_t guarantees;
	uint32_t reserved_zero;
	uint64_t duration_micros;
	const char *reason;
	const char *remedy;
};

/**
 * struct nexbox_diagnosis - what a host can give a workspace; read only
 * @size:      size of the structure that the library filled
 * @workspace: its real path
 * @checks:    array of @n_checks
 * @trials:    array of @n_trials, in the order in which "auto" would try them
 * @plain:     which of them a plain run would take; -1: it would be refused
 * @reason:    why it would; else ""
 */
struct nexbox_diagnosis {
	size_t size;
	const char *workspace;
	const struct nexbox_check *checks;
	size_t n_checks;
	const struct nexbox_trial *trials;
	size_t n_trials;
	int32_t plain;
	uint32_t reserved_zero;
	const char *reason;
};

/**
 * nexbox_diagnose() - try what there is on this host, for one workspace
 * @options:       (borrowed)
 * @ret_diagnosis: (transfer full) also when nothing works
 * @error:         (out, optional)
 *
 * Each tier with each strategy is tried by a real run of a program that does nothing;
 * a strategy that would clone the workspace file by file is tried in an empty folder
 * of its store. Changes nothing and leaves nothing.
 *
 * Return: 0, or a negative nexbox_errc when there is no such workspace.
 * Errors: NEXBOX_E_INVALID the options, or the workspace, are not right.
 *         NEXBOX_E_DENIED  the workspace cannot be read.
 *         NEXBOX_E_SYSTEM  a path cannot be resolved.
 *         NEXBOX_E_NOMEM   out of memory.
 * Context: any thread; not after fork.
 */
NEXBOX_PUBLIC int nexbox_diagnose(const struct nexbox_doctor_options *options,
                                  struct nexbox_diagnosis **ret_diagnosis,
                                  struct nexbox_error *error);

/**
 * nexbox_diagnosis_free() - free a diagnosis and all that it points to
 * @diagnosis: (optional) NULL is accepted
 *
 * Return: NULL, so that the pointer can be cleared in the same line.
 * Context: any thread.
 */
NEXBOX_PUBLIC struct nexbox_diagnosis *nexbox_diagnosis_free(struct nexbox_diagnosis *diagnosis);

/**
 * nexbox_diagnosis_write_json() - write the document "nexbox.doctor.v1"
 * @diagnosis: (borrowed)
 * @write:     called with pieces of the document, in order; returns 0 or an errno,
 *             which ends the writing
 * @userdata:  (optional) its first argument
 * @error:     (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_INVALID a parameter is missing.
 *         NEXBOX_E_SYSTEM  @write failed, see os_code.
 * Context: any thread.
 */
NEXBOX_PUBLIC int nexbox_diagnosis_write_json(const struct nexbox_diagnosis *diagnosis,
                                              int (*write)(void *userdata, const void *data,
                                                           size_t size_bytes),
                                              void *userdata, struct nexbox_error *error);

/**
 * nexbox_guarantee_from_name() - the bit of a guarantee
 * @name: (borrowed) e.g. "fs-write"
 *
 * Return: one enum nexbox_guarantee, or 0 when there is none of that name.
 * Context: any thread.
 */
NEXBOX_PUBLIC uint32_t nexbox_guarantee_from_name(const char *name);

/**
 * nexbox_guarantee_name() - the name of a guarantee
 * @guarantee: one enum nexbox_guarantee
 *
 * Return: a static string, or NULL when @guarantee is no single known bit.
 * Context: any thread.
 */
NEXBOX_PUBLIC const char *nexbox_guarantee_name(uint32_t guarantee);

/**
 * nexbox_helper_main() - be the helper process, if that is what was started
 * @argc: as given to main()
 * @argv: as given to main()
 *
 * The nex-box program calls this first thing in main(), so that the library can
 * start it as the first process of a box. An ordinary program has no use for it.
 *
 * Return: -1 when the process was started as an ordinary program; otherwise the
 * function does not return.
 * Context: the only thread of a fresh process.
 */
NEXBOX_PUBLIC int nexbox_helper_main(int argc, char **argv);

/**
 * nexbox_version() - the version of the library
 *
 * Return: a static string, "X.Y.Z".
 * Context: any thread.
 */
NEXBOX_PUBLIC const char *nexbox_version(void);

#ifdef __cplusplus
}
#endif

#endif
