/* Spawning: from the caller's request to a task in its scope and in a run queue. */
#include "task/spawn.h"

#include <errno.h>
#include <string.h>

#include "base/options.h"
#include "task/local.h"
#include "task/membership.h"
#include "task/remote.h"

/* ---- may it be spawned? ---- */

/* The error that refuses a spawn into the scope now, or 0. An interrupt of the caller comes first,
 * so a passed deadline gives -ETIME. */
static CI_COLD int check_spawn(const struct ci_worker *worker, const struct ci_scope *scope)
{
    if (!scope->home)
        return -EBADF; /* a misuse, reported by the public functions */
    if (scope->home->runtime != worker->runtime)
        return -EXDEV;
    if (worker->runnable && worker->runnable->interrupt)
        return worker->runnable->interrupt;
    if (!ci_load_relaxed(&scope->cancelled))
        return 0;
    int reason = ci_load_relaxed(&scope->interrupt);
    return reason ? reason : -ECANCELED;
}

/* Whether this is the ordinary spawn: into a scope of the calling worker, without a reason to
 * refuse it. */
CI_INLINE bool is_ordinary(const struct ci_worker *worker, const struct ci_scope *scope)
{
    const struct ci_runnable *runnable = worker->runnable;
    return ci_likely(scope->home == worker && !scope->cancelled &&
                     !(runnable && runnable->interrupt));
}

/* Counts the first task of a root scope. False: the run has ended, and the task must not start. */
CI_INLINE bool may_begin(const struct ci_scope *scope)
{
    /* a root scope's home is the calling worker */
    return ci_likely(!scope->root) || scope->live != 0 || ci_run_add_root(scope->home->runtime);
}

static int check_options(const struct ci_worker *worker, const coir_go_options *options,
                         const void *arg)
{
    if (options->copy_size > COIR_COPY_MAX || (options->copy_size && !arg))
        return -EINVAL;
    if (options->handle && ci_handle_of(options->handle)->task)
        /* another task will write to the handle; a misuse, as starting a future twice */
        return -EBUSY;
    int place = options->place;
    bool on_worker =
        place >= COIR_FIRST_WORKER && place < COIR_ON_WORKER(worker->runtime->worker_count);
    return on_worker || place == COIR_HERE || place == COIR_ANYWHERE ? 0 : -EINVAL;
}

static struct ci_scope *scope_or_root(struct ci_worker *worker, coir_scope *scope)
{
    return scope ? ci_scope_of(scope) : &worker->root;
}

/* ---- its record ---- */

static struct ci_task *take_record(struct ci_worker *worker)
{
    struct ci_task *task = ci_pool_take(&worker->tasks);
    if (task && ci_unlikely(!task->worker))
        ci_task_make_record(task, worker);
    return task;
}

static CI_COLD int no_task(const struct ci_pool *pool)
{
    return pool->live_max && pool->live >= pool->live_max ? -EAGAIN : -ENOMEM;
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
    task->root.arg = copy; /* what refuse_ended gives back */
    task->name = options->name;
    if (options->handle) {
        task->handle = ci_handle_of(options->handle);
        ci_handle_begin(task->handle, task, worker);
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
    if (task->cancel)
        ci_remote_task_drop(task);
    else
        ci_task_free(worker, task);
    return -COIR_EENDED;
}

CI_INLINE struct ci_local *locals_here(const struct ci_worker *worker)
{
    return worker->runnable ? worker->runnable->task->locals : ci_carried_locals;
}

/* Sets whose it is, and by which number and place it is known. */
CI_INLINE void set_origin(struct ci_worker *worker, struct ci_scope *scope, struct ci_task *task,
                          const void *place)
{
    task->scope = scope;
    task->spawned_at = place;
    uint64_t started = ci_load_relaxed(&worker->tasks_started);
    task->number = (uint32_t)started;
    ci_store_relaxed(&worker->tasks_started, started + 1);
}

/* The same, and what it inherits from the task that spawns it. */
CI_INLINE void inherit(struct ci_worker *worker, struct ci_scope *scope, struct ci_task *task,
                       const void *place)
{
    struct ci_local *locals = locals_here(worker);
    if (ci_unlikely(locals != NULL))
        task->locals = ci_local_inherit(locals);
    set_origin(worker, scope, task, place);
}

/* ---- its root ---- */

/* The first poll of a task without a stack. Until then the runnable's `inner` is the root, not the
 * outermost future: that may be a leaf, and a leaf that has not been polled cannot be cancelled. */
static coir_future *start_poll(coir_future *future)
{
    struct ci_task *task = ci_container_of(future, struct ci_task, root.future);
    coir_future *root = task->root.arg;
    if (future->state == CI_ROOT_LEAVES_RESULT)
        task->root.arg = NULL;
    future->kind = &ci_call_kind; /* what a free record has: see ci_task_make_record */
    future->state = 0;
    return root;
}

static const coir_future_kind start_kind = COIR_FUTURE_KIND("not started", start_poll, NULL);

CI_INLINE void set_future_root(struct ci_task *task, coir_future *root)
{
    task->root.future.kind = &start_kind;
    root->caller = &task->end;
}

/* Sets the task's root: a function with its argument, or with fn NULL a future, in `arg`. */
CI_INLINE void set_root(struct ci_task *task, coir_task_fn *fn, void *arg)
{
    task->root.fn = fn;
    task->root.arg = arg;
    task->runnable.inner = &task->root.future;
    if (!fn)
        set_future_root(task, arg);
}

/* ---- spawning ---- */

/* `fn` and `arg` as in set_root. With `ret_task`, the future stores its result in its caller, and
 * may be freed by then; see ci_go_future. */
static int spawn(coir_scope *opaque, const coir_go_options *options, coir_task_fn *fn, void *arg,
                 const void *place, struct ci_task **ret_task)
{
    struct ci_worker *worker = ci_worker_current;
    if (!worker)
        return ci_no_worker();
    struct ci_scope *scope = scope_or_root(worker, opaque);
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
    inherit(worker, scope, task, place);
    if (ret_task) {
        task->root.future.state = CI_ROOT_LEAVES_RESULT;
        *ret_task = task;
    }
    if (remote) {
        ci_remote_task_start(task, options->place);
        return 0;
    }
    ci_scope_add(scope, task);
    ci_ready(worker, &task->runnable);
    return 0;
}

/* The errors of a spawn that are misuse. */
static CI_COLD int name_misuse(int error, const char *call, const void *place)
{
    switch (error) {
    case -EBADF:
        return ci_misused(error, "the scope is closed, or was not opened in a fiber", call, place);
    case -EBUSY:
        return ci_misused(error, "the handle belongs to a task that has not ended", call, place);
    case -EXDEV: return ci_misused(error, "the scope is another runtime's", call, place);
    default: return error;
    }
}
#define SPAWNED(rc) spawned((rc), CI_CALL, CI_PLACE)
CI_INLINE int spawned(int rc, const char *call, const void *place)
{
    return ci_likely(rc == 0) ? 0 : name_misuse(rc, call, place);
}

/* Adds a task that has everything else to its scope and to the run queue. */
CI_INLINE void begin_here(struct ci_worker *worker, struct ci_scope *scope, struct ci_task *task,
                          coir_task_fn *fn, void *arg)
{
    ci_scope_add(scope, task);
    set_root(task, fn, arg);
    ci_ready(worker, &task->runnable);
}

/* What spawn_here leaves: refusals, scopes of other workers, and what it has no fast path for. */
static CI_NOINLINE int spawn_otherwise(coir_scope *opaque, coir_task_fn *fn, void *arg,
                                       const void *place)
{
    struct ci_worker *worker = ci_worker_current;
    struct ci_scope *scope = scope_or_root(worker, opaque);
    if (!is_ordinary(worker, scope)) {
        coir_go_options options = COIR_GO_OPTIONS;
        return spawned(spawn(opaque, &options, fn, arg, place, NULL),
                       fn ? "coir_go" : "coir_go_future", place);
    }
    struct ci_task *task = take_record(worker);
    if (ci_unlikely(!task))
        return no_task(&worker->tasks);
    if (ci_unlikely(!may_begin(scope)))
        return refuse_ended(worker, task);
    inherit(worker, scope, task, place);
    begin_here(worker, scope, task, fn, arg);
    return 0;
}

/* Spawns without options. `fn` and `arg` as in set_root. Fast path: the scope is the calling
 * worker's, its run goes on without this task, the record was used before, and there are no
 * task-locals. It makes no call but as its last step, so that it saves no registers. */
CI_INLINE int spawn_here(coir_scope *opaque, coir_task_fn *fn, void *arg, const void *place)
{
    struct ci_worker *worker = ci_worker_current;
    if (ci_unlikely(!worker))
        return ci_no_worker();
    struct ci_scope *scope = scope_or_root(worker, opaque);
    if (ci_unlikely(!is_ordinary(worker, scope) || (scope->root && !scope->live) ||
                    locals_here(worker)))
        return spawn_otherwise(opaque, fn, arg, place);
    struct ci_task *task = ci_pool_take_free(&worker->tasks);
    if (ci_unlikely(!task))
        return spawn_otherwise(opaque, fn, arg, place);
    if (ci_unlikely(!task->worker)) {
        ci_pool_give(&worker->tasks, task);
        return spawn_otherwise(opaque, fn, arg, place);
    }
    set_origin(worker, scope, task, place);
    begin_here(worker, scope, task, fn, arg);
    return 0;
}

/* ---- the public calls ---- */

int coir_go(coir_scope *scope, coir_task_fn *fn, void *arg)
{
    if (ci_unlikely(!fn))
        return CI_MISUSE(-EINVAL, "fn is NULL");
    return spawn_here(scope, fn, arg, CI_PLACE);
}

int ci_go_future(coir_scope *scope, const char *name, coir_future *root, struct ci_task **ret_task)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = name;
    return spawn(scope, &options, NULL, root, NULL, ret_task);
}

/* Options of this version's size are used where they are. */
static int spawn_with(coir_scope *scope, const coir_go_options *given, coir_task_fn *fn, void *arg,
                      const void *place)
{
    if (ci_likely(given && given->size == sizeof *given))
        return spawn(scope, given, fn, arg, place, NULL);
    coir_go_options options = COIR_GO_OPTIONS;
    int rc = ci_options_read(&options, sizeof options, given);
    return rc < 0 ? rc : spawn(scope, &options, fn, arg, place, NULL);
}

int coir_go_with(coir_scope *scope, const coir_go_options *options, coir_task_fn *fn, void *arg)
{
    if (ci_unlikely(!fn))
        return CI_MISUSE(-EINVAL, "fn is NULL");
    return SPAWNED(spawn_with(scope, options, fn, arg, CI_PLACE));
}

/* Refuses to start a future: there is none, or it was started. It has a caller from its start to
 * its end. */
static CI_COLD int refuse_future(const coir_future *future, const char *call, const void *place)
{
    return future && future->kind
               ? ci_misused(-EBUSY, "the future was started before", call, place)
               : ci_misused(-EINVAL, "future is NULL, or was not made", call, place);
}

int coir_go_future(coir_scope *scope, coir_future *future)
{
    if (ci_unlikely(!future || future->caller || !future->kind))
        return refuse_future(future, CI_CALL, CI_PLACE);
    return spawn_here(scope, NULL, future, CI_PLACE);
}

int coir_go_future_with(coir_scope *scope, const coir_go_options *options, coir_future *future)
{
    if (ci_unlikely(!future || future->caller || !future->kind))
        return refuse_future(future, CI_CALL, CI_PLACE);
    bool copies =
        options && options->size > offsetof(coir_go_options, copy_size) && options->copy_size;
    if (copies)
        return CI_MISUSE(-EINVAL, "a future has no argument to be copied: copy_size must be 0");
    return SPAWNED(spawn_with(scope, options, NULL, future, CI_PLACE));
}

int coir_go_anywhere(coir_scope *scope, coir_task_fn *fn, void *arg)
{
    if (ci_unlikely(!fn))
        return CI_MISUSE(-EINVAL, "fn is NULL");
    coir_go_options options = COIR_GO_OPTIONS;
    options.place = COIR_ANYWHERE;
    return SPAWNED(spawn(scope, &options, fn, arg, CI_PLACE, NULL));
}

int coir_go_on(coir_scope *scope, int index, coir_task_fn *fn, void *arg)
{
    if (ci_unlikely(!fn))
        return CI_MISUSE(-EINVAL, "fn is NULL");
    coir_go_options options = COIR_GO_OPTIONS;
    options.place = ci_placement_of(index);
    return SPAWNED(spawn(scope, &options, fn, arg, CI_PLACE, NULL));
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
