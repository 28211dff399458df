/* Scopes and the life of a task: spawn, end, join, cancel.
 *
 * 1. A scope's fields, its list of tasks and their results are its home worker's. A far task, which runs elsewhere, sends its end home.
 * 2. The first error of a scope that does not serve cancels its tasks. A task that was asked to end and ends with -ECANCELED or -ETIME
 *    did as it was asked: that is no error.
 * 3. A far task's record is freed when both its end and the answer to a cancel message that was sent to it have come home.
 *
 *    SPAWNED -- first run --> RUNNING -- function returns --> ENDED -- scope took the result --> (freed)
 */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "task/park.h"

static struct ci_handle *handle_of(coir_handle *handle)
{
    return (struct ci_handle *)(void *)handle;
}

/* ---- the end of a task ---- */

static void free_task(struct ci_task *task)
{
    struct ci_far_task *far = ci_container_of(task, struct ci_far_task, task);
    struct ci_worker *home = task->far ? far->home : task->worker;
    if (ci_unlikely(task->copied != 0)) {
        ci_pool_give(&home->copies, task->root.arg);
        task->copied = 0;
    }
    task->strand.interrupt = task->strand.cancelled = 0;
    task->name = NULL;
    if (task->far)
        ci_pool_give(&home->far_tasks, far);
    else
        ci_pool_give(&home->tasks, task);
}

static void give_result(struct ci_worker *worker, struct ci_handle *handle, int result)
{
    handle->task = NULL;
    handle->result = result;
    if (handle->waiter) {
        struct ci_strand *waiter = handle->waiter;
        handle->waiter = NULL;
        handle->future.result = result;
        ci_wake(worker, waiter, &handle->future);
    }
}

static CI_COLD void report_error(struct ci_scope *scope, const struct ci_task *task, int error)
{
    coir_runtime *runtime = scope->home->runtime;
    scope->errors++;
    ci_bump(&scope->home->task_errors);
    ci_log(runtime, COIR_LOG_DEBUG, "task %s ended with an error: %s", task->name ? task->name : "without a name", coir_strerror(error));
}

static void take_error(struct ci_scope *scope, const struct ci_task *task, int error)
{
    if ((error == -ECANCELED || error == -ETIME) && (task->strand.cancelled || scope->cancelled))
        return;
    if (scope->serving) {
        report_error(scope, task, error);
        return;
    }
    if (scope->error)
        return;
    scope->error = error;
    if (scope->root)
        ci_run_cancel(scope->home->runtime);
    coir_scope_cancel((coir_scope *)(void *)scope);
}

struct scope_op {
    coir_future future;
    struct ci_strand *strand;
};
CI_FIBER_OP_FITS(struct scope_op);

static void task_ended(struct ci_task *task)
{
    struct ci_scope *scope = task->scope;
    struct ci_worker *home = scope->home;
    int result = task->end.result;
    ci_list_unlink(&task->sibling);
    scope->live--;
    if (ci_unlikely(result < 0))
        take_error(scope, task, result);
    if (task->handle) {
        give_result(home, task->handle, result);
        task->handle = NULL;
    }
    if (ci_likely(!task->far) || !ci_container_of(task, struct ci_far_task, task)->awaits_answer)
        free_task(task); /* else the answer frees it */
    if (scope->live)
        return;
    if (scope->waiter) {
        coir_future *waiter = scope->waiter;
        scope->waiter = NULL;
        ci_wake(home, ci_container_of(waiter, struct scope_op, future)->strand, waiter);
    }
    if (scope->root)
        ci_run_remove_root(home->runtime);
}

/* On the home worker: the end of a far task came. */
static void far_end_came(struct ci_message *message)
{
    struct ci_task *task = ci_container_of((struct ci_strand *)(void *)message, struct ci_task, strand);
    struct ci_far_task *far = ci_container_of(task, struct ci_far_task, task);
    far->awaits_answer = far->cancel_sent && !far->cancel_seen;
    task_ended(task);
}

/* On the home worker: a task that had ended before the request to end it came sends the request back. */
static void far_answer_came(struct ci_message *message)
{
    free_task(&ci_container_of(message, struct ci_far_task, cancel)->task);
}

void ci_task_end(struct ci_task *task)
{
    ci_check(!task->strand.blocks); /* every block that the task entered has been left */
    if (ci_unlikely(task->locals != NULL)) {
        ci_local_drop(task->worker, task->locals);
        task->locals = NULL;
    }
    if (ci_likely(!task->far)) {
        task_ended(task);
        return;
    }
    struct ci_far_task *far = ci_container_of(task, struct ci_far_task, task);
    far->ended = true;
    struct ci_message *message = (struct ci_message *)(void *)&task->strand; /* its link and its innermost future: not queued any more */
    message->deliver = far_end_came;
    ci_loop_send(&far->home->loop, message);
}
_Static_assert(sizeof(struct ci_message) == offsetof(struct ci_strand, task), "a strand carries its task's last message");

static coir_future *end_poll(coir_future *future)
{
    struct ci_task *task = ci_container_of(future, struct ci_task, end);
    const coir_future *root = task->root.arg;
    if (root) /* else it has left its result, and may be gone */
        future->result = root->result;
    ci_task_end(task);
    return NULL;
}

static const coir_future_kind end_kind = {"ended", end_poll, NULL};

/* ---- spawn ---- */

void ci_scope_init(struct ci_scope *scope, struct ci_worker *home, bool serving)
{
    scope->block = (struct ci_block){0};
    scope->home = home;
    ci_list_init(&scope->tasks);
    scope->live = 0;
    scope->errors = 0;
    scope->error = scope->interrupt = 0;
    scope->serving = serving;
    scope->cancelled = scope->root = false;
    scope->waiter = NULL;
}

static int check_spawn(struct ci_worker *worker, const struct ci_scope *scope)
{
    if (!worker)
        return ci_no_fiber();
    if (!scope->home)
        return -ESRCH;
    if (scope->home != worker)
        return -EXDEV;
    return scope->cancelled ? -ECANCELED : 0;
}

/* A record of zeroes becomes one that can be used again and again. */
static CI_NOINLINE void make_record(struct ci_task *task, struct ci_worker *worker)
{
    task->strand.task = task;
    task->end.kind = &end_kind;
    task->root.future.kind = &ci_call_kind;
    task->root.future.caller = &task->end;
    task->worker = worker;
}

CI_INLINE struct ci_task *take_record(struct ci_worker *worker)
{
    struct ci_task *task = ci_pool_take(&worker->tasks);
    if (task && ci_unlikely(!task->worker))
        make_record(task, worker);
    return task;
}

/* False: the run has ended, and the record is free again. */
CI_INLINE bool adopt(struct ci_worker *worker, struct ci_scope *scope, struct ci_task *task)
{
    if (ci_unlikely(scope->live == 0 && scope->root) && !ci_run_add_root(worker->runtime)) {
        free_task(task);
        return false;
    }
    task->scope = scope;
    struct ci_local *locals = worker->strand ? worker->strand->task->locals : ci_carried_locals;
    if (ci_unlikely(locals != NULL))
        task->locals = ci_local_inherit(locals);
    ci_list_push(&scope->tasks, &task->sibling);
    scope->live++;
    ci_bump(&worker->tasks_started);
    return true;
}

static struct ci_scope *scope_or_root(struct ci_worker *worker, coir_scope *scope)
{
    return scope ? ci_scope_of(scope) : &worker->root;
}

static CI_COLD int no_task(const struct ci_pool *pool)
{
    return pool->live_max && pool->live >= pool->live_max ? -EAGAIN : -ENOMEM;
}

static coir_future *root_of(struct ci_task *task)
{
    return task->root.fn ? &task->root.future : task->root.arg;
}

/* A function with its argument, or a future as `arg` alone. */
CI_INLINE void set_root(struct ci_task *task, coir_task_fn *fn, void *arg)
{
    task->root.fn = fn;
    task->root.arg = arg;
    task->strand.inner = root_of(task);
    if (!fn)
        task->strand.inner->caller = &task->end;
}

/* As set_root; on the calling worker, without options. */
CI_INLINE int spawn_here(coir_scope *scope_words, coir_task_fn *fn, void *arg)
{
    struct ci_worker *worker = ci_worker_current;
    if (ci_unlikely(!worker))
        return ci_no_fiber();
    struct ci_scope *scope = scope_or_root(worker, scope_words);
    if (ci_unlikely(scope->home != worker || scope->cancelled))
        return check_spawn(worker, scope);
    struct ci_task *task = take_record(worker);
    if (ci_unlikely(!task))
        return no_task(&worker->tasks);
    if (ci_unlikely(!adopt(worker, scope, task)))
        return -COIR_EENDED;
    set_root(task, fn, arg);
    ci_ready(worker, &task->strand);
    return 0;
}

int coir_go(coir_scope *scope, coir_task_fn *fn, void *arg)
{
    return spawn_here(scope, fn, arg);
}

int ci_go_future(coir_scope *scope_words, const char *name, coir_future *root, struct ci_task **ret_task)
{
    struct ci_worker *worker = ci_worker_current;
    struct ci_scope *scope = worker ? scope_or_root(worker, scope_words) : ci_scope_of(scope_words);
    int rc = check_spawn(worker, scope);
    if (rc < 0)
        return rc;
    struct ci_task *task = take_record(worker);
    if (!task)
        return no_task(&worker->tasks);
    if (!adopt(worker, scope, task))
        return -COIR_EENDED;
    task->name = name;
    set_root(task, NULL, root);
    task->root.arg = NULL;
    ci_ready(worker, &task->strand);
    *ret_task = task;
    return 0;
}

/* On the worker where a far task is to run. */
static void far_task_came(struct ci_message *message)
{
    struct ci_task *task = ci_container_of((struct ci_strand *)(void *)message, struct ci_task, strand);
    task->strand.inner = root_of(task); /* the message's second word lay there */
    ci_ready(task->worker, &task->strand);
}

static void send_to(struct ci_worker *target, struct ci_task *task)
{
    task->worker = target;
    struct ci_message *message = (struct ci_message *)(void *)&task->strand;
    message->deliver = far_task_came;
    ci_loop_send(&target->loop, message);
}

static void wake_an_idle_worker(coir_runtime *runtime, const struct ci_worker *except);

static void share(coir_runtime *runtime, struct ci_worker *worker, struct ci_task *task)
{
    ci_lock_take(&runtime->shared_lock);
    task->worker = NULL;
    task->strand.next = NULL;
    *runtime->shared_tail = &task->strand;
    runtime->shared_tail = &task->strand.next;
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
    struct ci_strand *strand = runtime->shared;
    if (strand) {
        runtime->shared = strand->next;
        if (!runtime->shared)
            runtime->shared_tail = &runtime->shared;
        ci_store_relaxed(&runtime->shared_count, runtime->shared_count - 1);
        strand->task->worker = worker;
    }
    ci_lock_give(&runtime->shared_lock);
    if (!strand)
        return false;
    strand->interrupt = strand->cancelled; /* it may have been cancelled while it lay there */
    ci_ready(worker, strand);
    return true;
}

/* All others are alerted, for one that is about to fall asleep has looked already. Of those that sleep one is woken, which is enough: it
 * looks for shared work before it sleeps again. */
static void wake_an_idle_worker(coir_runtime *runtime, const struct ci_worker *except)
{
    for (int i = 0; i < runtime->worker_count; i++)
        if (&runtime->workers[i] != except)
            ci_store_relaxed(&runtime->workers[i].loop.alert, true);
    ci_fence(); /* after the alerts, before the look at `asleep`: pairs with the one in ci_loop_announce_sleep */
    for (int i = 0; i < runtime->worker_count; i++) {
        struct coir_loop *loop = &runtime->workers[i].loop;
        if (&runtime->workers[i] == except || !ci_load_relaxed(&loop->asleep))
            continue;
        ci_loop_alert(loop);
        return;
    }
}

static int check_options(const struct ci_worker *worker, const coir_go_options *options, const void *arg)
{
    if (options->size != sizeof *options || options->copy_size > COIR_COPY_MAX || (options->copy_size && !arg))
        return -EINVAL;
    if (options->worker != COIR_HERE && options->worker != COIR_ANYWHERE &&
        (options->worker < 0 || options->worker >= worker->runtime->worker_count))
        return -EINVAL;
    return 0;
}

static struct ci_task *take_near_or_far(struct ci_worker *worker, bool far)
{
    if (!far)
        return take_record(worker);
    struct ci_far_task *record = ci_pool_take(&worker->far_tasks);
    if (!record)
        return NULL;
    *record = (struct ci_far_task){.home = worker};
    make_record(&record->task, worker);
    return &record->task;
}

/* As set_root. */
static int spawn(coir_scope *scope_words, const coir_go_options *options, coir_task_fn *fn, void *arg)
{
    struct ci_worker *worker = ci_worker_current;
    if (!worker)
        return ci_no_fiber();
    struct ci_scope *scope = scope_or_root(worker, scope_words);
    int rc = check_spawn(worker, scope);
    if (rc == 0)
        rc = check_options(worker, options, arg);
    if (rc < 0)
        return rc;
    bool far = options->worker != COIR_HERE && options->worker != worker->index;
    void *copy = arg;
    if (options->copy_size) {
        if (!(copy = ci_pool_take(&worker->copies)))
            return -ENOMEM;
        memcpy(copy, arg, options->copy_size);
    }
    struct ci_task *task = take_near_or_far(worker, far);
    if (!task) {
        if (copy != arg)
            ci_pool_give(&worker->copies, copy);
        return no_task(far ? &worker->far_tasks : &worker->tasks);
    }
    task->far = far;
    task->copied = (uint16_t)options->copy_size;
    task->root.arg = copy;
    if (!adopt(worker, scope, task))
        return -COIR_EENDED;
    task->name = options->name;
    if (options->handle) {
        struct ci_handle *handle = task->handle = handle_of(options->handle);
        *handle = (struct ci_handle){.task = task, .used = true};
    }
    set_root(task, fn, copy);
    if (!far)
        ci_ready(worker, &task->strand);
    else if (options->worker == COIR_ANYWHERE)
        share(worker->runtime, worker, task);
    else
        send_to(&worker->runtime->workers[options->worker], task);
    return 0;
}

int coir_go_with(coir_scope *scope, const coir_go_options *options, coir_task_fn *fn, void *arg)
{
    return spawn(scope, options, fn, arg);
}

int coir_go_future(coir_scope *scope, const coir_go_options *options, coir_future *future)
{
    if (!options)
        return spawn_here(scope, NULL, future);
    return options->copy_size ? -EINVAL : spawn(scope, options, NULL, future);
}

int coir_go_any(coir_scope *scope, coir_task_fn *fn, void *arg)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.worker = COIR_ANYWHERE;
    return coir_go_with(scope, &options, fn, arg);
}

int coir_go_on(coir_scope *scope, int index, coir_task_fn *fn, void *arg)
{
    coir_go_options options = COIR_GO_OPTIONS;
    if (index < 0)
        return -EINVAL;
    options.worker = index;
    return coir_go_with(scope, &options, fn, arg);
}

int ci_go_on_every_worker(coir_scope *scope, const char *name, coir_task_fn *fn, void *arg)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = name;
    int count = coir_worker_count(coir_runtime_current()), rc = 0;
    for (options.worker = 0; rc == 0 && options.worker < count; options.worker++)
        rc = coir_go_with(scope, &options, fn, arg);
    return rc;
}

/* ---- cancel ---- */

/* On the worker where a far task runs or ran. */
static void far_cancel_came(struct ci_message *message)
{
    struct ci_far_task *far = ci_container_of(message, struct ci_far_task, cancel);
    if (far->ended) { /* its end is under way home and did not say that this was seen */
        far->cancel.deliver = far_answer_came;
        ci_loop_send(&far->home->loop, &far->cancel);
        return;
    }
    far->cancel_seen = true;
    ci_strand_cancel(&far->task.strand, far->reason);
}

static void cancel_far(struct ci_far_task *far, int reason)
{
    if (far->cancel_sent)
        return;
    coir_runtime *runtime = far->home->runtime;
    ci_lock_take(&runtime->shared_lock);
    struct ci_worker *target = far->task.worker;
    if (!target)
        far->task.strand.cancelled = reason; /* still shared: whoever takes it sees it */
    ci_lock_give(&runtime->shared_lock);
    if (!target)
        return;
    far->cancel_sent = true;
    far->reason = reason;
    far->cancel.deliver = far_cancel_came;
    ci_loop_send(&target->loop, &far->cancel);
}

static void cancel_task(struct ci_task *task, int reason)
{
    if (task->far)
        cancel_far(ci_container_of(task, struct ci_far_task, task), reason);
    else
        ci_strand_cancel(&task->strand, reason);
}

static void cancel_all(struct ci_scope *scope, int reason)
{
    scope->cancelled = true;
    ci_list_for_each (node, &scope->tasks)
        cancel_task(ci_container_of(node, struct ci_task, sibling), reason);
}

void ci_scope_interrupt(struct ci_scope *scope, int reason)
{
    if (!scope->interrupt)
        scope->interrupt = reason;
    cancel_all(scope, reason);
}

void coir_scope_cancel(coir_scope *scope)
{
    if (ci_forked())
        return;
    if (ci_scope_of(scope)->home)
        cancel_all(ci_scope_of(scope), -ECANCELED);
}

void coir_cancel(coir_handle *handle)
{
    if (ci_forked())
        return;
    if (handle_of(handle)->task)
        cancel_task(handle_of(handle)->task, -ECANCELED);
}

/* ---- scopes of a task ---- */

static coir_scope *open_scope(coir_scope *words, bool serving)
{
    struct ci_worker *worker = ci_worker_current;
    struct ci_scope *scope = ci_scope_of(words);
    bool in_fiber = worker && worker->fiber;
    ci_scope_init(scope, in_fiber ? worker : NULL, serving);
    if (!in_fiber)
        return words;
    int inherited = worker->strand->interrupt;
    ci_block_enter(&scope->block, worker->strand, CI_BLOCK_SCOPE);
    if (ci_unlikely(inherited)) {
        scope->interrupt = inherited;
        scope->cancelled = true;
    }
    return words;
}

coir_scope *coir_scope_open(coir_scope *scope)
{
    return open_scope(scope, false);
}

coir_scope *coir_serving_scope_open(coir_scope *scope)
{
    return open_scope(scope, true);
}

/* Joining cannot be cancelled, so it has no cancel. */
static const coir_future_kind scope_kind = {"the tasks of a scope", NULL, NULL};

int coir_scope_wait(coir_scope *words)
{
    struct ci_scope *scope = ci_scope_of(words);
    struct ci_worker *worker = ci_worker_current;
    if (!scope->home || !worker || !worker->fiber)
        return ci_no_fiber();
    if (scope->home != worker)
        return -EXDEV;
    if (scope->waiter)
        return -EBUSY;
    if (scope->live) {
        struct scope_op *op = CI_FIBER_OP(worker->fiber, struct scope_op);
        *op = (struct scope_op){{&scope_kind, &worker->fiber->back, 0, 0}, worker->strand};
        scope->waiter = &op->future;
        op->strand->inner = &op->future;
        ci_park_here(worker);
    }
    return scope->error ? scope->error : scope->interrupt;
}

void coir_scope_close(coir_scope *words)
{
    if (ci_forked())
        return;
    struct ci_scope *scope = ci_scope_of(words);
    if (!scope->home)
        return;
    if (scope->live)
        coir_scope_cancel(words);
    coir_scope_wait(words);
    scope->home = NULL;
    ci_block_leave(&scope->block);
}

size_t coir_scope_live(const coir_scope *scope)
{
    return ((const struct ci_scope *)(const void *)scope)->live;
}

uint64_t coir_scope_errors(const coir_scope *scope)
{
    return ((const struct ci_scope *)(const void *)scope)->errors;
}

/* ---- handles ---- */

static int join_cancel(coir_future *future, int reason)
{
    ci_container_of(future, struct ci_handle, future)->waiter = NULL;
    future->result = reason;
    return true;
}

static coir_future *join_poll(coir_future *future)
{
    struct ci_handle *handle = ci_container_of(future, struct ci_handle, future);
    struct ci_worker *worker = ci_worker_current;
    if (ci_leaf_refused(worker, future))
        return future->caller;
    if (!handle->task) {
        future->result = handle->used ? handle->result : -EINVAL;
        return ci_leaf_complete(worker, future);
    }
    handle->waiter = ci_leaf_suspend(worker, future);
    return NULL;
}

static const coir_future_kind join_kind = {"a task", join_poll, join_cancel};

coir_future *coir_join_op(coir_handle *words)
{
    struct ci_handle *handle = handle_of(words);
    ci_check(!handle->waiter);
    return coir_future_init(&handle->future, &join_kind);
}

int coir_join(coir_handle *words)
{
    int rc = 0;
    struct ci_handle *handle = handle_of(words);
    if (!ci_fiber_enter(&rc))
        return rc;
    if (!handle->used)
        return -EINVAL;
    if (!handle->task)
        return handle->result;
    if (handle->waiter)
        return -EBUSY;
    return ci_await(ci_worker_current, coir_join_op(words));
}

int coir_handle_ended(const coir_handle *words)
{
    const struct ci_handle *handle = (const struct ci_handle *)(const void *)words;
    return handle->used && !handle->task;
}

void coir_handle_release(coir_handle *words)
{
    if (ci_forked())
        return;
    if (!words)
        return;
    struct ci_handle *handle = handle_of(words);
    if (handle->task)
        handle->task->handle = NULL;
    handle->task = NULL;
}
