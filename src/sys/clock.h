/* The real clocks. */
#ifndef CI_SYS_CLOCK_H
#define CI_SYS_CLOCK_H

#include "base/compiler.h"
#include "coir/base.h"

/* CLOCK_MONOTONIC. */
coir_time ci_clock_now(void);

/* CLOCK_REALTIME: since 1970. */
coir_time ci_clock_wall(void);

/* Blocks the thread; a signal may end it early. */
void ci_clock_sleep(coir_time duration);

/* A counter that is cheap to read and runs at a steady, unknown rate. */
CI_INLINE uint64_t ci_clock_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return (uint64_t)ci_clock_now();
#endif
}

/* How many ticks pass in `duration`; measured once, over some 100 us. */
uint64_t ci_clock_ticks_in(coir_time duration);

#endif
