/* Why a runnable should end, and what it is inside of: cancellation, deadlines, shields.
 *
 * 1. A runnable's cancel scopes (deadlines, shields, task scopes) nest; `interrupt` is what they
 * and its cancellation add up to. A call looks at that one word; it is computed when something
 * changes, never when a call is made.
 * 2. From the innermost cancel scope outwards: an expired deadline says -ETIME; a shield hides what
 * is outside of it; beyond the outermost one is the cancellation of the runnable itself. Every
 * suspending call and every spawn says that, first of all.
 * 3. What interrupts a runnable flows into the scopes that it has open inside the cause, but not
 * into those behind a shield.
 */
#include <errno.h>

#include "base/check.h"
#include "coir/deadline.h"
#include "task/task.h"

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

/* The runnable's cancel scopes or its cancellation changed. */
static void update(struct ci_runnable *runnable)
{
    runnable->interrupt = ci_runnable_interrupted_inside(runnable, NULL);
    if (!runnable->interrupt)
        return;
    coir_future *leaf = runnable->inner;
    if (leaf->kind->cancel && leaf->kind->cancel(leaf, runnable->interrupt))
        ci_wake(runnable->task->worker, runnable, leaf);
}

/* Tells the scopes that the runnable has open inside `cause` (NULL: all), as far as no shield is
 * between. */
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
    flow_into_scopes(runnable, NULL, reason);
}

/* ---- cancel scopes ---- */

void ci_cancel_scope_enter(struct ci_cancel_scope *cancel_scope, struct ci_runnable *runnable,
                           enum ci_cancel_scope_kind kind)
{
    *cancel_scope = (struct ci_cancel_scope){runnable ? runnable->cancel_scopes : NULL, runnable,
                                             (uint8_t)kind, false};
    if (!runnable)
        return;
    runnable->cancel_scopes = cancel_scope;
    if (ci_unlikely(runnable->interrupt && kind == CI_CANCEL_SCOPE_SHIELD))
        runnable->interrupt = 0;
}

void ci_cancel_scope_leave(struct ci_cancel_scope *cancel_scope)
{
    struct ci_runnable *runnable = cancel_scope->runnable;
    if (!runnable)
        return;
    ci_check(runnable->cancel_scopes == cancel_scope); /* they nest */
    cancel_scope->runnable = NULL;
    runnable->cancel_scopes = cancel_scope->outer;
    if (ci_unlikely(cancel_scope->expired || cancel_scope->kind == CI_CANCEL_SCOPE_SHIELD))
        runnable->interrupt = ci_runnable_interrupted_inside(runnable, NULL);
}

static struct ci_deadline *deadline_of(coir_cancel_scope *cancel_scope)
{
    return (struct ci_deadline *)(void *)cancel_scope;
}

static void on_deadline(struct ci_timer *timer)
{
    struct ci_deadline *deadline = ci_container_of(timer, struct ci_deadline, timer);
    struct ci_runnable *runnable = deadline->cancel_scope.runnable;
    deadline->cancel_scope.expired = true;
    update(runnable);
    flow_into_scopes(runnable, &deadline->cancel_scope, -ETIME);
}

static struct ci_runnable *running(void)
{
    struct ci_worker *worker = ci_worker_current;
    return worker && worker->fiber ? worker->runnable : NULL;
}

void coir_deadline_enter(coir_cancel_scope *words, coir_time when)
{
    struct ci_deadline *deadline = deadline_of(words);
    struct ci_runnable *runnable = running();
    ci_cancel_scope_enter(&deadline->cancel_scope, runnable, CI_CANCEL_SCOPE_DEADLINE);
    ci_timer_init(&deadline->timer, on_deadline);
    deadline->timer.when = when;
    if (runnable && when != COIR_NEVER)
        coir_deadline_move(words, when);
}

void coir_deadline_move(coir_cancel_scope *words, coir_time when)
{
    if (ci_forked())
        return;
    struct ci_deadline *deadline = deadline_of(words);
    struct ci_runnable *runnable = deadline->cancel_scope.runnable;
    if (!runnable)
        return;
    struct coir_loop *loop = &runnable->task->worker->loop;
    if (deadline->cancel_scope.expired) {
        deadline->cancel_scope.expired = false;
        runnable->interrupt = ci_runnable_interrupted_inside(runnable, NULL);
    }
    if (when <= loop->now) { /* it has passed: no timer is needed to say so */
        ci_wheel_cancel(&loop->wheel, &deadline->timer);
        deadline->timer.when = when;
        on_deadline(&deadline->timer);
    } else if (when == COIR_NEVER) {
        ci_wheel_cancel(&loop->wheel, &deadline->timer);
        deadline->timer.when = when;
    } else if (ci_timer_started(&deadline->timer)) {
        ci_wheel_move(&loop->wheel, &deadline->timer, when);
    } else {
        ci_loop_start_timer(loop, &deadline->timer, when);
    }
}

void coir_shield_enter(coir_cancel_scope *words)
{
    ci_cancel_scope_enter(&deadline_of(words)->cancel_scope, running(), CI_CANCEL_SCOPE_SHIELD);
}

void coir_cancel_scope_leave(coir_cancel_scope *words)
{
    if (ci_forked())
        return;
    struct ci_cancel_scope *cancel_scope = &deadline_of(words)->cancel_scope;
    if (cancel_scope->runnable && cancel_scope->kind == CI_CANCEL_SCOPE_DEADLINE)
        ci_wheel_cancel(&cancel_scope->runnable->task->worker->loop.wheel,
                        &deadline_of(words)->timer);
    ci_cancel_scope_leave(cancel_scope);
}

bool coir_deadline_passed(const coir_cancel_scope *words)
{
    return ((const struct ci_deadline *)(const void *)words)->cancel_scope.expired;
}

coir_time coir_task_deadline(void)
{
    struct ci_runnable *runnable = running();
    coir_time nearest = COIR_NEVER;
    for (struct ci_cancel_scope *cancel_scope = runnable ? runnable->cancel_scopes : NULL;
         cancel_scope && cancel_scope->kind != CI_CANCEL_SCOPE_SHIELD;
         cancel_scope = cancel_scope->outer)
        if (cancel_scope->kind == CI_CANCEL_SCOPE_DEADLINE) {
            coir_time when =
                ci_container_of(cancel_scope, struct ci_deadline, cancel_scope)->timer.when;
            if (when < nearest)
                nearest = when;
        }
    return nearest;
}
