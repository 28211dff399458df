/* sys/call.h and sys/socket_call.h: the calls on descriptors. */
#include "sys/call.h"
#include "sys/file_call.h"
#include "sys/socket_call.h"

#include <errno.h>

#include "sim/kernel/socket.h"

/* ---- reading and writing ---- */

static ssize_t read_vector(coir_fd fd, const struct iovec *iov, int count)
{
    ci_kcall();
    struct ci_kfile *file = ci_kfd_find(fd);
    return !file ? -EBADF : file->type->read ? file->type->read(file, iov, count) : -EINVAL;
}

static ssize_t write_vector(coir_fd fd, const struct iovec *iov, int count)
{
    ci_kcall();
    struct ci_kfile *file = ci_kfd_find(fd);
    return !file ? -EBADF : file->type->write ? file->type->write(file, iov, count) : -EINVAL;
}

ssize_t ci_sys_recvmsg(coir_fd fd, struct msghdr *message)
{
    ci_kcall();
    struct ci_kfile *file = ci_kfd_find(fd);
    if (!file)
        return -EBADF;
    ssize_t n = file->type->receive ? file->type->receive(file, message, 0) : -ENOTSOCK;
    if (n >= 0)
        message->msg_flags |=
            MSG_CMSG_CLOEXEC; /* sys/socket_call.c passes it, and Linux reports it back */
    return n;
}

ssize_t ci_sys_sendmsg(coir_fd fd, const struct msghdr *message)
{
    ci_kcall();
    struct ci_kfile *file = ci_kfd_find(fd);
    return !file              ? -EBADF
           : file->type->send ? file->type->send(file, message, MSG_NOSIGNAL)
                              : -ENOTSOCK;
}

ssize_t ci_sys_recv(coir_fd fd, void *buf, size_t len)
{
    struct iovec one = {buf, len};
    return ci_sys_recvmsg(fd, &(struct msghdr){.msg_iov = &one, .msg_iovlen = 1});
}

ssize_t ci_sys_peek(coir_fd fd, void *buf, size_t len)
{
    ci_kcall();
    struct ci_kfile *file = ci_kfd_find(fd);
    return !file ? -EBADF : ci_ksocket_is(file) ? ci_kstream_peek(file, buf, len) : -ENOTSOCK;
}

ssize_t ci_sys_send(coir_fd fd, const void *buf, size_t len)
{
    struct iovec one = {(void *)(uintptr_t)buf, len};
    return ci_sys_sendmsg(fd, &(struct msghdr){.msg_iov = &one, .msg_iovlen = 1});
}

ssize_t ci_sys_recvv(coir_fd fd, const struct iovec *iov, int iov_count)
{
    return read_vector(fd, iov, iov_count);
}

ssize_t ci_sys_sendv(coir_fd fd, const struct iovec *iov, int iov_count)
{
    return ci_sys_sendmsg(fd, &(struct msghdr){.msg_iov = (struct iovec *)(uintptr_t)iov,
                                               .msg_iovlen = (size_t)iov_count});
}

ssize_t ci_sys_read(coir_fd fd, void *buf, size_t len)
{
    return read_vector(fd, &(struct iovec){buf, len}, 1);
}

ssize_t ci_sys_writev(coir_fd fd, const struct iovec *iov, int iov_count)
{
    return write_vector(fd, iov, iov_count);
}

static bool has_room(void *arg)
{
    return ci_kfile_poll(arg) & (POLLOUT | POLLERR | POLLHUP);
}

/* A file that blocks waits for room, and has written a part then. */
ssize_t ci_sys_write(coir_fd fd, const void *buf, size_t len)
{
    struct iovec one = {(void *)(uintptr_t)buf, len};
    ssize_t n;
    while ((n = write_vector(fd, &one, 1)) == -EAGAIN && ci_kfd_find(fd)->blocking) {
        struct ci_kfile *file = ci_kfile_ref(ci_kfd_find(fd));
        ci_kthread_wait("a file", fd, has_room, file, COIR_NEVER);
        ci_kfile_unref(file);
    }
    return n;
}

/* ---- sockets ---- */

static struct ci_ksocket *socket_at(coir_fd fd, int *ret_error)
{
    ci_kcall();
    struct ci_kfile *file = ci_kfd_find(fd);
    *ret_error = !file ? -EBADF : ci_ksocket_is(file) ? 0 : -ENOTSOCK;
    return *ret_error ? NULL : ci_ksocket_of(file);
}

int ci_sys_socket(int family)
{
    ci_kcall();
    if (family != AF_INET && family != AF_INET6 && family != AF_UNIX)
        return -EAFNOSUPPORT;
    const struct ci_kfile_type *type = family == AF_UNIX ? &ci_kunix_stream_type : &ci_kstream_type;
    int rc = ci_kfd_refused();
    if (rc < 0)
        return rc;
    struct ci_ksocket *socket = ci_ksocket_new(ci_k.process->node, type);
    socket->six = family == AF_INET6;
    return ci_kfd_install(&socket->file);
}

int ci_sys_listen(const struct sockaddr *address, socklen_t len, int backlog, bool reuse_port,
                  bool ipv6_only)
{
    ci_kcall();
    int rc = ci_kfd_refused();
    if (rc < 0)
        return rc;
    struct ci_ksocket *socket = ci_ksocket_new(ci_k.process->node, &ci_kstream_type);
    rc = ci_klistener_start(socket, address, len, backlog, reuse_port, ipv6_only);
    if (rc == 0)
        return ci_kfd_install(&socket->file);
    ci_kfile_unref(&socket->file);
    return rc;
}

int ci_sys_accept(coir_fd fd)
{
    ci_kcall();
    struct ci_kfile *file = ci_kfd_find(fd), *accepted;
    if (!file || !file->type->accept)
        return file ? -ENOTSOCK : -EBADF;
    int rc = ci_klistener_refused(); /* before it is taken off the queue */
    if (rc < 0 || (rc = file->type->accept(file, &accepted)) < 0)
        return rc;
    return ci_kfd_install(accepted);
}

int ci_sys_connect(coir_fd fd, const struct sockaddr *address, socklen_t len)
{
    int rc;
    struct ci_ksocket *socket = socket_at(fd, &rc);
    return socket ? socket->file.type->connect(&socket->file, address, len) : rc;
}

int ci_sys_refuse(coir_fd fd)
{
    int rc;
    struct ci_ksocket *socket = socket_at(fd, &rc);
    if (socket && ci_kunix_is(socket))
        return socket->file.type->shutdown(&socket->file, SHUT_RD);
    if (socket)
        socket->refuses = true;
    return rc;
}

int ci_sys_shutdown_write(coir_fd fd)
{
    int rc;
    struct ci_ksocket *socket = socket_at(fd, &rc);
    return socket ? socket->file.type->shutdown
                        ? socket->file.type->shutdown(&socket->file, SHUT_WR)
                        : -ENOTCONN
                  : rc;
}

int ci_sys_name(coir_fd fd, bool peer, struct sockaddr_storage *ret_address, socklen_t *ret_len)
{
    int rc;
    const struct ci_ksocket *socket = socket_at(fd, &rc);
    if (!socket)
        return rc;
    if (ci_kunix_is(socket))
        return ci_kunix_name(socket, peer, ret_address, ret_len);
    if (peer && (socket->state != CI_KCONNECTED &&
                 !(socket->state == CI_KDATAGRAM && socket->remote.sin6_family)))
        return -ENOTCONN;
    *ret_address = (struct sockaddr_storage){0};
    ci_kaddress_show(socket, peer ? &socket->remote : &socket->local, ret_address, ret_len);
    return 0;
}

int ci_sys_socket_error(coir_fd fd)
{
    int rc;
    struct ci_ksocket *socket = socket_at(fd, &rc);
    return socket ? -ci_ksocket_take_error(socket) : rc;
}

int ci_sys_no_delay(coir_fd fd)
{
    int rc;
    socket_at(fd, &rc);
    return rc;
}

int ci_sys_reset_on_close(coir_fd fd)
{
    return ci_sys_tcp_option(fd, COIR_TCP_RESET_ON_CLOSE, 1);
}

/* The kernel doubles what is asked for, within bounds: socket(7). */
static size_t doubled(int value)
{
    size_t size = 2 * (size_t)value;
    return size < 4608 ? 4608 : size > 425984 ? 425984 : size;
}

int ci_sys_tcp_option(coir_fd fd, enum coir_tcp_option option, int value)
{
    int rc;
    struct ci_ksocket *socket = socket_at(fd, &rc);
    if (value < 0 || option < COIR_TCP_NODELAY || option > COIR_TCP_KEEPALIVE_COUNT)
        return -EINVAL;
    if (socket && option == COIR_TCP_SEND_BUFFER)
        socket->out_most = doubled(value);
    if (socket && option == COIR_TCP_RECEIVE_BUFFER)
        socket->in_most = doubled(value);
    if (socket && option == COIR_TCP_RESET_ON_CLOSE)
        socket->resets = value != 0;
    return rc;
}

/* No client ever has a cookie, without which nothing is sent before the handshake. */
int ci_sys_fast_open(coir_fd fd, int queue)
{
    int rc;
    const struct ci_ksocket *socket = socket_at(fd, &rc);
    (void)queue;
    if (!socket)
        return rc;
    if (ci_kunix_is(socket))
        return -EOPNOTSUPP;
    return socket->state == CI_KCLOSED || socket->state == CI_KLISTENING ? 0 : -EINVAL;
}

int ci_sys_fast_open_connect(coir_fd fd)
{
    int rc;
    const struct ci_ksocket *socket = socket_at(fd, &rc);
    if (!socket)
        return rc;
    if (ci_kunix_is(socket))
        return -EOPNOTSUPP;
    return socket->state == CI_KCLOSED ? 0 : -EINVAL;
}

int ci_sys_get_tcp_option(coir_fd fd, enum coir_tcp_option option)
{
    (void)fd;
    (void)option;
    return -EOPNOTSUPP;
}

int ci_sys_tcp_info(coir_fd fd, coir_tcp_info *ret_info)
{
    (void)fd;
    (void)ret_info;
    return -EOPNOTSUPP;
}

int ci_sys_unacknowledged(coir_fd fd)
{
    int rc;
    const struct ci_ksocket *socket = socket_at(fd, &rc);
    if (!socket)
        return rc;
    return (int)socket->out.bytes +
           (socket->out_ended && (socket->out.first || socket->end_is_late));
}

/* ---- any ---- */

void ci_sys_close(coir_fd fd)
{
    ci_kcall();
    ci_kfd_close(fd);
}

bool ci_sys_is_open(coir_fd fd)
{
    ci_kcall();
    return ci_kfd_find(fd);
}

int ci_sys_poll_check(coir_fd fd)
{
    ci_kcall();
    const struct ci_kfile *file = ci_kfd_find(fd);
    return !file ? -EBADF : ci_kdisk_is(file) ? -EPERM : 0;
}
