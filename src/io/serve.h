/* A server on every worker: an acceptor each, and an end that resets no client.
 *
 * 1. Asked to stop, every worker's acceptor ends first. The last one to end refuses new clients,
 * accepts what is in the backlog, and closes the listener. Every client whose connect succeeded is
 * served, or cancelled by the drain time, but never reset.
 * 2. While a worker drains, its connections are behind a shield: they end by themselves, or are
 * cancelled when the drain time is over.
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
    int32_t unreported; /* workers that have not added to `left` */
    uint32_t left;      /* in progress on those that have */
};

/* A worker's part of it. The functions are the server's; they run in a fiber of the worker. */
struct ci_serving_here {
    struct ci_serving *serving;
    coir_scope *connections;
    /* accepted when the acceptor was cancelled, and not started yet; or NULL */
    coir_stream *held;
    /* how many this worker may have open; past it, they wait in the backlog. 0: any number */
    size_t connections_max;
    /* starts a connection. After -EAGAIN or -ENOMEM the call is repeated */
    int (*start)(struct ci_serving_here *here, coir_stream *stream);
    /* lets nothing new begin. Returns how much is in progress */
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

/* Serves on the calling worker until the calling fiber is cancelled, and drains. */
int ci_serve_here(struct ci_serving_here *here);

/* The address of a stream's peer for a log line; it may be in `text`. */
enum { CI_PEER_MAX = 64 };
const char *ci_peer_text(const coir_stream *stream, char text[CI_PEER_MAX]);

#endif
