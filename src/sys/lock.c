#include "sys/lock.h"

void ci_lock_wait(struct ci_lock *lock)
{
    unsigned round = 0;
    do
        while (ci_load_relaxed(&lock->held))
            ci_pause(round++);
    while (ci_exchange_acquire(&lock->held, 1));
}
