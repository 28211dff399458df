/* The stack of a thread, taken from outside, while it runs: a signal's handler walks it. Costs
 * nothing while nobody asks.
 *
 * A thread enters to be asked, and leaves before it ends. One that blocks the signal, or waits
 * inside of the kernel without end, does not answer.
 *
 *    IDLE -- ci_thread_trace_ask --> ASKED -- handler --> TAKEN -- ci_thread_trace_await --> IDLE
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

struct ci_traced;

/* Called in the handler: keeps what the thread does, as it may go on before that is read. Only what
 * is safe in a handler. */
typedef void ci_thread_trace_note(struct ci_traced *traced);

struct ci_traced {
    struct ci_traced *next; /* of the same thread */
    ci_thread_trace_note *note;
    pthread_t thread;
    int32_t state;
    int count;
    /* innermost first; the first is the interrupted instruction if `exact`, all others are
     * addresses to which calls return */
    void *frames[CI_THREAD_TRACE_FRAMES];
    bool exact;
    bool unblocked; /* the signal, which the thread has blocked otherwise */
};

/* The calling thread may be asked from now on. If it blocks the signal, it is asked in vain, unless
 * it is to answer: then the signal is unblocked. 0, -ENOMEM, or -ENOTSUP: there is no kernel to
 * ask. Its handlers have a stack of their own from then on. */
int ci_thread_trace_enter(struct ci_traced *traced, bool answers, ci_thread_trace_note *note);

/* Whether the signal has its default effect and the calling thread does not block it: then no
 * thread of the program minds if another one answers. */
bool ci_thread_trace_is_free(void);

/* Afterwards no handler touches `traced`. By the thread that entered, while nobody asks. */
void ci_thread_trace_leave(struct ci_traced *traced);

/* Asks another thread for its stack, which is there when ci_thread_trace_await has returned 0: it
 * waits until `end`, and returns -ETIMEDOUT if the thread has not answered by then. So several
 * threads can be asked at once. One that was asked is awaited before it is asked again. A call of
 * the system in which that thread waits may be interrupted. */
int ci_thread_trace_ask(struct ci_traced *traced);
int ci_thread_trace_await(struct ci_traced *traced, coir_time end);

/* The same for one thread. */
int ci_thread_trace_take(struct ci_traced *traced, coir_time timeout);

#endif
