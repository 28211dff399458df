/* The state of a run, decided once for all workers; it is one word, coir_runtime.run.
 *
 *   CREATED -- begin --> RUNNING -- stop --> STOPPING
 *      |                  ^   `--.              |
 *      |            begin |      |  last root   | last root
 *      |                  |      v              |
 *      |               SETTLED  ENDED <---------'
 *      |                  ^      |  ^
 *      |                  `------'  |
 *      `---------- free ------------'
 *
 *   CREATED, SETTLED -> RUNNING: ci_run_open. It holds one root until every thread has started
 *                                and the first task is spawned.
 *   RUNNING -> STOPPING:         coir_runtime_stop (the bit CI_RUN_STOP: the first task is
 *                                cancelled, the background later, see background.c), ci_run_cancel
 *                                (CI_RUN_STOP_AT_ONCE: everything). Tasks run until they return.
 *   RUNNING, STOPPING -> ENDED:  ci_run_remove_root, of the last one. Workers leave.
 *   ENDED -> SETTLED:            ci_run_settle, when all threads are joined and no sender is left.
 *   CREATED -> ENDED:            ci_run_close, of a runtime that never ran.
 *
 * 1. Phase, stop and the number of root scopes that have tasks are one word. The run ends with
 *    the change that makes that number 0, and nothing makes it more than 0 again but the next
 *    begin: a spawn that would is refused (-COIR_EENDED). Every other task lives in a scope of a
 *    task of a root scope, so no task runs, or waits for a worker, once a worker may leave.
 * 2. A plain thread counts itself among the visitors, then checks the phase, then sends. The run
 *    is settled after it has ended and the visitors have left, so every message is either
 *    delivered or refused. A post does the same with its queue's lock held (post.c). A
 *    thread that halts workers counts itself among the keepers instead (halt.h 2); one that
 *    releases or stops the runtime is a keeper until it has alerted the workers.
 *
 * A stop request outside of a run applies to the next one. The end of a run clears the request that
 * applied to it.
 */
#ifndef CI_TASK_RUN_STATE_H
#define CI_TASK_RUN_STATE_H

#include "task/runtime.h"

/* The word is a sum: the phase; CI_RUN_STOP, a stop request (outside of a run, for the next one);
 * CI_RUN_STOP_AT_ONCE, a stop that does not wait for background tasks; and CI_RUN_ROOT times the
 * number of root scopes that have tasks. */
enum {
    CI_RUN_CREATED,
    CI_RUN_RUNNING,
    CI_RUN_ENDED,
    CI_RUN_SETTLED,
    CI_RUN_PHASE = 3,
    CI_RUN_STOP = 4,
    CI_RUN_STOP_AT_ONCE = 8,
    CI_RUN_ROOT = 16
};

static inline uint32_t ci_run_phase(uint32_t run)
{
    return run & CI_RUN_PHASE;
}

/* No task is left, and none will start before the next run. */
static inline bool ci_run_ended(const coir_runtime *runtime)
{
    return ci_load(&runtime->run) & CI_RUN_ENDED;
}

/* Opens a run, with one root held. -EBUSY: a run is open. */
int ci_run_open(coir_runtime *runtime);

/* Called as root scopes get their first task and lose their last. False: the run has ended, the
 * task is refused. */
bool ci_run_add_root(coir_runtime *runtime);
void ci_run_remove_root(coir_runtime *runtime);

/* Cancels everything in the run in progress, without time for draining. Without a run it does
 * nothing (coir_runtime_stop would stop the next one). */
void ci_run_cancel(coir_runtime *runtime);

/* Makes every worker look at the runtime's state before it sleeps again. */
void ci_run_alert(coir_runtime *runtime);

/* The calling thread, a keeper, could have woken tasks, and now cannot: the workers look for the
 * deadlock that it may have hidden. */
void ci_run_look_again(coir_runtime *runtime);

/* After the run's end, when no thread of the runtime is left: delivers the remaining messages. */
void ci_run_settle(coir_runtime *runtime);

/* Whether the calling thread is no worker of the runtime. */
bool ci_run_is_outside(const coir_runtime *runtime);

/* A plain thread sends, and may do so again. The word is written once, as all threads read it. */
static inline void ci_run_note_visit(coir_runtime *runtime)
{
    if (!ci_load_relaxed(&runtime->was_visited))
        ci_store_relaxed(&runtime->was_visited, true);
}

/* Sends to a worker from any thread. A task of the runtime must be waiting for the message: that
 * keeps the runtime alive while this thread sends. */
void ci_runtime_send(struct ci_worker *worker, struct ci_message *message);

/* As ci_runtime_send, if no task may be waiting for the message. -COIR_EENDED: the run has ended,
 * the message was not sent. */
int ci_run_send(struct ci_worker *worker, struct ci_message *message);

#endif
