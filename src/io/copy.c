/* Copies between streams, and between streams and files: inside the kernel (splice, sendfile) where
 * both ends are sockets or files, and through a buffer otherwise. Between streams the copy is a
 * frame (coir/future.h); files are read and written by calls of a fiber.
 *
 * A copy holds its streams (io.h 2), and refers to its file (io/file.h).
 *
 * Before a socket is spliced from, its driver stops reading ahead, and the bytes it has already
 * read ahead are written first. */
#include <errno.h>

#include "coir/fiber.h"
#include "coir/file.h"
#include "io/file.h"
#include "io/io.h"
#include "sys/call.h"
#include "sys/splice.h"
#include "task/completed.h"
#include "task/offload.h"

enum { BUFFER = 64 * 1024, PIPE = 1024 * 1024, WINDOW = 4 * 1024 * 1024 };

/* A copy between streams: bytes that have come and are not written yet are held, in the buffer or
 * in the pipe, and written before more are read. No step waits: the frame polls the stream that the
 * next step needs. */
struct copy_op {
    coir_future future;
    struct ci_io_op io; /* the poll */
    coir_stream *to, *from;
    struct ci_hold holds_to, holds_from;
    size_t len, done, *ret_done;
    char *buffer;            /* NULL: not needed yet */
    size_t held, at;         /* bytes; in the buffer, where they begin */
    size_t ahead, pipe_size; /* ahead: bytes to be read before the first splice */
    coir_fd pipe[2];         /* -1: the bytes go through the buffer */
    bool in_buffer;          /* those held; they are in the pipe otherwise */
    bool looked;             /* for an error that the driver has read from the socket */
};
CI_LEAVES_SPARE_WORDS(struct copy_op, coir_copy_op);

/* Whether the kernel can copy the bytes of the stream: an unbroken socket without a filter. */
static bool is_kernels(const coir_stream *stream)
{
    return stream->is_socket && !stream->error && !stream->worker->loop.driver->kind->simulated;
}

/* ---- reading ---- */

static size_t left(const struct copy_op *self, size_t most)
{
    return self->len - self->done < most ? self->len - self->done : most;
}

static ssize_t hold(struct copy_op *self, ssize_t n, bool in_buffer)
{
    self->held = n > 0 ? (size_t)n : 0;
    self->at = 0;
    self->in_buffer = in_buffer;
    return n;
}

/* `exact`: at most `most` bytes, and nothing is read ahead. */
static ssize_t read_to_buffer(struct copy_op *self, size_t most, bool exact)
{
    const coir_allocator *allocator = &ci_worker_current->runtime->allocator;
    if (!self->buffer && !(self->buffer = ci_alloc(allocator, BUFFER)))
        return -ENOMEM;
    size_t len = left(self, most < BUFFER ? most : BUFFER);
    ssize_t n = ci_stream_try_read(self->from, self->buffer, len, exact, &self->io);
    return hold(self, n, true);
}

static ssize_t read_to_pipe(struct copy_op *self)
{
    char byte;
    if (!self->looked) {
        self->looked = true;
        ssize_t n = ci_stream_try_peek(self->from, &byte, 1, &self->io);
        if (n < 0 && n != -EAGAIN && n != -EINTR)
            return n;
    }
    ssize_t n = ci_sys_splice(self->from->fd, self->pipe[1], left(self, self->pipe_size));
    if (n > 0)
        ci_stream_count_moved(self->from, COIR_READ, (size_t)n);
    return hold(self, n, false);
}

static ssize_t read_some(struct copy_op *self)
{
    if (self->pipe[0] < 0)
        return read_to_buffer(self, BUFFER, false);
    if (!self->ahead)
        return read_to_pipe(self);
    ssize_t n = read_to_buffer(self, self->ahead, true);
    self->ahead -= n > 0 ? (size_t)n : 0;
    return n;
}

/* ---- writing ---- */

static ssize_t write_some(struct copy_op *self)
{
    ssize_t n = self->in_buffer
                    ? ci_stream_try_write(self->to, self->buffer + self->at, self->held, &self->io)
                    : ci_sys_splice(self->pipe[0], self->to->fd, self->held);
    if (n <= 0)
        return n;
    if (!self->in_buffer)
        ci_stream_count_moved(self->to, COIR_WRITE, (size_t)n);
    self->at += (size_t)n;
    self->held -= (size_t)n;
    self->done += (size_t)n;
    return n;
}

/* ---- the frame ---- */

static int begin(struct copy_op *self)
{
    int rc = ci_hold_take(&self->holds_from, self->from, &self->from->reader, &self->io);
    if (rc == 0)
        rc = ci_hold_take(&self->holds_to, self->to, &self->to->writer, &self->io);
    if (rc < 0 || !is_kernels(self->to) || !is_kernels(self->from) ||
        ci_sys_pipe(self->pipe, PIPE, &self->pipe_size) < 0)
        return rc;
    struct ci_driver *driver = self->from->worker->loop.driver;
    self->ahead = driver->kind->stop_ahead ? driver->kind->stop_ahead(driver, self->from->fd) : 0;
    return 0;
}

static int64_t finish(struct copy_op *self, int64_t rc)
{
    ci_hold_leave(&self->holds_from);
    ci_hold_leave(&self->holds_to);
    if (self->pipe[0] >= 0) {
        ci_sys_close(self->pipe[0]);
        ci_sys_close(self->pipe[1]);
    }
    ci_free(&ci_worker_current->runtime->allocator, self->buffer, BUFFER);
    if (self->ret_done)
        *self->ret_done = self->done;
    return rc < 0 ? rc : (int64_t)self->done;
}

static coir_future *poll_for_next(struct copy_op *self)
{
    coir_stream *stream = self->held ? self->to : self->from;
    struct ci_op poll = {
        .fd = stream->fd,
        .kind = CI_OP_POLL,
        .events = self->held ? COIR_WRITE : COIR_READ,
        .exact = self->pipe[0] >= 0 || stream->is_unix,
        .once = self->pipe[0] >= 0,
    };
    return ci_io_init(&self->io, stream, &poll);
}

static coir_future *copy_poll(coir_future *future)
{
    struct copy_op *self = ci_container_of(future, struct copy_op, future);
    struct ci_worker *worker = ci_worker_current;
    int64_t n = 1;
    COIR_BEGIN(future);
    n = worker->runnable->interrupt;
    if (n == 0)
        n = begin(self);
    while (n >= 0 && (self->held || self->done < self->len)) {
        n = self->held ? write_some(self) : read_some(self);
        if (n == 0)
            break; /* the end */
        if (n == -EAGAIN) {
            COIR_AWAIT(future, poll_for_next(self));
            n = self->io.future.result;
        } else if (n > 0 && !ci_budget_spend(worker)) {
            COIR_AWAIT(future, coir_yield_op(&self->io.future));
            n = self->io.future.result;
        }
        if (n >= 0)
            n = worker->runnable->interrupt;
        else if (n == -EINTR)
            n = 0;
        if (n >= 0 && !(self->holds_from.stream && self->holds_to.stream))
            n = -ECANCELED;
    }
    COIR_RETURN(future, finish(self, n));
}

static const coir_future_kind copy_kind = COIR_FUTURE_KIND("a copy", copy_poll, NULL);

coir_future *coir_stream_copy_op(coir_copy_op *opaque, coir_stream *to, coir_stream *from,
                                 size_t len, size_t *ret_done)
{
    if (ret_done)
        *ret_done = 0; /* an interrupt may keep the future from its start */
    if (!opaque || !to || !from)
        return ci_completed_op(opaque, CI_MISUSE(-EINVAL, "op, to or from is NULL"));
    struct copy_op *op = (struct copy_op *)(void *)opaque;
    *op = (struct copy_op){
        .to = to, .from = from, .len = len, .ret_done = ret_done, .pipe = {-1, -1}};
    return coir_future_init(&op->future, &copy_kind);
}

ssize_t coir_stream_copy(coir_stream *to, coir_stream *from, size_t len, size_t *ret_done)
{
    coir_copy_op op;
    if (!to || !from)
        return CI_MISUSE(-EINVAL, "to or from is NULL");
    return ci_await_in_fiber(coir_stream_copy_op(&op, to, from, len, ret_done));
}

/* ---- files ---- */

/* A copy from or to a file. */
struct file_copy {
    size_t len, done;
    char *buffer; /* of a copy through a buffer */
    struct ci_hold hold;
};

static int take_stream(struct file_copy *copy, coir_stream *stream, struct ci_io_op **slot)
{
    return ci_hold_take(&copy->hold, stream, slot,
                        CI_FIBER_OP(ci_worker_current->fiber, struct ci_io_op));
}

/* The result `n` of a wait after which the copy goes on, if it still holds the stream. */
static ssize_t after_wait(const struct file_copy *copy, ssize_t n)
{
    return n < 0 || copy->hold.stream ? n : -ECANCELED;
}

static size_t left_of_file(const struct file_copy *copy, size_t most)
{
    return copy->len - copy->done < most ? copy->len - copy->done : most;
}

static int write_all(struct file_copy *copy, coir_stream *to, const char *bytes, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = coir_write(to, bytes + at, len - at);
        if (n < 0)
            return (int)n;
        at += (size_t)n;
        copy->done += (size_t)n;
        if (copy->done < copy->len && after_wait(copy, n) < 0)
            return -ECANCELED;
    }
    return 0;
}

static int open_buffer(struct file_copy *copy)
{
    copy->buffer = ci_alloc(&ci_worker_current->runtime->allocator, BUFFER);
    return copy->buffer ? 0 : -ENOMEM;
}

static void close_buffer(struct file_copy *copy)
{
    ci_free(&ci_worker_current->runtime->allocator, copy->buffer, BUFFER);
}

/* After a sendfile that returned `n`: waits for the stream on -EAGAIN. 1: call again. */
static int after_call(ssize_t n, coir_stream *stream, int events)
{
    if (n == -EAGAIN)
        n = ci_stream_wait_blocked(stream, events);
    else
        ci_spend(ci_worker_current);
    if (n == -EINTR)
        return 1;
    return n < 0 ? (int)n : coir_task_interrupted() ? coir_task_interrupted() : 1;
}

static ssize_t finish_file(const struct file_copy *copy, int rc, size_t *ret_done)
{
    if (ret_done)
        *ret_done = copy->done;
    return rc < 0 ? rc : (ssize_t)copy->done;
}

struct part {
    coir_fd fd;
    int64_t offset;
    size_t len;
};

/* On a thread of the pool, so that sendfile does not block on the disk. An error is not reported:
 * sendfile reads the file itself then. */
static int read_ahead(void *arg)
{
    const struct part *part = arg;
    ci_sys_read_ahead(part->fd, part->offset, part->len);
    return 0;
}

static int send_part(struct file_copy *copy, coir_stream *to, struct part *part)
{
    coir_offload_job job;
    int rc = (int)after_wait(copy, ci_await_in_fiber(ci_offload_turn_op(&job, read_ahead, part)));
    while (rc >= 0 && part->len) {
        ssize_t n = ci_sys_sendfile(to->fd, part->fd, part->offset, part->len);
        if (n == 0)
            return 0;
        if (n > 0) {
            part->offset += n;
            part->len -= (size_t)n;
            copy->done += (size_t)n;
            ci_stream_count_moved(to, COIR_WRITE, (size_t)n);
        }
        rc = after_call(n, to, COIR_WRITE);
        if (copy->done < copy->len)
            rc = (int)after_wait(copy, rc);
    }
    return rc < 0 ? rc : 1;
}

static int send_file(struct file_copy *copy, coir_stream *to, coir_fd fd, int64_t offset)
{
    int rc = 1;
    while (rc > 0 && copy->done < copy->len) {
        struct part part = {fd, offset + (int64_t)copy->done, left_of_file(copy, WINDOW)};
        rc = send_part(copy, to, &part);
    }
    return rc < 0 ? rc : 0;
}

static int send_plainly(struct file_copy *copy, coir_stream *to, coir_file *file, int64_t offset)
{
    int rc = open_buffer(copy);
    ssize_t n = 1;
    while (rc == 0 && copy->done < copy->len && n > 0) {
        n = coir_file_read(file, copy->buffer, left_of_file(copy, BUFFER),
                           offset + (int64_t)copy->done);
        n = after_wait(copy, n);
        rc = n > 0 ? write_all(copy, to, copy->buffer, (size_t)n) : (int)n;
    }
    close_buffer(copy);
    return rc;
}

ssize_t coir_file_copy_to(coir_file *file, int64_t offset, size_t len, coir_stream *to,
                          size_t *ret_done)
{
    int rc = 0;
    struct file_copy copy = {.len = len};
    if (!file || !to)
        return CI_MISUSE(-EINVAL, "file or to is NULL");
    if (offset < 0)
        return finish_file(&copy, -EINVAL, ret_done);
    if (!ci_fiber_enter(&rc) || (rc = take_stream(&copy, to, &to->writer)) < 0)
        return finish_file(&copy, rc, ret_done);
    ci_file_ref(file);
    rc = is_kernels(to) ? send_file(&copy, to, ci_file_fd(file), offset) : -EOPNOTSUPP;
    if (copy.done == 0 && (rc == -EOPNOTSUPP || rc == -EINVAL)) /* not supported for the file */
        rc = send_plainly(&copy, to, file, offset);
    ci_file_unref(file);
    ci_hold_leave(&copy.hold);
    return finish_file(&copy, rc, ret_done);
}

static int write_to_file(struct file_copy *copy, coir_file *file, int64_t offset, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t n =
            coir_file_write(file, copy->buffer + at, len - at, offset + (int64_t)copy->done);
        if (n <= 0)
            return n < 0 ? (int)n : -EIO;
        at += (size_t)n;
        copy->done += (size_t)n;
    }
    return 0;
}

ssize_t coir_file_copy_from(coir_file *file, int64_t offset, size_t len, coir_stream *from,
                            size_t *ret_done)
{
    int rc = 0;
    ssize_t n = 1;
    struct file_copy copy = {.len = len};
    if (!file || !from)
        return CI_MISUSE(-EINVAL, "file or from is NULL");
    if (offset < 0)
        return finish_file(&copy, -EINVAL, ret_done);
    if (ci_fiber_enter(&rc) && (rc = take_stream(&copy, from, &from->reader)) == 0)
        rc = open_buffer(&copy);
    ci_file_ref(file);
    while (rc == 0 && copy.done < copy.len && n > 0) {
        n = coir_read(from, copy.buffer, left_of_file(&copy, BUFFER));
        rc = n > 0 ? write_to_file(&copy, file, offset, (size_t)n) : (int)n;
        if (copy.done < copy.len && n > 0)
            rc = (int)after_wait(&copy, rc);
    }
    ci_file_unref(file);
    ci_hold_leave(&copy.hold);
    if (copy.buffer)
        close_buffer(&copy);
    return finish_file(&copy, rc, ret_done);
}
