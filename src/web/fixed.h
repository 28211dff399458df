/* A server in fixed memory: everything that a worker needs to serve within the limits of the
 * options is allocated before it accepts, with all of its pages.
 *
 * 1. Each turn (refusal.h) has two buffers, a stack, and an arena of arena_max bytes. Each place
 * for a connection has the record of a connection, a stream and a task. The driver has memory for
 * the operations on all of their descriptors.
 *
 * Each WebSocket connection has a stack, an input buffer, and what ws_reserve.c says. Where
 * there are FastCGI clients, each turn has three buffers more, and each of their connections a
 * stream.
 *
 * A part of a head lies in memory of head_max bytes, of which there are requests_max. Without one,
 * the fiber waits for the rest of the head, and keeps its turn.
 */
#ifndef CI_WEB_FIXED_H
#define CI_WEB_FIXED_H

#include "base/pool.h"
#include "coir/web.h"

struct ci_http_server;

struct ci_http_fixed {
    bool on;
    struct ci_pool arenas, partials;
};

/* On the server's worker, before it serves. 0; -ENOMEM; or why memory cannot be locked. */
int ci_http_fixed_init(struct ci_http_server *server);

void ci_http_fixed_done(struct ci_http_server *server);

#endif
