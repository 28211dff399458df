/* The script of the fake: every change that was asked for, in order. */
#ifndef FAKE_KQUEUE_H
#define FAKE_KQUEUE_H

#include <sys/event.h>

enum { FAKE_CHANGES = 256 };
extern struct kevent fake_changes[FAKE_CHANGES];
extern int fake_change_count;

#endif
