/* The trace of a run: a line for each thing that happens, and a hash over the lines by which two
 * runs are compared. No line contains an address. */
#ifndef CI_SIM_TRACE_H
#define CI_SIM_TRACE_H

#include "sim/world.h"

/* `node` NULL: the line concerns no host. */
void ci_world_trace(struct ci_world *world, const struct ci_node *node, const char *format, ...)
    COIR_PRINTF(3, 4);

#endif
