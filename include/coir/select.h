/* Select: one wait for several things of different kinds, of which exactly one happens.
 *
 *   coir_case waits[] = {coir_case_stream(conn, COIR_READ),
 *                        coir_case_recv(news, &message),
 *                        coir_case_after(30 * COIR_S)};
 *   switch (coir_select(waits, 3)) {
 *   case 0: ...   the stream is readable; nothing was read
 *   case 1: ...   `message` was received, or the channel is closed: waits[1].result says which
 *   case 2: ...   30 s have passed
 *   default: ...  a negative error: nothing happened
 *   }
 *
 * Cases are made by functions called coir_case_NOUN, each in the header of what it waits for. */
#ifndef COIR_SELECT_H
#define COIR_SELECT_H

#include <coir/future.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One of the things that a select waits for. Functions called coir_case_NOUN make it; a program
 * reads only `result`. */
typedef struct coir_case {
    coir_future *(*make)(const struct coir_case *self, void *place); /* coir's */
    void *object;                                                    /* coir's */
    void *data;                                                      /* coir's */
    int64_t number;                                                  /* coir's */
    int64_t result; /* of the case that happened: what the call would have returned */
    bool (*try_now)(struct coir_case *self); /* coir's */
    uint64_t opaque[3];
} coir_case;

/* Waits until one of several cases can happen, lets that one happen, and returns its index. Where
 * several can, it begins at a different one each time. Nothing is taken from a case that did not
 * happen. A frame uses coir_any_op over the same operations instead. More than 8 cases cost an
 * allocation.
 * Suspends: yes.  Threads: worker.
 * Errors: -EINVAL no cases, or one that no coir_case_ function made; -ENOMEM.
 * Cancel safety: an error means that no case happened. */
COIR_SUSPENDS int coir_select(coir_case *cases, size_t count);

/* Waits as coir_select does; where several cases can happen, the first in the array does. As
 * coir_select. */
COIR_SUSPENDS int coir_select_in_order(coir_case *cases, size_t count);

/* A duration from the select on, as a case of coir_select. As coir_sleep_for. */
COIR_API coir_case coir_case_after(coir_time duration);

/* A point in time, as a case of coir_select. As coir_sleep_until. */
COIR_API coir_case coir_case_at(coir_time when);

/* The end of a task, as a case of coir_select. As coir_join. */
COIR_API coir_case coir_case_join(coir_handle *handle);

#ifdef __cplusplus
}
#endif

#endif
