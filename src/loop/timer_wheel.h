/* Hashed hierarchical timer wheel: 8 levels of 64 slots, ticks of 1,024 ns. Start, cancel and
 * restart are O(1).
 *
 * 1. Each slot keeps a time that is not later than any `when` in it; an empty one COIR_NEVER.
 * 2. Level l > 0 holds what differs from the wheel's time first in its l-th digit of 6 bits, and is
 * later: so none of its slots is that of the wheel's own digit, or lies before it.
 * 3. Only a timer that is not started is started.
 * 4. `levels` has a bit for each level with an occupied slot.
 * 5. No timer in a slot is due before `soonest`. Until then the wheel's time need not move.
 * 6. While `settled`, `soonest` is what the first occupied slot keeps: no slot was emptied since
 * that was looked up, and a timer that is filed since counts in both.
 *
 * A timer never fires before its `when`. It is out of the wheel before it fires: it may be started
 * again, or freed, from its own callback or another's.
 *
 * There is no periodic tick: the next expiry is found by a few bit scans, and the wheel jumps
 * there. As each slot keeps the least `when` that was put into it, a lone timer, however far, wakes
 * its thread once. A started timer may be moved to any time that is not before the one that it was
 * filed for, by a store to `when` (ci_wheel_move): its slot files it anew when it is due. Timers
 * fire in the order of their ticks; those of one wake-up that is late, in the order of 64 ticks.
 */
#ifndef CI_LOOP_TIMER_WHEEL_H
#define CI_LOOP_TIMER_WHEEL_H

#include "base/list.h"
#include "coir/base.h"

enum { CI_WHEEL_LEVELS = 8, CI_WHEEL_SLOTS = 64, CI_WHEEL_TICK_BITS = 10 };

struct ci_timer {
    struct ci_list link;
    coir_time when, filed; /* filed: what `when` was when it was put into its slot */
    void (*fire)(struct ci_timer *timer);
};

struct ci_wheel {
    uint64_t tick;                      /* everything before this tick has fired */
    uint64_t occupied[CI_WHEEL_LEVELS]; /* a bit for each slot that may have timers */
    uint32_t levels;                    /* a bit for each level: see 4 */
    coir_time soonest;
    bool settled; /* see 6 */
    struct ci_list slots[CI_WHEEL_LEVELS][CI_WHEEL_SLOTS];
    coir_time least[CI_WHEEL_LEVELS][CI_WHEEL_SLOTS]; /* COIR_NEVER in an empty slot */
    struct ci_list due;                               /* being fired */
    size_t count; /* timers that are started, those that are due included */
};

void ci_wheel_init(struct ci_wheel *wheel, coir_time now);

static inline void ci_timer_init(struct ci_timer *timer, void (*fire)(struct ci_timer *timer))
{
    ci_list_init(&timer->link);
    timer->fire = fire;
}

static inline bool ci_timer_started(const struct ci_timer *timer)
{
    return timer->link.next != &timer->link;
}

/* The timer must not be started. A `when` that has passed fires at the next ci_wheel_fire. */
void ci_wheel_start(struct ci_wheel *wheel, struct ci_timer *timer, coir_time when);
void ci_wheel_cancel(struct ci_wheel *wheel, struct ci_timer *timer);

/* Moves a started timer: a store, or to before the time that it was filed for a cancel and a
 * start. */
static inline void ci_wheel_move(struct ci_wheel *wheel, struct ci_timer *timer, coir_time when)
{
    if (ci_likely(when >= timer->filed)) {
        timer->when = when;
        return;
    }
    ci_wheel_cancel(wheel, timer);
    ci_wheel_start(wheel, timer, when);
}

/* When to look again: never later than the next expiry, COIR_NEVER with no timer. All timers that
 * are counted must have been started (loop.h: those of `fresh` are counted before). */
coir_time ci_wheel_next(struct ci_wheel *wheel);

/* Fires what is due at `now`. How many fired. */
size_t ci_wheel_fire_due(struct ci_wheel *wheel, coir_time now);

static inline size_t ci_wheel_fire(struct ci_wheel *wheel, coir_time now)
{
    bool none = now < wheel->soonest && ci_list_empty(&wheel->due);
    return ci_likely(none) ? 0 : ci_wheel_fire_due(wheel, now);
}

#endif
