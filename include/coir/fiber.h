/* Calls of a fiber about itself: yielding, sleeping, cleaning up, task-locals. A fiber is a task
 * with a stack of its own; once started it never changes threads. errno, the locale and
 * floating-point control words belong to the thread: they are not kept over a suspension. */
#ifndef COIR_FIBER_H
#define COIR_FIBER_H

#include <coir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Lets every other runnable task of the worker run first.
 * Suspends: yes.  Threads: worker.
 * Errors: none of its own.
 * Cancel safety: nothing is lost. */
COIR_SUSPENDS int coir_yield(void);

/* Sleeps until a point in time; never returns 0 before it. A time that has passed yields.
 * Suspends: yes.  Threads: worker.
 * Errors: none of its own.
 * Cancel safety: nothing is lost. */
COIR_SUSPENDS int coir_sleep_until(coir_time when);

/* Sleeps for a duration, measured from the call; never returns 0 earlier. 0 and less yield.
 * Suspends: yes.  Threads: worker.
 * Errors: none of its own.
 * Cancel safety: nothing is lost. */
COIR_SUSPENDS int coir_sleep_for(coir_time duration);

/* Why the calling task should end: -ECANCELED, -ETIME, or 0 if it need not. For loops that compute
 * without suspending.
 * Suspends: no.  Threads: worker.
 * Errors: those that it returns. */
COIR_API int coir_task_interrupted(void);

/* The calling task's name, or NULL where it has none: the one given at spawn, or set since.
 * Suspends: no.  Threads: worker. */
COIR_API const char *coir_task_name(void);

/* Names the calling task, for logs and reports.
 * Suspends: no.  Threads: worker.  Owns: `name` is borrowed while the task lives.
 * Errors: -ESRCH not in a task. */
COIR_API int coir_task_set_name(const char *name);

/* Registers a function to be called when the calling fiber ends, however it ends. Such functions
 * run on the fiber itself, last registered first. `fn` may suspend; it is shielded from
 * cancellation, under the configuration's defer_timeout.
 * Suspends: no.  Threads: worker.  Owns: `arg` is borrowed until then or until disarmed. The
 * fiber's function has returned by then: `arg` must not point into its frames.
 * Errors: -ESRCH not in a fiber; -EINVAL no function; -ENOMEM, nothing is registered. */
COIR_API int coir_defer(void (*fn)(void *arg), void *arg);

/* Takes back the calling fiber's newest registration of `fn(arg)` by coir_defer. Returns false
 * when there is none.
 * Suspends: no.  Threads: worker. */
COIR_API bool coir_defer_disarm(void (*fn)(void *arg), void *arg);

/* Sets a task-local: a value that the calling task, and each child that it spawns from then on,
 * finds by `key`, the address of any static object. It hides an earlier value of the same key, for
 * this task and its later children only.
 * Suspends: no.  Threads: worker.  Owns: `value` is borrowed until the last of these tasks ends.
 * Errors: -ENOMEM; -ESRCH not in a task. */
COIR_API int coir_local_set(const void *key, void *value);

/* The value of a task-local of the calling task, or NULL. In a function of coir_offload it is that
 * of the task that waits for the call, in one of coir_runtime_post that of the task that posted it.
 * Suspends: no.  Threads: any. */
COIR_API void *coir_local_get(const void *key);

#ifdef __cplusplus
}
#endif

#endif
