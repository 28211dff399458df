#include "sim/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/disk.h"
#include "sim/fault.h"
#include "sim/trace.h"

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
    if (memory) {
        ci_check(size <= node->memory, "node.h 1");
        node->memory -= size;
    }
    ci_free(&ci_system_allocator, memory, size);
}

/* The oldest dead node of that name that no other has taken over. NULL: none. */
static struct ci_node *find_dead(const struct ci_world *world, const char *name)
{
    struct ci_node *node = world->nodes;
    while (node && !(node->dead && node->number && strcmp(node->name, name) == 0))
        node = node->next;
    return node;
}

struct ci_node *ci_world_add_node(struct ci_world *world, const char *name)
{
    struct ci_node *node = calloc(1, sizeof *node);
    if (!node)
        return NULL;
    node->world = world;
    node->allocator = (coir_allocator)COIR_ALLOCATOR(allocate, release, node);
    snprintf(node->name, sizeof node->name, "%s", name);
    struct ci_node *before = find_dead(world, node->name);
    if (before) {
        node->number = before->number;
        node->disk = before->disk;
        before->number = 0;
        before->disk = NULL;
        before->heir = node;
    }
    if (!node->number)
        node->number = ++world->node_count;
    if (!node->disk)
        node->disk = ci_disk_new();
    for (const struct ci_node *other = world->nodes; other; other = other->next)
        ci_debug_check(other->number != node->number, "node.h 2");
    *world->nodes_tail = node;
    world->nodes_tail = &node->next;
    return node;
}

void ci_world_kill(struct ci_world *world, struct ci_node *node)
{
    ci_world_trace(world, node, "power lost");
    node->dead = node->crashed = true;
    if (node->disk)
        ci_disk_lose_power(world, node);
}

const struct ci_node *ci_world_heir(const struct ci_node *dead)
{
    const struct ci_node *node = dead;
    while (node && node->dead)
        node = node->heir;
    return node != dead ? node : NULL;
}

void ci_world_free_nodes(struct ci_world *world)
{
    while (world->nodes) {
        struct ci_node *node = world->nodes;
        world->nodes = node->next;
        ci_disk_free(node->disk);
        free(node);
    }
}
