/* Futures: operations as values, and tasks without a stack.
 *
 * A future is a small struct made in place. Where the call f() has a future of its own, that is
 * made by f_op(): sleeps, joins, locks, channels, streams, datagrams, reads and writes of files,
 * offloaded work. Any other suspending call is one inside of a coir_call_init. A fiber awaits a
 * future with coir_await; a stackless task embeds it in its frame and awaits it with COIR_AWAIT;
 * coir_any and coir_join_all await several at once.
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

/* `poll` answers who goes on: a child that was made, the caller (`future->caller`, with `result`
 * set), or nobody (0: suspended, see coir/waker.h). `cancel` is for futures that suspend
 * themselves: it withdraws the wait, sets `result` to `reason` and returns 1, or returns 0 when the
 * wait will complete all the same. Frames have none: they see -ECANCELED from what they await. */
typedef struct coir_future_kind {
    size_t size;      /* sizeof(coir_future_kind) */
    const char *name; /* what a waiting task is said to wait for */
    coir_future *(*poll)(coir_future *future);
    int (*cancel)(coir_future *future, int reason);
} coir_future_kind;

#define COIR_FUTURE_KIND(name, poll, cancel)         \
    {                                                \
        sizeof(coir_future_kind), name, poll, cancel \
    }

struct coir_future {
    const coir_future_kind *kind;
    coir_future *caller; /* who goes on when this one is complete */
    int64_t result;      /* 0 or a count, or a negative error */
    uint32_t state;      /* the kind's own; 0 before the first poll */
};

/* Makes a future of the given kind. */
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

/* First in a poll, after the frame was found: goes on where the frame was left. */
#define COIR_BEGIN(future)                                                        \
    COIR_LABELS_ if ((future)->state) goto *(void *)((char *)&&coir_begin_label + \
                                                     (int32_t)(future)->state);   \
    coir_begin_label:                                                             \
    COIR_LABELS_END_(void) 0

/* Awaits a child future, which must lie in the frame or outlive the wait. Its result is in it
 * afterwards. */
#define COIR_AWAIT(future, child)                              \
    do {                                                       \
        COIR_LEAVE_(future, coir_called_by_((future), child)); \
    } while (0)

static inline coir_future *coir_called_by_(coir_future *caller, coir_future *child)
{
    child->caller = caller;
    return child;
}

/* Hands a value to whoever awaits this frame; goes on from here when it is awaited again.
 * coir_frame_has_ended says which it was. */
#define COIR_YIELD(future, value)              \
    do {                                       \
        (future)->result = (value);            \
        COIR_LEAVE_(future, (future)->caller); \
    } while (0)

/* Ends the frame with a result; it may be awaited anew then, from its beginning. */
#define COIR_RETURN(future, value)  \
    do {                            \
        (future)->result = (value); \
        (future)->state = 0;        \
        return (future)->caller;    \
    } while (0)

/* Last in a poll: ends the frame with 0. */
#define COIR_END(future) COIR_RETURN(future, 0)

/* Whether a frame that was awaited has ended; otherwise it has yielded. */
static inline bool coir_frame_has_ended(const coir_future *future)
{
    return future->state == 0;
}

/* ---- running futures ---- */

/* Awaits a future in a fiber and gives its result. Its frames run on the worker's stack, not on the
 * fiber's.
 * Suspends: yes.  Threads: worker.  Owns: the future is borrowed until the call returns.
 * Errors: the future's own; a future that was not begun yet is left so by -ECANCELED and -ETIME.
 * Cancel safety: that of the future. */
COIR_SUSPENDS int64_t coir_await(coir_future *future);

/* Starts a future as a task without a stack: scoped, named, joined, cancelled and placed like a
 * fiber. The copy_size of its options must be 0. The future is borrowed until the task ends. The
 * scope gets what the future's result is as an int.
 * Suspends: no.  Threads: worker.
 * Errors: those of coir_go_with. */
COIR_API int coir_go_future(coir_scope *scope, coir_future *future);
COIR_API int coir_go_future_with(coir_scope *scope, const coir_go_options *options,
                                 coir_future *future);

/* The same for programs in callback style: `fn` is called on the worker when the future has
 * completed, with its result. The completion is free when `fn` is called, which may release it
 * together with the future. An error is the scope's as well, but for a NULL scope: then it is
 * `fn`'s alone.
 * Suspends: no.  Threads: worker.  Owns: both are borrowed until `fn` is called.
 * Errors: those of coir_go_with. */
typedef struct coir_completion {
    coir_future future;
    uint64_t opaque[8];
} coir_completion;
COIR_API int coir_completion_start(coir_scope *scope, coir_completion *completion,
                                   coir_future *future, void (*fn)(int64_t result, void *arg),
                                   void *arg);

/* Straight-line code as a future: `fn(arg)` gets a fiber's stack when it is first polled. So a
 * frame calls a function that suspends, and coir_any races two of them.
 * Suspends: no.  Threads: worker.
 * Errors of the future: what `fn` returned; -ENOMEM no stack. */
typedef struct coir_call {
    coir_future future;
    uint64_t opaque[8];
} coir_call;
COIR_API coir_future *coir_call_init(coir_call *call, coir_task_fn *fn, void *arg);

/* A plain thread runs a future to its end and sleeps in between: on worker 0 of a runtime that
 * runs, or with NULL on one of its own. With coir_call_init it runs a function in a fiber.
 * Suspends: no (it blocks).  Threads: plain ones. With a runtime whose run has not begun it waits
 * for that.
 * Errors: the future's own; -EDEADLK called on a worker; -ECANCELED the runtime stopped before
 * the future began; -COIR_EENDED its run had ended before. */
COIR_API int64_t coir_block_on(coir_runtime *runtime, coir_future *future);

/* Runs `fn(arg)` in a fiber on worker `index` and waits for it.
 * Suspends: yes.  Threads: worker.
 * Errors: what `fn` returned; -EINVAL no function, or no such worker; -ENOMEM.
 * Cancel safety: the call is cancelled, and waited for. */
COIR_SUSPENDS int coir_call_on(int index, coir_task_fn *fn, void *arg);

/* ---- several at once ---- */

/* A member of a group: its future, and the place for a runnable of execution of its own. Only a
 * member that was woken is polled. */
typedef struct coir_branch {
    coir_future *future;
    uint64_t opaque[16];
} coir_branch;

#define COIR_BRANCH(future)                                \
    {                                                      \
        future,                                            \
        {                                                  \
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
        }                                                  \
    }

/* Whether the member's future has completed, rather than never been begun or been withdrawn; its
 * result is in it. */
COIR_API bool coir_branch_is_complete(const coir_branch *branch);

typedef struct coir_group {
    coir_future future;
    uint64_t opaque[12];
} coir_group;

/* Each waits until no member is running. Members are borrowed until then.
 *   coir_join_all  for all of them, at most `window` at a time (0: all at once): 0.
 *   coir_join_or_cancel  the same, but the first error cancels the rest: that error, or 0.
 *   coir_any       for the first one, which cancels the rest: its index. A loser that had completed
 * keeps its result and is marked done; but of members that take something from a channel, a lock
 * and the like only the winner does. coir_any_in_order  the same; where several are ready, the
 * first in the array wins. coir_any begins at a different one each time. A cancelled caller's
 * members are cancelled and waited for; the result is then -ECANCELED or -ETIME (of coir_any: if
 * there is no winner).
 * Suspends: yes.  Threads: worker.
 * Errors: -EINVAL for a coir_any of nothing.
 * Cancel safety: that of the members. */
COIR_SUSPENDS int coir_join_all(coir_branch *branches, size_t count, size_t window);
COIR_SUSPENDS int coir_join_or_cancel(coir_branch *branches, size_t count, size_t window);
COIR_SUSPENDS int coir_any(coir_branch *branches, size_t count);
COIR_SUSPENDS int coir_any_in_order(coir_branch *branches, size_t count);
COIR_API coir_future *coir_join_all_op(coir_group *group, coir_branch *branches, size_t count,
                                       size_t window);
COIR_API coir_future *coir_join_or_cancel_op(coir_group *group, coir_branch *branches, size_t count,
                                             size_t window);
COIR_API coir_future *coir_any_op(coir_group *group, coir_branch *branches, size_t count);
COIR_API coir_future *coir_any_in_order_op(coir_group *group, coir_branch *branches, size_t count);

/* A set of members that grows while it is awaited. One task uses it, from any of its branches.
 *   coir_set_add   begins a member (it runs when the task suspends).
 *   coir_set_next  waits for a member to complete and takes it out: 1 and *ret_branch, in the order
 * of completion; 0 when none is left. coir_set_cancel cancels the members that run. coir_set_done
 * does that, and waits for them; it cannot be cancelled itself. Before the set goes it must be
 * empty.
 * Suspends: next and close.  Threads: worker.
 * Errors: -EBUSY another branch waits for the set; -ESRCH.
 * Cancel safety: a member that has completed stays in the set. */
typedef struct coir_set {
    coir_future future;
    uint64_t opaque[14];
} coir_set;
COIR_API void coir_set_init(coir_set *set);
COIR_API int coir_set_add(coir_set *set, coir_branch *branch);
COIR_SUSPENDS int coir_set_next(coir_set *set, coir_branch **ret_branch);
COIR_API void coir_set_cancel(coir_set *set);
COIR_SUSPENDS void coir_set_done(coir_set *set);
COIR_API coir_future *coir_set_next_op(coir_set *set, coir_branch **ret_branch);
COIR_API size_t coir_set_live(const coir_set *set);

/* The future of any wait on a lock, a channel, an event and the like. */
typedef struct coir_wait_op {
    coir_future future;
    uint64_t opaque[14];
} coir_wait_op;

/* ---- the futures of the calls in coir/fiber.h and coir/scope.h; of calls that are made of
 * several, such as serving, see coir_call_init
 * ----
 */

typedef struct coir_sleep_op {
    coir_future future;
    uint64_t opaque[14];
} coir_sleep_op;

/* Suspends: no (they make futures).  Threads: worker.
 * Errors of the futures: those of the calls. */
COIR_API coir_future *coir_sleep_until_op(coir_sleep_op *op, coir_time when);
COIR_API coir_future *coir_sleep_for_op(coir_sleep_op *op, coir_time duration);
COIR_API coir_future *coir_yield_op(coir_future *op);
COIR_API coir_future *coir_join_op(coir_handle *handle);

#ifdef __cplusplus
}
#endif

#endif
