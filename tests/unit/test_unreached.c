/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/linux/enclave/unreached.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "scratch.h"

static void both_families_are_counted(void **state)
{
	struct scratch *scratch = *state;
	struct nx_unreached unreached;

	put(scratch->fd, "snmp",
	    "Ip: Forwarding DefaultTTL OutDiscards OutNoRoutes ReasmTimeout\n"
	    "Ip: 2 64 9 4 5\n"
	    "Udp: InDatagrams NoPorts InErrors\n"
	    "Udp: 3 7 0\n"
	    "UdpLite: InDatagrams NoPorts InErrors\n"
	    "UdpLite: 0 1 0\n");
	put(scratch->fd, "snmp6",
	    "Ip6InReceives                   \t0\n"
	    "Ip6OutNoRoutes                  \t2\n"
	    "Udp6NoPorts                     \t1\n");
	unreached = nx_unreached_read(scratch->path);
	assert_int_equal(unreached.no_route, 6);
	assert_int_equal(unreached.no_port, 8);
}

static void a_kernel_that_counts_otherwise_is_no_failure(void **state)
{
	struct scratch *scratch = *state;
	struct nx_unreached unreached = nx_unreached_read(scratch->path);

	assert_int_equal(unreached.no_route, 0);
	put(scratch->fd, "snmp", "Ip: Forwarding\nIp:\nUdp: NoPorts");
	unreached = nx_unreached_read(scratch->path);
	assert_int_equal(unreached.no_route, 0);
	assert_int_equal(unreached.no_port, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(both_families_are_counted),
		SCRATCH_TEST(a_kernel_that_counts_otherwise_is_no_failure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
