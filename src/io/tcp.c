/* TCP: listening, accepting, connecting, serving. */
#include <errno.h>

#include "base/check.h"
#include "io/io.h"

enum { BACKLOG = 4096 };

/* How long an accept loop waits when the process or the system is out of something. */
static const coir_time accept_pause = 100 * COIR_MS;
/* How long it waits for a place when the worker's table of tasks is full. */
static const coir_time spawn_pause = 5 * COIR_MS;

struct coir_listener {
    coir_fd fd;
    uint32_t serial; /* no other listener of the process has it */
    const coir_allocator *allocator;
};

static uint32_t last_serial;

int coir_tcp_listen(const char *address, const coir_listen_options *options, coir_listener **ret_listener)
{
    struct ci_worker *worker = ci_worker_current;
    if (!worker)
        return ci_no_fiber();
    coir_listen_options chosen = COIR_LISTEN_OPTIONS;
    if (options) {
        if (options->size != sizeof *options)
            return -EINVAL;
        chosen = *options;
    }
    struct ci_driver *driver = worker->loop.driver;
    struct sockaddr_storage where;
    struct ci_listen listen = {
        .address = (struct sockaddr *)&where,
        .backlog = chosen.backlog ? chosen.backlog : BACKLOG,
        .reuse_port = chosen.reuse_port,
        .ipv6_only = chosen.ipv6_only,
    };
    int rc = ci_address_parse(driver, address, &where, &listen.address_len);
    if (rc < 0)
        return rc;
    coir_listener *listener = ci_alloc(&worker->runtime->allocator, sizeof *listener);
    if (!listener)
        return -ENOMEM;
    if ((rc = driver->kind->listen(driver, &listen)) < 0) {
        ci_free(&worker->runtime->allocator, listener, sizeof *listener);
        return rc;
    }
    *listener = (coir_listener){rc, ci_fetch_add_relaxed(&last_serial, 1) + 1, &worker->runtime->allocator};
    *ret_listener = listener;
    return 0;
}

int coir_accept(coir_listener *listener, coir_stream **ret_stream)
{
    int rc = 0;
    struct ci_fiber *fiber = ci_fiber_enter(&rc);
    if (!fiber)
        return rc;
    struct ci_worker *worker = ci_worker_current;
    struct ci_io_op *op = CI_FIBER_OP(fiber, struct ci_io_op);
    op->io = (struct ci_op){.fd = listener->fd, .kind = CI_OP_ACCEPT, .len = listener->serial};
    int fd = ci_io_run(worker, op);
    if (fd < 0)
        return fd;
    if ((rc = ci_socket_stream_new(worker, fd, ret_stream)) < 0)
        ci_driver_close(worker->loop.driver, fd);
    return rc;
}

int coir_listener_local(coir_listener *listener, char *text, size_t size)
{
    struct ci_worker *worker = ci_worker_current;
    if (!worker)
        return ci_no_fiber();
    struct sockaddr_storage address;
    socklen_t len;
    int rc = worker->loop.driver->kind->address(worker->loop.driver, listener->fd, false, &address, &len);
    return rc < 0 ? rc : ci_address_format(&address, text, size);
}

coir_fd ci_listener_fd(const coir_listener *listener)
{
    return listener->fd;
}

void coir_listener_close(coir_listener *listener)
{
    if (!listener)
        return;
    ci_check(ci_worker_current);
    ci_driver_close(ci_worker_current->loop.driver, listener->fd);
    ci_free(listener->allocator, listener, sizeof *listener);
}

int coir_tcp_connect(const char *address, coir_stream **ret_stream)
{
    int rc = 0;
    struct ci_fiber *fiber = ci_fiber_enter(&rc);
    if (!fiber)
        return rc;
    struct ci_worker *worker = ci_worker_current;
    struct ci_driver *driver = worker->loop.driver;
    struct sockaddr_storage where;
    socklen_t len;
    if ((rc = ci_address_parse(driver, address, &where, &len)) < 0)
        return rc;
    int fd = driver->kind->socket(driver, where.ss_family);
    if (fd < 0)
        return fd;
    coir_stream *stream;
    struct ci_io_op *op = CI_FIBER_OP(fiber, struct ci_io_op);
    op->io = (struct ci_op){.fd = fd, .kind = CI_OP_CONNECT, .address = (struct sockaddr *)&where, .count = (int32_t)len};
    if ((rc = ci_io_run(worker, op)) < 0 || (rc = ci_socket_stream_new(worker, fd, &stream)) < 0) {
        ci_driver_close(driver, fd);
        return rc;
    }
    *ret_stream = stream;
    return 0;
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

static int run_connection(void *arg)
{
    struct connection *connection = arg;
    int rc = connection->fn(connection->stream, connection->arg);
    coir_close(connection->stream);
    return rc;
}

static bool out_of_something(int error)
{
    return error == -EMFILE || error == -ENFILE || error == -ENOBUFS || error == -ENOMEM;
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
    struct ci_driver *driver = ci_worker_current->loop.driver;
    driver->kind->forget(driver, service->listener->fd);
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
