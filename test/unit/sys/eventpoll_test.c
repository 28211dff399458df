/* The calls of epoll(7), by nanoseconds and by milliseconds. */
#include "sys/eventpoll.h"

#include <errno.h>
#include <unistd.h>

#include "harness.h"
#include "sys/call.h"
#include "sys/clock.h"

static void waits(struct ci_eventpoll *eventpoll, coir_time timeout)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 5}, found;
    coir_time start = ci_clock_now();
    CHECK_EQ(ci_eventpoll_wait(eventpoll, &found, 1, timeout), 0);
    CHECK(ci_clock_now() - start >= timeout); /* never early: milliseconds are rounded up */
    coir_fd fd = ci_sys_eventfd();
    ci_sys_eventfd_add(fd);
    CHECK_EQ(ci_eventpoll_control(eventpoll, EPOLL_CTL_ADD, fd, &event), 0);
    CHECK_EQ(ci_eventpoll_control(eventpoll, EPOLL_CTL_ADD, fd, &event), -EEXIST);
    CHECK_EQ(ci_eventpoll_wait(eventpoll, &found, 1, -1), 1);
    CHECK_EQ(found.data.u64, 5);
    ci_sys_close(fd);
}

TEST(timeouts_are_nanoseconds_or_rounded_up)
{
    struct ci_eventpoll eventpoll;
    CHECK_EQ(ci_eventpoll_open(&eventpoll), 0);
    waits(&eventpoll, 1200 * COIR_US);
    eventpoll.milliseconds = true; /* as where the kernel refuses epoll_pwait2 */
    waits(&eventpoll, 1200 * COIR_US);
    ci_sys_close(eventpoll.fd);
    CHECK_EQ(ci_eventpoll_wait(&eventpoll, &(struct epoll_event){0}, 1, 0), -EBADF);
}
