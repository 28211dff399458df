/* Fibers: stackful calls, parking, and the direct way from one fiber to the next.
 *
 * 1. A fiber that parks asks who is next and switches straight there when that is a fiber, or a
 * call that wants one; everything else is the worker's own stack's to run. In the simulator it
 * always goes there, so that the seed decides who is next.
 * 2. Whoever switches to a fiber has set worker->runnable, worker->fiber and the budget before.
 * 3. A fiber that ends runs the next fresh call on its own stack, without a switch; else its stack
 * goes back before it leaves.
 *
 *    (fresh) -- ci_fiber_new --> READY -- switch --> RUNNING -- ci_park --> PARKED -- ci_wake -->
 * READY
 *                                                       `---- fiber_main's end --> stack given back
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "task/park.h"

CI_THREAD_LOCAL struct ci_worker *ci_worker_current;

static void after_fork_in_child(void)
{
    ci_worker_current = NULL; /* see sys/fork.h */
}

__attribute__((constructor)) static void watch_for_fork(void)
{
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

int ci_no_worker(void)
{
    return ci_forked() ? -COIR_EFORKED : -ESRCH;
}

int ci_no_fiber_in(const char *call, const void *place)
{
    return ci_forked() ? -COIR_EFORKED : CI_DEBUG ? ci_misused(-ESRCH, call, place) : -ESRCH;
}

void ci_exit_child(int rc)
{
    _exit(rc < 0);
}

/* ---- entering ---- */

static coir_future *fiber_poll(coir_future *back);

const coir_future_kind ci_fiber_kind = COIR_FUTURE_KIND("running", fiber_poll, NULL);

/* Switches from the worker's own stack to a fiber; back here when a fiber has nobody to switch to.
 */
static coir_future *run_fiber(struct ci_worker *worker, struct ci_fiber *fiber)
{
    ci_fiber_switch_entered(worker, fiber);
    ci_context_switch(&worker->context, &fiber->context);
    coir_future *next = worker->handover;
    worker->handover = NULL;
    return next;
}

static coir_future *fiber_poll(coir_future *back)
{
    struct ci_fiber *fiber = ci_fiber_of(back);
    fiber->runnable->inner = back; /* it may have been a frame that is gone once the fiber runs */
    return run_fiber(ci_worker_current, fiber);
}

static coir_future *call_poll(coir_future *future)
{
    struct ci_worker *worker = ci_worker_current;
    struct ci_fiber *fiber = ci_fiber_new(worker, ci_container_of(future, struct ci_call, future));
    if (ci_likely(fiber != NULL))
        return run_fiber(worker, fiber);
    struct ci_task *task = worker->runnable->task;
    future->result = -ENOMEM;
    if (future->caller != &task->end)
        return future->caller;
    task->end.result = -ENOMEM;
    ci_task_end(task);
    return NULL;
}

const coir_future_kind ci_call_kind = COIR_FUTURE_KIND("not started", call_poll, NULL);

static void fiber_main(void);

void ci_fiber_init(void *record)
{
    struct ci_fiber *fiber = record;
    fiber->back = (coir_future){&ci_fiber_kind, NULL, 0, 0};
    fiber->deferred = NULL;
    fiber->generator = NULL;
    fiber->before_park = NULL;
}

/* Makes `fiber`, on whatever stack its record lies, the one that will run `call` for the current
 * runnable. */
CI_INLINE void prepare(struct ci_worker *worker, struct ci_fiber *fiber, struct ci_call *call)
{
    fiber->runnable = worker->runnable;
    fiber->call = call;
    worker->runnable->inner = &fiber->back; /* running: nothing to cancel */
}

struct ci_fiber *ci_fiber_new(struct ci_worker *worker, struct ci_call *call)
{
    struct ci_fiber *fiber = ci_stacks_take(&worker->stacks);
    if (ci_unlikely(!fiber))
        return NULL;
    prepare(worker, fiber, call);
    ci_context_init(&fiber->context, fiber_main, fiber);
    return fiber;
}

/* A fresh call's fiber, on behalf of whoever parks. */
struct ci_fiber *ci_fiber_for(struct ci_worker *worker, struct ci_runnable *runnable)
{
    struct ci_runnable *before = worker->runnable;
    worker->runnable = runnable;
    struct ci_fiber *fiber =
        ci_fiber_new(worker, ci_container_of(runnable->inner, struct ci_call, future));
    if (ci_unlikely(!fiber))
        worker->runnable = before;
    return fiber;
}

/* ---- parking ---- */

void ci_park(struct ci_worker *worker)
{
    ci_park_here(worker);
}

int64_t ci_await(struct ci_worker *worker, coir_future *future)
{
    coir_future *back = &worker->fiber->back, *next = future;
    future->caller = back;
    do
        if ((next = next->kind->poll(next)) == back)
            return future->result;
    while (next);
    ci_park_here(worker);
    return future->result;
}

int64_t coir_await(coir_future *future)
{
    int rc = 0;
    struct ci_fiber *fiber = ci_fiber_enter(&rc);
    if (!fiber)
        return rc;
    struct ci_worker *worker = ci_worker_current;
    future->caller = &fiber->back;
    if (fiber->before_park)
        fiber->before_park(fiber->before_park_arg);
    worker->handover = future;
    worker->fiber = NULL;
    ci_context_switch(&fiber->context, &worker->context);
    return future->result;
}

coir_future *coir_call_init(coir_call *call, coir_task_fn *fn, void *arg)
{
    return ci_call_init((struct ci_call *)(void *)call, fn, arg);
}

static coir_future *yield_poll(coir_future *future)
{
    struct ci_worker *worker = ci_worker_current;
    future->result = worker->runnable->interrupt;
    ci_wake(worker, worker->runnable, future);
    return NULL;
}

static const coir_future_kind yield_kind = COIR_FUTURE_KIND("its turn", yield_poll, NULL);

coir_future *coir_yield_op(coir_future *op)
{
    return coir_future_init(op, &yield_kind);
}

int coir_yield(void)
{
    int rc = 0;
    struct ci_fiber *fiber = ci_fiber_enter(&rc);
    if (ci_unlikely(!fiber))
        return rc;
    struct ci_worker *worker = ci_worker_current;
    if (!worker->ready && --worker->switches_left > 0)
        return 0;
    worker->runnable->inner = &fiber->back;
    ci_ready(worker, worker->runnable);
    ci_park_here(worker);
    return worker->runnable->interrupt;
}

void ci_budget_yield(struct ci_worker *worker)
{
    worker->runnable->inner = &worker->fiber->back;
    ci_ready(worker, worker->runnable);
    ci_park(worker);
}

int ci_refuse(struct ci_worker *worker)
{
    int error = worker->runnable->interrupt;
    ci_spend(worker); /* a loop that ignores its errors still lets others run */
    return error;
}

/* ---- ending ---- */

static void run_deferred(struct ci_worker *worker, struct ci_fiber *fiber)
{
    struct ci_cancel_scope shield;
    struct ci_deadline limit;
    ci_cancel_scope_enter(&shield, worker->runnable, CI_CANCEL_SCOPE_SHIELD);
    coir_deadline_enter((coir_cancel_scope *)(void *)&limit,
                        coir_in(worker->runtime->config.defer_timeout));
    while (fiber->deferred) {
        struct ci_deferred deferred = *fiber->deferred;
        ci_pool_give(&worker->deferred, fiber->deferred);
        fiber->deferred = deferred.next;
        deferred.fn(deferred.arg);
    }
    coir_cancel_scope_leave((coir_cancel_scope *)(void *)&limit);
    ci_cancel_scope_leave(&shield);
}

/* The rest of a fiber's life after one call: it goes on with a fresh one, or it is gone. */
CI_INLINE void leave(struct ci_worker *worker, struct ci_fiber *fiber)
{
    struct ci_fiber *next = worker->handover ? NULL : ci_next_fiber(worker);
    ci_stacks_give(&worker->stacks, fiber);
    if (next)
        ci_context_leave(&next->context);
    worker->fiber = NULL;
    ci_context_leave(&worker->context);
}

CI_INLINE bool reuse(struct ci_worker *worker, struct ci_fiber *fiber)
{
    struct ci_runnable *runnable = worker->ready;
    if (worker->handover || !runnable || runnable->inner->kind != &ci_call_kind ||
        --worker->switches_left <= 0)
        return false;
    ci_pop_ready(worker);
    worker->runnable = runnable;
    worker->budget = worker->budget_max;
    prepare(worker, fiber, ci_container_of(runnable->inner, struct ci_call, future));
    ci_fiber_switch_entered(worker, fiber);
    return true;
}

static CI_UNTRACED void fiber_main(void)
{
    ci_context_entered();
    struct ci_worker *worker = ci_worker_current;
    struct ci_fiber *fiber = worker->fiber;
    do {
        struct ci_call *call = fiber->call;
        int rc = call->fn(call->arg);
        if (ci_forked())
            ci_exit_child(rc);
        if (ci_unlikely(fiber->deferred != NULL))
            run_deferred(worker, fiber);
        call->future.result = rc;
        coir_future *caller = call->future.caller;
        struct ci_task *task = worker->runnable->task;
        if (ci_likely(caller == &task->end)) {
            caller->result = rc;
            ci_task_end(task);
        } else {
            worker->handover = caller;
        }
    } while (reuse(worker, fiber));
    leave(worker, fiber);
    abort();
}

/* ---- what a fiber does about itself ---- */

static struct ci_fiber *running(void)
{
    return ci_worker_current ? ci_worker_current->fiber : NULL;
}

int coir_task_interrupted(void)
{
    return running() ? ci_worker_current->runnable->interrupt : 0;
}

const char *coir_task_name(void)
{
    return running() ? ci_worker_current->runnable->task->name : NULL;
}

int coir_task_set_name(const char *name)
{
    if (!running())
        return ci_no_fiber();
    ci_worker_current->runnable->task->name = name;
    return 0;
}

int coir_defer(void (*fn)(void *arg), void *arg)
{
    struct ci_fiber *fiber = running();
    if (!fiber)
        return ci_no_fiber();
    if (!fn)
        return CI_MISUSE(-EINVAL);
    struct ci_deferred *deferred = ci_pool_take(&ci_worker_current->deferred);
    if (!deferred)
        return -ENOMEM;
    *deferred = (struct ci_deferred){fiber->deferred, fn, arg};
    fiber->deferred = deferred;
    return 0;
}

bool coir_defer_disarm(void (*fn)(void *arg), void *arg)
{
    struct ci_fiber *fiber = running();
    for (struct ci_deferred **at = fiber ? &fiber->deferred : NULL; at && *at; at = &(*at)->next) {
        struct ci_deferred *deferred = *at;
        if (deferred->fn != fn || deferred->arg != arg)
            continue;
        *at = deferred->next;
        ci_pool_give(&ci_worker_current->deferred, deferred);
        return true;
    }
    return false;
}
