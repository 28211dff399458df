/* Simulated listeners, and the connections in their backlogs.
 *
 * 1. `backlog_len` counts the connections in the backlog: `backlog_max` at most.
 * 2. A connection that is in a backlog is marked `queued`: from the arrival of its first segment
 *    until it is accepted. No operation is started on it while it is queued, and the audit does not
 *    report it.
 */
#include "sim/listener.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "sim/address.h"
#include "sim/fault.h"
#include "sim/trace.h"
#include "sim/transport.h"

static int events(const struct ci_socket *socket)
{
    return socket->backlog ? COIR_READ : 0;
}

static bool try_accept(struct ci_world *world, struct ci_socket *socket, struct ci_op *op)
{
    struct ci_socket *accepted = socket->backlog;
    if (!accepted)
        return false;
    int rc = ci_socket_no_descriptor(world, socket->node);
    if (rc == 0 && ci_world_fault(world, socket->node, socket->node->faults.no_buffers,
                                  "no buffers to accept"))
        rc = -ENOBUFS;
    if (rc == 0 &&
        ci_world_fault(world, socket->node, socket->node->faults.no_memory, "no memory to accept"))
        rc = -ENOMEM;
    if (rc < 0)
        return ci_op_complete(op, rc);
    socket->backlog = accepted->backlog_next;
    if (!socket->backlog)
        socket->backlog_tail = &socket->backlog;
    socket->backlog_len--;
    ci_check(socket->backlog_len >= 0, "sim/listener.c 1");
    ci_check(accepted->queued, "sim/listener.c 2");
    accepted->queued = false;
    if (ci_world_fault(world, socket->node, ci_transport_link(world, accepted)->reset,
                       "a connection dies in the backlog")) {
        ci_transport_send_reset(world, accepted);
        ci_socket_close(world, accepted->fd);
        return ci_op_complete(op, -ECONNABORTED);
    }
    ci_world_trace(world, socket->node, "accept fd=%d new=%d", socket->fd, accepted->fd);
    return ci_op_complete(op, accepted->fd);
}

static bool attempt(struct ci_world *world, struct ci_socket *socket, struct ci_op *op)
{
    if (op->kind == CI_OP_ACCEPT)
        return try_accept(world, socket, op);
    return ci_op_complete(op, -ENOTCONN);
}

static void close_backlog(struct ci_world *world, struct ci_socket *socket)
{
    while (socket->backlog) {
        struct ci_socket *waiting = socket->backlog;
        socket->backlog = waiting->backlog_next;
        ci_check(waiting->queued, "sim/listener.c 2");
        waiting->queued = false;
        ci_transport_send_reset(world, waiting);
        ci_socket_close(world, waiting->fd);
    }
}

static const struct ci_socket_kind listener_kind = {
    .name = "listener",
    .attempt = attempt,
    .events = events,
    .close = close_backlog,
};

/* The listener of a host that has the name. */
static struct ci_socket *find_named(const struct ci_world *world, const struct ci_node *node,
                                    const struct sockaddr_un *name)
{
    for (size_t fd = 0; fd < world->socket_capacity; fd++) {
        struct ci_socket *socket = world->sockets[fd];
        if (socket && socket->is_unix && socket->kind == &listener_kind && socket->node == node &&
            memcmp(socket->name.sun_path, name->sun_path, sizeof name->sun_path) == 0)
            return socket;
    }
    return NULL;
}

struct ci_socket *ci_sim_listener_find(const struct ci_world *world, const struct ci_socket *client)
{
    if (client->is_unix)
        return find_named(world, client->node, &client->remote_name);
    return ci_sim_address_find(world, &listener_kind, client, &client->remote, client->six);
}

struct ci_socket *ci_sim_listener_queue(struct ci_world *world, struct ci_socket *listener,
                                        struct ci_socket *client)
{
    struct ci_socket *server = ci_socket_new(world, listener->node, client->kind);
    if (!server)
        return NULL;
    server->state = CI_STREAM_CONNECTED;
    server->queued = true;
    server->local = listener->local;
    server->remote = client->local;
    server->six = client->six;
    server->is_unix = client->is_unix;
    server->name = listener->name;
    server->remote_name = client->name;
    server->peer = client;
    client->peer = server;
    server->peer_node = client->node;
    client->peer_node = server->node;
    *listener->backlog_tail = server;
    listener->backlog_tail = &server->backlog_next;
    listener->backlog_len++;
    ci_check(listener->backlog_len <= listener->backlog_max, "sim/listener.c 1");
    return server;
}

static int open_unix(struct ci_world *world, struct ci_node *node, const struct ci_listen *listen)
{
    struct sockaddr_un name = {0};
    memcpy(&name, listen->address, listen->address_len);
    if (find_named(world, node, &name))
        return -EADDRINUSE;
    struct ci_socket *socket = ci_socket_new(world, node, &listener_kind);
    if (!socket)
        return -ENOMEM;
    if (!name.sun_path[0] && !name.sun_path[1]) /* autobind, as Linux does */
        snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "%05x",
                 (unsigned)socket->serial & 0xfffff);
    socket->is_unix = true;
    socket->name = name;
    socket->backlog_max = listen->backlog;
    ci_world_trace(world, node, "listen fd=%d unix", socket->fd);
    return socket->fd;
}

int ci_sim_listener_open(struct ci_world *world, struct ci_node *node,
                         const struct ci_listen *listen)
{
    struct sockaddr_in address;
    bool six;
    int rc = ci_socket_no_descriptor(world, node);
    if (rc < 0)
        return rc;
    if (listen->address->sa_family == AF_UNIX)
        return open_unix(world, node, listen);
    rc = ci_sim_address_to_bind(node, listen->address, &address, &six);
    if (rc < 0)
        return rc;
    bool any = six && IN6_IS_ADDR_UNSPECIFIED(
                          &((const struct sockaddr_in6 *)(const void *)listen->address)->sin6_addr);
    if (any)
        address.sin_addr.s_addr = INADDR_ANY;
    struct ci_socket *socket = ci_socket_new(world, node, &listener_kind);
    if (!socket)
        return -ENOMEM;
    socket->any_family = any && !listen->ipv6_only;
    socket->six = six && !socket->any_family;
    socket->shares_port = listen->reuse_port;
    if (ci_sim_address_is_taken(world, &listener_kind, socket, address.sin_port)) {
        ci_socket_close(world, socket->fd);
        return -EADDRINUSE;
    }
    if (address.sin_port)
        ci_sim_address_note_port(world, address.sin_port);
    else
        address.sin_port = socket->local.sin_port;
    socket->local = address;
    socket->backlog_max = listen->backlog;
    ci_world_trace(world, node, "listen fd=%d port=%d", socket->fd, ntohs(address.sin_port));
    return socket->fd;
}

int ci_sim_listener_refuse(struct ci_world *world, coir_fd fd)
{
    struct ci_socket *socket = ci_socket_of(world, fd);
    if (!socket || socket->kind != &listener_kind)
        return -EINVAL;
    socket->refuses = true;
    return 0;
}
