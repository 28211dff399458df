#include "sim/fault.h"

#include "base/check.h"
#include "sim/node.h"
#include "sim/trace.h"

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
        ci_check(!*faults->count || *faults->count > faults->room ||
                     faults->taken[*faults->count - 1] < number,
                 "sim/fault.h 1");
        if (*faults->count < faults->room)
            faults->taken[*faults->count] = number;
        ++*faults->count;
    }
    ci_world_trace(world, node, "fault %u: %s", number, what);
    return true;
}

size_t ci_world_shorten(struct ci_world *world, const struct ci_node *node, double probability,
                        size_t len, const char *what)
{
    if (len > 1 && ci_world_fault(world, node, probability, what))
        return 1 + (size_t)ci_random_below(&world->random, len - 1);
    return len;
}
