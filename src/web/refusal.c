/* Clients beyond the limits of a server: see refusal.h. */
#include "web/refusal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "coir/semaphore.h"

/* How many connections of a worker may be told at the same time that there are too many: one for
 * each SHARE of those that are served, and some. More wait in the backlog. */
enum { SHARE = 16, SOME = 8 };

int64_t ci_http_retry_seconds(const coir_serve_http_options *options)
{
    return (options->retry_after + COIR_S - 1) / COIR_S;
}

void ci_http_refusal_init(struct ci_http_refusal *refusal, const coir_serve_http_options *options)
{
    int64_t seconds = ci_http_retry_seconds(options);
    refusal->len = (size_t)snprintf(refusal->text, sizeof refusal->text,
                                    "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n"
                                    "Retry-After: %" PRId64 "\r\nConnection: close\r\n\r\n",
                                    seconds);
}

size_t ci_http_places(const coir_serve_http_options *options)
{
    size_t max = options->connections_max;
    if (max == COIR_UNLIMITED || options->at_limit == COIR_LIMIT_CLOSES)
        return 0;
    return options->at_limit == COIR_LIMIT_ANSWERS ? max + max / SHARE + SOME : max;
}

bool ci_http_is_beyond(const struct ci_http_server *server)
{
    const coir_serve_http_options *options = server->options;
    if (options->at_limit == COIR_LIMIT_WAITS || options->connections_max == COIR_UNLIMITED)
        return false;
    /* the task of its layer, which is about to end, is the new connection's own */
    size_t others = server->refused + (server->here.serving->layer != NULL);
    return coir_scope_live(server->here.connections) >= options->connections_max + others;
}

int ci_http_turn_try(struct ci_http_connection *connection)
{
    ci_check(!connection->has_turn, "web/refusal.h 1");
    int rc = coir_semaphore_try_acquire(&connection->server->turns, 1);
    connection->has_turn = rc == 0;
    return rc;
}

void ci_http_turn_return(struct ci_http_connection *connection)
{
    connection->has_turn = false;
    coir_semaphore_release(&connection->server->turns, 1);
}

void ci_http_count_refused(const struct ci_http_server *server, bool answered)
{
    ci_bump(&server->http->refused);
    if (answered)
        ci_bump(&server->http->errors_sent);
}

/* All of it, or the client takes nothing. */
bool ci_http_refuse(struct ci_http_connection *connection)
{
    const struct ci_http_refusal *refusal = connection->server->refusal;
    bool answers = connection->server->options->at_limit != COIR_LIMIT_CLOSES;
    bool sent = answers && coir_try_write(connection->stream, refusal->text, refusal->len) ==
                               (ssize_t)refusal->len;
    ci_http_count_refused(connection->server, sent);
    return sent;
}
