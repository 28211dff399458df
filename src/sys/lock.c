#include "sys/lock.h"

#include <sched.h>

enum { SPINS = 100 };

#ifndef CI_MODEL
void ci_pause(unsigned round)
{
    if (round >= SPINS) {
        sched_yield();
        return;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}
#endif /* else the model scheduler has it: another thread must run */

void ci_lock_wait(struct ci_lock *lock)
{
    unsigned round = 0;
    do
        while (ci_load_relaxed(&lock->held))
            ci_pause(round++);
    while (ci_exchange_acquire(&lock->held, 1));
}
