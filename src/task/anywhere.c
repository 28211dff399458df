/* Tasks that any worker may run: the queue that the workers of a runtime share. */
#include "task/anywhere.h"

#include "task/runtime.h"
#include "task/trace_point.h"
#include "task/waiter.h"

/* Alerts every other worker: one that is about to sleep may have looked at the queue already. Wakes
 * one of those that sleep, which is enough: it looks for shared work before it sleeps again. */
static void wake_an_idle_worker(coir_runtime *runtime, const struct ci_worker *except)
{
    for (int i = 0; i < runtime->worker_count; i++)
        if (&runtime->workers[i] != except)
            ci_store_relaxed(&runtime->workers[i].loop.alert, true);
    /* orders the alerts before the loads of `asleep`: pairs with the fence in
     * ci_loop_announce_sleep */
    ci_fence();
    for (int i = 0; i < runtime->worker_count; i++) {
        struct coir_loop *loop = &runtime->workers[i].loop;
        if (&runtime->workers[i] == except || !ci_load_relaxed(&loop->asleep))
            continue;
        ci_loop_alert(loop);
        return;
    }
}

void ci_share_task(struct ci_worker *worker, struct ci_task *task)
{
    coir_runtime *runtime = worker->runtime;
    ci_lock_take(&runtime->shared_lock);
    task->worker = NULL;
    task->runnable.next = NULL;
    *runtime->shared_tail = &task->runnable;
    runtime->shared_tail = &task->runnable.next;
    ci_store_relaxed(&runtime->shared_count, runtime->shared_count + 1);
    ci_lock_give(&runtime->shared_lock);
    wake_an_idle_worker(runtime, worker);
}

bool ci_take_shared_task(struct ci_worker *worker)
{
    coir_runtime *runtime = worker->runtime;
    if (ci_load_relaxed(&runtime->shared_count) == 0)
        return false;
    ci_lock_take(&runtime->shared_lock);
    struct ci_runnable *runnable = runtime->shared;
    if (runnable) {
        runtime->shared = runnable->next;
        if (!runtime->shared)
            runtime->shared_tail = &runtime->shared;
        ci_store_relaxed(&runtime->shared_count, runtime->shared_count - 1);
        runnable->task->worker = worker;
    }
    ci_lock_give(&runtime->shared_lock);
    if (!runnable)
        return false;
    runnable->interrupt = runnable->cancelled; /* cancelled while it was queued */
    ci_trace_point(worker, CI_TRACE_TAKEN, runnable->task, NULL, .fn = NULL);
    ci_ready(worker, runnable);
    return true;
}

struct ci_worker *ci_cancel_shared_task(struct ci_worker *origin, struct ci_task *task, int reason)
{
    coir_runtime *runtime = origin->runtime;
    ci_lock_take(&runtime->shared_lock);
    struct ci_worker *target = task->worker;
    if (!target && !task->runnable.cancelled)
        task->runnable.cancelled = reason;
    ci_lock_give(&runtime->shared_lock);
    return target;
}
