/* An end of a pipe: what would block waits for the readiness of the descriptor, and is tried again.
 *
 * 1. One operation at a time is in flight: `op`, for which the driver waits by `ready`.
 */
#include "io/pipe.h"

#include <errno.h>

#include "base/check.h"
#include "driver/count.h"
#include "sys/call.h"
#include "sys/socket_call.h"

struct pipe {
    coir_stream stream;
    coir_stream **home;
    struct ci_op *op; /* NULL: none is in flight */
    struct ci_op ready;
    bool cancelled; /* `op` was cancelled when the wait could no longer be withdrawn */
    bool writes, ended;
};

static struct pipe *pipe_of(const coir_stream *stream)
{
    return ci_container_of(stream, struct pipe, stream);
}

static struct ci_driver *driver_of(const struct pipe *pipe)
{
    return pipe->stream.worker->loop.driver;
}

/* One system call; -EAGAIN: it would have to wait. */
static ssize_t attempt(const struct pipe *pipe, const struct ci_op *op)
{
    switch ((enum ci_op_kind)op->kind) {
    case CI_OP_READ: return ci_sys_read(pipe->stream.fd, op->buf, op->len);
    case CI_OP_READV: return ci_sys_recvv(pipe->stream.fd, op->iov, op->count);
    case CI_OP_WRITE: return ci_sys_write(pipe->stream.fd, op->data, op->len);
    case CI_OP_WRITEV: return ci_sys_writev(pipe->stream.fd, op->iov, op->count);
    case CI_OP_POLL: return -EAGAIN;
    default: return -EOPNOTSUPP;
    }
}

static bool is_write(const struct ci_op *op)
{
    return op->kind == CI_OP_WRITE || op->kind == CI_OP_WRITEV;
}

/* Tries the operation. True: it is complete. */
static bool is_done(const struct pipe *pipe, struct ci_op *op)
{
    ssize_t rc;
    do
        rc = attempt(pipe, op);
    while (rc == -EINTR);
    op->result = (int32_t)rc;
    return rc != -EAGAIN;
}

static void on_ready(struct ci_op *ready);

/* Waits until the descriptor is ready; while it is ready at once, tries the operation again. True:
 * the operation is complete. */
static bool wait_for(struct pipe *pipe, struct ci_op *op)
{
    uint8_t events = op->kind == CI_OP_POLL ? op->events : is_write(op) ? COIR_WRITE : COIR_READ;
    do {
        pipe->ready = (struct ci_op){
            .fd = pipe->stream.fd, .kind = CI_OP_FOREIGN, .events = events, .done = on_ready};
        if (!ci_driver_start(driver_of(pipe), &pipe->ready)) {
            pipe->op = op;
            op->pending = true;
            return false;
        }
        op->result = pipe->ready.result;
    } while (op->result >= 0 && op->kind != CI_OP_POLL && !is_done(pipe, op));
    return true;
}

static bool start(coir_stream *stream, struct ci_op *op)
{
    struct pipe *pipe = pipe_of(stream);
    if (ci_count_trim(op))
        return true;
    if (pipe->ended)
        return ci_op_complete(op, -EPIPE);
    if (pipe->op)
        return ci_op_complete(op, -EBUSY);
    if (is_done(pipe, op) || op->no_wait)
        return true;
    return wait_for(pipe, op);
}

static void on_ready(struct ci_op *ready)
{
    struct pipe *pipe = ci_container_of(ready, struct pipe, ready);
    struct ci_op *op = pipe->op;
    bool cancelled = pipe->cancelled;
    ci_check(op && op->pending, "io/pipe.c 1");
    pipe->op = NULL;
    pipe->cancelled = false;
    op->pending = false;
    op->result = cancelled ? -ECANCELED : ready->result;
    if (op->result >= 0 && op->kind != CI_OP_POLL && !is_done(pipe, op) && !wait_for(pipe, op))
        return;
    op->done(op);
}

static bool cancel(coir_stream *stream, struct ci_op *op)
{
    struct pipe *pipe = pipe_of(stream);
    ci_check(pipe->op == op, "io/pipe.c 1");
    if (!ci_driver_cancel(driver_of(pipe), &pipe->ready)) {
        pipe->cancelled = true;
        return false;
    }
    pipe->op = NULL;
    op->pending = false;
    op->result = -ECANCELED;
    return true;
}

/* A pipe's reader sees the end of the stream when the descriptor is closed. */
static int shutdown_write(coir_stream *stream)
{
    struct pipe *pipe = pipe_of(stream);
    if (!pipe->writes)
        return -EOPNOTSUPP;
    if (!pipe->ended) {
        pipe->ended = true;
        ci_driver_close(driver_of(pipe), stream->fd);
    }
    return 0;
}

static void close_pipe(coir_stream *stream)
{
    struct pipe *pipe = pipe_of(stream);
    if (!pipe->ended)
        ci_driver_close(driver_of(pipe), stream->fd);
    ci_check(!pipe->op && !ci_stream_used(stream), "io.h 3");
    *pipe->home = NULL;
    ci_free(&stream->worker->runtime->allocator, pipe, sizeof *pipe);
}

static const struct ci_stream_kind pipe_kind = {
    .name = "pipe",
    .start = start,
    .cancel = cancel,
    .shutdown_write = shutdown_write,
    .close = close_pipe,
};

int ci_pipe_open(struct ci_worker *worker, coir_fd fd, bool writes, coir_stream **home)
{
    struct pipe *pipe = ci_alloc_zero(&worker->runtime->allocator, sizeof *pipe);
    if (!pipe)
        return -ENOMEM;
    pipe->stream = (coir_stream){.kind = &pipe_kind, .worker = worker, .fd = fd};
    pipe->home = home;
    pipe->writes = writes;
    *home = &pipe->stream;
    return 0;
}
