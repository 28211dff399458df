/* The selector over io_uring: polls that go on by themselves. For the public poller alone: the
 * driver over io_uring needs no selector, and readiness.c expects registrations to go with their
 * files, which these keep open.
 *
 * 1. The kernel knows a poll by descriptor and serial; a poll that was ended, or that ended by
 * itself, has a serial that is used no more.
 * 2. An edge is a poll that goes on. A level is a poll that ends, and is made again before the next
 * wait.
 * 3. A poll holds its open file: removing hands the end of the poll over at once, so that closing
 * afterwards closes.
 */
#include <errno.h>
#include <poll.h>

#include "base/check.h"
#include "driver/kernel.h"
#include "driver/selector.h"
#include "sys/call.h"
#include "sys/ring.h"

enum { ENTRIES = 128, COMPLETIONS = 1024 };
static const uint64_t wake_name = UINT64_MAX;

struct place {
    uint32_t generation, serial;
    uint8_t events, trigger;
    bool used, armed;
    /* which the kernel says also where nobody asked: then only changes are asked for */
    bool half_closed;
};

struct uring_selector {
    struct ci_selector base;
    struct ci_ring ring;
    coir_fd wakeup;
    bool wakes;           /* its poll is armed: without it no wait sleeps */
    struct place *places; /* by descriptor */
    size_t place_count;
    coir_fd *ended; /* levels to be asked about again */
    size_t ended_count, ended_room;
    int failed_waits; /* in a row, with an error that means "later" */
    const coir_allocator *allocator;
};

static struct uring_selector *self(struct ci_selector *selector)
{
    return ci_container_of(selector, struct uring_selector, base);
}

static struct io_uring_sqe *entry(struct uring_selector *uring)
{
    struct io_uring_sqe *sqe = ci_ring_entry(&uring->ring);
    if (!sqe && ci_ring_submit(&uring->ring) == 0)
        sqe = ci_ring_entry(&uring->ring);
    return sqe;
}

static uint64_t name_of(const struct uring_selector *uring, coir_fd fd)
{
    return (uint64_t)uring->places[fd].serial << 32 | (uint32_t)fd;
}

static int arm(struct uring_selector *uring, coir_fd fd)
{
    struct place *place = &uring->places[fd];
    struct io_uring_sqe *sqe = entry(uring);
    if (!sqe)
        return -ENOMEM;
    bool edge = place->trigger == CI_EDGE || place->trigger == CI_EXCLUSIVE;
    place->armed = true;
    place->serial++;
    sqe->opcode = IORING_OP_POLL_ADD;
    sqe->fd = fd;
    sqe->len = edge || place->half_closed ? IORING_POLL_ADD_MULTI : 0;
    sqe->poll32_events = (place->events & COIR_READ ? POLLIN : 0u) |
                         (place->events & COIR_WRITE ? POLLOUT : 0u) | (edge ? POLLRDHUP : 0u);
    sqe->user_data = name_of(uring, fd);
    return 0;
}

static int disarm(struct uring_selector *uring, coir_fd fd)
{
    struct place *place = &uring->places[fd];
    if (!place->armed)
        return 0;
    struct io_uring_sqe *sqe = entry(uring);
    if (!sqe)
        return -ENOMEM;
    /* IORING_OP_POLL_REMOVE leaves one that has just been woken */
    sqe->opcode = IORING_OP_ASYNC_CANCEL;
    sqe->fd = -1;
    sqe->addr = name_of(uring, fd);
    sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
    place->armed = false;
    place->serial++; /* what it has said and nobody has heard is not heard */
    return 0;
}

static int set(struct uring_selector *uring, coir_fd fd, uint32_t generation, unsigned events,
               enum ci_trigger trigger)
{
    struct place *place = &uring->places[fd];
    place->generation = generation;
    place->events = (uint8_t)events;
    place->trigger = (uint8_t)trigger;
    place->half_closed = false;
    return arm(uring, fd);
}

static int add(struct ci_selector *selector, coir_fd fd, uint32_t generation, unsigned events,
               enum ci_trigger trigger)
{
    struct uring_selector *uring = self(selector);
    int rc = ci_sys_poll_check(fd);
    if (rc == 0)
        rc = ci_grow(uring->allocator, (void **)&uring->places, &uring->place_count,
                     sizeof *uring->places, (size_t)fd + 1);
    if (rc == 0)
        rc = ci_grow(uring->allocator, (void **)&uring->ended, &uring->ended_room,
                     sizeof *uring->ended, (size_t)fd + 1);
    if (rc == 0 && uring->places[fd].used)
        rc = -EEXIST;
    if (rc == 0 && (rc = set(uring, fd, generation, events, trigger)) == 0)
        uring->places[fd].used = true;
    return rc;
}

static int modify(struct ci_selector *selector, coir_fd fd, uint32_t generation, unsigned events,
                  enum ci_trigger trigger)
{
    struct uring_selector *uring = self(selector);
    if ((size_t)fd >= uring->place_count || !uring->places[fd].used)
        return -ENOENT;
    int rc = ci_sys_poll_check(fd);
    if (rc == 0)
        rc = disarm(uring, fd);
    return rc < 0 ? rc : set(uring, fd, generation, events, trigger);
}

static void remove_fd(struct ci_selector *selector, coir_fd fd)
{
    struct uring_selector *uring = self(selector);
    if ((size_t)fd >= uring->place_count || !uring->places[fd].used)
        return;
    disarm(uring, fd);
    ci_ring_submit(&uring->ring);
    uring->places[fd].used = false;
}

static bool arm_wakeup(struct uring_selector *uring)
{
    struct io_uring_sqe *sqe = entry(uring);
    uring->wakes = sqe;
    if (!sqe)
        return false;
    sqe->opcode = IORING_OP_POLL_ADD;
    sqe->fd = uring->wakeup;
    sqe->len = IORING_POLL_ADD_MULTI;
    sqe->poll32_events = POLLIN;
    sqe->user_data = wake_name;
    return true;
}

static uint32_t translate(int32_t mask)
{
    if (mask < 0)
        return COIR_EVENT_ERROR;
    uint32_t events = 0;
    if (mask & POLLIN)
        events |= COIR_READ;
    if (mask & POLLOUT)
        events |= COIR_WRITE;
    if (mask & POLLRDHUP)
        events |= CI_EVENT_END;
    if (mask & POLLHUP)
        events |= COIR_HANGUP;
    if (mask & POLLERR)
        events |= COIR_EVENT_ERROR;
    return events;
}

/* One event more; events of one descriptor are one. */
static int put(struct ci_ready *ready, int count, const struct ci_ready *event)
{
    for (int i = 0; i < count; i++)
        if (ready[i].fd == event->fd) {
            ready[i].events |= event->events;
            return count;
        }
    ready[count] = *event;
    return count + 1;
}

/* What a completion says: whether it is of a poll that is still wanted. */
static bool hear(struct uring_selector *uring, const struct io_uring_cqe *completion,
                 struct ci_ready *ret_event)
{
    bool over = !(completion->flags & IORING_CQE_F_MORE);
    if (completion->user_data == wake_name) {
        if (over)
            arm_wakeup(uring);
        return false;
    }
    coir_fd fd = (coir_fd)(uint32_t)completion->user_data;
    if (!completion->user_data || (size_t)fd >= uring->place_count ||
        name_of(uring, fd) != completion->user_data)
        return false;
    struct place *place = &uring->places[fd];
    uint32_t events = translate(completion->res);
    bool unasked = events == CI_EVENT_END && !(place->events & COIR_READ);
    *ret_event = (struct ci_ready){fd, place->generation, events};
    place->half_closed |= unasked;
    if (over) {
        place->armed = false;
        place->serial++;
        if ((place->trigger != CI_ONE_SHOT || unasked) && completion->res >= 0)
            uring->ended[uring->ended_count++] = fd;
    }
    return !unasked;
}

static void arm_again(struct uring_selector *uring)
{
    size_t count = uring->ended_count;
    uring->ended_count = 0;
    for (size_t i = 0; i < count; i++) {
        coir_fd fd = uring->ended[i];
        if (uring->places[fd].used && !uring->places[fd].armed && arm(uring, fd) < 0)
            uring->ended[uring->ended_count++] = fd;
    }
}

static int wait_ready(struct ci_selector *selector, struct ci_ready *ready, int ready_max,
                      coir_time timeout)
{
    struct uring_selector *uring = self(selector);
    int count = 0;
    arm_again(uring);
    bool wakes = uring->wakes || arm_wakeup(uring);
    bool sleeps = timeout != 0 && wakes && !ci_ring_completion(&uring->ring);
    int rc = ci_ring_enter(&uring->ring, sleeps, timeout);
    bool passes = rc == 0 || rc == -ETIME || rc == -EINTR;
    const struct io_uring_cqe *completion;
    struct ci_ready event;
    while (count < ready_max && uring->ended_count < uring->ended_room &&
           (completion = ci_ring_completion(&uring->ring))) {
        if (hear(uring, completion, &event))
            count = put(ready, count, &event);
        ci_ring_seen(&uring->ring);
    }
    if (count || passes)
        uring->failed_waits = 0;
    else if (rc == -EAGAIN || rc == -EBUSY)
        rc = ci_kernel_note_failed_wait(&uring->failed_waits, rc, timeout);
    return count || passes ? count : rc;
}

static void wake(struct ci_selector *selector)
{
    ci_sys_eventfd_add(self(selector)->wakeup);
}

static coir_fd descriptor(struct ci_selector *selector)
{
    (void)selector;
    return -ENOTSUP; /* levels have to be asked about again first */
}

static void free_selector(struct ci_selector *selector)
{
    struct uring_selector *uring = self(selector);
    if (uring->ring.map.rings)
        ci_ring_close(&uring->ring);
    if (uring->wakeup >= 0)
        ci_sys_close(uring->wakeup);
    ci_free(uring->allocator, uring->places, uring->place_count * sizeof *uring->places);
    ci_free(uring->allocator, uring->ended, uring->ended_room * sizeof *uring->ended);
    ci_free(uring->allocator, uring, sizeof *uring);
}

static const struct ci_selector_kind uring_kind = {
    .name = "io_uring",
    .keeps = true,
    .add = add,
    .modify = modify,
    .remove = remove_fd,
    .wait = wait_ready,
    .wake = wake,
    .descriptor = descriptor,
    .free = free_selector,
};

int ci_uring_selector_open(const coir_allocator *allocator, struct ci_selector **ret_selector)
{
    struct uring_selector *uring = ci_alloc_zero(allocator, sizeof *uring);
    if (!uring)
        return -ENOMEM;
    uring->base.kind = &uring_kind;
    uring->allocator = allocator;
    uring->wakeup = ci_sys_eventfd();
    int rc =
        uring->wakeup < 0 ? uring->wakeup : ci_ring_open(&uring->ring, ENTRIES, COMPLETIONS, true);
    if (rc == 0)
        rc =
            ci_grow(allocator, (void **)&uring->ended, &uring->ended_room, sizeof *uring->ended, 1);
    if (rc < 0) {
        free_selector(&uring->base);
        return rc;
    }
    arm_wakeup(uring); /* it cannot fail: the ring is empty */
    *ret_selector = &uring->base;
    return 0;
}
