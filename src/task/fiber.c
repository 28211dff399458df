/* Fibers: how they begin, run their calls, and end.
 *
 * A fiber that parks switches straight to the next runnable when that is a fiber, a call that needs
 * one, or a member that decides a coir_any that a fiber awaits; everything else is run by the
 * worker's own stack. In the simulator a fiber always switches to the worker's own stack, so that
 * the seed decides what runs next.
 *
 * If the next runnable is a call that has not begun, a fiber that ends runs it on its own stack,
 * without a switch. Otherwise it gives its stack back before it leaves.
 *
 *    (not begun) -- new_fiber --> READY -- switch --> RUNNING -- ci_park --> PARKED
 *                                   ^                    |                     |
 *                                   `----- ci_wake ------+---------------------'
 *                                                        `-- the call returns --> (ended)
 */
#include "task/fiber.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "task/defer.h"
#include "task/group.h"
#include "task/park.h"
#include "task/task.h"

/* ---- begin ---- */

static coir_future *fiber_poll(coir_future *back);

const coir_future_kind ci_fiber_kind = COIR_FUTURE_KIND("its turn", fiber_poll, NULL);

/* Switches from the worker's own stack to a fiber; returns when a fiber parks or ends with no other
 * fiber to switch to. */
CI_INLINE coir_future *run_fiber(struct ci_worker *worker, struct ci_fiber *fiber)
{
    ci_fiber_switch_entered(worker, fiber->runnable, fiber);
    ci_context_switch(&worker->context, &fiber->context);
    ci_check(!worker->fiber, "task/worker.h 1");
    coir_future *next = worker->handover;
    worker->handover = NULL;
    return next;
}

static coir_future *fiber_poll(coir_future *back)
{
    struct ci_fiber *fiber = ci_fiber_of(back);
    /* the previous `inner` may be a frame that is gone once the fiber runs */
    fiber->runnable->inner = back;
    return run_fiber(ci_worker_current, fiber);
}

CI_INLINE struct ci_fiber *new_fiber(struct ci_worker *worker, struct ci_runnable *runnable,
                                     struct ci_call *call);

static coir_future *call_poll(coir_future *future)
{
    struct ci_worker *worker = ci_worker_current;
    struct ci_fiber *fiber =
        new_fiber(worker, worker->runnable, ci_container_of(future, struct ci_call, future));
    if (ci_likely(fiber != NULL))
        return run_fiber(worker, fiber);
    future->result = -ENOMEM;
    return future->caller;
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

/* Prepares `fiber` (its record lies at the top of its stack) to run `call` for `runnable`. */
CI_INLINE void prepare(struct ci_fiber *fiber, struct ci_runnable *runnable, struct ci_call *call)
{
    fiber->runnable = runnable;
    runnable->inner = &fiber->back; /* running: nothing to cancel */
    fiber->call = call;
}

/* A fiber about to run `call`, on a stack of its own; NULL when memory is out. */
CI_INLINE struct ci_fiber *new_fiber(struct ci_worker *worker, struct ci_runnable *runnable,
                                     struct ci_call *call)
{
    struct ci_fiber *fiber = ci_stacks_take(&worker->stacks);
    if (ci_unlikely(!fiber))
        return NULL;
    prepare(fiber, runnable, call);
    ci_context_init(&fiber->context, fiber_main, fiber);
    return fiber;
}

/* A fiber that is next, and is not in the run queue: the runnable that brought it is taken off. */
CI_INLINE struct ci_fiber *next_fiber(struct ci_worker *worker, struct ci_runnable *runnable,
                                      struct ci_fiber *fiber)
{
    worker->budget = worker->budget_max;
    ci_fiber_switch_entered(worker, runnable, fiber);
    return fiber;
}

/* For a call that has not begun. NULL when memory is out, and nothing has changed. */
CI_INLINE struct ci_fiber *next_for_call(struct ci_worker *worker, struct ci_runnable *runnable)
{
    struct ci_fiber *fiber =
        new_fiber(worker, runnable, ci_container_of(runnable->inner, struct ci_call, future));
    if (ci_unlikely(!fiber))
        return NULL;
    ci_pop_ready(worker);
    return next_fiber(worker, runnable, fiber);
}

/* On a stack that was not used for long, or never. */
static CI_NOINLINE struct ci_fiber *next_on_fresh_stack(struct ci_worker *worker,
                                                        struct ci_runnable *runnable)
{
    return next_for_call(worker, runnable);
}

/* For a member that has completed of a coir_any that a fiber awaits: ends it here, and returns the
 * fiber if the coir_any has ended with it. The members of other groups may begin more members,
 * whose frames belong on the worker's own stack. */
static CI_NOINLINE struct ci_fiber *next_for_member(struct ci_worker *worker,
                                                    struct ci_runnable *runnable)
{
    struct ci_branch *branch = ci_container_of(runnable, struct ci_branch, runnable);
    const struct ci_group *group = branch->owner;
    if (runnable->inner != &branch->end || branch->link.next /* in a set */ ||
        group->mode != CI_GROUP_ANY || group->future.caller->kind != &ci_fiber_kind)
        return NULL;
    ci_pop_ready(worker);
    worker->runnable = runnable;
    worker->fiber = NULL;
    coir_future *back = branch->end.kind->poll(&branch->end);
    struct ci_fiber *fiber = back ? ci_fiber_of(back) : NULL;
    return fiber ? next_fiber(worker, fiber->runnable, fiber) : NULL;
}

struct ci_fiber *ci_next_fiber_behind(struct ci_worker *worker, struct ci_runnable *runnable)
{
    if (runnable->inner->kind == &ci_call_kind)
        return ci_likely(worker->stacks.free != NULL) ? next_for_call(worker, runnable)
                                                      : next_on_fresh_stack(worker, runnable);
    return ci_runnable_is_branch(runnable) ? next_for_member(worker, runnable) : NULL;
}

coir_future *coir_call_init(coir_call *call, coir_task_fn *fn, void *arg)
{
    if (CI_REFUSED(!call || !fn, "call or fn is NULL"))
        return NULL;
    return ci_call_init((struct ci_call *)(void *)call, fn, arg);
}

/* ---- end ---- */

/* To `next`, or the worker's own stack. The fiber is gone after this. */
CI_INLINE void leave(struct ci_worker *worker, struct ci_fiber *fiber, struct ci_fiber *next)
{
    ci_stacks_give(&worker->stacks, fiber);
    if (next) /* in a program without sanitizers: see context.h */
        ci_context_jump_away(&next->context);
    worker->fiber = NULL;
    ci_context_leave(&worker->context);
}

/* Whether the fiber can go on with a call that has not begun, which is next in the run queue. */
CI_INLINE bool reuse(struct ci_worker *worker, struct ci_fiber *fiber)
{
    struct ci_runnable *runnable = worker->ready;
    if (!runnable || runnable->inner->kind != &ci_call_kind || --worker->switches_left < 0)
        return false;
    ci_pop_ready(worker);
    worker->budget = worker->budget_max;
    prepare(fiber, runnable, ci_container_of(runnable->inner, struct ci_call, future));
    ci_fiber_switch_entered(worker, runnable, fiber);
    return true;
}

static CI_UNTRACED void fiber_main(void)
{
    ci_context_entered();
    struct ci_worker *worker = ci_worker_current;
    struct ci_fiber *fiber = worker->fiber;
    for (;;) {
        ci_check(worker->runnable == fiber->runnable, "fiber.h 1");
        struct ci_call *call = fiber->call;
        int rc = call->fn(call->arg);
        if (ci_forked())
            ci_exit_child(rc);
        if (ci_unlikely(fiber->deferred != NULL))
            ci_run_deferred(worker, fiber);
        call->future.result = rc;
        coir_future *caller = call->future.caller;
        struct ci_fiber *next = NULL;
        if (ci_likely(caller == &worker->runnable->task->end)) {
            caller->kind->poll(caller); /* a task's end returns no future to run next */
            if (reuse(worker, fiber))
                continue;
            next = ci_next_fiber(worker);
        } else {
            worker->handover = caller;
        }
        leave(worker, fiber, next);
    }
}
