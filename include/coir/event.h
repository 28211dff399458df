/* An event: something that has happened, or not yet. Never reset it is what others call a baton or
 * a latch. */
#ifndef COIR_EVENT_H
#define COIR_EVENT_H

#include <coir/future.h>
#include <coir/select.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Set to COIR_EVENT_INIT. May be used from any worker, and from plain threads by the forms that
 * never suspend; it stays where it is once it is used. */
typedef struct coir_event {
    uint64_t opaque[8];
} coir_event;

#define COIR_EVENT_INIT            \
    {                              \
        {                          \
            0, 0, 0, 0, 0, 0, 0, 0 \
        }                          \
    }

/* Waits until it is set.
 * Suspends: yes.  Threads: worker.
 * Cancel safety: nothing is lost. */
COIR_SUSPENDS int coir_event_wait(coir_event *event);
COIR_API coir_future *coir_event_wait_op(coir_wait_op *op, coir_event *event);
COIR_API coir_case coir_case_event(coir_event *event);

/* Sets it and wakes all who wait; takes it back; looks.
 * Suspends: no.  Threads: any. */
COIR_API void coir_event_set(coir_event *event);
COIR_API void coir_event_reset(coir_event *event);
COIR_API bool coir_event_is_set(const coir_event *event);

#ifdef __cplusplus
}
#endif

#endif
