/* The latest value of something, with a wait for its changes. Values in between may be missed.
 *
 *   for (uint64_t seen = 0; coir_latest_wait(latest, seen) == 0;) {
 *       seen = coir_latest_get(latest, &config);
 *       ...
 *   } */
#ifndef COIR_LATEST_H
#define COIR_LATEST_H

#include <coir/select.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The latest value of something. It is made by coir_latest_new. */
typedef struct coir_latest coir_latest;

/* Makes an object that holds the latest value: a copy of `size` bytes at `value`, as version 1. It
 * may be used from any worker, and from plain threads by the functions that never suspend.
 * Suspends: no.  Threads: any.  Owns: *ret_latest is the caller's to free.
 * Errors: -ENOMEM. */
COIR_API int coir_latest_new(size_t size, const void *value, coir_latest **ret_latest);

/* Frees what coir_latest_new made. No task or thread may use it or wait for it any more. Takes
 * NULL.
 * Suspends: no.  Threads: any. */
COIR_API void coir_latest_free(coir_latest *latest);

/* Replaces the latest value by a copy of `value`, and wakes every task that waits for a change.
 * Does nothing once it is closed.
 * Suspends: no.  Threads: any. */
COIR_API void coir_latest_set(coir_latest *latest, const void *value);

/* Copies the latest value out, and returns its version.
 * Suspends: no.  Threads: any. */
COIR_API uint64_t coir_latest_get(const coir_latest *latest, void *value);

/* Waits until the latest value's version is another than `version`.
 * Suspends: yes.  Threads: worker.
 * Errors: -EPIPE it is closed, and the version is the last.
 * Cancel safety: nothing is lost. */
COIR_SUSPENDS int coir_latest_wait(coir_latest *latest, uint64_t version);
COIR_API coir_future *coir_latest_wait_op(coir_wait_op *op, coir_latest *latest, uint64_t version);

/* A change of the latest value, as a case of coir_select. As coir_latest_wait. */
COIR_API coir_case coir_case_latest(coir_latest *latest, uint64_t version);

/* Closes it: there will be no more values. Waits for a version later than the last return -EPIPE.
 * Suspends: no.  Threads: any. */
COIR_API void coir_latest_close(coir_latest *latest);

#ifdef __cplusplus
}
#endif

#endif
