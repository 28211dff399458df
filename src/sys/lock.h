/* A spin lock of one bit, held for a few stores. Its holder does not wait, does not allocate much,
 * and calls nothing but the object's own functions.
 *
 * 1. Only a lock that is held is given back.
 */
#ifndef CI_SYS_LOCK_H
#define CI_SYS_LOCK_H

#include <stdint.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/sanitizer.h"

struct ci_lock {
    uint32_t held;
};

/* Spins for a while, then yields the CPU between attempts. */
CI_COLD void ci_lock_wait(struct ci_lock *lock);

static inline void ci_lock_take(struct ci_lock *lock)
{
    if (ci_unlikely(
            ci_exchange_acquire(&lock->held, 1))) /* pairs with the release in ci_lock_give */
        ci_lock_wait(lock);
    ci_note_acquire(lock);
}

static inline void ci_lock_give(struct ci_lock *lock)
{
    ci_debug_check(ci_load_relaxed(&lock->held), "lock.h 1");
    ci_note_release(lock);
    ci_store_release(&lock->held, 0); /* pairs with the acquire in ci_lock_take */
}

/* One attempt, for fast paths that leave all calls to their slow path, which takes the lock as
 * above. Fails in a program with TSan, to which nothing would be noted here. */
static inline bool ci_lock_try(struct ci_lock *lock)
{
    /* pairs with the release in ci_lock_give_tried */
    return !ci_notes_order() && ci_likely(!ci_exchange_acquire(&lock->held, 1));
}

/* Gives back what ci_lock_try took. */
static inline void ci_lock_give_tried(struct ci_lock *lock)
{
    ci_debug_check(ci_load_relaxed(&lock->held), "lock.h 1");
    ci_store_release(&lock->held, 0); /* pairs with the acquire in ci_lock_try, ci_lock_take */
}

/* For loops that wait for another thread's store: pauses, or yields after 100 rounds. */
void ci_pause(unsigned round);

#endif
