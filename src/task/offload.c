/* Offloaded calls: a task waits while a thread of the pool runs its function.
 *
 * 1. A job is its caller's future; nothing is allocated for it. It is queued, or running on a
 *    thread, or its result is in flight as a message to its worker; only a queued job can be
 *    withdrawn.
 * 2. A thread is started when one is called to the queue and all that run are at work, up to
 *    `threads_max`; a thread that has been idle for 10 seconds ends.
 * 3. While a job is queued, a thread is coming to the queue, or as many as may be are at work (or
 *    no more could be started). At most one is coming: it was started or woken and has not taken
 *    the lock yet, or it spins after its last job. It calls the next one if it leaves jobs behind.
 *    So a job that comes while a thread is coming costs no wake-up, and a burst of short ones a
 *    few.
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
#include "sys/cpu.h"
#include "sys/lock.h"
#include "sys/ticks.h"
#include "task/local.h"
#include "task/runtime.h"
#include "task/trace_point.h"
#include "task/waiter.h"

static const coir_time idle_most = 10 * COIR_S;
/* About what two wake-ups through the kernel take: that of the caller's worker, and the next one of
 * the thread. */
static const coir_time spin_time = 50 * COIR_US;
static const coir_time simulated_time_max = 100 * COIR_US;
enum { SKIPS_MOST = 1023 };

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
    bool bounded; /* offload_queue_max holds for it */
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

static void *thread_main(void *arg);

/* With the lock held, and fewer than `threads_max` threads running. */
static int add_thread(struct ci_offload *pool)
{
    struct ci_offload_thread *thread = pool->threads;
    ci_check(pool->running < pool->threads_max, "offload.c 2");
    if (thread->state == CI_THREAD_NONE) /* the first thread */
        pool->spin_ticks = ci_cpu_available() > 1 ? ci_clock_ticks_in(spin_time) : 0;
    while (thread->state == CI_THREAD_RUNS)
        thread++;
    if (thread->state == CI_THREAD_LEFT)
        ci_thread_join(&thread->thread); /* it has only to return */
    else
        ci_condition_init(&thread->wake);
    thread->pool = pool;
    int rc = ci_thread_start(&thread->thread, thread_main, thread);
    if (rc < 0) {
        ci_condition_done(&thread->wake);
        thread->state = CI_THREAD_NONE;
        return rc;
    }
    thread->state = CI_THREAD_RUNS;
    pool->running++;
    pool->coming++;
    return 0;
}

/* Releases the lock, after it has called a thread to the queue if there is a job and none is
 * coming. The error of a thread that could not be started. */
static int unlock_and_call(struct ci_offload *pool)
{
    struct ci_offload_thread *thread = NULL;
    struct ci_list *node;
    int rc = 0;
    ci_check(pool->coming <= 1, "offload.c 3");
    if (pool->queued && !pool->coming) {
        if ((node = ci_list_pop(&pool->idle))) {
            thread = ci_container_of(node, struct ci_offload_thread, idle);
            thread->called = true;
            pool->coming++;
        } else if (pool->running < pool->threads_max) {
            rc = add_thread(pool);
        }
    }
    ci_mutex_unlock(&pool->lock);
    if (thread)
        ci_condition_signal(&thread->wake); /* it finds the lock free */
    return rc;
}

static void came_home(struct ci_message *message)
{
    struct offload_op *op = ci_container_of(message, struct offload_op, done);
    ci_check(!op->queued, "offload.c 1");
    op->worker->offloaded--;
    trace(op, CI_TRACE_OFFLOAD_ENDED);
    op->future.result = op->result;
    ci_wake(op->worker, op->runnable, &op->future);
}

static void take_off(struct ci_offload *pool, struct offload_op *op)
{
    ci_check(pool->queued > 0, "offload.c 1");
    ci_list_remove(&op->link);
    op->queued = false;
    pool->bounded -= op->bounded;
    ci_store_relaxed(&pool->queued, pool->queued - 1); /* pairs with the load in spin */
}

static void run_job(struct ci_offload *pool, struct offload_op *op)
{
    take_off(pool, op);
    ci_fetch_add(&pool->calling, 1);
    (void)unlock_and_call(pool); /* without another thread, this one takes the jobs in turn */
    op->result = make_call(op);
    op->done.deliver = came_home;
    ci_fetch_sub(&pool->calling, 1);            /* whom it returns to may count on this thread */
    ci_loop_send(&op->worker->loop, &op->done); /* the caller may free the job from here on */
    ci_mutex_lock(&pool->lock);
}

/* Spins until a job comes, so that it needs no wake-up. Backs off: after each fruitless spin, twice
 * as many sleeps skip it. */
static void spin(struct ci_offload *pool)
{
    bool stopping = false;
    if (!pool->spin_ticks || pool->coming)
        return;
    if (pool->skipped < pool->spin_skips) {
        pool->skipped++;
        return;
    }
    pool->coming++;
    ci_mutex_unlock(&pool->lock);
    uint64_t start = ci_clock_ticks();
    do {
        ci_pause(0);
        if (ci_load_relaxed(&pool->queued)) /* pairs with the stores in enqueue and take_off */
            break;
        stopping = ci_load_relaxed(&pool->stopping); /* pairs with the store in ci_offload_done */
    } while (!stopping && ci_clock_ticks() - start < pool->spin_ticks);
    ci_mutex_lock(&pool->lock);
    pool->coming--;
    pool->skipped = 0;
    pool->spin_skips = pool->queued                    ? 0
                       : pool->spin_skips < SKIPS_MOST ? 2 * pool->spin_skips + 1
                                                       : SKIPS_MOST;
}

/* False: the thread was not called for `idle_most`, and should end. */
static bool sleep_until_called(struct ci_offload *pool, struct ci_offload_thread *self)
{
    coir_time until = pool->reserved ? COIR_NEVER : ci_time_after(ci_clock_now(), idle_most);
    int rc = 0;
    self->called = false;
    ci_list_insert_before(pool->idle.next, &self->idle);
    while (!self->called && !pool->stopping && rc != -ETIMEDOUT)
        rc = ci_condition_wait(&self->wake, &pool->lock, until);
    if (self->called)
        pool->coming--;
    else
        ci_list_remove(&self->idle);
    return self->called;
}

static bool wait_for_job(struct ci_offload *pool, struct ci_offload_thread *self)
{
    spin(pool);
    return !ci_list_empty(&pool->jobs) || sleep_until_called(pool, self);
}

static void *thread_main(void *arg)
{
    struct ci_offload_thread *self = arg;
    struct ci_offload *pool = self->pool;
    ci_mutex_lock(&pool->lock);
    pool->coming--;
    do
        while (!ci_list_empty(&pool->jobs))
            run_job(pool, ci_container_of(pool->jobs.next, struct offload_op, link));
    while (wait_for_job(pool, self));
    self->state = CI_THREAD_LEFT;
    pool->running--;
    ci_mutex_unlock(&pool->lock);
    return NULL;
}

/* ---- the callers ---- */

/* With the lock held: whether so many jobs as may would wait behind those that threads are free
 * for, although they may not have begun, or not been started. */
static bool is_full(const struct ci_offload *pool)
{
    size_t free = pool->threads_max - ci_load(&pool->calling);
    return pool->queue_max && pool->bounded >= pool->queue_max && pool->queued >= free &&
           pool->queued - free >= pool->queue_max;
}

static int enqueue(struct ci_offload *pool, struct offload_op *op)
{
    ci_mutex_lock(&pool->lock);
    if (op->bounded && is_full(pool)) {
        ci_mutex_unlock(&pool->lock);
        return -EAGAIN;
    }
    ci_list_push(&pool->jobs, &op->link);
    op->queued = true;
    pool->bounded += op->bounded;
    ci_store_relaxed(&pool->queued, pool->queued + 1); /* pairs with the load in spin */
    int rc = unlock_and_call(pool);
    if (rc == 0)
        return 0;
    ci_mutex_lock(&pool->lock);
    bool lost = op->queued && !pool->running; /* no thread would ever run the job */
    if (lost)
        take_off(pool, op);
    ci_mutex_unlock(&pool->lock);
    return lost ? rc : 0;
}

static void on_simulated(struct ci_timer *timer)
{
    struct offload_op *op = ci_container_of(timer, struct offload_op, simulated);
    op->future.result = make_call(op);
    op->worker->offloaded--;
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
    int rc = 0;
    if (ci_leaf_refused(worker, future))
        return future->caller;
    op->worker = worker;
    op->runnable = ci_leaf_suspend(worker, future);
    if (worker->runtime->simulated) {
        simulate(op);
    } else if ((rc = enqueue(&worker->runtime->offload, op)) < 0) {
        future->result = rc;
        op->runnable->inner = future->caller;
        return ci_leaf_complete(worker, future);
    }
    worker->offloaded++;
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
        if (withdrawn)
            take_off(pool, op);
        ci_mutex_unlock(&pool->lock);
    }
    if (withdrawn) {
        op->worker->offloaded--;
        trace(op, CI_TRACE_OFFLOAD_ENDED);
        future->result = reason;
    }
    return withdrawn;
}

static const coir_future_kind offload_kind =
    COIR_FUTURE_KIND("offloaded work", offload_poll, offload_cancel);

static coir_future *make_op(coir_offload_job *job, coir_task_fn *fn, void *arg, bool bounded)
{
    struct offload_op *op = (struct offload_op *)(void *)job;
    op->fn = fn;
    op->arg = arg;
    op->bounded = bounded;
    return coir_future_init(&op->future, &offload_kind);
}

coir_future *coir_offload_op(coir_offload_job *job, coir_task_fn *fn, void *arg)
{
    if (CI_REFUSED(!job || !fn, "job or fn is NULL"))
        return NULL;
    return make_op(job, fn, arg, true);
}

coir_future *ci_offload_turn_op(coir_offload_job *job, coir_task_fn *fn, void *arg)
{
    return make_op(job, fn, arg, false);
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
    ci_list_init(&pool->jobs);
    ci_list_init(&pool->idle);
    return 0;
}

/* One after the other: at most one is coming. */
int ci_offload_reserve(coir_runtime *runtime, size_t count)
{
    struct ci_offload *pool = &runtime->offload;
    size_t most = count < pool->threads_max ? count : pool->threads_max;
    int rc = 0;
    if (runtime->simulated)
        return 0;
    ci_mutex_lock(&pool->lock);
    pool->reserved = true;
    for (unsigned round = 0; rc == 0 && pool->running < most; round++) {
        if (!pool->coming)
            rc = add_thread(pool);
        ci_mutex_unlock(&pool->lock);
        ci_pause(round);
        ci_mutex_lock(&pool->lock);
    }
    ci_mutex_unlock(&pool->lock);
    return rc;
}

void ci_offload_done(coir_runtime *runtime)
{
    struct ci_offload *pool = &runtime->offload;
    if (!pool->threads)
        return;
    /* a caller waits until its job is over, and every caller has ended */
    ci_check(ci_list_empty(&pool->jobs) && !pool->queued, "offload.c 1");
    ci_mutex_lock(&pool->lock);
    ci_store_relaxed(&pool->stopping, true); /* pairs with the load in spin */
    for (size_t i = 0; i < pool->threads_max; i++) {
        struct ci_offload_thread *thread = &pool->threads[i];
        if (thread->state == CI_THREAD_NONE)
            continue;
        ci_condition_signal(&thread->wake);
        ci_mutex_unlock(&pool->lock);
        ci_thread_join(&thread->thread); /* it may be ending at the moment */
        ci_condition_done(&thread->wake);
        ci_mutex_lock(&pool->lock);
    }
    ci_mutex_unlock(&pool->lock);
    ci_mutex_done(&pool->lock);
    ci_free(&runtime->allocator, pool->threads, pool->threads_max * sizeof *pool->threads);
}
