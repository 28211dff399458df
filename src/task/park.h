/* Parking, to be inlined into each operation that parks: the switch then has a place of its own in
 * the branch predictor, and only one return follows it. */
#ifndef CI_TASK_PARK_H
#define CI_TASK_PARK_H

#include "task/waiter.h"

CI_INLINE struct ci_runnable *ci_pop_ready(struct ci_worker *worker)
{
    struct ci_runnable *runnable = worker->ready;
    worker->ready = runnable->next;
    if (!worker->ready)
        worker->ready_tail = &worker->ready;
    return runnable;
}

/* What has to be set before the switch to a fiber, except the budget: a runnable gets a new budget
 * with each turn, not when its fiber continues after an operation that completed at once. */
CI_INLINE void ci_fiber_switch_entered(struct ci_worker *worker, struct ci_runnable *runnable,
                                       struct ci_fiber *fiber)
{
    ci_debug_check(fiber->runnable == runnable, "fiber.h 1");
    worker->runnable = runnable;
    ci_bump(&worker->resumes); /* between the two: gcc would pack them in a vector */
    worker->fiber = fiber;
}

/* The fiber to switch straight to, with ci_fiber_switch_entered done; NULL: switch to the worker's
 * own stack. */
CI_INLINE struct ci_fiber *ci_next_fiber(struct ci_worker *worker)
{
    struct ci_runnable *runnable = worker->ready;
    if (!runnable)
        return NULL;
    coir_future *inner = runnable->inner;
    if (ci_unlikely(--worker->switches_left < 0))
        return worker->trace && inner->kind == &ci_fiber_kind
                   ? ci_next_fiber_traced(worker, runnable)
                   : NULL;
    if (ci_unlikely(inner->kind != &ci_fiber_kind))
        return ci_next_fiber_behind(worker, runnable);
    struct ci_fiber *fiber = ci_fiber_of(inner);
    ci_pop_ready(worker);
    worker->budget = worker->budget_max;
    ci_fiber_switch_entered(worker, runnable, fiber);
    return fiber;
}

/* In `fiber`, which runs: other work runs until the future that its runnable waits for is woken.
 * Its checks are for debug builds: what they read would have to be kept in registers or memory over
 * the switch. */
CI_INLINE void ci_park_here(struct ci_worker *worker, struct ci_fiber *fiber)
{
    ci_debug_check(worker->fiber == fiber, "fiber.h 1");
    if (ci_unlikely(fiber->before_park != NULL))
        fiber->before_park(fiber->before_park_arg);
    struct ci_fiber *next = ci_next_fiber(worker);
    if (ci_likely(next != NULL)) {
        if (ci_likely(next != fiber))
            /* in a program without sanitizers: see context.h */
            ci_context_jump(&fiber->context, &next->context);
        ci_debug_check(worker->fiber == fiber && worker->runnable == fiber->runnable, "fiber.h 1");
        return;
    }
    worker->fiber = NULL;
    ci_context_switch(&fiber->context, &worker->context);
    ci_debug_check(worker->fiber == fiber && worker->runnable == fiber->runnable, "fiber.h 1");
}

#endif
