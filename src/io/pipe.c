/* An end of a pipe, or a terminal: what would block waits for the readiness of the descriptor, and
 * is tried again.
 *
 * 1. In each direction one operation at a time is in flight: `op` of its lane, for which the driver
 * waits by `ready`.
 */
#include "io/pipe.h"

#include <errno.h>

#include "base/check.h"
#include "driver/count.h"
#include "sys/call.h"
#include "sys/socket_call.h"

/* A direction of a pipe. */
struct lane {
    struct pipe *pipe;
    struct ci_op *op; /* NULL: none is in flight */
    struct ci_op ready;
    bool cancelled; /* `op` was cancelled when the wait could no longer be withdrawn */
};

struct pipe {
    coir_stream stream;
    coir_stream **home; /* NULL: it was left */
    struct lane reading, writing;
    enum ci_pipe_end end;
    bool ended;
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
    case CI_OP_READ: return op->peek ? -EOPNOTSUPP : ci_sys_read(pipe->stream.fd, op->buf, op->len);
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

static struct lane *lane_of(struct pipe *pipe, const struct ci_op *op)
{
    bool writes = is_write(op) || (op->kind == CI_OP_POLL && op->events == COIR_WRITE);
    return writes ? &pipe->writing : &pipe->reading;
}

/* Tries the operation. True: it is complete. */
static bool is_done(const struct pipe *pipe, struct ci_op *op)
{
    ssize_t rc;
    do
        rc = attempt(pipe, op);
    while (rc == -EINTR);
    /* Linux reports so that no program has the terminal open any more */
    if (rc == -EIO && pipe->end == CI_PIPE_PTY && !is_write(op))
        rc = 0;
    op->result = (int32_t)rc;
    return rc != -EAGAIN;
}

/* After a wait that has ended with `events`. True: it is complete. To write, a terminal that no
 * program has open always seems to be ready. To read, one may have been opened since. */
static bool is_done_now(const struct pipe *pipe, struct ci_op *op, int32_t events)
{
    if (is_done(pipe, op))
        return true;
    return is_write(op) && events & COIR_HANGUP && ci_op_complete(op, -EIO);
}

static void on_ready(struct ci_op *ready);

/* Waits until the descriptor is ready; while it is ready at once, tries the operation again. True:
 * the operation is complete. */
static bool wait_for(struct lane *lane, struct ci_op *op)
{
    struct pipe *pipe = lane->pipe;
    uint8_t events = op->kind == CI_OP_POLL ? op->events : is_write(op) ? COIR_WRITE : COIR_READ;
    do {
        lane->ready = (struct ci_op){
            .fd = pipe->stream.fd, .kind = CI_OP_FOREIGN, .events = events, .done = on_ready};
        if (!ci_driver_start(driver_of(pipe), &lane->ready)) {
            lane->op = op;
            op->pending = true;
            return false;
        }
        op->result = lane->ready.result;
    } while (op->result >= 0 && op->kind != CI_OP_POLL &&
             !is_done_now(pipe, op, lane->ready.result));
    return true;
}

/* A wait for a hang-up is the driver's, beside the lanes. */
static bool is_drivers(const struct ci_op *op)
{
    return (op->kind == CI_OP_POLL || op->kind == CI_OP_FOREIGN) &&
           !(op->events & (COIR_READ | COIR_WRITE));
}

static bool start(coir_stream *stream, struct ci_op *op)
{
    struct pipe *pipe = pipe_of(stream);
    struct lane *lane = lane_of(pipe, op);
    if (ci_count_trim(op))
        return true;
    if (pipe->ended)
        return ci_op_complete(op, -EPIPE);
    if (is_drivers(op)) {
        op->kind = CI_OP_FOREIGN;
        op->events = 0;
        return ci_driver_start(driver_of(pipe), op);
    }
    if (lane->op && !op->no_wait) /* a filter tries while it polls */
        return ci_op_complete(op, -EBUSY);
    if (is_done(pipe, op) || op->no_wait)
        return true;
    return wait_for(lane, op);
}

static void on_ready(struct ci_op *ready)
{
    struct lane *lane = ci_container_of(ready, struct lane, ready);
    struct ci_op *op = lane->op;
    bool cancelled = lane->cancelled;
    ci_check(op && op->pending, "io/pipe.c 1");
    lane->op = NULL;
    lane->cancelled = false;
    op->pending = false;
    op->result = cancelled ? -ECANCELED : ready->result;
    if (op->result >= 0 && op->kind != CI_OP_POLL && !is_done_now(lane->pipe, op, ready->result) &&
        !wait_for(lane, op))
        return;
    op->done(op);
}

static bool cancel(coir_stream *stream, struct ci_op *op)
{
    struct pipe *pipe = pipe_of(stream);
    struct lane *lane = lane_of(pipe, op);
    if (is_drivers(op))
        return ci_driver_cancel(driver_of(pipe), op);
    ci_check(lane->op == op, "io/pipe.c 1");
    if (!ci_driver_cancel(driver_of(pipe), &lane->ready)) {
        lane->cancelled = true;
        return false;
    }
    lane->op = NULL;
    op->pending = false;
    op->result = -ECANCELED;
    return true;
}

/* A pipe's reader sees the end of the stream when the descriptor is closed. */
static int shutdown_write(coir_stream *stream)
{
    struct pipe *pipe = pipe_of(stream);
    if (pipe->end != CI_PIPE_WRITES)
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
    ci_check(!pipe->reading.op && !pipe->writing.op && !ci_stream_used(stream), "io.h 3");
    if (pipe->home)
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

int ci_pipe_open(struct ci_worker *worker, coir_fd fd, enum ci_pipe_end end, coir_stream **home)
{
    struct pipe *pipe = ci_alloc_zero(&worker->runtime->allocator, sizeof *pipe);
    if (!pipe)
        return -ENOMEM;
    pipe->stream = (coir_stream){.kind = &pipe_kind, .worker = worker, .fd = fd};
    pipe->home = home;
    pipe->end = end;
    pipe->reading.pipe = pipe->writing.pipe = pipe;
    *home = &pipe->stream;
    return 0;
}

void ci_pipe_leave(coir_stream **home)
{
    coir_stream *stream = *home;
    if (!stream || !stream->is_transport) {
        coir_close(stream);
        return;
    }
    pipe_of(stream)->home = NULL;
    *home = NULL;
}
