#include "sys/lock.h"

#include "sys/fork.h"

void ci_lock_wait(struct ci_lock *lock)
{
    unsigned round = 0;
    if (ci_forked())
        return; /* the thread that held it is the parent's */
    do
        while (ci_load_relaxed(&lock->held))
            ci_pause(round++);
    while (ci_exchange_acquire(&lock->held, 1));
}
