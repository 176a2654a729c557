/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * What time it is, and which of two is the later one. Durations and deadlines are
 * counted on the monotonic clock, which nobody sets; what is written down for people
 * comes from the other one.
 */

#include <stdint.h>
#include <time.h>

/**
 * nx_time_ns() - a time as one number
 * @time: (borrowed)
 *
 * Return: nanoseconds, since whatever @time counts from.
 * Context: anywhere.
 */
static inline int64_t nx_time_ns(const struct timespec *time)
{
	return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

/**
 * nx_time_compare() - the order of two times
 * @a: (borrowed)
 * @b: (borrowed) of the same clock
 *
 * Return: less than, equal to, or greater than 0, as @a is before, at, or after @b.
 * Context: anywhere. Any seconds a filesystem may hold: nothing overflows.
 */
static inline int nx_time_compare(const struct timespec *a, const struct timespec *b)
{
	if (a->tv_sec != b->tv_sec)
		return a->tv_sec < b->tv_sec ? -1 : 1;
	return (a->tv_nsec > b->tv_nsec) - (a->tv_nsec < b->tv_nsec);
}

/**
 * nx_clock_ns() - the monotonic clock
 *
 * Return: nanoseconds.
 * Context: anywhere, also between fork and exec.
 */
static inline int64_t nx_clock_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return nx_time_ns(&now);
}

/**
 * nx_clock_micros() - likewise
 *
 * Return: microseconds.
 * Context: as nx_clock_ns().
 */
static inline uint64_t nx_clock_micros(void)
{
	return (uint64_t)nx_clock_ns() / 1000;
}

/**
 * nx_clock_ms() - likewise
 *
 * Return: milliseconds.
 * Context: as nx_clock_ns().
 */
static inline uint64_t nx_clock_ms(void)
{
	return (uint64_t)nx_clock_ns() / 1000000;
}

/**
 * nx_clock_real_ns() - the time of day
 *
 * Return: nanoseconds since 1970, UTC.
 * Context: as nx_clock_ns().
 */
static inline int64_t nx_clock_real_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return nx_time_ns(&now);
}
