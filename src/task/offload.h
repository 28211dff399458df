/* The pool of threads for work that blocks. */
#ifndef CI_TASK_OFFLOAD_H
#define CI_TASK_OFFLOAD_H

#include "base/list.h"
#include "sys/thread.h"

struct coir_runtime;

struct ci_offload_thread {
    struct ci_thread thread;
    struct ci_offload *pool;
    enum { CI_THREAD_NONE, CI_THREAD_RUNS, CI_THREAD_LEFT } state; /* LEFT: ended, to be joined */
};

struct ci_offload {
    struct ci_mutex lock;
    struct ci_condition work;
    struct ci_list jobs; /* waiting for a thread, oldest first */
    struct ci_offload_thread *threads;
    size_t threads_max;
    unsigned running, idle;
    size_t queued, queue_max;
    bool stopping;
};

/* Starts no thread yet. -ENOMEM. */
int ci_offload_init(struct coir_runtime *runtime);

/* Whether any job is queued, running, or in flight back to its worker. */
bool ci_offload_busy(struct coir_runtime *runtime);

/* Joins the threads. No job may be left. */
void ci_offload_done(struct coir_runtime *runtime);

#endif
