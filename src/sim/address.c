#include "sim/address.h"

#include <errno.h>
#include <string.h>

enum { BLACK_HOLE = 192u << 24 | 2 << 8 }; /* 192.0.2.0/24 */

struct in_addr ci_sim_address_of(const struct ci_node *node)
{
    return (struct in_addr){htonl(10u << 24 | (unsigned)node->number)};
}

static bool is_loopback(const struct sockaddr_in *address)
{
    return ntohl(address->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

static bool is_unspecified(const struct sockaddr_in *address)
{
    return address->sin_addr.s_addr == INADDR_ANY;
}

/* As on Linux, the unspecified address is the own host's. */
int ci_sim_address_number(const struct ci_node *from, const struct sockaddr_in *address)
{
    bool own = is_loopback(address) || is_unspecified(address);
    return own ? from->number : (int)(ntohl(address->sin_addr.s_addr) & 0xffffff);
}

const struct ci_node *ci_sim_address_node(const struct ci_world *world, const struct ci_node *from,
                                          const struct sockaddr_in *address)
{
    const struct ci_node *node = world->nodes;
    while (node && node->number != ci_sim_address_number(from, address))
        node = node->next;
    return node;
}

bool ci_sim_address_has_route(const struct sockaddr_in *address)
{
    in_addr_t host = ntohl(address->sin_addr.s_addr);
    return host >> 24 == 10 || is_loopback(address) || is_unspecified(address) ||
           ci_sim_address_is_black_hole(address) || host == INADDR_BROADCAST || IN_MULTICAST(host);
}

int ci_sim_address_in(const struct sockaddr *address, struct sockaddr_in *ret_address,
                      bool *ret_six)
{
    struct sockaddr_in6 six;
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    *ret_six = address->sa_family == AF_INET6;
    if (address->sa_family == AF_INET) {
        memcpy(ret_address, address, sizeof *ret_address);
        return ci_sim_address_has_route(ret_address) ? 0 : -ENETUNREACH;
    }
    if (address->sa_family != AF_INET6)
        return -EAFNOSUPPORT;
    memcpy(&six, address, sizeof six);
    const uint8_t *bytes = six.sin6_addr.s6_addr;
    static const uint8_t ours[13] = {0xfd}, documentation[4] = {0x20, 0x01, 0x0d, 0xb8};
    in.sin_port = six.sin6_port;
    if (memcmp(bytes, ours, sizeof ours) == 0)
        in.sin_addr.s_addr =
            htonl(10u << 24 | (uint32_t)bytes[13] << 16 | (uint32_t)bytes[14] << 8 | bytes[15]);
    else if (memcmp(bytes, documentation, sizeof documentation) == 0)
        in.sin_addr.s_addr = htonl(BLACK_HOLE);
    else if (!IN6_IS_ADDR_LOOPBACK(&six.sin6_addr) && !IN6_IS_ADDR_UNSPECIFIED(&six.sin6_addr))
        return -ENETUNREACH;
    *ret_address = in;
    return 0;
}

void ci_sim_address_out(const struct sockaddr_in *address, bool six,
                        struct sockaddr_storage *ret_address, socklen_t *ret_len)
{
    uint32_t host = ntohl(address->sin_addr.s_addr);
    if (!six) {
        memcpy(ret_address, address, sizeof *address);
        *ret_len = sizeof *address;
        return;
    }
    struct sockaddr_in6 out = {.sin6_family = AF_INET6, .sin6_port = address->sin_port};
    uint8_t *bytes = out.sin6_addr.s6_addr;
    if (host >> 24 == IN_LOOPBACKNET) {
        bytes[15] = 1;
    } else if (host) {
        bytes[0] = 0xfd;
        bytes[13] = (uint8_t)(host >> 16);
        bytes[14] = (uint8_t)(host >> 8);
        bytes[15] = (uint8_t)host;
    }
    memcpy(ret_address, &out, sizeof out);
    *ret_len = sizeof out;
}

bool ci_sim_address_is_own(const struct ci_node *node, const struct sockaddr_in *address)
{
    in_addr_t host = address->sin_addr.s_addr;
    return host == INADDR_ANY || host == INADDR_BROADCAST || IN_MULTICAST(ntohl(host)) ||
           is_loopback(address) || host == ci_sim_address_of(node).s_addr;
}

int ci_sim_address_to_bind(const struct ci_node *node, const struct sockaddr *address,
                           struct sockaddr_in *ret_address, bool *ret_six)
{
    int rc = ci_sim_address_in(address, ret_address, ret_six);
    bool foreign = rc == -ENETUNREACH || (rc == 0 && !ci_sim_address_is_own(node, ret_address));
    return foreign ? -EADDRNOTAVAIL : rc;
}

bool ci_sim_address_is_black_hole(const struct sockaddr_in *address)
{
    return (ntohl(address->sin_addr.s_addr) & 0xffffff00) == BLACK_HOLE;
}

static bool is_connected_to(const struct ci_socket *socket, const struct ci_socket *other, bool six)
{
    return socket->remote.sin_port == other->local.sin_port && socket->peer_is_six == six &&
           ci_sim_address_number(socket->node, &socket->remote) == other->node->number;
}

struct ci_socket *ci_sim_address_find(const struct ci_world *world,
                                      const struct ci_socket_kind *kind,
                                      const struct ci_socket *from, const struct sockaddr_in *to,
                                      bool six)
{
    struct ci_random addresses = {(uint64_t)from->node->number << 16 | from->local.sin_port};
    struct ci_socket *found = NULL;
    uint64_t count = 0;
    for (size_t fd = 0; fd < world->socket_capacity; fd++) {
        struct ci_socket *socket = world->sockets[fd];
        if (!socket || socket->kind != kind || socket->local.sin_port != to->sin_port ||
            !socket->node->number || !(socket->any_family || socket->six == six) ||
            (!is_loopback(to) && socket->node->number != ci_sim_address_number(from->node, to)) ||
            (socket->has_peer && !is_connected_to(socket, from, six)))
            continue;
        if (found && found->node != socket->node) { /* its own host first */
            if (socket->node != from->node)
                continue;
            count = 0;
        }
        if (ci_random_below(&addresses, ++count) == 0 || socket->has_peer)
            found = socket;
        if (found->has_peer)
            break;
    }
    return found;
}

bool ci_sim_address_is_taken(const struct ci_world *world, const struct ci_socket_kind *kind,
                             const struct ci_socket *socket, in_port_t port)
{
    for (size_t fd = 0; fd < world->socket_capacity; fd++) {
        const struct ci_socket *other = world->sockets[fd];
        if (port && other && other != socket && other->kind == kind &&
            other->node == socket->node && other->local.sin_port == port &&
            (other->any_family || socket->any_family || other->six == socket->six) &&
            !(other->shares_port && socket->shares_port))
            return true;
    }
    return false;
}

void ci_sim_address_note_port(struct ci_world *world, in_port_t port)
{
    world->bound_ports[ntohs(port) / 8] |= (uint8_t)(1 << ntohs(port) % 8);
}

static bool is_noted(const struct ci_world *world, uint16_t port)
{
    return world->bound_ports[port / 8] >> port % 8 & 1;
}

in_port_t ci_sim_address_new_port(struct ci_world *world)
{
    uint16_t port;
    int tries = CI_PORT_LAST - CI_PORT_FIRST;
    do {
        port = world->next_port;
        world->next_port = port < CI_PORT_LAST ? (uint16_t)(port + 1) : CI_PORT_FIRST;
    } while (is_noted(world, port) && tries-- > 0);
    return htons(port);
}

int ci_socket_address(struct ci_world *world, coir_fd fd, bool peer,
                      struct sockaddr_storage *ret_address, socklen_t *ret_len)
{
    const struct ci_socket *socket = ci_socket_of(world, fd);
    if (!socket)
        return -EBADF;
    if (peer && socket->state != CI_STREAM_CONNECTED)
        return -ENOTCONN;
    if (socket->is_unix) {
        const struct sockaddr_un *name = peer ? &socket->remote_name : &socket->name;
        memset(ret_address, 0, sizeof *ret_address);
        memcpy(ret_address, name, sizeof *name);
        ret_address->ss_family = AF_UNIX;
        *ret_len = sizeof *name;
        return 0;
    }
    ci_sim_address_out(peer ? &socket->remote : &socket->local, socket->six, ret_address, ret_len);
    return 0;
}
