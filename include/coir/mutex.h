/* Mutual exclusion between tasks: mutex, shared mutex, condition. They may be used from any worker,
 * and from plain threads by the forms that never suspend, but not from signal handlers. They do not
 * belong to a worker, must not be moved once they are used, and must be free when their memory is
 * released: the last to lock a mutex may do that as soon as it has given it back. All are made by
 * setting them to their _INIT. */
#ifndef COIR_MUTEX_H
#define COIR_MUTEX_H

#include <coir/future.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A mutex, initialised with COIR_MUTEX_INIT or COIR_FAIR_MUTEX_INIT. A running task may take it
 * before a waiting one that was woken runs; that one is then served before all others. A fair mutex
 * goes to the task that has waited longest instead: the waits are even, but it is slower under
 * contention. A task that locks it twice waits for ever. */
typedef struct coir_mutex {
    uint64_t opaque[12];
} coir_mutex;

#define COIR_MUTEX_INIT                        \
    {                                          \
        {                                      \
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
        }                                      \
    }

/* Initialises a fair coir_mutex: it goes to the task that has waited longest. */
#define COIR_FAIR_MUTEX_INIT                   \
    {                                          \
        {                                      \
            0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0 \
        }                                      \
    }

/* Takes a mutex, waiting until it is free.
 * Suspends: yes.  Threads: worker.
 * Errors: none of its own.
 * Cancel safety: an error means that it was not taken. */
COIR_SUSPENDS int coir_mutex_lock(coir_mutex *mutex);
COIR_API coir_future *coir_mutex_lock_op(coir_wait_op *op, coir_mutex *mutex);

/* Takes a mutex if it is free now.
 * Suspends: no.  Threads: any.
 * Errors: -EAGAIN it is locked. */
COIR_API int coir_mutex_try_lock(coir_mutex *mutex);

/* Gives a mutex back. Any task or thread may do that, not only the one that locked it. Giving back
 * a mutex that is free aborts, in every build: what it guards is no longer guarded.
 * Suspends: no.  Threads: any. */
COIR_API void coir_mutex_unlock(coir_mutex *mutex);

/* Names a mutex for dumps and metrics: coir_lock_waits_total and coir_lock_wait_seconds
 * (coir/metrics.h) count the waits for all locks of that name, 31 bytes of which are copied; a task
 * that spins for a few microseconds and then has the mutex has not waited.
 * Taking one that is free costs the same as without.
 * Suspends: no.  Threads: any.
 * Errors: -EINVAL no name, or an empty one; -ENOSPC the process has 64 names of locks. */
COIR_API int coir_mutex_set_name(coir_mutex *mutex, const char *name);

/* A mutex that many may share for reading, initialised with COIR_SHARED_MUTEX_INIT. First come,
 * first served: a writer that waits is not passed by later readers. */
typedef struct coir_shared_mutex {
    uint64_t opaque[10];
} coir_shared_mutex;

#define COIR_SHARED_MUTEX_INIT           \
    {                                    \
        {                                \
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
        }                                \
    }

/* Takes a shared mutex alone, for writing.
 * Suspends: yes.  Threads: worker.
 * Errors: none of its own.
 * Cancel safety: an error means that it was not taken. */
COIR_SUSPENDS int coir_shared_mutex_lock(coir_shared_mutex *mutex);
COIR_API coir_future *coir_shared_mutex_lock_op(coir_wait_op *op, coir_shared_mutex *mutex);

/* Takes a shared mutex together with others that share it, for reading.
 * Suspends: yes.  Threads: worker.
 * Errors: none of its own.
 * Cancel safety: an error means that it was not taken. */
COIR_SUSPENDS int coir_shared_mutex_share(coir_shared_mutex *mutex);
COIR_API coir_future *coir_shared_mutex_share_op(coir_wait_op *op, coir_shared_mutex *mutex);

/* Takes a shared mutex alone if that needs no wait.
 * Suspends: no.  Threads: any.
 * Errors: -EAGAIN it would have to wait. */
COIR_API int coir_shared_mutex_try_lock(coir_shared_mutex *mutex);

/* Takes a shared mutex together with others if that needs no wait.
 * Suspends: no.  Threads: any.
 * Errors: -EAGAIN it would have to wait. */
COIR_API int coir_shared_mutex_try_share(coir_shared_mutex *mutex);

/* Gives a shared mutex back, however it was taken.
 * Suspends: no.  Threads: any. */
COIR_API void coir_shared_mutex_unlock(coir_shared_mutex *mutex);

/* Names a shared mutex for dumps and metrics: coir_lock_waits_total and coir_lock_wait_seconds
 * (coir/metrics.h) count the waits for all locks of that name, 31 bytes of which are copied.
 * Taking one that is free costs the same as without.
 * Suspends: no.  Threads: any.
 * Errors: -EINVAL no name, or an empty one; -ENOSPC the process has 64 names of locks. */
COIR_API int coir_shared_mutex_set_name(coir_shared_mutex *mutex, const char *name);

/* A condition that tasks wait for; a mutex guards the state that it is about. Initialised with
 * COIR_CONDITION_INIT. Its memory may be released when every wait for it has returned: not yet when
 * all were woken, as one of them may be cancelled meanwhile, and look at it. */
typedef struct coir_condition {
    uint64_t opaque[8];
} coir_condition;

#define COIR_CONDITION_INIT        \
    {                              \
        {                          \
            0, 0, 0, 0, 0, 0, 0, 0 \
        }                          \
    }

/* Storage for the future of a wait for a condition. */
typedef struct coir_condition_op {
    coir_future future;
    uint64_t opaque[24];
} coir_condition_op;

/* Gives the mutex back, waits for a signal, and takes the mutex again. It has the mutex also when
 * the result is an error, but -EINVAL. The state that is waited for must be checked again
 * afterwards.
 * Suspends: yes.  Threads: worker.
 * Errors: -EINVAL no task has the mutex, or an argument is NULL.
 * Cancel safety: a signal that came first is not lost; taking the mutex again cannot be
 * cancelled. */
COIR_SUSPENDS int coir_condition_wait(coir_condition *condition, coir_mutex *mutex);
COIR_API coir_future *coir_condition_wait_op(coir_condition_op *op, coir_condition *condition,
                                             coir_mutex *mutex);

/* Wakes one task that waits for a condition.
 * Suspends: no.  Threads: any. */
COIR_API void coir_condition_signal(coir_condition *condition);

/* Wakes every task that waits for a condition.
 * Suspends: no.  Threads: any. */
COIR_API void coir_condition_broadcast(coir_condition *condition);

#ifdef __cplusplus
}
#endif

#endif
