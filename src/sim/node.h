/* A host, as the world sees it: its end of the network, its disk, its memory.
 *
 * 1. `memory` is the sum of what is allocated: what is released was allocated, with that size.
 * 2. No two nodes have the same number, but 0: a node that takes the place of a dead one takes the
 * number from it.
 */
#ifndef CI_SIM_NODE_H
#define CI_SIM_NODE_H

#include "sim/world.h"

struct ci_node {
    struct ci_node *next;
    struct ci_world *world;
    int number;   /* its address is 10.0.0.number; 0: another has it now */
    bool dead;    /* nothing reaches it any more: it has lost its power, or was replaced */
    bool crashed; /* it has lost its power: what it had open went with it */
    bool boots;   /* no fault befalls it yet */
    coir_faults faults;
    coir_time wall_offset;
    struct ci_file *files;    /* its disk */
    coir_allocator allocator; /* of memory that a fault may refuse */
    size_t memory;            /* bytes that its runtime has */
    char name[64];
};

/* A new node, with the address and the disk of a dead one of that name. NULL: memory is out. */
struct ci_node *ci_world_add_node(struct ci_world *world, const char *name);

/* The node loses its power: its disk is left as that leaves it, and its files, address and name go
 * to the next node of that name. */
void ci_world_kill(struct ci_world *world, struct ci_node *node);

void ci_world_free_nodes(struct ci_world *world);

#endif
