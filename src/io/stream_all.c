/* Reading and writing all of a buffer, and peeking: loops over the single operations of stream.c.
 *
 * Each holds its direction of the stream between its operations (io.h 2).
 *
 * Each loop exists twice. A future cannot call a function that suspends. The straight-line call
 * does not use the future, because most calls are complete after one operation, on the fast path of
 * coir_read or coir_write, and would pay for setting up a frame. */
#include <errno.h>

#include "io/io.h"
#include "task/completed.h"

struct io_all_op {
    coir_future future;
    struct ci_io_op io;
    struct ci_hold hold;
    union {
        char *to;
        const char *from;
        struct iovec *iov;
    };
    size_t len; /* bytes, or vectors */
    size_t done;
    size_t *ret_done;
};
CI_LEAVES_SPARE_WORDS(struct io_all_op, coir_io_all_op);

static coir_io_op *one_of(struct io_all_op *self)
{
    return (coir_io_op *)(void *)&self->io;
}

/* The result `n` of an operation after which the call goes on, if it still holds the stream. */
static ssize_t after(const struct ci_hold *hold, ssize_t n)
{
    return n < 0 || hold->stream ? n : -ECANCELED;
}

static coir_future *read_full_poll(coir_future *future)
{
    struct io_all_op *self = ci_container_of(future, struct io_all_op, future);
    COIR_BEGIN(future);
    self->io.future.result =
        self->len ? ci_hold_take(&self->hold, self->io.stream, &self->io.stream->reader, &self->io)
                  : 0;
    while (self->io.future.result >= 0 && self->done < self->len) {
        COIR_AWAIT(future, coir_read_op(one_of(self), self->io.stream, self->to + self->done,
                                        self->len - self->done));
        if (self->io.future.result <= 0)
            break;
        self->done += (size_t)self->io.future.result;
        self->io.future.result = after(&self->hold, self->io.future.result);
    }
    ci_hold_leave(&self->hold);
    if (self->ret_done)
        *self->ret_done = self->done;
    if (self->len == 0)
        COIR_RETURN(future, ci_worker_current->runnable->interrupt);
    int64_t result = self->done == self->len       ? (int64_t)self->done
                     : self->io.future.result == 0 ? -COIR_EEND
                                                   : self->io.future.result;
    COIR_RETURN(future, result);
}

static coir_future *write_all_poll(coir_future *future)
{
    struct io_all_op *self = ci_container_of(future, struct io_all_op, future);
    COIR_BEGIN(future);
    if (self->len == 0)
        COIR_RETURN(future, ci_worker_current->runnable->interrupt);
    self->io.future.result =
        ci_hold_take(&self->hold, self->io.stream, &self->io.stream->writer, &self->io);
    while (self->io.future.result >= 0 && self->done < self->len) {
        COIR_AWAIT(future, coir_write_op(one_of(self), self->io.stream, self->from + self->done,
                                         self->len - self->done));
        if (self->io.future.result >= 0)
            self->done += (size_t)self->io.future.result;
        self->io.future.result = after(&self->hold, self->io.future.result);
    }
    ci_hold_leave(&self->hold);
    COIR_RETURN(future, self->done == self->len ? 0 : self->io.future.result);
    COIR_END(future);
}

/* Skips the first `n` bytes of a vector. Returns how many parts are left. */
static int advance(struct iovec **iov, int count, size_t n)
{
    while (count > 0 && n >= (*iov)->iov_len) {
        n -= (*iov)->iov_len;
        (*iov)++;
        count--;
    }
    if (count > 0) {
        (*iov)->iov_base = (char *)(*iov)->iov_base + n;
        (*iov)->iov_len -= n;
    }
    return count;
}

static coir_future *writev_all_poll(coir_future *future)
{
    struct io_all_op *self = ci_container_of(future, struct io_all_op, future);
    COIR_BEGIN(future);
    if (self->len == 0)
        COIR_RETURN(future, ci_worker_current->runnable->interrupt);
    if (self->len > INT32_MAX)
        COIR_RETURN(future, -EINVAL); /* it was negative */
    self->io.future.result =
        ci_hold_take(&self->hold, self->io.stream, &self->io.stream->writer, &self->io);
    while (self->io.future.result >= 0 && self->len > 0) {
        COIR_AWAIT(future,
                   coir_writev_op(one_of(self), self->io.stream, self->iov, (int)self->len));
        if (self->io.future.result >= 0)
            self->len = (size_t)advance(&self->iov, (int)self->len, (size_t)self->io.future.result);
        self->io.future.result = after(&self->hold, self->io.future.result);
    }
    ci_hold_leave(&self->hold);
    COIR_RETURN(future, self->len == 0 ? 0 : self->io.future.result);
    COIR_END(future);
}

static coir_future *peek_poll(coir_future *future)
{
    struct io_all_op *self = ci_container_of(future, struct io_all_op, future);
    struct ci_worker *worker = ci_worker_current;
    COIR_BEGIN(future);
    if (ci_leaf_refused(worker, future))
        return future->caller;
    for (;;) {
        future->result = ci_stream_try_peek(self->io.stream, self->to, self->len, &self->io);
        if (future->result != -EAGAIN && future->result != -EINTR)
            return ci_leaf_complete(worker, future);
        ci_hold_begin(&self->hold, self->io.stream, &self->io.stream->reader, &self->io);
        COIR_AWAIT(future, coir_stream_wait_op(one_of(self), self->io.stream, COIR_READ));
        if (!ci_hold_leave(&self->hold))
            COIR_RETURN(future, -ECANCELED);
        if (self->io.future.result < 0)
            COIR_RETURN(future, self->io.future.result);
    }
    COIR_END(future);
}

static const coir_future_kind peek_kind = COIR_FUTURE_KIND("a peek", peek_poll, NULL);
static const coir_future_kind read_full_kind =
    COIR_FUTURE_KIND("a full read", read_full_poll, NULL);
static const coir_future_kind write_all_kind =
    COIR_FUTURE_KIND("a full write", write_all_poll, NULL);
static const coir_future_kind writev_all_kind =
    COIR_FUTURE_KIND("a full write", writev_all_poll, NULL);

static struct io_all_op *init_all(coir_io_all_op *opaque, const coir_future_kind *kind,
                                  coir_stream *stream, size_t len)
{
    struct io_all_op *op = (struct io_all_op *)(void *)opaque;
    coir_future_init(&op->future, kind);
    op->io.stream = stream;
    op->hold.stream = NULL;
    op->len = len;
    op->done = 0;
    return op;
}

coir_future *coir_read_full_op(coir_io_all_op *opaque, coir_stream *stream, void *buf, size_t len,
                               size_t *ret_done)
{
    if (ret_done)
        *ret_done = 0; /* an interrupt may keep the future from its start */
    if (!opaque || !stream || (!buf && len))
        return ci_completed_op(opaque, CI_MISUSE(-EINVAL, "op, stream or buf is NULL"));
    struct io_all_op *op = init_all(opaque, &read_full_kind, stream, len);
    op->to = buf;
    op->ret_done = ret_done;
    return &op->future;
}

coir_future *coir_peek_op(coir_io_all_op *opaque, coir_stream *stream, void *buf, size_t len)
{
    if (!opaque || !stream || (!buf && len))
        return ci_completed_op(opaque, CI_MISUSE(-EINVAL, "op, stream or buf is NULL"));
    struct io_all_op *op = init_all(opaque, &peek_kind, stream, len);
    op->to = buf;
    return &op->future;
}

coir_future *coir_write_all_op(coir_io_all_op *opaque, coir_stream *stream, const void *buf,
                               size_t len)
{
    if (!opaque || !stream || (!buf && len))
        return ci_completed_op(opaque, CI_MISUSE(-EINVAL, "op, stream or buf is NULL"));
    struct io_all_op *op = init_all(opaque, &write_all_kind, stream, len);
    op->from = buf;
    return &op->future;
}

coir_future *coir_writev_all_op(coir_io_all_op *opaque, coir_stream *stream, struct iovec *iov,
                                int iov_count)
{
    if (!opaque || !stream || (!iov && iov_count > 0))
        return ci_completed_op(opaque, CI_MISUSE(-EINVAL, "op, stream or iov is NULL"));
    struct io_all_op *op = init_all(opaque, &writev_all_kind, stream, (size_t)iov_count);
    op->iov = iov;
    return &op->future;
}

/* A call for zero bytes, which makes no other call but has to check for an interrupt and for fork()
 * as well. */
static CI_COLD int do_nothing(const char *call, const void *place)
{
    int rc = 0;
    ci_fiber_enter_in(&rc, call, place);
    return rc;
}

/* Loops over the straight-line calls: see the head of the file. */
ssize_t coir_read_full(coir_stream *stream, void *buf, size_t len, size_t *ret_done)
{
    if (!stream || (!buf && len))
        return CI_MISUSE(-EINVAL, "stream or buf is NULL");
    struct ci_hold hold = {.stream = NULL};
    size_t done = 0;
    ssize_t n = len ? 1 : do_nothing(CI_CALL, CI_PLACE);
    while (done < len && n > 0) {
        n = ci_stream_read(stream, (char *)buf + done, len - done, &hold, CI_CALL, CI_PLACE);
        done += n > 0 ? (size_t)n : 0;
        if (done < len && n > 0)
            n = after(&hold, n);
    }
    ci_hold_leave(&hold);
    if (ret_done)
        *ret_done = done;
    return n > 0 ? (ssize_t)done : n == 0 && len ? -COIR_EEND : n;
}

/* The rest of coir_write_all, after a ci_stream_write_now with the result `n`. */
static CI_NOINLINE int write_rest(coir_stream *stream, const char *from, size_t len, ssize_t n,
                                  const char *call, const void *place)
{
    if (len == 0)
        return do_nothing(call, place);
    struct ci_hold hold = {.stream = NULL};
    struct ci_worker *worker = ci_worker_current;
    size_t done = n > 0 ? (size_t)n : 0;
    if (n > 0)
        ci_hold_begin(&hold, stream, &stream->writer, CI_FIBER_OP(worker->fiber, struct ci_io_op));
    if (n != -EAGAIN)
        ci_spend(worker);
    n = n == -EAGAIN ? 0 : after(&hold, n);
    while (n >= 0 && done < len) {
        n = ci_stream_write(stream, from + done, len - done, &hold, call, place);
        done += n > 0 ? (size_t)n : 0;
        if (done < len)
            n = after(&hold, n);
    }
    ci_hold_leave(&hold);
    return done == len ? 0 : (int)n;
}

int coir_write_all(coir_stream *stream, const void *buf, size_t len)
{
    if (!stream || (!buf && len))
        return CI_MISUSE(-EINVAL, "stream or buf is NULL");
    struct ci_worker *worker = ci_worker_current;
    ssize_t n = -EAGAIN;
    if (ci_likely(ci_fiber_of_call(worker) != NULL))
        n = ci_stream_write_now(worker, stream, buf, len);
    if (ci_likely(n > 0 && (size_t)n == len))
        return ci_spend_and_return(worker);
    return write_rest(stream, buf, len, n, CI_CALL, CI_PLACE);
}

int coir_writev_all(coir_stream *stream, struct iovec *iov, int iov_count)
{
    if (!stream || (!iov && iov_count > 0))
        return CI_MISUSE(-EINVAL, "stream or iov is NULL");
    if (ci_unlikely(iov_count == 0))
        return do_nothing(CI_CALL, CI_PLACE);
    struct ci_hold hold = {.stream = NULL};
    ssize_t n = 0;
    while (n >= 0 && iov_count != 0) {
        n = ci_stream_writev(stream, iov, iov_count, &hold, CI_CALL, CI_PLACE);
        if (n >= 0)
            iov_count = advance(&iov, iov_count, (size_t)n);
        if (iov_count != 0)
            n = after(&hold, n);
    }
    ci_hold_leave(&hold);
    return iov_count == 0 ? 0 : (int)n;
}

ssize_t coir_peek(coir_stream *stream, void *buf, size_t len)
{
    coir_io_all_op op;
    if (!stream || (!buf && len))
        return CI_MISUSE(-EINVAL, "stream or buf is NULL");
    return ci_await_in_fiber(coir_peek_op(&op, stream, buf, len));
}
