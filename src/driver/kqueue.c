/* The selector over kqueue(2), of BSD and macOS. Reading and writing are filters of their own,
 * which are registered and reported one by one; the user data of each is the registration's
 * generation. */
#include <sys/event.h>

#include <errno.h>
#include <poll.h>
#include <time.h>

#include "driver/selector.h"
#include "sys/call.h"

enum { BATCH = 256, WAKE_IDENT = 0 };

struct kqueue_selector {
    struct ci_selector base;
    int kqueue;
    struct kevent events[BATCH];
};

static struct kqueue_selector *self(struct ci_selector *selector)
{
    return ci_container_of(selector, struct kqueue_selector, base);
}

static int change_wakeup(const struct kqueue_selector *kqueue, unsigned flags, unsigned what)
{
    struct kevent change;
    EV_SET(&change, WAKE_IDENT, EVFILT_USER, (unsigned short)flags, what, 0, NULL);
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

/* Registers both filters of a descriptor again: those in `events` are added, the others removed.
 * EV_ADD alone would keep the trigger of an existing registration, and a one-shot event that was
 * not reported yet. EV_RECEIPT: each change gets a result, and no events are taken. */
static int set_filters(struct kqueue_selector *kqueue, coir_fd fd, uint32_t generation,
                       unsigned events, enum ci_trigger trigger)
{
    static const struct {
        short filter;
        unsigned event;
    } filters[] = {{EVFILT_READ, COIR_READ}, {EVFILT_WRITE, COIR_WRITE}};
    struct kevent changes[4], answers[4];
    int count = 0, rc = 0;
    for (size_t i = 0; i < ci_countof(filters); i++) {
        EV_SET(&changes[count++], (uintptr_t)fd, filters[i].filter, EV_DELETE | EV_RECEIPT, 0, 0,
               NULL);
        if (events & filters[i].event)
            EV_SET(&changes[count++], (uintptr_t)fd, filters[i].filter,
                   (unsigned short)(flags_of(trigger) | EV_RECEIPT), 0, 0,
                   (void *)(uintptr_t)generation);
    }
    int answered = kevent(kqueue->kqueue, changes, count, answers, count, NULL);
    if (answered < 0)
        return -errno;
    for (int i = 0; i < answered; i++)
        if (changes[i].flags & EV_ADD && answers[i].data)
            rc = -(int)answers[i].data;
    return rc;
}

static void remove_fd(struct ci_selector *selector, coir_fd fd)
{
    set_filters(self(selector), fd, 0, 0, CI_LEVEL);
}

static int add(struct ci_selector *selector, coir_fd fd, uint32_t generation, unsigned events,
               enum ci_trigger trigger)
{
    int rc = set_filters(self(selector), fd, generation, events, trigger);
    if (rc < 0)
        remove_fd(selector, fd);
    return rc;
}

/* poll(2) reports a hang-up and an error whether they are asked for or not. */
static bool has_hung_up(coir_fd fd)
{
    struct pollfd ask = {.fd = fd};
    return ci_sys_poll(&ask, 1, 0) > 0;
}

/* EV_EOF is the end of one direction, and the end of writing may be the process's own shutdown:
 * poll(2) reports whether both have ended. An end with an error (fflags) is the end of both. */
static uint32_t translate(const struct kevent *event)
{
    bool writes = event->filter == EVFILT_WRITE, failed = event->flags & EV_ERROR || event->fflags;
    uint32_t events = writes ? COIR_WRITE : COIR_READ;
    if (event->flags & EV_EOF) {
        events |= writes ? 0 : CI_EVENT_END;
        if (failed || has_hung_up((coir_fd)event->ident))
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
    change_wakeup(self(selector), 0, NOTE_TRIGGER);
}

static coir_fd descriptor(struct ci_selector *selector)
{
    return self(selector)->kqueue;
}

static int init(struct ci_selector *selector)
{
    self(selector)->kqueue = kqueue();
    if (self(selector)->kqueue < 0)
        return -errno;
    return change_wakeup(self(selector), EV_ADD | EV_CLEAR, 0);
}

static void done(struct ci_selector *selector)
{
    if (self(selector)->kqueue >= 0)
        ci_sys_close(self(selector)->kqueue);
}

const struct ci_selector_kind ci_kqueue_selector = {
    .name = "kqueue",
    .size = sizeof(struct kqueue_selector),
    .init = init,
    .done = done,
    .add = add,
    .modify = add,
    .remove = remove_fd,
    .wait = wait_ready,
    .wake = wake,
    .descriptor = descriptor,
};
