/* Datagram sockets: udp(7); net/ipv4/udp.c and net/core/datagram.c of Linux 6.1. Each datagram may
 * be lost, doubled, or delayed (and so reordered), and is dropped if the receiver's buffer is full.
 * A connected socket gets ECONNREFUSED if the port it sent to has no socket. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/kernel/socket.h"

enum { DATAGRAM_MAX = 65507, DATAGRAM_MAX_SIX = 65527, OVERHEAD = 256 };

static bool has_peer(const struct ci_ksocket *socket)
{
    return socket->remote.sin6_family != AF_UNSPEC;
}

static bool is_same_address(const struct ci_ksocket *socket, const struct sockaddr_in6 *a,
                            const struct sockaddr_in6 *b)
{
    return a->sin6_port == b->sin6_port && ci_kaddress_family(a) == ci_kaddress_family(b) &&
           ci_kaddress_node(socket->node, a) == ci_kaddress_node(socket->node, b);
}

/* A connected socket accepts only datagrams of its peer. */
static bool takes(const struct ci_ksocket *socket, const struct ci_ksegment *segment)
{
    return socket->state == CI_KDATAGRAM && !socket->orphan && socket->node == segment->to &&
           socket->local.sin6_port == segment->port &&
           (socket->takes & ci_kaddress_family(&segment->from)) &&
           (!has_peer(socket) || is_same_address(socket, &socket->remote, &segment->from));
}

/* reuseport_select_sock: of the sockets that share a port a connected one, or the one that the
 * addresses choose: always the same, while none is opened or closed. */
static struct ci_ksocket *socket_for(const struct ci_ksegment *segment)
{
    struct ci_ksocket *found = NULL;
    struct ci_random addresses = {(uint64_t)segment->sender->node->number << 16 |
                                  segment->from.sin6_port};
    uint64_t count = 0;
    for (struct ci_ksocket *socket = ci_k.sockets; socket; socket = socket->next) {
        if (!takes(socket, segment))
            continue;
        if (has_peer(socket))
            return socket;
        if (ci_random_below(&addresses, ++count) == 0)
            found = socket;
    }
    return found;
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
    if (!has_peer(sender) || sender->remote.sin6_port != segment->port ||
        ci_kaddress_family(&sender->remote) != ci_kaddress_family(&segment->from) ||
        ci_kaddress_node(sender->node, &sender->remote) != segment->to)
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
    if (message->msg_name)
        ci_kaddress_show(socket, &segment->from, message->msg_name, &message->msg_namelen);
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

static void send_one(struct ci_ksocket *socket, const struct ci_node *to,
                     const struct sockaddr_in6 *from, const struct sockaddr_in6 *address,
                     const struct msghdr *message, size_t len)
{
    const struct iovec *iov = message->msg_iov;
    struct ci_ksegment *segment = ci_ksegment_new(len);
    size_t copied = 0;
    for (size_t i = 0; i < message->msg_iovlen; i++) {
        if (iov[i].iov_len)
            memcpy(segment->data + copied, iov[i].iov_base, iov[i].iov_len);
        copied += iov[i].iov_len;
    }
    segment->from = *from;
    segment->sender = socket;
    segment->to = to;
    segment->port = address->sin6_port;
    ci_world_call(ci_k.world, when_it_arrives(socket, to, len), datagram_arrives, segment, 0,
                  segment);
}

static void send_off(struct ci_ksocket *socket, const struct sockaddr_in6 *from,
                     const struct sockaddr_in6 *address, const struct msghdr *message, size_t len)
{
    struct ci_world *world = ci_k.world;
    const struct ci_node *to = ci_kaddress_node(socket->node, address);
    socket->out.bytes += len;
    if (to == socket->node) /* the loopback device frees it before it arrives (loopback_xmit) */
        has_left(socket, len);
    else
        ci_kschedule(ci_kafter(50 * COIR_US), has_left, socket, len);
    if (!to || ci_world_is_cut(world, socket->node, to))
        return;
    const coir_link *link = ci_world_find_link(world, socket->node, to);
    if (ci_world_fault(world, socket->node, link->loss, "a datagram is lost"))
        return;
    int times =
        ci_world_fault(world, socket->node, link->duplicate, "a datagram is doubled") ? 2 : 1;
    while (times-- > 0)
        send_one(socket, to, from, address, message, len);
}

static ssize_t send_message(struct ci_kfile *file, const struct msghdr *message, int flags)
{
    struct ci_ksocket *socket = ci_ksocket_of(file);
    struct sockaddr_in6 to = socket->remote, from;
    size_t len = 0;
    int rc;
    if (flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL) || message->msg_controllen)
        ci_kunknown("these flags of sendmsg on a datagram socket");
    for (size_t i = 0; i < message->msg_iovlen; i++)
        len += message->msg_iov[i].iov_len;
    if (!message->msg_name && !has_peer(socket))
        return -EDESTADDRREQ;
    if (message->msg_name &&
        (rc = ci_kaddress_remote(socket, message->msg_name, message->msg_namelen, &to)) < 0)
        return rc;
    if (len > (ci_kaddress_is_four(&to) ? DATAGRAM_MAX : DATAGRAM_MAX_SIX))
        return -EMSGSIZE;
    if (socket->error)
        return -ci_ksocket_take_error(socket);
    if ((rc = ci_kaddress_from(socket, &to, &from)) < 0)
        return rc;
    if (ci_world_fault(ci_k.world, socket->node, socket->node->faults.no_buffers, "no buffers"))
        return -ENOBUFS;
    if (!can_send(socket))
        return -EAGAIN;
    ci_ktrace("sendmsg", (int64_t)file->serial, (int64_t)len);
    send_off(socket, &from, &to, message, len);
    return (ssize_t)len;
}

static int connect_datagram(struct ci_kfile *file, const struct sockaddr *address, socklen_t len)
{
    struct ci_ksocket *socket = ci_ksocket_of(file);
    if (socket->six_only && address->sa_family == AF_INET)
        return -EAFNOSUPPORT;
    struct sockaddr_in6 remote, from;
    int rc = ci_kaddress_remote(socket, address, len, &remote);
    if (rc == 0)
        rc = ci_kaddress_from(socket, &remote, &from);
    if (rc < 0)
        return rc;
    socket->local = from;
    socket->remote = remote;
    socket->takes &= ci_kaddress_family(&remote);
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

int ci_kdatagram_make(const struct sockaddr *address, socklen_t len, bool reuse_port, bool six_only,
                      struct ci_kfile **ret_file)
{
    struct ci_ksocket *socket = ci_ksocket_new(ci_k.process->node, &ci_kdatagram_type);
    int rc = ci_kaddress_bind(socket, address, len, six_only);
    socket->shares_port = reuse_port;
    if (rc == 0 && !ci_ksocket_port_is_free(socket, CI_KDATAGRAM))
        rc = -EADDRINUSE;
    if (rc < 0) {
        ci_kfile_unref(&socket->file);
        return rc;
    }
    socket->state = CI_KDATAGRAM;
    *ret_file = &socket->file;
    return 0;
}
