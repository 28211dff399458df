/* Serving: acceptors, connections, the graceful end (serve.h); and coir_serve_tcp, the server of
 * raw connections. */
#include "io/serve.h"

#include <errno.h>

#include "base/check.h"
#include "coir/deadline.h"
#include "coir/fiber.h"
#include "io/listener.h"
#include "task/log.h"
#include "task/spawn.h"

/* How long it pauses, before it checks again, when the worker has no room for one more connection:
 * in its table of tasks, or under connections_max. New connections queue in the backlog
 * meanwhile. */
static const coir_time room_pause = 5 * COIR_MS;
/* How long handshakes have to complete that had begun when new clients were first refused: several
 * round trips of a local network. */
static const coir_time handshake_time = 5 * COIR_MS;
/* Shorter than HTTP's: whether anything is in progress on a raw stream is not known, so connections
 * that are idle use up the whole time. */
static const coir_time drain_default = 1 * COIR_S;

/* ---- accepting ---- */

static bool is_full(const struct ci_serving_here *here)
{
    return here->connections_max && coir_scope_live(here->connections) >= here->connections_max;
}

/* Waits until the worker may have one more connection; new clients go to other workers in that
 * time. */
static int wait_for_room(struct ci_serving_here *here)
{
    if (ci_likely(!is_full(here)))
        return 0;
    ci_listener_forget(here->serving->listener); /* so that new clients wake the other workers */
    int rc = 0;
    while (rc == 0 && is_full(here))
        rc = coir_sleep_for(room_pause);
    return rc;
}

/* A connection on its way to being served: the layer's part of it. */
struct layering {
    struct ci_serving_here *here;
    coir_stream *transport;
};

/* Starts a connection whose layer is complete. While there is no room for its task it waits, as a
 * task, for another connection to end; if all of them wait like that, none would end, and this one
 * is given up. */
static int admit_layered(struct ci_serving_here *here, coir_stream *stream)
{
    int rc;
    here->waiting++;
    while ((rc = here->start(here, stream)) == -EAGAIN || rc == -ENOMEM)
        if (coir_scope_live(here->connections) <= here->waiting ||
            (rc = coir_sleep_for(room_pause)) < 0)
            break;
    here->waiting--;
    return rc;
}

static CI_COLD void report_no_room(const struct ci_serving_here *here, int error)
{
    if (ci_listener_may_report(here->serving->listener))
        ci_log(coir_runtime_current(), COIR_LOG_WARNING,
               "closing a new connection: no room for its task: %s; raise tasks_max, or limit the "
               "connections",
               coir_strerror(error));
}

/* Its errors are the client's affair: a log line for each would let clients fill the disk. */
static int put_layer(void *arg)
{
    const struct layering *layering = arg;
    struct ci_serving_here *here = layering->here;
    coir_stream *stream;
    int rc = here->serving->layer(layering->transport, &stream, here->serving->layer_arg);
    if (rc < 0) {
        ci_log(coir_runtime_current(), COIR_LOG_DEBUG, "a connection is not served: %s",
               coir_strerror(rc));
        coir_close(layering->transport);
        return 0;
    }
    rc = admit_layered(here, stream);
    if (rc == -EAGAIN || rc == -ENOMEM) {
        ci_fetch_add_relaxed(&here->serving->listener->refused, 1);
        report_no_room(here, rc);
    }
    if (rc < 0)
        coir_close(stream);
    return 0;
}

static int start_layer(struct ci_serving_here *here, coir_stream *stream)
{
    struct layering layering = {here, stream};
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = "layer";
    options.copy_size = sizeof layering;
    return coir_go_with(here->connections, &options, put_layer, &layering);
}

/* Starts a connection, or its layer; waits while there is no room for its task. On an error the
 * stream is the caller's. */
static int begin(struct ci_serving_here *here, coir_stream *stream)
{
    ci_serving_start_fn *start = here->serving->layer ? start_layer : here->start;
    int rc;
    while ((rc = start(here, stream)) == -EAGAIN || rc == -ENOMEM)
        if ((rc = coir_sleep_for(room_pause)) < 0)
            break;
    return rc;
}

/* The acceptor of a worker. A stream that it could not start because it was cancelled is held for
 * stop_accepting. */
static int accept_loop(void *arg)
{
    struct ci_serving_here *here = arg;
    coir_stream *stream;
    int rc = 0;
    while (rc == 0) {
        if ((rc = wait_for_room(here)) == 0 &&
            (rc = coir_accept(here->serving->listener, &stream)) == 0 &&
            (rc = begin(here, stream)) < 0)
            here->held = stream;
    }
    return rc;
}

/* ---- the end ---- */

/* 0 to retry, at once or after a pause; else the error to end with. */
static int after_error(coir_listener *listener, int error, uint32_t *refused)
{
    switch (ci_accept_judge(listener, error, refused)) {
    case CI_ACCEPT_AGAIN: return 0;
    case CI_ACCEPT_LATER: return coir_sleep_for(ci_accept_pause);
    case CI_ACCEPT_FAILED: break;
    }
    return error;
}

/* Accepts what has connected, without waiting for more. What is beyond a limit is accepted when
 * other connections have ended. */
static int take_backlog(struct ci_serving_here *here)
{
    coir_stream *stream;
    uint32_t refused = 0;
    int rc = 0;
    while (rc == 0) {
        rc = ci_accept_now(here->serving->listener, !is_full(here), &stream);
        if (rc == -EAGAIN)
            return 0;
        if (rc == -EBUSY)
            rc = coir_sleep_for(room_pause);
        else if (rc < 0)
            rc = after_error(here->serving->listener, rc, &refused);
        else if ((rc = begin(here, stream)) < 0)
            coir_close(stream);
    }
    return rc;
}

/* After the calling worker's acceptor has ended. The last worker to come here refuses new clients,
 * takes what is in the backlog, and closes the listener. */
static void stop_accepting(struct ci_serving_here *here)
{
    coir_listener *listener = here->serving->listener;
    ci_check(coir_task_interrupted() != -ECANCELED, "serve.h 2");
    if (here->held && begin(here, here->held) < 0)
        coir_close(here->held);
    ci_listener_forget(listener);
    int32_t accepting = ci_fetch_sub(&here->serving->accepting, 1);
    ci_check(accepting > 0, "serve.h 1");
    if (accepting > 1)
        return;
    ci_listener_refuse(listener);
    if (take_backlog(here) == 0 && coir_sleep_for(handshake_time) == 0)
        take_backlog(here);
    ci_listener_stop(listener, ci_worker_current->loop.driver);
}

/* The last worker to come here logs what is in progress on all of them. */
static void report(struct ci_serving *serving, size_t in_progress)
{
    ci_fetch_add(&serving->left, (uint32_t)in_progress);
    if (ci_fetch_sub(&serving->unreported, 1) > 1)
        return;
    uint32_t left = ci_load(&serving->left);
    ci_log(coir_runtime_current(), COIR_LOG_INFO, "stopping, %u %s%s left", left, serving->unit,
           left == 1 ? "" : "s");
}

void ci_serving_init(struct ci_serving *serving, coir_listener *listener, coir_time drain_timeout,
                     const char *unit)
{
    int workers = ci_worker_current->runtime->worker_count;
    *serving = (struct ci_serving){
        .listener = listener,
        .drain_timeout = drain_timeout,
        .unit = unit,
        .accepting = workers,
        .unreported = workers,
    };
}

int ci_serve_here(struct ci_serving_here *here)
{
    COIR_SCOPE(accepting);
    COIR_SHIELD;
    coir_cancel_scope limit COIR_CLEANUP(coir_cancel_scope_leave);
    coir_deadline_enter(&limit, COIR_NEVER);
    COIR_SERVING_SCOPE(connections);
    here->connections = connections;
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = "accept";
    int rc = coir_go_with(accepting, &options, accept_loop, here);
    if (rc == 0)
        rc = coir_scope_wait(accepting);
    coir_deadline_move(&limit, coir_in(here->serving->drain_timeout));
    report(here->serving, here->drain(here));
    stop_accepting(here);
    coir_scope_wait(connections);
    return rc;
}

const char *ci_peer_text(const coir_stream *stream, char text[CI_PEER_MAX])
{
    return coir_stream_peer(stream, text, CI_PEER_MAX) < 0 ? "a peer that is gone" : text;
}

/* ---- raw connections ---- */

struct service {
    struct ci_serving serving;
    coir_connection_fn *fn;
    void *arg;
};

struct service_here {
    struct ci_serving_here here;
    const struct service *service;
};

struct connection {
    coir_stream *stream;
    coir_connection_fn *fn;
    void *arg;
};
_Static_assert(sizeof(struct connection) <= COIR_COPY_MAX, "copied at spawn");

static CI_COLD void warn(coir_stream *stream, int rc)
{
    char text[CI_PEER_MAX];
    const char *name = coir_task_name(), *peer = ci_peer_text(stream, text);
    if (rc > 0)
        ci_warn(ci_worker_current,
                "connection from %s: its function returned %d; return 0 or a negative error (task "
                "%s)",
                peer, rc, name);
    else
        ci_warn(ci_worker_current, "connection from %s ended with an error: %s (error %u, task %s)",
                peer, coir_strerror(rc), ci_error_number(rc), name);
}

/* The task of a raw connection: the stream is closed when the program's function has returned. */
static int run_connection(void *arg)
{
    struct connection *connection = arg;
    int rc = connection->fn(connection->stream, connection->arg);
    if (ci_unlikely(rc != 0) && rc != coir_task_interrupted())
        warn(connection->stream, rc); /* not of a cancelled task, whose error is expected */
    coir_close(connection->stream);
    return rc < 0 ? rc : 0;
}

static int start_connection(struct ci_serving_here *here, coir_stream *stream)
{
    const struct service *service = ci_container_of(here, struct service_here, here)->service;
    struct connection connection = {stream, service->fn, service->arg};
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = "connection";
    options.copy_size = sizeof connection;
    return coir_go_with(here->connections, &options, run_connection, &connection);
}

static size_t drain(struct ci_serving_here *here)
{
    return coir_scope_live(here->connections);
}

static int serve_here(void *arg)
{
    struct service *service = arg;
    struct service_here here = {
        {.serving = &service->serving, .start = start_connection, .drain = drain}, service};
    return ci_serve_here(&here.here);
}

static int serve(coir_listener *listener, const coir_serve_tcp_options *options,
                 coir_connection_fn *fn, void *arg)
{
    struct service service = {.fn = fn, .arg = arg};
    ci_serving_init(&service.serving, listener,
                    options->drain_timeout ? options->drain_timeout : drain_default, "connection");
    service.serving.layer = options->layer;
    service.serving.layer_arg = options->layer_arg;
    COIR_SCOPE(workers);
    int rc = ci_go_on_every_worker(workers, "server", serve_here, &service);
    if (rc < 0)
        return rc;
    return coir_scope_wait(workers);
}

static int serve_with(const coir_serve_tcp_options *given, coir_connection_fn *fn, void *arg)
{
    coir_serve_tcp_options options = COIR_SERVE_TCP_OPTIONS;
    int rc = ci_options_read(&options, sizeof options, given);
    if (rc == 0 && (!options.address == !options.listener || options.drain_timeout < 0))
        rc = -EINVAL;
    if (rc < 0)
        return rc;
    coir_listener *listener = options.listener;
    if (!listener && (rc = coir_tcp_listen(options.address, &listener)) < 0)
        return rc;
    rc = serve(listener, &options, fn, arg);
    if (!options.listener)
        coir_listener_close(listener);
    return rc;
}

int coir_serve_tcp(const char *address, coir_connection_fn *fn, void *arg)
{
    if (!ci_serving_may_begin())
        return ci_no_fiber();
    if (!address || !fn)
        return CI_MISUSE(-EINVAL, "address or fn is NULL");
    coir_serve_tcp_options options = COIR_SERVE_TCP_OPTIONS;
    options.address = address;
    return serve_with(&options, fn, arg);
}

int coir_serve_tcp_with(const coir_serve_tcp_options *options, coir_connection_fn *fn, void *arg)
{
    if (!ci_serving_may_begin())
        return ci_no_fiber();
    return fn ? serve_with(options, fn, arg) : CI_MISUSE(-EINVAL, "fn is NULL");
}
