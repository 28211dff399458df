/* The calls on streams of every kind: each is one operation (io.h). */
#include <errno.h>
#include <stdio.h>

#include "base/check.h"
#include "io/io.h"
#include "task/completed.h"
#include "task/describe.h"
#include "task/park.h"
#include "task/trace_point.h"

/* ---- one operation ---- */

/* The field of the operation's stream that it clears at its end; NULL: there is none. */
CI_INLINE struct ci_io_op **slot_of(const struct ci_io_op *op)
{
    return op->stream ? ci_stream_slot(op->stream, &op->io) : NULL;
}

/* Takes a wait out of the list of its stream (io.h 4). */
static CI_COLD void leave_waits(const struct ci_io_op *op)
{
    struct ci_io_op *before = NULL, *at = op->stream->error ? NULL : op->stream->waits;
    for (; at && at != op; at = at->io.buf)
        before = at;
    ci_check(at || op->stream->error, "io.h 4");
    if (before && at)
        before->io.buf = op->io.buf;
    else if (at)
        op->stream->waits = op->io.buf;
}

static CI_COLD void enter_waits(struct ci_io_op *op)
{
    op->io.buf = op->stream->waits;
    op->stream->waits = op;
}

CI_INLINE void leave_slot(const struct ci_io_op *op, struct ci_io_op **slot)
{
    if (ci_unlikely(!slot)) {
        if (op->stream)
            leave_waits(op);
        return;
    }
    ci_check(*slot == op, "io.h 1");
    *slot = NULL;
}

CI_INLINE void trace_end(const struct ci_worker *worker, const struct ci_io_op *op, int32_t result)
{
    ci_trace_point(worker, CI_TRACE_IO_ENDED, op->runnable->task, op, .kind = op->io.kind,
                   .value = result);
}

CI_INLINE void end(struct ci_io_op *op, struct ci_io_op **slot)
{
    struct ci_worker *worker = ci_worker_current;
    int32_t result = op->io.result;
    leave_slot(op, slot);
    op->future.result = result;
    if (ci_unlikely(result == -ECANCELED && op->future.state))
        /* the completion of a cancel request: the result is its reason, which may be -ETIME */
        op->future.result = (int32_t)op->future.state;
    ci_wake(worker, op->runnable, &op->future);
    /* last, so that it is a jump, and nothing has to be kept over a call */
    trace_end(worker, op, result);
}

static void on_done(struct ci_op *io)
{
    struct ci_io_op *op = ci_container_of(io, struct ci_io_op, io);
    end(op, slot_of(op));
}

/* The same of a CI_OP_READ on a stream. */
static void on_read(struct ci_op *io)
{
    struct ci_io_op *op = ci_container_of(io, struct ci_io_op, io);
    end(op, &op->stream->reader);
}

CI_INLINE bool start(struct ci_worker *worker, struct ci_io_op *op, coir_stream *stream)
{
    return stream ? ci_stream_start(stream, worker, &op->io)
                  : ci_driver_start(worker->loop.driver, &op->io);
}

static int io_cancel(coir_future *future, int reason)
{
    struct ci_io_op *op = ci_container_of(future, struct ci_io_op, future);
    struct ci_driver *driver = ci_worker_current->loop.driver;
    if (!(op->stream ? op->stream->kind->cancel(op->stream, &op->io)
                     : ci_driver_cancel(driver, &op->io))) {
        future->state = (uint32_t)reason; /* for on_done */
        return false;
    }
    trace_end(ci_worker_current, op, reason);
    leave_slot(op, slot_of(op));
    future->result = reason;
    return true;
}

void ci_stream_end_waits(coir_stream *stream, int error)
{
    struct ci_io_op *next, *op = stream->error ? NULL : stream->waits;
    for (; op; op = next) {
        next = op->io.buf;
        if (io_cancel(&op->future, error))
            ci_wake(ci_worker_current, op->runnable, &op->future);
    }
}

CI_COLD int ci_stream_adopt(coir_stream *stream, struct ci_worker *worker)
{
    if (stream->worker)
        return -EXDEV;
    int rc = stream->kind->adopt ? stream->kind->adopt(stream, worker) : 0;
    if (rc == 0)
        stream->worker = worker;
    return rc;
}

/* Makes the stream the worker's, if it is nobody's; otherwise that is misuse. */
static CI_COLD int adopt(coir_stream *stream, struct ci_worker *worker, const char *call,
                         const void *place)
{
    return stream->worker ? ci_misused_elsewhere(stream->worker, call, place)
                          : ci_stream_adopt(stream, worker);
}

/* Whether an operation of the worker may begin on the stream: 0, -EXDEV, -EBUSY, or an error of
 * adopting it. `slot` is the operation's. */
CI_INLINE int may_begin(coir_stream *stream, struct ci_worker *worker, struct ci_io_op **slot,
                        const struct ci_io_op *op, const char *call, const void *place)
{
    int rc = ci_likely(stream->worker == worker) ? 0 : adopt(stream, worker, call, place);
    if (rc < 0)
        return rc;
    return slot && ci_stream_busy(stream, slot, op) ? -EBUSY : 0;
}

int ci_hold_take(struct ci_hold *hold, coir_stream *stream, struct ci_io_op **slot,
                 const struct ci_io_op *op)
{
    struct ci_worker *worker = ci_worker_current;
    int rc = stream->worker == worker ? 0 : adopt(stream, worker, "a call on a stream", NULL);
    if (rc == 0 && ci_stream_busy(stream, slot, op))
        rc = -EBUSY;
    if (rc == 0)
        ci_hold_begin(hold, stream, slot, op);
    return rc;
}

/* After an operation was started and is in flight. */
CI_INLINE void suspend(const struct ci_worker *worker, struct ci_io_op *op, struct ci_io_op **slot)
{
    if (slot) {
        ci_check(!*slot, "io.h 1");
        *slot = op;
    } else if (op->stream) {
        enter_waits(op);
    }
    op->runnable = ci_leaf_suspend(worker, &op->future);
    ci_trace_point(worker, CI_TRACE_IO_BEGAN, op->runnable->task, op, .kind = op->io.kind,
                   .value = op->io.fd);
}

/* Polls an operation whose slot and stream (NULL: a bare descriptor) are given. */
CI_INLINE coir_future *poll_in(struct ci_io_op *op, coir_stream *stream, struct ci_io_op **slot)
{
    struct ci_worker *worker = ci_worker_current;
    if (ci_leaf_refused(worker, &op->future))
        return op->future.caller;
    int rc = stream ? may_begin(stream, worker, slot, op, "an operation on a stream", NULL) : 0;
    if (rc < 0 || start(worker, op, stream)) {
        op->future.result = rc < 0 ? rc : op->io.result;
        return ci_leaf_complete(worker, &op->future);
    }
    suspend(worker, op, slot);
    return NULL;
}

static coir_future *io_poll(coir_future *future)
{
    struct ci_io_op *op = ci_container_of(future, struct ci_io_op, future);
    return poll_in(op, op->stream, op->stream ? ci_stream_slot(op->stream, &op->io) : NULL);
}

/* ---- operations of tasks at rest ---- */

void ci_io_rest(struct ci_io_op *op, void (*done)(struct ci_op *io))
{
    trace_end(ci_worker_current, op, 0);
    op->io.done = done;
    op->runnable = NULL;
}

void ci_io_rouse(struct ci_io_op *op, struct ci_runnable *runnable)
{
    op->io.done = on_done;
    op->runnable = runnable;
    ci_trace_point(ci_worker_current, CI_TRACE_IO_BEGAN, runnable->task, op, .kind = op->io.kind,
                   .value = op->io.fd);
}

bool ci_io_end_at_rest(struct ci_io_op *op)
{
    if (op->io.pending && !op->stream->kind->cancel(op->stream, &op->io))
        return false;
    leave_slot(op, slot_of(op));
    return true;
}

void ci_io_fail_at_rest(struct ci_io_op *op, int error)
{
    op->future.state = (uint32_t)error; /* for on_done */
    if (op->io.pending && op->stream->kind->cancel(op->stream, &op->io)) {
        op->io.result = -ECANCELED;
        op->io.done(&op->io);
    }
}

/* Where the stream leads, if it is a socket that has addresses. */
static void describe_addresses(const struct ci_io_op *op, char *text, size_t size)
{
    struct ci_driver *driver = op->runnable->task->worker->loop.driver;
    struct sockaddr_storage addresses[2];
    socklen_t len[2];
    char names[2][120];
    for (int peer = 0; peer < 2; peer++) {
        if (driver->kind->address(driver, op->io.fd, peer, &addresses[peer], &len[peer]) < 0 ||
            ci_address_format(&addresses[peer], names[peer], sizeof names[peer]) < 0)
            return;
    }
    snprintf(text, size, ", %s to %s", names[0], names[1]);
}

static void io_describe(const coir_future *future, struct ci_wait_note *note)
{
    static const char *const words[] = {
        [CI_OP_READ] = "to read",       [CI_OP_WRITE] = "to write",
        [CI_OP_READV] = "to read",      [CI_OP_WRITEV] = "to write",
        [CI_OP_RECEIVE] = "to receive", [CI_OP_SEND] = "to send",
        [CI_OP_ACCEPT] = "to accept",   [CI_OP_CONNECT] = "to be connected",
        [CI_OP_POLL] = "to be ready",   [CI_OP_FOREIGN] = "to be ready",
    };
    const struct ci_io_op *op = ci_container_of(future, const struct ci_io_op, future);
    const char *word = op->io.kind < ci_countof(words) ? words[op->io.kind] : NULL;
    int len = snprintf(note->text, sizeof note->text, "%d %s", (int)op->io.fd, word ? word : "");
    if (op->stream && op->stream->is_socket)
        describe_addresses(op, note->text + len, sizeof note->text - (size_t)len);
}

static const struct ci_described_kind io_kind =
    CI_DESCRIBED_KIND("a descriptor", io_poll, io_cancel, 0, io_describe);

coir_future *ci_io_init(struct ci_io_op *op, coir_stream *stream, const struct ci_op *io)
{
    op->future = (coir_future){&io_kind.future, NULL, 0, 0};
    op->stream = stream;
    op->io = *io;
    op->io.done = on_done;
    return &op->future;
}

/* Builds an operation where it lies: the copy of one that has just been built elsewhere would wait
 * for its stores, which are narrower than its loads. */
CI_INLINE void put(struct ci_op *to, const struct ci_op *io)
{
    *to = (struct ci_op){.done = io->kind == CI_OP_READ ? on_read : on_done,
                         .fd = io->fd,
                         .kind = io->kind,
                         .exact = io->exact,
                         .once = io->once,
                         .lazy = io->lazy,
                         .ancillary = io->ancillary,
                         .events = io->events,
                         .count = io->count,
                         .data = io->data,
                         .len = io->len};
}

/* A straight-line call on a stream. The operation lies in the fiber's record; a future is made of
 * it only if the operation does not complete at once. `hold`: of a call that goes on when `io` does
 * not complete all of it; NULL: this is the whole call. */
CI_INLINE ssize_t run(coir_stream *stream, const struct ci_op *io, struct ci_hold *hold,
                      const char *call, const void *place)
{
    int rc = 0;
    struct ci_fiber *fiber = ci_fiber_enter_in(&rc, call, place);
    if (ci_unlikely(!fiber))
        return rc;
    struct ci_worker *worker = ci_worker_current;
    struct ci_io_op *op = CI_FIBER_OP(fiber, struct ci_io_op);
    struct ci_io_op **slot = ci_stream_slot(stream, io);
    if (ci_unlikely((rc = may_begin(stream, worker, slot, op, call, place)) < 0))
        return rc;
    put(&op->io, io);
    op->stream = stream;
    if (ci_stream_start(stream, worker, &op->io)) {
        rc = op->io.result;
        if (hold && !hold->stream && (io->kind == CI_OP_WRITEV || (size_t)rc < io->len))
            ci_hold_begin(hold, stream, slot, op);
        ci_spend(worker); /* may switch: the fiber's record holds another operation afterwards */
        return rc;
    }
    op->future = (coir_future){&io_kind.future, &fiber->back, 0, 0};
    if (hold && !hold->stream)
        ci_hold_begin(hold, stream, slot, op);
    suspend(worker, op, slot);
    ci_park_here(worker, fiber);
    return op->future.result;
}

/* ---- the calls ---- */

#define READ_OP(stream, to, size)                \
    (&(struct ci_op){.fd = (stream)->fd,         \
                     .kind = CI_OP_READ,         \
                     .buf = (to),                \
                     .len = (size),              \
                     .exact = (stream)->is_unix, \
                     .ancillary = (stream)->is_unix})
#define WRITE_OP(stream, from, size) \
    (&(struct ci_op){.fd = (stream)->fd, .kind = CI_OP_WRITE, .data = (from), .len = (size)})
#define READV_OP(stream, vec, n)                 \
    (&(struct ci_op){.fd = (stream)->fd,         \
                     .kind = CI_OP_READV,        \
                     .iov = (vec),               \
                     .count = (n),               \
                     .exact = (stream)->is_unix, \
                     .ancillary = (stream)->is_unix})
#define WRITEV_OP(stream, vec, n) \
    (&(struct ci_op){.fd = (stream)->fd, .kind = CI_OP_WRITEV, .iov = (vec), .count = (n)})
#define POLL_OP(stream, what)                   \
    (&(struct ci_op){.fd = (stream)->fd,        \
                     .kind = CI_OP_POLL,        \
                     .events = (uint8_t)(what), \
                     .exact = (stream)->is_unix})

ssize_t coir_read(coir_stream *stream, void *buf, size_t len)
{
    if (!stream || (!buf && len))
        return CI_MISUSE(-EINVAL, "stream or buf is NULL");
    return run(stream, READ_OP(stream, buf, len), NULL, CI_CALL, CI_PLACE);
}

ssize_t coir_write(coir_stream *stream, const void *buf, size_t len)
{
    if (!stream || (!buf && len))
        return CI_MISUSE(-EINVAL, "stream or buf is NULL");
    struct ci_worker *worker = ci_worker_current;
    ssize_t n = -EAGAIN;
    if (ci_likely(ci_fiber_of_call(worker) != NULL))
        n = ci_stream_write_now(worker, stream, buf, len);
    if (ci_unlikely(n == -EAGAIN))
        return ci_stream_write(stream, buf, len, NULL, CI_CALL, CI_PLACE);
    ci_spend(worker);
    return n;
}

ssize_t coir_readv(coir_stream *stream, const struct iovec *iov, int iov_count)
{
    if (!stream || (!iov && iov_count > 0))
        return CI_MISUSE(-EINVAL, "stream or iov is NULL");
    return run(stream, READV_OP(stream, iov, iov_count), NULL, CI_CALL, CI_PLACE);
}

ssize_t coir_writev(coir_stream *stream, const struct iovec *iov, int iov_count)
{
    if (!stream || (!iov && iov_count > 0))
        return CI_MISUSE(-EINVAL, "stream or iov is NULL");
    return run(stream, WRITEV_OP(stream, iov, iov_count), NULL, CI_CALL, CI_PLACE);
}

ssize_t ci_stream_read(coir_stream *stream, void *buf, size_t len, struct ci_hold *hold,
                       const char *call, const void *place)
{
    return run(stream, READ_OP(stream, buf, len), hold, call, place);
}

ssize_t ci_stream_write(coir_stream *stream, const void *buf, size_t len, struct ci_hold *hold,
                        const char *call, const void *place)
{
    return run(stream, WRITE_OP(stream, buf, len), hold, call, place);
}

ssize_t ci_stream_writev(coir_stream *stream, const struct iovec *iov, int iov_count,
                         struct ci_hold *hold, const char *call, const void *place)
{
    return run(stream, WRITEV_OP(stream, iov, iov_count), hold, call, place);
}

int coir_stream_wait(coir_stream *stream, int events)
{
    if (!stream)
        return CI_MISUSE(-EINVAL, "stream is NULL");
    if (ci_events_unknown(events))
        return CI_MISUSE(-EINVAL, CI_UNKNOWN_EVENTS);
    return (int)run(stream, POLL_OP(stream, events), NULL, CI_CALL, CI_PLACE);
}

static struct ci_io_op *io_op_of(coir_io_op *op)
{
    return (struct ci_io_op *)(void *)op;
}

coir_future *coir_read_op(coir_io_op *op, coir_stream *stream, void *buf, size_t len)
{
    if (!op || !stream || (!buf && len))
        return ci_completed_op(op, CI_MISUSE(-EINVAL, "op, stream or buf is NULL"));
    return ci_io_init(io_op_of(op), stream, READ_OP(stream, buf, len));
}

coir_future *coir_write_op(coir_io_op *op, coir_stream *stream, const void *buf, size_t len)
{
    if (!op || !stream || (!buf && len))
        return ci_completed_op(op, CI_MISUSE(-EINVAL, "op, stream or buf is NULL"));
    return ci_io_init(io_op_of(op), stream, WRITE_OP(stream, buf, len));
}

/* An operation on a stream that a frame awaits: made and polled in one step. */
CI_INLINE coir_future *await_io(struct ci_io_op *op, coir_stream *stream, struct ci_io_op **slot,
                                const struct ci_op *io, coir_future *caller)
{
    op->future = (coir_future){&io_kind.future, caller, 0, 0};
    op->stream = stream;
    put(&op->io, io);
    return poll_in(op, stream, slot);
}

coir_future *ci_stream_await_write(struct ci_io_op *op, coir_stream *stream, const void *data,
                                   size_t len, coir_future *caller)
{
    struct ci_worker *worker = ci_worker_current;
    ssize_t n = -EAGAIN;
    if (ci_likely(!worker->runnable->interrupt))
        n = ci_stream_write_now(worker, stream, data, len);
    if (ci_likely(n != -EAGAIN)) {
        op->future = (coir_future){&io_kind.future, caller, n, 0};
        return ci_leaf_complete(worker, &op->future);
    }
    struct ci_op *io = WRITE_OP(stream, data, len);
    io->lazy = true;
    return await_io(op, stream, &stream->writer, io, caller);
}

coir_future *ci_stream_await_readable(struct ci_io_op *op, coir_stream *stream, coir_future *caller)
{
    return await_io(op, stream, &stream->reader, POLL_OP(stream, COIR_READ), caller);
}

bool ci_io_suspended(const struct ci_io_op *op, const struct ci_runnable *runnable)
{
    return runnable->inner == &op->future;
}

void ci_io_withdraw(struct ci_io_op *op, struct ci_runnable *runnable)
{
    if (ci_io_suspended(op, runnable) && op->future.kind->cancel(&op->future, -ECANCELED))
        ci_wake(ci_worker_current, runnable, &op->future);
}

coir_future *coir_readv_op(coir_io_op *op, coir_stream *stream, const struct iovec *iov,
                           int iov_count)
{
    if (!op || !stream || (!iov && iov_count > 0))
        return ci_completed_op(op, CI_MISUSE(-EINVAL, "op, stream or iov is NULL"));
    return ci_io_init(io_op_of(op), stream, READV_OP(stream, iov, iov_count));
}

coir_future *coir_writev_op(coir_io_op *op, coir_stream *stream, const struct iovec *iov,
                            int iov_count)
{
    if (!op || !stream || (!iov && iov_count > 0))
        return ci_completed_op(op, CI_MISUSE(-EINVAL, "op, stream or iov is NULL"));
    return ci_io_init(io_op_of(op), stream, WRITEV_OP(stream, iov, iov_count));
}

coir_future *coir_stream_wait_op(coir_io_op *op, coir_stream *stream, int events)
{
    if (!op || !stream)
        return ci_completed_op(op, CI_MISUSE(-EINVAL, "op or stream is NULL"));
    if (ci_events_unknown(events))
        return ci_completed_op(op, CI_MISUSE(-EINVAL, CI_UNKNOWN_EVENTS));
    return ci_io_init(io_op_of(op), stream, POLL_OP(stream, events));
}

static coir_future *make_wait(const coir_case *self, void *op)
{
    return coir_stream_wait_op(op, self->object, (int)self->number);
}

coir_case coir_case_stream(coir_stream *stream, int events)
{
    if (!stream)
        return ci_completed_case(CI_MISUSE(-EINVAL, "stream is NULL"));
    if (ci_events_unknown(events))
        return ci_completed_case(CI_MISUSE(-EINVAL, CI_UNKNOWN_EVENTS));
    return (coir_case){.make = make_wait, .object = stream, .number = events};
}

/* ---- without waiting ---- */

CI_INLINE ssize_t try_once(coir_stream *stream, struct ci_op *op, const struct ci_io_op *holder,
                           const char *call, const void *place)
{
    struct ci_worker *worker = ci_worker_current;
    if (!worker)
        return ci_no_worker();
    int rc = may_begin(stream, worker, ci_stream_slot(stream, op), holder, call, place);
    if (rc < 0)
        return rc;
    op->no_wait = true;
    ci_stream_start(stream, worker, op);
    return op->result;
}

static CI_NOINLINE ssize_t try_to_read(coir_stream *stream, void *buf, size_t len, const char *call,
                                       const void *place)
{
    return try_once(stream, READ_OP(stream, buf, len), NULL, call, place);
}

static CI_NOINLINE ssize_t try_to_write(coir_stream *stream, const void *buf, size_t len,
                                        const char *call, const void *place)
{
    return try_once(stream, WRITE_OP(stream, buf, len), NULL, call, place);
}

ssize_t coir_try_read(coir_stream *stream, void *buf, size_t len)
{
    if (!stream || (!buf && len))
        return CI_MISUSE(-EINVAL, "stream or buf is NULL");
    struct ci_worker *worker = ci_worker_current;
    ssize_t n = ci_likely(worker != NULL) ? ci_stream_read_now(worker, stream, buf, len) : -EAGAIN;
    return ci_likely(n != -EAGAIN) ? n : try_to_read(stream, buf, len, CI_CALL, CI_PLACE);
}

ssize_t ci_stream_try_peek(coir_stream *stream, void *buf, size_t len,
                           const struct ci_io_op *holder)
{
    struct ci_op *op = READ_OP(stream, buf, len);
    op->peek = true;
    op->exact = true;
    return stream->kind->transport ? -EOPNOTSUPP : try_once(stream, op, holder, "coir_peek", NULL);
}

ssize_t ci_stream_try_read(coir_stream *stream, void *buf, size_t len, bool exact,
                           const struct ci_io_op *holder)
{
    struct ci_op *op = READ_OP(stream, buf, len);
    op->exact |= exact;
    return try_once(stream, op, holder, __func__, NULL);
}

ssize_t ci_stream_try_write(coir_stream *stream, const void *buf, size_t len,
                            const struct ci_io_op *holder)
{
    return try_once(stream, WRITE_OP(stream, buf, len), holder, __func__, NULL);
}

int ci_stream_wait_blocked(coir_stream *stream, int events)
{
    struct ci_op *op = POLL_OP(stream, events);
    op->exact = true;
    op->once = true;
    return (int)run(stream, op, NULL, __func__, NULL);
}

ssize_t coir_try_write(coir_stream *stream, const void *buf, size_t len)
{
    if (!stream || (!buf && len))
        return CI_MISUSE(-EINVAL, "stream or buf is NULL");
    struct ci_worker *worker = ci_worker_current;
    ssize_t n = ci_likely(worker != NULL) ? ci_stream_write_now(worker, stream, buf, len) : -EAGAIN;
    return ci_likely(n != -EAGAIN) ? n : try_to_write(stream, buf, len, CI_CALL, CI_PLACE);
}

static int address_text(const coir_stream *stream, bool peer, char *text, size_t size,
                        const char *call, const void *place)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!stream || (!text && size))
        return ci_misused(-EINVAL, "stream or text is NULL", call, place);
    struct sockaddr_storage address;
    socklen_t len;
    int rc = ci_stream_elsewhere(stream, call, place);
    if (rc == 0)
        rc = stream->kind->address ? stream->kind->address(stream, peer, &address, &len)
                                   : -EOPNOTSUPP;
    return rc < 0 ? rc : ci_address_format(&address, text, size);
}

int coir_stream_peer(const coir_stream *stream, char *text, size_t size)
{
    return address_text(stream, true, text, size, CI_CALL, CI_PLACE);
}

int coir_stream_local(const coir_stream *stream, char *text, size_t size)
{
    return address_text(stream, false, text, size, CI_CALL, CI_PLACE);
}
