/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * What an operating system must be able to do for nex-box. Core walks these
 * tables and never asks which system it is on. There are no empty slots: what a
 * host cannot give is an error or a guarantee that is reported as missing.
 *
 * A run goes through a tier in this order:
 *
 *	start()   the first process of the enclave; it begins to set itself up
 *	launch()  here is the command, and where its view will be: mount what can be
 *	          mounted, while the caller makes the session's folders
 *	show()    here is the view: mount it, confine, execute
 *	events    READY, STARTED, STOPPED, EXITED …, read whenever event_fd() is
 *	          readable, until GONE
 *	free()    ends whatever is left
 */

#include <stdbool.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/error.h"

struct nx_enclave; /* a started enclave; its body is the platform's own */

/** enum nx_start_flags - bits of nx_start.flags */
enum nx_start_flags {
	NX_START_NET_HOST = 1u << 0,    /* the host's network instead of none */
	NX_START_FORK = 1u << 1,        /* fork the caller instead of executing the helper */
	NX_START_BEST_EFFORT = 1u << 2, /* a limit that cannot be held is reported, not refused */
};

/** struct nx_limits - what an enclave may use; 0: no limit */
struct nx_limits {
	uint64_t memory_bytes;
	uint64_t pids;
	uint64_t cpus_milli; /* thousandths of a processor */
	uint64_t cpu_time_ms;
	uint64_t disk_bytes; /* held by core; a tier helps where the kernel does */
};

/* A figure that nobody knows here. */
#define NX_UNKNOWN UINT64_MAX

/** struct nx_usage - what an enclave has used; NX_UNKNOWN */
struct nx_usage {
	uint64_t cpu_time_micros;
	uint64_t peak_memory_bytes; /* of all of it, or of its largest process */
	uint64_t bytes_written;     /* to disks */
	uint64_t processes;         /* the most at once, threads included */
};

#define NX_USAGE_UNKNOWN                                     \
	((struct nx_usage){ .cpu_time_micros = NX_UNKNOWN,   \
	                    .peak_memory_bytes = NX_UNKNOWN, \
	                    .bytes_written = NX_UNKNOWN,     \
	                    .processes = NX_UNKNOWN })

/**
 * struct nx_measure - what there is to say about an enclave's limits
 * @hit:     enum nexbox_limit that were hit
 * @kernel:  those that the kernel holds
 * @watched: those that are looked at, and whose hit ends the enclave; of what was
 *           asked for, the rest is held by nobody
 */
struct nx_measure {
	struct nx_usage usage;
	uint32_t hit;
	uint32_t kernel;
	uint32_t watched;
};

/**
 * struct nx_start - what the first process of an enclave has to know at once
 * @flags:   enum nx_start_flags
 * @require: enum nexbox_guarantee without which the command must not start: a tier
 *           that finds that it cannot give one here fails with NEXBOX_E_REFUSED
 * @helper:  (borrowed, optional) path of the helper program
 * @limits:  (borrowed, optional) one that cannot be held fails with NEXBOX_E_REFUSED,
 *           unless NX_START_BEST_EFFORT
 */
struct nx_start {
	uint32_t flags;
	uint32_t require;
	const char *helper;
	const struct nx_limits *limits;
};

/**
 * struct nx_view - the copy-on-write tree, before it is mounted
 * @strategy:    who made it
 * @workspace:   (borrowed) real path of the workspace
 * @session:     (borrowed) path of the session's folder
 * @workspace_fd: (borrowed)
 * @session_fd:  (borrowed)
 * @upper_fd:    (owned) LAYER: what the command changed, as @strategy's layer writes
 *               it; TREE: the root of the clone
 * @base_fd:     (owned) of a snapshot: the same once more, which nobody writes to
 * @mount_fd:    (owned) the mounted view when the caller could mount it itself,
 *               else -1: the enclave's first process mounts it
 * @upper_root:  the upper's root as it was made, to tell whether the command
 *               changed the mode or the owner of the workspace
 * @make_micros: what making it took so far
 */
struct nx_view {
	const struct nx_strategy *strategy;
	const char *workspace;
	const char *session;
	int workspace_fd;
	int session_fd;
	int upper_fd;
	int base_fd;
	int mount_fd;
	struct stat upper_root;
	uint64_t make_micros;
};

#define NX_VIEW_INIT                                                                                \
	{                                                                                           \
		.workspace_fd = -1, .session_fd = -1, .upper_fd = -1, .base_fd = -1, .mount_fd = -1 \
	}

/* The clone of the workspace in the session's folder, with a strategy of NX_VIEW_TREE. */
#define NX_TREE_NAME "view"

/* What a tier writes in the session's folder, and nobody keeps. */
#define NX_THROWN_AWAY_NAME "cow"

/* Snapshots in the session's folder; NX_TREE_NAME is a symlink into the first then. */
#define NX_SNAPSHOT_VIEW "snapshot"
#define NX_SNAPSHOT_BASE "base"

/** enum nx_view_kind - what a strategy makes; bits, so that a tier can take several */
enum nx_view_kind {
	NX_VIEW_LAYER = 1u << 0, /* a layer over the workspace: what is in it has changed */
	NX_VIEW_TREE = 1u << 1,  /* a whole tree beside it, which is compared */
};

/** enum nx_mark - what a folder of the upper layer says about the one below it */
enum nx_mark {
	NX_MARK_OPAQUE = 1u << 0,   /* nothing below shows through */
	NX_MARK_REDIRECT = 1u << 1, /* what shows through comes from another folder */
};

/**
 * struct nx_strategy - one way to make a view
 * @name:       as in DESIGN 2
 * @kind:       enum nx_view_kind
 * @guarantees: enum nexbox_guarantee that hold because of the way it works
 * @prepare:    make the layers below @view->session_fd and fill @view. TREE: make what
 *              can be made at once, which for a snapshot is all of it
 * @open:       open again what @prepare made and was kept, to be read: fill @view's
 *              descriptors
 * @resume:     make what was opened fit to be shown once more. What keeps a layer from
 *              being used a second time is taken away: that its content is whole is for
 *              the caller to know
 * @settle:     the command runs: use the time to take away what only starting needed
 * @discard:    no process is left: take the layers away, as far as it is quickly
 *              done; the session is removed afterwards in any case
 * @is_apart:   TREE: nothing can be renamed out of it into the workspace
 * @clone_file: TREE: give the empty regular file @to_fd the content of @from_fd;
 *              a negative errno. NULL: @prepare has made the whole tree, and
 *              @view->base_fd
 * @is_whiteout: whether an entry of the upper says "deleted"
 * @deleted_name: what a *name* of the upper says: NULL, it is an entry's; else the file
 *              is the layer's own, and stands for "this name is deleted", or with an
 *              empty one for a mark of its folder
 * @read_marks: what an entry of the upper says, a name in @dir_fd: *ret_marks (enum
 *              nx_mark), and with NX_MARK_REDIRECT the folder meant in @redirect:
 *              absolute within the view, or a name in the same folder. An unknown
 *              private attribute is NEXBOX_E_CORRUPT: guessing could delete a
 *              folder, or take an empty file for the real one
 * @is_private: whether an extended attribute of the upper belongs to the layer
 *              and is none of the command's
 * @is_forged:  whether an extended attribute of the upper was set by the command
 *              under a name that is reserved for layers
 * @is_origin:  whether an extended attribute of the upper says that the entry was
 *              copied from below, under the same name or another
 * @is_in_place: (optional) LAYER: whether an entry of the upper, a name in @dir_fd, was
 *              copied from below under its own name, @path in @workspace_fd. For a
 *              layer that moves the time of a folder by copying something up in it
 * @drops_acl:  an access control list may be lost by copying up
 * @of_root:    (optional) the same with the marks of a privileged caller's mount: what
 *              @prepare may make @view's strategy
 *
 * A strategy that cannot work here fails with NEXBOX_E_UNSUPPORTED and the place
 * NX_WHERE_VIEW, and so does a tier that cannot mount what it made: then the next
 * one is tried, unless this one was asked for by name.
 */
struct nx_strategy {
	const char *name;
	uint32_t kind;
	uint32_t guarantees;
	bool is_apart;
	int (*prepare)(struct nx_view *view, struct nexbox_error *err);
	int (*open)(struct nx_view *view, struct nexbox_error *err);
	int (*resume)(struct nx_view *view, struct nexbox_error *err);
	void (*settle)(const struct nx_view *view);
	void (*discard)(const struct nx_view *view);
	int (*clone_file)(int from_fd, int to_fd);
	bool (*is_whiteout)(const struct stat *st);
	const char *(*deleted_name)(const char *name);
	int (*read_marks)(int dir_fd, const char *name, const char *path, uint32_t *ret_marks,
	                  struct nx_buf *redirect, struct nexbox_error *err);
	bool (*is_private)(const char *xattr_name);
	bool (*is_forged)(const char *xattr_name);
	bool (*is_origin)(const char *xattr_name);
	bool (*is_in_place)(int dir_fd, const char *name, int workspace_fd, const char *path);
	bool drops_acl;
	const struct nx_strategy *of_root;
};

/* nexbox_error.where of a failure that another strategy may not have. */
#define NX_WHERE_VIEW "view"

/* Tells the command where the note about its limits is. */
#define NX_NOTE_VARIABLE "NEXBOX_POLICY"

/** enum nx_launch_flags - bits of nx_launch.flags */
enum nx_launch_flags {
	NX_LAUNCH_TERMINAL = 1u << 0, /* give the command a terminal of the enclave's own */
};

/**
 * struct nx_launch - the command and what it may see; all borrowed
 * @strategy:     that makes the view
 * @workspace:    real path of the workspace
 * @session:      path of the session's folder, which need not be there yet
 * @argv, @envp:  NULL-terminated
 * @directory:    where it starts: absolute, inside the workspace. A tier that cannot
 *                mount the view there starts it at the same place of the view, and
 *                leads the environment's paths there
 * @home:         the home directory that gets a layer of its own, thrown away;
 *                NULL when there is none, or the view covers it
 * @secret_homes: where credentials are looked for and hidden; ends early with NULL
 * @grants:       array of @n_grants, paths absolute
 * @note:         what the command is told of its limits: the tier adds what is its own,
 *                and lays it into a file that NX_NOTE_VARIABLE names
 * @stdin_fd:     what the command reads; -1: nothing
 * @stdout_fd:    the writing end of a pipe; -1 with a terminal
 * @stderr_fd:    likewise; with a terminal -1 unless it goes elsewhere
 * @rows, @columns: size of the terminal
 * @deadline_ms:  the enclave ends itself that long after the command started,
 *                even if the caller is asleep; 0: never
 */
struct nx_launch {
	uint32_t flags;
	const struct nx_strategy *strategy;
	const char *workspace;
	const char *session;
	const char *const *argv;
	const char *const *envp;
	const char *directory;
	const char *home;
	const char *secret_homes[2];
	const struct nexbox_grant *grants;
	size_t n_grants;
	const char *note;
	int stdin_fd;
	int stdout_fd;
	int stderr_fd;
	uint16_t rows;
	uint16_t columns;
	uint64_t deadline_ms;
};

/** enum nx_event_kind - what an enclave has to say */
enum nx_event_kind {
	NX_EVENT_READY = 1,   /* the command is about to start on a terminal */
	NX_EVENT_STARTED,     /* the command runs */
	NX_EVENT_NOT_STARTED, /* it could not be executed: os_code */
	NX_EVENT_STOPPED,     /* its process group was stopped at the terminal: signal */
	NX_EVENT_LIMIT,       /* a limit was hit: measure() says which */
	NX_EVENT_EXITED,      /* it ended: exit_code or signal */
	NX_EVENT_FAILED,      /* the enclave could not be made: the error is set */
	NX_EVENT_GONE,        /* nothing of the enclave is left to talk to */
};

/**
 * struct nx_event - one of them
 * @kind:         enum nx_event_kind
 * @exit_code:    EXITED: -1 when a signal ended it
 * @signal_number: EXITED, STOPPED
 * @alone:        EXITED: no other process of the enclave was left
 * @broken:       EXITED: the view broke before that: what was written is not all there
 * @os_code:      NOT_STARTED: errno of execve
 * @guarantees:   STARTED: enum nexbox_guarantee that hold by what was applied
 * @make_micros:  the first of READY and STARTED: what mounting the view took
 * @terminal_fd:  READY: (transfer full) the master of the terminal, or -1
 * @scratch_fd:   with @make_micros: (transfer full) root of the thrown-away layers,
 *                or -1
 */
struct nx_event {
	uint32_t kind;
	int32_t exit_code;
	int32_t signal_number;
	bool alone;
	bool broken;
	int32_t os_code;
	uint32_t guarantees;
	uint64_t make_micros;
	int terminal_fd;
	int scratch_fd;
};

/**
 * struct nx_cow_place - a place whose writes are thrown away
 * @path:  absolute path on the host
 * @upper: path of its upper layer below scratch_fd
 */
struct nx_cow_place {
	const char *path;
	const char *upper;
};

/**
 * struct nx_tier - one kind of enclave
 * @name:       as in DESIGN 2
 * @guarantees: enum nexbox_guarantee that it can give, before it is tried
 * @views:      enum nx_view_kind that it can show
 * @is_open:    a process of it may have handed a descriptor out: what it wrote is
 *              promoted by copying
 * @layer:      (optional) who writes the copy-on-write places of its own
 */
struct nx_tier {
	const char *name;
	uint32_t guarantees;
	uint32_t views;
	bool is_open;
	const struct nx_strategy *layer;

	/* Start the first process. Nothing on disk is touched. */
	int (*start)(const struct nx_start *start, struct nx_enclave **ret_enclave,
	             struct nexbox_error *err);

	/* Hand it the command. */
	int (*launch)(struct nx_enclave *enclave, const struct nx_launch *launch,
	              struct nexbox_error *err);

	/* Hand it the view. Returns before the command has started. */
	int (*show)(struct nx_enclave *enclave, const struct nx_view *view,
	            struct nexbox_error *err);

	/* Readable when next_event() has something to say. Borrowed. */
	int (*event_fd)(const struct nx_enclave *enclave);

	/* Readable when every process of the enclave has ended. Borrowed. */
	int (*process_fd)(const struct nx_enclave *enclave);

	/*
	 * The next event; does not block: call it when event_fd() is readable.
	 * @err is filled for FAILED.
	 */
	int (*next_event)(struct nx_enclave *enclave, struct nx_event *ret_event,
	                  struct nexbox_error *err);

	/* Send a signal to the command's process group; a dead one is no error. */
	void (*signal)(struct nx_enclave *enclave, int signal_number);

	/* Kill everything in it, at once. */
	void (*kill)(struct nx_enclave *enclave);

	/*
	 * What was used and hit so far; cheap enough for fifty times a second. Complete
	 * when the enclave is dead, until free().
	 */
	void (*measure)(struct nx_enclave *enclave, struct nx_measure *ret_measure);

	/* The copy-on-write places that launch() made: array, borrowed until free(). */
	const struct nx_cow_place *(*cow_places)(const struct nx_enclave *enclave,
	                                         size_t *ret_n_places);

	/*
	 * What was refused to the command: an array, borrowed until free(), NULL when
	 * memory ran out. Call it when the enclave is dead. *ret_is_complete: nothing
	 * that the filter, or who answers for it, has refused is missing.
	 */
	const struct nexbox_denial *(*denials)(struct nx_enclave *enclave, size_t *ret_n_denials,
	                                       bool *ret_is_complete);

	/* Kill, reap and forget. Accepts NULL; returns NULL. */
	struct nx_enclave *(*free)(struct nx_enclave *enclave);
};

/**
 * struct nx_finding - what trying something has shown
 * @works:   it can be had
 * @reason:  (owned) why not, or what of it there is; one sentence
 * @remedy:  (owned) what to do; a line to type, or several
 */
struct nx_finding {
	bool works;
	struct nx_buf reason;
	struct nx_buf remedy;
};

/**
 * struct nx_check - one part of an enclave, tried by itself
 * @name: in the words of the manual
 * @tier: (borrowed) that cannot be without it; NULL: none
 * @run:  try it, for real and without a trace; in milliseconds
 */
struct nx_check {
	const char *name;
	const struct nx_tier *tier;
	void (*run)(struct nx_finding *finding);
};

/**
 * struct nx_platform - one operating system
 * @tiers:              NULL-terminated, best first
 * @strategies:         likewise, as "auto" tries them
 * @strategies_to_come: named in the contract, not landed
 * @checks:             parts of the enclaves; ends with a NULL name
 * @find_remedy:        what to do about a strategy that could not be had in @workspace
 * @idle_command:       a program of the system's that does nothing; NULL: none found
 */
struct nx_platform {
	const char *name;
	const struct nx_tier *const *tiers;
	const struct nx_strategy *const *strategies;
	const char *const *strategies_to_come;
	const struct nx_check *checks;
	void (*find_remedy)(const struct nx_strategy *strategy, const char *workspace,
	                    const struct nexbox_error *error, struct nx_buf *remedy);
	const char *(*idle_command)(void);
};

/**
 * nx_platform_default() - the platform of this build
 *
 * Return: a static table.
 * Context: any thread.
 */
const struct nx_platform *nx_platform_default(void);

/**
 * nx_helper_main() - be the first process of an enclave, if that is what was started
 * @argc: as given to main()
 * @argv: (borrowed) as given to main()
 *
 * Return: -1 when the process was started as something else.
 * Context: the only thread of a fresh process.
 */
int nx_helper_main(int argc, char **argv);
