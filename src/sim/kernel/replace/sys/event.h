/* kqueue(2) and its structures, which Linux does not have, so that driver/kqueue.c compiles over
 * the simulated kernel. The numbers are FreeBSD's (sys/event.h). */
#ifndef CI_SYS_EVENT_H
#define CI_SYS_EVENT_H

#include <stdint.h>
#include <time.h>

struct kevent {
    uintptr_t ident;
    short filter;
    unsigned short flags;
    unsigned int fflags;
    int64_t data; /* not filled in by the model */
    void *udata;
};

enum { EVFILT_READ = -1, EVFILT_WRITE = -2, EVFILT_USER = -11 };
enum {
    EV_ADD = 0x0001,
    EV_DELETE = 0x0002,
    EV_ONESHOT = 0x0010,
    EV_CLEAR = 0x0020,
    EV_RECEIPT = 0x0040,
    EV_ERROR = 0x4000,
    EV_EOF = 0x8000
};
enum { NOTE_TRIGGER = 0x01000000 };

#define EV_SET(event, i, f, fl, ff, d, u) \
    (*(event) = (struct kevent){(i), (f), (fl), (ff), (d), (u)})

int kqueue(void);
int kevent(int kq, const struct kevent *changes, int change_count, struct kevent *events,
           int event_count, const struct timespec *timeout);

#endif
