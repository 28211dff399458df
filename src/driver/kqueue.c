/* The selector over kqueue(2), of BSD and macOS. Reading and writing are filters of their own,
 * reported one by one; a registration's generation travels as the user data of each. */
#include <sys/event.h>

#include <errno.h>
#include <time.h>

#include "driver/selector.h"
#include "sys/call.h"

enum { BATCH = 256, WAKE_IDENT = 0 };

struct kqueue_selector {
    struct ci_selector base;
    int kqueue;
    const coir_allocator *allocator;
    struct kevent events[BATCH];
};

static struct kqueue_selector *self(struct ci_selector *selector)
{
    return ci_container_of(selector, struct kqueue_selector, base);
}

static int change(struct kqueue_selector *kqueue, uintptr_t ident, int filter, unsigned flags,
                  unsigned what, uint32_t generation)
{
    struct kevent change;
    EV_SET(&change, ident, (short)filter, (unsigned short)flags, what, 0,
           (void *)(uintptr_t)generation);
    return kevent(kqueue->kqueue, &change, 1, NULL, 0, NULL) < 0 ? -errno : 0;
}

static unsigned flags_of(enum ci_trigger trigger)
{
    switch (trigger) {
    case CI_EDGE:
    case CI_EXCLUSIVE: return EV_ADD | EV_CLEAR;
    case CI_ONE_SHOT: return EV_ADD | EV_ONESHOT;
    case CI_LEVEL: break;
    }
    return EV_ADD;
}

static void remove_fd(struct ci_selector *selector, coir_fd fd)
{
    /* either may not be there */
    change(self(selector), (uintptr_t)fd, EVFILT_READ, EV_DELETE, 0, 0);
    change(self(selector), (uintptr_t)fd, EVFILT_WRITE, EV_DELETE, 0, 0);
}

static int add(struct ci_selector *selector, coir_fd fd, uint32_t generation, unsigned events,
               enum ci_trigger trigger)
{
    struct kqueue_selector *kqueue = self(selector);
    int rc = 0;
    if (events & COIR_READ)
        rc = change(kqueue, (uintptr_t)fd, EVFILT_READ, flags_of(trigger), 0, generation);
    if (rc == 0 && events & COIR_WRITE)
        rc = change(kqueue, (uintptr_t)fd, EVFILT_WRITE, flags_of(trigger), 0, generation);
    if (rc < 0)
        remove_fd(selector, fd);
    return rc;
}

/* Adding what is there replaces it; what is not wanted any more goes. */
static int modify(struct ci_selector *selector, coir_fd fd, uint32_t generation, unsigned events,
                  enum ci_trigger trigger)
{
    struct kqueue_selector *kqueue = self(selector);
    if (!(events & COIR_READ))
        change(kqueue, (uintptr_t)fd, EVFILT_READ, EV_DELETE, 0, 0);
    if (!(events & COIR_WRITE))
        change(kqueue, (uintptr_t)fd, EVFILT_WRITE, EV_DELETE, 0, 0);
    return add(selector, fd, generation, events, trigger);
}

/* The end of a socket's reading direction is no hang-up; that of a pipe is, and so is any end that
 * comes with an error. */
static uint32_t translate(const struct kevent *event)
{
    bool writes = event->filter == EVFILT_WRITE, failed = event->flags & EV_ERROR || event->fflags;
    uint32_t events = writes ? COIR_WRITE : COIR_READ;
    if (event->flags & EV_EOF) {
        events |= writes ? 0 : CI_EVENT_END;
        if (writes || failed || !ci_sys_is_socket((coir_fd)event->ident))
            events |= COIR_HANGUP;
    }
    return failed ? events | COIR_EVENT_ERROR : events;
}

static int wait_ready(struct ci_selector *selector, struct ci_ready *ready, int ready_max,
                      coir_time timeout)
{
    struct kqueue_selector *kqueue = self(selector);
    struct timespec time = {(time_t)(timeout / COIR_S), (long)(timeout % COIR_S)};
    int n = kevent(kqueue->kqueue, NULL, 0, kqueue->events, ready_max < BATCH ? ready_max : BATCH,
                   timeout < 0 ? NULL : &time),
        count = 0;
    if (n < 0)
        return -errno;
    for (int i = 0; i < n; i++) {
        const struct kevent *event = &kqueue->events[i];
        if (event->filter != EVFILT_USER)
            ready[count++] = (struct ci_ready){(coir_fd)event->ident,
                                               (uint32_t)(uintptr_t)event->udata, translate(event)};
    }
    return count;
}

static void wake(struct ci_selector *selector)
{
    change(self(selector), WAKE_IDENT, EVFILT_USER, 0, NOTE_TRIGGER, 0);
}

static coir_fd descriptor(struct ci_selector *selector)
{
    return self(selector)->kqueue;
}

static void free_selector(struct ci_selector *selector)
{
    struct kqueue_selector *kqueue = self(selector);
    if (kqueue->kqueue >= 0)
        ci_sys_close(kqueue->kqueue);
    ci_free(kqueue->allocator, kqueue, sizeof *kqueue);
}

static const struct ci_selector_kind kqueue_kind = {
    .name = "kqueue",
    .add = add,
    .modify = modify,
    .remove = remove_fd,
    .wait = wait_ready,
    .wake = wake,
    .descriptor = descriptor,
    .free = free_selector,
};

int ci_kqueue_open(const coir_allocator *allocator, struct ci_selector **ret_selector)
{
    struct kqueue_selector *selector = ci_alloc_zero(allocator, sizeof *selector);
    if (!selector)
        return -ENOMEM;
    selector->base.kind = &kqueue_kind;
    selector->allocator = allocator;
    selector->kqueue = kqueue();
    int rc = selector->kqueue < 0
                 ? -errno
                 : change(selector, WAKE_IDENT, EVFILT_USER, EV_ADD | EV_CLEAR, 0, 0);
    if (rc < 0) {
        free_selector(&selector->base);
        return rc;
    }
    *ret_selector = &selector->base;
    return 0;
}
