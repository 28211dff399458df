/* The processor's own clock. The simulated kernel replaces this file. */
#ifndef CI_SYS_TICKS_H
#define CI_SYS_TICKS_H

#include "base/compiler.h"
#include "coir/base.h"

/* CLOCK_MONOTONIC. */
coir_time ci_clock_now(void);

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

#endif
