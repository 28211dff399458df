#include "loop/timer_wheel.h"

#include <string.h>

#include "base/check.h"

enum { DIGIT_BITS = 6, DIGIT_MASK = CI_WHEEL_SLOTS - 1 };

static const uint64_t tick_max = ((uint64_t)1 << (DIGIT_BITS * CI_WHEEL_LEVELS)) - 1;

static uint64_t tick_of(coir_time when)
{
    uint64_t tick = when > 0 ? (uint64_t)when >> CI_WHEEL_TICK_BITS : 0;
    return tick < tick_max ? tick : tick_max;
}

void ci_wheel_init(struct ci_wheel *wheel, coir_time now)
{
    memset(wheel, 0, sizeof *wheel);
    wheel->tick = tick_of(now);
    for (int level = 0; level < CI_WHEEL_LEVELS; level++)
        for (int slot = 0; slot < CI_WHEEL_SLOTS; slot++) {
            ci_list_init(&wheel->slots[level][slot]);
            wheel->least[level][slot] = COIR_NEVER;
        }
    ci_list_init(&wheel->due);
    wheel->soonest = COIR_NEVER;
}

/* Puts a timer that is due at `tick` into its slot, relative to the wheel's time. */
CI_INLINE void put_in_slot(struct ci_wheel *wheel, struct ci_timer *timer, uint64_t tick)
{
    coir_time when = timer->when;
    if (ci_unlikely(tick < wheel->tick))
        tick = wheel->tick;
    /* the bit that is set makes no difference: it lies in digit 0 */
    unsigned level = (unsigned)(63 - __builtin_clzll((tick ^ wheel->tick) | 1)) / DIGIT_BITS;
    unsigned slot = (unsigned)(tick >> (level * DIGIT_BITS)) & DIGIT_MASK;
    ci_list_push(&wheel->slots[level][slot], &timer->link);
    timer->filed = when;
    wheel->occupied[level] |= (uint64_t)1 << slot;
    wheel->levels |= 1U << level;
    if (when < wheel->least[level][slot])
        wheel->least[level][slot] = when;
}

/* Files a timer by its `when`. */
static void file_timer(struct ci_wheel *wheel, struct ci_timer *timer)
{
    put_in_slot(wheel, timer, tick_of(timer->when));
    if (timer->when < wheel->soonest)
        wheel->soonest = timer->when;
}

void ci_wheel_start(struct ci_wheel *wheel, struct ci_timer *timer, coir_time when)
{
    ci_check(!ci_timer_started(timer), "timer_wheel.h 3");
    timer->when = when;
    file_timer(wheel, timer);
    wheel->count++;
}

static void vacate(struct ci_wheel *wheel, unsigned level, unsigned slot)
{
    ci_check(ci_list_empty(&wheel->slots[level][slot]), "timer_wheel.h 1");
    wheel->occupied[level] &= ~((uint64_t)1 << slot);
    if (!wheel->occupied[level])
        wheel->levels &= ~(1U << level);
    wheel->least[level][slot] = COIR_NEVER;
    wheel->settled = false;
}

void ci_wheel_cancel(struct ci_wheel *wheel, struct ci_timer *timer)
{
    if (!ci_timer_started(timer))
        return;
    struct ci_list *rest = timer->link.next;
    bool alone = rest == timer->link.prev;
    ci_list_remove(&timer->link);
    wheel->count--;
    if (alone && rest != &wheel->due) {
        /* only the head is left, and its address tells which slot it is */
        size_t index = (size_t)(rest - &wheel->slots[0][0]);
        if (index < CI_WHEEL_LEVELS * CI_WHEEL_SLOTS)
            vacate(wheel, (unsigned)(index / CI_WHEEL_SLOTS), (unsigned)(index % CI_WHEEL_SLOTS));
    }
}

/* The first occupied slot, of the lowest level that has one: those of higher levels come later. */
CI_INLINE unsigned first_slot(const struct ci_wheel *wheel, unsigned *ret_level)
{
    ci_check(wheel->levels, "timer_wheel.h 4");
    unsigned level = (unsigned)__builtin_ctz(wheel->levels);
    ci_debug_check(wheel->occupied[level], "timer_wheel.h 4");
    unsigned slot = (unsigned)__builtin_ctzll(wheel->occupied[level]),
             own = (unsigned)(wheel->tick >> (level * DIGIT_BITS)) & DIGIT_MASK;
    /* else a timer lies behind the wheel's time, where no look would find it */
    ci_check(slot > own || (slot == own && level == 0), "timer_wheel.h 2");
    *ret_level = level;
    return slot;
}

static const struct ci_timer *first_timer(const struct ci_list *timers)
{
    return ci_container_of(timers->next, const struct ci_timer, link);
}

/* A time before which no timer in a slot is due. */
static coir_time find_soonest(const struct ci_wheel *wheel)
{
    if (!wheel->levels)
        return COIR_NEVER;
    unsigned level, slot = first_slot(wheel, &level);
    coir_time least = wheel->least[level][slot];
    ci_debug_check(least <= first_timer(&wheel->slots[level][slot])->when, "timer_wheel.h 1");
    return least;
}

static CI_NOINLINE coir_time look_up_next(struct ci_wheel *wheel)
{
    ci_check(!wheel->count == !wheel->levels, "timer_wheel.h 4");
    coir_time next = find_soonest(wheel);
    ci_check(wheel->soonest <= next, "timer_wheel.h 5");
    wheel->settled = true;
    return wheel->soonest = next;
}

coir_time ci_wheel_next(struct ci_wheel *wheel)
{
    if (!ci_list_empty(&wheel->due))
        return 0;
    if (ci_unlikely(!wheel->settled))
        return look_up_next(wheel);
    ci_debug_check(!wheel->count == !wheel->levels, "timer_wheel.h 4");
    ci_debug_check(wheel->soonest == find_soonest(wheel), "timer_wheel.h 6");
    return wheel->soonest;
}

/* Takes a slot's timers. On the two lowest levels, those that are due go to `due`. All others are
 * filed anew, including timers that were postponed and are late all the same: they reach `due` from
 * their new slots, in the order of their ticks. */
static void empty_slot(struct ci_wheel *wheel, unsigned level, unsigned slot, coir_time now)
{
    struct ci_list timers;
    uint64_t end = wheel->tick + (level == 0 ? 1 : level == 1 ? CI_WHEEL_SLOTS : 0);
    coir_time least = wheel->least[level][slot];
    ci_list_take(&timers, &wheel->slots[level][slot]);
    vacate(wheel, level, slot);
    /* every node is linked anew, so none is taken off; the caller finds `soonest` anew */
    for (struct ci_list *node = timers.next, *next; node != &timers; node = next) {
        next = node->next;
        __builtin_prefetch(next);
        struct ci_timer *timer = ci_container_of(node, struct ci_timer, link);
        coir_time when = timer->when;
        uint64_t tick = tick_of(when);
        ci_check(when >= least, "timer_wheel.h 1");
        if (when <= now && tick < end)
            ci_list_push(&wheel->due, node);
        else
            put_in_slot(wheel, timer, tick);
    }
}

/* Moves the wheel's time to `tick`, filing what lies on the way. */
static void advance(struct ci_wheel *wheel, uint64_t tick, coir_time now)
{
    while (wheel->levels) {
        unsigned level, slot = first_slot(wheel, &level);
        uint64_t above = wheel->tick >> ((level + 1) * DIGIT_BITS) << ((level + 1) * DIGIT_BITS);
        uint64_t start = above | (uint64_t)slot << (level * DIGIT_BITS);
        if (start > tick)
            break;
        if (start > wheel->tick)
            wheel->tick = start;
        bool waiting = level == 0 && start == tick && wheel->least[0][slot] > now;
        if (waiting)
            return; /* due within this very tick */
        empty_slot(wheel, level, slot, now);
        if (level == 0 && wheel->occupied[0] >> slot & 1)
            return; /* some of this tick's were put back: they are due later within it */
    }
    if (tick > wheel->tick)
        wheel->tick = tick;
}

size_t ci_wheel_fire_due(struct ci_wheel *wheel, coir_time now)
{
    advance(wheel, tick_of(now), now);
    wheel->soonest = find_soonest(wheel);
    wheel->settled = true;
    size_t fired = 0;
    struct ci_list *node;
    while ((node = ci_list_pop(&wheel->due))) {
        struct ci_timer *timer = ci_container_of(node, struct ci_timer, link);
        if (ci_unlikely(timer->when > now)) { /* postponed by a callback since it was found due */
            file_timer(wheel, timer);
            continue;
        }
        wheel->count--;
        fired++;
        timer->fire(timer);
    }
    return fired;
}
