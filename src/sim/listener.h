#ifndef CI_SIM_LISTENER_H
#define CI_SIM_LISTENER_H

#include "sim/socket.h"

/* The listener that a stream connects to. NULL: none. */
struct ci_socket *ci_sim_listener_find(const struct ci_world *world,
                                       const struct ci_socket *client);

/* Makes the peer of a connecting stream, in the listener's backlog. NULL: out of memory. */
struct ci_socket *ci_sim_listener_queue(struct ci_world *world, struct ci_socket *listener,
                                        struct ci_socket *client);

/* A listening socket's descriptor, or an error. */
int ci_sim_listener_open(struct ci_world *world, struct ci_node *node,
                         const struct ci_listen *listen);

/* Leaves new connections unanswered from now on. -EINVAL: the socket does not listen. */
int ci_sim_listener_refuse(struct ci_world *world, coir_fd fd);

#endif
