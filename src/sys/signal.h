/* Signals: SIGINT and SIGTERM stop runtimes; any signal can go to sinks. Both kinds of handlers
 * call the handlers that were installed before. Guards are called before a signal's default effect
 * ends or stops the process. */
#ifndef CI_SYS_SIGNAL_H
#define CI_SYS_SIGNAL_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "coir/base.h"

struct ci_signal_mask {
    sigset_t mask;
    sigset_t drops; /* blocked, and not pending before */
};

/* Called inside the signal handler: only what is safe there. */
typedef void ci_signal_fn(void *arg);

/* Called on SIGINT and SIGTERM. */
struct ci_signal_stop {
    struct ci_signal_stop *next;
    ci_signal_fn *fn;
    void *arg;
};

/* Every stop that watches is called. A second signal, while the program reacts to the first, has
 * its default effect and ends the program, unless another watch has begun in between. After unwatch
 * no handler touches `stop`; the last unwatch restores the earlier handlers. */
void ci_signal_watch(struct ci_signal_stop *stop);
void ci_signal_unwatch(struct ci_signal_stop *stop);

/* A sink of signals. Each is counted and sets its bit in `pending`; the one that sets it writes to
 * the eventfd. Any thread may take them (signal_sink.c). */
struct ci_signal_sink {
    uint64_t wanted, pending;
    uint32_t counts[64]; /* by signal */
    coir_fd eventfd;
};

/* Counts a signal. True: the eventfd is to be written. Safe in a handler. */
bool ci_signal_count(struct ci_signal_sink *sink, int number);
/* Takes one signal, the lowest that is pending: its number; 0: there is none. What is left is
 * announced to others that wait for the eventfd. */
int ci_signal_take(struct ci_signal_sink *sink);
/* Gives back what was taken. */
void ci_signal_give_back(struct ci_signal_sink *sink, int number);

/* 0, -EINVAL for a signal that cannot be caught, -ENOBUFS. */
int ci_signal_attach(struct ci_signal_sink *sink);

/* Afterwards no handler touches the sink. The last detach of a signal restores its earlier
 * handler. */
void ci_signal_detach(struct ci_signal_sink *sink);

/* What puts something in order before the process ends or stops, and back when it goes on. Both
 * functions are called in signal handlers, in any thread, and may be called when nothing is to be
 * done. */
struct ci_signal_guard {
    struct ci_signal_guard *next;
    ci_signal_fn *leave, *resume;
    void *arg;
};

/* From guard to unguard, `leave` is called before a signal from 1 to 31 that has its default effect
 * ends or stops the process, and in exit(3); `resume` after SIGCONT. Not for signals that cannot be
 * caught, nor for SIGTTIN and SIGTTOU, nor for those that have a handler. After unguard no handler
 * touches `guard`. 0, or -ENOMEM. */
int ci_signal_guard(struct ci_signal_guard *guard);
void ci_signal_unguard(struct ci_signal_guard *guard);

/* Calls `leave` of all guards. Safe in a handler. Does nothing in a child after fork(). */
void ci_signal_leave(void);

/* For a handler of the signal: calls the guards, and gives it its default effect. Returns if the
 * process was only stopped, or is not stopped because its group is orphaned; or if an instruction
 * has raised the signal, which does so again when the handler returns. */
void ci_signal_take_default(int number, const siginfo_t *info);

/* Blocks SIGPIPE in the calling thread, or all that a write can raise (also SIGXFSZ, at the limit
 * of a file's size); restore drops what became pending of these, then restores the mask. Safe in a
 * handler. */
void ci_signal_block_pipe(struct ci_signal_mask *ret_before);
void ci_signal_block_write(struct ci_signal_mask *ret_before);
void ci_signal_restore(const struct ci_signal_mask *saved);

#endif
