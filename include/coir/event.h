/* An event: something that has happened, or has not yet. One that is never reset is what others
 * call a baton or a latch. */
#ifndef COIR_EVENT_H
#define COIR_EVENT_H

#include <coir/future.h>
#include <coir/select.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An event, initialised with COIR_EVENT_INIT: not set. It may be used from any worker, and from
 * plain threads by the functions that never suspend; once it is used it stays where it is. Who has
 * seen that it is set, and is the last to wait, may release its memory at once. */
typedef struct coir_event {
    uint64_t opaque[8];
} coir_event;

#define COIR_EVENT_INIT            \
    {                              \
        {                          \
            0, 0, 0, 0, 0, 0, 0, 0 \
        }                          \
    }

/* Waits until an event is set; returns at once if it is.
 * Suspends: yes.  Threads: worker.
 * Errors: none of its own.
 * Cancel safety: nothing is lost. */
COIR_SUSPENDS int coir_event_wait(coir_event *event);
COIR_API coir_future *coir_event_wait_op(coir_wait_op *op, coir_event *event);

/* The setting of an event, as a case of coir_select. As coir_event_wait. */
COIR_API coir_case coir_case_event(coir_event *event);

/* Sets an event and wakes every task that waits for it.
 * Suspends: no.  Threads: any. */
COIR_API void coir_event_set(coir_event *event);

/* Takes an event back: later waits wait until it is set again.
 * Suspends: no.  Threads: any. */
COIR_API void coir_event_reset(coir_event *event);

/* Whether an event is set.
 * Suspends: no.  Threads: any. */
COIR_API bool coir_event_is_set(const coir_event *event);

#ifdef __cplusplus
}
#endif

#endif
