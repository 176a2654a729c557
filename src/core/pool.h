/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once

/*
 * Work that is shared among the cores: jobs in a stack, so that what was found
 * last, and is still warm, is done first, and few folders are open at a time.
 *
 * The caller works, too. Threads are made only when there is work for them, so
 * that a small tree costs none; they have every signal blocked.
 */

#include <stddef.h>

#include "base/error.h"

struct nx_pool;

/**
 * typedef nx_pool_work - do one job
 * @pool:     (borrowed) for nx_pool_add()
 * @job:      (borrowed) as it was added
 * @userdata: as given to nx_pool_run()
 * @err:      (out) one for each thread
 *
 * Return: 0, or a negative nexbox_errc: then no other job is begun.
 */
typedef int (*nx_pool_work)(struct nx_pool *pool, void *job, void *userdata,
                            struct nexbox_error *err);

/**
 * nx_pool_run() - do a job, and all that it adds
 * @work:     called for each, in several threads at once
 * @job:      (borrowed) the first
 * @userdata: for @work
 * @err:      (out, optional) the first error that there was
 *
 * Return: 0, or a negative nexbox_errc.
 * Errors: those of @work; NEXBOX_E_NOMEM out of memory.
 * Context: any thread; not after fork.
 */
int nx_pool_run(nx_pool_work work, void *job, void *userdata, struct nexbox_error *err);

/**
 * nx_pool_add() - add a job
 * @pool: (borrowed)
 * @job:  (borrowed) until it was done
 *
 * Return: 0, or -NEXBOX_E_NOMEM.
 * Context: within @work.
 */
int nx_pool_add(struct nx_pool *pool, void *job);
