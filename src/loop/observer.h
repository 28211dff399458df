/* How long the turns of a loop and the callbacks in them take: for coir_loop_observe.
 *
 * 1. Between begin and end exactly one of these is measured at any time: a callback, what lies
 * between callbacks, or the wait. Watches are called inside of the driver's wait, so the wait ends
 * with the first call that is noted after it began.
 */
#ifndef CI_LOOP_OBSERVER_H
#define CI_LOOP_OBSERVER_H

#include "coir/loop.h"

struct ci_observer {
    coir_observer_fn *fn; /* NULL: none */
    void *arg;
    coir_time busy_min;
    bool wanted;     /* there is fn or a watchdog: the next turn is observed */
    bool watched;    /* a watchdog looks at `spell` */
    bool active;     /* the turn in progress is observed: one of both was there when it began */
    uint64_t spell;  /* begun: it counts those of waiting (even) and of being busy (odd) */
    bool waiting;    /* the loop waits, since `since` */
    coir_time since; /* when what is measured now began */
    void (*running)(void); /* the callback that is measured; NULL: none */
    coir_turn turn;
    double load; /* the average of busy / (busy + waited) */
};

static inline bool ci_observer_is_busy(uint64_t spell)
{
    return spell & 1;
}

/* A watchdog begins or ends to look at the loop. */
void ci_observer_set_watched(coir_loop *loop, bool watched);

void ci_observer_begin(coir_loop *loop);
/* A callback is made, or, NULL, none any more. */
void ci_observer_note(coir_loop *loop, void (*called)(void));
/* The loop waits; it does not any more. */
void ci_observer_wait(coir_loop *loop);
void ci_observer_woken(coir_loop *loop);
void ci_observer_end(coir_loop *loop);

#endif
