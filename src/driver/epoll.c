/* The selector over epoll(7). */
#include <errno.h>

#include "base/compiler.h"
#include "driver/poll_mask.h"
#include "driver/selector.h"
#include "sys/call.h"
#include "sys/eventpoll.h"

enum { BATCH = 256 };
static const uint64_t wakeup_data = UINT64_MAX;

/* One translation does for both. */
_Static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLRDHUP == POLLRDHUP &&
                   EPOLLHUP == POLLHUP && EPOLLERR == POLLERR && EPOLLPRI == POLLPRI,
               "epoll(7) has the bits of poll(2)");

struct epoll_selector {
    struct ci_selector base;
    struct ci_eventpoll epoll;
    struct epoll_event events[BATCH];
};

static struct epoll_selector *self(struct ci_selector *selector)
{
    return ci_container_of(selector, struct epoll_selector, base);
}

static uint32_t flags_of(unsigned events, enum ci_trigger trigger)
{
    uint32_t flags = ci_events_to_poll(events);
    switch (trigger) {
    case CI_EDGE: return flags | EPOLLET | EPOLLRDHUP | EPOLLPRI;
    case CI_EXCLUSIVE: return flags | EPOLLET | EPOLLEXCLUSIVE; /* the kernel refuses RDHUP here */
    case CI_LEVEL: break;
    case CI_ONE_SHOT: return flags | EPOLLONESHOT;
    }
    return flags;
}

static int control(struct ci_selector *selector, int what, coir_fd fd, uint32_t generation,
                   uint32_t flags)
{
    struct epoll_event event = {.events = flags,
                                .data.u64 = (uint64_t)generation << 32 | (uint32_t)fd};
    return ci_eventpoll_control(&self(selector)->epoll, what, fd, &event);
}

static int add(struct ci_selector *selector, coir_fd fd, uint32_t generation, unsigned events,
               enum ci_trigger trigger)
{
    return control(selector, EPOLL_CTL_ADD, fd, generation, flags_of(events, trigger));
}

static int modify(struct ci_selector *selector, coir_fd fd, uint32_t generation, unsigned events,
                  enum ci_trigger trigger)
{
    return control(selector, EPOLL_CTL_MOD, fd, generation, flags_of(events, trigger));
}

static void remove_fd(struct ci_selector *selector, coir_fd fd)
{
    control(selector, EPOLL_CTL_DEL, fd, 0, 0);
}

static int wait_ready(struct ci_selector *selector, struct ci_ready *ready, int ready_max,
                      coir_time timeout)
{
    struct epoll_selector *epoll = self(selector);
    int n = ci_eventpoll_wait(&epoll->epoll, epoll->events, ready_max < BATCH ? ready_max : BATCH,
                              timeout);
    struct ci_ready *to = ready;
    for (int i = 0; i < n; i++) {
        uint64_t data = epoll->events[i].data.u64;
        if (data == wakeup_data)
            continue; /* edge-triggered: it need not be drained */
        *to++ = (struct ci_ready){(coir_fd)(uint32_t)data, (uint32_t)(data >> 32),
                                  ci_events_of_poll(epoll->events[i].events)};
    }
    return n < 0 ? n : (int)(to - ready);
}

static coir_fd descriptor(struct ci_selector *selector)
{
    return self(selector)->epoll.fd;
}

static int init(struct ci_selector *selector)
{
    struct epoll_selector *epoll = self(selector);
    epoll->epoll.fd = -1;
    int rc = ci_eventpoll_open(&epoll->epoll);
    if (rc < 0 || (rc = ci_selector_open_wakeup(selector)) < 0)
        return rc;
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = wakeup_data};
    return ci_eventpoll_control(&epoll->epoll, EPOLL_CTL_ADD, selector->wakeup, &event);
}

static void done(struct ci_selector *selector)
{
    if (self(selector)->epoll.fd >= 0)
        ci_sys_close(self(selector)->epoll.fd);
}

const struct ci_selector_kind ci_epoll_selector = {
    .name = "epoll",
    .size = sizeof(struct epoll_selector),
    .levels = true,
    .init = init,
    .done = done,
    .add = add,
    .modify = modify,
    .remove = remove_fd,
    .wait = wait_ready,
    .wake = ci_selector_wake,
    .descriptor = descriptor,
};
