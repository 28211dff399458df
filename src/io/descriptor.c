/* Waiting on descriptors of the program, and reading and writing them. */
#include "coir/descriptor.h"

#include <errno.h>

#include "io/io.h"
#include "sys/call.h"
#include "task/completed.h"

coir_future *coir_fd_wait_op(coir_io_op *op, coir_fd fd, int events)
{
    if (CI_REFUSED(!op, "op is NULL"))
        return NULL;
    if (ci_events_unknown(events))
        return ci_completed_op(op, CI_MISUSE(-EINVAL, CI_UNKNOWN_EVENTS));
    struct ci_op io = {
        .fd = fd, .kind = CI_OP_FOREIGN, .events = (uint8_t)(events & (COIR_READ | COIR_WRITE))};
    return ci_io_init((struct ci_io_op *)(void *)op, NULL, &io);
}

static coir_future *make_wait(const coir_case *self, void *op)
{
    return coir_fd_wait_op(op, (coir_fd)(self->number >> 8), (int)(self->number & 0xff));
}

coir_case coir_case_fd(coir_fd fd, int events)
{
    if (ci_events_unknown(events))
        return ci_completed_case(CI_MISUSE(-EINVAL, CI_UNKNOWN_EVENTS));
    return (coir_case){.make = make_wait, .number = (int64_t)fd << 8 | (events & 0xff)};
}

int coir_fd_wait(coir_fd fd, int events)
{
    int rc = 0;
    if (ci_events_unknown(events))
        return CI_MISUSE(-EINVAL, CI_UNKNOWN_EVENTS);
    struct ci_fiber *fiber = ci_fiber_enter(&rc);
    if (!fiber)
        return rc;
    return (int)ci_await(ci_worker_current,
                         coir_fd_wait_op((coir_io_op *)(void *)fiber->op, fd, events));
}

/* False: the call has to wait and be repeated. True: it is done, and has spent one of the fiber's
 * budget, so that a fiber whose calls never wait still lets others run. */
static bool is_done(ssize_t n)
{
    if (n == -EAGAIN || n == -EINTR)
        return false;
    ci_spend(ci_worker_current);
    return true;
}

ssize_t coir_fd_read(coir_fd fd, void *buf, size_t len)
{
    if (!buf && len)
        return CI_MISUSE(-EINVAL, "buf is NULL");
    for (int rc = 0;;) {
        if (!ci_fiber_enter(&rc))
            return rc;
        ssize_t n = ci_sys_read(fd, buf, len);
        if (is_done(n))
            return n;
        if ((rc = coir_fd_wait(fd, COIR_READ)) < 0)
            return rc;
    }
}

ssize_t coir_fd_write(coir_fd fd, const void *buf, size_t len)
{
    if (!buf && len)
        return CI_MISUSE(-EINVAL, "buf is NULL");
    for (int rc = 0;;) {
        if (!ci_fiber_enter(&rc))
            return rc;
        ssize_t n = ci_sys_write(fd, buf, len);
        if (is_done(n))
            return n;
        if ((rc = coir_fd_wait(fd, COIR_WRITE)) < 0)
            return rc;
    }
}
