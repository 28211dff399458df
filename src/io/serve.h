/* A server on every worker: each has an acceptor, and stopping resets no client.
 *
 * 1. When the server is asked to stop, the acceptor of every worker ends first, once. The last one
 * refuses new clients, accepts the connections in the backlog, and closes the listener.
 * 2. While a worker drains, its connections are shielded from the cancel of the server: they end by
 * themselves, or are cancelled when the drain time is over.
 *
 * So every client whose connect succeeded is served, or cancelled when the drain time is over, but
 * never reset, unless there was no place for it under a limit in that time.
 */
#ifndef CI_IO_SERVE_H
#define CI_IO_SERVE_H

#include "io/io.h"

/* What the workers of a server share. */
struct ci_serving {
    coir_listener *listener;
    coir_time drain_timeout;
    coir_layer_fn *layer; /* put over each connection, or NULL */
    void *layer_arg;
    const char *unit;   /* what is in progress, for the log: "request" */
    int32_t accepting;  /* workers whose acceptor has not ended */
    int32_t unreported; /* workers that have not added to `left` */
    uint32_t left;      /* in progress on those that have */
};

struct ci_serving_here;
typedef int ci_serving_start_fn(struct ci_serving_here *here, coir_stream *stream);

/* The part of one worker. The kind of server provides the functions; they run in a fiber of the
 * worker. */
struct ci_serving_here {
    struct ci_serving *serving;
    coir_scope *connections;
    /* accepted when the acceptor was cancelled, and not started yet; or NULL */
    coir_stream *held;
    /* open connections of this worker; at the limit new ones wait in the backlog. 0: no limit */
    size_t connections_max;
    size_t waiting; /* connections whose layer is complete, for whose task there was no room */
    /* starts the task of a connection. After -EAGAIN or -ENOMEM the call is repeated */
    ci_serving_start_fn *start;
    /* has nothing new begin. Returns the number of `unit`s in progress */
    size_t (*drain)(struct ci_serving_here *here);
};

/* Whether the caller is a fiber. A cancelled one may begin too: its server accepts the connections
 * in the backlog before it ends. */
static inline bool ci_serving_may_begin(void)
{
    return ci_worker_current && ci_worker_current->fiber;
}

void ci_serving_init(struct ci_serving *serving, coir_listener *listener, coir_time drain_timeout,
                     const char *unit);

/* Serves on the calling worker until the calling fiber is cancelled, and drains. */
int ci_serve_here(struct ci_serving_here *here);

/* The address of a stream's peer, for a log line: `text`, or a constant if the peer has hung up. */
enum { CI_PEER_MAX = 64 };
const char *ci_peer_text(const coir_stream *stream, char text[CI_PEER_MAX]);

#endif
