/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "core/pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/buf.h"

#define MAX_THREADS 8

/* So many jobs have to wait before it is worth a thread. */
#define WORTH_A_THREAD 4

struct nx_pool {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	nx_pool_work work;
	void *userdata;
	void **jobs;
	size_t n_jobs;
	size_t capacity;
	int n_busy;
	int n_threads; /* besides the caller */
	int max_threads;
	pthread_t threads[MAX_THREADS];
	int result;
	struct nexbox_error error;
};

/* With the lock held: takes jobs until there is none and none can come. */
static void work_on(struct nx_pool *pool)
{
	for (;;) {
		struct nexbox_error error = { 0 };
		void *job;
		int r;

		while (pool->n_jobs == 0 && pool->n_busy > 0 && pool->result == 0)
			(void)pthread_cond_wait(&pool->changed, &pool->lock);
		if (pool->n_jobs == 0 || pool->result < 0)
			break;
		job = pool->jobs[--pool->n_jobs];
		pool->n_busy++;
		(void)pthread_mutex_unlock(&pool->lock);
		r = pool->work(pool, job, pool->userdata, &error);
		(void)pthread_mutex_lock(&pool->lock);
		pool->n_busy--;
		if (r < 0 && pool->result == 0) {
			pool->result = r;
			pool->error = error;
		}
	}
	(void)pthread_cond_broadcast(&pool->changed);
}

static void *thread_main(void *userdata)
{
	struct nx_pool *pool = userdata;

	(void)pthread_mutex_lock(&pool->lock);
	work_on(pool);
	(void)pthread_mutex_unlock(&pool->lock);
	return NULL;
}

/* With the lock held. Without a thread the others do the work. */
static void add_thread(struct nx_pool *pool)
{
	sigset_t all;
	sigset_t before;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&pool->threads[pool->n_threads], NULL, thread_main, pool) == 0)
		pool->n_threads++;
	else
		pool->max_threads = pool->n_threads;
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int nx_pool_add(struct nx_pool *pool, void *job)
{
	int r = 0;

	(void)pthread_mutex_lock(&pool->lock);
	if (nx_grow(&pool->jobs, &pool->capacity, pool->n_jobs, sizeof(*pool->jobs)))
		pool->jobs[pool->n_jobs++] = job;
	else
		r = -NEXBOX_E_NOMEM;
	if (pool->n_jobs >= WORTH_A_THREAD && pool->n_threads < pool->max_threads)
		add_thread(pool);
	(void)pthread_cond_signal(&pool->changed);
	(void)pthread_mutex_unlock(&pool->lock);
	return r;
}

int nx_pool_run(nx_pool_work work, void *job, void *userdata, struct nexbox_error *err)
{
	long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
	struct nx_pool pool = {
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.changed = PTHREAD_COND_INITIALIZER,
		.work = work,
		.userdata = userdata,
		.max_threads = n_cores > MAX_THREADS ? MAX_THREADS :
		               n_cores > 1           ? (int)n_cores - 1 :
		                                       0,
	};
	int r = nx_pool_add(&pool, job);

	if (r == 0) {
		(void)thread_main(&pool);
		for (int i = 0; i < pool.n_threads; i++)
			(void)pthread_join(pool.threads[i], NULL);
		r = pool.result;
	}
	free(pool.jobs);
	(void)pthread_cond_destroy(&pool.changed);
	(void)pthread_mutex_destroy(&pool.lock);
	if (r < 0 && err)
		*err = pool.error;
	return r;
}
