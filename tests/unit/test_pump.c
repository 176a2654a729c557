/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/pump.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "scratch.h"

/* A pump on the heap (it holds its buffer), and a pipe into it. */
struct rig {
	struct nx_pump *pump;
	int in_fd; /* what is written here is carried */
	struct nx_buf seen;
};

static void seen(void *userdata, const void *data, size_t size)
{
	nx_buf_append(userdata, data, size);
}

static void make_pipe(int *read_fd, int *write_fd, int flags)
{
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC | flags), 0);
	*read_fd = ends[0];
	*write_fd = ends[1];
}

/* As the supervisor does it: the pipe's reading end is the pump's own. */
static void rig_init(struct rig *rig)
{
	rig->seen = (struct nx_buf)NX_BUF_INIT;
	rig->pump = malloc(sizeof(*rig->pump));
	assert_non_null(rig->pump);
	nx_pump_init(rig->pump);
	make_pipe(&rig->pump->from_fd, &rig->in_fd, 0);
	assert_int_equal(fcntl(rig->pump->from_fd, F_SETFL, O_NONBLOCK), 0);
	rig->pump->owns_from = true;
	rig->pump->from_way = NX_WAY_OWN;
	rig->pump->seen = seen;
	rig->pump->userdata = &rig->seen;
}

static void rig_fini(struct rig *rig)
{
	nx_pump_fini(rig->pump);
	free(rig->pump);
	nx_close_p(&rig->in_fd);
	nx_buf_fini(&rig->seen);
}

/* One turn of the supervisor's loop; false when nothing was ready. */
static bool turn(struct nx_pump *pump)
{
	struct pollfd fds[2];

	nx_pump_poll(pump, fds);
	if (poll(fds, 2, 20) <= 0)
		return false;
	nx_pump_move(pump, fds);
	return true;
}

static void turn_all(struct nx_pump *pump)
{
	while (turn(pump) && !nx_pump_is_done(pump))
		continue;
}

static bool is_nonblocking(int fd)
{
	return fcntl(fd, F_GETFL) & O_NONBLOCK;
}

static void what_goes_nowhere_is_seen_and_dropped(void **state)
{
	struct rig rig;

	(void)state;
	rig_init(&rig);
	nx_pump_write_to(rig.pump, -1);
	assert_int_equal(write(rig.in_fd, "hello", 5), 5);
	turn_all(rig.pump);
	assert_string_equal(rig.seen.data, "hello");
	assert_false(nx_pump_is_done(rig.pump));
	nx_close_p(&rig.in_fd);
	turn_all(rig.pump);
	assert_true(nx_pump_is_done(rig.pump));
	assert_false(rig.pump->broke);
	rig_fini(&rig);
}

static void what_goes_into_a_pipe_arrives_and_the_pipe_stays_blocking(void **state)
{
	struct rig rig;
	int read_fd;
	int write_fd;
	char got[16] = { 0 };

	(void)state;
	rig_init(&rig);
	make_pipe(&read_fd, &write_fd, 0);
	nx_pump_write_to(rig.pump, write_fd);
	assert_int_equal(write(rig.in_fd, "hello", 5), 5);
	turn_all(rig.pump);
	assert_int_equal(read(read_fd, got, sizeof(got)), 5);
	assert_string_equal(got, "hello");
	assert_false(is_nonblocking(write_fd));
	assert_false(is_nonblocking(read_fd));
	rig_fini(&rig);
	/* The caller's end is the caller's: still open. */
	assert_int_equal(write(write_fd, "x", 1), 1);
	nx_close_p(&read_fd);
	nx_close_p(&write_fd);
}

static void a_reader_that_is_gone_is_a_broken_pipe_for_the_command(void **state)
{
	struct rig rig;
	int read_fd;
	int write_fd;

	(void)state;
	(void)signal(SIGPIPE, SIG_IGN);
	rig_init(&rig);
	make_pipe(&read_fd, &write_fd, 0);
	nx_pump_write_to(rig.pump, write_fd);
	nx_close_p(&read_fd);
	assert_int_equal(write(rig.in_fd, "hello", 5), 5);
	turn_all(rig.pump);
	assert_true(rig.pump->broke);
	assert_true(nx_pump_is_done(rig.pump));
	assert_string_equal(rig.seen.data, "hello"); /* it was kept all the same */
	assert_int_equal(write(rig.in_fd, "more", 4), -1);
	assert_int_equal(errno, EPIPE);
	assert_int_equal(fcntl(write_fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC); /* not closed by us */
	rig_fini(&rig);
	nx_close_p(&write_fd);
	(void)signal(SIGPIPE, SIG_DFL);
}

static void a_reader_that_waits_holds_the_command_up_and_loses_nothing(void **state)
{
	NX_AUTO_FREE char *chunk = malloc(4096);
	struct rig rig;
	int read_fd;
	int write_fd;
	size_t written = 0;
	size_t received = 0;
	size_t stuck;

	(void)state;
	assert_non_null(chunk);
	rig_init(&rig);
	make_pipe(&read_fd, &write_fd, 0);
	nx_pump_write_to(rig.pump, write_fd);
	assert_int_equal(fcntl(rig.in_fd, F_SETFL, O_NONBLOCK), 0);
	for (int idle = 0; idle < 3;) {
		ssize_t n;

		memset(chunk, (int)('a' + written / 4096 % 26), 4096);
		n = write(rig.in_fd, chunk, 4096);
		if (n > 0) {
			assert_int_equal(n, 4096);
			written += (size_t)n;
		}
		idle = turn(rig.pump) || n > 0 ? 0 : idle + 1;
	}
	/* Two pipes and the pump's own piece are full: the command waits. */
	stuck = written;
	assert_true(stuck >= 2 * 65536 && stuck <= 3 * 65536 + NX_PUMP_SIZE);
	{
		struct pollfd fds[2];

		nx_pump_poll(rig.pump, fds);
		assert_int_equal(fds[0].fd, -1); /* nothing is read before that is gone */
		assert_true(fds[1].fd >= 0);
	}
	nx_close_p(&rig.in_fd);
	while (received < written) {
		ssize_t n;

		while (turn(rig.pump) && rig.pump->begin == rig.pump->end &&
		       !nx_pump_is_done(rig.pump))
			continue;
		n = read(read_fd, chunk, 4096);
		assert_true(n > 0);
		for (ssize_t i = 0; i < n; i++)
			assert_int_equal(chunk[i], 'a' + (received + (size_t)i) / 4096 % 26);
		received += (size_t)n;
	}
	turn_all(rig.pump);
	assert_true(nx_pump_is_done(rig.pump));
	assert_int_equal(rig.seen.size, written);
	rig_fini(&rig);
	nx_close_p(&read_fd);
	nx_close_p(&write_fd);
}

static void a_file_is_read_by_position_and_its_offset_stays(void **state)
{
	struct scratch *scratch = *state;
	NX_AUTO_FREE struct nx_pump *pump = malloc(sizeof(*pump));
	NX_AUTO_FD file_fd = -1;
	int read_fd;
	int write_fd;
	char got[32] = { 0 };

	assert_non_null(pump);
	put(scratch->fd, "input", "0123456789");
	file_fd = openat(scratch->fd, "input", O_RDONLY | O_CLOEXEC);
	assert_int_equal(lseek(file_fd, 4, SEEK_SET), 4);
	nx_pump_init(pump);
	nx_pump_read_from(pump, file_fd);
	assert_int_equal(pump->position, 4);
	make_pipe(&read_fd, &write_fd, O_NONBLOCK);
	pump->to_fd = write_fd;
	pump->owns_to = true;
	pump->to_way = NX_WAY_OWN;
	turn_all(pump);
	assert_true(nx_pump_is_done(pump));
	assert_int_equal(pump->position, 10);
	assert_int_equal(lseek(file_fd, 0, SEEK_CUR), 4);
	assert_int_equal(read(read_fd, got, sizeof(got)), 6);
	assert_string_equal(got, "456789");
	nx_pump_fini(pump);
	nx_close_p(&read_fd);
}

static void a_file_takes_output_at_its_own_offset(void **state)
{
	struct scratch *scratch = *state;
	NX_AUTO_FD file_fd = openat(scratch->fd, "log", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	NX_AUTO_FREE char *content = NULL;
	struct rig rig;

	assert_int_equal(write(file_fd, "before ", 7), 7);
	rig_init(&rig);
	nx_pump_write_to(rig.pump, file_fd);
	assert_int_equal(rig.pump->to_way, NX_WAY_FILE);
	assert_int_equal(write(rig.in_fd, "during ", 7), 7);
	nx_close_p(&rig.in_fd);
	turn_all(rig.pump);
	rig_fini(&rig);
	assert_int_equal(write(file_fd, "after", 5), 5);
	content = slurp(scratch->fd, "log");
	assert_string_equal(content, "before during after");
}

static void a_socket_works_both_ways_and_stays_blocking(void **state)
{
	NX_AUTO_FREE struct nx_pump *pump = malloc(sizeof(*pump));
	int input[2];
	int output[2];
	char got[16] = { 0 };

	(void)state;
	assert_non_null(pump);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, input), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, output), 0);
	nx_pump_init(pump);
	nx_pump_read_from(pump, input[0]);
	nx_pump_write_to(pump, output[0]);
	assert_int_equal(write(input[1], "hello", 5), 5);
	turn_all(pump);
	assert_int_equal(read(output[1], got, sizeof(got)), 5);
	assert_string_equal(got, "hello");
	assert_false(is_nonblocking(input[0]));
	assert_false(is_nonblocking(output[0]));
	(void)close(output[1]);
	assert_int_equal(write(input[1], "more", 4), 4);
	turn_all(pump); /* and no SIGPIPE, which would end this program */
	assert_true(pump->broke);
	nx_pump_fini(pump);
	(void)close(input[0]);
	(void)close(input[1]);
	(void)close(output[0]);
}

static void the_end_of_the_input_is_the_end(void **state)
{
	NX_AUTO_FREE struct nx_pump *pump = malloc(sizeof(*pump));
	int read_fd;
	int write_fd;

	(void)state;
	assert_non_null(pump);
	make_pipe(&read_fd, &write_fd, 0);
	nx_pump_init(pump);
	assert_true(nx_pump_is_done(pump));
	nx_pump_read_from(pump, read_fd);
	assert_false(nx_pump_is_done(pump));
	nx_close_p(&write_fd);
	/* Opened anew, or it would not end: no second writer was made. */
	turn_all(pump);
	assert_true(nx_pump_is_done(pump));
	assert_false(is_nonblocking(read_fd));
	nx_pump_fini(pump);
	nx_close_p(&read_fd);
}

/* /dev/full is every disk that is full. */
static void an_output_that_takes_nothing_is_a_broken_pipe(void **state)
{
	NX_AUTO_FD full_fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	struct rig rig;

	(void)state;
	if (full_fd < 0)
		skip_because("there is no /dev/full");
	rig_init(&rig);
	nx_pump_write_to(rig.pump, full_fd);
	assert_int_equal(write(rig.in_fd, "hello", 5), 5);
	turn_all(rig.pump);
	assert_true(rig.pump->broke);
	rig_fini(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_goes_nowhere_is_seen_and_dropped),
		cmocka_unit_test(what_goes_into_a_pipe_arrives_and_the_pipe_stays_blocking),
		cmocka_unit_test(a_reader_that_is_gone_is_a_broken_pipe_for_the_command),
		cmocka_unit_test(a_reader_that_waits_holds_the_command_up_and_loses_nothing),
		SCRATCH_TEST(a_file_is_read_by_position_and_its_offset_stays),
		SCRATCH_TEST(a_file_takes_output_at_its_own_offset),
		cmocka_unit_test(a_socket_works_both_ways_and_stays_blocking),
		cmocka_unit_test(the_end_of_the_input_is_the_end),
		cmocka_unit_test(an_output_that_takes_nothing_is_a_broken_pipe),
	};

	return scratch_run("pump", tests);
}
