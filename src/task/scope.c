/* Scopes and the life of a task: spawn, end, join, cancel.
 *
 * 1. A scope's fields and its list of tasks are its home worker's, but for `arriving`: any worker
 * counts what it spawns there before it sends word (remote.c). The scope is empty when neither
 * `live` nor `arriving` counts anything.
 * 2. The first error of a scope that does not serve cancels its tasks. A task that was asked to end
 * and ends with -ECANCELED or -ETIME did as it was asked: that is no error.
 *
 *    SPAWNED -- first run --> RUNNING -- function returns --> ENDED -- scope took the result -->
 * (freed)
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "task/park.h"

static struct ci_handle *handle_of(coir_handle *handle)
{
    return (struct ci_handle *)(void *)handle;
}

/* ---- the end of a task ---- */

void ci_task_free_argument(struct ci_task *task, struct ci_worker *origin)
{
    if (ci_likely(task->copied == 0))
        return;
    ci_pool_give(&origin->copies, task->root.arg);
    task->copied = 0;
}

/* Leaves the record as the next spawn expects it. */
CI_INLINE void free_task(struct ci_worker *worker, struct ci_task *task)
{
    ci_task_free_argument(task, worker);
    task->runnable.interrupt = task->runnable.cancelled = 0;
    task->name = NULL;
    ci_pool_give(&worker->tasks, task);
}

/* Says so once on each worker. */
static CI_COLD void report_dropped(const struct ci_task *task)
{
    struct ci_worker *worker = ci_worker_current;
    if (!worker || worker->told_dropped)
        return;
    worker->told_dropped = true;
    ci_log(worker->runtime, COIR_LOG_WARNING,
           "the result %" PRId64 " of the task \"%s\" is dropped: a task returns 0 or a negative "
           "error; anything else is for its handle alone",
           task->end.result, task->name ? task->name : "without a name");
}

void ci_task_give_result(struct ci_task *task)
{
    if (CI_DEBUG && ci_unlikely(task->end.result > 0 && !task->handle))
        report_dropped(task);
    struct ci_handle *handle = task->handle;
    if (ci_likely(!handle))
        return;
    task->handle = NULL;
    handle->task = NULL;
    handle->result = task->end.result < INT32_MAX ? (int32_t)task->end.result : INT32_MAX;
    if (handle->waiter) {
        struct ci_runnable *waiter = handle->waiter;
        handle->waiter = NULL;
        handle->future.result = handle->result;
        ci_wake(waiter->task->worker, waiter, &handle->future);
    }
}

static CI_COLD void report_error(struct ci_scope *scope, struct ci_task *task, int error)
{
    scope->errors++;
    ci_bump(&scope->home->task_errors);
    if (scope->root)
        ci_background_failed(task, error);
    else
        ci_log(scope->home->runtime, COIR_LOG_DEBUG, "task %s ended with an error: %s (error %u)",
               task->name ? task->name : "without a name", coir_strerror(error),
               ci_error_number(error));
}

static CI_COLD void take_error(struct ci_scope *scope, struct ci_task *task, int error)
{
    if ((error == -ECANCELED || error == -ETIME) && (task->runnable.cancelled || scope->cancelled))
        return;
    if (scope->serving) {
        report_error(scope, task, error);
        return;
    }
    if (scope->error)
        return;
    scope->error = error;
    coir_scope_cancel((coir_scope *)(void *)scope);
}

struct scope_op {
    coir_future future;
    struct ci_runnable *runnable;
    struct ci_scope *scope;
};
CI_FIBER_OP_FITS(struct scope_op);

/* The last task has ended; but for those that are on their way. */
CI_INLINE void emptied(struct ci_scope *scope)
{
    if (ci_unlikely(ci_load_relaxed(&scope->arriving))) /* pairs with become_member */
        return;
    if (scope->waiter) {
        coir_future *waiter = scope->waiter;
        scope->waiter = NULL;
        ci_wake(scope->home, ci_container_of(waiter, struct scope_op, future)->runnable, waiter);
    }
    if (scope->root)
        ci_run_remove_root(scope->home->runtime);
}

CI_INLINE void take_off(struct ci_scope *scope, struct ci_task *task)
{
    ci_list_unlink(&task->sibling);
    scope->live--;
    if (ci_unlikely(task->end.result < 0))
        take_error(scope, task, (int)task->end.result);
}

void ci_scope_remove(struct ci_scope *scope, struct ci_task *task)
{
    take_off(scope, task);
    if (!scope->live)
        emptied(scope);
}

void ci_task_end(struct ci_task *task)
{
    ci_check(
        !task->runnable.cancel_scopes); /* every cancel scope that the task entered has been left */
    if (ci_unlikely(task->locals != NULL)) {
        ci_local_drop(task->worker, task->locals);
        task->locals = NULL;
    }
    if (ci_unlikely(task->remote)) {
        ci_remote_task_end(task);
        return;
    }
    struct ci_scope *scope = task->scope;
    take_off(scope, task);
    ci_task_give_result(task);
    free_task(scope->home, task);
    if (!scope->live)
        emptied(scope);
}

static coir_future *end_poll(coir_future *future)
{
    struct ci_task *task = ci_container_of(future, struct ci_task, end);
    const coir_future *root = task->root.arg;
    if (root) /* else it has left its result, and may be gone */
        future->result = root->result;
    ci_task_end(task);
    return NULL;
}

enum { LEAVES_RESULT = 1 }; /* root.future.state: with its caller, and it may be gone then */

static const coir_future_kind end_kind = COIR_FUTURE_KIND("ended", end_poll, NULL);

/* ---- spawn ---- */

void ci_scope_init(struct ci_scope *scope, struct ci_worker *home, bool serving)
{
    scope->cancel_scope = (struct ci_cancel_scope){0};
    scope->home = home;
    ci_list_init(&scope->tasks);
    scope->live = 0;
    scope->arriving = 0;
    scope->errors = 0;
    scope->error = scope->interrupt = 0;
    scope->serving = serving;
    scope->cancelled = scope->root = false;
    scope->waiter = NULL;
}

/* Why nothing may be spawned into the scope now, or 0. What interrupts the caller comes first: it
 * says -ETIME where a deadline passed. */
static CI_COLD int check_spawn(const struct ci_worker *worker, const struct ci_scope *scope)
{
    if (!scope->home)
        return -EBADF; /* a misuse, which the public functions name */
    if (scope->home->runtime != worker->runtime)
        return -EXDEV;
    if (worker->runnable && worker->runnable->interrupt)
        return worker->runnable->interrupt;
    if (!ci_load_relaxed(&scope->cancelled))
        return 0;
    int reason = ci_load_relaxed(&scope->interrupt);
    return reason ? reason : -ECANCELED;
}

/* Whether a spawn is the ordinary one: into a scope of the calling worker, with nothing against it.
 */
CI_INLINE bool is_ordinary(const struct ci_worker *worker, const struct ci_scope *scope)
{
    const struct ci_runnable *runnable = worker->runnable;
    return ci_likely(scope->home == worker && !scope->cancelled &&
                     !(runnable && runnable->interrupt));
}

/* A record of zeroes becomes one that can be used again and again. */
CI_NOINLINE void ci_task_make_record(struct ci_task *task, struct ci_worker *worker)
{
    task->runnable.task = task;
    task->end.kind = &end_kind;
    task->root.future.kind = &ci_call_kind;
    task->root.future.caller = &task->end;
    task->worker = worker;
}

CI_INLINE struct ci_task *take_record(struct ci_worker *worker)
{
    struct ci_task *task = ci_pool_take(&worker->tasks);
    if (task && ci_unlikely(!task->worker))
        ci_task_make_record(task, worker);
    return task;
}

CI_INLINE void add(struct ci_scope *scope, struct ci_task *task)
{
    ci_list_push(&scope->tasks, &task->sibling);
    scope->live++;
}

/* A root scope gets its first task: false, and the task is not to start, when the run has ended. */
CI_INLINE bool may_begin(const struct ci_scope *scope)
{
    /* a root is its own worker's */
    return ci_likely(!scope->root) || scope->live != 0 || ci_run_add_root(scope->home->runtime);
}

void ci_scope_add(struct ci_scope *scope, struct ci_task *task)
{
    add(scope, task);
}

/* What a task has of the one that spawns it. */
CI_INLINE void inherit(struct ci_worker *worker, struct ci_scope *scope, struct ci_task *task)
{
    task->scope = scope;
    struct ci_local *locals = worker->runnable ? worker->runnable->task->locals : ci_carried_locals;
    if (ci_unlikely(locals != NULL))
        task->locals = ci_local_inherit(locals);
    ci_bump(&worker->tasks_started);
}

static struct ci_scope *scope_or_root(struct ci_worker *worker, coir_scope *scope)
{
    return scope ? ci_scope_of(scope) : &worker->root;
}

static CI_COLD int no_task(const struct ci_pool *pool)
{
    return pool->live_max && pool->live >= pool->live_max ? -EAGAIN : -ENOMEM;
}

/* The first poll of a task without a stack. Until then its outermost future is not the runnable's
 * inner one: it may be a leaf, and one that has not been polled cannot be cancelled. */
static coir_future *start_poll(coir_future *future)
{
    struct ci_task *task = ci_container_of(future, struct ci_task, root.future);
    coir_future *root = task->root.arg;
    if (future->state == LEAVES_RESULT)
        task->root.arg = NULL;
    future->kind = &ci_call_kind; /* as in a record that is not used */
    future->state = 0;
    return root;
}

static const coir_future_kind start_kind = COIR_FUTURE_KIND("not started", start_poll, NULL);

static CI_NOINLINE void set_future_root(struct ci_task *task, coir_future *root)
{
    task->root.future.kind = &start_kind;
    root->caller = &task->end;
}

/* A function with its argument, or a future as `arg` alone. */
CI_INLINE void set_root(struct ci_task *task, coir_task_fn *fn, void *arg)
{
    task->root.fn = fn;
    task->root.arg = arg;
    task->runnable.inner = &task->root.future;
    if (!fn)
        set_future_root(task, arg);
}

static int check_options(const struct ci_worker *worker, const coir_go_options *options,
                         const void *arg)
{
    if (options->copy_size > COIR_COPY_MAX || (options->copy_size && !arg))
        return -EINVAL;
    int place = options->place;
    bool on_worker =
        place >= COIR_FIRST_WORKER && place < COIR_ON_WORKER(worker->runtime->worker_count);
    return on_worker || place == COIR_HERE || place == COIR_ANYWHERE ? 0 : -EINVAL;
}

/* A task that is not in its scope yet, nor placed. */
CI_INLINE int make_task(struct ci_worker *worker, bool remote, const coir_go_options *options,
                        void **arg, struct ci_task **ret_task)
{
    void *copy = *arg;
    if (options->copy_size) {
        if (!(copy = ci_pool_take(&worker->copies)))
            return -ENOMEM;
        memcpy(copy, *arg, options->copy_size);
    }
    struct ci_task *task = remote ? ci_remote_task_take(worker) : take_record(worker);
    if (!task) {
        if (copy != *arg)
            ci_pool_give(&worker->copies, copy);
        return no_task(remote ? &worker->remote_tasks : &worker->tasks);
    }
    task->copied = (uint16_t)options->copy_size;
    task->name = options->name;
    if (options->handle) {
        struct ci_handle *handle = task->handle = handle_of(options->handle);
        *handle = (struct ci_handle){.task = task, .used = true};
    }
    *arg = copy;
    *ret_task = task;
    return 0;
}

/* Gives back what make_task took. */
static CI_COLD int refuse_ended(struct ci_worker *worker, struct ci_task *task)
{
    if (task->handle)
        *task->handle = (struct ci_handle){0};
    task->handle = NULL;
    if (task->remote)
        ci_remote_task_drop(task);
    else
        free_task(worker, task);
    return -COIR_EENDED;
}

/* As set_root. `ret_task`: the future leaves its result with its caller, and may be gone then; see
 * ci_go_future. */
static int spawn(coir_scope *scope_words, const coir_go_options *options, coir_task_fn *fn,
                 void *arg, struct ci_task **ret_task)
{
    struct ci_worker *worker = ci_worker_current;
    if (!worker)
        return ci_no_worker();
    struct ci_scope *scope = scope_or_root(worker, scope_words);
    int rc = is_ordinary(worker, scope) ? 0 : check_spawn(worker, scope);
    if (rc == 0)
        rc = check_options(worker, options, arg);
    if (rc < 0)
        return rc;
    bool remote = scope->home != worker ||
                  (options->place != COIR_HERE && options->place != COIR_ON_WORKER(worker->index));
    struct ci_task *task = NULL;
    if ((rc = make_task(worker, remote, options, &arg, &task)) < 0)
        return rc;
    if (!may_begin(scope))
        return refuse_ended(worker, task);
    set_root(task, fn, arg);
    inherit(worker, scope, task);
    if (ret_task) {
        task->root.future.state = LEAVES_RESULT;
        *ret_task = task;
    }
    if (remote) {
        ci_remote_task_start(task, options->place);
        return 0;
    }
    add(scope, task);
    ci_ready(worker, &task->runnable);
    return 0;
}

static CI_COLD int spawn_remote(coir_scope *scope, coir_task_fn *fn, void *arg)
{
    coir_go_options options = COIR_GO_OPTIONS;
    return spawn(scope, &options, fn, arg, NULL);
}

/* As set_root; without options. The way of a task whose scope is the calling worker's. */
CI_INLINE int spawn_here(coir_scope *scope_words, coir_task_fn *fn, void *arg)
{
    struct ci_worker *worker = ci_worker_current;
    if (ci_unlikely(!worker))
        return ci_no_worker();
    struct ci_scope *scope = scope_or_root(worker, scope_words);
    if (!is_ordinary(worker, scope))
        return spawn_remote(scope_words, fn, arg);
    struct ci_task *task = take_record(worker);
    if (ci_unlikely(!task))
        return no_task(&worker->tasks);
    if (ci_unlikely(!may_begin(scope)))
        return refuse_ended(worker, task);
    inherit(worker, scope, task);
    add(scope, task);
    set_root(task, fn, arg);
    ci_ready(worker, &task->runnable);
    return 0;
}

int coir_go(coir_scope *scope, coir_task_fn *fn, void *arg)
{
    if (ci_unlikely(!fn))
        return CI_MISUSE(-EINVAL);
    return CI_MISUSE_IF(-EBADF, spawn_here(scope, fn, arg));
}

int ci_go_future(coir_scope *scope, const char *name, coir_future *root, struct ci_task **ret_task)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = name;
    return spawn(scope, &options, NULL, root, ret_task);
}

/* Options of this version's size are used where they are. */
static int spawn_with(coir_scope *scope, const coir_go_options *given, coir_task_fn *fn, void *arg)
{
    if (ci_likely(given && given->size == sizeof *given))
        return spawn(scope, given, fn, arg, NULL);
    coir_go_options options = COIR_GO_OPTIONS;
    int rc = ci_options_read(&options, sizeof options, given);
    return rc < 0 ? rc : spawn(scope, &options, fn, arg, NULL);
}

int coir_go_with(coir_scope *scope, const coir_go_options *options, coir_task_fn *fn, void *arg)
{
    if (ci_unlikely(!fn))
        return CI_MISUSE(-EINVAL);
    return CI_MISUSE_IF(-EBADF, spawn_with(scope, options, fn, arg));
}

int coir_go_future(coir_scope *scope, coir_future *future)
{
    return CI_MISUSE_IF(-EBADF, spawn_here(scope, NULL, future));
}

int coir_go_future_with(coir_scope *scope, const coir_go_options *options, coir_future *future)
{
    bool copies =
        options && options->size > offsetof(coir_go_options, copy_size) && options->copy_size;
    return copies ? -EINVAL : CI_MISUSE_IF(-EBADF, spawn_with(scope, options, NULL, future));
}

int coir_go_anywhere(coir_scope *scope, coir_task_fn *fn, void *arg)
{
    if (ci_unlikely(!fn))
        return CI_MISUSE(-EINVAL);
    coir_go_options options = COIR_GO_OPTIONS;
    options.place = COIR_ANYWHERE;
    return CI_MISUSE_IF(-EBADF, spawn(scope, &options, fn, arg, NULL));
}

int coir_go_on(coir_scope *scope, int index, coir_task_fn *fn, void *arg)
{
    if (ci_unlikely(!fn))
        return CI_MISUSE(-EINVAL);
    coir_go_options options = COIR_GO_OPTIONS;
    options.place = ci_place_of(index);
    return CI_MISUSE_IF(-EBADF, spawn(scope, &options, fn, arg, NULL));
}

int ci_go_on_every_worker(coir_scope *scope, const char *name, coir_task_fn *fn, void *arg)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = name;
    int count = ci_worker_current->runtime->worker_count, rc = 0;
    for (int i = 0; rc == 0 && i < count; i++) {
        options.place = COIR_ON_WORKER(i);
        rc = coir_go_with(scope, &options, fn, arg);
    }
    return rc;
}

/* ---- cancel ---- */

/* On the scope's home worker. */
static void cancel_member(struct ci_task *task, int reason)
{
    if (task->remote)
        ci_remote_member_cancel(task, reason);
    else
        ci_runnable_cancel(&task->runnable, reason);
}

static void cancel_all(struct ci_scope *scope, int reason)
{
    ci_store_relaxed(&scope->cancelled, true);
    ci_list_for_each (node, &scope->tasks)
        cancel_member(ci_container_of(node, struct ci_task, sibling), reason);
}

void ci_scope_interrupt(struct ci_scope *scope, int reason)
{
    if (!scope->interrupt)
        ci_store_relaxed(&scope->interrupt, reason);
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
    struct ci_task *task = handle_of(handle)->task;
    if (!task)
        return;
    if (task->remote)
        ci_remote_task_cancel(task, -ECANCELED);
    else
        ci_runnable_cancel(&task->runnable, -ECANCELED);
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
    int inherited = worker->runnable->interrupt;
    ci_cancel_scope_enter(&scope->cancel_scope, worker->runnable, CI_CANCEL_SCOPE_TASKS);
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

/* What interrupts the waiter from outside of the scope is told to its tasks, which the wait is for.
 * What does not concern them, a deadline inside of the scope, or anything where the scope is
 * another fiber's, ends the wait. */
static int scope_cancel(coir_future *future, int reason)
{
    struct scope_op *op = ci_container_of(future, struct scope_op, future);
    (void)reason;
    if (!(future->result = ci_runnable_interrupted_inside(op->runnable, &op->scope->cancel_scope)))
        return false;
    op->scope->waiter = NULL;
    return true;
}

static const coir_future_kind scope_kind =
    COIR_FUTURE_KIND("the tasks of a scope", NULL, scope_cancel);

CI_INLINE int wait_for_tasks(struct ci_worker *worker, struct ci_scope *scope)
{
    struct scope_op *op = CI_FIBER_OP(worker->fiber, struct scope_op);
    *op = (struct scope_op){{&scope_kind, &worker->fiber->back, 0, 0}, worker->runnable, scope};
    scope->waiter = &op->future;
    op->runnable->inner = &op->future;
    ci_park_here(worker);
    return (int)op->future.result;
}

int coir_scope_wait(coir_scope *words)
{
    struct ci_scope *scope = ci_scope_of(words);
    struct ci_worker *worker = ci_worker_current;
    if (!worker || !worker->fiber)
        return ci_no_fiber();
    if (!scope->home)
        return CI_MISUSE(-EBADF);
    if (scope->home != worker)
        return -EXDEV;
    if (scope->waiter)
        return -EBUSY;
    int rc = 0;
    if (ci_unlikely(worker->runnable->interrupt) &&
        (rc = ci_runnable_interrupted_inside(worker->runnable, &scope->cancel_scope)) < 0) {
        ci_spend(worker);
        return rc;
    }
    if (scope->live || ci_load_relaxed(&scope->arriving)) /* pairs with become_member */
        rc = wait_for_tasks(worker, scope);
    return rc < 0 ? rc : scope->error ? scope->error : scope->interrupt;
}

void coir_scope_close(coir_scope *words)
{
    if (ci_forked())
        return;
    struct ci_scope *scope = ci_scope_of(words);
    if (!scope->home)
        return;
    if (scope->live || ci_load_relaxed(&scope->arriving)) {
        coir_scope_cancel(words);
        coir_scope_wait(words);
    }
    scope->home = NULL;
    ci_cancel_scope_leave(&scope->cancel_scope);
}

size_t coir_scope_live(const coir_scope *scope)
{
    const struct ci_scope *own = (const struct ci_scope *)(const void *)scope;
    return own->live + (size_t)ci_load_relaxed(&own->arriving);
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

static const coir_future_kind join_kind = COIR_FUTURE_KIND("a task", join_poll, join_cancel);

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
        return CI_MISUSE(-EINVAL);
    if (!handle->task)
        return handle->result;
    if (handle->waiter)
        return -EBUSY;
    return (int)ci_await(ci_worker_current, coir_join_op(words));
}

bool coir_handle_has_ended(const coir_handle *words)
{
    const struct ci_handle *handle = (const struct ci_handle *)(const void *)words;
    return handle->used && !handle->task;
}

void coir_handle_done(coir_handle *words)
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
