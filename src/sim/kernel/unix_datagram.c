/* Datagrams of Unix sockets: unix(7); net/unix/af_unix.c of Linux 6.1 to 6.18. Nothing is lost: a
 * receiver that has as many as it may hold makes senders wait, and tells those of room that it has
 * refused and that are connected to it. */
#include <errno.h>
#include <string.h>

#include "sim/kernel/socket.h"
#include "sys/socket_call.h"

static bool is_full_for(const struct ci_ksocket *to, const struct ci_ksocket *from)
{
    return to != from && to->peer != from && to->in.count >= ci_k.settings.datagrams_most;
}

/* unix_dgram_peer_wake_relay */
static void tell_of_room(const struct ci_ksocket *receiver, unsigned key)
{
    for (struct ci_ksocket *socket = ci_k.sockets; socket; socket = socket->next) {
        if (!socket->no_space || socket->peer != receiver || socket->orphan ||
            socket->file.type != &ci_kunix_datagram_type)
            continue;
        socket->no_space = false;
        ci_kfile_wake(&socket->file, key);
    }
}

/* unix_dgram_poll */
static unsigned poll_datagram(struct ci_kfile *file)
{
    struct ci_ksocket *socket = ci_ksocket_of(file);
    unsigned events = socket->error ? POLLERR : 0;
    if (socket->in_ended && socket->out_ended)
        events |= POLLHUP;
    if (socket->in_ended)
        events |= POLLIN | POLLRDNORM | POLLRDHUP;
    if (socket->in.first)
        events |= POLLIN | POLLRDNORM;
    if (!ci_kunix_is_writable(socket))
        return events;
    if (socket->peer && !socket->peer->orphan && is_full_for(socket->peer, socket))
        socket->no_space = true;
    else
        events |= POLLOUT | POLLWRNORM | POLLWRBAND;
    return events;
}

/* ---- receiving ---- */

static size_t copy_out(const struct ci_ksegment *segment, const struct msghdr *message)
{
    size_t copied = 0;
    for (size_t i = 0; i < message->msg_iovlen && copied < segment->len; i++) {
        const struct iovec *iov = &message->msg_iov[i];
        size_t n = segment->len - copied < iov->iov_len ? segment->len - copied : iov->iov_len;
        memcpy(iov->iov_base, segment->data + copied, n);
        copied += n;
    }
    return copied;
}

static ssize_t receive(struct ci_kfile *file, struct msghdr *message, int flags)
{
    struct ci_ksocket *socket = ci_ksocket_of(file);
    if (flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL))
        ci_kunknown("these flags of recvmsg on a Unix datagram socket");
    if (socket->error)
        return -ci_ksocket_take_error(socket);
    if (!socket->in.first)
        return -EAGAIN;
    struct ci_ksegment *segment = ci_kqueue_pop(&socket->in);
    size_t copied = copy_out(segment, message);
    tell_of_room(socket, POLLOUT | POLLWRNORM | POLLWRBAND);
    ci_kunix_copy_name(segment->sender, message);
    message->msg_flags = copied < segment->len ? MSG_TRUNC : 0;
    ci_krights_put(&segment->rights, message);
    ci_kunix_segment_end(segment);
    ci_ktrace("recvmsg", (int64_t)file->serial, (int64_t)copied);
    return (ssize_t)copied;
}

/* ---- sending ---- */

/* unix_dgram_peer_wake_disconnect_wakeup, unix_dgram_disconnected */
static void leave_peer(struct ci_ksocket *socket, const struct ci_ksocket *next)
{
    struct ci_ksocket *peer = socket->peer;
    socket->no_space = false;
    ci_kfile_wake(&socket->file, POLLOUT | POLLWRNORM | POLLWRBAND);
    if (peer == next || !socket->in.first)
        return;
    ci_kunix_drop(socket);
    if (peer->orphan || peer == socket || peer->peer != socket)
        return; /* its own peer has the next one by then */
    peer->error = ECONNRESET;
    ci_kfile_wake(&peer->file, POLLERR);
}

/* Who takes what `socket` sends. NULL, with an error. */
static struct ci_ksocket *receiver_of(struct ci_ksocket *socket, const struct msghdr *message,
                                      int *ret_error)
{
    struct ci_ksocket *to = socket->peer;
    *ret_error = -ENOTCONN;
    if (message->msg_name)
        return ci_kunix_find(socket->file.type, message->msg_name, message->msg_namelen, ret_error);
    if (to && to->orphan) {
        leave_peer(socket, NULL);
        socket->peer = NULL;
        *ret_error = -ECONNREFUSED;
        return NULL;
    }
    return to;
}

/* Why `to` does not take it: 0, it does. */
static int refuse(struct ci_ksocket *socket, const struct ci_ksocket *to)
{
    if (to->peer && to->peer != socket)
        return -EPERM; /* unix_may_send */
    if (to->in_ended || socket->out_ended)
        return -EPIPE;
    if (!is_full_for(to, socket))
        return 0;
    socket->no_space |= socket->peer == to;
    return -EAGAIN;
}

static ssize_t send_off(struct ci_ksocket *socket, const struct msghdr *message,
                        struct ci_krights *rights)
{
    size_t len = ci_kunix_length(message);
    int rc;
    if (len + 32 > socket->out_most)
        return -EMSGSIZE;
    if (socket->error)
        return -ci_ksocket_take_error(socket);
    if (socket->out_ended)
        return -EPIPE;
    if (ci_world_fault(ci_k.world, socket->node, socket->node->faults.no_buffers, "no buffers"))
        return -ENOBUFS;
    if (socket->out.bytes >= socket->out_most)
        return -EAGAIN;
    struct ci_ksegment *segment = ci_kunix_segment_make(socket, message, 0, len, rights);
    struct ci_ksocket *to = receiver_of(socket, message, &rc);
    if (!to || (rc = refuse(socket, to)) < 0) {
        ci_kunix_segment_end(segment); /* which tells the sender of room */
        return rc;
    }
    ci_kqueue_push(&to->in, segment);
    ci_kfile_wake(&to->file, POLLIN | POLLPRI | POLLRDNORM | POLLRDBAND);
    return (ssize_t)len;
}

/* unix_dgram_sendmsg */
static ssize_t send_message(struct ci_kfile *file, const struct msghdr *message, int flags)
{
    struct ci_krights rights = {0};
    if (flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL))
        ci_kunknown("these flags of sendmsg on a Unix datagram socket");
    int rc = ci_krights_take(&rights, message);
    if (rc < 0)
        return rc;
    ssize_t n = send_off(ci_ksocket_of(file), message, &rights);
    ci_krights_drop(&rights); /* if it was not sent */
    ci_ktrace("sendmsg", (int64_t)file->serial, n);
    return n;
}

/* ---- the rest ---- */

/* unix_dgram_connect */
static int connect_datagram(struct ci_kfile *file, const struct sockaddr *address, socklen_t len)
{
    struct ci_ksocket *socket = ci_ksocket_of(file);
    int rc = 0;
    struct ci_ksocket *to = ci_kunix_find(file->type, address, len, &rc);
    if (!to)
        return rc;
    if (to->peer && to->peer != socket)
        return -EPERM;
    if (socket->peer)
        leave_peer(socket, to);
    socket->peer = to;
    return 0;
}

static int shut_down(struct ci_kfile *file, int how)
{
    ci_kunix_shut_down(ci_ksocket_of(file), how);
    return 0;
}

static void release(struct ci_kfile *file)
{
    struct ci_ksocket *socket = ci_ksocket_of(file);
    socket->orphan = true;
    ci_kunix_forget_name(socket);
    tell_of_room(socket, 0);
    ci_kunix_drop(socket);
}

const struct ci_kfile_type ci_kunix_datagram_type = {
    .name = "Unix datagram socket",
    .is_socket = true,
    .is_unix = true,
    .poll = poll_datagram,
    .read = ci_kunix_read,
    .write = ci_kunix_write,
    .receive = receive,
    .send = send_message,
    .connect = connect_datagram,
    .shutdown = shut_down,
    .release = release,
};

int ci_sys_open_datagram(int family)
{
    ci_kcall();
    if (family != AF_UNIX)
        ci_kunknown("datagram sockets of this family that are not bound");
    int rc = ci_kfd_refused();
    if (rc < 0)
        return rc;
    struct ci_ksocket *socket = ci_ksocket_new(ci_k.process->node, &ci_kunix_datagram_type);
    socket->state = CI_KDATAGRAM;
    return ci_kfd_install(&socket->file);
}
