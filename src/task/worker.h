/* A worker: an event loop, a run queue, and the pools of what its tasks use.
 *
 * 1. worker->runnable and worker->fiber say what runs now; fiber is NULL while the worker's own
 * stack runs.
 * 2. The run queue ends where `ready_tail` points.
 */
#ifndef CI_TASK_WORKER_H
#define CI_TASK_WORKER_H

#include <signal.h>

#include "base/pool.h"
#include "loop/loop.h"
#include "sys/context.h"
#include "sys/stack.h"
#include "sys/thread.h"
#include "task/halt.h"
#include "task/post.h"
#include "task/scope.h"
#include "task/warn.h"

/* The number of a worker that may own no lock (sync/own_lock.h); those of others follow. */
enum { CI_OWNS_NOTHING = 3 };

struct ci_worker {
    struct coir_loop loop;

    /* the scheduler's */
    CI_CACHE_ALIGNED struct ci_runnable *ready;
    struct ci_runnable **ready_tail;
    struct ci_runnable *runnable; /* what runs; NULL between turns */
    struct ci_fiber *fiber;       /* the one on whose stack it runs, or NULL */
    /* operations after the next one that the runnable may finish without parking: the one that
     * makes it negative is the last (waiter.h) */
    int32_t budget;
    int32_t budget_max;    /* the budget at each resume */
    int32_t switches_left; /* after the next one, before the loop looks at the clock */
    /* initial value of switches_left; 0: every switch goes through the worker's own stack */
    int32_t switches_max;
    struct ci_trace *trace; /* NULL: what it does is not recorded */
    /* the future that a fiber leaves for the worker's own stack to poll next */
    coir_future *handover;
    struct ci_context context;
    struct ci_stack_view view;         /* of the thread's stack */
    uint32_t rotation;                 /* where the next coir_any begins */
    uint32_t owner_number;             /* CI_OWNS_NOTHING, or one that no other worker has had */
    uint64_t polled_at, poll_interval; /* ticks of the processor's clock */
    uint64_t resumes;

    /* pools */
    struct ci_stacks stacks;
    struct ci_timer trim; /* of stacks and pools, after a burst */
    /* there may be something to trim: the timer is set after tasks have run, or rest */
    bool grown;
    bool measures_stacks; /* stack_use.c */
    bool trimmed;         /* the last trim kept something for the next one to free */
    struct ci_pool tasks, remote_tasks, locals, copies, deferred;
    struct ci_posts posts;

    struct ci_scope root;  /* tasks without another scope: see background.c */
    struct ci_timer drain; /* after a stop, until background tasks are cancelled */
    struct ci_warnings warnings;
    bool was_stopped, told_deadlock, told_dropped;
    int32_t blind;    /* the error with which its driver's wait fails for good, or 0 */
    bool stuck;       /* it sleeps, and nothing of its own can wake it: deadlock.c */
    size_t offloaded; /* calls that its tasks wait for: offload.c */
    uint64_t tasks_started, task_errors;
    uint32_t roused_number; /* counts down, from 0: numbers of tasks that spawns reach last */
    struct coir_runtime *runtime;
    int index;
    struct ci_thread thread;
    void *signal_stack;                     /* overflow.c's */
    stack_t signal_stack_before;            /* what the thread had before */
    struct ci_worker *next_watched;         /* overflow.c's */
    struct ci_trace *kept_trace;            /* also after the trace has ended */
    struct ci_stats *stats;                 /* from the first trace on */
    struct ci_watched *watched;             /* slow_turn.c's */
    struct ci_halt halt;                    /* halt.c's */
    struct ci_worker_extension *extensions; /* what upper layers keep per worker */
};

void ci_worker_init(struct ci_worker *worker, struct coir_runtime *runtime, int index,
                    struct ci_driver *driver);
void ci_worker_done(struct ci_worker *worker);

/* Makes the calling thread's stack the worker's own. */
void ci_worker_adopt_thread(struct ci_worker *worker);

/* Prepares the worker's run queue and its turns (scheduler.c). */
void ci_scheduler_init(struct ci_worker *worker);

/* Sets the timer of the next trim, if there may be something to trim. */
void ci_worker_trim_later(struct ci_worker *worker);

/* One turn as the calling thread's worker; waits until `deadline` at most. */
void ci_worker_turn(struct ci_worker *worker, coir_time deadline);

#endif
