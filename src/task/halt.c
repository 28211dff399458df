#include "task/halt.h"

#include <errno.h>

#include "sys/clock.h"
#include "sys/futex.h"
#include "sys/lock.h"
#include "sys/thread.h"
#include "task/current.h"
#include "task/task.h"
#include "task/worker.h"

static const coir_time look_min = 20 * COIR_US;

enum { ABSENT, PRESENT, IN_USE }; /* ci_halt.native */

uint32_t ci_halt_answers, ci_halt_releases;

void ci_halt_tell(uint32_t *word)
{
    ci_fetch_add(word, 1);
    ci_futex_wake(word);
}

static void stand_still(const struct ci_halt *halt)
{
    ci_halt_tell(&ci_halt_answers);
    for (;;) {
        uint32_t releases = ci_load(&ci_halt_releases);
        if (ci_load(&halt->state) != CI_HALT_HALTED)
            return;
        ci_futex_wait(&ci_halt_releases, releases, COIR_NEVER);
    }
}

static void halt_came(struct ci_message *message)
{
    struct ci_halt *halt = ci_container_of(message, struct ci_halt, message);
    int32_t state = CI_HALT_ASKED;
    ci_store(&halt->sent, false); /* before the look at the state, which was set before a send */
    /* without a current worker the run has ended */
    if (ci_worker_current && ci_compare_exchange(&halt->state, &state, CI_HALT_HALTED))
        stand_still(halt);
}

void ci_halt_init(struct ci_worker *worker)
{
    worker->halt.message.deliver = halt_came;
}

/* In the signal handler, on the worker's thread: the task may just have ended. A free record has no
 * name (task.h 2), and is memory that ASan lets nobody read. */
static CI_UNINSTRUMENTED void note(struct ci_traced *traced)
{
    struct ci_halt *halt = ci_container_of(traced, struct ci_halt, traced);
    const struct ci_worker *worker = ci_container_of(halt, const struct ci_worker, halt);
    const struct ci_task *task = worker->fiber && worker->runnable ? worker->runnable->task : NULL;
    size_t len = 0;
    halt->running.task = task;
    halt->running.number = task ? task->number : 0;
    halt->running_fn = task ? (const void *)(uintptr_t)task->root.fn : NULL;
    for (; task && task->name && task->name[len] && len < CI_HALT_NAME - 1; len++)
        halt->running_name[len] = task->name[len];
    halt->running_name[len] = '\0';
}

void ci_halt_enter_thread(struct ci_worker *worker, bool answers)
{
    struct ci_halt *halt = &worker->halt;
    ci_store(&halt->thread, ci_thread_mark());
    if (ci_thread_trace_enter(&halt->traced, answers, note) == 0)
        ci_store(&halt->native, PRESENT);
}

void ci_halt_leave_thread(struct ci_worker *worker)
{
    struct ci_halt *halt = &worker->halt;
    ci_store(&halt->thread, NULL);
    if (ci_load(&halt->native) == ABSENT)
        return;
    for (int32_t present = PRESENT; !ci_compare_exchange(&halt->native, &present, ABSENT);
         present = PRESENT)
        ci_clock_sleep(look_min);
    ci_thread_trace_leave(&halt->traced);
}

void ci_halt_call(struct ci_worker *worker)
{
    ci_store(&worker->halt.state, CI_HALT_CALLS);
    ci_halt_tell(&ci_halt_answers);
}

int ci_halt_ask_stack(struct ci_worker *worker)
{
    struct ci_halt *halt = &worker->halt;
    int32_t present = PRESENT;
    if (!ci_compare_exchange(&halt->native, &present, IN_USE))
        return -ENOTSUP;
    int rc = ci_thread_trace_ask(&halt->traced);
    if (rc < 0)
        ci_store(&halt->native, PRESENT);
    return rc;
}

int ci_halt_await_stack(struct ci_worker *worker, coir_time end)
{
    int rc = ci_thread_trace_await(&worker->halt.traced, end);
    ci_store(&worker->halt.native, PRESENT);
    return rc;
}
