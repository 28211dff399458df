/* Yielding: by request, and when a runnable has spent its budget. */
#include <errno.h>

#include "coir/fiber.h"
#include "task/park.h"

static coir_future *yield_poll(coir_future *future)
{
    struct ci_worker *worker = ci_worker_current;
    future->result = worker->runnable->interrupt;
    worker->runnable->inner = future->caller;
    ci_ready(worker, worker->runnable);
    return NULL;
}

static const coir_future_kind yield_kind = COIR_FUTURE_KIND("its turn", yield_poll, NULL);

coir_future *coir_yield_op(coir_future *op)
{
    return CI_REFUSED(!op, "op is NULL") ? NULL : coir_future_init(op, &yield_kind);
}

static CI_NOINLINE int let_others_run(struct ci_worker *worker, struct ci_fiber *fiber)
{
    struct ci_runnable *runnable = worker->runnable;
    runnable->inner = &fiber->back;
    ci_ready(worker, runnable);
    ci_park_here(worker, fiber);
    return fiber->runnable->interrupt;
}

int coir_yield(void)
{
    struct ci_worker *worker = ci_worker_current;
    struct ci_fiber *fiber = ci_fiber_of_call(worker);
    if (ci_unlikely(!fiber))
        return ci_fiber_refuse(worker, CI_CALL, CI_PLACE);
    if (!worker->ready && --worker->switches_left >= 0)
        return 0;
    return let_others_run(worker, fiber);
}

int ci_budget_yield(struct ci_worker *worker)
{
    struct ci_fiber *fiber = worker->fiber;
    worker->runnable->inner = &fiber->back;
    ci_ready(worker, worker->runnable);
    ci_park_here(worker, fiber);
    return 0;
}

int ci_fiber_refuse(struct ci_worker *worker, const char *call, const void *place)
{
    if (!worker || !worker->fiber)
        return ci_no_fiber_in(call, place);
    int error = worker->runnable->interrupt;
    ci_spend(worker); /* a loop that ignores its errors still lets others run */
    return error;
}
