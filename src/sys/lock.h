/* One bit that guards a few words for a few nanoseconds. Whoever holds it does not wait, allocate
 * much, or call anything that is not the object's own. */
#ifndef CI_SYS_LOCK_H
#define CI_SYS_LOCK_H

#include <stdint.h>

#include "base/atomic.h"
#include "base/sanitizer.h"

struct ci_lock {
    uint32_t held;
};

/* Spins for a while, then lets other threads run between its looks. */
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
    ci_note_release(lock);
    ci_store_release(&lock->held, 0);
}

/* What a loop that waits for another thread's store does between its looks. */
void ci_pause(unsigned round);

#endif
