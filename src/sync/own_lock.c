#include "sync/own_lock.h"

#include "sys/barrier.h"
#include "sys/fork.h"
#include "sys/lock.h"

/* With `word` HELD, of a lock that was UNUSED: makes the worker its owner, which is inside. */
static void begin_ownership(struct ci_own_lock *lock, uint32_t self)
{
    ci_debug_check(ci_load_relaxed(&lock->word) == CI_OWN_LOCK_HELD, "own_lock.h 2");
    lock->owner = self;
    ci_store_relaxed(&lock->inside, 1);
    ci_store_release(&lock->word, self); /* pairs with the exchange of who takes it away */
}

/* With `word` HELD, of a lock that another worker has owned. */
static void end_ownership(struct ci_own_lock *lock)
{
    unsigned round = 0;
    ci_barrier_everywhere();
    while (ci_load_buffered(&lock->inside)) /* pairs with the release in ci_own_lock_leave */
        ci_pause(round++);
    ci_debug_check(ci_load_relaxed(&lock->word) == CI_OWN_LOCK_HELD, "own_lock.h 2");
    lock->owner = CI_OWN_LOCK_SHARED;
}

void ci_own_lock_wait(struct ci_own_lock *lock, uint32_t self)
{
    uint32_t word;
    for (unsigned round = 0;;) {
        if (ci_forked()) { /* the thread that has it is the parent's */
            ci_store(&lock->word, CI_OWN_LOCK_HELD);
            return;
        }
        if (ci_own_lock_enter(lock, self))
            return;
        word = ci_load_relaxed(&lock->word);
        if (word == CI_OWN_LOCK_HELD)
            ci_pause(round++);
        else if (ci_compare_exchange(&lock->word, &word, CI_OWN_LOCK_HELD))
            break;
    }
    ci_debug_check(word != self, "own_lock.h 3");
    if (word == CI_OWN_LOCK_UNUSED) {
        if (self != CI_OWNS_NOTHING && ci_barrier_pays())
            begin_ownership(lock, self);
        else if (ci_worker_current)
            lock->owner = CI_OWN_LOCK_SHARED;
    } else if (word != CI_OWN_LOCK_SHARED) {
        end_ownership(lock);
    }
}
