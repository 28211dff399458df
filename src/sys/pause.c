#include <sched.h>

#include "sys/lock.h"

enum { SPINS = 100 };

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
