/* Fibers, and the stackful calls that they run.
 *
 * 1. Before a switch to a fiber, worker->runnable and worker->fiber are set to it, and the budget
 *    if it is a new turn of the runnable.
 */
#ifndef CI_TASK_FIBER_H
#define CI_TASK_FIBER_H

#include "base/options.h"
#include "coir/future.h"
#include "sys/context.h"
#include "sys/stack.h"
#include "task/runnable.h"

struct ci_worker;

/* A stackful call: a future that runs a function on a stack of its own. */
struct ci_call {
    coir_future future;
    /* the root of a task without a stack: NULL, and `arg` is the task's outermost future */
    coir_task_fn *fn;
    void *arg;
};
CI_LEAVES_SPARE_WORDS(struct ci_call, coir_call);

/* A call that has not begun. */
extern const coir_future_kind ci_call_kind;

/* A call to be awaited by a stackless frame, or the root of a fiber's task. */
static inline coir_future *ci_call_init(struct ci_call *call, coir_task_fn *fn, void *arg)
{
    *call = (struct ci_call){{&ci_call_kind, NULL, 0, 0}, fn, arg};
    return &call->future;
}

enum { CI_FIBER_OP_WORDS = 20 };

/* Lies at the top of its own stack. */
struct ci_fiber {
    struct ci_stack_free free; /* the stack cache's */
    struct ci_context context; /* these two also begin a generator */
    coir_future back;          /* what the fiber's calls return to */
    struct ci_runnable *runnable;
    struct ci_call *call;             /* the stackful call that it runs */
    struct ci_deferred *deferred;     /* newest first */
    struct coir_generator *generator; /* the innermost one that runs on it, or NULL */
    void (*before_park)(void *arg);   /* called each time before it parks; must not suspend */
    void *before_park_arg;
    uint64_t op[CI_FIBER_OP_WORDS]; /* the future of the straight-line call in progress */
    struct ci_stack_view view;
};

/* The kind of `back`: polling it switches to the fiber. */
extern const coir_future_kind ci_fiber_kind;

/* Storage for that future; the size of each type is checked where the type is defined. */
#define CI_FIBER_OP(fiber, type) ((type *)(void *)(fiber)->op)
#define CI_FIBER_OP_FITS(type) \
    _Static_assert(sizeof(type) <= CI_FIBER_OP_WORDS * sizeof(uint64_t), #type " does not fit")

static inline struct ci_fiber *ci_fiber_of(coir_future *back)
{
    return ci_container_of(back, struct ci_fiber, back);
}

/* Makes a stack's record usable for fibers; the record is fresh or was a generator's. */
void ci_fiber_init(void *record);

/* The fiber to switch to when `runnable`, which is next in the run queue, is not at one: a new one
 * for a call that has not begun, or the one whose coir_any is decided by the member that is next.
 * Takes that off the queue. NULL: the worker's own stack goes on, perhaps with another. */
struct ci_fiber *ci_next_fiber_behind(struct ci_worker *worker, struct ci_runnable *runnable);

/* On a worker that is traced, where `runnable`, which is next in the run queue, is at a fiber:
 * records the turn that ends, begins that of the fiber, and returns it to be switched to. NULL: the
 * worker's own stack goes on. */
CI_NOINLINE struct ci_fiber *ci_next_fiber_traced(struct ci_worker *worker,
                                                  struct ci_runnable *runnable);

#endif
