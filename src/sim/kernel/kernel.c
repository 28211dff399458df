/* The simulated kernel as a whole: its beginning and its end, its clocks, and how a system call
 * begins. */
#include "sim/kernel/kernel.h"

#include <stdio.h>
#include <stdlib.h>

#include "sim/kernel.h"
#include "sys/clock.h"
#include "sys/stack.h"

/* ---- system calls ---- */

enum { CALL_LEAST = 100, CALL_MOST = 1600 };

void ci_kcall(void)
{
    if (!ci_k.thread)
        return;
    ci_k.world->now =
        ci_time_after(ci_know(), CALL_LEAST + (coir_time)ci_kbelow(CALL_MOST - CALL_LEAST));
    ci_world_run_due(ci_k.world);
    ci_kring_before_call();
    ci_kthread_may_yield();
}

static void mix(uint64_t word)
{
    ci_k.world->trace_hash = (ci_k.world->trace_hash ^ word) * 0x100000001b3u;
    ci_k.world->trace_hash ^= ci_k.world->trace_hash >> 29;
}

void ci_ktrace(const char *what, int64_t a, int64_t b)
{
    struct ci_world *world = ci_k.world;
    const char *name = ci_k.process ? ci_k.process->node->name : "-";
    mix((uint64_t)world->now);
    mix(ci_k.thread ? (uint64_t)ci_k.thread->number : 0);
    mix((uint64_t)a << 32 ^ (uint64_t)b);
    for (const char *c = what; *c; c++)
        mix((unsigned char)*c);
    if (!world->trace)
        return;
    char line[256];
    snprintf(line, sizeof line, "%lld.%09lld %s.%d %s %lld %lld", (long long)(world->now / COIR_S),
             (long long)(world->now % COIR_S), name, ci_k.thread ? ci_k.thread->number : 0, what,
             (long long)a, (long long)b);
    world->trace(line, world->trace_arg);
}

void ci_kunknown(const char *what)
{
    fprintf(stderr, "the simulated kernel does not know %s\n", what);
    ci_kthreads_dump();
    abort();
}

void ci_kschedule(coir_time when, ci_call_fn *fn, void *arg, size_t number)
{
    ci_world_call(ci_k.world, when, fn, arg, number, NULL);
}

/* ---- clocks: sys/clock.h ---- */

coir_time ci_clock_now(void)
{
    if (ci_k.thread)
        ci_k.world->now = ci_time_after(ci_know(), 10 + (coir_time)ci_kbelow(40));
    return ci_k.world ? ci_know() : 0;
}

uint64_t ci_clock_ticks(void)
{
    ci_kthread_may_yield(); /* a loop that spins looks at this clock */
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

/* ---- beginning and end ---- */

static uint32_t one_of(const uint32_t *rates, size_t count)
{
    return rates[ci_kbelow(count)];
}

static void choose_settings(void)
{
    static const uint32_t yields[] = {2, 8, 64, 1000}, points[] = {0, 50, 500, 5000},
                          interrupts[] = {0, 0, 30, 300};
    static const uint32_t spurious[] = {0, 5, 100}, at_once[] = {0, 2, 8, 1},
                          parts[] = {0, 2, 8, 50}, sizes[] = {1, 4, 7}, lates[] = {0, 2, 10};
    ci_k.settings = (struct ci_ksettings){
        .yield_one_in = one_of(yields, ci_countof(yields)),
        .point_one_in = one_of(points, ci_countof(points)),
        .interrupt_one_in = one_of(interrupts, ci_countof(interrupts)),
        .spurious_one_in = one_of(spurious, ci_countof(spurious)),
        .at_once_one_in = one_of(at_once, ci_countof(at_once)),
        .late_one_in = one_of(lates, ci_countof(lates)),
        .part_one_in = one_of(parts, ci_countof(parts)),
        .buffer_sizes = one_of(sizes, ci_countof(sizes)),
    };
}

void ci_kcalm(void)
{
    struct ci_ksettings *settings = &ci_k.settings;
    settings->interrupt_one_in = settings->spurious_one_in = settings->part_one_in =
        settings->late_one_in = settings->buffer_sizes = 0;
    settings->at_once_one_in = 1;
    ci_krings_calm();
}

/* What is found out once a process takes atomic operations, which are counted: a second run of the
 * seed would have fewer. */
static void ask_once(void)
{
    struct ci_stacks stacks;
    ci_stacks_init(&stacks, &ci_system_allocator, 1, 1);
}

static void open_kernel(struct ci_world *world, coir_time time_max, void **const *locals,
                        int local_count)
{
    ci_k = (struct ci_kernel){.world = world, .time_max = time_max};
    ask_once();
    choose_settings();
    ci_krings_open();
    ci_kthreads_open(locals, local_count);
}

static void close_kernel(void)
{
    ci_kthreads_close();
    ci_kprocesses_free();
    ci_krings_free();
    ci_ksocket_free_all();
    ci_k.world = NULL;
}

static const struct ci_sim_kernel kernel = {
    .open = open_kernel,
    .close = close_kernel,
    .start = ci_kprocess_start,
    .ended = ci_kprocess_ended,
    .run = ci_kthreads_run,
    .as = ci_kprocess_as,
    .dump = ci_kthreads_dump,
    .audit = ci_kprocess_audit,
};

const struct ci_sim_kernel *const ci_sim_kernel = &kernel;
