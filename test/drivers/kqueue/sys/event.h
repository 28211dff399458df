/* What kqueue(2) looks like, for building its selector where there is none. fake.c says what it
 * does. */
#ifndef FAKE_SYS_EVENT_H
#define FAKE_SYS_EVENT_H

#include <stdint.h>
#include <time.h>

struct kevent {
    uintptr_t ident;
    short filter;
    unsigned short flags;
    unsigned int fflags;
    int64_t data;
    void *udata;
};

enum { EVFILT_READ = -1, EVFILT_WRITE = -2, EVFILT_USER = -10 };
enum {
    EV_ADD = 1,
    EV_DELETE = 2,
    EV_ONESHOT = 0x10,
    EV_CLEAR = 0x20,
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
