/* The stack of a thread, taken from outside, while it runs: a signal's handler walks it. Costs
 * nothing while nobody asks.
 *
 * A thread enters to be asked, and leaves before it ends. One that blocks the signal, or waits
 * inside of the kernel without end, does not answer.
 *
 *    IDLE -- ci_thread_trace_take --> ASKED -- handler --> TAKEN -- ci_thread_trace_take --> IDLE
 *
 * The handler writes a trace in ASKED only; the thread that asked reads it after TAKEN.
 *
 * 1. What a thread has entered is left by the same thread.
 */
#ifndef CI_SYS_THREAD_TRACE_H
#define CI_SYS_THREAD_TRACE_H

#include <signal.h>

#include "base/compiler.h"
#include "sys/thread.h"

enum { CI_THREAD_TRACE_FRAMES = 64 };

struct ci_traced {
    struct ci_traced *next; /* of the same thread */
    /* called in the handler: keeps what the thread does, as it may go on before that is read. Only
     * what is safe in a handler */
    void (*note)(struct ci_traced *traced);
    pthread_t thread;
    sigset_t mask; /* of the thread, before it entered */
    int32_t state;
    int count;
    /* innermost first; the first is the interrupted instruction if `exact`, all others are
     * addresses to which calls return */
    void *frames[CI_THREAD_TRACE_FRAMES];
    bool exact;
};

/* The calling thread may be asked from now on. 0, or -ENOTSUP: there is no kernel to ask. */
int ci_thread_trace_enter(struct ci_traced *traced, void (*note)(struct ci_traced *traced));

/* Afterwards no handler touches `traced`. By the thread that entered, while nobody asks. */
void ci_thread_trace_leave(struct ci_traced *traced);

/* Takes the stack of another thread: 0, or -ETIMEDOUT if it does not answer. One at a time. A call
 * of the system in which that thread waits may be interrupted. */
int ci_thread_trace_take(struct ci_traced *traced, coir_time timeout);

#endif
