#include "sys/write_all.h"

#include <errno.h>
#include <poll.h>

#include "sys/call.h"

static int wait_for_room(coir_fd fd)
{
    struct pollfd ask = {.fd = fd, .events = POLLOUT};
    int rc = ci_sys_poll(&ask, 1, -1);
    return rc < 0 && rc != -EINTR ? rc : 0;
}

int ci_write_all(coir_fd fd, const char *bytes, size_t len)
{
    int rc = 0;
    for (size_t at = 0; at < len && rc == 0;) {
        ssize_t n = ci_sys_write(fd, bytes + at, len - at);
        if (n >= 0)
            at += (size_t)n;
        else if (n == -EAGAIN)
            rc = wait_for_room(fd);
        else if (n != -EINTR)
            rc = (int)n;
    }
    return rc;
}
