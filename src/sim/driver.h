#ifndef CI_SIM_DRIVER_H
#define CI_SIM_DRIVER_H

#include "driver/driver.h"
#include "sim/world.h"

/* The driver of a worker of a simulated host: 0 or -ENOMEM. */
int ci_sim_driver_open(struct ci_world *world, struct ci_node *node, struct ci_driver **ret_driver);

#endif
