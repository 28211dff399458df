/* Workers: making and freeing them. Their turn is in scheduler.c. */
#include "task/worker.h"

#include <errno.h>

#include "sys/barrier.h"
#include "task/background.h"
#include "task/deadlock.h"
#include "task/defer.h"
#include "task/extension.h"
#include "task/local.h"
#include "task/park.h"
#include "task/remote.h"
#include "task/run_state.h"
#include "task/stack_use.h"
#include "task/trace.h"

static void make_fiber(void *record)
{
    struct ci_fiber *fiber = record;
    ci_fiber_init(fiber);
    if (ci_worker_current->measures_stacks)
        ci_stack_use_watch(fiber);
    if (ci_unlikely(ci_sanitizer)) {
        ci_stack_view_init(&fiber->view, ci_stack_bottom(&ci_worker_current->stacks, fiber), fiber);
        fiber->context.view = &fiber->view;
    }
}

static void drop_fiber(void *record)
{
    ci_stack_view_done(&((struct ci_fiber *)record)->view);
}

void ci_worker_adopt_thread(struct ci_worker *worker)
{
    ci_thread_adopt_stack(&worker->view);
    worker->context.view = &worker->view;
}

/* Numbers do not come again: the owner of a lock may have been freed. */
static uint32_t new_owner_number(void)
{
    static uint32_t last = CI_OWNS_NOTHING;
    /* TSan does not know the barrier */
    bool may_own = !CI_TSAN && ci_sanitizer != CI_THREAD_SANITIZER && ci_barrier_prepare();
    return may_own ? ci_fetch_add_relaxed(&last, 1) + 1 : CI_OWNS_NOTHING;
}

void ci_worker_init(struct ci_worker *worker, coir_runtime *runtime, int index,
                    struct ci_driver *driver)
{
    const coir_allocator *allocator = &runtime->allocator;
    ci_loop_init(&worker->loop, driver, allocator);
    ci_halt_init(worker);
    if (runtime->config.deadlock != COIR_DEADLOCK_IGNORE)
        worker->loop.may_sleep = ci_deadlock_may_sleep;
    worker->runtime = runtime;
    worker->index = index;
    worker->owner_number = new_owner_number();
    ci_scheduler_init(worker);
    ci_stacks_init(&worker->stacks, allocator, runtime->config.stack_size, sizeof(struct ci_fiber));
    worker->stacks.on_fresh = make_fiber;
    if (ci_sanitizer == CI_THREAD_SANITIZER)
        worker->stacks.on_drop = drop_fiber;
    ci_pool_init(&worker->tasks, allocator, sizeof(struct ci_task), runtime->config.tasks_max);
    ci_pool_init(&worker->remote_tasks, allocator, sizeof(struct ci_remote_task),
                 runtime->config.tasks_max);
    ci_pool_init(&worker->locals, allocator, sizeof(struct ci_local), 0);
    ci_pool_init(&worker->deferred, allocator, sizeof(struct ci_deferred), 0);
    ci_pool_init(&worker->copies, allocator, COIR_COPY_MAX, 0);
    ci_posts_init(&worker->posts);
    ci_background_init(worker);
    ci_warnings_init(&worker->warnings);
    worker->stacks.grown = worker->tasks.grown = &worker->grown;
}

/* Requires that the inbox of the loop, and those of all workers that could send to it, are
 * empty. */
void ci_worker_done(struct ci_worker *worker)
{
    ci_warnings_done(worker);
    ci_trace_free(worker);
    ci_free(&worker->runtime->allocator, worker->stats, sizeof *worker->stats);
    while (worker->extensions) {
        struct ci_worker_extension *extension = worker->extensions;
        worker->extensions = extension->next;
        extension->free(extension, &worker->runtime->allocator);
    }
    ci_loop_done(&worker->loop);
    ci_stacks_done(&worker->stacks);
    ci_pool_done(&worker->tasks);
    ci_pool_done(&worker->remote_tasks);
    ci_pool_done(&worker->locals);
    ci_pool_done(&worker->deferred);
    ci_pool_done(&worker->copies);
    ci_posts_done(&worker->posts, &worker->runtime->allocator);
}
