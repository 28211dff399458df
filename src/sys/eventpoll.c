#include "sys/eventpoll.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys/valgrind.h"

int ci_eventpoll_open(struct ci_eventpoll *eventpoll)
{
    int fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0)
        return -errno;
    /* valgrind does not know epoll_pwait2 */
    *eventpoll = (struct ci_eventpoll){fd, ci_under_valgrind()};
    return 0;
}

int ci_eventpoll_control(const struct ci_eventpoll *eventpoll, int what, coir_fd fd,
                         struct epoll_event *event)
{
    return epoll_ctl(eventpoll->fd, what, fd, event) < 0 ? -errno : 0;
}

/* Kernels before Linux 5.11 refuse epoll_pwait2 (ENOSYS), and so do seccomp filters that do not
 * list it (EPERM, EACCES, EINVAL); it is not tried again then. */
int ci_eventpoll_wait(struct ci_eventpoll *eventpoll, struct epoll_event *events, int max,
                      coir_time timeout)
{
    if (!eventpoll->milliseconds && timeout > 0) {
        struct {
            int64_t seconds, nanoseconds;
        } ts = {timeout / COIR_S, timeout % COIR_S};
        long n = syscall(SYS_epoll_pwait2, eventpoll->fd, events, max, &ts, NULL, 0);
        if (n >= 0 || errno == EINTR)
            return n < 0 ? -errno : (int)n;
        eventpoll->milliseconds = true; /* epoll_wait reports any other error again */
    }
    if (timeout > INT32_MAX * COIR_MS)
        timeout = INT32_MAX * COIR_MS;
    int n = epoll_wait(eventpoll->fd, events, max,
                       timeout < 0 ? -1 : (int)((timeout + COIR_MS - 1) / COIR_MS));
    return n < 0 ? -errno : n;
}
