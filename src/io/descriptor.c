/* Waiting on descriptors that are not ours. */
#include "coir/descriptor.h"

#include <errno.h>

#include "io/io.h"
#include "sys/call.h"

int coir_wait_fd(coir_fd fd, int events)
{
    int rc = 0;
    struct ci_fiber *fiber = ci_fiber_enter(&rc);
    if (!fiber)
        return rc;
    struct ci_io_op *op = CI_FIBER_OP(fiber, struct ci_io_op);
    op->io = (struct ci_op){.fd = fd, .kind = CI_OP_FOREIGN, .events = (uint8_t)(events & (COIR_READ | COIR_WRITE))};
    return ci_io_run(ci_worker_current, op);
}

ssize_t coir_read_fd(coir_fd fd, void *buf, size_t len)
{
    for (;;) {
        int rc = coir_interrupted();
        ssize_t n = rc < 0 ? rc : ci_sys_read(fd, buf, len);
        if (n != -EAGAIN && n != -EINTR)
            return n;
        if ((rc = coir_wait_fd(fd, COIR_READ)) < 0)
            return rc;
    }
}

ssize_t coir_write_fd(coir_fd fd, const void *buf, size_t len)
{
    for (;;) {
        int rc = coir_interrupted();
        ssize_t n = rc < 0 ? rc : ci_sys_write(fd, buf, len);
        if (n != -EAGAIN && n != -EINTR)
            return n;
        if ((rc = coir_wait_fd(fd, COIR_WRITE)) < 0)
            return rc;
    }
}
