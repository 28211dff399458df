/* Structured concurrency: every task lives in a scope, and a scope does not end before its tasks.
 *
 *   COIR_SCOPE(scope);
 *   coir_go(scope, fetch, &left);
 *   coir_go(scope, fetch, &right);
 *   int rc = coir_scope_wait(scope);
 *
 * The first task to return an error cancels its siblings, and that error is what the scope
 * returns. A serving scope supervises instead: errors are counted and reported, and siblings go
 * on. Cancelling a task cancels the tasks in the scopes it has open.
 *
 * Any worker of its runtime may spawn tasks into a scope while it is open, as the tasks of the
 * scope may at any time: it does not end before them. A task that has to outlive the scopes around
 * it goes to the runtime's background scope, for which a NULL scope stands:
 *
 *   coir_go(NULL, send_mail, mail);
 *
 * The background scope supervises too: a task that fails there is logged as a warning with its
 * name, and nothing else ends. A run that is stopped cancels the background tasks once
 * coir_config.drain_timeout is over. They may outlive the run's first task, and thus its local
 * variables. */
#ifndef COIR_SCOPE_H
#define COIR_SCOPE_H

#include <coir/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A scope of tasks, usually declared by COIR_SCOPE. It lies in its opener's frame. */
typedef struct coir_scope {
    uint64_t opaque[24];
} coir_scope;

/* A handle of a task, for its result and to cancel it, usually declared by COIR_HANDLE. A spawn
 * with options sets it; it is zero before. */
typedef struct coir_handle {
    uint64_t opaque[12];
} coir_handle;

/* Declares a scope: `name` is a coir_scope pointer. When the C block is left, the scope is
 * cancelled and waited for. */
#define COIR_SCOPE(name)                                      \
    coir_scope name##_storage COIR_CLEANUP(coir_scope_close); \
    coir_scope *name = coir_scope_open(&name##_storage)

/* Declares a serving scope, as COIR_SCOPE does: it supervises its tasks. */
#define COIR_SERVING_SCOPE(name)                              \
    coir_scope name##_storage COIR_CLEANUP(coir_scope_close); \
    coir_scope *name = coir_serving_scope_open(&name##_storage)

/* Opens a scope of the calling task, and returns it. Scopes, deadlines and shields of one task
 * nest. The first task to return an error cancels the others. Outside of a fiber the scope is
 * dead, as after its end: spawns into it return -EBADF.
 * Suspends: no.  Threads: worker.  Owns: *scope is borrowed until coir_scope_close. */
COIR_API coir_scope *coir_scope_open(coir_scope *scope);

/* Opens a serving scope: errors of its tasks are counted and reported, and the others go on. As
 * coir_scope_open. */
COIR_API coir_scope *coir_serving_scope_open(coir_scope *scope);

/* Waits until no task of a scope is left, and returns the first error of one, or 0. More tasks may
 * be spawned into it afterwards, unless it was cancelled. This wait cannot be cancelled from
 * outside of the scope: a cancelled caller's tasks are cancelled too, and then waited for. A
 * deadline that was set inside of the scope ends the wait with -ETIME, and the tasks go on; and so
 * does any interrupt if the scope is another fiber's.
 * Suspends: yes.  Threads: owner.
 * Errors: the first error of a task (0 for a serving scope); -EBUSY another fiber waits for it;
 * -EBADF the scope is not open; -EXDEV it belongs to another worker; -EDEADLK the caller is one of
 * its tasks.
 * Cancel safety: the tasks are waited for all the same, or go on. */
COIR_SUSPENDS int coir_scope_wait(coir_scope *scope);

/* Asks every task of a scope to end, and those of the scopes that they have open. Spawns into it
 * return -ECANCELED from then on. Takes some 100 bytes of the caller's stack for each level of
 * scopes in scopes: 600 levels fit one of 64 KiB.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_scope_cancel(coir_scope *scope);

/* Cancels the tasks of a scope, waits for them, and ends it: what leaving the C block of
 * COIR_SCOPE does. Does nothing to a scope that has ended.
 * Suspends: yes, while tasks are left.  Threads: owner.
 * Cancel safety: it waits all the same. */
COIR_SUSPENDS void coir_scope_close(coir_scope *scope);

/* How many tasks of a scope have not ended.
 * Suspends: no.  Threads: owner. */
COIR_API size_t coir_scope_live(const coir_scope *scope);

/* How many tasks of a serving scope have ended with an error.
 * Suspends: no.  Threads: owner. */
COIR_API uint64_t coir_scope_errors(const coir_scope *scope);

/* Starts `fn(arg)` as a fiber on the calling worker. It first runs when the caller suspends. The
 * task counts as the scope's from this moment on, whichever worker that is on. A task that was
 * cancelled before it started still runs, and is told at its first suspending call. A NULL scope
 * is the background scope of the runtime.
 * Suspends: no.  Threads: worker.  Owns: `arg` is borrowed until the task ends.
 * Errors: -ECANCELED the caller or the scope was cancelled; -ETIME a deadline that either is under
 * has passed; -EAGAIN at tasks_max; -ENOMEM; -EXDEV the scope is another runtime's; -ESRCH no
 * worker; -EBADF the scope is not open; -EINVAL no function; -COIR_EENDED the run has ended (from
 * a call that was posted before). */
COIR_API int coir_go(coir_scope *scope, coir_task_fn *fn, void *arg);

/* Starts a fiber as coir_go does, which an idle worker may take before it first runs. As
 * coir_go. */
COIR_API int coir_go_anywhere(coir_scope *scope, coir_task_fn *fn, void *arg);

/* Starts a fiber as coir_go does, on worker `index` of the runtime. As coir_go.
 * Errors also: -EINVAL no such worker. */
COIR_API int coir_go_on(coir_scope *scope, int index, coir_task_fn *fn, void *arg);

/* Where a task runs: values of coir_go_options.place. */
enum coir_placement {
    COIR_HERE = 0,              /* on the calling worker */
    COIR_ANYWHERE = -1,         /* there, or on an idle worker that takes it before it first runs */
    COIR_FIRST_WORKER = 1 << 20 /* on worker 0; COIR_ON_WORKER adds to it */
};

/* In coir_go_options.place: on worker `index`. A spawn refuses an index below 0. */
#define COIR_ON_WORKER(index) ((index) + COIR_FIRST_WORKER)

/* Options of a spawn. */
typedef struct coir_go_options {
    size_t size; /* sizeof(coir_go_options), set by COIR_GO_OPTIONS */
    /* [COIR_HERE] COIR_ANYWHERE: an idle worker may take it; or COIR_ON_WORKER(index) */
    int place;
    const char *name; /* [none] borrowed until the task ends; for reports */
    /* [none] where the result goes, see coir_join; zero before its first use */
    coir_handle *handle;
    /* [0: `arg` is borrowed] `arg` points at so many bytes, which are copied at spawn (at most
     * COIR_COPY_MAX) */
    size_t copy_size;
} coir_go_options;

/* How many bytes of an argument a spawn copies at most. */
#define COIR_COPY_MAX ((size_t)128)
#define COIR_GO_OPTIONS                             \
    {                                               \
        sizeof(coir_go_options), COIR_HERE, 0, 0, 0 \
    }

/* Starts a fiber with options: where, under what name, with a handle, with a copy of its argument.
 * Suspends: no.  Threads: worker.  Owns: `arg` is borrowed until the task ends, unless copy_size
 * is set; a handle until the task has ended or coir_handle_done.
 * Errors: those of coir_go; -EINVAL bad options; -EBUSY the handle is that of a task that has not
 * ended. */
COIR_API int coir_go_with(coir_scope *scope, const coir_go_options *options, coir_task_fn *fn,
                          void *arg);

/* Declares a handle: `name` is a coir_handle pointer. When the C block is left, the handle lets go
 * of its task, which goes on. */
#define COIR_HANDLE(name)                                         \
    coir_handle name##_storage COIR_CLEANUP(coir_handle_done) = { \
        {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}};                    \
    coir_handle *name = &name##_storage

/* Waits until a task has ended, and returns its result. A handle may be joined more than once, by
 * one waiter at a time.
 * Suspends: yes.  Threads: the worker that spawned the task.
 * Errors: the task's own; -EINVAL the handle was never given to a spawn, or has let go of its task;
 * -EBUSY another waits.
 * Cancel safety: the task goes on, and may be joined again. */
COIR_SUSPENDS int coir_join(coir_handle *handle);

/* Asks a task to end: its suspending calls return -ECANCELED from now on. Does nothing to one that
 * has ended.
 * Suspends: no.  Threads: the worker that spawned the task. */
COIR_API void coir_cancel(coir_handle *handle);

/* Whether the task of a handle has ended.
 * Suspends: no.  Threads: the worker that spawned the task. */
COIR_API bool coir_handle_has_ended(const coir_handle *handle);

/* Lets a handle go of its task, which goes on, and will not write to the handle any more. No task
 * may be waiting in a join of it; one that waits in coir_join gets -EINVAL. Takes NULL and handles
 * that were not used.
 * Suspends: no.  Threads: the worker that spawned the task. */
COIR_API void coir_handle_done(coir_handle *handle);

#ifdef __cplusplus
}
#endif

#endif
