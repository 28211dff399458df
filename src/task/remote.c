/* Remote tasks: those that run on another worker than the one that spawned them, or that belong to
 * a scope of another worker.
 *
 * Up to three workers are involved. The *origin* spawned the task: its record, its copied argument
 * and its handle are there. The *runner* runs it. The *home* is the worker of its scope. They
 * exchange messages that lie in the record: origin with runner (left), origin with home (right,
 * only if the home is another worker).
 *
 *        origin -- start ---> runner            origin -- member --> home
 *        origin -- cancel --> runner            origin <-- cancel -- home
 *        origin <-- end ----- runner            origin -- end -----> home
 *        origin <-- answer -- runner            origin <-- release -- home
 *
 * 1. A member counts in its scope's `arriving` before the spawn returns, and in `live` from the
 * moment its home receives `member`: the scope does not end in between. The home receives `member`
 * before the task's end, because it was sent before.
 * 2. The runnable's first two words carry `start` to the runner, `end` to the origin and to the
 * home, then `release`: the task is in no run queue then. `membership` carries `member`, then the
 * home's request to cancel. Each message is delivered on the worker that its arrow points to.
 * 3. The record is freed at its origin, when the task has ended, the home has released it, and the
 * answer to a request to cancel that the runner had not seen has come. The home's request to cancel
 * is delivered before its release, which was sent later.
 */
#include "task/remote.h"

#include <errno.h>

#include "base/check.h"
#include "task/anywhere.h"
#include "task/membership.h"

static struct ci_remote_task *remote_of(struct ci_task *task)
{
    return ci_container_of(task, struct ci_remote_task, task);
}

static coir_future *remote_end_poll(coir_future *end);
static void cancel_remote(struct ci_task *task, int reason);

static const coir_future_kind remote_end_kind = COIR_FUTURE_KIND("ended", remote_end_poll, NULL);

struct ci_task *ci_remote_task_take(struct ci_worker *origin)
{
    struct ci_remote_task *remote = ci_pool_take(&origin->remote_tasks);
    if (!remote)
        return NULL;
    *remote = (struct ci_remote_task){.origin = origin};
    ci_task_make_record(&remote->task, origin);
    remote->task.end.kind = &remote_end_kind;
    remote->task.cancel = cancel_remote;
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

/* Whether a message that concerns `worker` is delivered there. While a run is being settled there
 * is no current worker, and no other thread either. */
static bool is_on(const struct ci_worker *worker)
{
    return !ci_worker_current || ci_worker_current == worker;
}

static void free_remote(struct ci_remote_task *remote)
{
    ci_check(!remote->awaits_answer && !remote->away && is_on(remote->origin), "remote.c 3");
    ci_task_free_argument(&remote->task, remote->origin);
    ci_pool_give(&remote->origin->remote_tasks, remote);
}

static void free_if_back(struct ci_remote_task *remote)
{
    if (!remote->awaits_answer && !remote->away)
        free_remote(remote);
}

void ci_remote_task_drop(struct ci_task *task)
{
    free_remote(remote_of(task));
}

/* ---- between origin and home ---- */

/* On the home worker. The scope may be gone after this. */
static void leave_scope(struct ci_task *task)
{
    struct ci_scope *scope = task->scope;
    ci_scope_take_off(scope, task);
    ci_scope_wake_if_empty(scope);
}

static void cancel_at_origin(struct ci_remote_task *remote, int reason);

/* On the origin: the scope's request to cancel the task. */
static void scope_cancel_came(struct ci_message *message)
{
    struct ci_remote_task *remote = ci_container_of(message, struct ci_remote_task, membership);
    ci_check(is_on(remote->origin), "remote.c 2");
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
    ci_check(is_on(scope->home), "remote.c 2");
    ci_scope_add(scope, &remote->task);
    int32_t arriving = ci_fetch_sub(&scope->arriving, 1);
    ci_check(arriving > 0, "remote.c 1");
    if (scope->cancelled) /* cancelled after the origin looked */
        cancel_from_home(remote, scope->interrupt ? scope->interrupt : -ECANCELED);
}

/* On the origin. */
static void release_came(struct ci_message *message)
{
    struct ci_remote_task *remote = from_runnable(message);
    ci_check(remote->over && is_on(remote->origin), "remote.c 3");
    remote->away = false;
    free_if_back(remote);
}

/* On the home worker. */
static void member_end_came(struct ci_message *message)
{
    struct ci_remote_task *remote = from_runnable(message);
    struct ci_worker *origin = remote->origin;
    ci_check(is_on(remote->task.scope->home), "remote.c 2");
    leave_scope(&remote->task);
    ci_loop_send(&origin->loop, runnable_message(&remote->task, release_came));
}

/* On the origin: the task has ended. */
static void end_at_origin(struct ci_remote_task *remote)
{
    struct ci_task *task = &remote->task;
    remote->over = true;
    if (!remote->away)
        leave_scope(task);
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
    ci_check(is_on(remote->origin), "remote.c 2");
    remote->awaits_answer = remote->cancel_sent && !remote->cancel_seen;
    end_at_origin(remote);
}

/* On the origin: a request to cancel reached the runner after the task's end, and comes back. */
static void answer_came(struct ci_message *message)
{
    struct ci_remote_task *remote = ci_container_of(message, struct ci_remote_task, cancel);
    ci_check(remote->over, "remote.c 3"); /* the end was sent before the answer */
    remote->awaits_answer = false;
    free_if_back(remote);
}

/* On the runner. */
static coir_future *remote_end_poll(coir_future *end)
{
    struct ci_task *task = ci_container_of(end, struct ci_task, end);
    struct ci_remote_task *remote = remote_of(task);
    ci_task_end(task);
    if (task->worker == remote->origin) {
        end_at_origin(remote);
        return NULL;
    }
    remote->ended = true;
    ci_loop_send(&remote->origin->loop, runnable_message(task, end_came));
    return NULL;
}

/* On the runner. */
static void cancel_came(struct ci_message *message)
{
    struct ci_remote_task *remote = ci_container_of(message, struct ci_remote_task, cancel);
    ci_check(is_on(remote->task.worker), "remote.c 2");
    if (remote->ended) {
        /* its end is in flight to the origin, and was sent before this request was seen */
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
    struct ci_worker *target = ci_cancel_shared_task(remote->origin, &remote->task, reason);
    if (target == remote->origin)
        ci_runnable_cancel(&remote->task.runnable, reason);
    if (!target || target == remote->origin)
        return;
    remote->cancel_sent = true;
    remote->reason = reason;
    remote->cancel.deliver = cancel_came;
    ci_loop_send(&target->loop, &remote->cancel);
}

/* On the origin, or on the home of the task's scope. */
static void cancel_remote(struct ci_task *task, int reason)
{
    struct ci_remote_task *remote = remote_of(task);
    if (ci_worker_current != remote->origin)
        cancel_from_home(remote, reason);
    else
        cancel_at_origin(remote, reason);
}

/* ---- start ---- */

/* On the runner. */
static void start_came(struct ci_message *message)
{
    struct ci_task *task = &from_runnable(message)->task;
    ci_check(is_on(task->worker), "remote.c 2");
    task->runnable.inner = &task->root.future; /* the message's second word lay there */
    ci_ready(task->worker, &task->runnable);
}

/* From here on the home must not find the scope empty: the task is counted before the home can
 * learn of the spawn. */
static void become_member(struct ci_remote_task *remote, struct ci_scope *scope)
{
    /* pairs with the load in coir_scope_wait; ordered by the message that tells the home of this
     * spawn */
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
        ci_share_task(origin, task);
        return;
    }
    task->worker =
        placement == COIR_HERE ? origin : &origin->runtime->workers[placement - COIR_FIRST_WORKER];
    if (task->worker == origin)
        ci_ready(origin, &task->runnable);
    else
        ci_loop_send(&task->worker->loop, runnable_message(task, start_came));
}

bool ci_remote_task_in_transit(const struct ci_task *task)
{
    const struct ci_message *message = (const struct ci_message *)(const void *)&task->runnable;
    return task->end.kind == &remote_end_kind &&
           (message->deliver == start_came || message->deliver == end_came ||
            message->deliver == member_end_came || message->deliver == release_came);
}
