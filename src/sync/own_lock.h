/* A spin lock, as sys/lock.h, that the first worker to take it owns until another thread takes it:
 * for its owner it has no locked operation.
 *
 * The owner stores that it is `inside`, and then looks whether it is the owner still. Another
 * thread takes the lock by an exchange of `word`, which ends the ownership, for good; then it has
 * all threads have a barrier (sys/barrier.h), so that either the owner sees that, or its `inside`
 * is seen, and waits until the owner is not inside. That costs about as much as a system call, once
 * for the lock. After CI_BARRIERS_MAX such ends in a process, locks get no owner any more.
 *
 * 1. `word` is HELD, or what `owner` is: UNUSED, the number of the worker that owns it, or SHARED.
 * 2. `owner` is written under the lock, by whoever has made `word` HELD.
 * 3. Only the owner is inside, and not while it has made `word` HELD itself.
 *
 *    UNUSED -- first taken by a worker --> its number -- taken by another thread --> SHARED
 *      `-- by one that may not own it --> SHARED
 */
#ifndef CI_SYNC_OWN_LOCK_H
#define CI_SYNC_OWN_LOCK_H

#include "base/atomic.h"
#include "base/check.h"
#include "base/sanitizer.h"
#include "task/current.h"
#include "task/worker.h"

enum { CI_OWN_LOCK_UNUSED, CI_OWN_LOCK_HELD, CI_OWN_LOCK_SHARED };

struct ci_own_lock {
    uint32_t word;
    uint32_t owner;
    uint32_t inside; /* a boolean, the owner's */
};

/* What takes the lock where ci_own_lock_try has not. */
CI_COLD void ci_own_lock_wait(struct ci_own_lock *lock, uint32_t self);

/* By the owner: enters, if it is the owner. */
CI_INLINE bool ci_own_lock_enter(struct ci_own_lock *lock, uint32_t self)
{
    if (ci_glance(&lock->word) != self) /* only itself makes a worker the owner */
        return false;
    /* between the two is the barrier of end_ownership in own_lock.c */
    ci_store_buffered(&lock->inside, 1);
    if (ci_likely(ci_load_relaxed(&lock->word) == self))
        return true;
    ci_store_relaxed(&lock->inside, 0);
    return false;
}

/* One attempt, by a worker of this number. */
CI_INLINE bool ci_own_lock_attempt(struct ci_own_lock *lock, uint32_t self)
{
    uint32_t word = CI_OWN_LOCK_SHARED;
    return ci_own_lock_enter(lock, self) ||
           ci_likely(ci_compare_exchange(&lock->word, &word, CI_OWN_LOCK_HELD));
}

/* By the owner, which has entered. */
CI_INLINE void ci_own_lock_leave_owned(struct ci_own_lock *lock)
{
    ci_store_release(&lock->inside, 0); /* pairs with the acquire in end_ownership */
}

CI_INLINE void ci_own_lock_leave(struct ci_own_lock *lock, uint32_t self)
{
    uint32_t owner = lock->owner;
    if (owner == self) {
        ci_own_lock_leave_owned(lock);
        return;
    }
    ci_debug_check(ci_load_relaxed(&lock->word) == CI_OWN_LOCK_HELD, "own_lock.h 1");
    ci_store_release(&lock->word, owner); /* pairs with the exchanges that take the lock */
}

/* Of the calling thread: its worker's number, or one that owns nothing. */
static inline uint32_t ci_owner_number_here(void)
{
    return ci_worker_current ? ci_worker_current->owner_number : CI_OWNS_NOTHING;
}

/* With the lock held: whether the calling thread's worker owns it. */
static inline bool ci_own_lock_is_mine(const struct ci_own_lock *lock)
{
    return lock->owner == ci_owner_number_here();
}

static inline void ci_own_lock_take(struct ci_own_lock *lock)
{
    uint32_t self = ci_owner_number_here();
    if (ci_unlikely(!ci_own_lock_attempt(lock, self)))
        ci_own_lock_wait(lock, self);
    ci_note_acquire(lock);
}

static inline void ci_own_lock_give(struct ci_own_lock *lock)
{
    ci_note_release(lock);
    ci_own_lock_leave(lock, ci_owner_number_here());
}

/* One attempt, and what gives back what it took, for fast paths that leave all calls to their slow
 * path. It fails in a program with TSan, to which nothing would be noted here. */
CI_INLINE bool ci_own_lock_try(struct ci_own_lock *lock, const struct ci_worker *worker)
{
    return !ci_notes_order() && ci_own_lock_attempt(lock, worker->owner_number);
}

CI_INLINE void ci_own_lock_give_tried(struct ci_own_lock *lock, const struct ci_worker *worker)
{
    ci_own_lock_leave(lock, worker->owner_number);
}

#endif
