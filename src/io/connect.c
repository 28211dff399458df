/* Connecting a new socket to one address. */
#include "io/connect.h"
#include "base/address.h"

#include <errno.h>
#include <string.h>

/* The pause before a client of a Unix socket retries while the backlog is full: no event reports
 * room in it. */
static const coir_time backlog_pause = 2 * COIR_MS;

static coir_future *begin_connect(struct ci_connect_op *self)
{
    struct ci_op io = {
        .fd = self->fd,
        .kind = CI_OP_CONNECT,
        .address = (struct sockaddr *)&self->address,
        .count = (int32_t)ci_address_len(&self->address),
    };
    return ci_io_init(&self->io, NULL, &io);
}

/* A socket that is bound to the local address, if there is one. */
static int open_socket(struct ci_driver *driver, const struct ci_connect_op *self)
{
    const struct sockaddr_storage *local = self->local;
    if (local && local->ss_family != self->address.ss_family)
        return -EAFNOSUPPORT;
    if (local && !driver->kind->bind)
        return -EOPNOTSUPP;
    int fd = driver->kind->socket(driver, self->address.ss_family);
    int rc = fd < 0 || !local ? fd
                              : driver->kind->bind(driver, fd, (const struct sockaddr *)local,
                                                   ci_address_len(local));
    if (fd >= 0 && rc < 0)
        ci_driver_close(driver, fd);
    return rc < 0 ? rc : fd;
}

static coir_future *connect_poll(coir_future *future)
{
    struct ci_connect_op *self = ci_container_of(future, struct ci_connect_op, future);
    struct ci_worker *worker = ci_worker_current;
    struct ci_driver *driver = worker->loop.driver;
    bool is_unix = self->address.ss_family == AF_UNIX;
    int64_t rc = 0;
    COIR_BEGIN(future);
    if (ci_leaf_refused(worker, future))
        return future->caller;
    if ((self->fd = open_socket(driver, self)) < 0)
        COIR_RETURN(future, self->fd);
    for (;;) {
        COIR_AWAIT(future, begin_connect(self));
        if ((rc = self->io.future.result) != -EAGAIN || !is_unix)
            break;
        COIR_AWAIT(future, coir_sleep_for_op((coir_sleep_op *)(void *)&self->pause, backlog_pause));
        if ((rc = self->pause.future.result) < 0)
            break;
    }
    if (rc == 0)
        rc = ci_socket_stream_new(worker, self->fd, is_unix, self->ret_stream);
    if (rc < 0)
        ci_driver_close(driver, self->fd);
    COIR_RETURN(future, rc);
}

static const coir_future_kind connect_kind =
    COIR_FUTURE_KIND("a connection to be made", connect_poll, NULL);

coir_future *ci_connect_init(struct ci_connect_op *op, const struct sockaddr_storage *address,
                             const struct sockaddr_storage *local, coir_stream **ret_stream)
{
    op->local = local;
    op->ret_stream = ret_stream;
    op->address = *address;
    return coir_future_init(&op->future, &connect_kind);
}
