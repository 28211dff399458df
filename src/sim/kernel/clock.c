/* sys/clock.h: each call takes 10 to 50 ns of simulated time. */
#include "sys/clock.h"

#include "sim/kernel/kernel.h"

coir_time ci_clock_now(void)
{
    if (ci_k.thread)
        ci_k.world->now = ci_time_after(ci_know(), 10 + (coir_time)ci_kbelow(40));
    return ci_k.world ? ci_know() : 0;
}

uint64_t ci_clock_ticks(void)
{
    ci_kthread_may_yield(); /* a spinning loop reads this clock, and must let others run */
    return (uint64_t)ci_clock_now();
}

uint64_t ci_clock_ticks_in(coir_time duration)
{
    return (uint64_t)duration;
}

/* Simulated time begins on 1 January 2026. */
coir_time ci_clock_wall(void)
{
    if (!ci_k.process)
        return 0;
    struct ci_node *node = ci_k.process->node;
    if (ci_world_fault(ci_k.world, node, node->faults.clock_jump, "the time of day jumps"))
        node->wall_offset = (coir_time)ci_kbelow(7200 * COIR_S) - 3600 * COIR_S;
    return ci_time_after(ci_clock_now(), 1767225600 * COIR_S + node->wall_offset);
}

void ci_clock_sleep(coir_time duration)
{
    ci_kcall();
    ci_kthread_sleep("a while", ci_time_after(ci_know(), duration));
}
