/* A connection between requests: a stackless task that waits for its stream. When bytes come, it
 * calls ci_serve_requests on a stack, which takes buffers, answers what has come, and gives
 * everything back, but for answers that have not been sent (`out`).
 *
 * 1. A connection that waits for a request owns no buffer and no parser. A part of a head that has
 * come is kept in memory of its size (partial.h).
 * 2. It is in its server's list `idle` while it waits for a request, and only then.
 * 3. It has no task while it rests: when it has waited for a while (task/rest.h). When bytes come,
 * the idle timeout passes or the server drains, it gets one again, or closes if memory is out.
 */
#ifndef CI_WEB_CONNECTION_H
#define CI_WEB_CONNECTION_H

#include "base/time.h"
#include "coir/ws.h"
#include "io/io.h"
#include "sync/wait.h"
#include "web/server.h"

/* How long it waits for a request before it rests. */
#define CI_HTTP_REST_DELAY ((coir_time)1 * COIR_S)

/* The name of a connection's task. */
#define CI_HTTP_CONNECTION_TASK "http connection"

/* What a connection does when its requests have been served. Lingering: the answers are sent, the
 * client is told that there will be no more, and what it sends is discarded until it closes.
 * Upgrade: the stream and the task go over to `socket`, and the record is freed. */
enum ci_http_verdict { CI_HTTP_CLOSE, CI_HTTP_LINGER, CI_HTTP_KEEP, CI_HTTP_UPGRADE };

struct ci_http_connection {
    coir_future future; /* the task's root */
    coir_stream *stream;
    struct ci_http_server *server;
    struct ci_task *task;         /* NULL: it rests */
    struct ci_timer timer;        /* the time limit of what it waits for */
    enum ci_http_verdict verdict; /* what ci_serve_requests decided */
    bool served : 1;              /* the last call of ci_serve_requests answered a request */
    bool called : 1;              /* the client has sent something */
    /* it had an answer shortly before the drain, which the client may be reading still */
    bool served_lately : 1;
    bool has_turn : 1;         /* refusal.h 1 */
    bool rests_next : 1;       /* the timer ends the wait with a task, and it rests then */
    bool refused : 1;          /* it is beyond the limit of connections, and not served */
    uint32_t rests_after : 24; /* with rests_next: CI_HTTP_REST_DELAYs from the idle time's begin */
    struct ci_http_partial *partial; /* what has come of a head that is not complete; or NULL */
    union {
        struct ci_list idle; /* while it waits for a request */
        struct {             /* from the call until its answers are sent */
            char *out;       /* CI_HTTP_BUFFER bytes; NULL: nothing is left to send */
            uint32_t out_at, out_len;
        };
        coir_ws *socket; /* what it is upgraded to */
        struct {         /* while it lingers */
            coir_time linger_end;
            size_t discarded;
        };
    };
    union { /* what it awaits */
        struct ci_io_op io;
        struct ci_wait turn;
        struct ci_call call;
    };
};

/* When the idle time in progress began, if the timer is to end the wait with a task. */
static inline coir_time ci_http_idle_begun(const struct ci_http_connection *connection)
{
    ci_check(connection->rests_next, "connection.h 3");
    return connection->timer.when - connection->rests_after * CI_HTTP_REST_DELAY;
}

/* When the idle time in progress ends: the timer may be set to the rest, before that. */
static inline coir_time ci_http_idle_end(const struct ci_http_connection *connection)
{
    return connection->rests_next ? ci_time_after(ci_http_idle_begun(connection),
                                                  connection->server->options->idle_timeout)
                                  : connection->timer.when;
}

/* Starts a task for an accepted stream of the server that `here` is part of: ci_serving_here.start.
 * 0, or -EAGAIN or -ENOMEM: then the stream is still the caller's. */
int ci_http_connection_start(struct ci_serving_here *here, coir_stream *stream);

/* The server drains, and the connection waits for a request: what has come already is answered,
 * and then it ends. One that has sent nothing yet is given a moment. */
void ci_http_connection_drain(struct ci_http_connection *connection);

#endif
