/* Simulated stream sockets: reading, writing and ending.
 *
 * 1. What is sent and not yet read by the peer (`unread_by_peer`) never exceeds the window: a
 * writer waits for the peer to read.
 * 2. The end of the peer's stream arrives once, after all bytes that it sent.
 *
 * Closing with unread data, closing before a connect is answered, and data that reaches a closed
 * end reset the connection, as Linux does. */
#include "sim/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/connect.h"
#include "sim/fault.h"
#include "sim/link.h"
#include "sim/trace.h"
#include "sim/transport.h"

enum { WINDOW = CI_TRANSPORT_WINDOW };

/* ---- what arrives ---- */

static struct ci_socket *sender_of(struct ci_world *world, const struct ci_segment *segment)
{
    return ci_socket_find(world, segment->sender, segment->sender_serial);
}

static void segment_arrives(struct ci_world *world, struct ci_socket *socket, size_t amount,
                            void *data)
{
    struct ci_segment *segment = data;
    bool answered = socket && !socket->node->dead;
    if (!answered || socket->state != CI_STREAM_CONNECTED) {
        if (!answered) /* its sender sends it again, for a while */
            ci_transport_unanswered(world, sender_of(world, segment));
        free(segment);
        return;
    }
    ci_check(segment->number == socket->segments_in && !socket->in_ended, "transport.c 1");
    socket->segments_in++;
    ci_world_trace(world, socket->node, "deliver fd=%d bytes=%zu", socket->fd, amount);
    *socket->in_tail = segment;
    socket->in_tail = &segment->next;
    ci_socket_changed(world, socket);
}

static void end_arrives(struct ci_world *world, struct ci_socket *socket, size_t amount, void *data)
{
    struct ci_segment *segment = data;
    struct ci_socket *sender = sender_of(world, segment);
    uint64_t number = segment->number;
    (void)amount;
    free(segment);
    if (socket ? socket->node->dead : sender && sender->peer_node->dead)
        ci_transport_unanswered(world, sender);
    if (!socket || socket->node->dead)
        return;
    ci_check(!socket->in_ended, "sim/stream.c 2");
    ci_check(socket->state != CI_STREAM_CONNECTED || number == socket->segments_in,
             "transport.c 1");
    ci_world_trace(world, socket->node, "end fd=%d", socket->fd);
    socket->in_ended = true;
    ci_socket_changed(world, socket);
}

static void room_arrives(struct ci_world *world, struct ci_socket *socket, size_t amount,
                         void *data)
{
    (void)data;
    if (!socket)
        return;
    if (ci_world_is_cut(world, socket->peer_node, socket->node)) {
        socket->held_room += amount;
        return;
    }
    ci_check(amount <= socket->unread_by_peer, "sim/stream.c 1");
    socket->unread_by_peer -= amount;
    ci_transport_probe_answered(socket);
    ci_socket_changed(world, socket);
}

static void let_room_arrive(struct ci_world *world, struct ci_socket *socket)
{
    const coir_link *link = ci_world_find_link(world, socket->peer_node, socket->node);
    if (!socket->held_room || ci_world_is_cut(world, socket->peer_node, socket->node))
        return;
    ci_socket_schedule(world, ci_time_after(world->now, link->latency), room_arrives, socket,
                       socket->held_room, NULL);
    socket->held_room = 0;
}

/* ---- reading and writing ---- */

static struct ci_segment *new_segment(struct ci_socket *socket, size_t len)
{
    struct ci_segment *segment = malloc(sizeof *segment + len);
    ci_check(segment, "world.h 2");
    *segment = (struct ci_segment){.sender = socket->fd,
                                   .sender_serial = socket->serial,
                                   .number = socket->segments_out++,
                                   .len = len};
    return segment;
}

static size_t shortened(struct ci_world *world, const struct ci_socket *socket, size_t len)
{
    return ci_world_shorten(world, socket->node, ci_transport_link(world, socket)->short_io, len,
                            "moves less than it could");
}

static size_t buffers_of(const struct ci_op *op, const struct iovec **ret_iov, struct iovec *one)
{
    if (op->kind == CI_OP_READV || op->kind == CI_OP_WRITEV) {
        *ret_iov = op->iov;
        return (size_t)op->count;
    }
    *one = (struct iovec){op->buf, op->len};
    *ret_iov = one;
    return 1;
}

static size_t take(struct ci_socket *socket, char *to, size_t len)
{
    size_t taken = 0;
    while (taken < len && socket->in) {
        struct ci_segment *segment = socket->in;
        size_t n = segment->len < len - taken ? segment->len : len - taken;
        memcpy(to + taken, segment->data + segment->start, n);
        taken += n;
        segment->start += n;
        segment->len -= n;
        if (segment->len == 0) {
            socket->in = segment->next;
            if (!socket->in)
                socket->in_tail = &socket->in;
            free(segment);
        }
    }
    return taken;
}

static size_t peek(const struct ci_socket *socket, char *to, size_t len)
{
    size_t done = 0;
    for (const struct ci_segment *segment = socket->in; segment && done < len;
         segment = segment->next) {
        size_t n = segment->len < len - done ? segment->len : len - done;
        memcpy(to + done, segment->data + segment->start, n);
        done += n;
    }
    return done;
}

static size_t length_of(const struct iovec *iov, size_t count)
{
    size_t len = 0;
    for (size_t i = 0; i < count; i++)
        len += iov[i].iov_len;
    return len;
}

static bool try_read(struct ci_world *world, struct ci_socket *socket, struct ci_op *op)
{
    if (socket->state == CI_STREAM_RESET)
        return ci_op_complete(op, ci_socket_take_error(socket, 0));
    if (socket->state != CI_STREAM_CONNECTED)
        return ci_op_complete(op, -ENOTCONN);
    if (!socket->in)
        return socket->in_ended && ci_op_complete(op, 0);
    const struct iovec *iov;
    struct iovec one;
    size_t count = buffers_of(op, &iov, &one), available = 0, taken = 0;
    for (const struct ci_segment *segment = socket->in; segment; segment = segment->next)
        available += segment->len;
    size_t wanted = length_of(iov, count);
    if (op->peek)
        return ci_op_complete(op, (int)peek(socket, op->buf, op->len));
    size_t limit = shortened(world, socket, available < wanted ? available : wanted);
    for (size_t i = 0; i < count && taken < limit; i++)
        taken += take(socket, iov[i].iov_base,
                      iov[i].iov_len < limit - taken ? iov[i].iov_len : limit - taken);
    if (socket->peer && taken)
        ci_socket_schedule(world,
                           ci_time_after(world->now, ci_transport_link(world, socket)->latency),
                           room_arrives, socket->peer, taken, NULL);
    return ci_op_complete(op, (int)taken);
}

static bool try_write(struct ci_world *world, struct ci_socket *socket, struct ci_op *op)
{
    if (socket->state == CI_STREAM_RESET)
        return ci_op_complete(op, ci_socket_take_error(socket, -EPIPE));
    if (socket->state != CI_STREAM_CONNECTED)
        return ci_op_complete(op, -ENOTCONN);
    if (socket->out_ended)
        return ci_op_complete(op, -EPIPE);
    if (socket->unread_by_peer >= WINDOW)
        return false;
    const struct iovec *iov;
    struct iovec one;
    size_t count = buffers_of(op, &iov, &one), wanted = length_of(iov, count), copied = 0;
    size_t room = WINDOW - socket->unread_by_peer;
    size_t len = shortened(world, socket, wanted < room ? wanted : room);
    if (ci_world_fault(world, socket->node, socket->node->faults.no_buffers, "no buffers"))
        return ci_op_complete(op, -ENOBUFS);
    if (ci_world_fault(world, socket->node, ci_transport_link(world, socket)->reset,
                       "the connection is reset")) {
        ci_transport_send_reset(world, socket);
        ci_transport_reset(world, socket, -ECONNRESET);
        return ci_op_complete(op, ci_socket_take_error(socket, -EPIPE));
    }
    struct ci_segment *segment = new_segment(socket, len);
    for (size_t i = 0; i < count && copied < len; i++) {
        size_t n = iov[i].iov_len < len - copied ? iov[i].iov_len : len - copied;
        memcpy(segment->data + copied, iov[i].iov_base, n);
        copied += n;
    }
    socket->unread_by_peer += len;
    ci_check(socket->unread_by_peer <= WINDOW, "sim/stream.c 1");
    ci_transport_send(world, socket, segment_arrives, len, segment);
    if (socket->unread_by_peer == WINDOW)
        ci_transport_probe(world, socket);
    return ci_op_complete(op, (int)len);
}

/* Messages. Descriptors are not passed: they are numbers of the simulated world, and no other
 * program in it could use them. */
static bool try_receive(struct ci_world *world, struct ci_socket *socket, struct ci_op *op)
{
    struct msghdr *message = op->message;
    struct ci_op read = {
        .kind = CI_OP_READV, .iov = message->msg_iov, .count = (int)message->msg_iovlen};
    message->msg_controllen = 0;
    message->msg_flags = 0;
    return try_read(world, socket, &read) && ci_op_complete(op, read.result);
}

static bool try_send(struct ci_world *world, struct ci_socket *socket, struct ci_op *op)
{
    const struct msghdr *message = op->message;
    struct ci_op write = {
        .kind = CI_OP_WRITEV, .iov = message->msg_iov, .count = (int)message->msg_iovlen};
    if (message->msg_controllen)
        return ci_op_complete(op, -EOPNOTSUPP);
    return try_write(world, socket, &write) && ci_op_complete(op, write.result);
}

/* ---- the kind ---- */

static int events(const struct ci_socket *socket)
{
    int found = 0;
    bool reset = socket->state == CI_STREAM_RESET;
    if (socket->in || socket->in_ended || reset)
        found |= COIR_READ;
    if (socket->in_ended || reset)
        found |= CI_EVENT_END;
    /* behind its own end a write fails at once */
    bool has_room = socket->unread_by_peer < WINDOW || socket->out_ended;
    if (reset || (socket->state == CI_STREAM_CONNECTED && has_room))
        found |= COIR_WRITE;
    if (reset || (socket->in_ended && socket->out_ended))
        found |= COIR_HANGUP;
    return found;
}

static bool attempt(struct ci_world *world, struct ci_socket *socket, struct ci_op *op)
{
    switch ((enum ci_op_kind)op->kind) {
    case CI_OP_READ:
    case CI_OP_READV: return try_read(world, socket, op);
    case CI_OP_WRITE:
    case CI_OP_WRITEV: return try_write(world, socket, op);
    case CI_OP_RECEIVE: return try_receive(world, socket, op);
    case CI_OP_SEND: return try_send(world, socket, op);
    case CI_OP_CONNECT:
        if (socket->state == CI_STREAM_CONNECTING)
            return false;
        if (socket->state == CI_STREAM_CONNECTED)
            return ci_op_complete(op, 0);
        return ci_op_complete(op, ci_socket_take_error(socket, -ECONNREFUSED));
    default: return ci_op_complete(op, -EINVAL);
    }
}

static int shutdown_write(struct ci_world *world, struct ci_socket *socket)
{
    if (socket->state != CI_STREAM_CONNECTED)
        return -ENOTCONN;
    if (socket->out_ended)
        return 0;
    socket->out_ended = true;
    if (socket->peer || socket->outbox)
        ci_transport_send(world, socket, end_arrives, 0, new_segment(socket, 0));
    ci_socket_changed(world, socket);
    return 0;
}

static void close_stream(struct ci_world *world, struct ci_socket *socket)
{
    if (socket->peer) {
        if (socket->state == CI_STREAM_CONNECTING)
            ci_sim_connect_abandon(world, socket);
        else if (socket->in || socket->resets)
            ci_transport_send_reset(world, socket);
        else
            shutdown_write(world, socket);
        socket->peer->peer = NULL;
    }
    ci_transport_drop_outbox(socket);
}

static const struct ci_socket_kind stream_kind = {
    .name = "stream",
    .connect = ci_sim_connect_begin,
    .attempt = attempt,
    .events = events,
    .close = close_stream,
};

void ci_sim_stream_links_changed(struct ci_world *world)
{
    for (size_t fd = 0; fd < world->socket_capacity; fd++) {
        struct ci_socket *socket = world->sockets[fd];
        if (!socket || socket->kind != &stream_kind)
            continue;
        let_room_arrive(world, socket);
        if (socket->unread_by_peer >= WINDOW)
            ci_transport_probe(world, socket);
    }
}

int ci_sim_stream_open(struct ci_world *world, struct ci_node *node, int family)
{
    int rc = ci_socket_no_descriptor(world, node);
    if (rc < 0)
        return rc;
    struct ci_socket *socket = ci_socket_new(world, node, &stream_kind);
    if (socket)
        socket->is_unix = family == AF_UNIX;
    return socket ? socket->fd : -ENOMEM;
}

int ci_sim_stream_reset_on_close(struct ci_world *world, coir_fd fd, bool on)
{
    struct ci_socket *socket = ci_socket_of(world, fd);
    if (!socket)
        return -EBADF;
    socket->resets = on;
    return 0;
}

int ci_sim_stream_unread_by_peer(const struct ci_world *world, coir_fd fd)
{
    const struct ci_socket *socket = ci_socket_of(world, fd);
    return socket ? (int)socket->unread_by_peer : -EBADF;
}

int ci_sim_stream_shutdown_write(struct ci_world *world, coir_fd fd)
{
    struct ci_socket *socket = ci_socket_of(world, fd);
    return socket ? shutdown_write(world, socket) : -EBADF;
}
