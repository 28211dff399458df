/* The record of a wait, which all objects of this layer use: it is in the queue of one object,
 * under that object's lock.
 *
 * 1. A waiter is in its object's queue while it is QUEUED. It is taken off once, under the lock,
 * and is then GRANTED (it has what it waited for), RETRYING (it is to try again) or LOST (it is a
 * member of a coir_any that another member has won: it is not woken, but about to be withdrawn).
 * 2. Only its own worker withdraws a waiter, and only while it is QUEUED or LOST.
 * 3. Only a GRANTED or RETRYING waiter is woken, and only once: it is WOKEN then, or polled again.
 * 4. A waiter of another worker is woken there, by a message that lies where its link lay.
 *
 * A waiter may be gone as soon as it is woken, and the object with it: so the object's lock is
 * given back before, and neither is touched afterwards.
 *
 *    (poll) -- cannot have it yet --> QUEUED -- taken off --> GRANTED -- woken --> (complete)
 *                                       |  `--> RETRYING -- woken --> (poll)
 *                                       `-- cancel --> (withdrawn)
 */
#ifndef CI_SYNC_WAIT_H
#define CI_SYNC_WAIT_H

#include "base/check.h"
#include "coir/future.h"
#include "sync/own_lock.h"
#include "sys/lock.h"
#include "task/describe.h"
#include "task/lock_counts.h"
#include "task/park.h"
#include "task/task.h"

enum ci_wait_state {
    CI_WAIT_NEW,
    CI_WAIT_QUEUED,
    CI_WAIT_GRANTED,
    CI_WAIT_RETRYING,
    CI_WAIT_LOST,
    CI_WAIT_WOKEN
};

struct ci_wait {
    coir_future future;
    struct ci_runnable *runnable;
    union {
        struct ci_list link;
        struct ci_message message;
    };
    union { /* one of the two, or neither, as its kind's cancel takes it */
        struct ci_lock *lock;
        struct ci_own_lock *own_lock;
    };
    void *object;
    union {
        void *item;
        uint64_t amount;
    };
    union {
        size_t items_max; /* of a batch */
        uint64_t since;   /* of a wait for a lock that has a name */
    };
    uint8_t state;
    bool lost_once; /* it was woken to try again, and another task was quicker */
    bool stubborn;  /* it cannot be cancelled */
};
CI_FIBER_OP_FITS(struct ci_wait);
CI_LEAVES_SPARE_WORDS(struct ci_wait, coir_wait_op);

/* Takes what is waited for if it is there, or queues. True: complete, with the result set. */
typedef bool ci_wait_start(struct ci_worker *worker, struct ci_wait *wait);

struct ci_wait_kind {
    struct ci_described_kind waits;
    ci_wait_start *start;
    ci_describe_fn *describe; /* NULL: there is no more to say */
};
#define CI_WAIT_KIND_OF(name, start, cancel, describe, is_lock) \
    {                                                           \
        {{CI_DESCRIBED_SIZE, (name), ci_wait_poll, (cancel)},   \
         offsetof(struct ci_wait, object),                      \
         ci_wait_describe,                                      \
         (is_lock)},                                            \
            (start), (describe)                                 \
    }
#define CI_WAIT_KIND(name, start, cancel, describe) \
    CI_WAIT_KIND_OF(name, start, cancel, describe, false)
/* Of what a task holds, which `describe` tells. */
#define CI_LOCK_KIND(name, start, cancel, describe) \
    CI_WAIT_KIND_OF(name, start, cancel, describe, true)

/* For the kinds. */
coir_future *ci_wait_poll(coir_future *future);
int ci_wait_cancel(coir_future *future, int reason);     /* under `lock` */
int ci_wait_cancel_own(coir_future *future, int reason); /* under `own_lock` */
void ci_wait_describe(const coir_future *future, struct ci_wait_note *note);

/* ---- with the object's lock held ---- */

/* `timed`: it was made with the present time. */
CI_INLINE void ci_wait_queue_as(const struct ci_worker *worker, struct ci_wait *wait,
                                struct ci_list *queue, bool timed)
{
    ci_check(wait->state == CI_WAIT_NEW || wait->state == CI_WAIT_RETRYING, "wait.h 1");
    wait->state = CI_WAIT_QUEUED;
    ci_list_push(queue, &wait->link);
    wait->runnable = timed ? ci_leaf_suspend_timed(worker, &wait->future)
                           : ci_leaf_suspend(worker, &wait->future);
}

static inline void ci_wait_queue(const struct ci_worker *worker, struct ci_wait *wait,
                                 struct ci_list *queue)
{
    ci_wait_queue_as(worker, wait, queue, false);
}

static inline struct ci_wait *ci_wait_first(struct ci_list *queue)
{
    return ci_list_empty(queue) ? NULL : ci_container_of(queue->next, struct ci_wait, link);
}

static inline void ci_wait_take_off(struct ci_wait *wait, enum ci_wait_state state)
{
    ci_debug_check(wait->state == CI_WAIT_QUEUED, "wait.h 1");
    ci_list_unlink(&wait->link);
    wait->state = (uint8_t)state;
}

/* Objects that are made by setting them to zero have a queue of zeroes until it is used. */
static inline void ci_wait_open(struct ci_list *queue)
{
    if (ci_unlikely(!queue->next))
        ci_list_init(queue);
}

/* Takes off the first waiter. True: it is GRANTED, and has to be woken. False: it is LOST, try the
 * next. */
static inline bool ci_wait_decide(struct ci_wait *wait)
{
    bool won = ci_claim(wait->runnable, &wait->future);
    ci_wait_take_off(wait, won ? CI_WAIT_GRANTED : CI_WAIT_LOST);
    return won;
}

/* Takes off the first waiter that can be given something; NULL when there is none. */
static inline struct ci_wait *ci_wait_grant(struct ci_list *queue)
{
    struct ci_wait *wait;
    while ((wait = ci_wait_first(queue)) && !ci_wait_decide(wait))
        continue;
    return wait;
}

/* Takes all waiters off. Those that can be given something get `result` and are put on
 * `granted`. */
void ci_wait_grant_all(struct ci_list *queue, int result, struct ci_list *granted);

/* What a kind's cancel does: true when the waiter was withdrawn, with `reason` as its result. */
bool ci_wait_withdraw(struct ci_wait *wait, int reason);

/* ---- without it ---- */

/* Wakes a waiter that is GRANTED, with its result set, or RETRYING. From any thread. */
void ci_wait_wake(struct ci_wait *wait);
void ci_wait_wake_list(struct ci_list *granted);

static inline void ci_wait_wake_all(struct ci_list *granted)
{
    if (ci_unlikely(!ci_list_empty(granted)))
        ci_wait_wake_list(granted);
}

/* Of waiters that have got a lock with this number (task/lock_counts.h), before they are woken. */
void ci_wait_count_granted(uint8_t number, const struct ci_list *granted);

/* Wakes a GRANTED waiter whose result is set, if it is this worker's. */
static inline bool ci_wait_wake_own(struct ci_worker *worker, struct ci_wait *wait)
{
    if (ci_unlikely(wait->runnable->task->worker != worker))
        return false;
    ci_debug_check(wait->state == CI_WAIT_GRANTED, "wait.h 3");
    if (CI_DEBUG)
        wait->state = CI_WAIT_WOKEN;
    ci_wake(worker, wait->runnable, &wait->future);
    return true;
}

/* ---- the two ways to wait ---- */

/* What is waited for. */
struct ci_wait_for {
    const struct ci_wait_kind *kind;
    union {
        struct ci_lock *lock;
        struct ci_own_lock *own_lock;
    };
    void *object;
    union {
        void *item;
        uint64_t amount;
    };
    size_t items_max;
};

/* Makes the record of a wait. `since`: now, if it is certain to be queued, and 0 otherwise. */
CI_INLINE struct ci_wait *ci_wait_init_at(struct ci_wait *wait, struct ci_wait_for what,
                                          coir_time since)
{
    wait->future = (coir_future){&what.kind->waits.future, NULL, since, 0};
    wait->lock = what.lock;
    wait->object = what.object;
    wait->amount = what.amount; /* or the item */
    wait->items_max = what.items_max;
    wait->state = CI_WAIT_NEW;
    wait->lost_once = wait->stubborn = false;
    return wait;
}

CI_INLINE struct ci_wait *ci_wait_init(struct ci_wait *wait, struct ci_wait_for what)
{
    return ci_wait_init_at(wait, what, 0);
}

/* As a future of the caller's. */
static inline coir_future *ci_wait_op(coir_wait_op *op, struct ci_wait_for what)
{
    return &ci_wait_init((struct ci_wait *)(void *)op, what)->future;
}

/* As a straight-line call in a fiber that has entered: the fast path first, then the same record
 * waits. */
CI_INLINE int64_t ci_wait_here(struct ci_worker *worker, struct ci_fiber *fiber,
                               struct ci_wait_for what)
{
    struct ci_wait *wait = ci_wait_init(CI_FIBER_OP(fiber, struct ci_wait), what);
    wait->future.caller = &fiber->back;
    if (what.kind->start(worker, wait)) {
        int64_t result = wait->future.result;
        ci_spend(worker); /* the record is another call's from here on */
        return result;
    }
    ci_park_here(worker, fiber);
    return wait->future.result;
}

/* A whole straight-line call. */
CI_INLINE int64_t ci_wait_in_fiber_in(struct ci_wait_for what, const char *call, const void *place)
{
    int rc = 0;
    struct ci_fiber *fiber = ci_fiber_enter_in(&rc, call, place);
    return ci_likely(fiber) ? ci_wait_here(ci_worker_current, fiber, what) : rc;
}
#define ci_wait_in_fiber(what) ci_wait_in_fiber_in(what, CI_CALL, CI_PLACE)

#endif
