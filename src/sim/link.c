#include "sim/link.h"

#include <stdlib.h>

#include "base/check.h"
#include "sim/node.h"
#include "sim/trace.h"

/* One direction between two hosts, where a rule limits the bandwidth. */
struct way {
    struct way *next;
    const struct ci_node *from, *to;
    coir_time busy_until;
};

struct ci_rule {
    struct ci_rule *next;
    const struct ci_node *a, *b; /* NULL: every node */
    coir_link link;
    struct way *ways; /* a rule may be that of many hosts */
};

void ci_world_link(struct ci_world *world, const struct ci_node *a, const struct ci_node *b,
                   const coir_link *link)
{
    struct ci_rule *rule = malloc(sizeof *rule);
    ci_check(rule, "world.h 2");
    *rule = (struct ci_rule){world->rules, a, b, *link, NULL};
    world->rules = rule;
    ci_world_trace(world, a, "%s %s %s", link->one_way ? "to" : "with", b ? b->name : "every host",
                   link->cut ? "cut" : "linked");
}

static bool covers(const struct ci_rule *rule, const struct ci_node *a, const struct ci_node *b)
{
    return (!rule->a || rule->a == a) && (!rule->b || rule->b == b);
}

/* The rule for traffic from `a` to `b`. NULL: none. */
static struct ci_rule *find_rule(const struct ci_world *world, const struct ci_node *a,
                                 const struct ci_node *b)
{
    struct ci_rule *rule = world->rules;
    while (rule && !covers(rule, a, b) && (rule->link.one_way || !covers(rule, b, a)))
        rule = rule->next;
    return rule;
}

static struct way *find_way(struct ci_rule *rule, const struct ci_node *from,
                            const struct ci_node *to)
{
    struct way *way = rule->ways;
    while (way && (way->from != from || way->to != to))
        way = way->next;
    if (way)
        return way;
    way = malloc(sizeof *way);
    ci_check(way, "world.h 2");
    *way = (struct way){rule->ways, from, to, 0};
    return rule->ways = way;
}

const coir_link *ci_world_find_link(const struct ci_world *world, const struct ci_node *a,
                                    const struct ci_node *b)
{
    static const coir_link perfect = {.latency = 1 * COIR_US};
    const struct ci_rule *rule = find_rule(world, a, b);
    return rule ? &rule->link : &perfect;
}

bool ci_world_is_cut(const struct ci_world *world, const struct ci_node *a, const struct ci_node *b)
{
    return a->dead || b->dead || ci_world_find_link(world, a, b)->cut;
}

bool ci_world_is_refused(const struct ci_world *world, const struct ci_node *a,
                         const struct ci_node *b, coir_time *ret_round)
{
    const struct ci_node *heir = ci_world_heir(b);
    if (!heir || ci_world_is_cut(world, a, heir) || ci_world_is_cut(world, heir, a))
        return false;
    *ret_round = ci_time_after(ci_world_find_link(world, a, heir)->latency,
                               ci_world_find_link(world, heir, a)->latency);
    return true;
}

coir_time ci_world_sent_at(struct ci_world *world, const struct ci_node *a, const struct ci_node *b,
                           size_t len)
{
    struct ci_rule *rule = find_rule(world, a, b);
    if (!rule || !rule->link.bandwidth)
        return world->now;
    coir_time *busy_until = &find_way(rule, a, b)->busy_until;
    if (*busy_until < world->now)
        *busy_until = world->now;
    double takes = (double)len * (double)COIR_S / (double)rule->link.bandwidth;
    return *busy_until = ci_time_after(
               *busy_until, takes < (double)COIR_NEVER / 2 ? (coir_time)takes : COIR_NEVER);
}

coir_time ci_world_arrival(struct ci_world *world, const struct ci_node *a, const struct ci_node *b,
                           size_t len)
{
    const coir_link *link = ci_world_find_link(world, a, b);
    coir_time when = ci_time_after(ci_world_sent_at(world, a, b, len), link->latency);
    if (link->jitter > 0)
        when =
            ci_time_after(when, (coir_time)ci_random_below(&world->random, (uint64_t)link->jitter));
    ci_check(when >= world->now, "link.h 1");
    return when;
}

void ci_world_free_links(struct ci_world *world)
{
    while (world->rules) {
        struct ci_rule *rule = world->rules;
        world->rules = rule->next;
        while (rule->ways) {
            struct way *way = rule->ways;
            rule->ways = way->next;
            free(way);
        }
        free(rule);
    }
}
