/* Simulated datagrams: lost, doubled, delayed each by itself and so reordered, and dropped where
 * too many wait. */
#include "sim/datagram.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/address.h"
#include "sim/fault.h"
#include "sim/link.h"
#include "sim/trace.h"

enum { DATAGRAMS_WAIT = 64, DATAGRAM_MAX = 65507 };

static bool is_peer(const struct ci_socket *socket, const struct sockaddr_in *other)
{
    return socket->has_peer && other->sin_port == socket->remote.sin_port &&
           ci_sim_address_number(socket->node, other) ==
               ci_sim_address_number(socket->node, &socket->remote);
}

static void refusal_arrives(struct ci_world *world, struct ci_socket *socket, size_t amount,
                            void *data)
{
    (void)amount;
    (void)data;
    if (!socket)
        return;
    ci_world_trace(world, socket->node, "refused fd=%d", socket->fd);
    socket->error = -ECONNREFUSED;
    ci_socket_changed(world, socket);
}

/* Nobody takes a datagram that came to `node`: its sender is told, if it is connected. */
static void refuse(struct ci_world *world, const struct ci_node *node,
                   const struct ci_socket *sender)
{
    if (!sender || ci_world_is_cut(world, node, sender->node))
        return;
    const coir_link *link = ci_world_find_link(world, node, sender->node);
    if (!ci_world_fault(world, node, link->loss, "a refusal is lost"))
        ci_socket_schedule(world, ci_time_after(world->now, link->latency), refusal_arrives, sender,
                           0, NULL);
}

static void datagram_arrives(struct ci_world *world, struct ci_socket *socket, size_t amount,
                             void *data)
{
    struct ci_segment *segment = data;
    bool taken = socket && (!socket->has_peer || is_peer(socket, &segment->from));
    if (!taken || socket->backlog_len == DATAGRAMS_WAIT) {
        if (!taken)
            refuse(world, segment->to,
                   ci_socket_find(world, segment->sender, segment->sender_serial));
        free(segment);
        return;
    }
    ci_world_trace(world, socket->node, "datagram fd=%d bytes=%zu", socket->fd, amount);
    socket->backlog_len++;
    *socket->in_tail = segment;
    socket->in_tail = &segment->next;
    ci_socket_changed(world, socket);
}

static bool try_receive(struct ci_socket *socket, struct msghdr *message, int *ret)
{
    struct ci_segment *segment = socket->in;
    if (socket->error)
        return *ret = ci_socket_take_error(socket, 0), true;
    if (!segment)
        return false;
    size_t len =
        segment->len < message->msg_iov->iov_len ? segment->len : message->msg_iov->iov_len;
    memcpy(message->msg_iov->iov_base, segment->data, len);
    if (message->msg_name) {
        memcpy(message->msg_name, &segment->from, sizeof segment->from);
        message->msg_namelen = sizeof segment->from;
    }
    message->msg_flags = len < segment->len ? MSG_TRUNC : 0;
    socket->in = segment->next;
    if (!socket->in)
        socket->in_tail = &socket->in;
    socket->backlog_len--;
    free(segment);
    return *ret = (int)len, true;
}

static bool try_send(struct ci_world *world, struct ci_socket *socket, const struct msghdr *message,
                     int *ret)
{
    const struct sockaddr_in *to = message->msg_name  ? message->msg_name
                                   : socket->has_peer ? &socket->remote
                                                      : NULL;
    size_t len = message->msg_iov->iov_len;
    *ret = (int)len;
    if (!to || to->sin_family != AF_INET)
        return *ret = to ? -EAFNOSUPPORT : -EDESTADDRREQ, true;
    if (socket->error)
        return *ret = ci_socket_take_error(socket, 0), true;
    if (len > DATAGRAM_MAX)
        return *ret = -EMSGSIZE, true;
    struct ci_socket *target = ci_sim_address_find(world, socket->kind, socket->node, to);
    const struct ci_node *there = ci_sim_address_node(world, socket->node, to);
    const coir_link *link = ci_world_find_link(world, socket->node, there ? there : socket->node);
    if (ci_world_fault(world, socket->node, socket->node->faults.no_buffers, "no buffers"))
        return *ret = -ENOBUFS, true;
    if (!there || ci_world_is_cut(world, socket->node, there))
        return true;
    if (!target) {
        if (is_peer(socket, to))
            refuse(world, there, socket);
        return true;
    }
    int copies = 1 - ci_world_fault(world, socket->node, link->loss, "a datagram is lost");
    copies += ci_world_fault(world, socket->node, link->duplicate, "a datagram comes twice");
    while (copies-- > 0) {
        coir_time when =
            ci_time_after(ci_world_sent_at(world, socket->node, there, len), link->latency);
        if (link->jitter > 0)
            when = ci_time_after(
                when, (coir_time)ci_random_below(&world->random, (uint64_t)link->jitter));
        struct ci_segment *segment = malloc(sizeof *segment + len);
        ci_check(segment, "world.h 4");
        *segment =
            (struct ci_segment){.len = len, .from = socket->local, .to = there, .sender = -1};
        if (is_peer(socket, to)) {
            segment->sender = socket->fd;
            segment->sender_serial = socket->serial;
        }
        segment->from.sin_addr = ci_sim_address_of(socket->node);
        memcpy(segment->data, message->msg_iov->iov_base, len);
        ci_socket_schedule(world, when, datagram_arrives, target, len, segment);
    }
    return true;
}

static int events(const struct ci_socket *socket)
{
    return COIR_WRITE | (socket->in ? COIR_READ : 0);
}

static bool attempt(struct ci_world *world, struct ci_socket *socket, const struct ci_op *op,
                    int *ret)
{
    if (op->kind == CI_OP_RECEIVE)
        return try_receive(socket, op->message, ret);
    if (op->kind == CI_OP_SEND)
        return try_send(world, socket, op->message, ret);
    return *ret = -ENOTCONN, true;
}

static const struct ci_socket_kind datagram_kind = {
    .name = "datagram socket",
    .attempt = attempt,
    .events = events,
};

int ci_sim_datagram_open(struct ci_world *world, struct ci_node *node,
                         const struct ci_datagram *datagram)
{
    int rc = ci_socket_no_descriptor(world, node);
    if (rc < 0)
        return rc;
    /* the same offset in both families */
    in_port_t port = ((const struct sockaddr_in *)(const void *)datagram->address)->sin_port;
    if (datagram->peer && datagram->peer->sa_family != AF_INET)
        return -EAFNOSUPPORT;
    if (ci_sim_address_is_taken(world, &datagram_kind, node, port))
        return -EADDRINUSE;
    struct ci_socket *socket = ci_socket_new(world, node, &datagram_kind);
    if (!socket)
        return -ENOMEM;
    if (port)
        socket->local.sin_port = port;
    if (datagram->peer) {
        socket->has_peer = true;
        memcpy(&socket->remote, datagram->peer, sizeof socket->remote);
    }
    return socket->fd;
}
