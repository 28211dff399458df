/* Connecting a stream: its first segment (SYN) goes to the listener, and the answer comes back. */
#include "sim/connect.h"

#include <errno.h>
#include <string.h>

#include "sim/address.h"
#include "sim/fault.h"
#include "sim/link.h"
#include "sim/listener.h"
#include "sim/trace.h"
#include "sim/transport.h"

enum { SYN_TRIES = 3 };
static const coir_time syn_retry = 1 * COIR_S;

static void answer_arrives(struct ci_world *world, struct ci_socket *socket, size_t refused,
                           void *data)
{
    (void)data;
    if (!socket || socket->state != CI_STREAM_CONNECTING)
        return;
    socket->state = refused ? CI_STREAM_UNCONNECTED : CI_STREAM_CONNECTED;
    socket->error = refused ? -(int)refused : 0;
    ci_socket_changed(world, socket);
}

static void syn_arrives(struct ci_world *world, struct ci_socket *client, size_t amount, void *data)
{
    (void)amount;
    (void)data;
    if (!client || client->state != CI_STREAM_CONNECTING)
        return;
    struct ci_socket *listener = ci_sim_listener_find(world, client);
    const struct ci_node *there =
        listener ? listener->node : ci_sim_address_node(world, client->node, &client->remote);
    if (!there) /* no host has the address */
        there = client->node;
    const coir_link *link = ci_world_find_link(world, client->node, there);
    bool lost = ci_sim_address_is_black_hole(&client->remote) ||
                ci_world_is_cut(world, client->node, there) ||
                ci_world_is_cut(world, there, client->node);
    if (!listener && !lost) {
        ci_socket_schedule(world, ci_time_after(world->now, link->latency), answer_arrives, client,
                           ECONNREFUSED, NULL);
        return;
    }
    if (lost || listener->refuses || listener->backlog_len >= listener->backlog_max ||
        ci_world_fault(world, there, link->no_answer, "no answer")) {
        /* dropped; the client tries again, then gives up */
        bool last = ++client->syn_tries >= SYN_TRIES;
        ci_socket_schedule(world, ci_time_after(world->now, syn_retry),
                           last ? answer_arrives : syn_arrives, client, last ? ETIMEDOUT : 0, NULL);
        return;
    }
    if (!ci_sim_listener_queue(world, listener, client))
        return;
    ci_world_trace(world, listener->node, "connection fd=%d from=%s", listener->fd,
                   client->node->name);
    ci_socket_schedule(world, ci_transport_arrival(world, client->peer, 0), answer_arrives, client,
                       0, NULL);
    ci_socket_changed(world, listener);
}

/* Connecting a Unix socket fails at once if the name has no listener. */
static int find_unix(struct ci_world *world, struct ci_socket *socket, const struct ci_op *op)
{
    if (op->address->sa_family != AF_UNIX)
        return -EAFNOSUPPORT;
    memcpy(&socket->remote_name, op->address, (size_t)op->count);
    const struct ci_socket *listener = ci_sim_listener_find(world, socket);
    if (!listener && socket->remote_name.sun_path[0])
        return -ENOENT;
    return listener && !listener->refuses ? 0 : -ECONNREFUSED;
}

int ci_sim_connect_begin(struct ci_world *world, struct ci_socket *socket, const struct ci_op *op)
{
    if (socket->state != CI_STREAM_UNCONNECTED)
        return -EISCONN;
    int rc = socket->is_unix ? find_unix(world, socket, op)
                             : ci_sim_address_in(op->address, &socket->remote, &socket->six);
    if (rc < 0)
        return rc;
    const struct ci_socket *listener = ci_sim_listener_find(world, socket);
    const coir_link *link =
        ci_world_find_link(world, socket->node, listener ? listener->node : socket->node);
    socket->state = CI_STREAM_CONNECTING;
    ci_socket_schedule(world, ci_time_after(world->now, link->latency), syn_arrives, socket, 0,
                       NULL);
    return 0;
}

/* The listener's answer finds no socket and is reset. If the reset cannot reach the server, its end
 * times out. */
void ci_sim_connect_abandon(struct ci_world *world, struct ci_socket *client)
{
    coir_time when = ci_transport_is_cut(world, client)
                         ? ci_time_after(world->now, SYN_TRIES * syn_retry)
                         : ci_transport_arrival(world, client, 0);
    ci_socket_schedule(world, when, ci_transport_reset_arrives, client->peer, 0, NULL);
}
