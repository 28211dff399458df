/* Streams of Unix sockets: unix(7); net/unix/af_unix.c of Linux 6.1 to 6.18.
 *
 * - What is sent is in the peer's queue at once, in segments that stay apart: a read takes several,
 * but ends behind one that came with descriptors, which the first byte read of it delivers.
 * - A sender is charged for what has not been read. It may send while that is less than its
 * buffer, and polls as writable while it is a quarter at most.
 * - A connect succeeds or fails at once: -EAGAIN, the backlog is full. Nobody who waits for the
 * socket is told that it is connected.
 * - A close ends both directions of the peer, with ECONNRESET where something was not read or the
 * connection not accepted; what the peer has received stays readable.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/kernel/socket.h"
#include "sys/socket_call.h"

enum { SEGMENT_MOST = 36544 }; /* SKB_MAX_HEAD(0) + UNIX_SKB_FRAGS_SZ */

/* ---- polling ---- */

static unsigned poll_stream(struct ci_kfile *file)
{
    const struct ci_ksocket *socket = ci_ksocket_of(file);
    unsigned events = socket->error ? POLLERR : 0;
    if ((socket->in_ended && socket->out_ended) || socket->state == CI_KCLOSED)
        events |= POLLHUP;
    if (socket->in_ended)
        events |= POLLIN | POLLRDNORM | POLLRDHUP;
    if (socket->in.first || socket->backlog)
        events |= POLLIN | POLLRDNORM;
    if (socket->state != CI_KLISTENING && ci_kunix_is_writable(socket))
        events |= POLLOUT | POLLWRNORM | POLLWRBAND;
    return events;
}

/* ---- receiving ---- */

/* What a read takes: bytes, and the descriptors of one segment. */
struct taking {
    size_t bytes;
    struct ci_krights rights;
    bool ends;
};

static void take(struct ci_ksocket *socket, char *to, size_t len, struct taking *taking)
{
    struct ci_ksegment *segment = socket->in.first;
    memcpy(to, segment->data + segment->start, len);
    segment->start += len;
    segment->len -= len;
    socket->in.bytes -= len;
    taking->bytes += len;
    if (segment->rights.count) {
        taking->rights = segment->rights;
        segment->rights = (struct ci_krights){0};
    }
    if (segment->len)
        return;
    taking->ends = taking->rights.count;
    ci_kunix_segment_end(ci_kqueue_pop(&socket->in));
}

static void take_into(struct ci_ksocket *socket, const struct iovec *iov, struct taking *taking)
{
    for (size_t at = 0, len; at < iov->iov_len && socket->in.first && !taking->ends; at += len) {
        len = socket->in.first->len;
        len = len < iov->iov_len - at ? len : iov->iov_len - at;
        take(socket, (char *)iov->iov_base + at, len, taking);
    }
}

static size_t room_of(const struct msghdr *message)
{
    size_t room = 0;
    for (size_t i = 0; i < message->msg_iovlen; i++)
        room += message->msg_iov[i].iov_len;
    return room;
}

/* unix_stream_read_generic. With too little for MSG_WAITALL it looks for more, and takes an error
 * that it finds then without a word. */
static ssize_t receive(struct ci_kfile *file, struct msghdr *message, int flags)
{
    struct ci_ksocket *socket = ci_ksocket_of(file);
    struct taking taking = {0};
    if (flags & ~(MSG_WAITALL | MSG_NOSIGNAL | MSG_DONTWAIT))
        ci_kunknown("these flags of recvmsg on a Unix stream");
    if (socket->state != CI_KCONNECTED)
        return -EINVAL;
    if (!socket->in.first && socket->error)
        return -ci_ksocket_take_error(socket);
    if (!socket->in.first && !socket->in_ended)
        return -EAGAIN;
    message->msg_flags = 0;
    message->msg_namelen = 0;
    for (size_t i = 0; i < message->msg_iovlen; i++)
        take_into(socket, &message->msg_iov[i], &taking);
    if (flags & MSG_WAITALL && !taking.ends && taking.bytes < room_of(message))
        ci_ksocket_take_error(socket);
    ci_krights_put(&taking.rights, message);
    ci_ktrace("recv", (int64_t)file->serial, (int64_t)taking.bytes);
    return (ssize_t)taking.bytes;
}

/* ---- sending ---- */

static bool is_gone(const struct ci_ksocket *peer)
{
    return peer->orphan || peer->in_ended;
}

/* One segment of it, from byte `at`; the first one carries the descriptors. */
static ssize_t send_part(struct ci_ksocket *socket, const struct msghdr *message, size_t at,
                         size_t len, struct ci_krights *rights)
{
    size_t most = socket->out_most / 2 - 64;
    if (socket->error)
        return -ci_ksocket_take_error(socket);
    if (socket->out.bytes >= socket->out_most)
        return -EAGAIN;
    most = most < SEGMENT_MOST ? most : SEGMENT_MOST;
    len = len < most ? len : most;
    struct ci_ksegment *segment = ci_kunix_segment_make(socket, message, at, len, rights);
    if (is_gone(socket->peer)) {
        ci_kunix_segment_end(segment);
        return -EPIPE;
    }
    ci_kqueue_push(&socket->peer->in, segment);
    ci_kfile_wake(&socket->peer->file, POLLIN | POLLPRI | POLLRDNORM | POLLRDBAND);
    return (ssize_t)len;
}

static ssize_t send_all(struct ci_ksocket *socket, const struct msghdr *message,
                        struct ci_krights *rights)
{
    size_t len = ci_kunix_length(message), sent = 0;
    ssize_t n = 0;
    if (message->msg_name)
        return socket->state == CI_KCONNECTED ? -EISCONN : -EOPNOTSUPP;
    if (!socket->peer)
        return -ENOTCONN;
    if (socket->out_ended)
        return -EPIPE;
    if (ci_world_fault(ci_k.world, socket->node, socket->node->faults.no_buffers, "no buffers"))
        return -ENOBUFS;
    while (sent < len && (n = send_part(socket, message, sent, len - sent, rights)) > 0)
        sent += (size_t)n;
    return sent ? (ssize_t)sent : n;
}

/* unix_stream_sendmsg */
static ssize_t send_message(struct ci_kfile *file, const struct msghdr *message, int flags)
{
    struct ci_krights rights = {0};
    if (flags & ~(MSG_WAITALL | MSG_NOSIGNAL | MSG_DONTWAIT))
        ci_kunknown("these flags of sendmsg on a Unix stream");
    int rc = ci_krights_take(&rights, message);
    if (rc < 0)
        return rc;
    ssize_t n = send_all(ci_ksocket_of(file), message, &rights);
    ci_krights_drop(&rights); /* if nothing was sent */
    ci_ktrace("send", (int64_t)file->serial, n);
    return n;
}

/* ---- connections ---- */

static int begin_listen(struct ci_ksocket *socket, int backlog)
{
    if (socket->file.type != &ci_kunix_stream_type)
        return -EOPNOTSUPP;
    if (!socket->name_len || socket->state == CI_KCONNECTED)
        return -EINVAL;
    socket->state = CI_KLISTENING;
    socket->backlog_most = backlog + 1; /* unix_recvq_full: more than the backlog */
    socket->owner_pid = socket->peer_pid = ci_kprocess_id(ci_k.process);
    return 0;
}

int ci_sys_begin_listen(coir_fd fd, int backlog)
{
    int rc;
    struct ci_ksocket *socket = ci_kunix_at(fd, &rc);
    return socket ? begin_listen(socket, backlog) : rc;
}

static void queue_child(struct ci_ksocket *listener, struct ci_ksocket *client)
{
    struct ci_ksocket *child = ci_ksocket_new(listener->node, listener->file.type);
    struct ci_ksocket **at = &listener->backlog;
    child->state = client->state = CI_KCONNECTED;
    child->name = listener->name;
    child->name_len = listener->name_len;
    child->listener = listener;
    child->peer = client;
    client->peer = child;
    child->peer_pid = ci_kprocess_id(ci_k.process);
    client->peer_pid = listener->owner_pid;
    while (*at)
        at = &(*at)->backlog_next;
    *at = child;
    listener->backlog_len++;
    ci_ktrace("connection", (int64_t)listener->file.serial, (int64_t)child->file.serial);
    ci_kfile_wake(&listener->file, POLLIN | POLLPRI | POLLRDNORM | POLLRDBAND);
}

/* unix_stream_connect */
static int connect_stream(struct ci_kfile *file, const struct sockaddr *address, socklen_t len)
{
    struct ci_ksocket *socket = ci_ksocket_of(file);
    int rc = 0;
    struct ci_ksocket *listener = ci_kunix_find(file->type, address, len, &rc);
    if (!listener)
        return rc;
    if (listener->state != CI_KLISTENING || listener->in_ended)
        return -ECONNREFUSED;
    if (listener->backlog_len >= listener->backlog_most)
        return -EAGAIN;
    if (socket->state != CI_KCLOSED)
        return socket->state == CI_KCONNECTED ? -EISCONN : -EINVAL;
    queue_child(listener, socket);
    return 0;
}

/* unix_accept */
static int accept_stream(struct ci_kfile *file, struct ci_kfile **ret_file)
{
    struct ci_ksocket *listener = ci_ksocket_of(file), *child = listener->backlog;
    if (listener->state != CI_KLISTENING)
        return -EINVAL;
    if (!child)
        return -EAGAIN;
    listener->backlog = child->backlog_next;
    listener->backlog_len--;
    child->listener = NULL;
    *ret_file = &child->file;
    return 0;
}

/* unix_shutdown */
static int shut_down(struct ci_kfile *file, int how)
{
    struct ci_ksocket *socket = ci_ksocket_of(file);
    ci_kunix_shut_down(socket, how);
    if (socket->peer && !socket->peer->orphan) {
        socket->peer->in_ended |= how != SHUT_RD;
        socket->peer->out_ended |= how != SHUT_WR;
        ci_kfile_wake(&socket->peer->file, 0);
    }
    return 0;
}

static void end_peer(struct ci_ksocket *peer, bool is_reset)
{
    peer->in_ended = peer->out_ended = true;
    if (is_reset)
        peer->error = ECONNRESET;
    ci_kfile_wake(&peer->file, 0);
}

/* unix_release_sock */
static void release(struct ci_kfile *file)
{
    struct ci_ksocket *socket = ci_ksocket_of(file), *child;
    socket->orphan = true;
    ci_kunix_forget_name(socket);
    if (socket->peer && !socket->peer->orphan)
        end_peer(socket->peer, socket->in.first || socket->listener);
    socket->listener = NULL;
    while ((child = socket->backlog)) {
        socket->backlog = child->backlog_next;
        ci_kfile_unref(&child->file);
    }
    ci_kunix_drop(socket);
}

const struct ci_kfile_type ci_kunix_stream_type = {
    .name = "Unix stream",
    .is_socket = true,
    .is_unix = true,
    .poll = poll_stream,
    .read = ci_kunix_read,
    .write = ci_kunix_write,
    .receive = receive,
    .send = send_message,
    .accept = accept_stream,
    .connect = connect_stream,
    .shutdown = shut_down,
    .release = release,
};
