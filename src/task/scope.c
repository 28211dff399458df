/* Task scopes: opened, waited for, closed. Their tasks enter in spawn.c, and leave in task.c.
 *
 * The first error of a scope that does not serve cancels its tasks. A cancelled task that ends with
 * -ECANCELED or -ETIME has done what was requested: that does not count as an error. */
#include "task/scope.h"

#include <errno.h>

#include "base/check.h"
#include "coir/deadline.h"
#include "task/describe.h"
#include "task/log.h"
#include "task/park.h"
#include "task/runtime.h"
#include "task/task.h"

void ci_scope_init(struct ci_scope *scope, struct ci_worker *home, bool serving)
{
    scope->home = home;
    ci_list_init(&scope->tasks);
    scope->live = scope->resting = 0;
    scope->arriving = 0;
    scope->errors = 0;
    scope->error = scope->interrupt = 0;
    scope->serving = serving;
    scope->cancelled = scope->root = false;
    scope->waiter = NULL;
    scope->task_failed = NULL;
}

/* ---- errors ---- */

static CI_COLD void report_error(struct ci_scope *scope, struct ci_task *task, int error)
{
    scope->errors++;
    ci_bump(&scope->home->task_errors);
    if (scope->task_failed)
        scope->task_failed(task, error);
    else
        ci_log(scope->home->runtime, COIR_LOG_DEBUG, "task %s ended with an error: %s (error %u)",
               task->name ? task->name : "without a name", coir_strerror(error),
               ci_error_number(error));
}

void ci_scope_take_error(struct ci_scope *scope, struct ci_task *task, int error)
{
    if ((error == -ECANCELED || error == -ETIME) && (task->runnable.cancelled || scope->cancelled))
        return;
    if (scope->serving) {
        report_error(scope, task, error);
        return;
    }
    if (scope->error)
        return;
    scope->error = error;
    coir_scope_cancel((coir_scope *)(void *)scope);
}

/* ---- opening ---- */

/* Without a worker nothing can be spawned into it. */
static CI_COLD coir_scope *open_outside(struct ci_scope *scope, bool serving)
{
    ci_scope_init(scope, NULL, serving);
    ci_cancel_scope_enter(&scope->cancel_scope, NULL, CI_CANCEL_SCOPE_TASKS);
    return (coir_scope *)(void *)scope;
}

static CI_COLD coir_scope *refuse_open(coir_scope *scope, const char *call, const void *place)
{
    (void)ci_misused(-EINVAL, scope ? "it was opened before, and not closed" : "scope is NULL",
                     call, place);
    return scope;
}

CI_INLINE coir_scope *open_scope(coir_scope *opaque, bool serving, const char *call,
                                 const void *place)
{
    struct ci_worker *worker = ci_worker_current;
    struct ci_scope *scope = ci_scope_of(opaque);
    if (ci_unlikely(!scope))
        return refuse_open(opaque, call, place);
    if (ci_unlikely(!worker || !worker->fiber))
        return open_outside(scope, serving);
    struct ci_runnable *runnable = worker->runnable;
    /* only the innermost is looked at in every build: what lies in its memory is not known */
    if (ci_unlikely(CI_DEBUG ? ci_cancel_scope_is_around(&scope->cancel_scope, runnable)
                             : runnable->cancel_scopes == &scope->cancel_scope))
        return refuse_open(opaque, call, place);
    ci_scope_init(scope, worker, serving);
    scope->opened_at = place;
    ci_cancel_scope_enter(&scope->cancel_scope, runnable, CI_CANCEL_SCOPE_TASKS);
    if (ci_unlikely(
            runnable->interrupt)) { /* as it interrupted the scopes that were open already */
        scope->interrupt = runnable->interrupt;
        scope->cancelled = true;
    }
    return opaque;
}

coir_scope *coir_scope_open(coir_scope *scope)
{
    return open_scope(scope, false, CI_CALL, CI_PLACE);
}

coir_scope *coir_serving_scope_open(coir_scope *scope)
{
    return open_scope(scope, true, CI_CALL, CI_PLACE);
}

/* ---- waiting ---- */

struct scope_op {
    coir_future future;
    struct ci_runnable *runnable;
    struct ci_scope *scope;
};
CI_FIBER_OP_FITS(struct scope_op);

/* An interrupt from outside of the scope is passed on to its tasks, and the wait goes on until they
 * have ended. An interrupt that does not concern them (a deadline inside of the scope, or any if
 * the scope is another fiber's) ends the wait. */
static int scope_cancel(coir_future *future, int reason)
{
    struct scope_op *op = ci_container_of(future, struct scope_op, future);
    (void)reason;
    int error = ci_runnable_interrupted_inside(op->runnable, &op->scope->cancel_scope);
    if (!error)
        return false;
    future->result = error;
    op->scope->waiter = NULL;
    return true;
}

static const struct ci_described_kind scope_kind = CI_DESCRIBED_KIND(
    "the tasks of a scope", NULL, scope_cancel, offsetof(struct scope_op, scope), NULL);

CI_INLINE int result_of(const struct ci_scope *scope)
{
    return scope->error ? scope->error : scope->interrupt;
}

/* A function of its own, as it switches: the others save no registers. */
static CI_NOINLINE int wait_for_tasks(struct ci_worker *worker, struct ci_scope *scope)
{
    struct ci_fiber *fiber = worker->fiber;
    struct scope_op *op = CI_FIBER_OP(fiber, struct scope_op);
    *op = (struct scope_op){
        {&scope_kind.future, &fiber->back, worker->loop.now, 0}, worker->runnable, scope};
    scope->waiter = ci_leaf_suspend_timed(worker, &op->future);
    ci_park_here(worker, fiber);
    /* positive: it was not cancelled, and is still the time of waiter.h 1 */
    return op->future.result < 0 ? (int)op->future.result : result_of(scope);
}

/* Why a wait for the scope cannot begin: an error. */
static CI_COLD int refuse_wait(struct ci_worker *worker, struct ci_scope *scope, const char *call,
                               const void *place)
{
    if (!worker || !worker->fiber)
        return ci_no_fiber_in(call, place);
    if (!scope)
        return ci_misused(-EINVAL, "scope is NULL", call, place);
    if (!scope->home)
        return ci_misused(-EBADF, "the scope is closed, or was not opened in a fiber", call, place);
    return ci_elsewhere(scope->home, call, place);
}

/* Whether the calling task is one of the scope's, which cannot end before the call returns. */
static bool is_inside(const struct ci_scope *scope, const struct ci_worker *worker)
{
    return worker->runnable && worker->runnable->task->scope == scope;
}

CI_INLINE int wait_here(struct ci_worker *worker, struct ci_scope *scope, const char *call,
                        const void *place)
{
    if (!scope->live && !ci_load_relaxed(&scope->arriving)) /* pairs with become_member */
        return result_of(scope);
    if (ci_unlikely(is_inside(scope, worker)))
        return ci_misused(-EDEADLK, "the scope is waited for by one of its own tasks", call, place);
    return wait_for_tasks(worker, scope);
}

/* In an interrupted fiber: what has interrupted it inside of the scope ends the wait at once. */
static CI_COLD int wait_interrupted(struct ci_worker *worker, struct ci_scope *scope,
                                    const char *call, const void *place)
{
    int rc = ci_runnable_interrupted_inside(worker->runnable, &scope->cancel_scope);
    if (rc >= 0)
        return wait_here(worker, scope, call, place);
    ci_spend(worker);
    return rc;
}

int coir_scope_wait(coir_scope *opaque)
{
    struct ci_scope *scope = ci_scope_of(opaque);
    struct ci_worker *worker = ci_worker_current;
    if (ci_unlikely(!worker || !worker->fiber || !scope || scope->home != worker))
        return refuse_wait(worker, scope, CI_CALL, CI_PLACE);
    if (scope->waiter)
        return -EBUSY;
    if (ci_unlikely(worker->runnable->interrupt))
        return wait_interrupted(worker, scope, CI_CALL, CI_PLACE);
    return wait_here(worker, scope, CI_CALL, CI_PLACE);
}

/* Of a scope that is another fiber's, an interrupt of the caller would end the wait. */
static void wait_shielded(struct ci_scope *scope)
{
    COIR_SHIELD;
    coir_scope_wait((coir_scope *)(void *)scope);
}

/* Of a scope that has tasks: cancels and awaits them. */
static CI_NOINLINE void end_tasks(struct ci_scope *scope, const char *call, const void *place)
{
    if (ci_unlikely(scope->waiter)) {
        (void)ci_misused(-EBUSY, "another task is in coir_scope_wait", call, place);
        return;
    }
    if (ci_unlikely(is_inside(scope, ci_worker_current))) {
        (void)ci_misused(-EDEADLK, "the task that opened it closes it, not one of its own", call,
                         place);
        return;
    }
    coir_scope_cancel((coir_scope *)(void *)scope);
    wait_shielded(scope);
    ci_check(!scope->live == ci_list_empty(&scope->tasks), "scope.h 2");
    ci_check(!scope->live && !ci_load_relaxed(&scope->arriving), "scope.h 3");
    scope->home = NULL;
    ci_cancel_scope_leave(&scope->cancel_scope);
}

void coir_scope_close(coir_scope *opaque)
{
    if (ci_forked() || !opaque)
        return;
    struct ci_scope *scope = ci_scope_of(opaque);
    if (!scope->home)
        return;
    if (ci_unlikely(scope->home != ci_worker_current)) {
        (void)ci_misused_elsewhere(scope->home, CI_CALL, CI_PLACE);
        return;
    }
    /* not survived: its memory may be another's soon */
    if (CI_DEBUG && !ci_cancel_scope_is_innermost(&scope->cancel_scope))
        (void)CI_MISUSE(-EINVAL, "what was opened or entered last is closed first");
    if (scope->live || ci_load_relaxed(&scope->arriving)) {
        end_tasks(scope, CI_CALL, CI_PLACE);
        return;
    }
    scope->home = NULL;
    ci_cancel_scope_leave(&scope->cancel_scope);
}

size_t coir_scope_live(const coir_scope *scope)
{
    const struct ci_scope *own = (const struct ci_scope *)(const void *)scope;
    if (CI_REFUSED(!scope, "scope is NULL"))
        return 0;
    return own->live + (size_t)ci_load_relaxed(&own->arriving);
}

uint64_t coir_scope_errors(const coir_scope *scope)
{
    return CI_REFUSED(!scope, "scope is NULL")
               ? 0
               : ((const struct ci_scope *)(const void *)scope)->errors;
}
