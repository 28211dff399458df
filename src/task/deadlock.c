/* Notices that nothing can ever run again.
 *
 * 1. A worker is stuck when it is idle and has announced its sleep, no timer is set, its driver has
 * nothing in flight, and its tasks wait for no offloaded call: then only another worker can wake
 * it, or a thread outside of the runtime.
 * 2. A worker that is woken takes back the announcement of its sleep before it ceases to be stuck.
 *
 * A worker that gets stuck looks at the others; it is a deadlock if all of them are stuck and no
 * other thread could send. It looks at both flags of a worker (asleep, stuck) and at its inbox: so
 * a message in flight shows as an inbox that is not empty, or as a sleep that has ended (2).
 *
 * The workers are looked at one after the other. The result is valid only if no worker became stuck
 * or ceased to be stuck in between: `stuck_changes` is incremented before each such change, and
 * compared.
 *
 * An alert is not looked at: one that is stored for a worker which sleeps on (anywhere.c wakes one
 * of those that it alerts) is cleared when that worker wakes, for whatever reason. What alerts
 * announce is looked at itself: shared tasks, and the end of the run. Who requests a stop is a
 * visitor, or a worker that runs.
 *
 * Threads that may send (holds, visitors, wakers) are looked at before the workers: one that has
 * gone in between has sent its message, which the look at the inboxes then finds. One that goes
 * without a message alerts a worker, which looks again: it may have hidden a deadlock. So one that
 * gives up a waker for a hold in between is found, too: the alert has ended a sleep. A thread that
 * only keeps the runtime (runtime.h) sends nothing. */
#include "task/deadlock.h"

#include "base/check.h"
#include "task/dump.h"
#include "task/extension.h"
#include "task/log.h"
#include "task/place.h"
#include "task/remote.h"
#include "task/run_state.h"

enum { INDENT_MOST = 100 }; /* the end of a line that is too long is cut */

static void set_stuck(struct ci_worker *worker, bool stuck)
{
    ci_fetch_add(&worker->runtime->stuck_changes, 1);
    ci_store(&worker->stuck, stuck);
}

void ci_deadlock_awake(struct ci_worker *worker)
{
    ci_check(!ci_load_relaxed(&worker->loop.asleep), "deadlock.c 2");
    set_stuck(worker, false);
}

static bool all_stuck(coir_runtime *runtime)
{
    for (int i = 0; i < runtime->worker_count; i++) {
        struct ci_worker *worker = &runtime->workers[i];
        if (!ci_load(&worker->stuck) || !ci_load(&worker->loop.asleep) ||
            !ci_inbox_empty(&worker->loop.inbox))
            return false;
    }
    return true;
}

bool ci_deadlock_may_sleep(struct coir_loop *loop)
{
    struct ci_worker *worker = ci_container_of(loop, struct ci_worker, loop);
    coir_runtime *runtime = worker->runtime;
    if (loop->driver->pending || worker->offloaded || ci_load(&runtime->deadlocked) ||
        ci_run_ended(runtime))
        return true;
    ci_check(ci_load_relaxed(&loop->idle), "deadlock.c 1");
    set_stuck(worker, true);
    uint32_t changes = ci_load(&runtime->stuck_changes);
    bool others = ci_load(&runtime->holds) || ci_load(&runtime->visitors) ||
                  ci_load(&runtime->was_visited) || ci_runtime_extensions_awaited(runtime) ||
                  ci_wakers_exported(runtime->wakers);
    if (others || !all_stuck(runtime) || ci_load(&runtime->shared_count) ||
        ci_load(&runtime->run) < CI_RUN_ROOT || ci_load(&runtime->stuck_changes) != changes)
        return true;
    if (!ci_exchange(&runtime->deadlocked, true)) {
        ci_log(runtime, COIR_LOG_ERROR,
               "deadlock: every task waits, and nothing is left that could wake one");
        ci_run_alert(runtime);
    }
    return false;
}

/* Every worker sleeps or tells: so the task does not move, whichever worker runs it. */
static void tell(void *arg, int depth, const char *name, const char *waits_for, int cancelled,
                 const struct ci_task *task)
{
    const struct ci_worker *worker = arg;
    int indent = depth < INDENT_MOST / 2 ? 2 * depth : INDENT_MOST;
    char place[CI_PLACE_TEXT] = "", spawned[CI_PLACE_TEXT] = "";
    if (task && task->worker && !ci_remote_task_in_transit(task)) {
        ci_place_of_task(task, place);
        ci_place_of_call(task->spawned_at, spawned);
    }
    ci_log(worker->runtime, COIR_LOG_ERROR, "worker %d: %*stask %.160s waits for %s%s%s%s%s%s",
           worker->index, indent, "", name, waits_for, cancelled ? " (cancelled)" : "",
           *place ? ", in " : "", place, *spawned ? "; spawned by " : "", spawned);
}

void ci_deadlock_tell(struct ci_worker *worker)
{
    coir_runtime *runtime = worker->runtime;
    ci_worker_dump(worker, tell, worker);
    bool last = ci_fetch_add(&runtime->told, 1) + 1 == runtime->worker_count;
    if (last && runtime->config.deadlock == COIR_DEADLOCK_END)
        /* only after the last worker's lines: a cancel changes the tasks that are listed */
        ci_run_cancel(runtime);
}
