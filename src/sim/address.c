#include "sim/address.h"

#include <errno.h>
#include <string.h>

struct in_addr ci_sim_address_of(const struct ci_node *node)
{
    return (struct in_addr){htonl(10u << 24 | (unsigned)node->number)};
}

static bool is_loopback(const struct sockaddr_in *address)
{
    return ntohl(address->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

int ci_sim_address_number(const struct ci_node *from, const struct sockaddr_in *address)
{
    return is_loopback(address) ? from->number : (int)(ntohl(address->sin_addr.s_addr) & 0xffffff);
}

const struct ci_node *ci_sim_address_node(const struct ci_world *world, const struct ci_node *from,
                                          const struct sockaddr_in *address)
{
    const struct ci_node *node = world->nodes;
    while (node && node->number != ci_sim_address_number(from, address))
        node = node->next;
    return node;
}

struct ci_socket *ci_sim_address_find(const struct ci_world *world,
                                      const struct ci_socket_kind *kind, const struct ci_node *from,
                                      const struct sockaddr_in *to)
{
    bool loopback = is_loopback(to);
    struct ci_socket *found = NULL;
    for (size_t fd = 0; fd < world->socket_capacity; fd++) {
        struct ci_socket *socket = world->sockets[fd];
        if (!socket || socket->kind != kind || socket->local.sin_port != to->sin_port ||
            !socket->node->number)
            continue;
        if (!loopback && socket->node->number != ci_sim_address_number(from, to))
            continue;
        if (!found || socket->node == from)
            found = socket;
    }
    return found;
}

bool ci_sim_address_is_taken(const struct ci_world *world, const struct ci_socket_kind *kind,
                             const struct ci_node *node, in_port_t port)
{
    for (size_t fd = 0; fd < world->socket_capacity; fd++) {
        const struct ci_socket *other = world->sockets[fd];
        if (port && other && other->kind == kind && other->node == node &&
            other->local.sin_port == port)
            return true;
    }
    return false;
}

int ci_socket_address(struct ci_world *world, coir_fd fd, bool peer,
                      struct sockaddr_storage *ret_address, socklen_t *ret_len)
{
    const struct ci_socket *socket = ci_socket_of(world, fd);
    if (!socket)
        return -EBADF;
    if (peer && socket->state != CI_STREAM_CONNECTED)
        return -ENOTCONN;
    memcpy(ret_address, peer ? &socket->remote : &socket->local, sizeof socket->local);
    *ret_len = sizeof socket->local;
    return 0;
}
