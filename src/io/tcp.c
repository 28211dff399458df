/* TCP: connecting. */
#include <errno.h>

#include "io/io.h"

struct connect_op {
    coir_future future;
    struct ci_io_op io;
    coir_stream **ret_stream;
    const char *name;
    coir_fd fd;
    struct sockaddr_storage address;
};
CI_LEAVES_SPARE_WORDS(struct connect_op, coir_open_op);

/* ---- connecting ---- */

static int take_passed(struct ci_worker *worker, coir_fd fd, coir_stream **ret_stream)
{
    int rc = worker->loop.driver->kind->take(worker->loop.driver, fd, CI_PASSED_STREAM);
    return rc < 0 ? rc : ci_socket_stream_new(worker, fd, ret_stream);
}

static coir_future *connect_poll(coir_future *future)
{
    struct connect_op *self = ci_container_of(future, struct connect_op, future);
    struct ci_worker *worker = ci_worker_current;
    struct ci_driver *driver = worker->loop.driver;
    COIR_BEGIN(future);
    struct ci_op io = {.kind = CI_OP_CONNECT, .address = (struct sockaddr *)&self->address};
    struct ci_where where;
    int rc = ci_where_find(driver, self->name, &where);
    if (rc == 0 && where.kind == CI_AT_SOCKET)
        rc = take_passed(worker, where.fd, self->ret_stream);
    if (rc < 0 || where.kind == CI_AT_SOCKET)
        COIR_RETURN(future, rc);
    self->address = where.address;
    if ((self->fd = driver->kind->socket(driver, self->address.ss_family)) < 0)
        COIR_RETURN(future, self->fd);
    io.fd = self->fd;
    io.count = (int32_t)where.len;
    COIR_AWAIT(future, ci_io_init(&self->io, NULL, &io));
    if (self->io.future.result < 0) {
        ci_driver_close(driver, self->fd);
        COIR_RETURN(future, self->io.future.result);
    }
    if ((rc = ci_socket_stream_new(worker, self->fd, self->ret_stream)) < 0)
        ci_driver_close(driver, self->fd);
    COIR_RETURN(future, rc);
}

static const coir_future_kind connect_kind =
    COIR_FUTURE_KIND("a connection to be made", connect_poll, NULL);

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
    return (int)ci_await_in_fiber(coir_tcp_connect_op(&op, address, ret_stream));
}
