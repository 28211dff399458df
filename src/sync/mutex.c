/* The mutex.
 *
 * While no waiter is queued, `state` is the whole mutex: one compare-and-swap locks it, one unlocks
 * it. An unlocked mutex is free at once, and one waiter is woken to try again; a running task may
 * lock it before.
 *
 * While a worker owns its lock (own_lock.h), `state` is OWNED, so that every other thread takes the
 * lock, which ends that; `owned` is the state then, which the owner changes without a locked
 * operation. Below, "the state" is the one of the two that state_of returns.
 *
 * A fiber that finds the mutex HELD spins for a few microseconds before it queues, if its worker
 * has no other task ready: most sections are shorter than a wake-up. It does not look at the mutex
 * meanwhile, as each look would take the line from the worker that uses it. Then it may take the
 * mutex before a waiter that was woken, as any running task (3). A fair mutex is not waited for so.
 *
 * 1. A waiter is queued only while the mutex is held; it is CONTENDED then, so that unlocking it
 *    looks at the queue.
 * 2. While a waiter is queued, the mutex is CONTENDED, or a woken waiter has not tried again yet.
 * 3. A waiter loses at most once: the next unlock hands the mutex to it, as it does to every waiter
 *    of a fair mutex.
 * 4. The mutex is unlocked only while it is held. Who locks it next may release it: so it is made
 *    FREE by the last store of an unlock, or under its lock, while a waiter or the lock keeps it.
 * 5. Under the lock, after state_of, `state` is OWNED if the calling thread's worker owns the lock.
 */
#include "sync/mutex.h"

#include <errno.h>

#include "base/check.h"
#include "sync/holder.h"
#include "sync/lock_name.h"
#include "sys/ticks.h"
#include "task/completed.h"

enum { UNUSED, HELD, CONTENDED, FREE, OWNED };

/* A spin: how many attempts, and which part of the loop's longest spin lies before each. */
enum { ATTEMPTS = 4, SPIN_PARTS = 64 };

struct mutex {
    uint32_t state;
    struct ci_own_lock lock;
    uint32_t owned;        /* FREE, HELD or CONTENDED */
    uint32_t on_their_way; /* waiters that were woken to try again */
    bool fair;
    uint8_t number; /* of its name, or 0 */
    struct ci_holder holder;
    /* the calls that need not wait touch nothing from here on */
    struct ci_list waiters; /* zero while it was never used */
};
CI_LEAVES_SPARE_WORDS(struct mutex, coir_mutex);
_Static_assert(offsetof(struct mutex, fair) == offsetof(coir_mutex, opaque) + 24,
               "see COIR_FAIR_MUTEX_INIT");

static struct mutex *mutex_of(coir_mutex *mutex)
{
    return (struct mutex *)(void *)mutex;
}

static bool take_if_free(struct mutex *mutex, uint32_t *state, uint32_t as)
{
    uint32_t free = FREE;
    bool taken = ci_compare_exchange(state, &free, as);
    if (taken)
        ci_note_acquire(&mutex->state);
    return taken;
}

/* With the lock held, whose owner may be another than before. */
static uint32_t *state_of(struct mutex *mutex)
{
    bool is_mine = ci_own_lock_is_mine(&mutex->lock);
    uint32_t state = ci_glance(&mutex->state); /* it is UNUSED or OWNED until the lock is given */
    if (is_mine && state != OWNED) {
        state = ci_exchange(&mutex->state, OWNED); /* plain threads may have used it before */
        ci_store_relaxed(&mutex->owned, state == UNUSED ? FREE : state);
    } else if (!is_mine && state == OWNED) {
        ci_store_release(&mutex->state, ci_load_relaxed(&mutex->owned));
    } else if (!is_mine && state == UNUSED) {
        ci_store_release(&mutex->state, FREE);
    }
    ci_debug_check((ci_load_relaxed(&mutex->state) == OWNED) == is_mine, "mutex.c 5");
    return is_mine ? &mutex->owned : &mutex->state;
}

/* The fast path of the owner. False: it is not the owner, or the state is not `from`. */
CI_INLINE bool change_owned(struct mutex *mutex, const struct ci_worker *worker, uint32_t from,
                            uint32_t to)
{
    CI_PREFETCH_WRITE(mutex); /* a mutex that is shared is exchanged next */
    if (ci_notes_order() || !ci_own_lock_enter(&mutex->lock, worker->owner_number))
        return false;
    bool changes = ci_load_relaxed(&mutex->owned) == from;
    if (changes)
        ci_store_relaxed(&mutex->owned, to);
    ci_own_lock_leave_owned(&mutex->lock);
    return changes;
}

/* ---- giving back ---- */

/* With the lock held: frees the mutex, or hands it over. Returns the waiter to wake, or NULL: there
 * is none, and the state is `otherwise`. */
static struct ci_wait *pass_on(struct mutex *mutex, uint32_t *state, uint32_t otherwise)
{
    for (struct ci_wait *wait; (wait = ci_wait_first(&mutex->waiters));) {
        bool hand_over = mutex->fair || wait->lost_once;
        if (!hand_over) {
            ci_wait_take_off(wait, CI_WAIT_RETRYING);
            mutex->on_their_way++;
            ci_store(state, FREE);
            return wait;
        }
        if (ci_wait_decide(wait)) {
            wait->future.result = 0;
            ci_holder_set(&mutex->holder, wait->runnable->task);
            ci_store(state, ci_list_empty(&mutex->waiters) ? HELD : CONTENDED);
            return wait;
        }
    }
    ci_store(state, otherwise);
    return NULL;
}

static void give_lock(struct mutex *mutex, const uint32_t *state)
{
    ci_check(ci_list_empty(&mutex->waiters) || mutex->on_their_way ||
                 ci_load_relaxed(state) == CONTENDED,
             "mutex.c 2");
    ci_own_lock_give(&mutex->lock);
}

/* Without the lock: a waiter that pass_on has taken off. */
static void wake(uint8_t number, struct ci_wait *wait)
{
    if (ci_unlikely(number) && wait->state == CI_WAIT_GRANTED)
        ci_lock_wait_ended(number, wait->since);
    ci_wait_wake(wait);
}

/* By way of the queue. False: there is no waiter, and the mutex is HELD. */
static bool unlock_queued(struct mutex *mutex, const char *call, const void *place)
{
    ci_own_lock_take(&mutex->lock);
    uint32_t *state = state_of(mutex);
    ci_wait_open(&mutex->waiters);
    /* the last waiter may have been cancelled since the caller saw that the mutex is CONTENDED */
    if (ci_load_relaxed(state) == FREE)
        ci_misused(-EALREADY, "no task has the mutex", call, place);
    ci_check(ci_load_relaxed(state) != FREE, "mutex.c 4");
    bool mine = state == &mutex->owned;
    struct ci_wait *next = pass_on(mutex, state, mine ? FREE : HELD);
    uint8_t number = ci_load_relaxed(&mutex->number);
    give_lock(mutex, state);
    if (next)
        wake(number, next);
    return next || mine;
}

static CI_NOINLINE void unlock_contended(struct mutex *mutex, const char *call, const void *place)
{
    uint32_t state = HELD;
    while (!unlock_queued(mutex, call, place) && !ci_compare_exchange(&mutex->state, &state, FREE))
        state = HELD;
}

/* In a program with TSan. */
static CI_COLD void unlock_noted(struct mutex *mutex, const char *call, const void *place)
{
    uint32_t state = HELD;
    ci_note_release(&mutex->state);
    if (!ci_compare_exchange(&mutex->state, &state, FREE))
        unlock_contended(mutex, call, place);
}

/* This and coir_mutex_lock make no call but as their last step, so that they save no registers. */
void coir_mutex_unlock(coir_mutex *opaque)
{
    if (CI_DEBUG && CI_REFUSED(!opaque, "mutex is NULL"))
        return;
    struct mutex *mutex = mutex_of(opaque);
    const struct ci_worker *worker = ci_worker_current;
    uint32_t state = HELD;
    ci_holder_clear(&mutex->holder);
    if (ci_likely(worker && change_owned(mutex, worker, HELD, FREE)))
        return;
    if (ci_notes_order())
        unlock_noted(mutex, CI_CALL, CI_PLACE);
    else if (ci_unlikely(!ci_compare_exchange(&mutex->state, &state, FREE)))
        unlock_contended(mutex, CI_CALL, CI_PLACE);
}

/* ---- taking ---- */

static bool try_lock(struct mutex *mutex)
{
    if (take_if_free(mutex, &mutex->state, HELD))
        return true;
    uint32_t state = ci_load_relaxed(&mutex->state);
    if (state != UNUSED && state != OWNED)
        return false;
    ci_own_lock_take(&mutex->lock);
    bool taken = take_if_free(mutex, state_of(mutex), HELD);
    ci_own_lock_give(&mutex->lock);
    return taken;
}

int coir_mutex_try_lock(coir_mutex *mutex)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!mutex)
        return CI_MISUSE(-EINVAL, "mutex is NULL");
    if (!try_lock(mutex_of(mutex)))
        return -EAGAIN;
    if (ci_worker_current && ci_worker_current->runnable)
        ci_holder_set(&mutex_of(mutex)->holder, ci_worker_current->runnable->task);
    return 0;
}

/* With the lock held: takes the mutex. If it is taken, marks it as CONTENDED instead, so that it is
 * given back by way of the queue. */
static bool take_or_contend(struct mutex *mutex, uint32_t *state)
{
    for (;;) {
        if (take_if_free(mutex, state, ci_list_empty(&mutex->waiters) ? HELD : CONTENDED))
            return true;
        uint32_t held = HELD;
        if (ci_compare_exchange(state, &held, CONTENDED) || held == CONTENDED)
            return false;
    }
}

static bool start(struct ci_worker *worker, struct ci_wait *wait)
{
    struct mutex *mutex = wait->object;
    bool retrying = wait->state == CI_WAIT_RETRYING, complete = true, won = false;
    struct ci_wait *next = NULL;
    ci_own_lock_take(&mutex->lock);
    uint32_t *state = state_of(mutex);
    uint8_t number = ci_load_relaxed(&mutex->number);
    ci_wait_open(&mutex->waiters);
    mutex->on_their_way -= retrying;
    if (take_or_contend(mutex, state)) {
        won = ci_claim(worker->runnable, &wait->future);
        wait->future.result = won ? 0 : -ECANCELED;
        if (won)
            ci_holder_set(&mutex->holder, worker->runnable->task);
        else /* another member has won its coir_any: the mutex goes to the next waiter */
            next = pass_on(mutex, state, FREE);
    } else if (retrying && worker->runnable->interrupt && !wait->stubborn) {
        wait->future.result = worker->runnable->interrupt;
        if (ci_list_empty(&mutex->waiters)) { /* no waiter is left */
            uint32_t contended = CONTENDED;
            ci_compare_exchange(state, &contended, HELD);
        }
    } else {
        ci_check(ci_load_relaxed(state) == CONTENDED, "mutex.c 1");
        ci_wait_queue(worker, wait, &mutex->waiters);
        if (retrying) { /* in front of all others */
            ci_check(!wait->lost_once, "mutex.c 3");
            wait->lost_once = true;
            ci_list_unlink(&wait->link);
            ci_list_insert_before(mutex->waiters.next, &wait->link);
        } else if (ci_unlikely(number)) {
            wait->since = ci_lock_wait_begins(number);
        }
        complete = false;
    }
    give_lock(mutex, state);
    if (ci_unlikely(number) && retrying && won)
        ci_lock_wait_ended(number, wait->since);
    if (next)
        wake(number, next);
    return complete;
}

static void mutex_describe(const coir_future *future, struct ci_wait_note *note)
{
    const struct mutex *mutex = ci_container_of(future, const struct ci_wait, future)->object;
    note->holder = ci_holder_read(&mutex->holder);
    note->name = ci_lock_name(ci_load_relaxed(&mutex->number));
}

static const struct ci_wait_kind mutex_kind =
    CI_LOCK_KIND("a mutex", start, ci_wait_cancel_own, mutex_describe);

static struct ci_wait_for to_lock(struct mutex *mutex)
{
    return (struct ci_wait_for){.kind = &mutex_kind, .own_lock = &mutex->lock, .object = mutex};
}

coir_future *coir_mutex_lock_op(coir_wait_op *op, coir_mutex *mutex)
{
    return op && mutex ? ci_wait_op(op, to_lock(mutex_of(mutex)))
                       : ci_completed_op(op, CI_MISUSE(-EINVAL, "op or mutex is NULL"));
}

coir_future *ci_mutex_relock(struct ci_wait *wait, coir_mutex *mutex)
{
    ci_wait_init(wait, to_lock(mutex_of(mutex)))->stubborn = true;
    return &wait->future;
}

bool ci_mutex_is_held(coir_mutex *mutex)
{
    uint32_t state = ci_load_relaxed(&mutex_of(mutex)->state);
    if (state == OWNED) /* also when another worker asks: if its task has it, it stays so */
        state = ci_load_relaxed(&mutex_of(mutex)->owned);
    return state != UNUSED && state != FREE;
}

int coir_mutex_set_name(coir_mutex *mutex, const char *name)
{
    return mutex ? ci_lock_set_name(&mutex_of(mutex)->number, name, CI_CALL, CI_PLACE)
                 : CI_MISUSE(-EINVAL, "mutex is NULL");
}

/* True: the mutex is taken. Loops that do not spin belong to a runtime that has one CPU. */
static bool spin(const struct ci_worker *worker, struct mutex *mutex)
{
    if (!worker->loop.spin_ticks || worker->ready || mutex->fair)
        return false;
    uint64_t pause = worker->loop.spin_ticks / SPIN_PARTS;
    for (int i = 0; i < ATTEMPTS && ci_load_relaxed(&mutex->state) == HELD; i++) {
        uint64_t start = ci_clock_ticks();
        while (ci_clock_ticks() - start < pause)
            continue;
        if (take_if_free(mutex, &mutex->state, HELD))
            return true;
    }
    return false;
}

/* When it is not free; in a program with TSan always. */
static CI_NOINLINE int lock_otherwise(struct ci_worker *worker, struct ci_fiber *fiber,
                                      struct mutex *mutex)
{
    if (spin(worker, mutex)) {
        ci_holder_set(&mutex->holder, worker->runnable->task);
        return ci_spend_and_return(worker);
    }
    return (int)ci_wait_here(worker, fiber, to_lock(mutex));
}

int coir_mutex_lock(coir_mutex *opaque)
{
    if (CI_DEBUG && !opaque)
        return CI_MISUSE(-EINVAL, "mutex is NULL");
    struct ci_worker *worker = ci_worker_current;
    struct ci_fiber *fiber = ci_fiber_of_call(worker);
    if (ci_unlikely(!fiber))
        return ci_fiber_refuse(worker, CI_CALL, CI_PLACE);
    struct mutex *mutex = mutex_of(opaque);
    const struct ci_task *task = worker->runnable->task;
    uint32_t state = FREE;
    if (ci_notes_order() || ci_unlikely(!change_owned(mutex, worker, FREE, HELD) &&
                                        !ci_compare_exchange(&mutex->state, &state, HELD)))
        return lock_otherwise(worker, fiber, mutex);
    ci_holder_set(&mutex->holder, task);
    return ci_spend_and_return(worker);
}
