#ifndef CI_SIM_DATAGRAM_H
#define CI_SIM_DATAGRAM_H

#include "sim/socket.h"

/* A datagram socket's descriptor, or an error. */
int ci_sim_datagram_open(struct ci_world *world, struct ci_node *node,
                         const struct ci_datagram *datagram);

#endif
