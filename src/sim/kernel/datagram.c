/* Datagram sockets: udp(7); net/ipv4/udp.c and net/core/datagram.c of Linux 6.1. Each datagram may
 * be lost, doubled, or delayed (and so reordered), and is dropped if the receiver's buffer is full.
 * A connected socket gets ECONNREFUSED if the port it sent to has no socket. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/kernel/socket.h"

enum { DATAGRAM_MAX = 65507, OVERHEAD = 256 };

static bool has_peer(const struct ci_ksocket *socket)
{
    return socket->remote.sin_family == AF_INET;
}

static bool is_at(const struct ci_ksocket *socket, const struct ci_node *node, in_port_t port)
{
    return socket->state == CI_KDATAGRAM && !socket->orphan && socket->node == node &&
           socket->local.sin_port == port;
}

/* Whether the socket accepts datagrams from `from`: a connected one only those of its peer. */
static bool takes_from(const struct ci_ksocket *socket, const struct sockaddr_in *from)
{
    return !has_peer(socket) || (socket->remote.sin_port == from->sin_port &&
                                 ci_ksocket_node_at(socket->node, &socket->remote) ==
                                     ci_ksocket_node_at(socket->node, from));
}

static struct ci_ksocket *socket_for(const struct ci_ksegment *segment)
{
    struct ci_ksocket *socket = ci_k.sockets;
    while (socket &&
           !(is_at(socket, segment->to, segment->port) && takes_from(socket, &segment->from)))
        socket = socket->next;
    return socket;
}

static void refusal_arrives(void *arg, size_t number)
{
    (void)number;
    struct ci_ksocket *socket = arg;
    if (socket->orphan)
        return;
    socket->error = ECONNREFUSED;
    ci_kfile_wake(&socket->file, POLLERR);
}

/* Reports a refused datagram to its sender, if it is connected to that address. */
static void refuse(const struct ci_ksegment *segment)
{
    struct ci_ksocket *sender = segment->sender;
    if (!has_peer(sender) || sender->remote.sin_port != segment->port ||
        ci_ksocket_node_at(sender->node, &sender->remote) != segment->to)
        return;
    if (ci_world_is_cut(ci_k.world, segment->to, sender->node))
        return;
    const coir_link *link = ci_world_find_link(ci_k.world, segment->to, sender->node);
    if (!ci_world_fault(ci_k.world, segment->to, link->loss, "a refusal is lost"))
        ci_kschedule(ci_time_after(ci_know(), link->latency), refusal_arrives, sender, 0);
}

static bool can_send(const struct ci_ksocket *socket)
{
    return socket->out.bytes * 2 <= socket->out_most; /* sock_writeable */
}

static void datagram_arrives(void *arg, size_t number)
{
    (void)number;
    struct ci_ksegment *segment = arg;
    struct ci_ksocket *socket = socket_for(segment);
    if (socket && socket->in.bytes + socket->in.count * OVERHEAD + segment->len <=
                      socket->in_most + DATAGRAM_MAX) {
        ci_ktrace("datagram", (int64_t)socket->file.serial, (int64_t)segment->len);
        ci_kqueue_push(&socket->in, segment);
        ci_kfile_wake(&socket->file, POLLIN | POLLPRI | POLLRDNORM | POLLRDBAND);
        return;
    }
    if (!socket)
        refuse(segment);
    free(segment);
}

/* A datagram has left the sender's machine. Each one wakes writers, whether there was room before
 * or not (sock_def_write_space). */
static void has_left(void *arg, size_t len)
{
    struct ci_ksocket *socket = arg;
    socket->out.bytes -= len;
    if (socket->orphan || !can_send(socket))
        return;
    ci_kfile_wake(&socket->file, POLLOUT | POLLWRNORM);
}

/* ---- calls ---- */

static unsigned poll_datagram(struct ci_kfile *file)
{
    struct ci_ksocket *socket = ci_ksocket_of(file);
    unsigned events = socket->error ? POLLERR : 0;
    if (socket->in.first)
        events |= POLLIN | POLLRDNORM;
    if (can_send(socket))
        events |= POLLOUT | POLLWRNORM;
    return events;
}

static ssize_t receive(struct ci_kfile *file, struct msghdr *message, int flags)
{
    struct ci_ksocket *socket = ci_ksocket_of(file);
    if (flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL))
        ci_kunknown("these flags of recvmsg on a datagram socket");
    if (socket->error)
        return -ci_ksocket_take_error(socket);
    if (!socket->in.first)
        return -EAGAIN;
    struct ci_ksegment *segment = ci_kqueue_pop(&socket->in);
    size_t copied = 0;
    for (size_t i = 0; i < message->msg_iovlen && copied < segment->len; i++) {
        size_t n = segment->len - copied < message->msg_iov[i].iov_len
                       ? segment->len - copied
                       : message->msg_iov[i].iov_len;
        memcpy(message->msg_iov[i].iov_base, segment->data + copied, n);
        copied += n;
    }
    if (message->msg_name) {
        memcpy(message->msg_name, &segment->from, sizeof segment->from);
        message->msg_namelen = sizeof segment->from;
    }
    message->msg_flags = copied < segment->len ? MSG_TRUNC : 0;
    message->msg_controllen = 0;
    ci_ktrace("recvmsg", (int64_t)file->serial, (int64_t)copied);
    free(segment);
    return (ssize_t)copied;
}

static coir_time when_it_arrives(const struct ci_ksocket *socket, const struct ci_node *to,
                                 size_t len)
{
    const coir_link *link = ci_world_find_link(ci_k.world, socket->node, to);
    coir_time when =
        ci_time_after(ci_world_sent_at(ci_k.world, socket->node, to, len), link->latency);
    return link->jitter > 0 ? ci_time_after(when, (coir_time)ci_kbelow((uint64_t)link->jitter))
                            : when;
}

static void send_one(struct ci_ksocket *socket, const struct ci_node *to, in_port_t port,
                     const struct iovec *iov, size_t count, size_t len)
{
    struct ci_ksegment *segment = ci_ksegment_new(len);
    size_t copied = 0;
    for (size_t i = 0; i < count; i++) {
        if (iov[i].iov_len)
            memcpy(segment->data + copied, iov[i].iov_base, iov[i].iov_len);
        copied += iov[i].iov_len;
    }
    segment->from = socket->local;
    segment->sender = socket;
    segment->to = to;
    segment->port = port;
    ci_world_call(ci_k.world, when_it_arrives(socket, to, len), datagram_arrives, segment, 0,
                  segment);
}

static void send_off(struct ci_ksocket *socket, const struct sockaddr_in *address,
                     const struct msghdr *message, size_t len)
{
    struct ci_world *world = ci_k.world;
    const struct ci_node *to = ci_ksocket_node_at(socket->node, address);
    socket->out.bytes += len;
    ci_kschedule(ci_kafter(50 * COIR_US), has_left, socket, len);
    if (!to || ci_world_is_cut(world, socket->node, to))
        return;
    const coir_link *link = ci_world_find_link(world, socket->node, to);
    if (ci_world_fault(world, socket->node, link->loss, "a datagram is lost"))
        return;
    int times =
        ci_world_fault(world, socket->node, link->duplicate, "a datagram is doubled") ? 2 : 1;
    while (times-- > 0)
        send_one(socket, to, address->sin_port, message->msg_iov, message->msg_iovlen, len);
}

static ssize_t send_message(struct ci_kfile *file, const struct msghdr *message, int flags)
{
    struct ci_ksocket *socket = ci_ksocket_of(file);
    const struct sockaddr_in *to = message->msg_name  ? message->msg_name
                                   : has_peer(socket) ? &socket->remote
                                                      : NULL;
    size_t len = 0;
    if (flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL) || message->msg_controllen)
        ci_kunknown("these flags of sendmsg on a datagram socket");
    for (size_t i = 0; i < message->msg_iovlen; i++)
        len += message->msg_iov[i].iov_len;
    if (!to || to->sin_family != AF_INET)
        return to ? -EAFNOSUPPORT : -EDESTADDRREQ;
    if (len > DATAGRAM_MAX)
        return -EMSGSIZE;
    if (socket->error)
        return -ci_ksocket_take_error(socket);
    if (ci_world_fault(ci_k.world, socket->node, socket->node->faults.no_buffers, "no buffers"))
        return -ENOBUFS;
    if (!can_send(socket))
        return -EAGAIN;
    ci_ktrace("sendmsg", (int64_t)file->serial, (int64_t)len);
    send_off(socket, to, message, len);
    return (ssize_t)len;
}

static int connect_datagram(struct ci_kfile *file, const struct sockaddr *address, socklen_t len)
{
    (void)len;
    if (address->sa_family != AF_INET)
        return -EAFNOSUPPORT;
    memcpy(&ci_ksocket_of(file)->remote, address, sizeof(struct sockaddr_in));
    return 0;
}

static void release(struct ci_kfile *file)
{
    struct ci_ksocket *socket = ci_ksocket_of(file);
    socket->orphan = true;
    ci_kqueue_drop(&socket->in);
}

const struct ci_kfile_type ci_kdatagram_type = {
    .name = "datagram socket",
    .is_socket = true,
    .poll = poll_datagram,
    .receive = receive,
    .send = send_message,
    .connect = connect_datagram,
    .release = release,
};

static bool port_is_taken(in_port_t port)
{
    for (const struct ci_ksocket *socket = ci_k.sockets; port && socket; socket = socket->next)
        if (is_at(socket, ci_k.process->node, port))
            return true;
    return false;
}

int ci_kdatagram_make(const struct sockaddr *address, socklen_t len, struct ci_kfile **ret_file)
{
    (void)len;
    struct sockaddr_in local;
    if (address->sa_family != AF_INET)
        return -EAFNOSUPPORT;
    memcpy(&local, address, sizeof local);
    if (port_is_taken(local.sin_port))
        return -EADDRINUSE;
    struct ci_ksocket *socket = ci_ksocket_new(ci_k.process->node, &ci_kdatagram_type);
    socket->state = CI_KDATAGRAM;
    if (local.sin_port)
        socket->local.sin_port = local.sin_port;
    *ret_file = &socket->file;
    return 0;
}
