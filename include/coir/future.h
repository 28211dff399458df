/* Futures: operations as values, and tasks without a stack.
 *
 * A future is a small struct made in place. Where the call f() has a future of its own, that is
 * made by f_op(): sleeps, joins, locks, channels, streams, datagrams, reads and writes of files,
 * offloaded work. Any other suspending call, such as a server, is made a future by coir_call_init.
 * A fiber awaits a future with coir_await; a stackless task embeds it in its frame and awaits it
 * with COIR_AWAIT; coir_any and coir_join_all await several at once.
 *
 *   struct beat { coir_future future; coir_sleep_op pause; int count; };
 *
 *   static coir_future *beat_poll(coir_future *future)
 *   {
 *       struct beat *self = coir_frame(future, struct beat);
 *       COIR_BEGIN(future);
 *       for (self->count = 0; self->count < 3; self->count++)
 *           COIR_AWAIT(future, coir_sleep_for_op(&self->pause, 100 * COIR_MS));
 *       COIR_END(future);
 *   }
 *   static const coir_future_kind beat_kind = COIR_FUTURE_KIND("beat", beat_poll, 0);
 *
 * A frame's locals are its fields: C's own locals are lost at each await. A future must stay where
 * it is from its first poll until it has completed; then it may be made anew. */
#ifndef COIR_FUTURE_H
#define COIR_FUTURE_H

#include <coir/scope.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coir_future coir_future;

/* The functions of a kind of futures; initialise it with COIR_FUTURE_KIND. */
typedef struct coir_future_kind {
    size_t size;      /* sizeof(coir_future_kind) */
    const char *name; /* what a waiting task waits for, in reports */
    /* Begins or continues the future, and returns the future to run next: a child that was made,
     * the caller (`future->caller`, with `result` set), or NULL when it has suspended (coir/waker.h
     * has what wakes it). Must not call what suspends. */
    coir_future *(*poll)(coir_future *future);
    /* For futures that suspend themselves: withdraws the wait, sets `result` to `reason` and
     * returns 1; or returns 0 when the wait will complete all the same. NULL in frames, which see
     * -ECANCELED from what they await. */
    int (*cancel)(coir_future *future, int reason);
} coir_future_kind;

#define COIR_FUTURE_KIND(name, poll, cancel)         \
    {                                                \
        sizeof(coir_future_kind), name, poll, cancel \
    }

/* An operation as a value: the first member of each struct that is a future. */
struct coir_future {
    const coir_future_kind *kind; /* its functions */
    coir_future *caller;          /* the future to run next when this one has completed */
    int64_t result;               /* 0 or a count, or a negative error */
    uint32_t state;               /* the kind's own; 0 before the first poll */
};

/* Makes a future of a kind, for a struct of the program's own, and returns it. It has not begun.
 * Suspends: no.  Threads: any. */
static inline coir_future *coir_future_init(coir_future *future, const coir_future_kind *kind)
{
    future->kind = kind;
    future->caller = 0;
    future->result = 0;
    future->state = 0;
    return future;
}

/* The frame of type `type` whose first member is `future`. */
#define coir_frame(future, type) ((type *)(void *)(future))

/* ---- writing a frame's poll as straight-line code ---- */

#if defined(__GNUC__)
#define COIR_LABELS_ _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wpedantic\"")
#define COIR_LABELS_END_ _Pragma("GCC diagnostic pop")
#endif
#define COIR_LABEL_(line) COIR_CONCAT(coir_resume_, line)
#define COIR_LEAVE_(future, to)                                                   \
    COIR_LABELS_(future)->state =                                                 \
        (uint32_t)((char *)&&COIR_LABEL_(__LINE__) - (char *)&&coir_begin_label); \
    return to;                                                                    \
    COIR_LABEL_(__LINE__) : COIR_LABELS_END_(void) 0

/* First statement of a frame's poll: continues where the frame was left. */
#define COIR_BEGIN(future)                                                        \
    COIR_LABELS_ if ((future)->state) goto *(void *)((char *)&&coir_begin_label + \
                                                     (int32_t)(future)->state);   \
    coir_begin_label:                                                             \
    COIR_LABELS_END_(void) 0

/* Awaits a child future in a frame's poll. The child lies in the frame, or outlives the wait; its
 * result is in it afterwards. */
#define COIR_AWAIT(future, child)                              \
    do {                                                       \
        COIR_LEAVE_(future, coir_called_by_((future), child)); \
    } while (0)

static inline coir_future *coir_called_by_(coir_future *caller, coir_future *child)
{
    child->caller = caller;
    return child;
}

/* Hands a value to the future that awaits this frame, and continues from here when it is awaited
 * again. coir_frame_has_ended tells a value from the end. */
#define COIR_YIELD(future, value)              \
    do {                                       \
        (future)->result = (value);            \
        COIR_LEAVE_(future, (future)->caller); \
    } while (0)

/* Ends a frame with a result. It may be awaited anew then, from its beginning. */
#define COIR_RETURN(future, value)  \
    do {                            \
        (future)->result = (value); \
        (future)->state = 0;        \
        return (future)->caller;    \
    } while (0)

/* Last statement of a frame's poll: ends the frame with 0. */
#define COIR_END(future) COIR_RETURN(future, 0)

/* Whether a frame that was awaited has ended; otherwise it has yielded.
 * Suspends: no.  Threads: worker. */
static inline bool coir_frame_has_ended(const coir_future *future)
{
    return future->state == 0;
}

/* ---- running futures ---- */

/* Awaits a future in a fiber and returns its result. The polls of its frames run on the worker's
 * stack, not on the fiber's.
 * Suspends: yes.  Threads: worker.  Owns: the future is borrowed until the call returns.
 * Errors: the future's own; a future that was not begun yet is left so by -ECANCELED and -ETIME;
 * -EINVAL no future; -EBUSY it was started before and has not completed, or a frame awaited it:
 * make it anew.
 * Cancel safety: that of the future. */
COIR_SUSPENDS int64_t coir_await(coir_future *future);

/* Starts a future as a task without a stack. It is scoped, named, joined, cancelled and placed
 * like a fiber. Its result, as an int, goes to the scope.
 * Suspends: no.  Threads: worker.  Owns: the future is borrowed until the task ends.
 * Errors: those of coir_go; -EINVAL no future; -EBUSY it was started before and has not completed,
 * or a frame awaits it: make it anew. */
COIR_API int coir_go_future(coir_scope *scope, coir_future *future);

/* Starts a future as a task without a stack, with options. Their copy_size must be 0. As
 * coir_go_future.
 * Errors: those of coir_go_future and coir_go_with; -EINVAL copy_size. */
COIR_API int coir_go_future_with(coir_scope *scope, const coir_go_options *options,
                                 coir_future *future);

/* A future whose result goes to a callback: coir_completion_start makes it. */
typedef struct coir_completion {
    coir_future future;
    uint64_t opaque[8];
} coir_completion;

/* Starts a future as a task, and calls a function with its result, for programs in callback style.
 * `fn` is called on the worker when the future has completed. The completion is free by then: `fn`
 * may release it together with the future. An error is the scope's as well, unless the scope is
 * NULL.
 * Suspends: no.  Threads: worker.  Owns: completion and future are borrowed until `fn` is called.
 * Errors: those of coir_go; -EINVAL no completion, future or function; -EBUSY the future was
 * started before and has not completed. */
COIR_API int coir_completion_start(coir_scope *scope, coir_completion *completion,
                                   coir_future *future, void (*fn)(int64_t result, void *arg),
                                   void *arg);

/* A function that may suspend, as a future: coir_call_init makes it. */
typedef struct coir_call {
    coir_future future;
    uint64_t opaque[8];
} coir_call;

/* Makes the future of a call of `fn(arg)`, which may suspend. It gets a fiber's stack when the
 * future is first polled. So a frame calls a function that suspends, and coir_any races two of
 * them. The future's result is what `fn` returned, or -ENOMEM when there is no stack.
 * Suspends: no.  Threads: any.  Owns: `call` and `arg` are borrowed until the future has
 * completed. */
COIR_API coir_future *coir_call_init(coir_call *call, coir_task_fn *fn, void *arg);

/* Runs a future to its end from a plain thread, which sleeps meanwhile. The future runs on worker
 * 0 of a runtime that runs, or, where `runtime` is NULL, on a runtime of its own. With
 * coir_call_init it runs a function in a fiber. With a runtime whose run has not begun it waits
 * for that.
 * Suspends: no (it blocks).  Threads: plain ones.  Owns: the future is borrowed until the call
 * returns.
 * Errors: the future's own; -EDEADLK called on a worker; -ECANCELED the runtime stopped before the
 * future began; -COIR_EENDED the run had ended before; of a runtime of its own those of
 * coir_runtime_new and coir_runtime_run. */
COIR_API int64_t coir_block_on(coir_runtime *runtime, coir_future *future);

/* Runs `fn(arg)` in a fiber on another worker, waits for it, and returns its result.
 * Suspends: yes.  Threads: worker.
 * Errors: what `fn` returned; -EINVAL no function, or no worker `index`; those of coir_go_with.
 * Cancel safety: the call is cancelled, and waited for. */
COIR_SUSPENDS int coir_call_on(int index, coir_task_fn *fn, void *arg);

/* ---- several at once ---- */

/* A member of a group of futures. It has a runnable of its own, so that only a member that was
 * woken is polled. Initialise it with COIR_BRANCH. */
typedef struct coir_branch {
    coir_future *future;
    uint64_t opaque[16];
} coir_branch;

/* Initialises a coir_branch with its future. */
#define COIR_BRANCH(future)                                \
    {                                                      \
        future,                                            \
        {                                                  \
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
        }                                                  \
    }

/* Whether a member's future has completed. Otherwise it was never begun, or was withdrawn. Its
 * result is in it.
 * Suspends: no.  Threads: owner. */
COIR_API bool coir_branch_is_complete(const coir_branch *branch);

/* Storage for the future of a wait for several: coir_any_op and the like make it. */
typedef struct coir_group {
    coir_future future;
    uint64_t opaque[12];
} coir_group;

/* Waits until all members have completed, and returns 0. At most `window` run at a time (0: all at
 * once). Results are in the members' futures. When the caller is cancelled, the members are
 * cancelled and waited for; the result is -ECANCELED or -ETIME then.
 * Suspends: yes.  Threads: worker.  Owns: the members are borrowed until the call returns.
 * Errors: -EINVAL a branch without a future; -EBUSY the future of a branch was started before and
 * has not completed, or is another branch's too: the others are cancelled.
 * Cancel safety: that of the members. */
COIR_SUSPENDS int coir_join_all(coir_branch *branches, size_t count, size_t window);
COIR_API coir_future *coir_join_all_op(coir_group *group, coir_branch *branches, size_t count,
                                       size_t window);

/* Waits until all members have completed, or one fails: that cancels the rest. Returns the first
 * error, or 0. Otherwise it is as coir_join_all. As coir_join_all.
 * Errors: the first error of a member; -EINVAL, -EBUSY. */
COIR_SUSPENDS int coir_join_or_cancel(coir_branch *branches, size_t count, size_t window);
COIR_API coir_future *coir_join_or_cancel_op(coir_group *group, coir_branch *branches, size_t count,
                                             size_t window);

/* Waits for the first member to complete, cancels the rest, waits for them, and returns its index.
 * It begins at a different member each time. A loser that had completed keeps its result, and
 * coir_branch_is_complete is true for it; but of members that take something from a channel, a
 * lock and the like only the winner does. When the caller is cancelled, the members are cancelled
 * and waited for; the result is -ECANCELED or -ETIME then, unless one had completed.
 * Suspends: yes.  Threads: worker.  Owns: the members are borrowed until the call returns.
 * Errors: -EINVAL there are no members, or one has no future; -EBUSY as coir_join_all.
 * Cancel safety: that of the members. */
COIR_SUSPENDS int coir_any(coir_branch *branches, size_t count);
COIR_API coir_future *coir_any_op(coir_group *group, coir_branch *branches, size_t count);

/* Waits for the first member to complete, as coir_any does; where several are ready, the first in
 * the array wins. As coir_any. */
COIR_SUSPENDS int coir_any_in_order(coir_branch *branches, size_t count);
COIR_API coir_future *coir_any_in_order_op(coir_group *group, coir_branch *branches, size_t count);

/* A set of members that may grow while it is awaited. One task uses it, from any of its branches.
 * It must be empty before it goes. */
typedef struct coir_set {
    coir_future future;
    uint64_t opaque[14];
} coir_set;

/* Makes an empty set of members.
 * Suspends: no.  Threads: any. */
COIR_API void coir_set_init(coir_set *set);

/* Adds a member to a set and begins it; it runs when the task suspends.
 * Suspends: no.  Threads: worker.  Owns: the member is borrowed until it is taken out of the set.
 * Errors: -ESRCH not in a task; -EINVAL no future; -EBUSY the future was started before and has not
 * completed. */
COIR_API int coir_set_add(coir_set *set, coir_branch *branch);

/* Waits for a member of a set to complete, and takes it out: 1, and *ret_branch. Members come out
 * in the order in which they completed. Returns 0 when none is left.
 * Suspends: yes.  Threads: owner.
 * Errors: -EBUSY another branch waits for the set; -EINVAL it was not made; -EXDEV, for which
 * coir_set_next_op is NULL.
 * Cancel safety: a member that has completed stays in the set. */
COIR_SUSPENDS int coir_set_next(coir_set *set, coir_branch **ret_branch);
COIR_API coir_future *coir_set_next_op(coir_set *set, coir_branch **ret_branch);

/* Asks the members of a set that run to end. They stay in the set until they are taken out.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_set_cancel(coir_set *set);

/* Cancels the members of a set, waits for them, and empties it.
 * Suspends: yes, while members run.  Threads: owner.
 * Cancel safety: it waits all the same. */
COIR_SUSPENDS void coir_set_done(coir_set *set);

/* How many members of a set were not taken out yet.
 * Suspends: no.  Threads: owner. */
COIR_API size_t coir_set_live(const coir_set *set);

/* Storage for the future of a wait on a lock, a channel, an event and the like. */
typedef struct coir_wait_op {
    coir_future future;
    uint64_t opaque[14];
} coir_wait_op;

/* ---- the futures of the calls in coir/fiber.h and coir/scope.h ---- */

/* Storage for the future of a sleep. */
typedef struct coir_sleep_op {
    coir_future future;
    uint64_t opaque[14];
} coir_sleep_op;

COIR_API coir_future *coir_sleep_until_op(coir_sleep_op *op, coir_time when);

/* The future of a sleep that is measured from its first poll. As coir_sleep_for. */
COIR_API coir_future *coir_sleep_for_op(coir_sleep_op *op, coir_time duration);

/* The future of letting every other runnable task of the worker run first. As coir_yield. */
COIR_API coir_future *coir_yield_op(coir_future *op);

/* The future of the end of a task, in its handle: no other task may join by the handle until it has
 * completed. NULL on another worker than the one that spawned the task. As coir_join. */
COIR_API coir_future *coir_join_op(coir_handle *handle);

#ifdef __cplusplus
}
#endif

#endif
