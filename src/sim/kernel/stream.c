/* System calls on stream sockets: net/ipv4/tcp.c and net/core/stream.c of Linux 6.1; tcp(7),
 * send(2), recv(2), shutdown(2), close(2).
 *
 * - A read returns the bytes that have arrived. An error is reported once: before an end that came
 *   with it, but not after the peer's end (SOCK_DONE).
 * - A write takes as many bytes as there is room for. After a short write, or a poll that found no
 *   room, waiters are woken when there is room (no_space).
 * - shutdown wakes all waiters of the own socket.
 * - A close with unread bytes, or with SO_LINGER of 0, resets the connection; any other close sends
 *   the remaining bytes and then the end.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/kernel/socket.h"

/* tcp_poll */
static unsigned poll_stream(struct ci_kfile *file)
{
    struct ci_ksocket *socket = ci_ksocket_of(file);
    if (socket->state == CI_KLISTENING)
        return socket->backlog ? POLLIN | POLLRDNORM : 0;
    unsigned events = socket->error ? POLLERR : 0;
    if ((socket->in_ended && socket->out_ended) || socket->state == CI_KCLOSED)
        events |= POLLHUP;
    if (socket->in_ended)
        events |= POLLIN | POLLRDNORM | POLLRDHUP;
    if (socket->state == CI_KCONNECTING)
        return events;
    if (socket->in.bytes)
        events |= POLLIN | POLLRDNORM;
    if (socket->out_ended || ci_knetwork_is_writable(socket))
        events |= POLLOUT | POLLWRNORM;
    else
        socket->no_space = true;
    return events;
}

static size_t take(struct ci_ksocket *socket, char *to, size_t len)
{
    size_t taken = 0;
    while (taken < len && socket->in.first) {
        struct ci_ksegment *segment = socket->in.first;
        size_t n = segment->len < len - taken ? segment->len : len - taken;
        memcpy(to + taken, segment->data + segment->start, n);
        taken += n;
        segment->start += n;
        segment->len -= n;
        socket->in.bytes -= n;
        if (segment->len == 0)
            free(ci_kqueue_pop(&socket->in));
    }
    return taken;
}

/* tcp_recvmsg, when there are no bytes. */
static ssize_t read_nothing(struct ci_ksocket *socket)
{
    if (socket->done)
        return 0;
    if (socket->error)
        return -ci_ksocket_take_error(socket);
    if (socket->in_ended)
        return 0;
    return socket->state == CI_KCLOSED || socket->state == CI_KLISTENING ? -ENOTCONN : -EAGAIN;
}

static ssize_t read_stream(struct ci_kfile *file, const struct iovec *iov, int count)
{
    struct ci_ksocket *socket = ci_ksocket_of(file);
    size_t taken = 0;
    for (int i = 0; i < count; i++)
        taken += take(socket, iov[i].iov_base, iov[i].iov_len);
    ssize_t result = taken ? (ssize_t)taken : read_nothing(socket);
    if (result >= 0)
        ci_knetwork_room(socket);
    ci_ktrace("recv", (int64_t)file->serial, result);
    return result;
}

ssize_t ci_kstream_peek(struct ci_kfile *file, char *to, size_t len)
{
    struct ci_ksocket *socket = ci_ksocket_of(file);
    size_t done = 0;
    for (const struct ci_ksegment *segment = socket->in.first; segment && done < len;
         segment = segment->next) {
        size_t n = segment->len < len - done ? segment->len : len - done;
        memcpy(to + done, segment->data + segment->start, n);
        done += n;
    }
    ssize_t result = done ? (ssize_t)done : read_nothing(socket);
    ci_ktrace("peek", (int64_t)file->serial, result);
    return result;
}

/* The connection breaks while bytes are sent. */
static ssize_t break_connection(struct ci_ksocket *socket)
{
    ci_knetwork_send_reset(socket);
    ci_knetwork_become_reset(socket, ECONNRESET);
    return -ci_ksocket_take_error(socket);
}

/* The error with which a send fails now, or 0. */
static int refuse_to_send(struct ci_ksocket *socket)
{
    struct ci_world *world = ci_k.world;
    if (socket->error || socket->out_ended) {
        int error = ci_ksocket_take_error(socket);
        return error ? -error : -EPIPE;
    }
    if (socket->state == CI_KCONNECTING) {
        socket->no_space = true;
        return -EAGAIN;
    }
    if (socket->state != CI_KCONNECTED)
        return -EPIPE;
    if (ci_world_fault(world, socket->node, socket->node->faults.no_buffers, "no buffers"))
        return -ENOBUFS;
    if (ci_world_fault(world, socket->node, ci_knetwork_link(socket)->reset,
                       "the connection is reset"))
        return (int)break_connection(socket);
    return 0;
}

static ssize_t write_stream(struct ci_kfile *file, const struct iovec *iov, int count)
{
    struct ci_ksocket *socket = ci_ksocket_of(file);
    int rc = refuse_to_send(socket);
    if (rc < 0) {
        ci_ktrace("send", (int64_t)file->serial, rc);
        return rc;
    }
    size_t wanted = 0, copied = 0,
           room = socket->out_most > socket->out.bytes ? socket->out_most - socket->out.bytes : 0;
    for (int i = 0; i < count; i++)
        wanted += iov[i].iov_len;
    size_t len = wanted < room ? wanted : room;
    if (len < wanted)
        socket->no_space = true;
    if (!wanted || !len)
        return wanted ? -EAGAIN : 0;
    struct ci_ksegment *segment = ci_ksegment_new(len);
    for (int i = 0; i < count && copied < len; i++) {
        size_t n = iov[i].iov_len < len - copied ? iov[i].iov_len : len - copied;
        memcpy(segment->data + copied, iov[i].iov_base, n);
        copied += n;
    }
    ci_ktrace("send", (int64_t)file->serial, (int64_t)len);
    ci_knetwork_send(socket, segment);
    return (ssize_t)len;
}

static ssize_t receive(struct ci_kfile *file, struct msghdr *message, int flags)
{
    if (flags & ~(MSG_WAITALL | MSG_NOSIGNAL | MSG_DONTWAIT))
        ci_kunknown("these flags of recvmsg on a stream");
    message->msg_flags = 0;
    message->msg_controllen = 0;
    return read_stream(file, message->msg_iov, (int)message->msg_iovlen);
}

static ssize_t send_message(struct ci_kfile *file, const struct msghdr *message, int flags)
{
    if (flags & ~(MSG_WAITALL | MSG_NOSIGNAL | MSG_DONTWAIT) || message->msg_controllen)
        ci_kunknown("these flags of sendmsg on a stream");
    return write_stream(file, message->msg_iov, (int)message->msg_iovlen);
}

static void send_end(struct ci_ksocket *socket)
{
    struct ci_ksegment *end = ci_ksegment_new(0);
    end->end = true;
    socket->out_ended = true;
    ci_knetwork_send(socket, end);
}

/* Both ends have arrived: TCP_CLOSE, or TIME_WAIT. */
static bool has_finished(const struct ci_ksocket *socket)
{
    return socket->in_ended && socket->out_ended && socket->end_arrived;
}

/* inet_shutdown */
static int shut_down(struct ci_kfile *file, int how)
{
    struct ci_ksocket *socket = ci_ksocket_of(file);
    if (how != SHUT_WR)
        ci_kunknown("a shutdown of another direction than SHUT_WR");
    if (socket->state == CI_KCONNECTING)
        return -ENOTCONN;
    bool connected = socket->state == CI_KCONNECTED && !has_finished(socket);
    if (connected && !socket->out_ended)
        send_end(socket);
    socket->out_ended = true;
    ci_kfile_wake(file, 0); /* even if the connection has ended */
    return connected ? 0 : -ENOTCONN;
}

/* tcp_close */
static void release(struct ci_kfile *file)
{
    struct ci_ksocket *socket = ci_ksocket_of(file);
    socket->orphan = true;
    if (socket->state == CI_KLISTENING)
        ci_klistener_close(socket);
    if (socket->state == CI_KCONNECTING)
        ci_klistener_give_up(socket);
    if (socket->state == CI_KCONNECTED) {
        if ((socket->in.bytes || socket->resets) && !has_finished(socket)) {
            ci_kqueue_drop(&socket->out);
            ci_knetwork_send_reset(socket);
            socket->state = CI_KCLOSED;
        } else if (!socket->out_ended) {
            send_end(socket);
        }
    } else {
        socket->state = CI_KCLOSED;
    }
    ci_kqueue_drop(&socket->in);
}

const struct ci_kfile_type ci_kstream_type = {
    .name = "stream",
    .is_socket = true,
    .poll = poll_stream,
    .read = read_stream,
    .write = write_stream,
    .receive = receive,
    .send = send_message,
    .accept = ci_klistener_accept,
    .connect = ci_klistener_connect,
    .shutdown = shut_down,
    .release = release,
};
