/* Tasks: their records, the handles by which they are joined, and how they end.
 *
 * 1. Only its worker touches a task, from its start to its end; before and after that, the worker
 * that spawned it and the home worker of its scope do, one after the other (remote.c).
 * 2. A record is freed after its scope and its handle have the result. The fields under "zero in a
 *    free record" below are zero then.
 * 3. A task that ends has left every cancel scope that it entered.
 *
 * A fiber's stack goes back before the task's record does, when the fiber's function has returned.
 *
 *    SPAWNED -- first run --> RUNNING -- root returns --> ENDED -- scope took result --> (freed)
 */
#ifndef CI_TASK_TASK_H
#define CI_TASK_TASK_H

#include "base/list.h"
#include "base/options.h"
#include "coir/scope.h"
#include "task/fiber.h"
#include "task/runnable.h"

struct ci_local;
struct ci_scope;

struct ci_task {
    struct ci_runnable runnable;

    /* set at each spawn */
    struct ci_scope *scope;
    struct ci_list sibling;
    /* its future is constant, except for a stackless task that has not been polled */
    struct ci_call root;

    /* zero in a free record */
    struct ci_handle *handle;
    const char *name;
    struct ci_local *locals;
    /* for a remote task (remote.c); NULL: ci_runnable_cancel */
    void (*cancel)(struct ci_task *task, int reason);
    uint16_t copied; /* bytes of the argument that were copied at spawn */

    /* set at each spawn, and after a rest: tells it from others that had the same record */
    uint32_t number;
    /* set when the record is made */
    union {
        coir_future end; /* what the task's root returns to: it awaits nothing and has no caller */
        struct {
            const void *end_kind;
            /* set at each spawn: the return address of the public call; NULL: in the library */
            const void *spawned_at;
        };
    };
    struct ci_worker *worker;
};
_Static_assert(offsetof(struct ci_task, spawned_at) ==
                   offsetof(struct ci_task, end) + offsetof(coir_future, caller),
               "it lies where a future that ends a task has a word to spare");
_Static_assert(offsetof(struct ci_task, runnable) == 0, "see ci_runnable_is_branch");

/* state of root.future, for a stackless task: its outermost future stores its result in task->end,
 * and may be freed by then */
enum { CI_ROOT_LEAVES_RESULT = 1 };

struct ci_handle {
    coir_future future; /* of the joining task */
    struct ci_runnable *waiter;
    struct ci_task *task;     /* NULL: ended, or never used */
    struct ci_worker *worker; /* that spawned the task */
    int32_t result;
    bool used;
};
CI_LEAVES_SPARE_WORDS(struct ci_handle, coir_handle);

static inline struct ci_handle *ci_handle_of(coir_handle *handle)
{
    return (struct ci_handle *)(void *)handle;
}

/* The future is left: it may have the result of the task before, for who has not run yet. */
static inline void ci_handle_begin(struct ci_handle *handle, struct ci_task *task,
                                   struct ci_worker *worker)
{
    handle->waiter = NULL;
    handle->task = task;
    handle->worker = worker;
    handle->used = true;
}

/* The result of a handle's task. False: the task has not ended. */
bool ci_handle_has_result(const struct ci_handle *handle, int64_t *ret_result);

/* Turns a zeroed record into one that can be reused. */
void ci_task_make_record(struct ci_task *task, struct ci_worker *worker);

/* Frees the record of a task that has ended or will not start, and whose handle and scope were on
 * its worker. */
void ci_task_free(struct ci_worker *worker, struct ci_task *task);

/* The first part of a task's end, on its worker: takes the root's result, drops the task-locals. */
void ci_task_end(struct ci_task *task);

/* Hands the result to the task's handle, if it has one; on the worker that spawned the task. */
void ci_task_give_result(struct ci_task *task);

/* The handle's task has ended: stores the result, and wakes the task that waits for it (join.c). */
void ci_handle_complete(struct ci_handle *handle, int64_t result);

/* Frees the copied argument, if there is one; on the worker that spawned the task. */
void ci_task_free_argument(struct ci_task *task, struct ci_worker *origin);

#endif
