/* Deadlines and shields: the cancel scopes that a program enters by itself. */
#include "coir/deadline.h"

#include "base/options.h"
#include "sys/fork.h"
#include "task/cancellation.h"
#include "task/current.h"
#include "task/task.h"
#include "task/worker.h"

struct deadline {
    struct ci_cancel_scope cancel_scope;
    struct ci_timer timer; /* `when` is COIR_NEVER without a limit */
};
CI_LEAVES_SPARE_WORDS(struct deadline, coir_cancel_scope);

/* A shield lies in the same storage, and has no timer. */
static struct deadline *deadline_of(coir_cancel_scope *opaque)
{
    return (struct deadline *)(void *)opaque;
}

static void on_deadline(struct ci_timer *timer)
{
    ci_cancel_scope_expire(&ci_container_of(timer, struct deadline, timer)->cancel_scope);
}

#define ENTERED_TWICE "it was entered before, and not left"

static struct ci_runnable *running(void)
{
    struct ci_worker *worker = ci_worker_current;
    return worker && worker->fiber ? worker->runnable : NULL;
}

void coir_deadline_enter(coir_cancel_scope *opaque, coir_time when)
{
    struct deadline *deadline = deadline_of(opaque);
    struct ci_runnable *runnable = running();
    if (CI_REFUSED(!opaque, "cancel_scope is NULL") ||
        CI_REFUSED(ci_cancel_scope_is_around(&deadline->cancel_scope, runnable), ENTERED_TWICE))
        return;
    ci_cancel_scope_enter(&deadline->cancel_scope, runnable, CI_CANCEL_SCOPE_DEADLINE);
    ci_timer_init(&deadline->timer, on_deadline);
    deadline->timer.when = when;
    if (runnable && when != COIR_NEVER)
        coir_deadline_move(opaque, when);
}

void coir_deadline_move(coir_cancel_scope *opaque, coir_time when)
{
    if (ci_forked() || CI_REFUSED(!opaque, "cancel_scope is NULL"))
        return;
    struct deadline *deadline = deadline_of(opaque);
    struct ci_runnable *runnable = deadline->cancel_scope.runnable;
    if (!runnable || CI_ELSEWHERE(runnable->task->worker))
        return;
    struct coir_loop *loop = &runnable->task->worker->loop;
    if (deadline->cancel_scope.expired)
        ci_cancel_scope_renew(&deadline->cancel_scope);
    if (when <= loop->now) { /* it has passed already: no timer is needed */
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

void coir_shield_enter(coir_cancel_scope *opaque)
{
    struct deadline *deadline = deadline_of(opaque);
    struct ci_runnable *runnable = running();
    if (CI_REFUSED(!opaque, "cancel_scope is NULL") ||
        CI_REFUSED(ci_cancel_scope_is_around(&deadline->cancel_scope, runnable), ENTERED_TWICE))
        return;
    ci_cancel_scope_enter(&deadline->cancel_scope, runnable, CI_CANCEL_SCOPE_SHIELD);
}

void coir_cancel_scope_leave(coir_cancel_scope *opaque)
{
    if (ci_forked() || CI_REFUSED(!opaque, "cancel_scope is NULL"))
        return;
    struct ci_cancel_scope *cancel_scope = &deadline_of(opaque)->cancel_scope;
    if (CI_REFUSED(ci_cancel_scope_is_left(cancel_scope), "it was left before"))
        return;
    if (cancel_scope->runnable && CI_ELSEWHERE(cancel_scope->runnable->task->worker))
        return;
    /* not survived: its memory may be another's soon */
    (void)CI_REFUSED(!ci_cancel_scope_is_innermost(cancel_scope),
                     "what was entered last is left first");
    if (cancel_scope->runnable && cancel_scope->kind == CI_CANCEL_SCOPE_DEADLINE)
        ci_wheel_cancel(&cancel_scope->runnable->task->worker->loop.wheel,
                        &deadline_of(opaque)->timer);
    ci_cancel_scope_leave(cancel_scope);
}

bool coir_deadline_passed(const coir_cancel_scope *opaque)
{
    return !CI_REFUSED(!opaque, "cancel_scope is NULL") &&
           ((const struct deadline *)(const void *)opaque)->cancel_scope.expired;
}

coir_time ci_cancel_scope_deadline(const struct ci_cancel_scope *cancel_scope)
{
    return cancel_scope->kind == CI_CANCEL_SCOPE_DEADLINE
               ? ci_container_of(cancel_scope, const struct deadline, cancel_scope)->timer.when
               : COIR_NEVER;
}

coir_time ci_runnable_deadline(const struct ci_runnable *runnable)
{
    coir_time nearest = COIR_NEVER;
    for (const struct ci_cancel_scope *cancel_scope = runnable->cancel_scopes;
         cancel_scope && cancel_scope->kind != CI_CANCEL_SCOPE_SHIELD;
         cancel_scope = cancel_scope->outer) {
        coir_time when = ci_cancel_scope_deadline(cancel_scope);
        if (when < nearest)
            nearest = when;
    }
    return nearest;
}

coir_time coir_task_deadline(void)
{
    const struct ci_worker *worker = ci_worker_current;
    return worker && worker->runnable ? ci_runnable_deadline(worker->runnable) : COIR_NEVER;
}
