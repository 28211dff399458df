#ifndef CI_SIM_STREAM_H
#define CI_SIM_STREAM_H

#include "sim/socket.h"

/* An unconnected stream's descriptor, or an error. */
int ci_sim_stream_open(struct ci_world *world, struct ci_node *node, int family);

/* Sets whether a close resets the connection. -EBADF. */
int ci_sim_stream_reset_on_close(struct ci_world *world, coir_fd fd, bool on);

/* Bytes that this end has sent and that a reset would still lose. -EBADF. */
int ci_sim_stream_unread_by_peer(const struct ci_world *world, coir_fd fd);

/* Links have changed, or a host is dead: looks at all streams of the world. */
void ci_sim_stream_links_changed(struct ci_world *world);

/* Ends what this end sends. -EBADF, -ENOTCONN. */
int ci_sim_stream_shutdown_write(struct ci_world *world, coir_fd fd);

#endif
