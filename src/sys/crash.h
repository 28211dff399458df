/* The signals that end a program which has gone wrong. What watches them is called before the
 * handlers that were installed before, or the default effect: once for a process. */
#ifndef CI_SYS_CRASH_H
#define CI_SYS_CRASH_H

#include <signal.h>
#include <stddef.h>

struct ci_crash_watch {
    struct ci_crash_watch *next;
    /* Called in the handler of the signal, whose name is `what`: only what is safe there. Other
     * threads go on meanwhile. */
    void (*fn)(struct ci_crash_watch *watch, const char *what);
};

/* NULL: the signal is none of these. */
static inline const char *ci_crash_name(int number)
{
    switch (number) {
    case SIGSEGV: return "SIGSEGV";
    case SIGBUS: return "SIGBUS";
    case SIGILL: return "SIGILL";
    case SIGFPE: return "SIGFPE";
    case SIGSYS: return "SIGSYS";
    case SIGABRT: return "SIGABRT";
    default: return NULL;
    }
}

/* Every watch is called, the newest first. */
void ci_crash_watch_add(struct ci_crash_watch *watch);

/* Afterwards no handler touches the watch. The last one restores the handlers that were there
 * before. */
void ci_crash_watch_remove(struct ci_crash_watch *watch);

#endif
