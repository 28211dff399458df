/* kqueue(2) played by poll(2), well enough for the conformance suite. EV_CLEAR is taken for level:
 * an edge may be reported too often, and a driver must bear that. One kqueue at a time. */
#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { FILTERS = 2048 };

struct kevent fake_changes[FAKE_CHANGES];
int fake_change_count;

static struct filter {
    struct kevent asked;
    int used;
} filters[FILTERS];
static int wakeup;

int kqueue(void)
{
    for (int i = 0; i < FILTERS; i++)
        filters[i].used = 0;
    fake_change_count = 0;
    return wakeup = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

static struct filter *find(const struct kevent *change)
{
    for (int i = 0; i < FILTERS; i++)
        if (filters[i].used && filters[i].asked.ident == change->ident &&
            filters[i].asked.filter == change->filter)
            return &filters[i];
    return NULL;
}

static int apply(const struct kevent *change)
{
    struct filter *filter = find(change);
    if (fake_change_count < FAKE_CHANGES)
        fake_changes[fake_change_count++] = *change;
    if (change->filter == EVFILT_USER) {
        uint64_t one = 1;
        return change->fflags & NOTE_TRIGGER && write(wakeup, &one, sizeof one) < 0 ? -1 : 0;
    }
    if (change->flags & EV_DELETE) {
        if (filter)
            filter->used = 0;
        else
            errno = ENOENT;
        return filter ? 0 : -1;
    }
    if (fcntl((int)change->ident, F_GETFD) < 0)
        return -1;
    for (int i = 0; !filter && i < FILTERS; i++)
        if (!filters[i].used)
            filter = &filters[i];
    *filter = (struct filter){*change, 1};
    return 0;
}

static int wait_all(struct kevent *events, int event_count, const struct timespec *timeout)
{
    struct pollfd fds[FILTERS + 1] = {{.fd = wakeup, .events = POLLIN}};
    for (int i = 0; i < FILTERS; i++) {
        int read = filters[i].asked.filter == EVFILT_READ;
        if (filters[i].used && fcntl((int)filters[i].asked.ident, F_GETFD) < 0)
            filters[i].used = 0; /* closed: the kernel forgets it */
        fds[i + 1].fd = filters[i].used ? (int)filters[i].asked.ident : -1;
        fds[i + 1].events = read ? POLLIN | POLLRDHUP : POLLOUT;
    }
    if (ppoll(fds, FILTERS + 1, timeout, NULL) < 0)
        return -1;
    int count = 0;
    if (fds[0].revents) {
        uint64_t ignored;
        if (read(wakeup, &ignored, sizeof ignored) > 0)
            events[count++] = (struct kevent){.filter = EVFILT_USER};
    }
    static int from; /* the first one differs, so that the last ones are heard of too */
    int first = from;
    for (int n = 0; n < FILTERS && count < event_count; n++) {
        int i = (first + n) % FILTERS;
        from = i + 1;
        short happened = fds[i + 1].revents;
        if (fds[i + 1].fd < 0 || !happened)
            continue;
        struct kevent *event = &events[count++];
        *event = filters[i].asked;
        event->flags = 0;
        if (happened & (POLLHUP | POLLERR) ||
            (event->filter == EVFILT_READ && happened & POLLRDHUP))
            event->flags |= EV_EOF;
        event->fflags = happened & POLLERR ? ECONNRESET : 0;
        if (filters[i].asked.flags & EV_ONESHOT)
            filters[i].used = 0;
    }
    return count;
}

int kevent(int kq, const struct kevent *changes, int change_count, struct kevent *events,
           int event_count, const struct timespec *timeout)
{
    (void)kq;
    for (int i = 0; i < change_count; i++)
        if (apply(&changes[i]) < 0)
            return -1;
    return event_count ? wait_all(events, event_count, timeout) : 0;
}
