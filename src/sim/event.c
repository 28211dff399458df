/* A heap of events. */
#include "sim/event.h"

#include <stdlib.h>

#include "base/check.h"

static bool before(const struct ci_event *a, const struct ci_event *b)
{
    return a->when != b->when ? a->when < b->when : a->order < b->order;
}

static void swap(struct ci_event *a, struct ci_event *b)
{
    struct ci_event c = *a;
    *a = *b;
    *b = c;
}

void ci_world_schedule(struct ci_world *world, const struct ci_event *event)
{
    if (world->event_count == world->event_capacity) {
        world->event_capacity = world->event_capacity ? world->event_capacity * 2 : 64;
        world->events = realloc(world->events, world->event_capacity * sizeof *event);
        ci_check(world->events, "world.h 2");
    }
    size_t i = world->event_count++;
    world->events[i] = *event;
    world->events[i].order = ++world->event_serial;
    for (; i && before(&world->events[i], &world->events[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&world->events[i], &world->events[(i - 1) / 2]);
}

static void call(struct ci_world *world, const struct ci_event *event)
{
    (void)world;
    event->fn(event->arg, event->amount);
}

void ci_world_call(struct ci_world *world, coir_time when, ci_call_fn *fn, void *arg, size_t amount,
                   void *data)
{
    ci_world_schedule(
        world,
        &(struct ci_event){
            .when = when, .happen = call, .amount = amount, .data = data, .fn = fn, .arg = arg});
}

static struct ci_event pop(struct ci_world *world)
{
    struct ci_event first = world->events[0];
    world->events[0] = world->events[--world->event_count];
    for (size_t i = 0;;) {
        size_t least = i, left = 2 * i + 1, right = left + 1;
        if (left < world->event_count && before(&world->events[left], &world->events[least]))
            least = left;
        if (right < world->event_count && before(&world->events[right], &world->events[least]))
            least = right;
        if (least == i)
            return first;
        swap(&world->events[i], &world->events[least]);
        i = least;
    }
}

coir_time ci_world_next_event(const struct ci_world *world)
{
    return world->event_count ? world->events[0].when : COIR_NEVER;
}

void ci_world_run_due(struct ci_world *world)
{
    while (ci_world_next_event(world) <= world->now) {
        struct ci_event event = pop(world);
        ci_check(!world->event_count || !before(&world->events[0], &event), "sim/event.h 1");
        event.happen(world, &event);
    }
}

void ci_world_free_events(struct ci_world *world)
{
    for (size_t i = 0; i < world->event_count; i++)
        free(world->events[i].data);
    free(world->events);
}
