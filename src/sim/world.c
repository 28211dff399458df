#include "sim/world.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

struct ci_rule {
    struct ci_rule *next;
    const struct ci_place *a, *b; /* NULL: every place */
    coir_link link;
};

void ci_world_init(struct ci_world *world, uint64_t seed)
{
    *world = (struct ci_world){.random.state = seed, .next_port = 40000, .trace_hash = 0xcbf29ce484222325u, .now = COIR_S};
    world->places_tail = &world->places;
    ci_random_next(&world->random);
}

void ci_world_done(struct ci_world *world)
{
    for (size_t fd = 0; fd < world->socket_capacity; fd++)
        if (world->sockets[fd])
            ci_socket_close(world, (coir_fd)fd);
    for (size_t i = 0; i < world->event_count; i++)
        free(world->events[i].data);
    free(world->events);
    free(world->sockets);
    while (world->places) {
        struct ci_place *place = world->places;
        world->places = place->next;
        free(place);
    }
    while (world->rules) {
        struct ci_rule *rule = world->rules;
        world->rules = rule->next;
        free(rule);
    }
}

struct ci_place *ci_world_add_place(struct ci_world *world, const char *name)
{
    struct ci_place *place = calloc(1, sizeof *place);
    if (!place)
        return NULL;
    place->number = ++world->place_count;
    snprintf(place->name, sizeof place->name, "%s", name);
    *world->places_tail = place;
    world->places_tail = &place->next;
    return place;
}

void ci_world_link(struct ci_world *world, const struct ci_place *a, const struct ci_place *b, const coir_link *link)
{
    struct ci_rule *rule = malloc(sizeof *rule);
    ci_check(rule);
    *rule = (struct ci_rule){world->rules, a, b, *link};
    world->rules = rule;
}

static bool covers(const struct ci_rule *rule, const struct ci_place *a, const struct ci_place *b)
{
    return (!rule->a || rule->a == a) && (!rule->b || rule->b == b);
}

const coir_link *ci_world_find_link(const struct ci_world *world, const struct ci_place *a, const struct ci_place *b)
{
    static const coir_link perfect = {.latency = 1 * COIR_US};
    for (const struct ci_rule *rule = world->rules; rule; rule = rule->next)
        if (covers(rule, a, b) || covers(rule, b, a))
            return &rule->link;
    return &perfect;
}

/* ---- events ---- */

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
        ci_check(world->events);
    }
    size_t i = world->event_count++;
    world->events[i] = *event;
    world->events[i].order = ++world->event_serial;
    for (; i && before(&world->events[i], &world->events[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&world->events[i], &world->events[(i - 1) / 2]);
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
    while (world->event_count && world->events[0].when <= world->now) {
        struct ci_event event = pop(world);
        event.what(world, ci_socket_find(world, event.fd, event.serial), event.amount, event.data);
    }
}

void ci_world_trace(struct ci_world *world, const struct ci_place *place, const char *format, ...)
{
    char line[256];
    int head = snprintf(line, sizeof line, "%lld.%09lld %s ", (long long)(world->now / COIR_S), (long long)(world->now % COIR_S),
                        place ? place->name : "-");
    va_list args;
    va_start(args, format);
    vsnprintf(line + head, sizeof line - (size_t)head, format, args);
    va_end(args);
    for (const char *c = line; *c; c++)
        world->trace_hash = (world->trace_hash ^ (unsigned char)*c) * 0x100000001b3u;
    if (world->trace)
        world->trace(world->trace_context, line);
}
