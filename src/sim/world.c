#include "sim/world.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

struct ci_rule {
    struct ci_rule *next;
    const struct ci_node *a, *b; /* NULL: every node */
    coir_link link;
    coir_time busy_until[2]; /* from a to b, and back */
};

void ci_world_init(struct ci_world *world, uint64_t seed)
{
    *world = (struct ci_world){.random.state = seed,
                               .next_port = 40000,
                               .trace_hash = 0xcbf29ce484222325u,
                               .now = COIR_S,
                               .faults.random.state = ~seed};
    world->nodes_tail = &world->nodes;
    ci_random_next(&world->random);
}

void ci_world_done(struct ci_world *world)
{
    for (size_t fd = 0; fd < world->socket_capacity; fd++)
        if (world->sockets[fd])
            ci_socket_close(world, (coir_fd)fd);
    ci_disk_close_all(world);
    for (size_t i = 0; i < world->event_count; i++)
        free(world->events[i].data);
    free(world->events);
    free(world->sockets);
    while (world->nodes) {
        struct ci_node *node = world->nodes;
        world->nodes = node->next;
        ci_disk_free(node);
        free(node);
    }
    while (world->rules) {
        struct ci_rule *rule = world->rules;
        world->rules = rule->next;
        free(rule);
    }
}

/* Memory that a fault may refuse. */
static void *allocate(size_t size, void *arg)
{
    struct ci_node *node = arg;
    if (ci_world_fault(node->world, node, node->faults.no_memory, "no memory"))
        return NULL;
    void *memory = ci_alloc(&ci_system_allocator, size);
    if (memory)
        node->memory += size;
    return memory;
}

static void release(void *memory, size_t size, void *arg)
{
    struct ci_node *node = arg;
    node->memory -= memory ? size : 0;
    ci_free(&ci_system_allocator, memory, size);
}

struct ci_node *ci_world_add_node(struct ci_world *world, const char *name)
{
    struct ci_node *node = calloc(1, sizeof *node);
    if (!node)
        return NULL;
    node->world = world;
    node->allocator = (coir_allocator)COIR_ALLOCATOR(allocate, release, node);
    snprintf(node->name, sizeof node->name, "%s", name);
    for (struct ci_node *before = world->nodes; before; before = before->next)
        if (before->dead && before->number && strcmp(before->name, node->name) == 0) {
            node->number = before->number;
            node->files = before->files;
            before->number = 0;
            before->files = NULL;
        }
    if (!node->number)
        node->number = ++world->node_count;
    *world->nodes_tail = node;
    world->nodes_tail = &node->next;
    return node;
}

void ci_world_kill(struct ci_world *world, struct ci_node *node)
{
    ci_world_trace(world, node, "power lost");
    node->dead = node->crashed = true;
    ci_disk_lose_power(world, node);
}

/* ---- faults ---- */

static bool is_chosen(const struct ci_fault_log *faults, uint32_t number)
{
    for (size_t i = 0; i < faults->chosen_count; i++)
        if (faults->chosen[i] == number)
            return true;
    return false;
}

bool ci_world_fault(struct ci_world *world, const struct ci_node *node, double probability,
                    const char *what)
{
    struct ci_fault_log *faults = &world->faults;
    if (probability <= 0 || (node && node->boots))
        return false;
    uint32_t number = ++faults->asked;
    bool happens =
        faults->choose ? is_chosen(faults, number) : ci_random_chance(&faults->random, probability);
    if (!happens)
        return false;
    if (faults->count) {
        if (*faults->count < faults->room)
            faults->taken[*faults->count] = number;
        ++*faults->count;
    }
    ci_world_trace(world, node, "fault %u: %s", number, what);
    return true;
}

/* ---- links ---- */

void ci_world_link(struct ci_world *world, const struct ci_node *a, const struct ci_node *b,
                   const coir_link *link)
{
    struct ci_rule *rule = malloc(sizeof *rule);
    ci_check(rule);
    *rule = (struct ci_rule){world->rules, a, b, *link, {0, 0}};
    world->rules = rule;
    ci_world_trace(world, a, "%s %s %s", link->one_way ? "to" : "with", b ? b->name : "everybody",
                   link->cut ? "cut" : "linked");
}

static bool covers(const struct ci_rule *rule, const struct ci_node *a, const struct ci_node *b)
{
    return (!rule->a || rule->a == a) && (!rule->b || rule->b == b);
}

/* The rule for what goes from `a` to `b`, and whether it goes as the rule says or the other way.
 * NULL: none. */
static struct ci_rule *find_rule(const struct ci_world *world, const struct ci_node *a,
                                 const struct ci_node *b, int *ret_back)
{
    for (struct ci_rule *rule = world->rules; rule; rule = rule->next) {
        *ret_back = !covers(rule, a, b);
        if (!*ret_back || (!rule->link.one_way && covers(rule, b, a)))
            return rule;
    }
    return NULL;
}

const coir_link *ci_world_find_link(const struct ci_world *world, const struct ci_node *a,
                                    const struct ci_node *b)
{
    static const coir_link perfect = {.latency = 1 * COIR_US};
    int back;
    const struct ci_rule *rule = find_rule(world, a, b, &back);
    return rule ? &rule->link : &perfect;
}

bool ci_world_is_cut(const struct ci_world *world, const struct ci_node *a, const struct ci_node *b)
{
    return a->dead || b->dead || ci_world_find_link(world, a, b)->cut;
}

coir_time ci_world_sent_at(struct ci_world *world, const struct ci_node *a, const struct ci_node *b,
                           size_t len)
{
    int back;
    struct ci_rule *rule = find_rule(world, a, b, &back);
    if (!rule || !rule->link.bandwidth)
        return world->now;
    coir_time *busy_until = &rule->busy_until[back];
    if (*busy_until < world->now)
        *busy_until = world->now;
    double takes = (double)len * (double)COIR_S / (double)rule->link.bandwidth;
    return *busy_until = ci_time_after(
               *busy_until, takes < (double)(COIR_NEVER / 2) ? (coir_time)takes : COIR_NEVER);
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
        if (event.call)
            event.call(event.arg, event.amount);
        else
            event.what(world, ci_socket_find(world, event.fd, event.serial), event.amount,
                       event.data);
    }
}

void ci_world_trace(struct ci_world *world, const struct ci_node *node, const char *format, ...)
{
    char line[256];
    int head = snprintf(line, sizeof line, "%lld.%09lld %s ", (long long)(world->now / COIR_S),
                        (long long)(world->now % COIR_S), node ? node->name : "-");
    va_list args;
    va_start(args, format);
    vsnprintf(line + head, sizeof line - (size_t)head, format, args);
    va_end(args);
    for (const char *c = line; *c; c++)
        world->trace_hash = (world->trace_hash ^ (unsigned char)*c) * 0x100000001b3u;
    if (world->trace)
        world->trace(line, world->trace_arg);
}

int ci_world_resolve(const struct ci_world *world, const char *host,
                     struct sockaddr_storage *ret_address, socklen_t *ret_len)
{
    struct sockaddr_in found = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (strcmp(host, "localhost") != 0) {
        const struct ci_node *node = world->nodes;
        while (node && (!node->number || strcmp(node->name, host) != 0))
            node = node->next;
        if (!node)
            return -COIR_ENAME;
        found.sin_addr.s_addr = htonl(10u << 24 | (unsigned)node->number);
    }
    memcpy(ret_address, &found, sizeof found);
    *ret_len = sizeof found;
    return 0;
}

void ci_world_leave(struct ci_world *world, const struct ci_node *node, const char *format, ...)
{
    if (node->crashed)
        return;
    char what[128];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    ci_world_trace(world, node, "left open: %s", what);
    size_t len = strlen(world->left);
    snprintf(world->left + len, sizeof world->left - len, "%s%s: %s",
             world->left_count++ ? "; " : "", node->name, what);
}
