/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/pump.h"
#include "core/terminal.h"
#include "core/watch.h"
#include "platform/fs.h"

/* How long a killed box may take to be gone before it is called unreaped. */
#define REAP_NS (1000 * 1000000LL)

/* What a caller gets to read the rest, once its command was killed. */
#define GRACE_OF_READER_NS (250 * 1000000LL)

/* How often a caller is asked whether it still wants the run. */
#define WAKE_NS (50 * 1000000LL)

#define NEVER INT64_MAX

enum {
	INPUT,
	OUTPUT,
	ERRORS,
	N_PUMPS
};

struct stream {
	struct nx_supervisor *supervisor;
	struct nx_kept *kept;
	uint32_t number; /* enum nexbox_stream */
};

struct nx_supervisor {
	const struct nexbox_run_options *options;
	const struct nx_tier *tier;
	struct nx_enclave *enclave;
	struct nx_end *end;
	uint64_t (*on_started)(void *userdata);
	uint64_t (*on_tick)(void *userdata, uint32_t *ret_hit);
	void *userdata;
	bool may_hurry;
	struct nx_pump *pumps; /* N_PUMPS of them */
	struct stream streams[N_PUMPS];
	struct nx_terminal terminal;
	int master_fd;      /* of the box's terminal; owned by the pumps' user, here */
	int command_fds[3]; /* the command's ends until it is launched */
	int unread_fd;      /* reading end of the input pipe, to count what was left */
	int n_signals;
	int early_signal; /* came before the word that the command has started */
	int64_t start_ns;
	int64_t deadline_ns;
	int64_t grace_ns;
	int64_t killed_ns;
	int64_t tick_ns;
	int64_t linger_ns; /* until then the rest of the terminal may come */
	int64_t wake_ns;   /* when the caller is asked next */
	bool over;         /* the command has ended, or never started */
	bool dead;         /* every process of the box is */
	bool silent;       /* the enclave has nothing more to say */
};

static void seen(void *userdata, const void *data, size_t size)
{
	struct stream *stream = userdata;
	const struct nexbox_run_options *options = stream->supervisor->options;

	nx_kept_add(stream->kept, data, size);
	if (options->on_output)
		options->on_output(options->userdata, stream->number, data, size);
}

/* A pipe: the command's end blocks as pipes do, ours never. */
static int make_pipe(int *ours, int *theirs, bool we_read, struct nexbox_error *err)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, errno, "supervise", "cannot make a pipe");
	*ours = ends[we_read ? 0 : 1];
	*theirs = ends[we_read ? 1 : 0];
	if (fcntl(*ours, F_SETFL, O_NONBLOCK) < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, errno, "supervise", "cannot set a pipe up");
	return 0;
}

static bool is_null_device(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3);
}

/* A pipe(2), which has no name and no owner that matters; not a FIFO. */
static bool is_anonymous_pipe(int fd, const struct stat *st)
{
	char path[32];
	char target[16];
	ssize_t n;

	if (!S_ISFIFO(st->st_mode))
		return false;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, target, sizeof(target));
	return n > 5 && target[0] == 'p' && target[4] == ':';
}

/*
 * The command's input. An anonymous pipe and /dev/null go in as they are, so that
 * a loop which reads the same pipe is not robbed; everything else is carried.
 */
static int prepare_input(struct nx_supervisor *supervisor, struct nexbox_error *err)
{
	struct nx_pump *pump = &supervisor->pumps[INPUT];
	int fd = supervisor->options->stdin_fd;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0 || is_null_device(&st))
		return 0;
	if (is_anonymous_pipe(fd, &st)) {
		supervisor->command_fds[0] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		if (supervisor->command_fds[0] < 0)
			return nx_fail(err, NEXBOX_E_SYSTEM, errno, "supervise",
			               "cannot pass the input on");
		return 0;
	}
	r = make_pipe(&pump->to_fd, &supervisor->command_fds[0], false, err);
	pump->owns_to = true;
	pump->to_way = NX_WAY_OWN;
	if (r < 0)
		return r;
	nx_pump_read_from(pump, fd);
	supervisor->unread_fd = fcntl(supervisor->command_fds[0], F_DUPFD_CLOEXEC, 3);
	if (supervisor->unread_fd < 0)
		return nx_fail(err, NEXBOX_E_SYSTEM, errno, "supervise", "cannot pass the input on");
	return 0;
}

static int prepare_output(struct nx_supervisor *supervisor, int which, int fd,
                          struct nexbox_error *err)
{
	struct nx_pump *pump = &supervisor->pumps[which];
	int r = make_pipe(&pump->from_fd, &supervisor->command_fds[which], true, err);

	pump->owns_from = true;
	pump->from_way = NX_WAY_OWN;
	if (r < 0)
		return r;
	nx_pump_write_to(pump, fd);
	return 0;
}

static int prepare_outputs(struct nx_supervisor *supervisor, struct nexbox_error *err)
{
	const struct nexbox_run_options *options = supervisor->options;
	int r = prepare_output(supervisor, OUTPUT, options->stdout_fd, err);

	if (r < 0)
		return r;
	/* One file for both: one pipe for both, or their order would be lost. */
	if (options->stdout_fd >= 0 && options->stderr_fd >= 0 &&
	    nx_fs_is_same_file(options->stdout_fd, options->stderr_fd)) {
		supervisor->command_fds[ERRORS] = fcntl(supervisor->command_fds[OUTPUT],
		                                        F_DUPFD_CLOEXEC, 3);
		if (supervisor->command_fds[ERRORS] < 0)
			return nx_fail(err, NEXBOX_E_SYSTEM, errno, "supervise",
			               "cannot pass the output on");
		return 0;
	}
	return prepare_output(supervisor, ERRORS, options->stderr_fd, err);
}

static bool wants_terminal(const struct nexbox_run_options *options)
{
	return options->stdin_fd >= 0 && options->stdout_fd >= 0 && isatty(options->stdin_fd) &&
	       isatty(options->stdout_fd);
}

static struct nx_supervisor *supervisor_new(void)
{
	struct nx_supervisor *supervisor = calloc(1, sizeof(*supervisor));

	if (!supervisor)
		return NULL;
	supervisor->master_fd = supervisor->unread_fd = supervisor->terminal.fd = -1;
	for (int i = 0; i < 3; i++)
		supervisor->command_fds[i] = -1;
	supervisor->pumps = malloc(N_PUMPS * sizeof(*supervisor->pumps));
	if (!supervisor->pumps) {
		free(supervisor);
		return NULL;
	}
	for (int i = 0; i < N_PUMPS; i++)
		nx_pump_init(&supervisor->pumps[i]);
	return supervisor;
}

int nx_supervisor_new(const struct nexbox_run_options *options, struct nx_kept *kept_stdout,
                      struct nx_kept *kept_stderr, struct nx_launch *launch,
                      struct nx_supervisor **ret_supervisor, struct nexbox_error *err)
{
	NX_AUTO(supervisor) supervisor = supervisor_new();
	int r = 0;

	if (!supervisor)
		return nx_nomem(err, "supervise");
	supervisor->options = options;
	supervisor->streams[OUTPUT] = (struct stream){ supervisor, kept_stdout,
		                                       NEXBOX_STREAM_STDOUT };
	supervisor->streams[ERRORS] = (struct stream){ supervisor, kept_stderr,
		                                       NEXBOX_STREAM_STDERR };
	for (int i = OUTPUT; i <= ERRORS; i++) {
		supervisor->pumps[i].seen = seen;
		supervisor->pumps[i].userdata = &supervisor->streams[i];
	}
	if (wants_terminal(options)) {
		supervisor->terminal.fd = options->stdin_fd;
		launch->flags |= NX_LAUNCH_TERMINAL;
		nx_terminal_size(options->stdin_fd, &launch->rows, &launch->columns);
		if (options->stderr_fd >= 0 && !isatty(options->stderr_fd))
			r = prepare_output(supervisor, ERRORS, options->stderr_fd, err);
	} else {
		r = prepare_input(supervisor, err);
		if (r == 0)
			r = prepare_outputs(supervisor, err);
	}
	if (r < 0)
		return r;
	launch->stdin_fd = supervisor->command_fds[INPUT];
	launch->stdout_fd = supervisor->command_fds[OUTPUT];
	launch->stderr_fd = supervisor->command_fds[ERRORS];
	*ret_supervisor = nx_take(&supervisor);
	return 0;
}

/* The box's terminal: what is typed goes in, what it shows comes out. */
static void take_terminal(struct nx_supervisor *supervisor, int master_fd)
{
	const struct nexbox_run_options *options = supervisor->options;
	struct nx_pump *input = &supervisor->pumps[INPUT];
	struct nx_pump *output = &supervisor->pumps[OUTPUT];

	supervisor->master_fd = master_fd;
	(void)fcntl(master_fd, F_SETFL, O_RDWR | O_NONBLOCK);
	nx_pump_read_from(input, options->stdin_fd);
	input->to_fd = master_fd;
	input->to_way = NX_WAY_OWN;
	output->from_fd = master_fd;
	output->from_way = NX_WAY_OWN;
	nx_pump_write_to(output, options->stdout_fd);
	nx_terminal_raw(&supervisor->terminal);
}

static void kill_box(struct nx_supervisor *supervisor)
{
	if (supervisor->killed_ns == 0)
		supervisor->killed_ns = nx_clock_ns();
	supervisor->tier->kill(supervisor->enclave);
}

static void give_up(struct nx_supervisor *supervisor)
{
	supervisor->end->given_up = true;
	kill_box(supervisor);
}

/* Control-Z: the job sleeps, and with it goes the terminal, until it is woken. */
static void pause_job(struct nx_supervisor *supervisor, int signal_number)
{
	const struct nexbox_run_options *options = supervisor->options;

	if (supervisor->master_fd < 0)
		return; /* without a terminal a stopped command stays stopped */
	nx_terminal_restore(&supervisor->terminal);
	if (options->on_stop)
		options->on_stop(options->userdata, signal_number);
	nx_terminal_raw(&supervisor->terminal);
	nx_terminal_resize(options->stdin_fd, supervisor->master_fd);
	supervisor->tier->signal(supervisor->enclave, SIGCONT);
}

static void begin_time(struct nx_supervisor *supervisor)
{
	const struct nexbox_run_options *options = supervisor->options;

	supervisor->end->started = true;
	supervisor->start_ns = nx_clock_ns();
	if (options->timeout_ms == 0)
		return;
	supervisor->deadline_ns = supervisor->start_ns + (int64_t)options->timeout_ms * 1000000;
	if (options->grace_ms > 0)
		supervisor->grace_ns = supervisor->deadline_ns -
		                       (int64_t)options->grace_ms * 1000000;
}

/*
 * Every process that could still write has been told to die, or is dead. With a
 * terminal the first process is left, until the terminal has been read to its end.
 */
static void on_over(struct nx_supervisor *supervisor)
{
	supervisor->over = true;
	if (supervisor->master_fd >= 0 && !supervisor->silent) {
		supervisor->linger_ns = nx_clock_ns() + REAP_NS;
		return;
	}
	if (supervisor->killed_ns == 0)
		supervisor->killed_ns = nx_clock_ns();
}

/* They come with the first event that there is, and only with it. */
static void take_results(struct nx_end *end, const struct nx_event *event)
{
	if (event->scratch_fd >= 0)
		end->scratch_fd = event->scratch_fd;
	if (event->make_micros > 0)
		end->make_micros = event->make_micros;
}

/* Whoever watches the limits has a look. */
static void tick(struct nx_supervisor *supervisor)
{
	uint64_t pause_micros = supervisor->on_tick(supervisor->userdata,
	                                            &supervisor->end->limits_hit);

	supervisor->tick_ns = nx_clock_ns() + (int64_t)pause_micros * 1000;
	if (supervisor->end->limits_hit & NX_WATCH_DEADLY)
		kill_box(supervisor);
}

static int handle_event(struct nx_supervisor *supervisor, struct nexbox_error *err)
{
	struct nx_end *end = supervisor->end;
	struct nx_event event;
	int r = supervisor->tier->next_event(supervisor->enclave, &event, err);

	if (r < 0) {
		on_over(supervisor);
		return r;
	}
	switch ((enum nx_event_kind)event.kind) {
	case NX_EVENT_READY:
		take_results(end, &event);
		if (event.terminal_fd >= 0)
			take_terminal(supervisor, event.terminal_fd);
		return 0;
	case NX_EVENT_STARTED:
		take_results(end, &event);
		end->guarantees = event.guarantees;
		begin_time(supervisor);
		if (supervisor->early_signal)
			supervisor->tier->signal(supervisor->enclave, supervisor->early_signal);
		supervisor->tick_ns = (int64_t)supervisor->on_started(supervisor->userdata) * 1000 +
		                      nx_clock_ns();
		return 0;
	case NX_EVENT_NOT_STARTED:
		end->os_code = event.os_code;
		on_over(supervisor);
		return 0;
	case NX_EVENT_STOPPED:
		pause_job(supervisor, event.signal_number);
		return 0;
	case NX_EVENT_LIMIT:
		tick(supervisor);
		return 0;
	case NX_EVENT_EXITED:
		end->exit_code = event.exit_code;
		end->signal_number = event.signal_number;
		end->alone = event.alone;
		end->broken = event.broken;
		on_over(supervisor);
		supervisor->dead = end->alone && supervisor->may_hurry && supervisor->master_fd < 0;
		return 0;
	case NX_EVENT_FAILED:
	case NX_EVENT_GONE:
		break;
	}
	supervisor->silent = true;
	/* Ended without a word: it was killed, by us or for want of memory. */
	if (!supervisor->over) {
		end->exit_code = -1;
		end->signal_number = end->started || end->given_up ? SIGKILL : end->interrupted;
	}
	if (!supervisor->over && !end->started && !end->interrupted && !end->given_up) {
		on_over(supervisor);
		return nx_fail(err, NEXBOX_E_SYSTEM, 0, "supervise",
		               "the box ended before the command could start: is there memory "
		               "enough?");
	}
	on_over(supervisor);
	return 0;
}

/* One signal number a byte. */
static void handle_control(struct nx_supervisor *supervisor)
{
	unsigned char bytes[64];
	ssize_t n = read(supervisor->options->control_fd, bytes, sizeof(bytes));

	for (ssize_t i = 0; i < n; i++) {
		int signal_number = bytes[i];

		switch (signal_number) {
		case SIGWINCH:
			nx_terminal_resize(supervisor->options->stdin_fd, supervisor->master_fd);
			break;
		case SIGKILL:
			give_up(supervisor);
			break;
		case SIGINT:
		case SIGTERM:
		case SIGHUP:
			supervisor->end->interrupted = signal_number;
			supervisor->n_signals++;
			if (supervisor->n_signals > 1)
				kill_box(supervisor);
			else if (!supervisor->end->started)
				supervisor->early_signal = signal_number;
			else
				supervisor->tier->signal(supervisor->enclave, signal_number);
			break;
		default:
			if (signal_number > 0 && signal_number <= SIGRTMAX)
				supervisor->tier->signal(supervisor->enclave, signal_number);
		}
	}
}

/* The moment at which something is due, whether or not anything is readable. */
static int64_t next_due(const struct nx_supervisor *supervisor)
{
	int64_t due = NEVER;

	if (supervisor->killed_ns)
		return supervisor->killed_ns + REAP_NS;
	if (supervisor->over)
		return supervisor->linger_ns;
	if (supervisor->deadline_ns)
		due = supervisor->deadline_ns;
	if (supervisor->tick_ns && supervisor->tick_ns < due)
		due = supervisor->tick_ns;
	if (supervisor->grace_ns && supervisor->grace_ns < due)
		due = supervisor->grace_ns;
	return due;
}

static void handle_time(struct nx_supervisor *supervisor)
{
	int64_t now = nx_clock_ns();

	if (supervisor->killed_ns) {
		if (now >= supervisor->killed_ns + REAP_NS) {
			/* It had its time: what is left cannot be ended. */
			supervisor->end->unreaped = true;
			supervisor->over = true;
			supervisor->dead = true;
		}
		return;
	}
	if (supervisor->over) { /* only the terminal is left to be read */
		const struct nx_pump *output = &supervisor->pumps[OUTPUT];
		bool late = supervisor->deadline_ns && now >= supervisor->deadline_ns;

		/* A reader that is slow has its time; a process that cannot die has not. */
		if (late || (now >= supervisor->linger_ns && output->begin == output->end))
			kill_box(supervisor);
		else if (now >= supervisor->linger_ns)
			supervisor->linger_ns = now + REAP_NS;
		return;
	}
	if (supervisor->grace_ns && now >= supervisor->grace_ns) {
		/* From here on the answer is "deadline", whatever the command makes of it. */
		supervisor->end->timed_out = true;
		supervisor->grace_ns = 0;
		supervisor->tier->signal(supervisor->enclave, SIGTERM);
	}
	if (supervisor->deadline_ns && now >= supervisor->deadline_ns) {
		supervisor->end->timed_out = true;
		kill_box(supervisor);
	} else if (supervisor->tick_ns && now >= supervisor->tick_ns) {
		tick(supervisor);
	}
}

/*
 * A caller that is an interpreter runs its signal handlers in one thread and at
 * moments of its choice: now, since the kernel's part of it has just run, and now
 * and then, since that may have been in another thread or before the wait.
 */
static void ask_caller(struct nx_supervisor *supervisor, bool interrupted)
{
	const struct nexbox_run_options *options = supervisor->options;
	int64_t now;

	if (!options->on_wake || supervisor->end->given_up)
		return;
	now = nx_clock_ns();
	if (!interrupted && now < supervisor->wake_ns)
		return;
	supervisor->wake_ns = now + WAKE_NS;
	if (options->on_wake(options->userdata) != 0)
		give_up(supervisor);
}

/* @due, or the moment at which the caller has to be asked. */
static int64_t or_wake(const struct nx_supervisor *supervisor, int64_t due)
{
	if (!supervisor->options->on_wake || supervisor->end->given_up)
		return due;
	return due < supervisor->wake_ns ? due : supervisor->wake_ns;
}

static struct timespec until(int64_t due)
{
	int64_t left = due - nx_clock_ns();

	if (left < 0)
		left = 0;
	return (struct timespec){ .tv_sec = left / 1000000000, .tv_nsec = left % 1000000000 };
}

enum {
	EVENT,
	PROCESS,
	CONTROL,
	PUMPS,
	N_FDS = PUMPS + 2 * N_PUMPS
};

static void poll_pumps(const struct nx_supervisor *supervisor, struct pollfd *fds)
{
	for (int i = 0; i < N_PUMPS; i++)
		nx_pump_poll(&supervisor->pumps[i], fds + PUMPS + 2 * i);
}

static void move_pumps(struct nx_supervisor *supervisor, const struct pollfd *fds)
{
	for (int i = 0; i < N_PUMPS; i++)
		nx_pump_move(&supervisor->pumps[i], fds + PUMPS + 2 * i);
	/* The input's end is the command's: its reading ends in end-of-file. */
	if (nx_pump_is_done(&supervisor->pumps[INPUT]) && supervisor->master_fd < 0)
		nx_close_p(&supervisor->pumps[INPUT].to_fd);
}

/* Until every process of the box is dead. */
static int watch(struct nx_supervisor *supervisor, struct nexbox_error *err)
{
	const struct nx_tier *tier = supervisor->tier;
	int result = 0;

	while (!supervisor->dead) {
		struct pollfd fds[N_FDS] = {
			[EVENT] = { .fd = supervisor->silent ? -1 :
			                                       tier->event_fd(supervisor->enclave),
			            .events = POLLIN },
			[PROCESS] = { .fd = tier->process_fd(supervisor->enclave), .events = POLLIN },
			[CONTROL] = { .fd = supervisor->options->control_fd, .events = POLLIN },
		};
		int64_t due = or_wake(supervisor, next_due(supervisor));
		struct timespec timeout = until(due);

		poll_pumps(supervisor, fds);
		if (ppoll(fds, N_FDS, due == NEVER ? NULL : &timeout, NULL) < 0) {
			ask_caller(supervisor, true); /* EINTR: a handler of the caller's has run */
			continue;
		}
		/* Time first: a flood must not put the deadline off. */
		handle_time(supervisor);
		ask_caller(supervisor, false);
		/*
		 * The enclave's end of the wire is closed with it, but a copy may be left:
		 * another thread of the caller's has forked while we held that end.
		 */
		if (fds[EVENT].revents || (fds[PROCESS].revents && !supervisor->silent)) {
			int r = handle_event(supervisor, err);

			if (r < 0 && result == 0)
				result = r;
		}
		if (fds[CONTROL].revents & POLLIN)
			handle_control(supervisor);
		/* What it said before it died is heard first. */
		if (fds[PROCESS].revents && supervisor->silent)
			supervisor->dead = true;
		move_pumps(supervisor, fds);
		if (supervisor->over && supervisor->killed_ns == 0 &&
		    nx_pump_is_done(&supervisor->pumps[OUTPUT]))
			kill_box(supervisor);
	}
	return result;
}

/*
 * Nothing is left in a pipe whose writers are dead. Its end-of-file may never
 * come: another thread of the caller's may have forked while we held the
 * command's end, and that child lives on.
 */
static void close_dry(struct nx_pump *pump)
{
	int n_bytes = 0;

	if (pump->from_way == NX_WAY_OWN && pump->owns_from && pump->from_fd >= 0 &&
	    ioctl(pump->from_fd, FIONREAD, &n_bytes) == 0 && n_bytes == 0)
		nx_close_p(&pump->from_fd);
}

/*
 * The rest of the output. Its writers are dead, so its end is near; but its
 * reader may be slow, or gone for a walk.
 */
static void drain(struct nx_supervisor *supervisor)
{
	struct nx_end *end = supervisor->end;
	bool killed = end->timed_out || (end->limits_hit & NX_WATCH_DEADLY) || end->unreaped ||
	              end->given_up || supervisor->n_signals > 1;
	int64_t due = NEVER;

	if (killed)
		due = nx_clock_ns() + GRACE_OF_READER_NS;
	else if (supervisor->deadline_ns)
		due = supervisor->deadline_ns;
	for (;;) {
		struct pollfd fds[N_FDS] = {
			[EVENT] = { .fd = -1 },
			[PROCESS] = { .fd = -1 },
			[CONTROL] = { .fd = supervisor->options->control_fd, .events = POLLIN },
		};
		int64_t wake = or_wake(supervisor, due);
		struct timespec timeout = until(wake);
		int n;

		if (!end->unreaped && supervisor->master_fd < 0) {
			close_dry(&supervisor->pumps[OUTPUT]);
			close_dry(&supervisor->pumps[ERRORS]);
		}
		if (nx_pump_is_done(&supervisor->pumps[OUTPUT]) &&
		    nx_pump_is_done(&supervisor->pumps[ERRORS]))
			return;
		nx_pump_poll(&supervisor->pumps[INPUT], fds + PUMPS);
		fds[PUMPS].fd = fds[PUMPS + 1].fd = -1;
		nx_pump_poll(&supervisor->pumps[OUTPUT], fds + PUMPS + 2);
		nx_pump_poll(&supervisor->pumps[ERRORS], fds + PUMPS + 4);
		if (fds[PUMPS + 2].fd < 0 && fds[PUMPS + 3].fd < 0 && fds[PUMPS + 4].fd < 0 &&
		    fds[PUMPS + 5].fd < 0)
			return; /* nothing can come any more */
		n = ppoll(fds, N_FDS, wake == NEVER ? NULL : &timeout, NULL);
		ask_caller(supervisor, n < 0);
		if (end->given_up)
			return;
		if (n == 0 && nx_clock_ns() >= due)
			return; /* late */
		if (n <= 0)
			continue;
		if (fds[CONTROL].revents & POLLIN) {
			int before = supervisor->n_signals;

			handle_control(supervisor);
			if (supervisor->n_signals > before || end->given_up)
				return; /* the caller has enough of it */
		}
		nx_pump_move(&supervisor->pumps[OUTPUT], fds + PUMPS + 2);
		nx_pump_move(&supervisor->pumps[ERRORS], fds + PUMPS + 4);
	}
}

/*
 * A file that was the command's input: its offset, which everyone who has
 * inherited it shares, ends where the command stopped reading.
 */
static void settle_input(struct nx_supervisor *supervisor)
{
	struct nx_pump *pump = &supervisor->pumps[INPUT];
	int unread = 0;

	if (pump->position < 0 || supervisor->unread_fd < 0 ||
	    ioctl(supervisor->unread_fd, FIONREAD, &unread) < 0)
		return;
	(void)lseek(supervisor->options->stdin_fd,
	            pump->position - unread - (int64_t)(pump->end - pump->begin), SEEK_SET);
}

int nx_supervisor_run(struct nx_supervisor *supervisor, const struct nx_tier *tier,
                      struct nx_enclave *enclave, uint64_t (*on_started)(void *),
                      uint64_t (*on_tick)(void *, uint32_t *ret_hit), void *userdata,
                      bool may_hurry, struct nx_end *ret_end, struct nexbox_error *err)
{
	struct timespec none = { 0 };
	sigset_t pipe_signal;
	sigset_t pending;
	sigset_t before;
	bool was_pending;
	int r;

	*ret_end = (struct nx_end){ .exit_code = -1, .scratch_fd = -1 };
	supervisor->tier = tier;
	supervisor->enclave = enclave;
	supervisor->end = ret_end;
	supervisor->on_started = on_started;
	supervisor->on_tick = on_tick;
	supervisor->userdata = userdata;
	supervisor->may_hurry = may_hurry;
	supervisor->wake_ns = nx_clock_ns() + WAKE_NS;
	for (int i = 0; i < 3; i++) /* they are in the box now */
		nx_close_p(&supervisor->command_fds[i]);

	/* SIGPIPE is of this thread: it is held back, and eaten if it was ours. */
	(void)sigemptyset(&pipe_signal);
	(void)sigaddset(&pipe_signal, SIGPIPE);
	(void)sigpending(&pending);
	was_pending = sigismember(&pending, SIGPIPE) == 1;
	(void)pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);

	r = watch(supervisor, err);
	drain(supervisor);
	settle_input(supervisor);
	for (int i = OUTPUT; i <= ERRORS; i++)
		if (supervisor->pumps[i].broke && supervisor->pumps[i].broke != EPIPE)
			ret_end->output_error = supervisor->pumps[i].broke;
	nx_terminal_restore(&supervisor->terminal);

	if (!was_pending)
		(void)sigtimedwait(&pipe_signal, NULL, &none);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (supervisor->deadline_ns && ret_end->exit_code < 0 && ret_end->signal_number == SIGKILL &&
	    supervisor->n_signals < 2 && nx_clock_ns() >= supervisor->deadline_ns)
		ret_end->timed_out = true; /* we slept, and the box kept the deadline itself */
	return r;
}

struct nx_supervisor *nx_supervisor_free(struct nx_supervisor *supervisor)
{
	if (!supervisor)
		return NULL;
	nx_terminal_restore(&supervisor->terminal);
	for (int i = 0; i < N_PUMPS; i++)
		nx_pump_fini(&supervisor->pumps[i]);
	for (int i = 0; i < 3; i++)
		nx_close_p(&supervisor->command_fds[i]);
	nx_close_p(&supervisor->master_fd);
	nx_close_p(&supervisor->unread_fd);
	free(supervisor->pumps);
	free(supervisor);
	return NULL;
}
