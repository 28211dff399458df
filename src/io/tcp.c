/* TCP: listening, accepting, connecting, serving. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "io/io.h"
#include "sys/lock.h"

enum { BACKLOG = 4096 };

/* How long an accept loop waits when the process or the system is out of something. */
static const coir_time accept_pause = 100 * COIR_MS;
/* How long it waits for a place when the worker's table of tasks is full. */
static const coir_time spawn_pause = 5 * COIR_MS;

/* A connection that was accepted for a select that another case decided is `spare`: the next accept's, on any worker. */
struct coir_listener {
    coir_fd fd;
    uint32_t serial; /* no other listener of the process has it */
    const coir_allocator *allocator;
    struct ci_lock lock; /* guards what follows */
    coir_fd *spare;
    size_t spare_count, spare_room;
};

static uint32_t last_serial;

/* Says what to do about it, too. */
static CI_COLD int cannot_listen(const coir_runtime *runtime, const char *address, int error)
{
    const char *remedy = "";
    switch (error) {
    case -EADDRINUSE: remedy = "; stop that one, or choose another port"; break;
    case -EACCES: remedy = "; ports below 1024 need privileges, choose another one"; break;
    case -EADDRNOTAVAIL: remedy = "; 0.0.0.0 and [::] mean every address that it has"; break;
    case -COIR_EADDRESS: remedy = "; write it like 127.0.0.1:8080 or [::1]:8080"; break;
    default: break;
    }
    ci_log(runtime, COIR_LOG_ERROR, "cannot listen on \"%s\": %s%s", address, coir_strerror(error), remedy);
    return error;
}

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
        return cannot_listen(worker->runtime, address, rc);
    coir_listener *listener = ci_alloc(&worker->runtime->allocator, sizeof *listener);
    if (!listener)
        return -ENOMEM;
    if ((rc = driver->kind->listen(driver, &listen)) < 0) {
        ci_free(&worker->runtime->allocator, listener, sizeof *listener);
        return cannot_listen(worker->runtime, address, rc);
    }
    *listener = (coir_listener){.fd = rc, .serial = ci_fetch_add_relaxed(&last_serial, 1) + 1, .allocator = &worker->runtime->allocator};
    *ret_listener = listener;
    return 0;
}

/* ---- accepting ---- */

struct open_op {
    coir_future future;
    struct ci_io_op io;
    coir_listener *listener;
    coir_stream **ret_stream;
    const char *name;
    coir_fd fd;
    struct sockaddr_storage address; /* last: a connect's alone */
};
_Static_assert(sizeof(struct open_op) <= sizeof(coir_open_op), "coir_open_op is too small");
_Static_assert(offsetof(struct open_op, address) <= CI_FIBER_OP_WORDS * sizeof(uint64_t), "an accept, which needs no address, is a case");

/* A spare connection, or -EAGAIN. */
static coir_fd take_spare(coir_listener *listener)
{
    if (ci_likely(ci_load_relaxed(&listener->spare_count) == 0))
        return -EAGAIN;
    ci_lock_take(&listener->lock);
    coir_fd fd = listener->spare_count ? listener->spare[listener->spare_count - 1] : -EAGAIN;
    if (fd >= 0)
        ci_store_relaxed(&listener->spare_count, listener->spare_count - 1);
    ci_lock_give(&listener->lock);
    return fd;
}

static void keep_spare(coir_listener *listener, struct ci_driver *driver, coir_fd fd)
{
    ci_lock_take(&listener->lock);
    int rc = ci_grow(listener->allocator, (void **)&listener->spare, &listener->spare_room, sizeof(coir_fd), listener->spare_count + 1);
    if (rc == 0) {
        listener->spare[listener->spare_count] = fd;
        ci_store_relaxed(&listener->spare_count, listener->spare_count + 1);
    }
    ci_lock_give(&listener->lock);
    if (rc < 0)
        ci_driver_close(driver, fd);
}

static int make_stream(struct ci_worker *worker, coir_fd fd, coir_stream **ret_stream)
{
    int rc = ci_socket_stream_new(worker, fd, ret_stream);
    if (rc < 0)
        ci_driver_close(worker->loop.driver, fd);
    return rc;
}

static coir_future *accept_poll(coir_future *future)
{
    struct open_op *self = ci_container_of(future, struct open_op, future);
    struct ci_worker *worker = ci_worker_current;
    COIR_BEGIN(future);
    if ((self->fd = take_spare(self->listener)) < 0) {
        struct ci_op io = {.fd = self->listener->fd, .kind = CI_OP_ACCEPT, .len = self->listener->serial};
        COIR_AWAIT(future, ci_io_init(&self->io, NULL, &io));
        self->fd = self->io.future.result;
    }
    if (self->fd < 0)
        COIR_RETURN(future, self->fd);
    if (!ci_claim(worker->strand, future)) {
        keep_spare(self->listener, worker->loop.driver, self->fd);
        COIR_RETURN(future, -ECANCELED);
    }
    COIR_RETURN(future, make_stream(worker, self->fd, self->ret_stream));
}

static const coir_future_kind accept_kind = {"a connection", accept_poll, NULL};

coir_future *coir_accept_op(coir_open_op *words, coir_listener *listener, coir_stream **ret_stream)
{
    struct open_op *op = (struct open_op *)(void *)words;
    op->listener = listener;
    op->ret_stream = ret_stream;
    return coir_future_init(&op->future, &accept_kind);
}

int coir_accept(coir_listener *listener, coir_stream **ret_stream)
{
    coir_open_op op;
    return ci_await_in_fiber(coir_accept_op(&op, listener, ret_stream));
}

static coir_future *make_accept(const coir_case *self, void *place)
{
    return coir_accept_op(place, self->object, self->data);
}

coir_case coir_case_accept(coir_listener *listener, coir_stream **ret_stream)
{
    return (coir_case){.make = make_accept, .object = listener, .data = ret_stream};
}

int coir_listener_local(coir_listener *listener, char *text, size_t size)
{
    if (ci_forked())
        return -COIR_EFORKED;
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
    if (!listener || ci_forked())
        return;
    ci_check(ci_worker_current);
    struct ci_driver *driver = ci_worker_current->loop.driver;
    while (listener->spare_count)
        ci_driver_close(driver, listener->spare[--listener->spare_count]);
    ci_driver_close(driver, listener->fd);
    ci_free(listener->allocator, listener->spare, listener->spare_room * sizeof(coir_fd));
    ci_free(listener->allocator, listener, sizeof *listener);
}

/* ---- connecting ---- */

static coir_future *connect_poll(coir_future *future)
{
    struct open_op *self = ci_container_of(future, struct open_op, future);
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
    COIR_RETURN(future, make_stream(worker, self->fd, self->ret_stream));
}

static const coir_future_kind connect_kind = {"a connection to be made", connect_poll, NULL};

coir_future *coir_tcp_connect_op(coir_open_op *words, const char *address, coir_stream **ret_stream)
{
    struct open_op *op = (struct open_op *)(void *)words;
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
    return rc < 0 ? rc : 0;
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
