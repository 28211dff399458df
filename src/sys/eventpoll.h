/* The calls of epoll(7). Timeouts are nanoseconds by epoll_pwait2 (Linux 5.11); where the kernel or
 * a filter refuses it they are milliseconds, rounded up. */
#ifndef CI_SYS_EVENTPOLL_H
#define CI_SYS_EVENTPOLL_H

#include <stdbool.h>
#include <sys/epoll.h>

#include "coir/base.h"

struct ci_eventpoll {
    coir_fd fd;
    bool milliseconds; /* epoll_pwait2 does not work here */
};

/* 0 or a negative errno; closed by ci_sys_close(eventpoll->fd). */
int ci_eventpoll_open(struct ci_eventpoll *eventpoll);

/* epoll_ctl(2): 0 or a negative errno. */
int ci_eventpoll_control(const struct ci_eventpoll *eventpoll, int what, coir_fd fd,
                         struct epoll_event *event);

/* Waits `timeout` nanoseconds at most (negative: without end): how many events, or a negative
 * errno. */
int ci_eventpoll_wait(struct ci_eventpoll *eventpoll, struct epoll_event *events, int max,
                      coir_time timeout);

#endif
