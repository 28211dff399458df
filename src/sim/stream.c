/* Simulated stream sockets: reading, writing and ending.
 *
 * 1. What is sent and not yet read by the peer is bounded: a writer waits for the peer to read.
 * 2. Closing with unread data or before a connect is answered, and data that reaches a closed end,
 * reset the connection, as Linux does.
 */
#include "sim/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/connect.h"
#include "sim/fault.h"
#include "sim/link.h"
#include "sim/trace.h"
#include "sim/transport.h"

enum { WINDOW = 64 * 1024 };

/* ---- what arrives ---- */

static void segment_arrives(struct ci_world *world, struct ci_socket *socket, size_t amount,
                            void *data)
{
    struct ci_segment *segment = data;
    if (!socket || socket->state != CI_STREAM_CONNECTED) {
        if (!socket)
            ci_transport_unanswered(world,
                                    ci_socket_find(world, segment->sender, segment->sender_serial));
        free(segment);
        return;
    }
    ci_world_trace(world, socket->node, "deliver fd=%d bytes=%zu", socket->fd, amount);
    *socket->in_tail = segment;
    socket->in_tail = &segment->next;
    ci_socket_changed(world, socket);
}

static void end_arrives(struct ci_world *world, struct ci_socket *socket, size_t amount, void *data)
{
    (void)amount;
    (void)data;
    if (!socket)
        return;
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
        ci_socket_schedule(world, ci_time_after(world->now, ci_transport_retransmission),
                           room_arrives, socket, amount, NULL);
        return;
    }
    socket->unread_by_peer -= amount;
    ci_socket_changed(world, socket);
}

/* ---- reading and writing ---- */

static size_t shortened(struct ci_world *world, const struct ci_socket *socket, size_t len)
{
    if (len > 1 && ci_world_fault(world, socket->node, ci_transport_link(world, socket)->short_io,
                                  "moves less than it could"))
        return 1 + (size_t)ci_random_below(&world->random, len - 1);
    return len;
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

static bool try_read(struct ci_world *world, struct ci_socket *socket, const struct ci_op *op,
                     int *ret)
{
    if (socket->state == CI_STREAM_RESET)
        return *ret = ci_socket_take_error(socket, 0), true;
    if (socket->state != CI_STREAM_CONNECTED)
        return *ret = -ENOTCONN, true;
    if (!socket->in)
        return *ret = 0, socket->in_ended;
    const struct iovec *iov;
    struct iovec one;
    size_t count = buffers_of(op, &iov, &one), available = 0, wanted = 0, taken = 0;
    for (const struct ci_segment *segment = socket->in; segment; segment = segment->next)
        available += segment->len;
    for (size_t i = 0; i < count; i++)
        wanted += iov[i].iov_len;
    size_t limit = shortened(world, socket, available < wanted ? available : wanted);
    for (size_t i = 0; i < count && taken < limit; i++)
        taken += take(socket, iov[i].iov_base,
                      iov[i].iov_len < limit - taken ? iov[i].iov_len : limit - taken);
    if (socket->peer && taken)
        ci_socket_schedule(world,
                           ci_time_after(world->now, ci_transport_link(world, socket)->latency),
                           room_arrives, socket->peer, taken, NULL);
    return *ret = (int)taken, true;
}

static bool try_write(struct ci_world *world, struct ci_socket *socket, const struct ci_op *op,
                      int *ret)
{
    if (socket->state == CI_STREAM_RESET)
        return *ret = ci_socket_take_error(socket, -EPIPE), true;
    if (socket->state != CI_STREAM_CONNECTED)
        return *ret = -ENOTCONN, true;
    if (socket->out_ended)
        return *ret = -EPIPE, true;
    if (socket->unread_by_peer >= WINDOW)
        return false;
    const struct iovec *iov;
    struct iovec one;
    size_t count = buffers_of(op, &iov, &one), wanted = 0, copied = 0;
    for (size_t i = 0; i < count; i++)
        wanted += iov[i].iov_len;
    size_t room = WINDOW - socket->unread_by_peer,
           len = shortened(world, socket, wanted < room ? wanted : room);
    if (ci_world_fault(world, socket->node, socket->node->faults.no_buffers, "no buffers"))
        return *ret = -ENOBUFS, true;
    if (ci_world_fault(world, socket->node, ci_transport_link(world, socket)->reset,
                       "the connection is reset")) {
        ci_transport_send_reset(world, socket);
        ci_transport_reset(world, socket, -ECONNRESET);
        return *ret = ci_socket_take_error(socket, -EPIPE), true;
    }
    struct ci_segment *segment = malloc(sizeof *segment + len);
    if (!segment)
        return *ret = -ENOMEM, true;
    *segment =
        (struct ci_segment){.sender = socket->fd, .sender_serial = socket->serial, .len = len};
    for (size_t i = 0; i < count && copied < len; i++) {
        size_t n = iov[i].iov_len < len - copied ? iov[i].iov_len : len - copied;
        memcpy(segment->data + copied, iov[i].iov_base, n);
        copied += n;
    }
    socket->unread_by_peer += len;
    ci_transport_send(world, socket, segment_arrives, len, segment);
    return *ret = (int)len, true;
}

/* Messages. Descriptors are numbers of this world, which no other program could use: they do not
 * travel. */
static bool try_receive(struct ci_world *world, struct ci_socket *socket, struct msghdr *message,
                        int *ret)
{
    struct ci_op read = {
        .kind = CI_OP_READV, .iov = message->msg_iov, .count = (int)message->msg_iovlen};
    message->msg_controllen = 0;
    message->msg_flags = 0;
    return try_read(world, socket, &read, ret);
}

static bool try_send(struct ci_world *world, struct ci_socket *socket, const struct msghdr *message,
                     int *ret)
{
    struct ci_op write = {
        .kind = CI_OP_WRITEV, .iov = message->msg_iov, .count = (int)message->msg_iovlen};
    if (message->msg_controllen)
        return *ret = -EOPNOTSUPP, true;
    return try_write(world, socket, &write, ret);
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
    if (reset || (socket->state == CI_STREAM_CONNECTED && socket->unread_by_peer < WINDOW))
        found |= COIR_WRITE;
    if (reset || (socket->in_ended && socket->out_ended))
        found |= COIR_HANGUP;
    return found;
}

static bool attempt(struct ci_world *world, struct ci_socket *socket, const struct ci_op *op,
                    int *ret)
{
    switch ((enum ci_op_kind)op->kind) {
    case CI_OP_READ:
    case CI_OP_READV: return try_read(world, socket, op, ret);
    case CI_OP_WRITE:
    case CI_OP_WRITEV: return try_write(world, socket, op, ret);
    case CI_OP_RECEIVE: return try_receive(world, socket, op->message, ret);
    case CI_OP_SEND: return try_send(world, socket, op->message, ret);
    case CI_OP_CONNECT:
        if (socket->state == CI_STREAM_CONNECTING)
            return false;
        *ret =
            socket->state == CI_STREAM_CONNECTED ? 0 : ci_socket_take_error(socket, -ECONNREFUSED);
        return true;
    default: return *ret = -EINVAL, true;
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
        ci_transport_send(world, socket, end_arrives, 0, NULL);
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

int ci_sim_stream_shutdown_write(struct ci_world *world, coir_fd fd)
{
    struct ci_socket *socket = ci_socket_of(world, fd);
    return socket ? shutdown_write(world, socket) : -EBADF;
}
