/* A connection between requests: a stackless task.
 *
 *    WAITING -- readable --> CALLING (a fiber serves what has come) -- nothing left --> WAITING
 *       `-- idle timeout, drain, error --> closed            `-- close, error --> closed
 */
#include <errno.h>

#include "web/http.h"

enum state { STARTING, WAITING, CALLING };

static coir_future *connection_poll(coir_future *future);

static const coir_future_kind connection_kind = {"http connection", connection_poll, NULL};

static struct coir_loop *loop_of(const struct ci_http_connection *connection)
{
    return &connection->server->http->worker->loop;
}

static coir_future *finish(struct ci_http_connection *connection)
{
    struct ci_http_worker *http = connection->server->http;
    coir_future *caller = connection->future.caller;
    ci_list_remove(&connection->idle);
    ci_wheel_cancel(&loop_of(connection)->wheel, &connection->timer);
    coir_close(connection->stream);
    ci_pool_give(&http->connections, connection);
    ci_drop(&http->live);
    caller->result = 0;
    return caller;
}

static coir_future *await(struct ci_http_connection *connection, enum state state, coir_future *child)
{
    connection->future.state = state;
    child->caller = &connection->future;
    return child;
}

static coir_future *wait_for_request(struct ci_http_connection *connection)
{
    struct coir_loop *loop = loop_of(connection);
    if (connection->server->draining)
        return finish(connection);
    coir_time when = loop->now + connection->server->options->idle_timeout;
    if (ci_timer_started(&connection->timer))
        ci_wheel_move(&loop->wheel, &connection->timer, when);
    else
        ci_loop_start_timer(loop, &connection->timer, when);
    ci_list_push(&connection->server->idle, &connection->idle);
    return await(connection, WAITING, coir_stream_wait_op(&connection->wait, connection->stream, COIR_READ));
}

static coir_future *connection_poll(coir_future *future)
{
    struct ci_http_connection *connection = ci_container_of(future, struct ci_http_connection, future);
    switch ((enum state)future->state) {
    case STARTING: break;
    case WAITING:
        ci_list_remove(&connection->idle);
        if (connection->wait.future.result < 0)
            return finish(connection);
        return await(connection, CALLING, ci_call_init(&connection->call, ci_serve_requests, connection));
    case CALLING:
        if (connection->call.future.result < 0 || !connection->keep || connection->task->strand.cancelled)
            return finish(connection);
        break;
    }
    return wait_for_request(connection);
}

/* The idle timeout, or a time at which it might have been: a request in progress has limits of its own. */
static void on_idle(struct ci_timer *timer)
{
    struct ci_http_connection *connection = ci_container_of(timer, struct ci_http_connection, timer);
    if (connection->future.state == WAITING)
        ci_strand_cancel(&connection->task->strand, -ETIME);
}

int ci_http_connection_start(struct ci_http_server *server, coir_stream *stream)
{
    struct ci_http_worker *http = server->http;
    struct ci_http_connection *connection = ci_pool_take(&http->connections);
    if (!connection)
        return -ENOMEM;
    connection->future = (coir_future){&connection_kind, NULL, 0, STARTING};
    connection->stream = stream;
    connection->server = server;
    connection->keep = false;
    ci_timer_init(&connection->timer, on_idle);
    ci_list_init(&connection->idle);
    int rc = ci_go_future(server->connections, connection_kind.name, &connection->future, &connection->task);
    if (rc < 0) {
        ci_pool_give(&http->connections, connection);
        return rc;
    }
    ci_bump(&http->accepted);
    ci_bump(&http->live);
    return 0;
}
