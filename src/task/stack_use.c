#include "task/stack_use.h"

#include <errno.h>

#include "task/current.h"
#include "task/defer.h"
#include "task/runtime.h"
#include "task/stats.h"
#include "task/task.h"

struct ci_deferred ci_deferred_of_measured;

int ci_stack_use_init(struct ci_worker *worker)
{
    struct ci_stats *stats = ci_alloc_zero(&worker->runtime->allocator, sizeof *stats);
    if (!stats)
        return -ENOMEM;
    ci_store_release(&worker->stats, stats); /* pairs with the acquire in metrics.c */
    worker->measures_stacks = true;
    return 0;
}

static void note(struct ci_worker *worker, const struct ci_fiber *fiber)
{
    const char *name = fiber->runnable->task->name;
    ci_stats_stack(worker->stats, name && *name ? name : "(without a name)",
                   ci_stack_used(&worker->stacks, fiber));
}

static void on_park(void *arg)
{
    (void)arg;
    note(ci_worker_current, ci_worker_current->fiber);
}

void ci_stack_use_watch(struct ci_fiber *fiber)
{
    fiber->before_park = on_park;
    fiber->deferred = &ci_deferred_of_measured;
}

void ci_stack_use_end(struct ci_worker *worker, struct ci_fiber *fiber)
{
    note(worker, fiber);
    ci_stack_clear(&worker->stacks, fiber);
    ci_stack_use_watch(fiber); /* who used it meanwhile has left it empty */
}

size_t ci_stack_use_suggest(size_t used)
{
    size_t size = 2 * CI_STACK_GUARD;
    while (size < 2 * used + CI_STACK_GUARD)
        size *= 2;
    return size;
}
