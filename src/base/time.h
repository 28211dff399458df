/* Arithmetic on times that saturates. COIR_NEVER is after every other time and longer than every
 * other duration: adding to it, or waiting for it, is COIR_NEVER again. */
#ifndef CI_BASE_TIME_H
#define CI_BASE_TIME_H

#include "coir/base.h"

/* The time `duration` after `now`. A negative duration is before it. */
static inline coir_time ci_time_after(coir_time now, coir_time duration)
{
    coir_time when;
    if (now == COIR_NEVER || duration == COIR_NEVER)
        return COIR_NEVER;
    if (__builtin_add_overflow(now, duration, &when))
        return duration > 0 ? COIR_NEVER : INT64_MIN;
    return when;
}

/* How long it is from `now` until `deadline`; 0 when it has passed. */
static inline coir_time ci_time_left(coir_time deadline, coir_time now)
{
    coir_time left;
    if (deadline <= now && deadline != COIR_NEVER)
        return 0;
    return deadline == COIR_NEVER || __builtin_sub_overflow(deadline, now, &left) ? COIR_NEVER
                                                                                  : left;
}

/* The same for calls that take a negative timeout for one without end. */
static inline coir_time ci_time_timeout(coir_time deadline, coir_time now)
{
    coir_time left = ci_time_left(deadline, now);
    return left == COIR_NEVER ? -1 : left;
}

#endif
