/* The base of the simulated kernel: its state, its trace, its events, and how it fails. */
#include <stdio.h>
#include <stdlib.h>

#include "sim/kernel/kernel.h"
#include "sim/trace.h"

struct ci_kernel ci_k;

void ci_ktrace(const char *what, int64_t a, int64_t b)
{
    struct ci_world *world = ci_k.world;
    const char *name = ci_k.process ? ci_k.process->node->name : "-";
    ci_world_mix(world, (uint64_t)world->now);
    ci_world_mix(world, ci_k.thread ? (uint64_t)ci_k.thread->number : 0);
    ci_world_mix(world, (uint64_t)a << 32 ^ (uint64_t)b);
    ci_world_mix_text(world, what);
    if (!world->trace)
        return;
    snprintf(world->line, sizeof world->line, "%lld.%09lld %s.%d %s %lld %lld",
             (long long)(world->now / COIR_S), (long long)(world->now % COIR_S), name,
             ci_k.thread ? ci_k.thread->number : 0, what, (long long)a, (long long)b);
    world->trace(world->line, world->trace_arg);
}

void *ci_kalloc(size_t size)
{
    void *memory = calloc(1, size);
    ci_check(memory, "kernel/kernel.h 5");
    return memory;
}

void ci_kunknown(const char *what)
{
    fprintf(stderr, "the simulated kernel does not model %s\n", what);
    abort();
}

void ci_kschedule(coir_time when, ci_call_fn *fn, void *arg, size_t number)
{
    ci_world_call(ci_k.world, when, fn, arg, number, NULL);
}
