/* Deferred calls: functions that run when the fiber ends, whatever ends it. They run on the fiber,
 * shielded from cancellation, under a deadline of their own. */
#include "task/defer.h"

#include <errno.h>

#include "coir/deadline.h"
#include "coir/fiber.h"
#include "task/current.h"
#include "task/fiber.h"
#include "task/runtime.h"
#include "task/stack_use.h"

static bool has_deferred(const struct ci_fiber *fiber)
{
    return fiber->deferred && fiber->deferred != &ci_deferred_of_measured;
}

static void run_all(struct ci_worker *worker, struct ci_fiber *fiber)
{
    COIR_SHIELD;
    COIR_DEADLINE(coir_in(worker->runtime->config.defer_timeout));
    while (has_deferred(fiber)) {
        struct ci_deferred deferred = *fiber->deferred;
        ci_pool_give(&worker->deferred, fiber->deferred);
        fiber->deferred = deferred.next;
        deferred.fn(deferred.arg);
    }
}

void ci_run_deferred(struct ci_worker *worker, struct ci_fiber *fiber)
{
    if (has_deferred(fiber))
        run_all(worker, fiber);
    if (fiber->deferred)
        ci_stack_use_end(worker, fiber);
}

static struct ci_fiber *running(void)
{
    return ci_worker_current ? ci_worker_current->fiber : NULL;
}

int coir_defer(void (*fn)(void *arg), void *arg)
{
    struct ci_fiber *fiber = running();
    if (!fiber)
        return ci_no_fiber();
    if (!fn)
        return CI_MISUSE(-EINVAL, "fn is NULL");
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
        if (deferred == &ci_deferred_of_measured || deferred->fn != fn || deferred->arg != arg)
            continue;
        *at = deferred->next;
        ci_pool_give(&ci_worker_current->deferred, deferred);
        return true;
    }
    return false;
}
