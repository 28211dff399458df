/* A watch of a stream: cancels a fiber when the peer of the stream hangs up while the fiber awaits
 * something else.
 *
 * 1. While a watch is started, its operation is in flight (driver.h 1). ci_hangup_stop returns only
 * when it is not, so the record may lie on the fiber's stack.
 */
#ifndef CI_IO_HANGUP_H
#define CI_IO_HANGUP_H

#include "io/io.h"

struct ci_hangup {
    coir_stream *stream;
    struct ci_runnable *runnable; /* the one that is cancelled on a hang-up */
    bool started;
    bool end_cancels;    /* the peer's half-close cancels too */
    struct ci_op op;     /* in flight while started */
    coir_future stopped; /* what the fiber awaits while the driver completes `op` */
};

/* A watch that is not started. The fiber of `runnable` must be on the worker of `stream`. */
static inline void ci_hangup_init(struct ci_hangup *hangup, coir_stream *stream,
                                  struct ci_runnable *runnable)
{
    hangup->stream = stream;
    hangup->runnable = runnable;
    hangup->started = hangup->end_cancels = false;
}

/* Starts the watch unless it is started. To be called before the fiber parks. If the peer has hung
 * up already, the runnable is cancelled at once. */
void ci_hangup_start(struct ci_hangup *hangup);

/* Changes end_cancels, also while the watch is started. */
void ci_hangup_set_end_cancels(struct ci_hangup *hangup, bool cancels);

/* Stops a watch that is started. Only in the fiber; suspends until the driver has completed the
 * operation, and cannot be cancelled. */
void ci_hangup_take_back(struct ci_hangup *hangup);

static inline void ci_hangup_stop(struct ci_hangup *hangup)
{
    if (ci_unlikely(hangup->started))
        ci_hangup_take_back(hangup);
}

#endif
