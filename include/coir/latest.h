/* The latest value of something, for all who want to know when it changes. Values in between may be
 * missed.
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

typedef struct coir_latest coir_latest;

/* Makes one that holds a copy of `value`, as version 1. May be used from any worker, and from plain
 * threads by the forms that never suspend.
 * Suspends: no.  Threads: any.  Owns: *ret_latest is the caller's to free; nobody may wait for it
 * then.
 * Errors: -ENOMEM. */
COIR_API int coir_latest_new(size_t size, const void *value, coir_latest **ret_latest);
COIR_API void coir_latest_free(coir_latest *latest);

/* Replaces the value by a copy of `value`.
 * Suspends: no.  Threads: any. */
COIR_API void coir_latest_set(coir_latest *latest, const void *value);

/* Copies the value out, and returns its version.
 * Suspends: no.  Threads: any. */
COIR_API uint64_t coir_latest_get(const coir_latest *latest, void *value);

/* Waits until the version is another than `version`.
 * Suspends: yes.  Threads: worker.
 * Errors: -EPIPE it is closed, and the version is the last.
 * Cancel safety: nothing is lost. */
COIR_SUSPENDS int coir_latest_wait(coir_latest *latest, uint64_t version);
COIR_API coir_future *coir_latest_wait_op(coir_wait_op *op, coir_latest *latest, uint64_t version);
COIR_API coir_case coir_case_latest(coir_latest *latest, uint64_t version);

/* There will be no more values.
 * Suspends: no.  Threads: any. */
COIR_API void coir_latest_close(coir_latest *latest);

#ifdef __cplusplus
}
#endif

#endif
