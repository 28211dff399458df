/* Faults of a simulated world.
 *
 * Each point where a fault may happen is numbered, in the order in which the program reaches them.
 * The numbers of the faults that happened are the run's fault schedule, which can be replayed with
 * some of them left out. Faults are drawn from a random generator of their own, so leaving one out
 * changes no other draw.
 *
 * 1. The numbers in the schedule ascend, and none exceeds the number of points so far.
 */
#ifndef CI_SIM_FAULT_H
#define CI_SIM_FAULT_H

#include "sim/world.h"

/* Whether a fault happens at this point. `what` names it in the trace. */
bool ci_world_fault(struct ci_world *world, const struct ci_node *node, double probability,
                    const char *what);

/* Whether a transfer of `len` bytes is cut short: returns how many bytes are transferred, at least
 * one. */
size_t ci_world_shorten(struct ci_world *world, const struct ci_node *node, double probability,
                        size_t len, const char *what);

#endif
