/* A task's membership of its scope, on the scope's home worker. Inlined into spawn and end. */
#ifndef CI_TASK_MEMBERSHIP_H
#define CI_TASK_MEMBERSHIP_H

#include "task/run_state.h"
#include "task/scope.h"
#include "task/task.h"
#include "task/waiter.h"

/* Between runs there is no current worker, and no other thread either. */
static inline bool ci_scope_is_at_home(const struct ci_scope *scope)
{
    return !ci_worker_current || ci_worker_current == scope->home;
}

CI_INLINE void ci_scope_add(struct ci_scope *scope, struct ci_task *task)
{
    ci_debug_check(ci_scope_is_at_home(scope), "scope.h 1");
    ci_list_push(&scope->tasks, &task->sibling);
    scope->live++;
}

/* Removes a task that has ended without an error. */
CI_INLINE void ci_scope_remove(struct ci_scope *scope, struct ci_task *task)
{
    ci_debug_check(ci_scope_is_at_home(scope), "scope.h 1");
    ci_list_unlink(&task->sibling);
    scope->live--;
    ci_debug_check((scope->live == scope->resting) == ci_list_empty(&scope->tasks), "scope.h 2");
}

/* Removes a task that has ended from the scope, which takes its error. The caller calls
 * ci_scope_wake_if_empty afterwards, as its last step. */
CI_INLINE void ci_scope_take_off(struct ci_scope *scope, struct ci_task *task)
{
    ci_scope_remove(scope, task);
    if (ci_unlikely(task->end.result < 0))
        ci_scope_take_error(scope, task, (int)task->end.result);
}

CI_INLINE bool ci_scope_is_empty(const struct ci_scope *scope)
{
    /* tasks counted in `arriving` are not in the list yet; pairs with become_member in remote.c */
    return !scope->live && ci_likely(!ci_load_relaxed(&scope->arriving));
}

/* Of an empty scope. */
CI_INLINE void ci_scope_wake_waiter(struct ci_scope *scope)
{
    struct ci_runnable *waiter = scope->waiter;
    if (!waiter)
        return;
    scope->waiter = NULL;
    ci_wake(scope->home, waiter, waiter->inner);
}

/* The scope may be gone after this. */
CI_INLINE void ci_scope_wake_if_empty(struct ci_scope *scope)
{
    if (!ci_scope_is_empty(scope))
        return;
    ci_scope_wake_waiter(scope);
    if (scope->root)
        ci_run_remove_root(scope->home->runtime);
}

#endif
