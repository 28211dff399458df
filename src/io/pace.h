/* The pace of a peer: how far it is behind rate_min. Time spent waiting for the peer adds to that,
 * each byte that it sends or takes subtracts from it, and it never drops below 0: a fast start
 * earns no credit for later. */
#ifndef CI_IO_PACE_H
#define CI_IO_PACE_H

#include "base/time.h"

struct ci_pace {
    coir_time behind;
};

/* How long to wait for the peer now, at most. */
static inline coir_time ci_pace_left(const struct ci_pace *pace, coir_time timeout)
{
    return pace->behind < timeout ? timeout - pace->behind : 0;
}

/* The time in which `bytes` pass at `rate` bytes a second, which is at most 2^30. */
static inline coir_time ci_pace_time(size_t bytes, size_t rate)
{
    size_t seconds = bytes / rate;
    if (seconds >= 1000000) /* 11 days: more than any peer is behind */
        return COIR_NEVER;
    return (coir_time)seconds * COIR_S + (coir_time)(bytes % rate) * COIR_S / (coir_time)rate;
}

/* COIR_UNLIMITED: there is no rate, any byte will do. */
static inline void ci_pace_add(struct ci_pace *pace, size_t rate_min, coir_time waited,
                               size_t bytes)
{
    pace->behind += waited;
    coir_time paid = rate_min != COIR_UNLIMITED ? ci_pace_time(bytes, rate_min)
                     : bytes                    ? COIR_NEVER
                                                : 0;
    pace->behind = paid > pace->behind ? 0 : pace->behind - paid;
}

#endif
