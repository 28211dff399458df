/* The background scope of a runtime: the root scope of each worker, into which a spawn with a NULL
 * scope goes.
 *
 * It supervises: a task that fails is logged and counted, and ends nothing else. The run's first
 * task is in it as well: its result is the run's, and if that is an error everything is cancelled.
 *
 * 1. Background tasks are cancelled only after a stop: when the drain time is over, at the second
 *    stop, or at a stop of everything. Until then more may be spawned: a request handler that
 *    finishes after the stop may still spawn a background job. The first stop cancels only the
 *    first task.
 */
#include "task/background.h"

#include <stdio.h>

#include "base/check.h"
#include "task/log.h"
#include "task/run_state.h"

static bool is_first(const struct ci_task *task)
{
    return task->handle == &task->scope->home->runtime->first;
}

/* How many tasks the worker's scope has besides the first. */
static size_t background_tasks(const struct ci_worker *worker)
{
    return worker->root.live - (worker->index == 0 && worker->runtime->first.task != NULL);
}

static void on_failure(struct ci_task *task, int error)
{
    coir_runtime *runtime = task->scope->home->runtime;
    if (is_first(task))
        ci_run_cancel(runtime);
    else if (task->name)
        ci_log(runtime, COIR_LOG_WARNING, "background task \"%s\" failed: %s (error %u)",
               task->name, coir_strerror(error), ci_error_number(error));
    else
        ci_log(runtime, COIR_LOG_WARNING,
               "a background task without a name failed: %s (error %u); coir_go_with can name it",
               coir_strerror(error), ci_error_number(error));
}

static void cancel_all(struct ci_worker *worker)
{
    uint32_t run = ci_load_relaxed(&worker->runtime->run);
    /* the run may end on another worker first, which clears the request */
    ci_check(run & (CI_RUN_STOP | CI_RUN_STOP_AT_ONCE) || ci_run_ended(worker->runtime),
             "background.c 1");
    ci_wheel_cancel(&worker->loop.wheel, &worker->drain);
    coir_scope_cancel((coir_scope *)(void *)&worker->root);
}

static void on_drained(struct ci_timer *timer)
{
    struct ci_worker *worker = ci_container_of(timer, struct ci_worker, drain);
    size_t count = background_tasks(worker);
    if (count)
        ci_log(worker->runtime, COIR_LOG_WARNING,
               "stopping: the drain time of %.3g s is over; cancelling %zu background task%s of "
               "worker %d",
               (double)worker->runtime->config.drain_timeout / 1e9, count, count == 1 ? "" : "s",
               worker->index);
    cancel_all(worker);
}

void ci_background_init(struct ci_worker *worker)
{
    ci_timer_init(&worker->drain, on_drained);
}

void ci_background_begin(struct ci_worker *worker)
{
    ci_scope_init(&worker->root, worker, true);
    ci_cancel_scope_enter(&worker->root.cancel_scope, NULL, CI_CANCEL_SCOPE_TASKS);
    worker->root.root = true;
    worker->root.task_failed = on_failure;
    ci_wheel_cancel(&worker->loop.wheel, &worker->drain); /* started in the run before */
}

static CI_COLD void log_stop(const struct ci_worker *worker)
{
    coir_time drain = worker->runtime->config.drain_timeout;
    size_t count = background_tasks(worker);
    char limit[32];
    snprintf(limit, sizeof limit, "for %.3g s", (double)drain / 1e9);
    const char *until = drain != COIR_NEVER ? limit
                        : count == 1        ? "until it ends"
                                            : "until they end";
    ci_log(worker->runtime, COIR_LOG_INFO,
           "stopping: %zu background task%s of worker %d may go on %s", count,
           count == 1 ? "" : "s", worker->index, until);
}

void ci_background_stop(struct ci_worker *worker, bool at_once)
{
    coir_runtime *runtime = worker->runtime;
    if (at_once) {
        if (!worker->root.cancelled)
            cancel_all(worker);
        return;
    }
    if (worker->index == 0)
        coir_cancel((coir_handle *)(void *)&runtime->first);
    if (background_tasks(worker))
        log_stop(worker);
    if (runtime->config.drain_timeout != COIR_NEVER)
        ci_loop_start_timer(&worker->loop, &worker->drain, coir_in(runtime->config.drain_timeout));
}
