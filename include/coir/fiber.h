/* What a fiber does about itself: yield, sleep, clean up, remember. A fiber is a task with a stack
 * of its own; once started it never changes threads. errno, the locale and floating-point control
 * words belong to the thread: they are not kept over a suspension. */
#ifndef COIR_FIBER_H
#define COIR_FIBER_H

#include <coir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Lets every other runnable task of the worker go first.
 * Suspends: yes.  Threads: worker.
 * Cancel safety: nothing is lost. */
COIR_SUSPENDS int coir_yield(void);

/* Sleeps; never returns 0 before the time. A time that has passed yields.
 * Suspends: yes.  Threads: worker.
 * Cancel safety: nothing is lost. */
COIR_SUSPENDS int coir_sleep_until(coir_time when);
COIR_SUSPENDS int coir_sleep_for(coir_time duration);

/* 0, or why the calling task should end: -ECANCELED or -ETIME. For loops that compute without
 * suspending.
 * Suspends: no.  Threads: worker. */
COIR_API int coir_task_interrupted(void);

/* The calling task's name: as given at spawn, or set here (borrowed while the task lives). NULL
 * without one.
 * Suspends: no.  Threads: worker. */
COIR_API const char *coir_task_name(void);
COIR_API int coir_task_set_name(const char *name);

/* Registers `fn(arg)` to run when the calling fiber ends, however it ends: last in, first out, on
 * the fiber itself. It may suspend; it is shielded from cancellation, under the configuration's
 * defer_timeout.
 * Suspends: no.  Threads: worker.  Owns: `arg` is borrowed until then or until disarmed. The
 * fiber's function has returned by then: `arg` must not point into its frames.
 * Errors: -ESRCH not in a fiber; -EINVAL no function; -ENOMEM, nothing is registered. */
COIR_API int coir_defer(void (*fn)(void *arg), void *arg);

/* Takes back the calling fiber's newest registration of `fn(arg)`. False: there is none.
 * Suspends: no.  Threads: worker. */
COIR_API bool coir_defer_disarm(void (*fn)(void *arg), void *arg);

/* Task-locals: values that follow a task into the children it spawns from then on. A key is any
 * static object's address. Setting hides an earlier value for this task and its later children
 * only. The values are borrowed.
 * Suspends: no.  Threads: worker.
 * Errors: -ENOMEM; -ESRCH. */
COIR_API int coir_local_set(const void *key, void *value);
COIR_API void *coir_local_get(const void *key);

#ifdef __cplusplus
}
#endif

#endif
