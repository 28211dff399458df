/* Threads, mutexes and conditions. With ci_pause (sys/lock.h) this is all that the library uses of
 * the system's threads. */
#ifndef CI_SYS_THREAD_H
#define CI_SYS_THREAD_H

#include "base/sanitizer.h"
#include "coir/base.h"
#include "sys/thread_types.h"

/* Starts a thread with all signals blocked: the program's own threads handle them. Not those that
 * an instruction raises: the kernel ends a process by a blocked one, and calls no handler. 0 or
 * -errno. */
int ci_thread_start(struct ci_thread *thread, void *(*fn)(void *arg), void *arg);
void ci_thread_join(struct ci_thread *thread);
void ci_thread_detach(struct ci_thread *thread); /* instead of joining it */

/* An address that is the calling thread's alone while it lives. */
const char *ci_thread_mark(void);

/* What a sanitizer knows about the calling thread's own stack, on which the caller runs. */
void ci_thread_adopt_stack(struct ci_stack_view *view);

void ci_mutex_init(struct ci_mutex *mutex);
void ci_mutex_done(struct ci_mutex *mutex);
void ci_mutex_lock(struct ci_mutex *mutex);
void ci_mutex_unlock(struct ci_mutex *mutex);

void ci_condition_init(struct ci_condition *condition);
void ci_condition_done(struct ci_condition *condition);
void ci_condition_signal(struct ci_condition *condition);
void ci_condition_broadcast(struct ci_condition *condition);

/* Waits until `deadline` of CLOCK_MONOTONIC at most (COIR_NEVER: without end): 0, also for no
 * reason, or -ETIMEDOUT. */
int ci_condition_wait(struct ci_condition *condition, struct ci_mutex *mutex, coir_time deadline);

#endif
