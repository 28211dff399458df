/* The selector over io_uring: polls that the kernel holds. For the public poller alone: the driver
 * over io_uring needs no selector, and readiness.c would have to remove registrations before it
 * closes their descriptors, since a poll keeps its file open. For the same reason a removal is
 * submitted at once, so that the close that follows closes the file.
 *
 * An edge-triggered registration is a multishot poll. A level-triggered one is a poll that
 * completes once, and is armed again by the next wait. One that had completed before a wait may
 * hold no more, so that wait looks again.
 *
 * 1. user_data is descriptor and serial. A descriptor has at most one armed poll; each gets a new
 * serial, so completions of a cancelled one are recognised, and dropped.
 */
#include <errno.h>

#include "base/check.h"
#include "driver/kernel.h"
#include "driver/poll_mask.h"
#include "driver/selector.h"
#include "sys/call.h"
#include "sys/ring.h"

enum { SQES = 128, CQES = 1024 };
static const uint64_t wakeup_data = UINT64_MAX;

struct registration {
    uint32_t generation, serial;
    uint8_t events, trigger;
    bool used, armed;
    bool listed;      /* in `completed` */
    bool half_closed; /* the kernel reports that asked or not: only changes are polled for */
};

struct uring_selector {
    struct ci_selector base;
    struct ci_ring ring;
    bool wakeup_armed;                  /* without it no wait sleeps */
    struct registration *registrations; /* by descriptor */
    size_t registration_count;
    coir_fd *completed; /* those that the next wait arms again */
    size_t completed_count, completed_room;
    int failed_waits; /* in a row, with an error that may pass */
};

static struct uring_selector *self(struct ci_selector *selector)
{
    return ci_container_of(selector, struct uring_selector, base);
}

static struct io_uring_sqe *get_sqe(struct uring_selector *uring)
{
    struct io_uring_sqe *sqe = ci_ring_entry(&uring->ring);
    if (!sqe && ci_ring_submit(&uring->ring) == 0)
        sqe = ci_ring_entry(&uring->ring);
    return sqe;
}

static uint64_t user_data_of(const struct uring_selector *uring, coir_fd fd)
{
    return (uint64_t)uring->registrations[fd].serial << 32 | (uint32_t)fd;
}

static bool is_edge(const struct registration *registration)
{
    return registration->trigger == CI_EDGE || registration->trigger == CI_EXCLUSIVE;
}

static int arm(struct uring_selector *uring, coir_fd fd)
{
    struct registration *registration = &uring->registrations[fd];
    struct io_uring_sqe *sqe = get_sqe(uring);
    if (!sqe)
        return -ENOMEM;
    bool edge = is_edge(registration);
    ci_check(!registration->armed, "uring_selector.c 1");
    registration->armed = true;
    registration->serial++;
    sqe->opcode = IORING_OP_POLL_ADD;
    sqe->fd = fd;
    sqe->len = edge || registration->half_closed ? IORING_POLL_ADD_MULTI : 0;
    sqe->poll32_events = ci_events_to_poll(registration->events | (edge ? CI_EVENT_END : 0u));
    sqe->user_data = user_data_of(uring, fd);
    return 0;
}

/* Its poll has ended, or its completions are dropped from now on. */
static void end_poll(struct registration *registration)
{
    registration->armed = false;
    registration->serial++;
}

static int disarm(struct uring_selector *uring, coir_fd fd)
{
    struct registration *registration = &uring->registrations[fd];
    if (!registration->armed)
        return 0;
    struct io_uring_sqe *sqe = get_sqe(uring);
    if (!sqe)
        return -ENOMEM;
    /* not IORING_OP_POLL_REMOVE: that does not find a poll which is just being woken */
    sqe->opcode = IORING_OP_ASYNC_CANCEL;
    sqe->fd = -1;
    sqe->addr = user_data_of(uring, fd);
    sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
    end_poll(registration);
    return 0;
}

/* If it cannot be cancelled it holds its file until it completes by itself. */
static void stop_poll(struct uring_selector *uring, coir_fd fd)
{
    if (disarm(uring, fd) < 0)
        end_poll(&uring->registrations[fd]);
}

static int set(struct uring_selector *uring, coir_fd fd, uint32_t generation, unsigned events,
               enum ci_trigger trigger)
{
    struct registration *registration = &uring->registrations[fd];
    registration->generation = generation;
    registration->events = (uint8_t)events;
    registration->trigger = (uint8_t)trigger;
    registration->half_closed = false;
    return arm(uring, fd);
}

static int add(struct ci_selector *selector, coir_fd fd, uint32_t generation, unsigned events,
               enum ci_trigger trigger)
{
    struct uring_selector *uring = self(selector);
    int rc = ci_sys_poll_check(fd);
    if (rc == 0)
        rc = ci_grow(uring->base.allocator, (void **)&uring->registrations,
                     &uring->registration_count, sizeof *uring->registrations, (size_t)fd + 1);
    if (rc == 0)
        rc = ci_grow(uring->base.allocator, (void **)&uring->completed, &uring->completed_room,
                     sizeof *uring->completed, (size_t)fd + 1);
    if (rc == 0 && uring->registrations[fd].used)
        rc = -EEXIST;
    if (rc == 0 && (rc = set(uring, fd, generation, events, trigger)) == 0)
        uring->registrations[fd].used = true;
    return rc;
}

static int modify(struct ci_selector *selector, coir_fd fd, uint32_t generation, unsigned events,
                  enum ci_trigger trigger)
{
    struct uring_selector *uring = self(selector);
    if ((size_t)fd >= uring->registration_count || !uring->registrations[fd].used)
        return -ENOENT;
    int rc = ci_sys_poll_check(fd);
    if (rc == 0)
        rc = disarm(uring, fd);
    return rc < 0 ? rc : set(uring, fd, generation, events, trigger);
}

static void remove_fd(struct ci_selector *selector, coir_fd fd)
{
    struct uring_selector *uring = self(selector);
    if ((size_t)fd >= uring->registration_count || !uring->registrations[fd].used)
        return;
    stop_poll(uring, fd);
    ci_ring_submit(&uring->ring);
    uring->registrations[fd].used = false;
}

static bool arm_wakeup(struct uring_selector *uring)
{
    struct io_uring_sqe *sqe = get_sqe(uring);
    uring->wakeup_armed = sqe;
    if (!sqe)
        return false;
    sqe->opcode = IORING_OP_POLL_ADD;
    sqe->fd = uring->base.wakeup;
    sqe->len = IORING_POLL_ADD_MULTI;
    sqe->poll32_events = POLLIN;
    sqe->user_data = wakeup_data;
    return true;
}

/* Adds an event; events of one descriptor become one. */
static int add_event(struct ci_ready *ready, int count, const struct ci_ready *event)
{
    for (int i = 0; i < count; i++)
        if (ready[i].fd == event->fd) {
            ready[i].events |= event->events;
            return count;
        }
    ready[count] = *event;
    return count + 1;
}

/* There is room for each registration once. */
static void list_completed(struct uring_selector *uring, coir_fd fd)
{
    struct registration *registration = &uring->registrations[fd];
    if (!registration->listed)
        uring->completed[uring->completed_count++] = fd;
    registration->listed = true;
}

/* The one that a completion is of; NULL: of none, or of one that was cancelled. */
static struct registration *registration_of(const struct uring_selector *uring,
                                            const struct io_uring_cqe *completion)
{
    coir_fd fd = (coir_fd)(uint32_t)completion->user_data;
    if (!completion->user_data || (size_t)fd >= uring->registration_count ||
        user_data_of(uring, fd) != completion->user_data)
        return NULL;
    return &uring->registrations[fd];
}

/* The result of a completion: of what was found before this wait, what holds still, or 0. An edge
 * did happen. */
static int32_t result_now(const struct registration *registration,
                          const struct io_uring_cqe *completion, bool is_old)
{
    if (!is_old || is_edge(registration) || completion->res < 0)
        return completion->res;
    struct pollfd now = {.fd = (coir_fd)(uint32_t)completion->user_data,
                         .events = (short)ci_events_to_poll(registration->events)};
    return ci_sys_poll(&now, 1, 0) < 0 ? completion->res : now.revents;
}

/* The event of a completion. False: there is none, or it was not requested. */
static bool read_completion(struct uring_selector *uring, const struct io_uring_cqe *completion,
                            bool is_old, struct ci_ready *ret_event)
{
    bool last = !(completion->flags & IORING_CQE_F_MORE);
    if (completion->user_data == wakeup_data) {
        if (last)
            arm_wakeup(uring);
        return false;
    }
    struct registration *registration = registration_of(uring, completion);
    if (!registration)
        return false;
    coir_fd fd = (coir_fd)(uint32_t)completion->user_data;
    int32_t result = result_now(registration, completion, is_old);
    uint32_t events = result < 0 ? COIR_EVENT_ERROR : ci_events_of_poll((uint32_t)result);
    bool unasked = events == CI_EVENT_END && !(registration->events & COIR_READ);
    bool told = events && !unasked;
    *ret_event = (struct ci_ready){fd, registration->generation, events};
    registration->half_closed |= unasked;
    if (last) {
        end_poll(registration);
        if ((registration->trigger != CI_ONE_SHOT || !told) && result >= 0)
            list_completed(uring, fd);
    } else if (told && registration->trigger == CI_LEVEL) {
        list_completed(uring, fd);
    } else if (told && registration->trigger == CI_ONE_SHOT) {
        stop_poll(uring, fd);
    }
    return told;
}

static void arm_completed(struct uring_selector *uring)
{
    size_t count = uring->completed_count;
    uring->completed_count = 0;
    for (size_t i = 0; i < count; i++) {
        coir_fd fd = uring->completed[i];
        struct registration *registration = &uring->registrations[fd];
        registration->listed = false;
        if (!registration->used || (registration->armed && !registration->half_closed))
            continue;
        /* a poll of changes is armed anew to tell what holds */
        if (disarm(uring, fd) < 0 || arm(uring, fd) < 0)
            list_completed(uring, fd);
    }
}

/* Takes at most `most` of the completions; returns how many events there are then. */
static int take_completions(struct uring_selector *uring, uint32_t most, bool are_old,
                            struct ci_ready *ready, int count, int ready_max)
{
    const struct io_uring_cqe *completion;
    struct ci_ready event;
    for (; most && count < ready_max && (completion = ci_ring_completion(&uring->ring)); most--) {
        if (read_completion(uring, completion, are_old, &event))
            count = add_event(ready, count, &event);
        ci_ring_seen(&uring->ring);
    }
    return count;
}

static int wait_ready(struct ci_selector *selector, struct ci_ready *ready, int ready_max,
                      coir_time timeout)
{
    struct uring_selector *uring = self(selector);
    uint32_t old = ci_ring_completions(&uring->ring);
    arm_completed(uring);
    int count = take_completions(uring, old, true, ready, 0, ready_max);
    bool wakeup_armed = uring->wakeup_armed || arm_wakeup(uring);
    int rc = ci_ring_enter(&uring->ring, timeout != 0 && wakeup_armed && !old, timeout);
    bool passes = rc == 0 || rc == -ETIME || rc == -EINTR;
    count = take_completions(uring, UINT32_MAX, false, ready, count, ready_max);
    if (count || passes)
        uring->failed_waits = 0;
    else if (rc == -EAGAIN || rc == -EBUSY)
        rc = ci_kernel_note_failed_wait(&uring->failed_waits, rc, timeout);
    return count || passes ? count : rc;
}

static int init(struct ci_selector *selector)
{
    struct uring_selector *uring = self(selector);
    int rc = ci_selector_open_wakeup(selector);
    if (rc == 0)
        rc = ci_ring_open(&uring->ring, SQES, CQES, true);
    if (rc == 0)
        arm_wakeup(uring); /* it cannot fail: the ring is empty */
    return rc;
}

static void done(struct ci_selector *selector)
{
    struct uring_selector *uring = self(selector);
    if (uring->ring.map.rings)
        ci_ring_close(&uring->ring);
    ci_free(selector->allocator, uring->registrations,
            uring->registration_count * sizeof *uring->registrations);
    ci_free(selector->allocator, uring->completed,
            uring->completed_room * sizeof *uring->completed);
}

const struct ci_selector_kind ci_uring_selector = {
    .name = "io_uring",
    .size = sizeof(struct uring_selector),
    .keeps = true,
    .init = init,
    .done = done,
    .add = add,
    .modify = modify,
    .remove = remove_fd,
    .wait = wait_ready,
    .wake = ci_selector_wake,
};
