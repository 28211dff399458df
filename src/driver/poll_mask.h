/* Events (enum coir_events and event.h) as poll(2), epoll(7) and io_uring know them. */
#ifndef CI_DRIVER_POLL_MASK_H
#define CI_DRIVER_POLL_MASK_H

#include <poll.h>

#include "base/compiler.h"
#include "coir/base.h"
#include "driver/event.h"

static inline uint32_t ci_events_of_poll(uint32_t mask)
{
    if (ci_likely(!(mask & ~(uint32_t)(POLLIN | POLLOUT))))
        return (mask & POLLIN ? COIR_READ : 0u) | (mask & POLLOUT ? COIR_WRITE : 0u);
    uint32_t events = 0;
    if (mask & POLLIN)
        events |= COIR_READ;
    if (mask & POLLOUT)
        events |= COIR_WRITE;
    if (mask & POLLRDHUP)
        events |= CI_EVENT_END;
    if (mask & POLLPRI)
        events |= CI_EVENT_URGENT;
    if (mask & POLLHUP)
        events |= COIR_HANGUP;
    if (mask & (POLLERR | POLLNVAL))
        events |= COIR_EVENT_ERROR;
    return events;
}

static inline uint32_t ci_events_to_poll(unsigned events)
{
    return (events & COIR_READ ? POLLIN : 0u) | (events & COIR_WRITE ? POLLOUT : 0u) |
           (events & CI_EVENT_END ? POLLRDHUP : 0u);
}

#endif
