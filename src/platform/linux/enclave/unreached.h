/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * What a box's own network could not deliver: the kernel's counters of it. They say
 * how often, and not to whom.
 */

#include <stdint.h>

/**
 * struct nx_unreached - counted since the box began
 * @no_route: packets and connections to an address that no network leads to
 * @no_port:  datagrams to a port of the box's own on which nobody listened, as a name
 *            server of the host's on its loopback would
 */
struct nx_unreached {
	uint64_t no_route;
	uint64_t no_port;
};

/**
 * nx_unreached_read() - read the counters of a network
 * @folder: (borrowed) its folder in /proc, such as "/proc/net"
 *
 * Return: the counts, 0 where they cannot be read.
 * Context: system calls only; 50 microseconds.
 */
struct nx_unreached nx_unreached_read(const char *folder);
