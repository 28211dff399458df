/* Simulated datagrams: each may be lost, doubled, or delayed (and so reordered); dropped if too
 * many wait to be received.
 *
 * 1. `backlog_len` counts the datagrams that wait to be received: DATAGRAMS_WAIT at most.
 */
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

static bool is_peer(const struct ci_socket *socket, const struct sockaddr_in *other, bool six)
{
    return socket->has_peer && socket->peer_is_six == six &&
           other->sin_port == socket->remote.sin_port &&
           ci_sim_address_number(socket->node, other) ==
               ci_sim_address_number(socket->node, &socket->remote);
}

/* Converts the address of a peer to the world's form. An error: the socket cannot reach it. */
static int take_peer(const struct ci_socket *socket, const struct sockaddr *address,
                     struct sockaddr_in *ret_peer, bool *ret_six)
{
    bool six = address->sa_family == AF_INET6;
    if (!socket->any_family && socket->six != six)
        return six ? -EAFNOSUPPORT : -ENETUNREACH;
    return ci_sim_address_in(address, ret_peer, ret_six);
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

/* A datagram reached `node`, which has no socket for it: a connected sender gets -ECONNREFUSED. */
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
    bool taken = socket && (!socket->has_peer || is_peer(socket, &segment->from, segment->six));
    if (!taken || socket->backlog_len == DATAGRAMS_WAIT) {
        if (!taken)
            refuse(world, segment->to,
                   ci_socket_find(world, segment->sender, segment->sender_serial));
        free(segment);
        return;
    }
    ci_world_trace(world, socket->node, "datagram fd=%d bytes=%zu", socket->fd, amount);
    socket->backlog_len++;
    ci_check(socket->backlog_len <= DATAGRAMS_WAIT, "sim/datagram.c 1");
    *socket->in_tail = segment;
    socket->in_tail = &segment->next;
    ci_socket_changed(world, socket);
}

static bool try_receive(struct ci_socket *socket, struct ci_op *op)
{
    struct msghdr *message = op->message;
    struct ci_segment *segment = socket->in;
    if (socket->error)
        return ci_op_complete(op, ci_socket_take_error(socket, 0));
    if (!segment)
        return false;
    size_t len =
        segment->len < message->msg_iov->iov_len ? segment->len : message->msg_iov->iov_len;
    memcpy(message->msg_iov->iov_base, segment->data, len);
    if (message->msg_name)
        ci_sim_address_out(&segment->from, segment->six, message->msg_name, &message->msg_namelen);
    message->msg_flags = len < segment->len ? MSG_TRUNC : 0;
    socket->in = segment->next;
    if (!socket->in)
        socket->in_tail = &socket->in;
    socket->backlog_len--;
    ci_check(socket->backlog_len >= 0, "sim/datagram.c 1");
    free(segment);
    return ci_op_complete(op, (int)len);
}

/* Sends one copy of a datagram to `target`, a socket of the host `to`. */
static void transmit(struct ci_world *world, const struct ci_socket *socket,
                     const struct iovec *iov, const struct ci_node *to, bool six, bool to_peer,
                     const struct ci_socket *target)
{
    coir_time when = ci_world_arrival(world, socket->node, to, iov->iov_len);
    struct ci_segment *segment = malloc(sizeof *segment + iov->iov_len);
    ci_check(segment, "world.h 2");
    *segment = (struct ci_segment){
        .len = iov->iov_len, .from = socket->local, .to = to, .six = six, .sender = -1};
    if (to_peer) {
        segment->sender = socket->fd;
        segment->sender_serial = socket->serial;
    }
    segment->from.sin_addr = ci_sim_address_of(socket->node);
    segment->ecn = socket->sends_ecn;
    if (iov->iov_len)
        memcpy(segment->data, iov->iov_base, iov->iov_len);
    ci_socket_schedule(world, when, datagram_arrives, target, iov->iov_len, segment);
}

static bool try_send(struct ci_world *world, struct ci_socket *socket, struct ci_op *op)
{
    const struct msghdr *message = op->message;
    const struct iovec *iov = message->msg_iov;
    struct sockaddr_in to = socket->remote;
    bool six = socket->peer_is_six;
    int rc = socket->has_peer ? 0 : -EDESTADDRREQ;
    if (message->msg_name)
        rc = take_peer(socket, message->msg_name, &to, &six);
    if (rc < 0)
        return ci_op_complete(op, rc);
    if (socket->error)
        return ci_op_complete(op, ci_socket_take_error(socket, 0));
    if (iov->iov_len > DATAGRAM_MAX)
        return ci_op_complete(op, -EMSGSIZE);
    if (ci_world_fault(world, socket->node, socket->node->faults.no_buffers, "no buffers"))
        return ci_op_complete(op, -ENOBUFS);
    ci_op_complete(op, (int)iov->iov_len); /* also if the datagram is lost later */
    const struct ci_node *there = ci_sim_address_node(world, socket->node, &to);
    if (!there || ci_world_is_cut(world, socket->node, there))
        return true;
    bool to_peer = is_peer(socket, &to, six);
    const struct ci_socket *target = ci_sim_address_find(world, socket->kind, socket, &to, six);
    if (!target) {
        if (to_peer)
            refuse(world, there, socket);
        return true;
    }
    const coir_link *link = ci_world_find_link(world, socket->node, there);
    int copies = 1 - ci_world_fault(world, socket->node, link->loss, "a datagram is lost");
    copies += ci_world_fault(world, socket->node, link->duplicate, "a datagram comes twice");
    while (copies-- > 0)
        transmit(world, socket, iov, there, six, to_peer, target);
    return true;
}

/* ---- many in one call ---- */

/* What a datagram of the caller's is as a message. */
static struct ci_op as_message(coir_datagram *datagram, size_t len, struct iovec *iov,
                               struct msghdr *message)
{
    *iov = (struct iovec){datagram->data, len};
    *message = (struct msghdr){.msg_iov = iov, .msg_iovlen = 1};
    return (struct ci_op){.message = message};
}

static int receive_one(struct ci_world *world, struct ci_socket *socket, coir_datagram *datagram)
{
    const struct ci_segment *segment = socket->in;
    size_t len = segment ? segment->len : 0;
    uint8_t ecn = segment ? segment->ecn : 0;
    bool six = segment && segment->six;
    struct iovec iov;
    struct msghdr message;
    struct ci_op op = as_message(datagram, datagram->room, &iov, &message);
    (void)world;
    memset(&datagram->peer, 0, sizeof datagram->peer);
    message.msg_name = &datagram->peer;
    if (!try_receive(socket, &op) || op.result < 0)
        return op.result ? op.result : -EAGAIN;
    datagram->len = (size_t)op.result;
    datagram->cut = len - datagram->len;
    datagram->segment_len = 0;
    datagram->ecn = socket->tells_ecn ? ecn : 0;
    datagram->interface = 0;
    memset(&datagram->local, 0, sizeof datagram->local);
    if (socket->tells_local) {
        struct sockaddr_in local = socket->local;
        socklen_t len_of_local;
        local.sin_addr = ci_sim_address_of(socket->node);
        ci_sim_address_out(&local, six, (void *)&datagram->local, &len_of_local);
    }
    return 0;
}

/* Of a datagram of several segments, each is sent by itself. */
static int send_one(struct ci_world *world, struct ci_socket *socket, coir_datagram *datagram)
{
    size_t piece = datagram->segment_len ? datagram->segment_len : datagram->len, at = 0;
    const struct sockaddr *peer = (const void *)&datagram->peer;
    do {
        struct iovec iov;
        struct msghdr message;
        size_t rest = datagram->len - at;
        struct ci_op op = as_message(datagram, rest < piece ? rest : piece, &iov, &message);
        iov.iov_base = (char *)datagram->data + at;
        if (peer->sa_family)
            message.msg_name = &datagram->peer;
        socket->sends_ecn = datagram->ecn & 3;
        try_send(world, socket, &op);
        socket->sends_ecn = 0;
        if (op.result < 0)
            return at ? 0 : op.result; /* the rest is lost, as a network may lose it */
        at += iov.iov_len;
    } while (at < datagram->len);
    return 0;
}

typedef int one_fn(struct ci_world *world, struct ci_socket *socket, coir_datagram *datagram);

static bool try_many(struct ci_world *world, struct ci_socket *socket, struct ci_op *op,
                     one_fn *one)
{
    int done = 0, rc = 0;
    while (done < op->count && done < COIR_DATAGRAMS_MAX && !(done && socket->error) &&
           (rc = one(world, socket, ci_datagram_at(op->datagrams, (size_t)done))) == 0)
        done++;
    if (!done && rc == -EAGAIN)
        return false;
    return ci_op_complete(op, done ? done : rc);
}

static int events(const struct ci_socket *socket)
{
    return COIR_WRITE | (socket->in ? COIR_READ : 0);
}

static bool attempt(struct ci_world *world, struct ci_socket *socket, struct ci_op *op)
{
    if (op->kind == CI_OP_RECEIVE)
        return try_receive(socket, op);
    if (op->kind == CI_OP_SEND)
        return try_send(world, socket, op);
    if (op->kind == CI_OP_RECEIVE_MANY)
        return try_many(world, socket, op, receive_one);
    if (op->kind == CI_OP_SEND_MANY)
        return try_many(world, socket, op, send_one);
    return ci_op_complete(op, -ENOTCONN);
}

static const struct ci_socket_kind datagram_kind = {
    .name = "datagram socket",
    .attempt = attempt,
    .events = events,
};

/* Its families, port and peer. */
static int set_up(struct ci_world *world, struct ci_socket *socket,
                  const struct ci_datagram *datagram)
{
    const struct ci_datagram_options *options = &datagram->options;
    const struct sockaddr_in6 *own = (const struct sockaddr_in6 *)(const void *)datagram->address;
    struct sockaddr_in local;
    bool six;
    int rc = ci_sim_address_to_bind(socket->node, datagram->address, &local, &six);
    if (rc < 0)
        return rc;
    socket->any_family = six && IN6_IS_ADDR_UNSPECIFIED(&own->sin6_addr) && !options->ipv6_only;
    socket->six = six && !socket->any_family;
    socket->shares_port = options->reuse_port;
    socket->tells_local = options->tell_local;
    socket->tells_ecn = options->tell_ecn;
    if (ci_sim_address_is_taken(world, &datagram_kind, socket, local.sin_port))
        return -EADDRINUSE;
    if (local.sin_port) {
        ci_sim_address_note_port(world, local.sin_port);
        socket->local.sin_port = local.sin_port;
    }
    if (!datagram->peer)
        return 0;
    socket->has_peer = true;
    rc = take_peer(socket, datagram->peer, &socket->remote, &socket->peer_is_six);
    bool other_family = socket->six && datagram->peer->sa_family == AF_INET;
    return rc == -ENETUNREACH && other_family ? -EAFNOSUPPORT : rc;
}

int ci_sim_datagram_open(struct ci_world *world, struct ci_node *node,
                         const struct ci_datagram *datagram)
{
    if (datagram->options.broadcast || datagram->options.interface)
        return -EOPNOTSUPP; /* there are no groups of hosts */
    int rc = ci_socket_no_descriptor(world, node);
    if (rc < 0)
        return rc;
    struct ci_socket *socket = ci_socket_new(world, node, &datagram_kind);
    if (!socket)
        return -ENOMEM;
    if ((rc = set_up(world, socket, datagram)) < 0) {
        ci_socket_close(world, socket->fd);
        return rc;
    }
    return socket->fd;
}
