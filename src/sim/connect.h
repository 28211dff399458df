#ifndef CI_SIM_CONNECT_H
#define CI_SIM_CONNECT_H

#include "sim/socket.h"

/* Begins to connect a stream: 0; -EAFNOSUPPORT, -ENETUNREACH, -EISCONN. A failure later on becomes
 * the socket's error. */
int ci_sim_connect_begin(struct ci_world *world, struct ci_socket *socket, const struct ci_op *op);

/* The stream is being closed while it connects, and its peer exists already. */
void ci_sim_connect_abandon(struct ci_world *world, struct ci_socket *client);

#endif
