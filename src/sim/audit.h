/* The audit at the end of a world: a host that ended by itself, or was stopped, has closed what it
 * opened. Each part of the simulator reports what is left of its own. */
#ifndef CI_SIM_AUDIT_H
#define CI_SIM_AUDIT_H

#include "sim/world.h"

/* Reports something that a host has left open: traces it, and adds it to the world's `left`. A
 * crashed host is not reported: what it had open ended with it. */
void ci_world_leave(struct ci_world *world, const struct ci_node *node, const char *format, ...)
    COIR_PRINTF(3, 4);

#endif
