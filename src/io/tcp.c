/* TCP: connecting, serving. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "io/io.h"

/* How long an accept loop waits when the process or the system is out of something. */
static const coir_time accept_pause = 100 * COIR_MS;
/* How long it waits for a place when the worker's table of tasks is full. */
static const coir_time spawn_pause = 5 * COIR_MS;

struct connect_op {
    coir_future future;
    struct ci_io_op io;
    coir_stream **ret_stream;
    const char *name;
    coir_fd fd;
    struct sockaddr_storage address;
};
_Static_assert(sizeof(struct connect_op) <= sizeof(coir_open_op), "coir_open_op is too small");

/* ---- connecting ---- */

static coir_future *connect_poll(coir_future *future)
{
    struct connect_op *self = ci_container_of(future, struct connect_op, future);
    struct ci_worker *worker = ci_worker_current;
    struct ci_driver *driver = worker->loop.driver;
    COIR_BEGIN(future);
    struct ci_op io = {.kind = CI_OP_CONNECT, .address = (struct sockaddr *)&self->address};
    socklen_t len;
    int rc = ci_address_parse(driver, self->name, &self->address, &len);
    if (rc < 0)
        COIR_RETURN(future, rc);
    if ((self->fd = driver->kind->socket(driver, self->address.ss_family)) < 0)
        COIR_RETURN(future, self->fd);
    io.fd = self->fd;
    io.count = (int32_t)len;
    COIR_AWAIT(future, ci_io_init(&self->io, NULL, &io));
    if (self->io.future.result < 0) {
        ci_driver_close(driver, self->fd);
        COIR_RETURN(future, self->io.future.result);
    }
    if ((rc = ci_socket_stream_new(worker, self->fd, self->ret_stream)) < 0)
        ci_driver_close(driver, self->fd);
    COIR_RETURN(future, rc);
}

static const coir_future_kind connect_kind = {"a connection to be made", connect_poll, NULL};

coir_future *coir_tcp_connect_op(coir_open_op *words, const char *address, coir_stream **ret_stream)
{
    struct connect_op *op = (struct connect_op *)(void *)words;
    op->name = address;
    op->ret_stream = ret_stream;
    return coir_future_init(&op->future, &connect_kind);
}

int coir_tcp_connect(const char *address, coir_stream **ret_stream)
{
    coir_open_op op;
    return ci_await_in_fiber(coir_tcp_connect_op(&op, address, ret_stream));
}

/* ---- serving ---- */

struct service {
    coir_listener *listener;
    coir_connection_fn *fn;
    void *arg;
};

struct connection {
    coir_stream *stream;
    coir_connection_fn *fn;
    void *arg;
};
_Static_assert(sizeof(struct connection) <= COIR_COPY_MAX, "copied at spawn");

static CI_COLD void report(coir_stream *stream, int rc)
{
    char peer[64];
    const char *name = coir_name();
    if (coir_stream_peer(stream, peer, sizeof peer) < 0)
        strcpy(peer, "a peer that is gone");
    if (rc > 0)
        ci_warn(ci_worker_current, "connection from %s: its function returned %d, where 0 or a negative error has a meaning (task %s)",
                peer, rc, name);
    else
        ci_warn(ci_worker_current, "connection from %s ended with an error: %s (task %s)", peer, coir_strerror(rc), name);
}

static int run_connection(void *arg)
{
    struct connection *connection = arg;
    int rc = connection->fn(connection->stream, connection->arg);
    if (ci_unlikely(rc != 0) && rc != coir_interrupted())
        report(connection->stream, rc); /* the error of a cancelled task was asked for */
    coir_close(connection->stream);
    return rc;
}

/* ENOSPC: of epoll_ctl, past fs.epoll.max_user_watches. */
static bool out_of_something(int error)
{
    return error == -EMFILE || error == -ENFILE || error == -ENOBUFS || error == -ENOMEM || error == -ENOSPC;
}

/* Errors of a connection that was gone before it was accepted: accept(2) says to go on. */
static bool not_ours(int error)
{
    return error == -ECONNABORTED || error == -EPROTO || error == -EPERM || error == -ENETDOWN || error == -ENOPROTOOPT ||
           error == -EHOSTDOWN || error == -EHOSTUNREACH || error == -EOPNOTSUPP || error == -ENETUNREACH || error == -ENONET;
}

int ci_accept_patiently(coir_listener *listener, coir_stream **ret_stream)
{
    for (bool reported = false;;) {
        int rc = coir_accept(listener, ret_stream);
        if (out_of_something(rc)) {
            if (!reported)
                ci_log(coir_runtime_current(), COIR_LOG_WARNING, "cannot accept: %s; waiting for it to get better", coir_strerror(rc));
            reported = true;
            rc = coir_sleep_for(accept_pause);
            if (rc < 0)
                return rc;
        } else if (!not_ours(rc)) {
            return rc;
        }
    }
}

/* Waits for a place where the table of tasks is full: the backlog is the queue. */
static int go_patiently(coir_scope *scope, const coir_go_options *options, void *arg)
{
    int rc;
    while ((rc = coir_go_with(scope, options, run_connection, arg)) == -EAGAIN || rc == -ENOMEM)
        if ((rc = coir_sleep_for(spawn_pause)) < 0)
            break;
    return rc;
}

static int accept_loop(void *arg)
{
    const struct service *service = arg;
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = "connection";
    options.copy_size = sizeof(struct connection);
    int rc;
    {
        COIR_SERVING_SCOPE(connections);
        struct connection connection = {NULL, service->fn, service->arg};
        while ((rc = ci_accept_patiently(service->listener, &connection.stream)) == 0)
            if ((rc = go_patiently(connections, &options, &connection)) < 0) {
                coir_close(connection.stream);
                break;
            }
    }
    ci_listener_forget(service->listener);
    return rc;
}

int coir_serve(coir_listener *listener, coir_connection_fn *fn, void *arg)
{
    struct ci_worker *worker = ci_worker_current;
    if (!worker || !worker->fiber)
        return ci_no_fiber();
    struct service service = {listener, fn, arg};
    COIR_SCOPE(acceptors);
    int rc = ci_go_on_every_worker(acceptors, "accept", accept_loop, &service);
    if (rc < 0)
        return rc;
    return coir_scope_wait(acceptors);
}

int coir_serve_tcp(const char *address, coir_connection_fn *fn, void *arg)
{
    coir_listener *listener;
    int rc = coir_tcp_listen(address, NULL, &listener);
    if (rc < 0)
        return rc;
    rc = coir_serve(listener, fn, arg);
    coir_listener_close(listener);
    return rc;
}
