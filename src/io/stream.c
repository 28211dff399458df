/* The calls that every stream has, and the stream over a socket. */
#include <errno.h>
#include <string.h>

#include "io/io.h"
#include "task/park.h"

/* ---- one operation ---- */

static struct ci_io_op **place_of(coir_stream *stream, const struct ci_op *op)
{
    switch ((enum ci_op_kind)op->kind) {
    case CI_OP_WRITE:
    case CI_OP_WRITEV:
    case CI_OP_SEND: return &stream->writer;
    case CI_OP_POLL:
        return op->events & COIR_READ    ? &stream->reader
               : op->events & COIR_WRITE ? &stream->writer
                                         : NULL;
    default: return &stream->reader;
    }
}

static void leave_place(struct ci_io_op *op)
{
    if (!op->stream)
        return;
    struct ci_io_op **place = place_of(op->stream, &op->io);
    if (place && *place == op)
        *place = NULL;
}

static void on_done(struct ci_op *io)
{
    struct ci_io_op *op = ci_container_of(io, struct ci_io_op, io);
    leave_place(op);
    op->future.result = io->result;
    if (ci_unlikely(io->result == -ECANCELED && op->future.state))
        /* the driver's answer to our cancel: say what it was for */
        op->future.result = (int32_t)op->future.state;
    ci_wake(ci_worker_current, op->runnable, &op->future);
}

static bool start(struct ci_worker *worker, struct ci_io_op *op)
{
    return op->stream ? op->stream->kind->start(op->stream, &op->io)
                      : ci_driver_start(worker->loop.driver, &op->io);
}

static int io_cancel(coir_future *future, int reason)
{
    struct ci_io_op *op = ci_container_of(future, struct ci_io_op, future);
    struct ci_driver *driver = ci_worker_current->loop.driver;
    if (!(op->stream ? op->stream->kind->cancel(op->stream, &op->io)
                     : ci_driver_cancel(driver, &op->io))) {
        future->state = (uint32_t)reason; /* for when it comes */
        return false;
    }
    leave_place(op);
    future->result = reason;
    return true;
}

static CI_COLD int elsewhere(coir_stream *stream, struct ci_worker *worker)
{
    if (stream->worker)
        return -EXDEV;
    int rc = stream->kind->adopt ? stream->kind->adopt(stream, worker) : 0;
    if (rc == 0)
        stream->worker = worker;
    return rc;
}

/* Whether an operation of the worker may begin on the stream: 0, -EXDEV or -EBUSY. */
CI_INLINE int may_begin(coir_stream *stream, struct ci_worker *worker, const struct ci_op *io)
{
    int rc = ci_likely(stream->worker == worker) ? 0 : elsewhere(stream, worker);
    if (rc < 0)
        return rc;
    struct ci_io_op **place = place_of(stream, io);
    return place && *place ? -EBUSY : 0;
}

/* A started operation is pending: its runnable waits for it. */
CI_INLINE void suspend(const struct ci_worker *worker, struct ci_io_op *op)
{
    struct ci_io_op **place = op->stream ? place_of(op->stream, &op->io) : NULL;
    if (place)
        *place = op;
    op->runnable = ci_leaf_suspend(worker, &op->future);
}

static coir_future *io_poll(coir_future *future)
{
    struct ci_io_op *op = ci_container_of(future, struct ci_io_op, future);
    struct ci_worker *worker = ci_worker_current;
    if (ci_leaf_refused(worker, future))
        return future->caller;
    int rc = op->stream ? may_begin(op->stream, worker, &op->io) : 0;
    if (rc < 0 || start(worker, op)) {
        future->result = rc < 0 ? rc : op->io.result;
        return ci_leaf_complete(worker, future);
    }
    suspend(worker, op);
    return NULL;
}

static const coir_future_kind io_kind = COIR_FUTURE_KIND("a descriptor", io_poll, io_cancel);

coir_future *ci_io_init(struct ci_io_op *op, coir_stream *stream, const struct ci_op *io)
{
    op->future = (coir_future){&io_kind, NULL, 0, 0};
    op->stream = stream;
    op->io = *io;
    op->io.done = on_done;
    return &op->future;
}

/* A straight-line call on a stream: the fast path, then the same record waits. */
CI_INLINE ssize_t run(coir_stream *stream, const struct ci_op *io)
{
    int rc = 0;
    struct ci_fiber *fiber = ci_fiber_enter(&rc);
    if (ci_unlikely(!fiber))
        return rc;
    struct ci_worker *worker = ci_worker_current;
    if (ci_unlikely((rc = may_begin(stream, worker, io)) < 0))
        return rc;
    struct ci_io_op *op = CI_FIBER_OP(fiber, struct ci_io_op);
    op->io = *io;
    op->io.done = on_done;
    op->stream = stream;
    if (stream->kind->start(stream, &op->io)) {
        rc = op->io.result;
        ci_spend(worker); /* the operation's place is another's now */
        return rc;
    }
    op->future = (coir_future){&io_kind, &fiber->back, 0, 0};
    suspend(worker, op);
    ci_park_here(worker);
    return op->future.result;
}

/* ---- the calls ---- */

#define READ_OP(stream, to, size)        \
    (&(struct ci_op){.fd = (stream)->fd, \
                     .kind = CI_OP_READ, \
                     .buf = (to),        \
                     .len = (size),      \
                     .exact = (stream)->is_unix})
#define WRITE_OP(stream, from, size) \
    (&(struct ci_op){.fd = (stream)->fd, .kind = CI_OP_WRITE, .data = (from), .len = (size)})
#define READV_OP(stream, vec, n)          \
    (&(struct ci_op){.fd = (stream)->fd,  \
                     .kind = CI_OP_READV, \
                     .iov = (vec),        \
                     .count = (n),        \
                     .exact = (stream)->is_unix})
#define WRITEV_OP(stream, vec, n) \
    (&(struct ci_op){.fd = (stream)->fd, .kind = CI_OP_WRITEV, .iov = (vec), .count = (n)})
#define POLL_OP(stream, what)                   \
    (&(struct ci_op){.fd = (stream)->fd,        \
                     .kind = CI_OP_POLL,        \
                     .events = (uint8_t)(what), \
                     .exact = (stream)->is_unix})

ssize_t coir_read(coir_stream *stream, void *buf, size_t len)
{
    return run(stream, READ_OP(stream, buf, len));
}

ssize_t coir_write(coir_stream *stream, const void *buf, size_t len)
{
    return run(stream, WRITE_OP(stream, buf, len));
}

ssize_t coir_readv(coir_stream *stream, const struct iovec *iov, int iov_count)
{
    return run(stream, READV_OP(stream, iov, iov_count));
}

ssize_t coir_writev(coir_stream *stream, const struct iovec *iov, int iov_count)
{
    return run(stream, WRITEV_OP(stream, iov, iov_count));
}

int coir_stream_wait(coir_stream *stream, int events)
{
    return (int)run(stream, POLL_OP(stream, events));
}

static struct ci_io_op *io_op_of(coir_io_op *op)
{
    return (struct ci_io_op *)(void *)op;
}

coir_future *coir_read_op(coir_io_op *op, coir_stream *stream, void *buf, size_t len)
{
    return ci_io_init(io_op_of(op), stream, READ_OP(stream, buf, len));
}

coir_future *coir_write_op(coir_io_op *op, coir_stream *stream, const void *buf, size_t len)
{
    return ci_io_init(io_op_of(op), stream, WRITE_OP(stream, buf, len));
}

coir_future *ci_write_lazy_op(coir_io_op *opaque, coir_stream *stream, const void *data, size_t len)
{
    struct ci_io_op *op = io_op_of(opaque);
    ci_io_init(op, stream, WRITE_OP(stream, data, len));
    op->io.lazy = true;
    return &op->future;
}

bool ci_io_suspended(const coir_io_op *op, const struct ci_runnable *runnable)
{
    return runnable->inner == &((const struct ci_io_op *)(const void *)op)->future;
}

void ci_io_withdraw(coir_io_op *opaque, struct ci_runnable *runnable)
{
    struct ci_io_op *op = io_op_of(opaque);
    if (ci_io_suspended(opaque, runnable) && op->future.kind->cancel(&op->future, -ECANCELED))
        ci_wake(ci_worker_current, runnable, &op->future);
}

coir_future *coir_readv_op(coir_io_op *op, coir_stream *stream, const struct iovec *iov,
                           int iov_count)
{
    return ci_io_init(io_op_of(op), stream, READV_OP(stream, iov, iov_count));
}

coir_future *coir_writev_op(coir_io_op *op, coir_stream *stream, const struct iovec *iov,
                            int iov_count)
{
    return ci_io_init(io_op_of(op), stream, WRITEV_OP(stream, iov, iov_count));
}

coir_future *coir_stream_wait_op(coir_io_op *op, coir_stream *stream, int events)
{
    return ci_io_init(io_op_of(op), stream, POLL_OP(stream, events));
}

static coir_future *make_wait(const coir_case *self, void *place)
{
    return coir_stream_wait_op(place, self->object, (int)self->number);
}

coir_case coir_case_stream(coir_stream *stream, int events)
{
    return (coir_case){.make = make_wait, .object = stream, .number = events};
}

/* ---- everything: frames around the calls ---- */

struct io_all_op {
    coir_future future;
    struct ci_io_op io;
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

static coir_future *read_full_poll(coir_future *future)
{
    struct io_all_op *self = ci_container_of(future, struct io_all_op, future);
    coir_stream *stream = self->io.stream;
    COIR_BEGIN(future);
    while (self->done < self->len) {
        COIR_AWAIT(future,
                   ci_io_init(&self->io, stream,
                              READ_OP(stream, self->to + self->done, self->len - self->done)));
        if (self->io.future.result <= 0)
            break;
        self->done += (size_t)self->io.future.result;
    }
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
    coir_stream *stream = self->io.stream;
    COIR_BEGIN(future);
    if (self->len == 0)
        COIR_RETURN(future, ci_worker_current->runnable->interrupt);
    while (self->done < self->len) {
        COIR_AWAIT(future,
                   ci_io_init(&self->io, stream,
                              WRITE_OP(stream, self->from + self->done, self->len - self->done)));
        if (self->io.future.result < 0)
            COIR_RETURN(future, self->io.future.result);
        self->done += (size_t)self->io.future.result;
    }
    COIR_END(future);
}

/* Moves a vector on by `n` bytes: how many of its parts are left. */
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
    coir_stream *stream = self->io.stream;
    COIR_BEGIN(future);
    if (self->len == 0)
        COIR_RETURN(future, ci_worker_current->runnable->interrupt);
    if (self->len > INT32_MAX)
        COIR_RETURN(future, -EINVAL); /* it was negative */
    while (self->len > 0) {
        COIR_AWAIT(future,
                   ci_io_init(&self->io, stream, WRITEV_OP(stream, self->iov, (int)self->len)));
        if (self->io.future.result < 0)
            COIR_RETURN(future, self->io.future.result);
        self->len = (size_t)advance(&self->iov, (int)self->len, (size_t)self->io.future.result);
    }
    COIR_END(future);
}

static const coir_future_kind read_full_kind =
    COIR_FUTURE_KIND("a full read", read_full_poll, NULL);
static const coir_future_kind write_all_kind =
    COIR_FUTURE_KIND("a full write", write_all_poll, NULL);
static const coir_future_kind writev_all_kind =
    COIR_FUTURE_KIND("a full write", writev_all_poll, NULL);

static struct io_all_op *init_all(coir_io_all_op *words, const coir_future_kind *kind,
                                  coir_stream *stream, size_t len)
{
    struct io_all_op *op = (struct io_all_op *)(void *)words;
    coir_future_init(&op->future, kind);
    op->io.stream = stream;
    op->len = len;
    op->done = 0;
    return op;
}

coir_future *coir_read_full_op(coir_io_all_op *words, coir_stream *stream, void *buf, size_t len,
                               size_t *ret_done)
{
    struct io_all_op *op = init_all(words, &read_full_kind, stream, len);
    op->to = buf;
    op->ret_done = ret_done;
    return &op->future;
}

coir_future *coir_write_all_op(coir_io_all_op *words, coir_stream *stream, const void *buf,
                               size_t len)
{
    struct io_all_op *op = init_all(words, &write_all_kind, stream, len);
    op->from = buf;
    return &op->future;
}

coir_future *coir_writev_all_op(coir_io_all_op *words, coir_stream *stream, struct iovec *iov,
                                int iov_count)
{
    struct io_all_op *op = init_all(words, &writev_all_kind, stream, (size_t)iov_count);
    op->iov = iov;
    return &op->future;
}

/* What a call for nothing does, which makes no other call: the rules of deadlines and of fork() are
 * its too. */
static CI_COLD int do_nothing(const char *call, const void *place)
{
    int rc = 0;
    ci_fiber_enter_in(&rc, call, place);
    return rc;
}

/* The straight-line forms are loops over the straight-line calls: most are complete after one, on
 * its fast path. */
ssize_t coir_read_full(coir_stream *stream, void *buf, size_t len, size_t *ret_done)
{
    size_t done = 0;
    ssize_t n = len ? 1 : do_nothing(CI_CALL, CI_PLACE);
    while (done < len && (n = coir_read(stream, (char *)buf + done, len - done)) > 0)
        done += (size_t)n;
    if (ret_done)
        *ret_done = done;
    return n > 0 ? (ssize_t)done : n == 0 && len ? -COIR_EEND : n;
}

int coir_write_all(coir_stream *stream, const void *buf, size_t len)
{
    size_t done = 0;
    if (ci_unlikely(len == 0))
        return do_nothing(CI_CALL, CI_PLACE);
    while (done < len) {
        ssize_t n = coir_write(stream, (const char *)buf + done, len - done);
        if (n < 0)
            return (int)n;
        done += (size_t)n;
    }
    return 0;
}

int coir_writev_all(coir_stream *stream, struct iovec *iov, int iov_count)
{
    if (ci_unlikely(iov_count == 0))
        return do_nothing(CI_CALL, CI_PLACE);
    while (iov_count != 0) {
        ssize_t n = coir_writev(stream, iov, iov_count);
        if (n < 0)
            return (int)n;
        iov_count = advance(&iov, iov_count, (size_t)n);
    }
    return 0;
}

/* ---- without waiting ---- */

static ssize_t try_once(coir_stream *stream, struct ci_op *op)
{
    struct ci_worker *worker = ci_worker_current;
    if (!worker)
        return ci_no_worker();
    int rc = may_begin(stream, worker, op);
    if (rc < 0)
        return rc;
    op->no_wait = true;
    stream->kind->start(stream, op);
    return op->result;
}

ssize_t coir_try_read(coir_stream *stream, void *buf, size_t len)
{
    return try_once(stream, READ_OP(stream, buf, len));
}

ssize_t coir_try_write(coir_stream *stream, const void *buf, size_t len)
{
    return try_once(stream, WRITE_OP(stream, buf, len));
}

int coir_shutdown_write(coir_stream *stream)
{
    if (ci_forked())
        return -COIR_EFORKED;
    return stream->kind->shutdown_write(stream);
}

int coir_stream_detach(coir_stream *stream)
{
    if (!ci_worker_current)
        return ci_no_worker();
    if (stream->worker != ci_worker_current)
        return stream->worker ? -EXDEV : 0;
    if (!stream->kind->detach)
        return -EOPNOTSUPP;
    if (stream->reader || stream->writer)
        return -EBUSY;
    int rc = stream->kind->detach(stream);
    if (rc == 0)
        stream->worker = NULL;
    return rc;
}

void coir_close(coir_stream *stream)
{
    if (stream && !ci_forked())
        stream->kind->close(stream);
}

static int address_text(const coir_stream *stream, bool peer, char *text, size_t size)
{
    struct sockaddr_storage address;
    socklen_t len;
    int rc =
        stream->kind->address ? stream->kind->address(stream, peer, &address, &len) : -EOPNOTSUPP;
    return rc < 0 ? rc : ci_address_format(&address, text, size);
}

int coir_stream_peer(const coir_stream *stream, char *text, size_t size)
{
    if (ci_forked())
        return -COIR_EFORKED;
    return address_text(stream, true, text, size);
}

int coir_stream_local(const coir_stream *stream, char *text, size_t size)
{
    if (ci_forked())
        return -COIR_EFORKED;
    return address_text(stream, false, text, size);
}

/* ---- over a socket ---- */

static struct ci_driver *driver_of(const coir_stream *stream)
{
    return (stream->worker ? stream->worker : ci_worker_current)->loop.driver;
}

static bool socket_start(coir_stream *stream, struct ci_op *op)
{
    return ci_driver_start(driver_of(stream), op);
}

static bool socket_cancel(coir_stream *stream, struct ci_op *op)
{
    return ci_driver_cancel(driver_of(stream), op);
}

static int socket_shutdown_write(coir_stream *stream)
{
    return driver_of(stream)->kind->shutdown_write(driver_of(stream), stream->fd);
}

static int socket_address(const coir_stream *stream, bool peer,
                          struct sockaddr_storage *ret_address, socklen_t *ret_len)
{
    return driver_of(stream)->kind->address(driver_of(stream), stream->fd, peer, ret_address,
                                            ret_len);
}

static int socket_detach(coir_stream *stream)
{
    int rc = ci_driver_detach(driver_of(stream), stream->fd, &stream->ahead);
    if (rc == 0)
        ci_seat_leave(stream);
    return rc;
}

static int socket_adopt(coir_stream *stream, struct ci_worker *worker)
{
    int rc = ci_io_of(worker) ? 0 : -ENOMEM;
    if (rc == 0 && stream->ahead)
        rc = worker->loop.driver->kind->adopt(worker->loop.driver, stream->fd, stream->ahead);
    if (rc == 0)
        stream->ahead = NULL;
    return rc;
}

static void close_socket(coir_stream *stream, void (*close)(struct ci_driver *driver, coir_fd fd))
{
    struct ci_worker *worker = stream->worker ? stream->worker : ci_worker_current;
    if (stream->ahead &&
        socket_adopt(stream, worker) < 0) /* the driver tells the peer that it is lost */
        ci_ahead_free(stream->ahead);
    close(worker->loop.driver, stream->fd);
    ci_seat_leave(stream);
    ci_pool_give(&ci_io_of(worker)->streams, stream);
}

static void socket_close(coir_stream *stream)
{
    close_socket(stream, ci_driver_close);
}

static const struct ci_stream_kind socket_kind = {
    "socket",       socket_start,  socket_cancel, socket_shutdown_write,
    socket_address, socket_detach, socket_adopt,  socket_close,
};

void ci_stream_close_soon(coir_stream *stream)
{
    if (stream->kind == &socket_kind)
        close_socket(stream, ci_driver_close_soon);
    else
        stream->kind->close(stream);
}

int ci_socket_stream_new(struct ci_worker *worker, coir_fd fd, bool is_unix,
                         coir_stream **ret_stream)
{
    struct ci_io *io = ci_io_of(worker);
    coir_stream *stream = io ? ci_pool_take(&io->streams) : NULL;
    if (!stream)
        return -ENOMEM;
    *stream = (coir_stream){.kind = &socket_kind, .worker = worker, .fd = fd, .is_unix = is_unix};
    *ret_stream = stream;
    return 0;
}

int coir_tcp_set_option(coir_stream *stream, enum coir_tcp_option option, int value)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (stream->kind != &socket_kind)
        return -EOPNOTSUPP;
    return driver_of(stream)->kind->option(driver_of(stream), stream->fd, option, value);
}

/* ---- the pools ---- */

static const char io_key;

static void free_io(struct ci_worker_extension *extension, const coir_allocator *allocator)
{
    struct ci_io *io = ci_container_of(extension, struct ci_io, extension);
    ci_pool_done(&io->streams);
    ci_free(allocator, io, sizeof *io);
}

static enum ci_trim trim_io(struct ci_worker_extension *extension)
{
    return ci_pool_trim(&ci_container_of(extension, struct ci_io, extension)->streams);
}

static size_t live_io(const struct ci_worker_extension *extension)
{
    return ci_container_of(extension, struct ci_io, extension)->streams.live;
}

struct ci_io *ci_io_of(struct ci_worker *worker)
{
    struct ci_worker_extension *found = ci_worker_find_extension(worker, &io_key);
    if (ci_likely(found != NULL))
        return ci_container_of(found, struct ci_io, extension);
    const coir_allocator *allocator = &worker->runtime->allocator;
    struct ci_io *io = ci_alloc_zero(allocator, sizeof *io);
    if (!io)
        return NULL;
    io->extension.key = &io_key;
    io->extension.free = free_io;
    io->extension.trim = trim_io;
    io->extension.live = live_io;
    io->extension.what = "streams";
    ci_pool_init(&io->streams, allocator, sizeof(coir_stream), 0);
    io->streams.grown = &worker->grown;
    ci_worker_add_extension(worker, &io->extension);
    return io;
}
