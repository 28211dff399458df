/* How anything waits. Every operation that may wait is a future; what the run queue holds is a strand.
 *
 * 1. poll answers who goes on: a child, the caller, or nobody (NULL, suspended). A loop follows the answers, so depth costs nothing.
 * 2. A leaf that suspends leaves itself as its strand's `inner`; that is where cancel finds it. ci_wake puts the caller there.
 * 3. A leaf is woken exactly once per suspension, with its result set. Waking queues the strand and never runs it.
 * 4. A strand that has been woken is not cancelled: its inner is no leaf any more.
 * 5. cancel answers true when the wait was withdrawn, with `result` set to the reason: the canceller wakes the strand. It answers
 *    false when the wait cannot be withdrawn or will complete by itself.
 * 6. What a call returns to is a future too: a fiber (poll: switch to its stack) or the end of a task.
 */
#ifndef CI_TASK_WAITER_H
#define CI_TASK_WAITER_H

#include <stdbool.h>

#include "base/compiler.h"

typedef struct coir_future coir_future;

struct coir_future {
    const struct ci_future_kind *kind;
    coir_future *caller;
    int32_t result;
    uint32_t state;
};

struct ci_future_kind {
    const char *name; /* what a waiting task is said to wait for */
    coir_future *(*poll)(coir_future *future);
    bool (*cancel)(coir_future *future, int reason); /* NULL: nothing to withdraw */
};

struct ci_strand {
    struct ci_strand *next;
    coir_future *inner;
};

#endif
