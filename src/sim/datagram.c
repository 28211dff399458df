/* Simulated datagrams: lost, doubled, delayed each by itself and so reordered, and dropped where too many wait. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/socket.h"

enum { DATAGRAMS_WAIT = 64 };

static void datagram_arrives(struct ci_world *world, struct ci_socket *socket, size_t amount, void *data)
{
    struct segment *segment = data;
    if (!socket || socket->backlog_len == DATAGRAMS_WAIT) {
        free(segment);
        return;
    }
    ci_world_trace(world, socket->place, "datagram fd=%d bytes=%zu", socket->fd, amount);
    socket->backlog_len++;
    *socket->in_tail = segment;
    socket->in_tail = &segment->next;
    ci_socket_look_again(world, socket);
}

bool ci_datagram_receive(struct ci_socket *socket, struct msghdr *message, int *ret)
{
    struct segment *segment = socket->in;
    if (!segment)
        return false;
    size_t len = segment->len < message->msg_iov->iov_len ? segment->len : message->msg_iov->iov_len;
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

bool ci_datagram_send(struct ci_world *world, struct ci_socket *socket, const struct msghdr *message, int *ret)
{
    const struct sockaddr_in *to = message->msg_name;
    size_t len = message->msg_iov->iov_len;
    *ret = (int)len;
    if (!to || to->sin_family != AF_INET)
        return *ret = to ? -EAFNOSUPPORT : -EDESTADDRREQ, true;
    struct ci_socket *target = ci_socket_at(world, DATAGRAM, socket->place, to);
    const coir_link *link = ci_world_find_link(world, socket->place, target ? target->place : socket->place);
    if (ci_world_fault(world, socket->place, socket->place->faults.no_buffers, "no buffers"))
        return *ret = -ENOBUFS, true;
    if (!target || ci_world_is_cut(world, socket->place, target->place))
        return true;
    int copies = 1 - ci_world_fault(world, socket->place, link->loss, "a datagram is lost");
    copies += ci_world_fault(world, socket->place, link->duplicate, "a datagram comes twice");
    while (copies-- > 0) {
        coir_time when = ci_time_after(ci_world_sent_at(world, socket->place, target->place, len), link->latency);
        if (link->jitter > 0)
            when = ci_time_after(when, (coir_time)ci_random_below(&world->random, (uint64_t)link->jitter));
        struct segment *segment = malloc(sizeof *segment + len);
        ci_check(segment);
        *segment = (struct segment){.len = len, .from = socket->local};
        segment->from.sin_addr.s_addr = htonl(10u << 24 | (unsigned)socket->place->number);
        memcpy(segment->data, message->msg_iov->iov_base, len);
        ci_socket_schedule(world, when, datagram_arrives, target, len, segment);
    }
    return true;
}

int ci_socket_datagram(struct ci_world *world, struct ci_place *place, const struct sockaddr *address)
{
    int rc = ci_socket_no_descriptor(world, place);
    if (rc < 0)
        return rc;
    in_port_t port = ((const struct sockaddr_in *)(const void *)address)->sin_port; /* in both families at the same place */
    if (ci_socket_port_is_taken(world, DATAGRAM, place, port))
        return -EADDRINUSE;
    struct ci_socket *socket = ci_socket_new(world, place);
    if (!socket)
        return -ENOMEM;
    socket->state = DATAGRAM;
    if (port)
        socket->local.sin_port = port;
    return socket->fd;
}
