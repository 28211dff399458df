/* Cancellation of runnables, and the cancel scopes they are inside of.
 *
 * 1. The cancel scopes of a runnable (deadlines, shields, task scopes) nest.
 * 2. `interrupt` is what they and the runnable's own cancellation add up to: from the innermost
 * cancel scope outwards, a deadline that has passed means -ETIME; a shield hides what is outside of
 * it; beyond the outermost one counts the cancellation of the runnable itself. It is computed when
 * one of these changes, never when a call is made: every suspending call and every spawn looks at
 * that one word, first of all.
 *
 * What interrupts a runnable flows into the task scopes that it has open inside of the cause, but
 * not into those behind a shield. */
#ifndef CI_TASK_CANCELLATION_H
#define CI_TASK_CANCELLATION_H

#include "base/check.h"
#include "task/runnable.h"

struct ci_scope;

enum ci_cancel_scope_kind {
    CI_CANCEL_SCOPE_OUTSIDE = 1, /* of a fiber */
    CI_CANCEL_SCOPE_DEADLINE,
    CI_CANCEL_SCOPE_SHIELD,
    CI_CANCEL_SCOPE_TASKS /* of a struct ci_scope */
};

struct ci_cancel_scope {
    struct ci_cancel_scope *outer;
    struct ci_runnable *runnable; /* NULL: left, or entered outside of a fiber: does nothing */
    uint8_t kind;
    bool expired; /* a deadline that has passed */
};

/* The interrupt of a runnable, counting only what is inside of its cancel scope `outer`. NULL, or a
 * cancel scope of another runnable: counting everything. */
int ci_runnable_interrupted_inside(const struct ci_runnable *runnable,
                                   const struct ci_cancel_scope *outer);

/* NULL for the runnable: outside of a fiber. Inline, as each
 * task scope enters one. */
static inline void ci_cancel_scope_enter(struct ci_cancel_scope *cancel_scope,
                                         struct ci_runnable *runnable,
                                         enum ci_cancel_scope_kind kind)
{
    *cancel_scope =
        (struct ci_cancel_scope){runnable ? runnable->cancel_scopes : NULL, runnable,
                                 (uint8_t)(runnable ? kind : CI_CANCEL_SCOPE_OUTSIDE), false};
    if (!runnable)
        return;
    ci_debug_check(runnable->interrupt == ci_runnable_interrupted_inside(runnable, NULL),
                   "cancellation.h 2");
    runnable->cancel_scopes = cancel_scope;
    if (ci_unlikely(runnable->interrupt && kind == CI_CANCEL_SCOPE_SHIELD))
        runnable->interrupt = 0;
}

void ci_cancel_scope_leave(struct ci_cancel_scope *cancel_scope);

/* Whether the runnable (NULL: none) is inside of the cancel scope. */
static inline bool ci_cancel_scope_is_around(const struct ci_cancel_scope *cancel_scope,
                                             const struct ci_runnable *runnable)
{
    const struct ci_cancel_scope *at = runnable ? runnable->cancel_scopes : NULL;
    while (at && at != cancel_scope)
        at = at->outer;
    return at;
}

/* Whether it was left before, or never entered. */
static inline bool ci_cancel_scope_is_left(const struct ci_cancel_scope *cancel_scope)
{
    return !cancel_scope->runnable && cancel_scope->kind != CI_CANCEL_SCOPE_OUTSIDE;
}

/* Whether it may be left: it is the innermost, or was entered outside of a fiber. */
static inline bool ci_cancel_scope_is_innermost(const struct ci_cancel_scope *cancel_scope)
{
    return !cancel_scope->runnable || cancel_scope->runnable->cancel_scopes == cancel_scope;
}

/* A deadline has passed: interrupts what is inside of it. */
void ci_cancel_scope_expire(struct ci_cancel_scope *cancel_scope);

/* The program moved a deadline that had passed: it no longer interrupts what is inside of it. */
void ci_cancel_scope_renew(struct ci_cancel_scope *cancel_scope);

/* Cancels a runnable of the calling worker: its suspending calls return `reason` from now on, and
 * what it waits for is withdrawn. */
void ci_runnable_cancel(struct ci_runnable *runnable, int reason);

/* Requests the cancellation of a task; on the worker that spawned it, or on the home of its
 * scope. */
void ci_task_cancel(struct ci_task *task, int reason);

/* Cancels every task of a scope because the scope's opener was interrupted: `reason` is -ECANCELED
 * or -ETIME. */
void ci_scope_interrupt(struct ci_scope *scope, int reason);

/* The nearest deadline that a runnable is inside of, or COIR_NEVER (deadline.c). */
coir_time ci_runnable_deadline(const struct ci_runnable *runnable);
/* That of the scope itself; or COIR_NEVER. */
coir_time ci_cancel_scope_deadline(const struct ci_cancel_scope *cancel_scope);

#endif
