/* What goes wrong in a simulated world.
 *
 * Each occasion for a fault has a number, in the order that the program's own steps fix. Those that
 * were taken are the run's fault schedule, which can be replayed without some of them. Faults are
 * drawn from a generator of their own, so that to leave one out changes nothing else that is drawn.
 *
 * 1. The numbers of the faults that were taken ascend, and none exceeds that of the last occasion.
 */
#ifndef CI_SIM_FAULT_H
#define CI_SIM_FAULT_H

#include "sim/world.h"

/* An occasion for a fault: whether it happens. `what` is for the trace. */
bool ci_world_fault(struct ci_world *world, const struct ci_node *node, double probability,
                    const char *what);

/* The same for moving `len` bytes at once: how many of them are moved, at least one. */
size_t ci_world_shorten(struct ci_world *world, const struct ci_node *node, double probability,
                        size_t len, const char *what);

#endif
