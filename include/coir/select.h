/* Select: one wait for several things of different kinds, of which exactly one happens.
 *
 *   coir_case waits[] = {coir_case_stream(conn, COIR_READ), coir_case_recv(news, &message),
 * coir_case_after(30 * COIR_S)}; switch (coir_select(waits, 3)) { case 0: ...  the stream is
 * readable (nothing was read) case 1: ...  `message` was received, or the channel is closed:
 * waits[1].result case 2: ...  30 s have passed default: ... a negative error: nothing happened
 *   }
 *
 * Cases are made by the functions coir_case_*(), each in the header of what it waits for. */
#ifndef COIR_SELECT_H
#define COIR_SELECT_H

#include <coir/future.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coir_case {
    coir_future *(*make)(const struct coir_case *self, void *place);
    void *object;
    void *data;
    int64_t number;
    int64_t result; /* of the case that happened */
    uint64_t opaque[4];
} coir_case;

/* Waits until one of the cases can happen, and lets that one happen: its index. Where several can,
 * coir_select begins at a different one each time, and coir_select_in_order takes the first.
 * Nothing is taken from a case that did not happen. Select from a frame is coir_any_op over the
 * same operations. More than 8 cases cost an allocation.
 * Suspends: yes.  Threads: worker.
 * Errors: -EINVAL no cases; -ENOMEM.
 * Cancel safety: an error means that no case happened. */
COIR_SUSPENDS int coir_select(coir_case *cases, size_t count);
COIR_SUSPENDS int coir_select_in_order(coir_case *cases, size_t count);

/* Time as a case: a duration from the select on, or a point in time.
 * Suspends: no.  Threads: any. */
COIR_API coir_case coir_case_after(coir_time duration);
COIR_API coir_case coir_case_at(coir_time when);

/* The end of a task: its result is the case's.
 * Suspends: no.  Threads: worker. */
COIR_API coir_case coir_case_join(coir_handle *handle);

#ifdef __cplusplus
}
#endif

#endif
