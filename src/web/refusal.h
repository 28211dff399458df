/* What meets clients beyond the limits of a server, by its at_limit: their requests wait for a
 * turn, are answered by 503 without a stack or a buffer, or their connections are closed.
 *
 * 1. A connection has a turn from before its request is served until its answers have been sent.
 * There are requests_max turns.
 */
#ifndef CI_WEB_REFUSAL_H
#define CI_WEB_REFUSAL_H

#include "web/connection.h"

/* The answer to clients that are refused. Made once, for all workers. */
struct ci_http_refusal {
    size_t len;
    char text[160];
};

/* retry_after in whole seconds. */
int64_t ci_http_retry_seconds(const coir_serve_http_options *options);

void ci_http_refusal_init(struct ci_http_refusal *refusal, const coir_serve_http_options *options);

/* How many connections of a worker the acceptor may have open: also those that are to be told that
 * there are too many. 0: any number. */
size_t ci_http_places(const coir_serve_http_options *options);

/* Whether a new connection is one too many, and is not to wait. */
bool ci_http_is_beyond(const struct ci_http_server *server);

/* Of a server that has a limit. */
int ci_http_turn_try(struct ci_http_connection *connection);
void ci_http_turn_return(struct ci_http_connection *connection);

/* Takes a turn: 0; -EAGAIN there is none. */
static inline int ci_http_turn_take(struct ci_http_connection *connection)
{
    bool any = connection->server->options->requests_max == COIR_UNLIMITED;
    return ci_likely(any) ? 0 : ci_http_turn_try(connection);
}

/* Gives the turn back, if the connection has one. */
static inline void ci_http_turn_give(struct ci_http_connection *connection)
{
    if (ci_unlikely(connection->has_turn))
        ci_http_turn_return(connection);
}

/* Sends the answer to a client that is refused. False: it cannot be sent, or is not to be. */
bool ci_http_refuse(struct ci_http_connection *connection);

/* Counts a client that is refused. */
void ci_http_count_refused(const struct ci_http_server *server, bool answered);

#endif
