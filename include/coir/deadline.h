/* Cancel scopes: deadlines and shields. Each holds from where it is declared to the end of the C
 * block around it.
 *
 *   {
 *       COIR_DEADLINE(coir_in(500 * COIR_MS));
 *       n = coir_read(conn, buf, sizeof buf);      -ETIME once the deadline has passed
 *   }
 *
 * A deadline is inherited by everything called inside of its cancel scope, and by the tasks of
 * task scopes opened inside of it; leaving the cancel scope ends it. Inside of a shield neither
 * cancellation nor outer deadlines are seen; they are seen again after it was left.
 *
 * One rule: once a cancel scope's deadline has passed, every suspending call (COIR_SUSPENDS) and
 * every spawn inside of it returns -ETIME, until it is left. Elsewhere in a task that was cancelled
 * they return -ECANCELED, until the task ends. A call in progress is withdrawn and returns the
 * error at once; one that cannot be withdrawn, such as a file's, returns its own result, and the
 * next call returns -ETIME.
 *
 * Whose deadline was it? A call may also hand on an -ETIME or -ECANCELED that is not the caller's:
 * the result of a task that was joined, of a function that was called, or of a peer that exceeded
 * a time limit of its protocol. To tell them apart:
 *
 *   coir_deadline_passed(cancel_scope)  true: this deadline has passed, its work was too slow
 *   coir_task_interrupted()             not 0: an outer cancel scope, or the opener of the task's
 *                                       scope, was interrupted: return that error;
 *                                       0: the call was not interrupted, and what it was made on
 *                                       failed with this error */
#ifndef COIR_DEADLINE_H
#define COIR_DEADLINE_H

#include <coir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A cancel scope: what a deadline or a shield holds for. COIR_DEADLINE and COIR_SHIELD declare it;
 * it lies in its user's frame. */
typedef struct coir_cancel_scope {
    uint64_t opaque[16];
} coir_cancel_scope;

/* Declares a deadline that holds to the end of the C block: a statement of its own. */
#define COIR_DEADLINE(when) COIR_DEADLINE_IN_(COIR_CONCAT(coir_deadline_, __LINE__), when)
#define COIR_DEADLINE_IN_(name, when)                             \
    coir_cancel_scope name COIR_CLEANUP(coir_cancel_scope_leave); \
    coir_deadline_enter(&name, when)

/* Declares a deadline with a name: `name` is a pointer to its cancel scope, for
 * coir_deadline_passed and coir_deadline_move. */
#define COIR_DEADLINE_AS(name, when)                                        \
    coir_cancel_scope name##_storage COIR_CLEANUP(coir_cancel_scope_leave); \
    coir_cancel_scope *name = (coir_deadline_enter(&name##_storage, when), &name##_storage)

/* Declares a shield that holds to the end of the C block: a statement of its own. */
#define COIR_SHIELD COIR_SHIELD_IN_(COIR_CONCAT(coir_shield_, __LINE__))
#define COIR_SHIELD_IN_(name)                                     \
    coir_cancel_scope name COIR_CLEANUP(coir_cancel_scope_leave); \
    coir_shield_enter(&name)

/* Enters a cancel scope with a deadline: what COIR_DEADLINE calls. Cancel scopes nest: what was
 * entered last is left first, by coir_cancel_scope_leave. Outside of a fiber it does nothing.
 * Suspends: no.  Threads: any. */
COIR_API void coir_deadline_enter(coir_cancel_scope *cancel_scope, coir_time when);

/* Enters a shield: what COIR_SHIELD calls. Until it is left, neither cancellation nor deadlines of
 * cancel scopes around it are seen. Outside of a fiber it does nothing.
 * Suspends: no.  Threads: any. */
COIR_API void coir_shield_enter(coir_cancel_scope *cancel_scope);

/* Leaves the innermost cancel scope, a deadline or a shield. Leaving another one than the
 * innermost is misuse that ends the program; leaving one twice is misuse without effect. What was
 * entered outside of a fiber is left without effect.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_cancel_scope_leave(coir_cancel_scope *cancel_scope);

/* Moves a deadline, also one that has passed: calls inside of its cancel scope succeed again then.
 * What it has interrupted stays so: a task scope that was open inside of it when the deadline
 * passed, or was opened after that, has asked its tasks to end, and refuses spawns with -ETIME.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_deadline_move(coir_cancel_scope *cancel_scope, coir_time when);

/* Whether the cancel scope's own deadline has passed, as far as the calls inside were told. Also
 * after it was left, if its storage is still there; false for a shield.
 * Suspends: no.  Threads: owner. */
COIR_API bool coir_deadline_passed(const coir_cancel_scope *cancel_scope);

/* The nearest deadline that the calling task is under in cancel scopes of its own. COIR_NEVER
 * where there is none, and outside of a task.
 * Suspends: no.  Threads: worker. */
COIR_API coir_time coir_task_deadline(void);

#ifdef __cplusplus
}
#endif

#endif
