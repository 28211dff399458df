/* Unix sockets: passing descriptors with bytes, and credentials. */
#include "coir/unix.h"

#include <errno.h>
#include <string.h>

#include "io/io.h"
#include "sys/call.h"
#include "task/completed.h"

struct unix_op {
    coir_future future;
    struct ci_io_op io;
    struct msghdr message;
    struct iovec data;
    coir_fd *ret_fds;
    size_t fds_max, *ret_count;
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(COIR_UNIX_FDS_MAX * sizeof(coir_fd))];
};
CI_LEAVES_SPARE_WORDS(struct unix_op, coir_unix_op);

static void begin(struct unix_op *op, coir_stream *stream, enum ci_op_kind kind, void *data,
                  size_t len, socklen_t control_len)
{
    op->data = (struct iovec){data, len};
    op->message = (struct msghdr){
        .msg_iov = &op->data,
        .msg_iovlen = 1,
        .msg_control = control_len ? op->control : NULL,
        .msg_controllen = control_len,
    };
    struct ci_op io = {.fd = stream ? stream->fd : -1,
                       .kind = (uint8_t)kind,
                       .message = &op->message,
                       .exact = true};
    ci_io_init(&op->io, stream, &io);
}

static void put_fds(struct unix_op *op, const coir_fd *fds, size_t count)
{
    if (count == 0)
        return;
    struct cmsghdr *header = CMSG_FIRSTHDR(&op->message);
    header->cmsg_len = (socklen_t)CMSG_LEN(count * sizeof(coir_fd)); /* size_t, or so in musl */
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    memcpy(CMSG_DATA(header), fds, count * sizeof(coir_fd));
}

/* Finds the received descriptors: their number, and their bytes, which may be unaligned. */
static size_t find_fds(const struct unix_op *op, const unsigned char **ret_bytes)
{
    const struct cmsghdr *header = CMSG_FIRSTHDR(&op->message);
    if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
        return 0;
    *ret_bytes = CMSG_DATA(header);
    return (header->cmsg_len - CMSG_LEN(0)) / sizeof(coir_fd);
}

static void close_fds(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        coir_fd fd;
        memcpy(&fd, bytes + i * sizeof fd, sizeof fd);
        ci_sys_close(fd);
    }
}

/* Hands out the descriptors received with bytes, or closes all of them. */
static int take_fds(const struct unix_op *op)
{
    const unsigned char *bytes = NULL;
    size_t count = find_fds(op, &bytes);
    int rc = op->message.msg_flags & MSG_CTRUNC ? -EMFILE : count > op->fds_max ? -EMSGSIZE : 0;
    if (rc < 0) {
        close_fds(bytes, count);
        return rc;
    }
    if (count)
        memcpy(op->ret_fds, bytes, count * sizeof(coir_fd));
    *op->ret_count = count;
    return 0;
}

static coir_future *send_poll(coir_future *future)
{
    struct unix_op *self = ci_container_of(future, struct unix_op, future);
    coir_stream *stream = self->io.stream;
    COIR_BEGIN(future);
    if (!stream->is_unix)
        COIR_RETURN(future, -EOPNOTSUPP);
    if (self->data.iov_len == 0 || self->fds_max > COIR_UNIX_FDS_MAX)
        COIR_RETURN(future, -EINVAL);
    COIR_AWAIT(future, &self->io.future);
    COIR_RETURN(future, self->io.future.result);
}

static coir_future *recv_poll(coir_future *future)
{
    struct unix_op *self = ci_container_of(future, struct unix_op, future);
    int rc;
    COIR_BEGIN(future);
    if (!self->io.stream->is_unix)
        COIR_RETURN(future, -EOPNOTSUPP);
    if (self->data.iov_len == 0)
        COIR_RETURN(future, -EINVAL);
    COIR_AWAIT(future, &self->io.future);
    if (self->io.future.result < 0)
        COIR_RETURN(future, self->io.future.result);
    rc = take_fds(self);
    COIR_RETURN(future, rc < 0 ? rc : self->io.future.result);
}

static const coir_future_kind send_kind =
    COIR_FUTURE_KIND("a write with descriptors", send_poll, NULL);
static const coir_future_kind recv_kind =
    COIR_FUTURE_KIND("bytes and descriptors", recv_poll, NULL);

coir_future *coir_unix_send_fds_op(coir_unix_op *opaque, coir_stream *stream, const void *data,
                                   size_t len, const coir_fd *fds, size_t fd_count)
{
    struct unix_op *op = (struct unix_op *)(void *)opaque;
    if (!op || !stream || (!data && len) || (!fds && fd_count))
        return ci_completed_op(op, CI_MISUSE(-EINVAL, "op, stream, data or fds is NULL"));
    size_t fits = fd_count <= COIR_UNIX_FDS_MAX ? fd_count : 0;
    begin(op, stream, CI_OP_SEND, (void *)(uintptr_t)data, len,
          fits ? (socklen_t)CMSG_SPACE(fits * sizeof(coir_fd)) : 0);
    put_fds(op, fds, fits);
    op->fds_max = fd_count;
    return coir_future_init(&op->future, &send_kind);
}

coir_future *coir_unix_recv_fds_op(coir_unix_op *opaque, coir_stream *stream, void *buf, size_t len,
                                   coir_fd *ret_fds, size_t fds_max, size_t *ret_count)
{
    struct unix_op *op = (struct unix_op *)(void *)opaque;
    if (!op || !stream || (!buf && len) || (!ret_fds && fds_max) || !ret_count)
        return ci_completed_op(op,
                               CI_MISUSE(-EINVAL, "op, stream, buf, ret_fds or ret_count is NULL"));
    begin(op, stream, CI_OP_RECEIVE, buf, len, sizeof op->control);
    op->ret_fds = ret_fds;
    op->fds_max = fds_max;
    op->ret_count = ret_count;
    return coir_future_init(&op->future, &recv_kind);
}

ssize_t coir_unix_send_fds(coir_stream *stream, const void *data, size_t len, const coir_fd *fds,
                           size_t fd_count)
{
    coir_unix_op op;
    if (!stream || (!data && len) || (!fds && fd_count))
        return CI_MISUSE(-EINVAL, "stream, data or fds is NULL");
    return ci_await_in_fiber(coir_unix_send_fds_op(&op, stream, data, len, fds, fd_count));
}

ssize_t coir_unix_recv_fds(coir_stream *stream, void *buf, size_t len, coir_fd *ret_fds,
                           size_t fds_max, size_t *ret_count)
{
    coir_unix_op op;
    if (!stream || (!buf && len) || (!ret_fds && fds_max) || !ret_count)
        return CI_MISUSE(-EINVAL, "stream, buf, ret_fds or ret_count is NULL");
    return ci_await_in_fiber(
        coir_unix_recv_fds_op(&op, stream, buf, len, ret_fds, fds_max, ret_count));
}

int coir_unix_peer(const coir_stream *stream, coir_credentials *ret_credentials)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!stream || !ret_credentials)
        return CI_MISUSE(-EINVAL, "stream or ret_credentials is NULL");
    if (!stream->is_unix)
        return -EOPNOTSUPP;
    struct ci_worker *worker = stream->worker ? stream->worker : ci_worker_current;
    if (!worker)
        return ci_no_fiber();
    coir_credentials found = COIR_CREDENTIALS;
    int rc = worker->loop.driver->kind->credentials(worker->loop.driver, stream->fd, &found);
    return rc < 0 ? rc : ci_result_write(ret_credentials, &found, sizeof found);
}
