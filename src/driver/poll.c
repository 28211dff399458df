/* The selector over poll(2): portable, and simple enough to be read first. The cost of a wait grows
 * with the number of descriptors.
 *
 * poll(2) reports what holds, each time. Edges are made of that by disarming an event that was
 * reported until an operation waits for it again (rearm). A descriptor without armed events is
 * passed over by the call.
 *
 * 1. Entry 0 is the eventfd; the others follow without gaps, and `indexes` finds a descriptor's.
 */
#include <errno.h>

#include "base/check.h"
#include "driver/poll_mask.h"
#include "driver/selector.h"
#include "sys/call.h"

struct entry {
    uint32_t generation;
    enum ci_trigger trigger;
};

struct poll_selector {
    struct ci_selector base;
    struct pollfd *fds; /* a disarmed fd is stored as its complement: poll(2) passes it over */
    struct entry *entries;
    size_t *indexes; /* by descriptor: the index of its entry; 0: it is not registered */
    size_t count, fds_room, entries_room, indexes_room;
    size_t next; /* where the next wait begins to look, so that the last entries are served too */
};

static struct poll_selector *self(struct ci_selector *selector)
{
    return ci_container_of(selector, struct poll_selector, base);
}

/* The index of a descriptor's entry, or 0. */
static size_t find(const struct poll_selector *poll, coir_fd fd)
{
    return (size_t)fd < poll->indexes_room ? poll->indexes[fd] : 0;
}

/* COIR_HANGUP alone: only hang-ups and errors, which poll(2) always reports. */
static void arm(struct poll_selector *poll, size_t index, coir_fd fd, unsigned events)
{
    if (events & COIR_READ && poll->entries[index].trigger == CI_EDGE)
        events |= CI_EVENT_END;
    poll->fds[index].events |= (short)ci_events_to_poll(events);
    poll->fds[index].fd = fd;
}

static int reserve_for(struct poll_selector *poll, size_t entries, size_t indexes)
{
    const coir_allocator *allocator = poll->base.allocator;
    int rc = ci_grow(allocator, (void **)&poll->fds, &poll->fds_room, sizeof *poll->fds, entries);
    if (rc == 0)
        rc = ci_grow(allocator, (void **)&poll->entries, &poll->entries_room, sizeof *poll->entries,
                     entries);
    if (rc == 0)
        rc = ci_grow(allocator, (void **)&poll->indexes, &poll->indexes_room, sizeof *poll->indexes,
                     indexes);
    return rc;
}

static int reserve(struct ci_selector *selector, size_t count)
{
    return reserve_for(self(selector), count + 1, count); /* entry 0 is not used */
}

static int add(struct ci_selector *selector, coir_fd fd, uint32_t generation, unsigned events,
               enum ci_trigger trigger)
{
    struct poll_selector *poll = self(selector);
    if (find(poll, fd))
        return -EEXIST;
    int rc = ci_sys_poll_check(fd);
    if (rc < 0 || (rc = reserve_for(poll, poll->count + 1, (size_t)fd + 1)) < 0)
        return rc;
    size_t index = poll->count++;
    poll->indexes[fd] = index;
    poll->fds[index] = (struct pollfd){.fd = ~fd};
    poll->entries[index] = (struct entry){generation, trigger};
    arm(poll, index, fd, events);
    return 0;
}

static int modify(struct ci_selector *selector, coir_fd fd, uint32_t generation, unsigned events,
                  enum ci_trigger trigger)
{
    struct poll_selector *poll = self(selector);
    size_t index = find(poll, fd);
    if (!index)
        return -ENOENT;
    int rc = ci_sys_poll_check(fd);
    if (rc < 0)
        return rc;
    poll->entries[index] = (struct entry){generation, trigger};
    poll->fds[index].events = 0;
    arm(poll, index, fd, events);
    return 0;
}

static void rearm(struct ci_selector *selector, coir_fd fd, unsigned events)
{
    struct poll_selector *poll = self(selector);
    size_t index = find(poll, fd);
    if (index)
        arm(poll, index, fd, events);
}

static coir_fd fd_at(const struct poll_selector *poll, size_t index)
{
    coir_fd fd = poll->fds[index].fd;
    return fd < 0 ? ~fd : fd;
}

/* The last entry takes the place of the one that is removed. */
static void remove_fd(struct ci_selector *selector, coir_fd fd)
{
    struct poll_selector *poll = self(selector);
    size_t index = find(poll, fd), last = poll->count - 1;
    if (!index)
        return;
    coir_fd moved = fd_at(poll, last);
    ci_check(fd_at(poll, index) == fd && poll->indexes[moved] == last, "driver/poll.c 1");
    poll->fds[index] = poll->fds[last];
    poll->entries[index] = poll->entries[last];
    poll->indexes[moved] = index;
    poll->indexes[fd] = 0; /* last: it may be the one that was moved */
    poll->count = last;
}

/* Disarms what was reported, unless it is level-triggered. */
static void disarm(struct poll_selector *poll, size_t index, short flags)
{
    struct pollfd *armed = &poll->fds[index];
    if (poll->entries[index].trigger == CI_LEVEL)
        return;
    if (flags & POLLIN)
        flags |= POLLRDHUP;
    armed->events &= (short)~flags;
    if (!armed->events || flags & (POLLHUP | POLLERR | POLLNVAL) ||
        poll->entries[index].trigger == CI_ONE_SHOT) {
        armed->events = 0;
        armed->fd = ~armed->fd;
    }
}

static int wait_ready(struct ci_selector *selector, struct ci_ready *ready, int ready_max,
                      coir_time timeout)
{
    struct poll_selector *poll = self(selector);
    ci_check(poll->fds[0].fd == selector->wakeup, "driver/poll.c 1");
    int left = ci_sys_poll(poll->fds, poll->count, timeout), count = 0;
    if (left > 0 && poll->fds[0].revents) {
        ci_sys_eventfd_drain(selector->wakeup);
        left--;
    }
    if (left < 0)
        return left;
    size_t others = poll->count - 1, start = others ? poll->next % others : 0;
    for (size_t i = 0; i < others && left > 0 && count < ready_max; i++) {
        size_t index = 1 + (start + i) % others;
        short flags = poll->fds[index].revents;
        if (poll->fds[index].fd < 0 || !flags)
            continue;
        left--;
        poll->next = start + i + 1;
        ready[count++] = (struct ci_ready){poll->fds[index].fd, poll->entries[index].generation,
                                           ci_events_of_poll((uint16_t)flags)};
        disarm(poll, index, flags);
    }
    return count;
}

static int init(struct ci_selector *selector)
{
    int rc = ci_selector_open_wakeup(selector);
    return rc < 0 ? rc : add(selector, selector->wakeup, 0, COIR_READ, CI_LEVEL);
}

static void done(struct ci_selector *selector)
{
    struct poll_selector *poll = self(selector);
    const coir_allocator *allocator = selector->allocator;
    ci_free(allocator, poll->fds, poll->fds_room * sizeof *poll->fds);
    ci_free(allocator, poll->entries, poll->entries_room * sizeof *poll->entries);
    ci_free(allocator, poll->indexes, poll->indexes_room * sizeof *poll->indexes);
}

const struct ci_selector_kind ci_poll_selector = {
    .name = "poll",
    .size = sizeof(struct poll_selector),
    .keeps = true,
    .init = init,
    .done = done,
    .add = add,
    .modify = modify,
    .remove = remove_fd,
    .rearm = rearm,
    .wait = wait_ready,
    .wake = ci_selector_wake,
    .reserve = reserve,
};
