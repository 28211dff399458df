/* The record of a task, and its end. The task that joins it is woken in join.c. */
#include "task/task.h"

#include <inttypes.h>

#include "base/check.h"
#include "coir/fiber.h"
#include "task/left_open.h"
#include "task/local.h"
#include "task/log.h"
#include "task/membership.h"
#include "task/runtime.h"
#include "task/trace.h"

/* ---- the record ---- */

void ci_task_free_argument(struct ci_task *task, struct ci_worker *origin)
{
    if (ci_likely(task->copied == 0))
        return;
    ci_pool_give(&origin->copies, task->root.arg);
    task->copied = 0;
}

/* Resets the record to what the next spawn expects, and frees it. */
CI_INLINE void free_record(struct ci_worker *worker, struct ci_task *task)
{
    ci_debug_check(!task->copied, "task.h 2");
    ci_debug_check(!task->handle && !task->locals && !task->cancel, "task.h 2");
    task->runnable.interrupt = task->runnable.cancelled = 0;
    task->name = NULL;
    ci_pool_give(&worker->tasks, task);
}

void ci_task_free(struct ci_worker *worker, struct ci_task *task)
{
    ci_task_free_argument(task, worker);
    free_record(worker, task);
}

/* ---- the result ---- */

/* Logs a dropped result, once per worker. */
static CI_COLD void report_dropped(const struct ci_task *task)
{
    struct ci_worker *worker = ci_worker_current;
    if (!worker || worker->told_dropped)
        return;
    worker->told_dropped = true;
    ci_log(worker->runtime, COIR_LOG_WARNING,
           "the result %" PRId64 " of the task \"%s\" is dropped: a task returns 0 or a negative "
           "error, and only a handle receives any other result",
           task->end.result, task->name ? task->name : "without a name");
}

void ci_task_give_result(struct ci_task *task)
{
    if (CI_DEBUG && ci_unlikely(task->end.result > 0 && !task->handle))
        report_dropped(task);
    struct ci_handle *handle = task->handle;
    if (ci_likely(!handle))
        return;
    task->handle = NULL;
    ci_handle_complete(handle, task->end.result);
}

static void take_future_result(struct ci_task *task, coir_future *root)
{
    task->end.result = root->result;
    root->caller = NULL; /* from now on it may be started again */
}

CI_INLINE void end_task(struct ci_task *task)
{
    ci_debug_check(task->worker == ci_worker_current, "task.h 1");
    if (ci_unlikely(task->runnable.cancel_scopes != NULL))
        ci_task_left_open(task); /* task.h 3 */
    if (ci_likely(task->root.fn != NULL))
        task->end.result = task->root.future.result;
    else if (task->root.arg) /* otherwise it stored its result before, and may be gone */
        take_future_result(task, task->root.arg);
    if (ci_unlikely(task->locals != NULL)) {
        ci_local_drop(task->worker, task->locals);
        task->locals = NULL;
    }
}

void ci_task_end(struct ci_task *task)
{
    end_task(task);
    if (ci_unlikely(task->worker->kept_trace))
        task->worker->kept_trace->ended = task;
}

/* ---- the end ---- */

static CI_NOINLINE coir_future *end_otherwise(struct ci_task *task)
{
    end_task(task);
    struct ci_scope *scope = task->scope;
    ci_scope_take_off(scope, task);
    ci_task_give_result(task);
    ci_task_free(scope->home, task);
    ci_scope_wake_if_empty(scope);
    return NULL;
}

/* Whether the end of a task that ran a function has nothing to do but to take it off its scope, and
 * no run ends with it. */
CI_INLINE bool ends_plainly(const struct ci_task *task, const struct ci_scope *scope)
{
    return ci_likely(task->root.fn && !task->runnable.cancel_scopes && !task->locals &&
                     !task->handle && !task->copied && task->root.future.result == 0 &&
                     !(scope->root && scope->live == 1));
}

/* The end of a task whose handle and scope are on its own worker; for others see remote.c. */
static coir_future *end_poll(coir_future *end)
{
    struct ci_task *task = ci_container_of(end, struct ci_task, end);
    struct ci_scope *scope = task->scope;
    if (!ends_plainly(task, scope))
        return end_otherwise(task);
    ci_debug_check(task->worker == ci_worker_current, "task.h 1");
    task->end.result = 0;
    ci_scope_remove(scope, task);
    free_record(scope->home, task);
    if (ci_scope_is_empty(scope))
        ci_scope_wake_waiter(scope);
    return NULL;
}

static const coir_future_kind end_kind = COIR_FUTURE_KIND("ended", end_poll, NULL);

CI_NOINLINE void ci_task_make_record(struct ci_task *task, struct ci_worker *worker)
{
    task->runnable.task = task;
    task->end.kind = &end_kind;
    task->root.future.kind = &ci_call_kind;
    task->root.future.caller = &task->end;
    task->worker = worker;
}

/* ---- names ---- */

static struct ci_task *running(void)
{
    const struct ci_worker *worker = ci_worker_current;
    return worker && worker->runnable ? worker->runnable->task : NULL;
}

const char *coir_task_name(void)
{
    const struct ci_task *task = running();
    return task ? task->name : NULL;
}

int coir_task_set_name(const char *name)
{
    struct ci_task *task = running();
    if (!task)
        return ci_no_fiber();
    task->name = name;
    if (ci_unlikely(task->worker->stats) && name)
        ci_stats_renamed(task->worker->stats, name);
    return 0;
}
