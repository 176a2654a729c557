/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * A caller of the library that looks at itself: what a run leaves behind in the
 * process that made it. One check a run: probe CHECK [WORKSPACE...]; 0 when all
 * is well, else the reason on stdout. Standard error belongs to the library, which
 * must not use it.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <nexbox/nexbox.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			printf("%s:%d: not true: %s (errno %d)\n", __FILE__, __LINE__, #condition, \
			       errno);                                                             \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static const char *const echo[] = { "sh", "-c", "echo out; echo err >&2; echo x > made", NULL };

static struct nexbox_run_options options_of(const char *workspace, const char *const *argv)
{
	struct nexbox_run_options options = NEXBOX_RUN_OPTIONS_INIT;

	options.argv = argv;
	options.envp = (const char *const *)environ;
	options.workspace = workspace;
	options.cwd = workspace;
	options.home = getenv("HOME");
	options.helper = getenv("PROBE_HELPER");
	return options;
}

/* Runs; the command must have started. */
static struct nexbox_outcome *run(const struct nexbox_run_options *options)
{
	struct nexbox_outcome *outcome = NULL;
	struct nexbox_error error = { 0 };
	int r = nexbox_run(options, &outcome, &error);

	if (r < 0) {
		printf("%s: %s (%d)\n", error.where, error.message, error.os_code);
		exit(1);
	}
	CHECK(outcome && outcome->size >= sizeof(*outcome));
	return outcome;
}

static int n_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	CHECK(dir);
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n;
}

static void descriptors(char **workspaces)
{
	struct nexbox_run_options options = options_of(workspaces[0], echo);
	int before = n_descriptors();

	for (int i = 0; i < 200; i++) {
		struct nexbox_outcome *outcome;

		options.flags = i % 2 ? NEXBOX_RUN_CAPTURE : NEXBOX_RUN_COMMIT;
		outcome = run(&options);
		CHECK(outcome->status == 0);
		CHECK(nexbox_outcome_free(outcome) == NULL);
		CHECK(n_descriptors() == before);
	}
	CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

/* Failures leave nothing either. */
static void failures(char **workspaces)
{
	int before = n_descriptors();

	for (int i = 0; i < 50; i++) {
		const char *const missing[] = { "no-such-program", NULL };
		struct nexbox_run_options options = options_of(workspaces[0], missing);
		struct nexbox_outcome *outcome = run(&options);
		struct nexbox_error error = { 0 };

		CHECK(outcome->status == 127 && outcome->error.os_code == ENOENT);
		(void)nexbox_outcome_free(outcome);
		options.helper = "/no/such/helper";
		outcome = NULL;
		CHECK(nexbox_run(&options, &outcome, &error) < 0);
		CHECK(outcome && outcome->status == 125);
		CHECK(outcome->error.code == error.code && strstr(error.message, "/no/such/helper"));
		(void)nexbox_outcome_free(outcome);
	}
	CHECK(n_descriptors() == before);
	CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

static void *run_many(void *workspace)
{
	for (int i = 0; i < 20; i++) {
		const char *const argv[] = { "sh", "-c", "cat name; pwd", NULL };
		struct nexbox_run_options options = options_of(workspace, argv);
		struct nexbox_outcome *outcome;
		char expected[600];

		options.flags = NEXBOX_RUN_CAPTURE | NEXBOX_RUN_COMMIT;
		outcome = run(&options);
		(void)snprintf(expected, sizeof(expected), "%s%s\n", (char *)workspace,
		               (char *)workspace);
		CHECK(outcome->status == 0);
		CHECK(outcome->stdout_size_bytes == strlen(expected));
		CHECK(memcmp(outcome->stdout_data, expected, strlen(expected)) == 0);
		(void)nexbox_outcome_free(outcome);
	}
	return NULL;
}

/* Two workspaces that each hold their own path in the file "name"; and one by two. */
static void threads(char **workspaces)
{
	pthread_t pthreads[4];

	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&pthreads[i], NULL, run_many, workspaces[i % 2]) == 0);
	for (int i = 0; i < 4; i++)
		CHECK(pthread_join(pthreads[i], NULL) == 0);
}

static volatile sig_atomic_t n_signals;

static void count_signal(int signal_number)
{
	(void)signal_number;
	n_signals++;
}

static void same_action(const struct sigaction *a, const struct sigaction *b)
{
	CHECK(a->sa_handler == b->sa_handler && a->sa_flags == b->sa_flags);
	for (int i = 1; i < 64; i++)
		CHECK(sigismember(&a->sa_mask, i) == sigismember(&b->sa_mask, i));
}

/* The caller's SIGCHLD, whatever it is, stays, and does not lose the outcome. */
static void sigchld(char **workspaces)
{
	void (*const handlers[])(int) = { SIG_DFL, SIG_IGN, count_signal };

	for (size_t i = 0; i < 3; i++) {
		for (int blocked = 0; blocked < 2; blocked++) {
			const char *const argv[] = { "sh", "-c", "(exit 3); exit 7", NULL };
			struct nexbox_run_options options = options_of(workspaces[0], argv);
			struct sigaction action = { .sa_flags = SA_RESTART };
			struct nexbox_outcome *outcome;
			struct sigaction before;
			struct sigaction after;
			sigset_t mask_before;
			sigset_t mask_after;

			options.timeout_ms = 5000; /* a box that does not notice its end */
			action.sa_handler = handlers[i];
			CHECK(sigaction(SIGCHLD, &action, NULL) == 0);
			CHECK(sigaction(SIGCHLD, NULL, &before) == 0);
			(void)sigemptyset(&mask_before);
			if (blocked)
				(void)sigaddset(&mask_before, SIGCHLD);
			CHECK(pthread_sigmask(SIG_SETMASK, &mask_before, NULL) == 0);
			outcome = run(&options);
			CHECK(outcome->exit_code == 7 && outcome->status == 7);
			(void)nexbox_outcome_free(outcome);
			CHECK(sigaction(SIGCHLD, NULL, &after) == 0);
			same_action(&before, &after);
			CHECK(pthread_sigmask(SIG_SETMASK, NULL, &mask_after) == 0);
			for (int s = 1; s < 64; s++)
				CHECK(sigismember(&mask_before, s) == sigismember(&mask_after, s));
		}
	}
	(void)signal(SIGCHLD, SIG_DFL);
	/* A child of the caller's own is still the caller's to wait for. */
	if (fork() == 0)
		_exit(5);
	{
		struct nexbox_run_options options = options_of(workspaces[0], echo);
		int status = 0;

		(void)nexbox_outcome_free(run(&options));
		CHECK(waitpid(-1, &status, 0) > 0 && WEXITSTATUS(status) == 5);
	}
}

/* The reader of the output is gone: EPIPE for the command, no SIGPIPE for us. */
static void sigpipe(char **workspaces)
{
	const char *const yes[] = { "yes", NULL };
	struct nexbox_run_options options = options_of(workspaces[0], yes);
	struct nexbox_outcome *outcome;
	sigset_t pending;
	int ends[2];

	(void)signal(SIGPIPE, count_signal);
	CHECK(pipe(ends) == 0);
	(void)close(ends[0]);
	options.stdout_fd = ends[1];
	outcome = run(&options);
	CHECK(n_signals == 0);
	CHECK(sigpending(&pending) == 0 && !sigismember(&pending, SIGPIPE));
	/* In the box SIGPIPE is as the caller had it: a handler becomes the default. */
	CHECK(outcome->signal_number == SIGPIPE || outcome->exit_code == 1);
	(void)nexbox_outcome_free(outcome);
	CHECK(fcntl(ends[1], F_GETFD) >= 0); /* the descriptor is ours, still open */
}

/* Nothing appears on 0 to 2: the test looks at them from outside. */
static void silence(char **workspaces)
{
	struct nexbox_run_options options = options_of(workspaces[0], echo);
	struct nexbox_outcome *outcome = NULL;

	(void)nexbox_outcome_free(run(&options));
	options.workspace = "/not/there";
	CHECK(nexbox_run(&options, &outcome, NULL) < 0);
	(void)nexbox_outcome_free(outcome);
}

static int collect(void *userdata, const void *data, size_t size)
{
	(void)data;
	*(size_t *)userdata += size;
	return 0;
}

static int refuse(void *userdata, const void *data, size_t size)
{
	(void)userdata;
	(void)data;
	(void)size;
	return ENOSPC;
}

struct newer {
	struct nexbox_run_options options;
	uint64_t added;
};

static void errors(char **workspaces)
{
	const char *const nothing[] = { NULL };
	struct nexbox_run_options options = options_of(workspaces[0], echo);
	struct newer newer = { .options = options };
	struct nexbox_outcome *outcome = (void *)&options;
	struct nexbox_error error = { 0 };
	size_t size = 0;

	CHECK(nexbox_run(NULL, &outcome, &error) == -NEXBOX_E_INVALID && !outcome);
	CHECK(error.code == NEXBOX_E_INVALID && error.where[0] && error.message[0]);
	CHECK(nexbox_run(&options, NULL, &error) == -NEXBOX_E_INVALID);
	CHECK(nexbox_run(NULL, NULL, NULL) == -NEXBOX_E_INVALID);
	options.size = 0;
	CHECK(nexbox_run(&options, &outcome, &error) == -NEXBOX_E_INVALID && !outcome);
	options.size = 8;
	CHECK(nexbox_run(&options, &outcome, &error) == -NEXBOX_E_INVALID && !outcome);
	options.size = sizeof(options);

	newer.options.size = sizeof(newer);
	newer.added = 1;
	CHECK(nexbox_run(&newer.options, &outcome, &error) == -NEXBOX_E_UNSUPPORTED && !outcome);
	newer.added = 0;
	(void)nexbox_outcome_free(run(&newer.options));

	options.flags = 1u << 30;
	CHECK(nexbox_run(&options, &outcome, &error) == -NEXBOX_E_UNSUPPORTED);
	CHECK(outcome && outcome->status == 125 && outcome->error.code == NEXBOX_E_UNSUPPORTED);
	outcome = nexbox_outcome_free(outcome);
	options.flags = 0;
	options.argv = nothing;
	CHECK(nexbox_run(&options, &outcome, &error) == -NEXBOX_E_INVALID);
	CHECK(outcome && outcome->n_command == 0);
	outcome = nexbox_outcome_free(outcome);
	options.argv = NULL;
	CHECK(nexbox_run(&options, &outcome, NULL) == -NEXBOX_E_INVALID);
	outcome = nexbox_outcome_free(outcome);
	CHECK(nexbox_outcome_free(NULL) == NULL);

	options.argv = echo;
	outcome = run(&options);
	CHECK(nexbox_outcome_write_json(NULL, 0, collect, &size, &error) == -NEXBOX_E_INVALID);
	CHECK(nexbox_outcome_write_json(outcome, 0, NULL, NULL, &error) == -NEXBOX_E_INVALID);
	CHECK(nexbox_outcome_write_json(outcome, 2, collect, &size, &error) == -NEXBOX_E_INVALID);
	CHECK(nexbox_outcome_write_json(outcome, 0, refuse, NULL, &error) == -NEXBOX_E_SYSTEM);
	CHECK(error.os_code == ENOSPC);
	CHECK(nexbox_outcome_write_json(outcome, NEXBOX_JSON_OUTPUT, collect, &size, NULL) == 0);
	CHECK(size > 500);
	(void)nexbox_outcome_free(outcome);

	CHECK(nexbox_guarantee_from_name("fs-write") == NEXBOX_GUARANTEE_FS_WRITE);
	CHECK(nexbox_guarantee_from_name("nonsense") == 0 && nexbox_guarantee_from_name(NULL) == 0);
	CHECK(strcmp(nexbox_guarantee_name(NEXBOX_GUARANTEE_SNAPSHOT), "snapshot") == 0);
	CHECK(!nexbox_guarantee_name(0) && !nexbox_guarantee_name(3));
	CHECK(nexbox_helper_main(1, (char *[]){ (char *)"probe", NULL }) == -1);
	CHECK(strchr(nexbox_version(), '.'));
}

/* A child of another thread's that lives on with all that was open when it was forked. */
static void *fork_again_and_again(void *argument)
{
	pid_t *children = argument;
	pid_t caller = getpid();

	for (int i = 0; i < 60; i++) {
		children[i] = fork();
		if (children[i] == 0) {
			while (getppid() == caller) /* nobody kills us when a check fails */
				(void)usleep(20000);
			_exit(0);
		}
		(void)usleep(500);
	}
	return NULL;
}

/*
 * Copies of our descriptors in such children keep no run from its end: not the
 * command's output, not the word of the box, not a lock.
 */
static void forkers(char **workspaces)
{
	static const char *const argv[] = { "sh", "-c", "echo out; echo $$ > made; ls", NULL };
	pid_t children[60];
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, fork_again_and_again, children) == 0);
	for (int i = 0; i < 30; i++) {
		struct nexbox_run_options options = options_of(workspaces[0], argv);
		struct nexbox_outcome *outcome;

		options.flags = NEXBOX_RUN_COMMIT | NEXBOX_RUN_CAPTURE;
		outcome = run(&options);
		if (!outcome->committed || outcome->unreaped || outcome->duration_ms > 800)
			printf("run %d: %s after %d ms, unreaped %d\n", i, outcome->commit_reason,
			       (int)outcome->duration_ms, (int)outcome->unreaped);
		CHECK(outcome->committed && !outcome->unreaped && outcome->duration_ms < 800);
		CHECK(outcome->stdout_size_bytes == strlen("out\nmade\n"));
		(void)nexbox_outcome_free(outcome);
	}
	CHECK(pthread_join(thread, NULL) == 0);
	for (int i = 0; i < 60; i++) {
		CHECK(kill(children[i], SIGKILL) == 0);
		CHECK(waitpid(children[i], NULL, 0) == children[i]);
	}
}

static int no_more(void *userdata)
{
	return ++*(int *)userdata > 2;
}

/* Whoever gives a run up gets nothing of it, though it asked for everything. */
static void give_up(char **workspaces)
{
	static const char *const argv[] = { "sh", "-c", "trap '' INT TERM; echo > made; sleep 9",
		                            NULL };
	static const unsigned char byte = SIGKILL;
	char kept[4096];
	int ends[2];

	CHECK(pipe(ends) == 0 && write(ends[1], &byte, 1) == 1);
	(void)snprintf(kept, sizeof(kept), "%s/.nexbox", workspaces[0]);
	for (int by_pipe = 0; by_pipe < 2; by_pipe++) {
		struct nexbox_run_options options = options_of(workspaces[0], argv);
		struct nexbox_outcome *outcome;
		int n_wakes = 0;

		options.flags = NEXBOX_RUN_COMMIT | NEXBOX_RUN_KEEP;
		options.userdata = &n_wakes;
		if (by_pipe)
			options.control_fd = ends[0];
		else
			options.on_wake = no_more;
		outcome = run(&options);
		CHECK(outcome->duration_ms < 3000 && n_wakes == (by_pipe ? 0 : 3));
		CHECK(outcome->signal_number == SIGKILL && outcome->status == 128 + SIGKILL);
		CHECK(outcome->commit_status == NEXBOX_COMMIT_COMMAND_FAILED && !outcome->kept);
		CHECK(access(kept, F_OK) < 0 && errno == ENOENT);
		(void)nexbox_outcome_free(outcome);
	}
}

static const struct {
	const char *name;
	void (*check)(char **workspaces);
} checks[] = {
	{ "descriptors", descriptors }, { "failures", failures }, { "threads", threads },
	{ "sigchld", sigchld },         { "sigpipe", sigpipe },   { "silence", silence },
	{ "errors", errors },           { "forkers", forkers },   { "give_up", give_up },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(checks) / sizeof(checks[0]); i++) {
		if (strcmp(argv[1], checks[i].name) != 0)
			continue;
		checks[i].check(argv + 2);
		return 0;
	}
	printf("no such check\n");
	return 2;
}
