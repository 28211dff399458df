/* Connecting a new socket to one address. */
#include "io/connect.h"
#include "base/address.h"
#include "base/time.h"

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

/* Before the connect: binds the socket, and turns fast open on. */
static int prepare(struct ci_driver *driver, coir_fd fd, const struct ci_connect_how *how)
{
    int rc = 0;
    if (how->has_local)
        rc = driver->kind->bind
                 ? driver->kind->bind(driver, fd, (const struct sockaddr *)&how->local,
                                      ci_address_len(&how->local))
                 : -EOPNOTSUPP;
    if (rc == 0 && how->fast_open)
        rc = driver->kind->fast_open ? driver->kind->fast_open(driver, fd, 0) : -EOPNOTSUPP;
    return rc;
}

static int open_socket(struct ci_driver *driver, const struct ci_connect_op *self)
{
    const struct ci_connect_how *how = self->how;
    if (how && how->has_local && how->local.ss_family != self->address.ss_family)
        return -EAFNOSUPPORT;
    int fd = driver->kind->socket(driver, self->address.ss_family);
    int rc = fd >= 0 && how ? prepare(driver, fd, how) : fd;
    if (fd >= 0 && rc < 0)
        ci_driver_close(driver, fd);
    return rc < 0 ? rc : fd;
}

/* ---- the time of one attempt ---- */

static void on_timer(struct ci_timer *timer)
{
    struct ci_connect_op *self = ci_container_of(timer, struct ci_connect_op, timer);
    self->late = true;
    ci_io_withdraw(&self->io, self->runnable);
}

static void start_timer(struct ci_connect_op *self, struct ci_worker *worker)
{
    coir_time timeout = self->how ? self->how->attempt_timeout : COIR_NEVER;
    self->late = false;
    self->runnable = worker->runnable;
    ci_timer_init(&self->timer, on_timer);
    if (timeout != COIR_NEVER)
        ci_loop_start_timer(&worker->loop, &self->timer,
                            ci_time_after(ci_loop_update_now(&worker->loop), timeout));
}

/* Returns the error of the attempt, whose own result is `rc`. */
static int64_t stop_timer(struct ci_connect_op *self, struct ci_worker *worker, int64_t rc)
{
    bool withdrawn = rc == -ECANCELED && !worker->runnable->interrupt;
    if (ci_timer_started(&self->timer))
        ci_wheel_cancel(&worker->loop.wheel, &self->timer);
    return self->late && withdrawn ? -ETIMEDOUT : rc;
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
    start_timer(self, worker);
    for (;;) {
        COIR_AWAIT(future, begin_connect(self));
        if ((rc = self->io.future.result) != -EAGAIN || !is_unix)
            break;
        COIR_AWAIT(future, coir_sleep_for_op((coir_sleep_op *)(void *)&self->pause, backlog_pause));
        /* late: both timers were due at once */
        if ((rc = self->pause.future.result) < 0 || (self->late && (rc = -ETIMEDOUT)))
            break;
    }
    rc = stop_timer(self, worker, rc);
    if (rc == 0)
        rc = ci_socket_stream_new(worker, self->fd, is_unix, self->ret_stream);
    if (rc < 0)
        ci_driver_close(driver, self->fd);
    COIR_RETURN(future, rc);
}

static const coir_future_kind connect_kind =
    COIR_FUTURE_KIND("a connection to be made", connect_poll, NULL);

coir_future *ci_connect_init(struct ci_connect_op *op, const struct sockaddr_storage *address,
                             const struct ci_connect_how *how, coir_stream **ret_stream)
{
    op->how = how;
    op->ret_stream = ret_stream;
    op->address = *address;
    return coir_future_init(&op->future, &connect_kind);
}
