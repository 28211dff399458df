/* The selector over poll(2): portable, and simple enough to be read first. Waiting costs as much as
 * there are descriptors.
 *
 * 1. poll(2) says what holds, again and again. An edge is made of that by not asking for an event
 * that was reported until somebody waits for it again (rearm); a descriptor of which nothing is
 * asked is left out of the call.
 * 2. Entries are dense; `places` finds a descriptor's. The first entry is the eventfd that wakes.
 */
#include <errno.h>
#include <poll.h>
#include <time.h>

#include "base/check.h"
#include "driver/selector.h"
#include "sys/call.h"

struct entry {
    uint32_t generation;
    enum ci_trigger trigger;
};

struct poll_selector {
    struct ci_selector base;
    coir_fd wakeup;
    /* an fd that is not asked about is stored as its complement, which poll(2) passes over */
    struct pollfd *fds;
    struct entry *entries;
    size_t *places; /* by descriptor: its place + 1, or 0 */
    size_t count, fds_room, entries_room, places_room;
    size_t next; /* where the next look begins, so that the last ones are served too */
    const coir_allocator *allocator;
};

static struct poll_selector *self(struct ci_selector *selector)
{
    return ci_container_of(selector, struct poll_selector, base);
}

static size_t *place_of(struct poll_selector *poll, coir_fd fd)
{
    return (size_t)fd < poll->places_room ? &poll->places[fd] : NULL;
}

/* What is asked for; COIR_HANGUP stands for "only whether it is gone". */
static void ask(struct poll_selector *poll, size_t place, coir_fd fd, unsigned events)
{
    short flags = poll->fds[place].events;
    if (events & COIR_READ)
        flags |= POLLIN | (poll->entries[place].trigger == CI_EDGE ? POLLRDHUP : 0);
    if (events & CI_EVENT_END)
        flags |= POLLRDHUP;
    if (events & COIR_WRITE)
        flags |= POLLOUT;
    poll->fds[place].events = flags;
    poll->fds[place].fd = fd;
}

static int reserve(struct poll_selector *poll, coir_fd fd)
{
    int rc = ci_grow(poll->allocator, (void **)&poll->fds, &poll->fds_room, sizeof *poll->fds,
                     poll->count + 1);
    if (rc == 0)
        rc = ci_grow(poll->allocator, (void **)&poll->entries, &poll->entries_room,
                     sizeof *poll->entries, poll->count + 1);
    if (rc == 0)
        rc = ci_grow(poll->allocator, (void **)&poll->places, &poll->places_room,
                     sizeof *poll->places, (size_t)fd + 1);
    return rc;
}

static int add(struct ci_selector *selector, coir_fd fd, uint32_t generation, unsigned events,
               enum ci_trigger trigger)
{
    struct poll_selector *poll = self(selector);
    const size_t *known = place_of(poll, fd);
    if (known && *known)
        return -EEXIST;
    int rc = ci_sys_poll_check(fd);
    if (rc < 0 || (rc = reserve(poll, fd)) < 0)
        return rc;
    size_t place = poll->count++;
    poll->places[fd] = place + 1;
    poll->fds[place] = (struct pollfd){.fd = ~fd};
    poll->entries[place] = (struct entry){generation, trigger};
    ask(poll, place, fd, events);
    return 0;
}

static int modify(struct ci_selector *selector, coir_fd fd, uint32_t generation, unsigned events,
                  enum ci_trigger trigger)
{
    struct poll_selector *poll = self(selector);
    const size_t *known = place_of(poll, fd);
    if (!known || !*known)
        return -ENOENT;
    int rc = ci_sys_poll_check(fd);
    if (rc < 0)
        return rc;
    size_t place = *known - 1;
    poll->entries[place] = (struct entry){generation, trigger};
    poll->fds[place].events = 0;
    ask(poll, place, fd, events);
    return 0;
}

static void rearm(struct ci_selector *selector, coir_fd fd, unsigned events)
{
    struct poll_selector *poll = self(selector);
    const size_t *known = place_of(poll, fd);
    if (known && *known)
        ask(poll, *known - 1, fd, events);
}

static void remove_fd(struct ci_selector *selector, coir_fd fd)
{
    struct poll_selector *poll = self(selector);
    size_t *known = place_of(poll, fd);
    if (!known || !*known)
        return;
    size_t place = *known - 1, last = --poll->count;
    *known = 0;
    if (place == last)
        return;
    poll->fds[place] = poll->fds[last];
    poll->entries[place] = poll->entries[last];
    coir_fd moved = poll->fds[place].fd;
    poll->places[moved < 0 ? ~moved : moved] = place + 1;
}

static uint32_t translate(short flags)
{
    uint32_t events = 0;
    if (flags & POLLIN)
        events |= COIR_READ;
    if (flags & POLLOUT)
        events |= COIR_WRITE;
    if (flags & POLLRDHUP)
        events |= CI_EVENT_END;
    if (flags & POLLHUP)
        events |= COIR_HANGUP;
    if (flags & (POLLERR | POLLNVAL))
        events |= COIR_EVENT_ERROR;
    return events;
}

/* What was reported is not asked for again until somebody waits for it. */
static void disarm(struct poll_selector *poll, size_t place, short flags)
{
    struct pollfd *asked = &poll->fds[place];
    if (poll->entries[place].trigger == CI_LEVEL)
        return;
    if (flags & POLLIN)
        flags |= POLLRDHUP;
    asked->events &= (short)~flags;
    if (!asked->events || flags & (POLLHUP | POLLERR | POLLNVAL) ||
        poll->entries[place].trigger == CI_ONE_SHOT) {
        asked->events = 0;
        asked->fd = ~asked->fd;
    }
}

static int wait_ready(struct ci_selector *selector, struct ci_ready *ready, int ready_max,
                      coir_time timeout)
{
    struct poll_selector *poll = self(selector);
    int left = ci_sys_poll(poll->fds, poll->count, timeout), count = 0;
    if (left > 0 && poll->fds[0].revents) {
        ci_sys_eventfd_drain(poll->wakeup);
        left--;
    }
    if (left < 0)
        return left;
    size_t others = poll->count - 1, start = others ? poll->next % others : 0;
    for (size_t i = 0; i < others && left > 0 && count < ready_max; i++) {
        size_t place = 1 + (start + i) % others;
        short flags = poll->fds[place].revents;
        if (poll->fds[place].fd < 0 || !flags)
            continue;
        left--;
        poll->next = start + i + 1;
        ready[count++] = (struct ci_ready){poll->fds[place].fd, poll->entries[place].generation,
                                           translate(flags)};
        disarm(poll, place, flags);
    }
    return count;
}

static void wake(struct ci_selector *selector)
{
    ci_sys_eventfd_add(self(selector)->wakeup);
}

static coir_fd descriptor(struct ci_selector *selector)
{
    (void)selector;
    return -ENOTSUP;
}

static void free_selector(struct ci_selector *selector)
{
    struct poll_selector *poll = self(selector);
    if (poll->wakeup >= 0)
        ci_sys_close(poll->wakeup);
    ci_free(poll->allocator, poll->fds, poll->fds_room * sizeof *poll->fds);
    ci_free(poll->allocator, poll->entries, poll->entries_room * sizeof *poll->entries);
    ci_free(poll->allocator, poll->places, poll->places_room * sizeof *poll->places);
    ci_free(poll->allocator, poll, sizeof *poll);
}

static const struct ci_selector_kind poll_kind = {
    .name = "poll",
    .keeps = true,
    .add = add,
    .modify = modify,
    .remove = remove_fd,
    .rearm = rearm,
    .wait = wait_ready,
    .wake = wake,
    .descriptor = descriptor,
    .free = free_selector,
};

int ci_poll_open(const coir_allocator *allocator, struct ci_selector **ret_selector)
{
    struct poll_selector *poll = ci_alloc_zero(allocator, sizeof *poll);
    if (!poll)
        return -ENOMEM;
    poll->base.kind = &poll_kind;
    poll->allocator = allocator;
    int rc = poll->wakeup = ci_sys_eventfd();
    if (rc >= 0)
        rc = add(&poll->base, poll->wakeup, 0, COIR_READ, CI_LEVEL);
    if (rc < 0) {
        free_selector(&poll->base);
        return rc;
    }
    *ret_selector = &poll->base;
    return 0;
}
