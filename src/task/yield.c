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

int coir_yield(void)
{
    int rc = 0;
    struct ci_fiber *fiber = ci_fiber_enter(&rc);
    if (ci_unlikely(!fiber))
        return rc;
    struct ci_worker *worker = ci_worker_current;
    if (!worker->ready && --worker->switches_left >= 0)
        return 0;
    worker->runnable->inner = &fiber->back;
    ci_ready(worker, worker->runnable);
    ci_park_here(worker);
    return worker->runnable->interrupt;
}

int ci_budget_yield(struct ci_worker *worker)
{
    worker->runnable->inner = &worker->fiber->back;
    ci_ready(worker, worker->runnable);
    ci_park_here(worker);
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
