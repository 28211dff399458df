/* A host of the world: its end of the network, its disk, its memory.
 *
 * 1. `memory` is the sum of the allocated sizes: a release never exceeds it.
 * 2. No two nodes have the same number, except 0: a node that replaces a dead one takes over its
 *    number.
 */
#ifndef CI_SIM_NODE_H
#define CI_SIM_NODE_H

#include "sim/world.h"

struct ci_node {
    struct ci_node *next;
    struct ci_world *world;
    const struct ci_node *heir; /* the node that has taken over its address; NULL: none */
    int number;   /* its address is 10.0.0.number; 0: another node has taken it over */
    bool dead;    /* nothing reaches it any more: it lost power, or was replaced */
    bool crashed; /* it lost power: the audit skips it */
    bool boots;   /* no faults happen on it yet */
    coir_faults faults;
    coir_time wall_offset;
    struct ci_disk *disk;     /* NULL: another node has taken it over */
    coir_allocator allocator; /* of memory that a fault may refuse */
    size_t memory;            /* bytes that its runtime has allocated */
    char name[64];
};

/* Adds a node. It takes over the address and the disk of the oldest dead node of that name. NULL:
 * out of memory. */
struct ci_node *ci_world_add_node(struct ci_world *world, const char *name);

/* The node loses power (disk.h says what becomes of its disk). Its files, address and name go to
 * the next node of that name. */
void ci_world_kill(struct ci_world *world, struct ci_node *node);

/* The living node that has taken over the address of a dead one; NULL: none. */
const struct ci_node *ci_world_heir(const struct ci_node *dead);

void ci_world_free_nodes(struct ci_world *world);

#endif
