/* Offloaded calls: a task waits while a thread of the pool runs its function.
 *
 * 1. A job is its caller's future; nothing is allocated for it. It is queued, or running on a
 *    thread, or its result is in flight as a message to its worker; only a queued job can be
 *    withdrawn.
 * 2. A thread is started when no thread is idle and fewer than `threads_max` run; a thread that has
 *    been idle for 10 seconds ends.
 *
 *    QUEUED -- a thread takes it --> RUNNING -- message --> (caller woken)
 *       `-- cancel --> withdrawn
 */
#include "task/offload.h"

#include <errno.h>

#include "base/check.h"
#include "base/time.h"
#include "coir/offload.h"
#include "sys/clock.h"
#include "task/local.h"
#include "task/runtime.h"
#include "task/trace_point.h"
#include "task/waiter.h"

static const coir_time idle_most = 10 * COIR_S;
static const coir_time simulated_time_max = 100 * COIR_US;

struct offload_op {
    coir_future future;
    struct ci_runnable *runnable;
    struct ci_worker *worker;
    union {
        struct ci_message done;
        struct ci_timer simulated;
    };
    struct ci_list link;
    coir_task_fn *fn;
    void *arg;
    int32_t result;
    bool queued;
};
CI_FIBER_OP_FITS(struct offload_op);
CI_LEAVES_SPARE_WORDS(struct offload_op, coir_offload_job);

CI_INLINE void trace(const struct offload_op *op, enum ci_trace_kind kind)
{
    ci_trace_point(op->worker, kind, op->runnable->task, op, .fn = op->fn);
}

/* Calls the function with the task-locals of its caller. */
static int make_call(const struct offload_op *op)
{
    ci_carried_locals = op->runnable->task->locals;
    int result = op->fn(op->arg);
    ci_carried_locals = NULL;
    return result;
}

/* ---- the threads ---- */

static void came_home(struct ci_message *message)
{
    struct offload_op *op = ci_container_of(message, struct offload_op, done);
    ci_check(!op->queued, "offload.c 1");
    trace(op, CI_TRACE_OFFLOAD_ENDED);
    op->future.result = op->result;
    ci_wake(op->worker, op->runnable, &op->future);
}

static void run_job(struct ci_offload *pool, struct offload_op *op)
{
    ci_mutex_unlock(&pool->lock);
    op->result = make_call(op);
    op->done.deliver = came_home;
    ci_loop_send(&op->worker->loop, &op->done); /* the caller may free the job from here on */
    ci_mutex_lock(&pool->lock);
}

/* Waits for a job. False: none came for `idle_most`, and the thread should end. */
static bool wait_for_job(struct ci_offload *pool)
{
    coir_time until = ci_time_after(ci_clock_now(), idle_most);
    int rc = 0;
    pool->idle++;
    while (ci_list_empty(&pool->jobs) && !pool->stopping && rc != -ETIMEDOUT)
        rc = ci_condition_wait(&pool->work, &pool->lock, until);
    pool->idle--;
    return !ci_list_empty(&pool->jobs);
}

static void *thread_main(void *arg)
{
    struct ci_offload_thread *self = arg;
    struct ci_offload *pool = self->pool;
    ci_mutex_lock(&pool->lock);
    for (;;) {
        struct ci_list *node = ci_list_pop(&pool->jobs);
        if (node) {
            struct offload_op *op = ci_container_of(node, struct offload_op, link);
            op->queued = false;
            pool->queued--;
            run_job(pool, op);
        } else if (!wait_for_job(pool)) {
            break;
        }
    }
    self->state = CI_THREAD_LEFT;
    pool->running--;
    ci_mutex_unlock(&pool->lock);
    return NULL;
}

/* Starts a thread. With the lock held, and fewer than `threads_max` threads running. */
static int add_thread(struct ci_offload *pool)
{
    struct ci_offload_thread *thread = pool->threads;
    ci_check(pool->running < pool->threads_max, "offload.c 2");
    while (thread->state == CI_THREAD_RUNS)
        thread++;
    if (thread->state == CI_THREAD_LEFT)
        ci_thread_join(&thread->thread); /* it has only to return */
    thread->pool = pool;
    thread->state = CI_THREAD_RUNS;
    int rc = ci_thread_start(&thread->thread, thread_main, thread);
    if (rc < 0)
        thread->state = CI_THREAD_NONE;
    else
        pool->running++;
    return rc;
}

/* ---- the callers ---- */

static int enqueue(struct ci_offload *pool, struct offload_op *op)
{
    if (pool->queue_max && pool->queued >= pool->queue_max)
        return -EAGAIN;
    int rc = !pool->idle && pool->running < pool->threads_max ? add_thread(pool) : 0;
    if (!pool->running)
        return rc; /* no thread would ever run the job */
    ci_list_push(&pool->jobs, &op->link);
    op->queued = true;
    pool->queued++;
    if (pool->idle)
        ci_condition_signal(&pool->work);
    return 0;
}

static int enqueue_locked(struct ci_offload *pool, struct offload_op *op)
{
    ci_mutex_lock(&pool->lock);
    int rc = enqueue(pool, op);
    ci_mutex_unlock(&pool->lock);
    return rc;
}

static void on_simulated(struct ci_timer *timer)
{
    struct offload_op *op = ci_container_of(timer, struct offload_op, simulated);
    op->future.result = make_call(op);
    trace(op, CI_TRACE_OFFLOAD_ENDED);
    ci_wake(op->worker, op->runnable, &op->future);
}

/* In the simulator the worker itself makes the call, at a time that the seed chooses. */
static void simulate(struct offload_op *op)
{
    struct coir_loop *loop = &op->worker->loop;
    coir_time delay =
        (coir_time)(loop->driver->kind->random(loop->driver) % (uint64_t)simulated_time_max);
    ci_timer_init(&op->simulated, on_simulated);
    ci_loop_start_timer(loop, &op->simulated, ci_time_after(ci_loop_update_now(loop), delay));
}

static coir_future *offload_poll(coir_future *future)
{
    struct offload_op *op = ci_container_of(future, struct offload_op, future);
    struct ci_worker *worker = ci_worker_current;
    if (ci_leaf_refused(worker, future))
        return future->caller;
    op->worker = worker;
    op->runnable = ci_leaf_suspend(worker, future);
    if (worker->runtime->simulated) {
        simulate(op);
    } else if ((future->result = enqueue_locked(&worker->runtime->offload, op)) < 0) {
        op->runnable->inner = future->caller;
        return ci_leaf_complete(worker, future);
    }
    trace(op, CI_TRACE_OFFLOAD_BEGAN);
    return NULL;
}

static int offload_cancel(coir_future *future, int reason)
{
    struct offload_op *op = ci_container_of(future, struct offload_op, future);
    struct ci_offload *pool = &op->worker->runtime->offload;
    bool withdrawn = true;
    if (op->worker->runtime->simulated) {
        ci_wheel_cancel(&op->worker->loop.wheel, &op->simulated);
    } else {
        ci_mutex_lock(&pool->lock);
        withdrawn = op->queued;
        if (withdrawn) {
            ci_check(pool->queued > 0, "offload.c 1");
            op->queued = false;
            pool->queued--;
            ci_list_remove(&op->link);
        }
        ci_mutex_unlock(&pool->lock);
    }
    if (withdrawn) {
        trace(op, CI_TRACE_OFFLOAD_ENDED);
        future->result = reason;
    }
    return withdrawn;
}

static const coir_future_kind offload_kind =
    COIR_FUTURE_KIND("offloaded work", offload_poll, offload_cancel);

coir_future *coir_offload_op(coir_offload_job *job, coir_task_fn *fn, void *arg)
{
    struct offload_op *op = (struct offload_op *)(void *)job;
    if (CI_REFUSED(!op || !fn, "job or fn is NULL"))
        return NULL;
    op->fn = fn;
    op->arg = arg;
    return coir_future_init(&op->future, &offload_kind);
}

int coir_offload(coir_task_fn *fn, void *arg)
{
    int rc = 0;
    struct ci_fiber *fiber = ci_fiber_enter(&rc);
    if (!fiber)
        return rc;
    if (!fn)
        return CI_MISUSE(-EINVAL, "fn is NULL");
    return (int)ci_await(ci_worker_current,
                         coir_offload_op((coir_offload_job *)(void *)fiber->op, fn, arg));
}

/* ---- the pool ---- */

int ci_offload_init(coir_runtime *runtime)
{
    struct ci_offload *pool = &runtime->offload;
    pool->threads_max = runtime->config.offload_threads_max;
    pool->queue_max = runtime->config.offload_queue_max;
    if (!(pool->threads =
              ci_alloc_zero(&runtime->allocator, pool->threads_max * sizeof *pool->threads)))
        return -ENOMEM;
    ci_mutex_init(&pool->lock);
    ci_condition_init(&pool->work);
    ci_list_init(&pool->jobs);
    return 0;
}

bool ci_offload_busy(coir_runtime *runtime)
{
    struct ci_offload *pool = &runtime->offload;
    ci_mutex_lock(&pool->lock);
    bool busy = pool->queued || pool->running > pool->idle;
    ci_mutex_unlock(&pool->lock);
    return busy;
}

void ci_offload_done(coir_runtime *runtime)
{
    struct ci_offload *pool = &runtime->offload;
    if (!pool->threads)
        return;
    /* a caller waits until its job is over, and every caller has ended */
    ci_check(ci_list_empty(&pool->jobs) && !pool->queued, "offload.c 1");
    ci_mutex_lock(&pool->lock);
    pool->stopping = true;
    ci_condition_broadcast(&pool->work);
    for (unsigned i = 0; i < pool->threads_max; i++) {
        bool used = pool->threads[i].state != CI_THREAD_NONE; /* it may be ending at the moment */
        ci_mutex_unlock(&pool->lock);
        if (used)
            ci_thread_join(&pool->threads[i].thread);
        ci_mutex_lock(&pool->lock);
    }
    ci_mutex_unlock(&pool->lock);
    ci_condition_done(&pool->work);
    ci_mutex_done(&pool->lock);
    ci_free(&runtime->allocator, pool->threads, pool->threads_max * sizeof *pool->threads);
}
