/* The trace of a run: a line for each thing that happens, and a hash over what the lines say, by
 * which two runs are compared. No line contains an address.
 *
 * 1. Formats have %d, %u, %zu, %s and %*s alone.
 */
#ifndef CI_SIM_TRACE_H
#define CI_SIM_TRACE_H

#include "sim/world.h"

/* `node` NULL: the line concerns no host. */
void ci_world_trace(struct ci_world *world, const struct ci_node *node, const char *format, ...)
    COIR_PRINTF(3, 4);

/* Of a line that somebody else writes. */
void ci_world_mix(struct ci_world *world, uint64_t word);
void ci_world_mix_text(struct ci_world *world, const char *text);

#endif
