#ifndef CI_SIM_CONNECT_H
#define CI_SIM_CONNECT_H

#include "sim/socket.h"

/* Begins to connect a stream: 0; -EAFNOSUPPORT, -ENETUNREACH, -EISCONN. Its error tells how it
 * failed. */
int ci_sim_connect_begin(struct ci_world *world, struct ci_socket *socket, const struct ci_op *op);

/* A stream is closed that connects, and whose peer is made already. */
void ci_sim_connect_abandon(struct ci_world *world, struct ci_socket *client);

#endif
