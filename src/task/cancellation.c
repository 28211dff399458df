/* Cancellation: of runnables, tasks and scopes. cancellation.h has the rules. */
#include "task/cancellation.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "coir/fiber.h"
#include "sys/fork.h"
#include "sys/misuse.h"
#include "task/scope.h"
#include "task/task.h"
#include "task/waiter.h"

int ci_runnable_interrupted_inside(const struct ci_runnable *runnable,
                                   const struct ci_cancel_scope *outer)
{
    const struct ci_cancel_scope *cancel_scope = runnable->cancel_scopes;
    for (; cancel_scope && cancel_scope != outer; cancel_scope = cancel_scope->outer) {
        if (cancel_scope->kind == CI_CANCEL_SCOPE_SHIELD)
            return 0;
        if (cancel_scope->expired)
            return -ETIME;
    }
    return cancel_scope ? 0 : runnable->cancelled;
}

static bool is_up_to_date(const struct ci_runnable *runnable)
{
    return runnable->interrupt == ci_runnable_interrupted_inside(runnable, NULL);
}

/* The runnable's cancel scopes or its cancellation changed. */
static void update(struct ci_runnable *runnable)
{
    runnable->interrupt = ci_runnable_interrupted_inside(runnable, NULL);
}

/* Withdraws what an interrupted runnable waits for, if that can be withdrawn. */
static void withdraw_wait(struct ci_runnable *runnable)
{
    coir_future *leaf = runnable->inner;
    if (!runnable->interrupt || !leaf->kind->cancel ||
        !leaf->kind->cancel(leaf, runnable->interrupt))
        return;
    ci_check(runnable->inner == leaf, "waiter.h 2"); /* it was not woken in between */
    ci_wake(runnable->task->worker, runnable, leaf);
}

/* Interrupts the task scopes that the runnable has open inside of `cause` (NULL: all of them),
 * except those inside of a shield. */
static void flow_into_scopes(struct ci_runnable *runnable, const struct ci_cancel_scope *cause,
                             int reason)
{
    struct ci_cancel_scope *from = runnable->cancel_scopes;
    for (struct ci_cancel_scope *cancel_scope = runnable->cancel_scopes; cancel_scope != cause;
         cancel_scope = cancel_scope->outer)
        if (cancel_scope->kind == CI_CANCEL_SCOPE_SHIELD)
            from = cancel_scope->outer; /* the outermost shield hides everything inside of it */
    for (struct ci_cancel_scope *cancel_scope = from; cancel_scope && cancel_scope != cause;
         cancel_scope = cancel_scope->outer)
        if (cancel_scope->kind == CI_CANCEL_SCOPE_TASKS)
            ci_scope_interrupt(ci_container_of(cancel_scope, struct ci_scope, cancel_scope),
                               reason);
}

void ci_runnable_cancel(struct ci_runnable *runnable, int reason)
{
    if (runnable->cancelled)
        return;
    runnable->cancelled = reason;
    update(runnable);
    withdraw_wait(runnable);
    flow_into_scopes(runnable, NULL, reason);
}

/* ---- cancel scopes ---- */

/* Named, and then the program ends: its memory may be another's soon. */
static CI_COLD CI_NORETURN void end_wrong_order(const struct ci_cancel_scope *cancel_scope)
{
    (void)ci_misused(-EINVAL, "a task leaves what it entered last first, and nothing of another's",
                     cancel_scope->kind == CI_CANCEL_SCOPE_TASKS ? "coir_scope_close"
                                                                 : "coir_cancel_scope_leave",
                     NULL);
    ci_check(cancel_scope->runnable->cancel_scopes == cancel_scope, "cancellation.h 1");
    abort();
}

void ci_cancel_scope_leave(struct ci_cancel_scope *cancel_scope)
{
    struct ci_runnable *runnable = cancel_scope->runnable;
    if (!runnable)
        return;
    if (ci_unlikely(runnable->cancel_scopes != cancel_scope))
        end_wrong_order(cancel_scope);
    cancel_scope->runnable = NULL;
    runnable->cancel_scopes = cancel_scope->outer;
    if (ci_unlikely(cancel_scope->expired || cancel_scope->kind == CI_CANCEL_SCOPE_SHIELD))
        update(runnable);
    ci_debug_check(is_up_to_date(runnable), "cancellation.h 2");
}

void ci_cancel_scope_expire(struct ci_cancel_scope *cancel_scope)
{
    struct ci_runnable *runnable = cancel_scope->runnable;
    cancel_scope->expired = true;
    update(runnable);
    withdraw_wait(runnable);
    flow_into_scopes(runnable, cancel_scope, -ETIME);
}

void ci_cancel_scope_renew(struct ci_cancel_scope *cancel_scope)
{
    cancel_scope->expired = false;
    update(cancel_scope->runnable);
}

/* ---- tasks and their scopes ---- */

void ci_task_cancel(struct ci_task *task, int reason)
{
    if (task->cancel)
        task->cancel(task, reason);
    else
        ci_runnable_cancel(&task->runnable, reason);
}

static void cancel_all(struct ci_scope *scope, int reason)
{
    ci_store_relaxed(&scope->cancelled, true);
    ci_list_for_each (node, &scope->tasks)
        ci_task_cancel(ci_container_of(node, struct ci_task, sibling), reason);
}

void ci_scope_interrupt(struct ci_scope *scope, int reason)
{
    if (!scope->interrupt)
        ci_store_relaxed(&scope->interrupt, reason);
    cancel_all(scope, reason);
}

void coir_scope_cancel(coir_scope *scope)
{
    if (ci_forked() || CI_REFUSED(!scope, "scope is NULL"))
        return;
    if (ci_scope_of(scope)->home && !CI_ELSEWHERE(ci_scope_of(scope)->home))
        cancel_all(ci_scope_of(scope), -ECANCELED);
}

void coir_cancel(coir_handle *handle)
{
    if (ci_forked() || CI_REFUSED(!handle, "handle is NULL"))
        return;
    struct ci_task *task = ci_handle_of(handle)->task;
    if (task && !CI_ELSEWHERE(ci_handle_of(handle)->worker))
        ci_task_cancel(task, -ECANCELED);
}

int coir_task_interrupted(void)
{
    const struct ci_worker *worker = ci_worker_current;
    if (!worker || !worker->runnable)
        return 0;
    ci_check(is_up_to_date(worker->runnable), "cancellation.h 2");
    return worker->runnable->interrupt;
}
