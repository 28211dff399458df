/* The selector over epoll(7). */
#include <errno.h>

#include "base/check.h"
#include "driver/selector.h"
#include "sys/call.h"
#include "sys/eventpoll.h"

enum { BATCH = 256 };
static const uint64_t wake_key = UINT64_MAX;

struct epoll_selector {
    struct ci_selector base;
    struct ci_eventpoll epoll;
    coir_fd wakeup;
    const coir_allocator *allocator;
    struct epoll_event events[BATCH];
};

static struct epoll_selector *self(struct ci_selector *selector)
{
    return ci_container_of(selector, struct epoll_selector, base);
}

static int control(struct ci_selector *selector, int what, coir_fd fd, uint32_t generation,
                   unsigned events, enum ci_trigger trigger)
{
    /* the kernel allows exclusive to few others */
    uint32_t flags = trigger == CI_EXCLUSIVE ? 0 : EPOLLRDHUP;
    if (events & COIR_READ)
        flags |= EPOLLIN;
    if (events & COIR_WRITE)
        flags |= EPOLLOUT;
    switch (trigger) {
    case CI_EDGE: flags |= EPOLLET; break;
    case CI_EXCLUSIVE: flags |= EPOLLET | EPOLLEXCLUSIVE; break;
    case CI_LEVEL: flags &= ~(uint32_t)EPOLLRDHUP; break;
    case CI_ONE_SHOT: flags = (flags & ~(uint32_t)EPOLLRDHUP) | EPOLLONESHOT; break;
    }
    struct epoll_event event = {.events = flags,
                                .data.u64 = (uint64_t)generation << 32 | (uint32_t)fd};
    return ci_eventpoll_control(&self(selector)->epoll, what, fd, &event);
}

static int add(struct ci_selector *selector, coir_fd fd, uint32_t generation, unsigned events,
               enum ci_trigger trigger)
{
    return control(selector, EPOLL_CTL_ADD, fd, generation, events, trigger);
}

static int modify(struct ci_selector *selector, coir_fd fd, uint32_t generation, unsigned events,
                  enum ci_trigger trigger)
{
    return control(selector, EPOLL_CTL_MOD, fd, generation, events, trigger);
}

static void remove_fd(struct ci_selector *selector, coir_fd fd)
{
    control(selector, EPOLL_CTL_DEL, fd, 0, 0, CI_LEVEL);
}

static uint32_t translate(uint32_t flags)
{
    uint32_t events = 0;
    if (flags & EPOLLIN)
        events |= COIR_READ;
    if (flags & EPOLLOUT)
        events |= COIR_WRITE;
    if (flags & EPOLLRDHUP)
        events |= CI_EVENT_END;
    if (flags & EPOLLHUP)
        events |= COIR_HANGUP;
    if (flags & EPOLLERR)
        events |= COIR_EVENT_ERROR;
    return events;
}

static int wait_ready(struct ci_selector *selector, struct ci_ready *ready, int ready_max,
                      coir_time timeout)
{
    struct epoll_selector *epoll = self(selector);
    int n = ci_eventpoll_wait(&epoll->epoll, epoll->events, ready_max < BATCH ? ready_max : BATCH,
                              timeout),
        count = 0;
    for (int i = 0; i < n; i++) {
        uint64_t key = epoll->events[i].data.u64;
        if (key == wake_key)
            continue; /* edge-triggered: it need not be drained */
        ready[count++] = (struct ci_ready){(coir_fd)(uint32_t)key, (uint32_t)(key >> 32),
                                           translate(epoll->events[i].events)};
    }
    return n < 0 ? n : count;
}

static void wake(struct ci_selector *selector)
{
    ci_sys_eventfd_add(self(selector)->wakeup);
}

static coir_fd descriptor(struct ci_selector *selector)
{
    return self(selector)->epoll.fd;
}

static void free_selector(struct ci_selector *selector)
{
    struct epoll_selector *epoll = self(selector);
    if (epoll->wakeup >= 0)
        ci_sys_close(epoll->wakeup);
    if (epoll->epoll.fd >= 0)
        ci_sys_close(epoll->epoll.fd);
    ci_free(epoll->allocator, epoll, sizeof *epoll);
}

static const struct ci_selector_kind epoll_kind = {
    .name = "epoll",
    .add = add,
    .modify = modify,
    .remove = remove_fd,
    .wait = wait_ready,
    .wake = wake,
    .descriptor = descriptor,
    .free = free_selector,
};

int ci_epoll_open(const coir_allocator *allocator, struct ci_selector **ret_selector)
{
    struct epoll_selector *epoll = ci_alloc_zero(allocator, sizeof *epoll);
    if (!epoll)
        return -ENOMEM;
    epoll->base.kind = &epoll_kind;
    epoll->allocator = allocator;
    epoll->wakeup = epoll->epoll.fd = -1;
    int rc = ci_eventpoll_open(&epoll->epoll);
    if (rc == 0 && (epoll->wakeup = ci_sys_eventfd()) < 0)
        rc = epoll->wakeup;
    if (rc == 0) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = wake_key};
        rc = ci_eventpoll_control(&epoll->epoll, EPOLL_CTL_ADD, epoll->wakeup, &event);
    }
    if (rc < 0) {
        free_selector(&epoll->base);
        return rc;
    }
    *ret_selector = &epoll->base;
    return 0;
}
