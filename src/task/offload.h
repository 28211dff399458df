/* The pool of threads for work that blocks. */
#ifndef CI_TASK_OFFLOAD_H
#define CI_TASK_OFFLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "coir/offload.h"
#include "sys/thread.h"

struct coir_runtime;

struct ci_offload_thread {
    struct ci_thread thread;
    struct ci_condition wake; /* the thread is called to the queue, or the pool stops */
    struct ci_list idle;
    struct ci_offload *pool;
    enum {
        CI_THREAD_NONE,
        CI_THREAD_RUNS,
        CI_THREAD_LEFT /* it has ended, and is to be joined */
    } state;
    bool called; /* in place of `idle` being in its list */
};

/* Everything is protected by `lock`. A thread that spins reads `queued` and `stopping` without,
 * and one that has called a function lowers `calling` before it takes it again. */
struct ci_offload {
    struct ci_mutex lock;
    struct ci_list jobs; /* waiting for a thread, oldest first */
    struct ci_list idle; /* sleeping threads, the one that has slept least first */
    struct ci_offload_thread *threads;
    size_t threads_max, queue_max;
    size_t queued, bounded; /* jobs; those of them for which `queue_max` holds */
    unsigned running;       /* threads */
    unsigned calling;       /* threads that call a job's function */
    unsigned coming; /* threads that will look at the queue before they sleep; see offload.c 3 */
    bool stopping;
    bool reserved; /* no thread ends because it is idle */

    uint64_t spin_ticks; /* how long a thread spins before it sleeps; 0: not at all */
    unsigned spin_skips; /* how many sleeps skip the spin after the last fruitless one */
    unsigned skipped;    /* how many have, since then */
};

/* Starts no thread yet. -ENOMEM. */
int ci_offload_init(struct coir_runtime *runtime);

/* Has `count` threads, or as many as there may be, which stay. An error of one that could not be
 * started. */
int ci_offload_reserve(struct coir_runtime *runtime, size_t count);

/* As coir_offload_op, for jobs that take turns before they come here: offload_queue_max does not
 * hold for them. */
coir_future *ci_offload_turn_op(coir_offload_job *job, coir_task_fn *fn, void *arg);

/* Joins the threads. No job may be left. */
void ci_offload_done(struct coir_runtime *runtime);

#endif
