/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * The store, `.nexbox` in the root of a workspace, and the sessions in it.
 *
 *	.nexbox/.gitignore      "*": no tool of git sees the store
 *	.nexbox/CACHEDIR.TAG    no backup takes what is kept
 *	.nexbox/sessions/box_…/ one live or kept box; with a journal while it is promoted
 *	.nexbox/history/tx_…/   one transaction, for undo (core/history.h)
 *	.nexbox/pending         names the one that is just undone or redone
 *	.nexbox/boot            the machine's life in which history was last seen
 *
 * Who holds what (docs/adr/0001):
 *
 *	.nexbox         shared by every live run; whoever gets it exclusively is
 *	                alone and may remove the store
 *	lock            exclusively by the one run that promotes
 *	sessions/       exclusively while a session is made or swept
 *	sessions/box_…  exclusively by the run and by the first process of its box,
 *	                on one descriptor: the lock is free when both are dead, or
 *	                dying: what is left of the box ends within a moment
 *
 * Invariants: nothing below `.nexbox` is ever followed, executed or believed;
 * the host may delete it at any time; a session without a `kept` file and without a
 * journal whose lock is free belongs to nobody and is swept by the next run.
 */

#include <stdbool.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/error.h"

#define NX_STORE_NAME ".nexbox"
#define NX_STORE_SESSIONS "sessions"
#define NX_STORE_HISTORY "history"
#define NX_STORE_PENDING "pending"

struct nx_session;

/**
 * nx_session_new() - a session with a name, and nothing on the disk
 * @workspace_fd: (borrowed) until nx_session_free()
 * @workspace:    (borrowed) its real path
 * @ret_session:  (transfer full)
 * @err:          (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM there are no random numbers.
 *         NEXBOX_E_NOMEM  out of memory.
 * Context: any thread; not after fork.
 */
int nx_session_new(int workspace_fd, const char *workspace, struct nx_session **ret_session,
                   struct nexbox_error *err);

/**
 * nx_session_make() - make its folder, and the store if there is none
 * @session:   (borrowed)
 * @workspace: (borrowed) its real path, for messages
 * @err:       (out, optional)
 *
 * Sweeps what dead runs have left. The workspace root's times are as before.
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_DENIED  the workspace cannot be written.
 *         NEXBOX_E_INVALID the store is a symlink, a file, or on another mount.
 *         NEXBOX_E_SYSTEM  a system call failed (ENOSPC, …).
 *         NEXBOX_E_BUSY    the store vanishes again and again.
 * Context: any thread; not after fork.
 */
int nx_session_make(struct nx_session *session, const char *workspace, struct nexbox_error *err);

/**
 * nx_session_make_beside() - the same, for one that works on a session that was kept
 * @session:   (borrowed)
 * @workspace: (borrowed) its real path, for messages
 * @err:       (out, optional)
 *
 * The store is there, and was swept and recovered when the other was opened; whoever
 * holds the right to promote can do neither.
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: as of nx_session_make().
 * Context: any thread; not after fork.
 */
int nx_session_make_beside(struct nx_session *session, const char *workspace,
                           struct nexbox_error *err);

/**
 * nx_session_open() - a session that was kept, and is in use from now on
 * @workspace_fd: (borrowed) until nx_session_free()
 * @workspace:    (borrowed) its real path
 * @id:           (borrowed) of the box, or the beginning of one; "box_" may be left out
 * @ret_session:  (transfer full) it stays kept, until nx_session_release()
 * @err:          (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_INVALID there is none of that name, or more than one.
 *         NEXBOX_E_BUSY    another process uses it, or the store vanishes.
 *         NEXBOX_E_DENIED, NEXBOX_E_SYSTEM, NEXBOX_E_NOMEM.
 * Context: any thread; not after fork.
 */
int nx_session_open(int workspace_fd, const char *workspace, const char *id,
                    struct nx_session **ret_session, struct nexbox_error *err);

/**
 * nx_session_release() - let go of a session that was kept: nx_session_free() removes it
 * @session: (borrowed)
 * @err:     (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM the mark cannot be removed.
 * Context: any thread.
 */
int nx_session_release(struct nx_session *session, struct nexbox_error *err);

/**
 * nx_session_each() - look at all that were kept
 * @store:    (borrowed) from nx_store_open()
 * @each:     called with the id, the folder, and whether somebody uses it just now; not
 *            0 ends it
 * @userdata: (optional) its first argument
 * @err:      (out, optional)
 *
 * Return: 0, what @each answered, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM the sessions cannot be listed.
 * Context: any thread; not after fork.
 */
int nx_session_each(struct nx_session *store,
                    int (*each)(void *userdata, const char *id, int fd, bool is_used),
                    void *userdata, struct nexbox_error *err);

/**
 * nx_session_note() - leave the note for git in the store
 * @session: (borrowed)
 *
 * Apart from nx_session_new(), so that it can be done while the enclave mounts.
 *
 * Return: nothing: a store without notes works as well.
 * Context: any thread.
 */
void nx_session_note(struct nx_session *session);

/**
 * nx_session_id() - "box_…"
 * @session: (borrowed)
 *
 * Return: a string that lives as long as the session.
 * Context: any thread.
 */
const char *nx_session_id(const struct nx_session *session);

/**
 * nx_session_fd() - the session's folder, locked
 * @session: (borrowed)
 *
 * Return: a borrowed descriptor.
 * Context: any thread.
 */
int nx_session_fd(const struct nx_session *session);

/**
 * nx_session_path() - the session's folder
 * @session: (borrowed)
 *
 * Return: an absolute path that lives as long as the session.
 * Context: any thread.
 */
const char *nx_session_path(const struct nx_session *session);

/**
 * nx_session_is_there() - whether the path still names the session
 * @session: (borrowed)
 *
 * Return: false when the host deleted or moved the store meanwhile.
 * Context: any thread.
 */
bool nx_session_is_there(const struct nx_session *session);

/**
 * nx_store_open() - a store that is there, without a session in it
 * @workspace_fd: (borrowed) until nx_session_free()
 * @workspace:    (borrowed) its real path, for messages
 * @ret_store:    (transfer full) a session without a folder
 * @err:          (out, optional)
 *
 * Return: 0, NX_STORE_NONE, or a negative nexbox_errc.
 * Errors: as of nx_session_make().
 * Context: any thread; not after fork.
 */
int nx_store_open(int workspace_fd, const char *workspace, struct nx_session **ret_store,
                  struct nexbox_error *err);

/** enum nx_store_outcome - what nx_store_open() found, besides a store */
enum nx_store_outcome {
	NX_STORE_NONE = 1, /* there is none */
};

/**
 * nx_session_store_fd() - the store that it lies in
 * @session: (borrowed)
 *
 * Return: a borrowed descriptor.
 * Context: any thread.
 */
int nx_session_store_fd(const struct nx_session *session);

/**
 * nx_session_must_recover() - whether a process died in a transaction
 * @session: (borrowed) just made
 *
 * Then nx_recover() is due before anything is looked at.
 *
 * Return: true if so, or if one is just under way.
 * Context: any thread.
 */
bool nx_session_must_recover(const struct nx_session *session);

/**
 * nx_session_sweep() - remove what dead runs have left
 * @session: (borrowed)
 *
 * Once more after a recovery, which makes sessions free to be swept.
 *
 * Return: nothing.
 * Context: any thread; not after fork.
 */
void nx_session_sweep(struct nx_session *session);

/**
 * nx_store_lock() - take the right to promote
 * @store_fd: (borrowed)
 * @ret_fd:   (transfer full) holds it until it is closed
 *
 * Waits for a promotion to end.
 *
 * Return: 0, or a negative errno.
 * Context: any thread.
 */
int nx_store_lock(int store_fd, int *ret_fd);

/**
 * nx_store_note_kept() - leave the note for backups in the store
 * @store_fd: (borrowed)
 *
 * Return: nothing.
 * Context: any thread.
 */
void nx_store_note_kept(int store_fd);

/**
 * nx_store_note_boot() - say which life of the machine the history belongs to
 * @store_fd: (borrowed)
 *
 * Return: nothing: without it the history is looked through once more.
 * Context: any thread, under the store's lock.
 */
void nx_store_note_boot(int store_fd);

/**
 * nx_store_is_of_boot() - whether the history was last seen in this life of the machine
 * @store_fd: (borrowed)
 *
 * Return: true if so, or if there is no history.
 * Context: any thread.
 */
bool nx_store_is_of_boot(int store_fd);

/**
 * nx_store_folder() - open a folder of the store
 * @dir_fd: (borrowed) the store, or a folder in it
 * @name:   (borrowed) a name in it, or a path below it
 *
 * Return: a descriptor, or a negative errno.
 * Context: any thread.
 */
int nx_store_folder(int dir_fd, const char *name);

/**
 * nx_session_open_lock() - make ready to promote
 * @session: (borrowed)
 * @err:     (out, optional)
 *
 * Early, because a full disk may have no room for the lock's file later.
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM the lock's file cannot be made.
 * Context: any thread.
 */
int nx_session_open_lock(struct nx_session *session, struct nexbox_error *err);

/**
 * nx_session_lock() - be the only one who promotes into this workspace
 * @session: (borrowed) whose lock is open
 * @err:     (out, optional)
 *
 * Waits for another promotion to end. Lasts until nx_session_free().
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM the lock cannot be had.
 * Context: any thread.
 */
int nx_session_lock(struct nx_session *session, struct nexbox_error *err);

/**
 * nx_session_keep() - let the session outlive the run
 * @session: (borrowed)
 * @err:     (out, optional)
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: NEXBOX_E_SYSTEM the mark cannot be written.
 * Context: any thread.
 */
int nx_session_keep(struct nx_session *session, struct nexbox_error *err);

/**
 * nx_session_free() - end a session
 * @session: (transfer full, optional)
 *
 * Unless it was kept it is removed, and with the last one the store. What cannot
 * be removed now is swept by the next run.
 *
 * Return: NULL.
 * Context: any thread; not after fork.
 */
struct nx_session *nx_session_free(struct nx_session *session);
NX_DEFINE_AUTO(session);
