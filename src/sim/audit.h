/* The audit at the end of a world: a host that ended by itself, or was stopped, has closed what it
 * opened. Each part of the simulator reports what is left of its own. */
#ifndef CI_SIM_AUDIT_H
#define CI_SIM_AUDIT_H

#include "sim/world.h"

/* Something that a host has left open: traces it, and adds it to the world's `left`. What a host
 * had open that crashed went with it. */
void ci_world_leave(struct ci_world *world, const struct ci_node *node, const char *format, ...)
    COIR_PRINTF(3, 4);

#endif
