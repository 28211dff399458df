/* sys/thread_trace.h: a thread answers some time after it was asked, whatever it does then; or, if
 * the host has late threads, not at all, as in a call that no signal ends. It is not interrupted by
 * that: as a handler with SA_RESTART, but sleep(3) goes on, too.
 *
 * The thread that asks walks the stack, from where the other one was switched away. */
#include "sys/thread_trace.h"

#include <errno.h>

#include "sim/kernel/kernel.h"
#include "sys/clock.h"
#include "sys/unwind.h"

enum { STACK_MOST = 1 << 20 };
static const coir_time answer_most = 1 * COIR_MS;

/* The default effect of the signal, which no thread blocks. */
bool ci_thread_trace_is_free(void)
{
    return true;
}

int ci_thread_trace_enter(struct ci_traced *traced, bool answers, ci_thread_trace_note *note)
{
    (void)answers;
    if (!ci_k.thread)
        return -ENOTSUP;
    traced->note = note;
    traced->thread = (pthread_t)(uintptr_t)ci_k.thread;
    return 0;
}

void ci_thread_trace_leave(struct ci_traced *traced)
{
    ci_check(traced->thread == (pthread_t)(uintptr_t)ci_k.thread, "thread_trace.h 1");
    traced->thread = 0;
}

int ci_thread_trace_ask(struct ci_traced *traced)
{
    ci_kcall();
    ci_check(traced->thread, "thread_trace.h 1");
    return 0;
}

/* The end of the stack that the thread is on is not known: its first frame ends the walk. */
static void take(struct ci_traced *traced)
{
    static struct ci_frame_tables tables; /* too large for the stacks of fibers */
    const struct ci_kthread *thread = (const struct ci_kthread *)(uintptr_t)traced->thread;
    const char *sp = thread->context.sp;
    if (!tables.count)
        ci_frame_tables_list(&tables);
    traced->count = ci_unwind(&tables, &thread->context, sp, sp + STACK_MOST, traced->frames,
                              CI_THREAD_TRACE_FRAMES);
    traced->exact = true;
    traced->note(traced);
}

int ci_thread_trace_await(struct ci_traced *traced, coir_time end)
{
    const struct ci_node *node = ci_k.process->node;
    bool silent = ci_world_fault(ci_k.world, node, node->faults.late, "a thread does not answer");
    coir_time answer = silent ? COIR_NEVER : ci_kafter((uint64_t)answer_most);
    ci_kthread_sleep("a stack", answer < end ? answer : end);
    if (answer >= end)
        return -ETIMEDOUT;
    take(traced);
    return 0;
}

int ci_thread_trace_take(struct ci_traced *traced, coir_time timeout)
{
    coir_time end = ci_time_after(ci_clock_now(), timeout);
    int rc = ci_thread_trace_ask(traced);
    return rc < 0 ? rc : ci_thread_trace_await(traced, end);
}
