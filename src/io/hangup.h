/* Has a fiber cancelled when the peer of a stream goes away while the fiber awaits something else.
 *
 * 1. While a watch is started, its operation is the driver's (driver.h 1): ci_hangup_stop returns
 * only when the driver has given it back, so the record may lie on the fiber's stack.
 */
#ifndef CI_IO_HANGUP_H
#define CI_IO_HANGUP_H

#include "io/io.h"

struct ci_hangup {
    coir_stream *stream;
    struct ci_runnable *runnable; /* what is cancelled */
    bool started;
    bool end_cancels;    /* a half-close of the peer's cancels too */
    struct ci_op op;     /* in flight while started */
    coir_future stopped; /* what the fiber awaits while the driver completes `op` */
};

/* A watch that is not started: on behalf of the runnable, whose fiber must be on `stream`'s worker.
 */
static inline void ci_hangup_init(struct ci_hangup *hangup, coir_stream *stream,
                                  struct ci_runnable *runnable)
{
    hangup->stream = stream;
    hangup->runnable = runnable;
    hangup->started = hangup->end_cancels = false;
}

/* Starts the watch unless it is started: before its fiber parks. A peer that has gone already
 * cancels the runnable at once. */
void ci_hangup_start(struct ci_hangup *hangup);

/* Changes end_cancels, also while the watch is started. */
void ci_hangup_set_end_cancels(struct ci_hangup *hangup, bool cancels);

/* Takes a started watch back. Only in the fiber; suspends until the driver has completed the
 * operation, and cannot be cancelled. */
void ci_hangup_take_back(struct ci_hangup *hangup);

static inline void ci_hangup_stop(struct ci_hangup *hangup)
{
    if (ci_unlikely(hangup->started))
        ci_hangup_take_back(hangup);
}

#endif
