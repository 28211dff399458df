/* A server on every worker: what accepts, and how it ends without cutting anybody off.
 *
 * 1. Asked to stop, every worker's acceptor ends first. The last one to end refuses new clients,
 * takes what the backlog holds, and closes the listener. Every connection that was accepted, by a
 * client's reckoning too, is served or cancelled by the drain time, never reset.
 * 2. Connections are behind a shield; they end by themselves, or are cancelled when the drain time
 * is over.
 */
#ifndef CI_IO_SERVE_H
#define CI_IO_SERVE_H

#include "io/io.h"

/* What the workers of a server share. */
struct ci_serving {
    coir_listener *listener;
    coir_time drain_timeout;
    const char *unit;   /* what is in progress, for the log: "request" */
    int32_t accepting;  /* workers whose acceptor has not ended */
    int32_t unreported; /* workers that have not said what they have in progress */
    uint32_t left;      /* in progress on those that have */
};

/* A worker's part. */
struct ci_serving_here {
    struct ci_serving *serving;
    coir_scope *connections;
    /* accepted as the acceptor was cancelled, and not admitted yet */
    coir_stream *held;
    /* how many this worker may have open; past it, they wait in the backlog. 0: any number */
    size_t connections_max;
    /* a connection; after -EAGAIN or -ENOMEM it is asked again */
    int (*start)(struct ci_serving_here *here, coir_stream *stream);
    /* nothing new is to begin: how much is in progress */
    size_t (*drain)(struct ci_serving_here *here);
};

/* Servers run in fibers. One that is cancelled before it begins still takes what its listener's
 * backlog holds, so this does not ask whether the fiber is cancelled. */
static inline bool ci_serving_may_begin(void)
{
    return ci_worker_current && ci_worker_current->fiber;
}

void ci_serving_init(struct ci_serving *serving, coir_listener *listener, coir_time drain_timeout,
                     const char *unit);

/* Serves on the calling worker until cancelled, and drains. */
int ci_serve_here(struct ci_serving_here *here);

#endif
