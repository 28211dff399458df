/* What goes wrong in a simulated world.
 *
 * 1. Each occasion for a fault has a number, in the order that the program's own steps fix. Those
 * that were taken are the run's fault schedule, which can be replayed without some of them.
 * 2. Faults are drawn from a generator of their own: to leave one out changes nothing else that is
 * drawn.
 */
#ifndef CI_SIM_FAULT_H
#define CI_SIM_FAULT_H

#include "sim/world.h"

/* An occasion for a fault: whether it happens. `what` is for the trace. */
bool ci_world_fault(struct ci_world *world, const struct ci_node *node, double probability,
                    const char *what);

#endif
