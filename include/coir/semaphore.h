/* A semaphore: a number of units that tasks take and give back. */
#ifndef COIR_SEMAPHORE_H
#define COIR_SEMAPHORE_H

#include <coir/future.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A semaphore, initialised with COIR_SEMAPHORE_INIT(units). It may be used from any worker, and
 * from plain threads by the functions that never suspend; once it is used it stays where it is. */
typedef struct coir_semaphore {
    uint64_t opaque[10];
} coir_semaphore;

#define COIR_SEMAPHORE_INIT(units)             \
    {                                          \
        {                                      \
            0, (units), 0, 0, 0, 0, 0, 0, 0, 0 \
        }                                      \
    }

/* Takes units of a semaphore, `amount` at once, waiting until they are there. First come, first
 * served: a large request is not passed by small ones.
 * Suspends: yes.  Threads: worker.
 * Errors: none of its own.
 * Cancel safety: an error means that nothing was taken. */
COIR_SUSPENDS int coir_semaphore_acquire(coir_semaphore *semaphore, uint64_t amount);
COIR_API coir_future *coir_semaphore_acquire_op(coir_wait_op *op, coir_semaphore *semaphore,
                                                uint64_t amount);

/* Takes units of a semaphore if they are there now.
 * Suspends: no.  Threads: any.
 * Errors: -EAGAIN there are not as many, or others wait. */
COIR_API int coir_semaphore_try_acquire(coir_semaphore *semaphore, uint64_t amount);

/* Adds units to a semaphore: those that were taken, or new ones.
 * Suspends: no.  Threads: any.
 * Errors: -EOVERFLOW they would be more than UINT64_MAX: none is added. */
COIR_API int coir_semaphore_release(coir_semaphore *semaphore, uint64_t amount);

/* How many units a semaphore has now.
 * Suspends: no.  Threads: any. */
COIR_API uint64_t coir_semaphore_units(const coir_semaphore *semaphore);

/* Names a semaphore for dumps and metrics: coir_lock_waits_total and coir_lock_wait_seconds
 * (coir/metrics.h) count the waits for all locks of that name, 31 bytes of which are copied.
 * Taking one that is free costs the same as without.
 * Suspends: no.  Threads: any.
 * Errors: -EINVAL no name, or an empty one; -ENOSPC the process has 64 names of locks. */
COIR_API int coir_semaphore_set_name(coir_semaphore *semaphore, const char *name);

#ifdef __cplusplus
}
#endif

#endif
