#include "sys/clock.h"

#include <time.h>

#include "base/atomic.h"

coir_time ci_clock_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * COIR_S + ts.tv_nsec;
}

coir_time ci_clock_wall(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return ts.tv_sec * COIR_S + ts.tv_nsec;
}

void ci_clock_sleep(coir_time duration)
{
    struct timespec time = {duration / COIR_S, duration % COIR_S};
    nanosleep(&time, NULL);
}

uint64_t ci_clock_ticks_in(coir_time duration)
{
    static double rate; /* ticks a nanosecond */
    double known;
    __atomic_load(&rate, &known, __ATOMIC_RELAXED);
    if (known <= 0) {
        coir_time start = ci_clock_now(), end;
        uint64_t ticks = ci_clock_ticks();
        while ((end = ci_clock_now()) - start < 100 * COIR_US)
            continue;
        known = (double)(ci_clock_ticks() - ticks) / (double)(end - start);
        __atomic_store(&rate, &known, __ATOMIC_RELAXED);
    }
    return (uint64_t)(known * (double)duration);
}
