/* Unix sockets: passing descriptors with bytes, and credentials. */
#include "coir/unix.h"

#include <errno.h>
#include <string.h>

#include "io/io.h"
#include "sys/call.h"
#include "sys/control.h"
#include "task/completed.h"

/* Besides descriptors, options that another program has set on a socket have the system tell the
 * credentials of the sender, its process, and its security label, whose length has no bound but
 * is that of a few words. */
enum {
    FDS_ROOM = CMSG_SPACE(COIR_UNIX_FDS_MAX * sizeof(coir_fd)),
    OTHERS_ROOM = CMSG_SPACE(3 * sizeof(int)) + CMSG_SPACE(sizeof(coir_fd)) + CMSG_SPACE(256),
};

struct unix_op {
    coir_future future;
    struct ci_io_op io;
    struct msghdr message;
    struct iovec data;
    coir_fd *ret_fds;
    size_t fds_max, *ret_count;
    _Alignas(struct cmsghdr) char control[FDS_ROOM + OTHERS_ROOM];
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

static bool is_fds(const struct cmsghdr *header)
{
    return header->cmsg_level == SOL_SOCKET &&
           (header->cmsg_type == SCM_RIGHTS || header->cmsg_type == CI_SCM_PIDFD);
}

static size_t fds_of(const struct cmsghdr *header)
{
    return (header->cmsg_len - CMSG_LEN(0)) / sizeof(coir_fd);
}

static size_t count_passed(struct msghdr *message)
{
    size_t count = 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
         header = ci_control_next(message, header))
        if (is_fds(header) && header->cmsg_type == SCM_RIGHTS)
            count += fds_of(header);
    return count;
}

static void close_fds(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        coir_fd fd;
        memcpy(&fd, bytes + i * sizeof fd, sizeof fd);
        ci_sys_close(fd);
    }
}

/* Hands out the descriptors that the peer has passed, or closes all of them. One of the peer's
 * process nobody has asked this call for. */
static int take_fds(struct unix_op *op)
{
    struct msghdr *message = &op->message;
    size_t count = count_passed(message), taken = 0;
    int rc = message->msg_flags & MSG_CTRUNC ? -EMFILE : count > op->fds_max ? -EMSGSIZE : 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
         header = ci_control_next(message, header)) {
        size_t n = is_fds(header) ? fds_of(header) : 0;
        if (rc < 0 || header->cmsg_type != SCM_RIGHTS) {
            close_fds(CMSG_DATA(header), n);
        } else if (n) {
            memcpy(op->ret_fds + taken, CMSG_DATA(header), n * sizeof(coir_fd));
            taken += n;
        }
    }
    if (rc == 0)
        *op->ret_count = taken;
    return rc;
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
    *ret_count = 0;
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
    int rc = ci_stream_refused(stream, CI_CALL, CI_PLACE);
    if (rc < 0)
        return rc;
    if (!stream->is_unix)
        return -EOPNOTSUPP;
    struct ci_driver *driver = ci_worker_current->loop.driver;
    coir_credentials found = COIR_CREDENTIALS;
    rc = driver->kind->credentials(driver, stream->fd, &found);
    return rc < 0 ? rc : ci_result_write(ret_credentials, &found, sizeof found);
}
