/* The audit of sockets at the end of the world: a host that ended by itself, or was stopped, has
 * closed what it opened. */
#include <stdio.h>

#include "sim/socket.h"

void ci_socket_audit(struct ci_world *world)
{
    for (size_t fd = 0; fd < world->socket_capacity; fd++) {
        const struct ci_socket *socket = world->sockets[fd];
        if (!socket || socket->queued) /* one that nobody has accepted is its listener's */
            continue;
        char to[40] = "";
        if (socket->peer_node != socket->node)
            snprintf(to, sizeof to, " with %.24s", socket->peer_node->name);
        ci_world_leave(world, socket->node, "%s fd=%d port=%d%s%s", socket->kind->name, socket->fd,
                       ntohs(socket->local.sin_port), to,
                       socket->pending ? ", an operation is pending" : "");
    }
}
