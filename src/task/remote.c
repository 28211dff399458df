/* Remote tasks: those that run on another worker than the one that spawned them, or that belong to
 * a scope of another worker.
 *
 * Up to three workers are involved. The *origin* spawned the task: its record, its copied argument
 * and its handle are there. The *runner* runs it. The *home* is the worker of its scope. Each pair
 * talks by messages that lie in the record; the origin is in the middle.
 *
 *        origin -- start ---> runner            origin -- member --> home     (only if the home is
 * another worker) origin -- cancel --> runner            origin <-- cancel -- home origin <-- end
 * ----- runner            origin -- end -----> home origin <-- answer -- runner            origin
 * <-- release -- home
 *
 * 1. A member counts in its scope's `arriving` before the spawn returns, and in `live` from the
 * moment the home hears of it: the scope does not end in between. That the home hears of it before
 * it hears of the task's end follows from the order in which they were sent.
 * 2. The runnable's first two words carry `start` to the runner and `end` to the origin and to the
 * home, then `release`: the task is not queued then. `membership` carries `member`, then the home's
 * request to cancel.
 * 3. The record is freed at its origin, when the home has released it and the answer to a request
 * to cancel that the runner had not seen has come. The home's request to cancel is delivered before
 * its release, which was sent later.
 */
#include <errno.h>

#include "task/task.h"

static struct ci_remote_task *remote_of(struct ci_task *task)
{
    return ci_container_of(task, struct ci_remote_task, task);
}

struct ci_task *ci_remote_task_take(struct ci_worker *origin)
{
    struct ci_remote_task *remote = ci_pool_take(&origin->remote_tasks);
    if (!remote)
        return NULL;
    *remote = (struct ci_remote_task){.origin = origin};
    ci_task_make_record(&remote->task, origin);
    remote->task.remote = true;
    return &remote->task;
}

static struct ci_message *runnable_message(struct ci_task *task,
                                           void (*deliver)(struct ci_message *message))
{
    struct ci_message *message = (struct ci_message *)(void *)&task->runnable;
    message->deliver = deliver;
    return message;
}
_Static_assert(sizeof(struct ci_message) == offsetof(struct ci_runnable, task),
               "a runnable carries its task's messages");

static struct ci_remote_task *from_runnable(struct ci_message *message)
{
    return ci_container_of((struct ci_runnable *)(void *)message, struct ci_remote_task,
                           task.runnable);
}

static void free_if_back(struct ci_remote_task *remote)
{
    if (remote->awaits_answer || remote->away)
        return;
    ci_task_free_argument(&remote->task, remote->origin);
    ci_pool_give(&remote->origin->remote_tasks, remote);
}

void ci_remote_task_drop(struct ci_task *task)
{
    free_if_back(remote_of(task));
}

/* ---- between origin and home ---- */

static void cancel_at_origin(struct ci_remote_task *remote, int reason);

/* On the origin: the scope asks the task to end. */
static void scope_cancel_came(struct ci_message *message)
{
    struct ci_remote_task *remote = ci_container_of(message, struct ci_remote_task, membership);
    if (!remote->over)
        cancel_at_origin(remote, remote->scope_reason);
}

static void cancel_from_home(struct ci_remote_task *remote, int reason)
{
    if (remote->scope_reason)
        return;
    remote->scope_reason = reason;
    remote->membership.deliver = scope_cancel_came;
    ci_loop_send(&remote->origin->loop, &remote->membership);
}

/* On the home worker. */
static void member_came(struct ci_message *message)
{
    struct ci_remote_task *remote = ci_container_of(message, struct ci_remote_task, membership);
    struct ci_scope *scope = remote->task.scope;
    ci_scope_add(scope, &remote->task);
    ci_fetch_sub(&scope->arriving, 1);
    if (scope->cancelled) /* since the origin looked */
        cancel_from_home(remote, scope->interrupt ? scope->interrupt : -ECANCELED);
}

/* On the origin. */
static void release_came(struct ci_message *message)
{
    struct ci_remote_task *remote = from_runnable(message);
    remote->away = false;
    free_if_back(remote);
}

/* On the home worker. */
static void member_end_came(struct ci_message *message)
{
    struct ci_remote_task *remote = from_runnable(message);
    struct ci_worker *origin = remote->origin;
    ci_scope_remove(remote->task.scope, &remote->task);
    ci_loop_send(&origin->loop, runnable_message(&remote->task, release_came));
}

/* On the origin: the task has ended. */
static void end_at_origin(struct ci_remote_task *remote)
{
    struct ci_task *task = &remote->task;
    remote->over = true;
    if (!remote->away)
        ci_scope_remove(task->scope, task);
    ci_task_give_result(task);
    if (remote->away)
        ci_loop_send(&task->scope->home->loop, runnable_message(task, member_end_came));
    else
        free_if_back(remote);
}

/* ---- between origin and runner ---- */

/* On the origin. */
static void end_came(struct ci_message *message)
{
    struct ci_remote_task *remote = from_runnable(message);
    remote->awaits_answer = remote->cancel_sent && !remote->cancel_seen;
    end_at_origin(remote);
}

/* On the origin: a task that had ended before the request to end it came sends the request back. */
static void answer_came(struct ci_message *message)
{
    struct ci_remote_task *remote = ci_container_of(message, struct ci_remote_task, cancel);
    remote->awaits_answer = false;
    free_if_back(remote);
}

void ci_remote_task_end(struct ci_task *task)
{
    struct ci_remote_task *remote = remote_of(task);
    if (task->worker == remote->origin) {
        end_at_origin(remote);
        return;
    }
    remote->ended = true;
    ci_loop_send(&remote->origin->loop, runnable_message(task, end_came));
}

/* On the runner. */
static void cancel_came(struct ci_message *message)
{
    struct ci_remote_task *remote = ci_container_of(message, struct ci_remote_task, cancel);
    if (remote->ended) {
        /* its end is on its way to the origin and did not say that this was seen */
        remote->cancel.deliver = answer_came;
        ci_loop_send(&remote->origin->loop, &remote->cancel);
        return;
    }
    remote->cancel_seen = true;
    ci_runnable_cancel(&remote->task.runnable, remote->reason);
}

static void cancel_at_origin(struct ci_remote_task *remote, int reason)
{
    if (remote->cancel_sent)
        return;
    coir_runtime *runtime = remote->origin->runtime;
    ci_lock_take(&runtime->shared_lock);
    struct ci_worker *target = remote->task.worker;
    if (!target && !remote->task.runnable.cancelled)
        remote->task.runnable.cancelled = reason; /* still shared: whoever takes it sees it */
    ci_lock_give(&runtime->shared_lock);
    if (target == remote->origin)
        ci_runnable_cancel(&remote->task.runnable, reason);
    if (!target || target == remote->origin)
        return;
    remote->cancel_sent = true;
    remote->reason = reason;
    remote->cancel.deliver = cancel_came;
    ci_loop_send(&target->loop, &remote->cancel);
}

void ci_remote_task_cancel(struct ci_task *task, int reason)
{
    cancel_at_origin(remote_of(task), reason);
}

void ci_remote_member_cancel(struct ci_task *task, int reason)
{
    struct ci_remote_task *remote = remote_of(task);
    if (remote->away)
        cancel_from_home(remote, reason);
    else
        cancel_at_origin(remote, reason);
}

/* ---- start ---- */

/* On the runner. */
static void start_came(struct ci_message *message)
{
    struct ci_task *task = &from_runnable(message)->task;
    task->runnable.inner = &task->root.future; /* the message's second word lay there */
    ci_ready(task->worker, &task->runnable);
}

/* All others are alerted, for one that is about to fall asleep has looked already. Of those that
 * sleep one is woken, which is enough: it looks for shared work before it sleeps again. */
static void wake_an_idle_worker(coir_runtime *runtime, const struct ci_worker *except)
{
    for (int i = 0; i < runtime->worker_count; i++)
        if (&runtime->workers[i] != except)
            ci_store_relaxed(&runtime->workers[i].loop.alert, true);
    /* after the alerts, before the look at `asleep`: pairs with the one in ci_loop_announce_sleep
     */
    ci_fence();
    for (int i = 0; i < runtime->worker_count; i++) {
        struct coir_loop *loop = &runtime->workers[i].loop;
        if (&runtime->workers[i] == except || !ci_load_relaxed(&loop->asleep))
            continue;
        ci_loop_alert(loop);
        return;
    }
}

static void share(coir_runtime *runtime, struct ci_worker *worker, struct ci_task *task)
{
    ci_lock_take(&runtime->shared_lock);
    task->worker = NULL;
    task->runnable.next = NULL;
    *runtime->shared_tail = &task->runnable;
    runtime->shared_tail = &task->runnable.next;
    ci_store_relaxed(&runtime->shared_count, runtime->shared_count + 1);
    ci_lock_give(&runtime->shared_lock);
    wake_an_idle_worker(runtime, worker);
}

bool ci_runtime_take_shared(struct ci_worker *worker)
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
    runnable->interrupt = runnable->cancelled; /* it may have been cancelled while it lay there */
    ci_ready(worker, runnable);
    return true;
}

/* The home must not see the scope empty from here on: the count comes before everything that may
 * make it look. */
static void become_member(struct ci_remote_task *remote, struct ci_scope *scope)
{
    /* pairs with the look at it in coir_scope_wait, through whatever tells the home of this spawn
     */
    ci_fetch_add(&scope->arriving, 1);
    remote->away = true;
    remote->membership.deliver = member_came;
    ci_loop_send(&scope->home->loop, &remote->membership);
}

void ci_remote_task_start(struct ci_task *task, int placement)
{
    struct ci_remote_task *remote = remote_of(task);
    struct ci_worker *origin = remote->origin;
    if (task->scope->home == origin)
        ci_scope_add(task->scope, task);
    else
        become_member(remote, task->scope);
    if (placement == COIR_ANYWHERE) {
        share(origin->runtime, origin, task);
        return;
    }
    task->worker =
        placement == COIR_HERE ? origin : &origin->runtime->workers[placement - COIR_FIRST_WORKER];
    if (task->worker == origin)
        ci_ready(origin, &task->runnable);
    else
        ci_loop_send(&task->worker->loop, runnable_message(task, start_came));
}
