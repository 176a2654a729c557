/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/guard_git.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/glob.h"
#include "core/guard_rows.h"
#include "core/listing.h"
#include "platform/fs.h"

#define GIT ".git"

/* What the host's configuration names in the workspace. */
struct nx_guard_git_named {
	const char *path;
	const char *reason;
	bool is_folder; /* what lies in it counts */
	bool is_config; /* of it, only the keys that run programs do */
};

static bool is_called(const char *name, const char *what)
{
	return strcasecmp(name, what) == 0;
}

static const char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* ---- keys ------------------------------------------------------------------- */

static bool is_switch(const char *value)
{
	static const char *const words[] = { "", "true", "false", "yes", "no", "on", "off" };

	for (size_t i = 0; value && i < NX_ARRAY_SIZE(words); i++)
		if (is_called(value, words[i]))
			return true;
	return !value || strspn(value, "0123456789-") == strlen(value);
}

/* "ext::sh -c …": a word, and two colons. */
static bool names_helper(const char *url)
{
	size_t n = url ? strcspn(url, ":/@ ") : 0;

	return n > 0 && strncmp(url + n, "::", 2) == 0;
}

static const struct nx_guard_key *find_key(const struct nx_gitconfig_item *item)
{
	for (const struct nx_guard_key *row = nx_guard_keys; row->section; row++)
		if (strcmp(row->section, item->section) == 0 &&
		    nx_glob_match(row->key, item->key, strlen(item->key), false))
			return row;
	return NULL;
}

static bool runs_program(const struct nx_gitconfig_item *item,
                         bool (*leaves)(void *userdata, const char *path), void *userdata)
{
	const struct nx_guard_key *row = find_key(item);

	if (!row)
		return false;
	switch (row->test) {
	case NX_GUARD_ANY:
		return true;
	case NX_GUARD_SWITCH:
		return !is_switch(item->value);
	case NX_GUARD_BANG:
		return item->value && item->value[0] == '!';
	case NX_GUARD_HELPER:
		return names_helper(item->value) || names_helper(item->subsection);
	case NX_GUARD_LEAVES:
		return !item->value || leaves(userdata, item->value);
	}
	return true;
}

static bool is_same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool is_same_key(const struct nx_gitconfig_item *a, const struct nx_gitconfig_item *b)
{
	return strcmp(a->section, b->section) == 0 && strcmp(a->key, b->key) == 0 &&
	       is_same(a->subsection, b->subsection);
}

/* More than that is not ordinary, and is not compared. */
#define PROGRAMS_MAX 256

struct programs {
	const struct nx_gitconfig_item *items[PROGRAMS_MAX];
	size_t n_items;
};

/* The first items that run programs; returns the one that is too many, or NULL. */
static const struct nx_gitconfig_item *list_programs(struct programs *programs,
                                                     const struct nx_gitconfig *config,
                                                     bool (*leaves)(void *userdata, const char *path),
                                                     void *userdata)
{
	programs->n_items = 0;
	for (size_t i = 0; i < config->n_items; i++) {
		if (!runs_program(&config->items[i], leaves, userdata))
			continue;
		if (programs->n_items == PROGRAMS_MAX)
			return &config->items[i];
		programs->items[programs->n_items++] = &config->items[i];
	}
	return NULL;
}

/* Where in @then the item stands, at or after @from. */
static size_t find_item(const struct programs *then, size_t from,
                        const struct nx_gitconfig_item *item)
{
	while (from < then->n_items && !(is_same_key(then->items[from], item) &&
	                                 is_same(then->items[from]->value, item->value)))
		from++;
	return from;
}

/*
 * Whether number @i of @now stands in @then behind those that come before it: the
 * order counts, for the last one of a key often wins.
 */
static bool is_old(const struct programs *now, const struct programs *then, size_t i)
{
	size_t from = 0;

	for (size_t k = 0; k <= i; k++) {
		if (!is_same_key(now->items[k], now->items[i]))
			continue;
		from = find_item(then, from, now->items[k]);
		if (from == then->n_items)
			return false;
		from++;
	}
	return true;
}

const struct nx_gitconfig_item *nx_gitconfig_find_program(
	const struct nx_gitconfig *now, const struct nx_gitconfig *then,
	bool (*leaves)(void *userdata, const char *path), void *userdata)
{
	struct programs new;
	struct programs old;
	const struct nx_gitconfig_item *one_too_many = list_programs(&new, now, leaves, userdata);

	(void)list_programs(&old, then, leaves, userdata);
	for (size_t i = 0; i < new.n_items; i++)
		if (!is_old(&new, &old, i))
			return new.items[i];
	return one_too_many;
}

/* ---- folders ---------------------------------------------------------------- */

static bool exists_in(const struct nx_guard_git *git, const char *folder, const char *name)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf path = NX_BUF_INIT;

	nx_buf_printf(&path, "%s%s%s", folder, *folder ? "/" : "", name);
	return path.failed || nx_after_exists(git->after, path.data);
}

/*
 * What git takes for a git folder: it has a HEAD, and objects and refs of its own
 * or in a common folder. Whether they are any good is not asked.
 */
static bool is_git_folder(struct nx_guard_git *git, const char *folder, size_t size)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf copy = NX_BUF_INIT;

	if (git->last_folder.data && git->last_folder.size == size &&
	    memcmp(git->last_folder.data, folder, size) == 0)
		return git->last_is_git;
	nx_buf_append(&copy, folder, size);
	if (copy.failed)
		return true;
	git->last_is_git = is_called(name_of(copy.data), GIT) ||
	                   (exists_in(git, copy.data, "HEAD") &&
	                    (exists_in(git, copy.data, "commondir") ||
	                     (exists_in(git, copy.data, "objects") &&
	                      exists_in(git, copy.data, "refs"))));
	nx_buf_truncate(&git->last_folder, 0);
	nx_buf_append(&git->last_folder, folder, size);
	return git->last_is_git;
}

/* The same before the run; ".git" alone does not make one then. */
static bool was_git_folder(const struct nx_guard_git *git, const char *folder)
{
	static const struct nx_changeset none = { 0 };
	struct nx_after before = *git->after;
	struct nx_guard_git then = { .after = &before };

	before.changeset = &none;
	return exists_in(&then, folder, "HEAD") &&
	       (exists_in(&then, folder, "commondir") ||
	        (exists_in(&then, folder, "objects") && exists_in(&then, folder, "refs")));
}

/* ---- configuration ---------------------------------------------------------- */

struct worktree {
	const struct nx_after *after;
	const char *at; /* the configuration's path: what core.worktree is relative to */
};

static bool leaves_workspace(void *userdata, const char *path)
{
	const struct worktree *worktree = userdata;
	NX_CLEANUP(nx_buf_fini) struct nx_buf place = NX_BUF_INIT;

	return !nx_after_resolve(worktree->after, worktree->at, path, &place);
}

/* "core.fsmonitor" and who runs it, as a reason; what stands there is hostile text. */
static const char *explain_key(struct nx_guard_git *git, const struct nx_gitconfig_item *item)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf text = NX_BUF_INIT;
	struct nx_quoted key;
	char name[96];

	if (!git->arena)
		return "git runs or obeys what a key of it names";
	(void)snprintf(name, sizeof(name), "%.30s.%s%.30s", item->section,
	               item->subsection ? "*." : "", item->key);
	nx_buf_printf(&text, "git runs or obeys what its key '%s' names", nx_quote_to(&key, name));
	return text.failed ? NULL : nx_arena_strdup(git->arena, text.data);
}

/* The keys of a configuration as it will be against those of before. */
static int compare_config(struct nx_guard_git *git, const char *path, bool is_new,
                          const char **ret_reason)
{
	NX_CLEANUP(nx_gitconfig_fini) struct nx_gitconfig now = { 0 };
	NX_CLEANUP(nx_gitconfig_fini) struct nx_gitconfig then = { 0 };
	NX_CLEANUP(nx_buf_fini) struct nx_buf text = NX_BUF_INIT;
	struct worktree worktree = { .after = git->after, .at = path };
	const struct nx_gitconfig_item *item;
	int r = nx_after_read(git->after, path, NX_GITCONFIG_SIZE_MAX, &text);
	int read;

	if (r == -ENOENT)
		return 0;
	if (r == -ENOMEM)
		return -NEXBOX_E_NOMEM;
	if (r == -EINVAL)
		*ret_reason = "git's configuration is no regular file";
	else if (r < 0)
		*ret_reason = "git's configuration is too large to be looked at, or closed";
	if (r < 0)
		return 0;
	read = nx_gitconfig_read(&now, text.data, text.size);
	r = is_new ? -ENOENT : nx_after_read_before(git->after, path, NX_GITCONFIG_SIZE_MAX, &text);
	if (read >= 0 && r == 0)
		r = nx_gitconfig_read(&then, text.data, text.size);
	if (read < 0 || r == -ENOMEM)
		return -NEXBOX_E_NOMEM;
	item = nx_gitconfig_find_program(&now, &then, leaves_workspace, &worktree);
	if (item) {
		*ret_reason = explain_key(git, item);
		return *ret_reason ? 0 : -NEXBOX_E_NOMEM;
	}
	if (read == NX_GITCONFIG_MALFORMED)
		*ret_reason = "git's configuration cannot be understood";
	return 0;
}

/* ---- a folder that becomes a git folder -------------------------------------- */

static bool is_sample(const char *name)
{
	size_t n = strlen(name);

	return n > 7 && is_called(name + n - 7, ".sample");
}

/* Hooks that lie there already; those that come are changes of their own. */
static bool has_old_hooks(const struct nx_guard_git *git, const char *folder)
{
	NX_CLEANUP(nx_listing_fini) struct nx_listing listing = { 0 };
	NX_CLEANUP(nx_buf_fini) struct nx_buf path = NX_BUF_INIT;
	NX_AUTO_FD fd = -1;

	nx_buf_printf(&path, "%s%shooks", folder, *folder ? "/" : "");
	if (path.failed)
		return true;
	fd = nx_fs_open(git->after->workspace_fd, path.data, O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return fd != -ENOENT && fd != -ENOTDIR;
	if (nx_listing_read(&listing, fd) < 0)
		return true;
	for (size_t i = 0; i < listing.n_names; i++)
		if (!is_sample(listing.names[i]))
			return true;
	return false;
}

/*
 * What lies in @folder was harmless as long as it was none, so nothing of it counts
 * as having been there before.
 */
static int check_whole(struct nx_guard_git *git, const char *folder, const char **ret_reason)
{
	static const char *const configs[] = { "config", "config.worktree" };
	int r = 0;

	for (size_t i = 0; r == 0 && !*ret_reason && i < NX_ARRAY_SIZE(configs); i++) {
		NX_CLEANUP(nx_buf_fini) struct nx_buf path = NX_BUF_INIT;

		const struct nx_change *change;

		nx_buf_printf(&path, "%s%s%s", folder, *folder ? "/" : "", configs[i]);
		if (path.failed)
			return -NEXBOX_E_NOMEM;
		change = nx_changeset_find(git->after->changeset, path.data);
		/* A new one is looked at as a change of its own. */
		if (!change || change->entry.kind == NEXBOX_ENTRY_MODIFIED)
			r = compare_config(git, path.data, true, ret_reason);
	}
	if (r == 0 && !*ret_reason && has_old_hooks(git, folder))
		*ret_reason = "it makes a git folder of one that has hooks";
	return r;
}

/* The folder of @path, as a string of its own. */
static bool folder_of(const char *path, struct nx_buf *folder)
{
	const char *slash = strrchr(path, '/');

	nx_buf_truncate(folder, 0);
	return nx_buf_append(folder, path, slash ? (size_t)(slash - path) : 0);
}

static int check_making(struct nx_guard_git *git, const struct nx_change *change,
                        const char **ret_reason)
{
	static const char *const makings[] = { "HEAD", "objects", "refs", "commondir" };
	NX_CLEANUP(nx_buf_fini) struct nx_buf folder = NX_BUF_INIT;
	const char *name = name_of(change->entry.path);
	bool is_making = false;

	for (size_t i = 0; i < NX_ARRAY_SIZE(makings); i++)
		is_making |= is_called(name, makings[i]);
	if (!is_making || change->entry.kind == NEXBOX_ENTRY_MODIFIED)
		return 0;
	if (!folder_of(change->entry.path, &folder))
		return -NEXBOX_E_NOMEM;
	if (!is_git_folder(git, folder.data, folder.size) || was_git_folder(git, folder.data))
		return 0;
	return check_whole(git, folder.data, ret_reason);
}

/* ---- single files ------------------------------------------------------------ */

/* A ".git" that is no folder: "gitdir: PATH". */
static int check_dot_git(struct nx_guard_git *git, const struct nx_change *change,
                         const char **ret_reason)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf text = NX_BUF_INIT;
	NX_CLEANUP(nx_buf_fini) struct nx_buf place = NX_BUF_INIT;
	int r;

	*ret_reason = "it tells git which folder to obey";
	if (change->entry.type != NEXBOX_TYPE_FILE)
		return 0;
	r = nx_after_read(git->after, change->entry.path, PATH_MAX + 16, &text);
	if (r == -ENOMEM)
		return -NEXBOX_E_NOMEM;
	if (r < 0 || text.size < 9 || strncmp(text.data, "gitdir: ", 8) != 0 ||
	    memchr(text.data, '\0', text.size))
		return 0;
	while (text.size > 8 &&
	       (text.data[text.size - 1] == '\n' || text.data[text.size - 1] == '\r'))
		nx_buf_truncate(&text, text.size - 1);
	if (!nx_after_resolve(git->after, change->entry.path, text.data + 8, &place))
		return place.failed ? -NEXBOX_E_NOMEM : 0;
	/* Where git itself puts them: worktrees and submodules of the repository. */
	*ret_reason = NULL;
	if (strncasecmp(place.data, GIT "/", 5) == 0 || strcasestr(place.data, "/" GIT "/"))
		return 0;
	return check_whole(git, place.data, ret_reason);
}

/* Which folder the configuration and the hooks are in: only git's own answer goes. */
static int check_commondir(struct nx_guard_git *git, const char *path, const char **ret_reason)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf text = NX_BUF_INIT;
	int r = nx_after_read(git->after, path, 64, &text);

	if (r == -ENOMEM)
		return -NEXBOX_E_NOMEM;
	while (text.size > 0 && text.data[text.size - 1] == '\n')
		nx_buf_truncate(&text, text.size - 1);
	if (r == 0 && text.size == 5 && memcmp(text.data, "../..", 5) == 0 &&
	    nx_glob_match("**/.git/**/worktrees/*/commondir", path, strlen(path), true))
		return 0;
	*ret_reason = "it tells git in which folder its configuration and hooks are";
	return 0;
}

/* A file right in a git folder. */
static int check_in_folder(struct nx_guard_git *git, const struct nx_change *change,
                           const char **ret_reason)
{
	static const char *const names[] = { "config", "config.worktree", "commondir",
		                             "hooks",  "worktrees",       "modules" };
	const char *path = change->entry.path;
	const char *name = name_of(path);
	bool is_obeyed = false;

	for (size_t i = 0; i < NX_ARRAY_SIZE(names); i++)
		is_obeyed |= is_called(name, names[i]);
	if (!is_obeyed || !is_git_folder(git, path, name > path ? (size_t)(name - path - 1) : 0))
		return 0;
	if (change->entry.type != NEXBOX_TYPE_FILE) {
		*ret_reason = "a link where git looks for what it runs or obeys";
		return 0;
	}
	if (is_called(name, "commondir"))
		return check_commondir(git, path, ret_reason);
	return *name == 'c' || *name == 'C' ? compare_config(git, path, false, ret_reason) : 0;
}

/* The folder of hooks that a path lies in: "hooks" in a git folder. */
static bool is_hook(struct nx_guard_git *git, const char *path)
{
	for (const char *name = path; name; name = nx_next_name(name)) {
		size_t n = strcspn(name, "/");
		size_t before = name > path ? (size_t)(name - path - 1) : 0;

		if (n == 5 && name[n] == '/' && strncasecmp(name, "hooks", 5) == 0 &&
		    is_git_folder(git, path, before))
			return !is_sample(name_of(path));
	}
	return false;
}

/* A link on the way to a submodule's or worktree's folder. */
static bool is_link_within(const struct nx_change *change)
{
	static const char *const patterns[] = { "**/.git/modules/**", "**/.git/worktrees/**" };
	const char *path = change->entry.path;

	for (size_t i = 0; i < NX_ARRAY_SIZE(patterns); i++)
		if (change->entry.type == NEXBOX_TYPE_SYMLINK && !is_called(name_of(path), "HEAD") &&
		    nx_glob_match(patterns[i], path, strlen(path), true))
			return true;
	return false;
}

/* ---- what the host's configuration names ------------------------------------- */

static int check_named(struct nx_guard_git *git, const char *path, const char **ret_reason)
{
	for (size_t i = 0; i < git->n_named; i++) {
		const struct nx_guard_git_named *named = &git->named[i];
		size_t n = strlen(named->path);

		if (strncasecmp(path, named->path, n) != 0 ||
		    !(path[n] == '\0' || (named->is_folder && path[n] == '/')))
			continue;
		if (named->is_config)
			return compare_config(git, path, false, ret_reason);
		*ret_reason = named->reason;
		return 0;
	}
	return 0;
}

static int add_named(struct nx_guard_git *git, const char *at, const char *words,
                     struct nx_guard_git_named named)
{
	NX_CLEANUP(nx_buf_fini) struct nx_buf place = NX_BUF_INIT;

	if (!nx_after_resolve(git->after, at, words, &place) || place.size == 0)
		return place.failed ? -NEXBOX_E_NOMEM : 0;
	named.path = nx_arena_strdup(&git->memory, place.data);
	if (!named.path || !nx_grow(&git->named, &git->capacity, git->n_named, sizeof(*git->named)))
		return -NEXBOX_E_NOMEM;
	git->named[git->n_named++] = named;
	return 0;
}

/*
 * The words of a command line that may be files of the workspace. One without a dot
 * or a slash is a program that is looked up elsewhere, or no file at all.
 */
static int add_words(struct nx_guard_git *git, const char *value)
{
	static const char breaks[] = " \t\n;|&()'\"!=";
	static const struct nx_guard_git_named program = {
		.reason = "git's configuration names it as a program"
	};
	int r = 0;

	while (r == 0 && *(value += strspn(value, breaks))) {
		size_t n = strcspn(value, breaks);
		char *word = nx_arena_strndup(&git->memory, value, n);

		if (!word)
			return -NEXBOX_E_NOMEM;
		if (strpbrk(word, "./"))
			r = add_named(git, "x", word, program);
		value += n;
	}
	return r;
}

static int add_item(struct nx_guard_git *git, const char *config,
                    const struct nx_gitconfig_item *item)
{
	const struct nx_guard_key *row = find_key(item);

	/* An alias has to be asked for. */
	if (!row || !item->value || row->test == NX_GUARD_LEAVES ||
	    strcmp(item->section, "alias") == 0)
		return 0;
	if (strncmp(item->section, "include", 7) == 0)
		return add_named(git, config, item->value,
		                 (struct nx_guard_git_named){ .is_config = true });
	if (strcmp(item->key, "hookspath") == 0)
		return add_named(git, "x", item->value,
		                 (struct nx_guard_git_named){
					 .is_folder = true,
					 .reason = "git runs it as a hook, as core.hooksPath says" });
	return row->test == NX_GUARD_HELPER ? 0 : add_words(git, item->value);
}

int nx_guard_git_init(struct nx_guard_git *git, const struct nx_after *after, struct nx_arena *arena)
{
	static const char *const configs[] = { GIT "/config", GIT "/config.worktree" };
	int r = 0;

	*git = (struct nx_guard_git){ .after = after, .arena = arena };
	for (size_t i = 0; r == 0 && i < NX_ARRAY_SIZE(configs); i++) {
		NX_CLEANUP(nx_gitconfig_fini) struct nx_gitconfig config = { 0 };
		NX_CLEANUP(nx_buf_fini) struct nx_buf text = NX_BUF_INIT;

		r = nx_after_read_before(after, configs[i], NX_GITCONFIG_SIZE_MAX, &text);
		if (r == 0)
			r = nx_gitconfig_read(&config, text.data, text.size);
		r = r == -ENOMEM ? -NEXBOX_E_NOMEM : 0;
		for (size_t k = 0; r == 0 && k < config.n_items; k++)
			r = add_item(git, configs[i], &config.items[k]);
	}
	return r;
}

void nx_guard_git_fini(struct nx_guard_git *git)
{
	free(git->named);
	nx_arena_fini(&git->memory);
	nx_buf_fini(&git->last_folder);
}

/* ---- all of it --------------------------------------------------------------- */

int nx_guard_git_check(struct nx_guard_git *git, const struct nx_change *change,
                       const char **ret_reason)
{
	const char *path = change->entry.path;
	int r;

	*ret_reason = NULL;
	r = check_making(git, change, ret_reason);
	if (r < 0 || *ret_reason || change->entry.type == NEXBOX_TYPE_DIRECTORY ||
	    !nx_change_rewrites(change))
		return r;
	if (is_called(name_of(path), GIT))
		return check_dot_git(git, change, ret_reason);
	if (is_called(name_of(path), ".gitmodules") && change->entry.type == NEXBOX_TYPE_FILE)
		return compare_config(git, path, false, ret_reason);
	if (is_hook(git, path)) {
		*ret_reason = "git runs it as a hook";
		return 0;
	}
	if (is_link_within(change)) {
		*ret_reason = "a link where git looks for what it runs or obeys";
		return 0;
	}
	r = check_named(git, path, ret_reason);
	if (r == 0 && !*ret_reason)
		r = check_in_folder(git, change, ret_reason);
	return r;
}
