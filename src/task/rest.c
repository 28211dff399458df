/* Tasks at rest: see rest.h. */
#include "task/rest.h"

#include <errno.h>

#include "base/check.h"
#include "task/membership.h"

bool ci_task_may_rest(const struct ci_task *task, const coir_future *leaf)
{
    const struct ci_runnable *runnable = &task->runnable;
    return runnable->inner == leaf && !runnable->cancel_scopes && !runnable->cancelled &&
           !task->handle && !task->locals && !task->cancel && !task->copied;
}

/* The pool counts the record as if it were in use, so that the limit of tasks holds. */
void ci_task_rest(struct ci_task *task)
{
    struct ci_worker *worker = task->worker;
    struct ci_scope *scope = task->scope;
    ci_check(ci_task_may_rest(task, task->runnable.inner), "task/rest.h 1");
    ci_check(!scope->cancelled, "task/rest.h 2");
    ci_debug_check(worker == ci_worker_current, "task.h 1");
    ci_list_unlink(&task->sibling);
    scope->resting++;
    ci_task_free(worker, task);
    ci_bump(&worker->tasks.live);
    ci_worker_trim_later(worker);
}

/* Sets what a spawn sets. */
static void begin_again(struct ci_worker *worker, struct ci_task *task)
{
    task->number = --worker->roused_number;
    task->spawned_at = NULL;
    task->root.fn = NULL;
    task->root.arg = NULL; /* it leaves its result: task.h */
}

struct ci_task *ci_task_rouse(coir_scope *opaque, const char *name, coir_future *root,
                              coir_future *leaf)
{
    struct ci_scope *scope = ci_scope_of(opaque);
    struct ci_worker *worker = scope->home;
    ci_check(scope->resting > 0, "scope.h 2");
    ci_drop(&worker->tasks.live);
    struct ci_task *task = ci_pool_take(&worker->tasks);
    if (!task) {
        ci_bump(&worker->tasks.live);
        return NULL;
    }
    if (!task->worker)
        ci_task_make_record(task, worker);
    begin_again(worker, task);
    task->name = name;
    task->scope = scope;
    task->runnable.inner = leaf;
    root->caller = &task->end;
    ci_list_push(&scope->tasks, &task->sibling);
    scope->resting--;
    if (ci_unlikely(scope->cancelled)) /* rest.h 2: there was no memory to rouse it before */
        task->runnable.cancelled = task->runnable.interrupt =
            scope->interrupt ? scope->interrupt : -ECANCELED;
    return task;
}

void ci_task_end_at_rest(coir_scope *opaque)
{
    struct ci_scope *scope = ci_scope_of(opaque);
    ci_check(scope->resting > 0, "scope.h 2");
    ci_drop(&scope->home->tasks.live);
    scope->resting--;
    scope->live--;
    ci_scope_wake_if_empty(scope);
}
