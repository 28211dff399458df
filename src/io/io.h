/* What the streams and listeners of this layer share.
 *
 * 1. A stream has at most one reader and one writer in flight: `reader` and `writer`. Whatever ends
 * the wait clears the field: the completion, or the cancel. A write queue is the writer all the
 * time, until it leaves the stream.
 * 2. A call that makes several operations holds its directions of the stream until it ends (struct
 * ci_hold), also while an operation has completed and the call has not run yet. Only the operations
 * of its own record begin there. Closing the stream ends the hold: the call looks at it after each
 * wait, and touches the stream only if it still holds it.
 * 3. A stream is freed after its last operation has completed: closing completes them.
 * 4. Waits for neither direction, for a hang-up, are in the list `waits` of their stream until they
 * end; `io.buf`, which a poll does not need, is the next one.
 *
 * An operation on a stream is a future around a driver operation. The straight-line call keeps it
 * in the record of its fiber.
 */
#ifndef CI_IO_IO_H
#define CI_IO_IO_H

#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "coir/file.h"
#include "coir/semaphore.h"
#include "coir/tcp.h"
#include "task/extension.h"
#include "task/runtime.h"
#include "task/waiter.h"

struct ci_io_op {
    coir_future future;
    struct ci_runnable *runnable;
    coir_stream *stream; /* NULL: a bare descriptor */
    struct ci_op io;
};
CI_FIBER_OP_FITS(struct ci_io_op);
CI_LEAVES_SPARE_WORDS(struct ci_io_op, coir_io_op);

/* In the memory of a call (2). */
struct ci_hold {
    coir_stream *stream; /* NULL: not held yet, or closed */
    struct ci_hold **place;
    const struct ci_io_op *op; /* whose operations may begin */
};

struct coir_stream {
    struct ci_ahead *ahead; /* bytes read ahead, while it is detached; the pool's, once closed */
    const struct ci_stream_kind *kind;
    struct ci_worker *worker; /* NULL: detached; the worker of its next operation adopts it */
    struct ci_io_op *reader, *writer;
    struct ci_hold *reader_hold, *writer_hold;
    struct ci_seat *seat; /* of its listener, that counts it (listener.h 1); or NULL */
    union {
        struct ci_io_op *waits;             /* see 4 */
        const struct ci_stream_kind *under; /* of a broken one (`error`): what it was */
    };
    coir_fd fd;
    bool is_unix;          /* nothing is read ahead of it: descriptors may come with its bytes */
    bool is_socket : 1;    /* of the driver, whatever lies over it */
    bool is_transport : 1; /* a filter stands on it, and closes it */
    int16_t error;         /* of a broken one: what every call on it returns */
};

struct ci_stream_kind {
    const char *name;
    bool (*start)(coir_stream *stream, struct ci_op *op); /* as ci_driver_start */
    bool (*cancel)(coir_stream *stream, struct ci_op *op);
    int (*shutdown_write)(coir_stream *stream);
    int (*address)(const coir_stream *stream, bool peer, struct sockaddr_storage *ret_address,
                   socklen_t *ret_len);
    int (*detach)(coir_stream *stream); /* NULL: it can only be closed */
    int (*adopt)(coir_stream *stream, struct ci_worker *worker);
    void (*close)(coir_stream *stream);
    coir_stream *(*transport)(coir_stream *stream); /* NULL: it stands on no other stream */
    const struct ci_stream_kind *base; /* what stream_timeout.c is laid over; NULL: it is not */
    bool starts_in_driver; /* start does nothing but call ci_driver_start: it may be left out */
};

/* Of a stream that was closed (closed.c). */
extern const struct ci_stream_kind ci_closed_kind;
#define CI_STREAM_CLOSED "the stream was closed before"

/* Starts an operation on a stream of the worker. */
static inline bool ci_stream_start(coir_stream *stream, struct ci_worker *worker, struct ci_op *op)
{
    return ci_likely(stream->kind->starts_in_driver) ? ci_driver_start(worker->loop.driver, op)
                                                     : stream->kind->start(stream, op);
}

/* What the stream would be without timeouts, and unbroken. */
static inline const struct ci_stream_kind *ci_stream_base(const coir_stream *stream)
{
    const struct ci_stream_kind *kind = stream->error ? stream->under : stream->kind;
    return kind->base ? kind->base : kind;
}

/* Whether `events` has bits that enum coir_events has not. Some are the drivers' own. */
static inline bool ci_events_unknown(int events)
{
    return events & ~(COIR_READ | COIR_WRITE | COIR_HANGUP | COIR_EVENT_ERROR);
}
#define CI_UNKNOWN_EVENTS "events has bits that enum coir_events has not"

/* The field of the stream that holds the operation while it is in flight; NULL: of this kind any
 * number may be in flight. */
static inline struct ci_io_op **ci_stream_slot(coir_stream *stream, const struct ci_op *op)
{
    switch ((enum ci_op_kind)op->kind) {
    case CI_OP_WRITE:
    case CI_OP_WRITEV:
    case CI_OP_SEND: return &stream->writer;
    case CI_OP_POLL:
    case CI_OP_FOREIGN: /* a wait for a hang-up of a pipe */
        return op->events & COIR_READ    ? &stream->reader
               : op->events & COIR_WRITE ? &stream->writer
                                         : NULL;
    default: return &stream->reader;
    }
}

/* The hold on the direction of a slot. */
static inline struct ci_hold **ci_stream_hold(coir_stream *stream, struct ci_io_op **slot)
{
    return slot == &stream->reader ? &stream->reader_hold : &stream->writer_hold;
}

/* Whether a task other than that of `op` uses the direction of a slot. */
static inline bool ci_stream_busy(coir_stream *stream, struct ci_io_op **slot,
                                  const struct ci_io_op *op)
{
    const struct ci_hold *hold = *ci_stream_hold(stream, slot);
    return *slot || (hold && hold->op != op);
}

static inline bool ci_stream_used(coir_stream *stream)
{
    return ci_stream_busy(stream, &stream->reader, NULL) ||
           ci_stream_busy(stream, &stream->writer, NULL) || (!stream->error && stream->waits);
}

/* Attempt a read or write without an operation: its result; -EAGAIN: it has to be made as one,
 * which also refuses what must not begin. On a worker. */
CI_INLINE ssize_t ci_stream_read_now(struct ci_worker *worker, coir_stream *stream, void *buf,
                                     size_t len)
{
    if (ci_unlikely(stream->worker != worker || ci_stream_busy(stream, &stream->reader, NULL) ||
                    !stream->kind->starts_in_driver))
        return -EAGAIN;
    return ci_driver_read_now(worker->loop.driver, stream->fd, buf, len, stream->is_unix);
}

CI_INLINE ssize_t ci_stream_write_now(struct ci_worker *worker, coir_stream *stream,
                                      const void *data, size_t len)
{
    if (ci_unlikely(stream->worker != worker || ci_stream_busy(stream, &stream->writer, NULL) ||
                    !stream->kind->starts_in_driver))
        return -EAGAIN;
    return ci_driver_write_now(worker->loop.driver, stream->fd, data, len);
}

/* Holds a direction that is not in use. */
static inline void ci_hold_begin(struct ci_hold *hold, coir_stream *stream, struct ci_io_op **slot,
                                 const struct ci_io_op *op)
{
    *hold = (struct ci_hold){stream, ci_stream_hold(stream, slot), op};
    *hold->place = hold;
}

/* As ci_hold_begin, for the worker that calls: 0, -EXDEV, -EBUSY, or an error of adopting it. */
int ci_hold_take(struct ci_hold *hold, coir_stream *stream, struct ci_io_op **slot,
                 const struct ci_io_op *op);

/* Ends a hold. False: the stream was closed meanwhile, or was never held. */
static inline bool ci_hold_leave(struct ci_hold *hold)
{
    if (!hold->stream)
        return false;
    ci_check(*hold->place == hold, "io/io.h 2");
    *hold->place = NULL;
    hold->stream = NULL;
    return true;
}

/* Ends the holds on a stream that is being closed. */
static inline void ci_stream_end_holds(coir_stream *stream)
{
    if (ci_unlikely(stream->reader_hold != NULL))
        ci_hold_leave(stream->reader_hold);
    if (ci_unlikely(stream->writer_hold != NULL))
        ci_hold_leave(stream->writer_hold);
}

/* Ends the waits for a hang-up with `error`: at once, or when the driver has completed them. */
void ci_stream_end_waits(coir_stream *stream, int error);

/* The pools of this layer on a worker; NULL when memory is out. */
struct ci_io {
    struct ci_worker_extension extension;
    struct ci_pool streams;
    struct ci_list seats;      /* of listeners that the worker has accepted from (listener.h) */
    coir_semaphore file_turns; /* io/file.c 2 */
};
struct ci_io *ci_io_of(struct ci_worker *worker);

/* A stream over a connected socket of the worker's driver. Takes the descriptor over when it
 * succeeds. */
int ci_socket_stream_new(struct ci_worker *worker, coir_fd fd, bool is_unix,
                         coir_stream **ret_stream);

/* Frees the stream, and leaves the descriptor to the caller. */
void ci_socket_stream_free(coir_stream *stream);

/* Makes the stream the worker's, if it is nobody's: 0, -EXDEV, or why the driver refuses it. */
int ci_stream_adopt(coir_stream *stream, struct ci_worker *worker);

/* coir_read and so on, as operations of a call that holds the stream from here on, if it is not
 * complete with this one. */
ssize_t ci_stream_read(coir_stream *stream, void *buf, size_t len, struct ci_hold *hold,
                       const char *call, const void *place);
ssize_t ci_stream_write(coir_stream *stream, const void *buf, size_t len, struct ci_hold *hold,
                        const char *call, const void *place);
ssize_t ci_stream_writev(coir_stream *stream, const struct iovec *iov, int iov_count,
                         struct ci_hold *hold, const char *call, const void *place);

/* coir_try_read and coir_try_write of a call that holds the stream for `op`. `exact`: nothing is
 * read ahead. */
ssize_t ci_stream_try_read(coir_stream *stream, void *buf, size_t len, bool exact,
                           const struct ci_io_op *op);
ssize_t ci_stream_try_write(coir_stream *stream, const void *buf, size_t len,
                            const struct ci_io_op *op);

/* As ci_stream_try_read, but the bytes stay, and nothing is read ahead. */
ssize_t ci_stream_try_peek(coir_stream *stream, void *buf, size_t len, const struct ci_io_op *op);

/* coir_stream_wait after a system call that would have blocked; nothing is read ahead. */
int ci_stream_wait_blocked(coir_stream *stream, int events);

/* The descriptor of a file; of NULL the working directory (AT_FDCWD). */
coir_fd ci_file_fd(const coir_file *file);

/* From now on every operation on the stream ends with `error`, beginning with the read in flight.
 * Closing it resets the connection. */
void ci_stream_break(coir_stream *stream, int error);

/* What coir_stream_set_timeout has set: is removed from a stream that no operation is in flight on;
 * holds for another stream from now on (0 or -ENOMEM); counts bytes that moved through no
 * operation, with `event` for their direction. */
void ci_stream_drop_timeouts(coir_stream *stream);
int ci_stream_move_timeouts(coir_stream *from, coir_stream *to);
void ci_stream_count_moved(coir_stream *stream, int event, size_t bytes);

/* Whether the calling thread may use the stream, which is nobody's while it is detached: 0, or a
 * misuse. */
static inline int ci_stream_elsewhere(const coir_stream *stream, const char *call,
                                      const void *place)
{
    if (ci_likely(stream->worker != NULL))
        return ci_elsewhere(stream->worker, call, place);
    return ci_worker_current ? 0 : ci_misused_elsewhere(NULL, call, place);
}

/* As ci_stream_elsewhere, and -EBADF for a stream that was closed. */
static inline int ci_stream_refused(const coir_stream *stream, const char *call, const void *place)
{
    int rc = ci_stream_elsewhere(stream, call, place);
    return rc == 0 && stream->kind == &ci_closed_kind
               ? ci_misused(-EBADF, CI_STREAM_CLOSED, call, place)
               : rc;
}

/* coir_close for a caller that returns to the worker at once: the driver may close the descriptor
 * in its next wait. */
void ci_stream_close_soon(coir_stream *stream);

/* The future of an operation: on `stream`, or where that is NULL on the descriptor that `io`
 * names. */
coir_future *ci_io_init(struct ci_io_op *op, coir_stream *stream, const struct ci_op *io);

/* Operations that a stackless frame awaits, made and polled in one step: they return what their
 * poll does, `caller` if they are complete at once. A wait until the stream is readable. */
coir_future *ci_stream_await_readable(struct ci_io_op *op, coir_stream *stream,
                                      coir_future *caller);

/* A write, but the completion of one that is carried out in full may be delayed (driver.h 6). For a
 * write whose completion only the next operation on the stream waits for. */
coir_future *ci_stream_await_write(struct ci_io_op *op, coir_stream *stream, const void *data,
                                   size_t len, coir_future *caller);

/* Whether the runnable is suspended in `op` and has not been woken. */
bool ci_io_suspended(const struct ci_io_op *op, const struct ci_runnable *runnable);

/* Ends that wait with -ECANCELED, without cancelling the runnable: at once, or when the driver has
 * completed the operation. Does nothing if the runnable is not suspended in `op`. */
void ci_io_withdraw(struct ci_io_op *op, struct ci_runnable *runnable);

/* Before a task that is suspended in `op` rests (task/rest.h): the driver's operation calls `done`
 * when it completes. */
void ci_io_rest(struct ci_io_op *op, void (*done)(struct ci_op *io));

/* After that task was roused: the driver's operation has its own `done` again, which wakes it;
 * where the other one was called, that calls this one. */
void ci_io_rouse(struct ci_io_op *op, struct ci_runnable *runnable);

/* Has the wait of a task at rest fail with `error`: the driver's operation calls its `done`, at
 * once or when the driver has completed it. */
void ci_io_fail_at_rest(struct ci_io_op *op, int error);

/* Ends the wait of a task at rest, which ends. False: the operation cannot be withdrawn, and its
 * `done` will be called. */
bool ci_io_end_at_rest(struct ci_io_op *op);

/* Ends the count of a stream at its listener's seat: it is closed, or leaves its worker. */
void ci_seat_leave(coir_stream *stream);

/* Has the kernel not wake the calling worker for new connections, until it accepts again. Those of
 * its accepts that are in flight end with -ECANCELED. */
void ci_listener_forget(coir_listener *listener);

/* When no worker accepts any more: takes a connection from the backlog, or one that was accepted
 * for any worker. Never suspends: 0; -EAGAIN there is none; -EBUSY there is one, but the listener
 * is at its limit, or the caller has no room for it; the errors of coir_accept. */
int ci_accept_now(coir_listener *listener, bool has_room, coir_stream **ret_stream);

/* The two steps of the end, when no accept is in flight: the system refuses new clients, while the
 * connections of the backlog can still be accepted; then the descriptor is closed, with those that
 * were accepted for any worker. */
void ci_listener_refuse(coir_listener *listener);
void ci_listener_stop(coir_listener *listener, struct ci_driver *driver);

/* A parsed address. */
enum { CI_HOST_SIZE = 256 };
struct ci_where {
    enum { CI_AT_ADDRESS, CI_AT_HOST, CI_AT_SOCKET } kind;
    /* the wildcard address: every interface, of both families if the system has both */
    bool any;
    uint16_t port; /* a host's, or an address's */
    coir_fd fd;    /* a socket that is open already */
    socklen_t len; /* of the address */
    struct sockaddr_storage address;
    char host[CI_HOST_SIZE];
};

/* 0, or the error that names the part which is wrong: -COIR_EHOST, -COIR_EPORT, -COIR_EPATH,
 * -COIR_EPASSED; -COIR_EADDRESS it is empty. */
int ci_where_parse(const char *text, struct ci_where *ret_where);

/* As ci_where_parse, and resolves a host if that takes no time: localhost, or in a simulated world
 * any. Otherwise -COIR_ENAME. */
int ci_where_find(struct ci_driver *driver, const char *text, struct ci_where *ret_where);

/* Replaces the host by its address, keeping the port. */
void ci_where_set(struct ci_where *where, const union ci_ip *ip);

void ci_address_set_port(struct sockaddr_storage *address, uint16_t port);

/* Makes the wildcard address an IPv4 one; for a system or a peer without IPv6. */
void ci_address_become_ipv4(struct ci_where *any);

/* An address as text: the length. */
int ci_address_format(const struct sockaddr_storage *address, char *text, size_t size);

/* Whether an open socket is a Unix socket. */
bool ci_socket_is_unix(struct ci_driver *driver, coir_fd fd);

/* The error says that the machine lacks memory; ENOSPC of epoll_ctl(2): it is at the limit
 * fs.epoll.max_user_watches. */
static inline bool ci_lacks_memory(ssize_t error)
{
    return error == -ENOMEM || error == -ENOBUFS || error == -ENOSPC;
}

#endif
