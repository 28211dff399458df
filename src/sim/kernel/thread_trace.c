/* The threads of a simulated kernel share one of the real one: there is none to ask. */
#include "sys/thread_trace.h"

#include <errno.h>

bool ci_thread_trace_is_free(void)
{
    return false;
}

int ci_thread_trace_enter(struct ci_traced *traced, bool answers, ci_thread_trace_note *note)
{
    (void)traced, (void)answers, (void)note;
    return -ENOTSUP;
}

void ci_thread_trace_leave(struct ci_traced *traced)
{
    (void)traced;
}

int ci_thread_trace_ask(struct ci_traced *traced)
{
    (void)traced;
    return 0;
}

int ci_thread_trace_await(struct ci_traced *traced, coir_time end)
{
    (void)traced, (void)end;
    return -ETIMEDOUT;
}

int ci_thread_trace_take(struct ci_traced *traced, coir_time timeout)
{
    (void)traced, (void)timeout;
    return -ETIMEDOUT;
}
