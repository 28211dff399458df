/* Streams: two directions of bytes. The same calls serve TCP (coir/tcp.h), Unix sockets
 * (coir/unix.h), TLS (coir/tls.h), the pipes of a process (coir/process.h), terminals
 * (coir/terminal.h), filters (coir/filter.h) and coir_duplex. The order of arguments is that of
 * POSIX.
 *
 * A stream belongs to the worker that made it; on other workers calls return -EXDEV, until it is
 * detached. One task may read and one may write at a time: a second gets -EBUSY. A call that asks
 * for nothing (0 bytes, no pieces, or only empty ones) returns 0 without waiting, also at the end
 * of the stream. There may be any number of pieces; a call that may be short takes at most 1,024,
 * from the first that is not empty. A stream that is NULL, or a buffer that is NULL and has a
 * length, is -EINVAL.
 *
 * There are calls in place of the flags of recv(2) and send(2): coir_peek (MSG_PEEK),
 * coir_read_full (MSG_WAITALL), coir_try_read and coir_try_write (MSG_DONTWAIT), coir_writev and
 * write queues (MSG_MORE). A write never raises SIGPIPE. There is no urgent data. */
#ifndef COIR_STREAM_H
#define COIR_STREAM_H

#include <coir/select.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A stream. It is closed by coir_close. */
typedef struct coir_stream coir_stream;

/* Reads what is there, at least one byte, and returns the count; 0 is the end of the stream.
 * Suspends: yes.  Threads: owner.
 * Errors: -ECONNRESET and others of recv(2); -EBUSY; -EXDEV.
 * Cancel safety: an error means that nothing was read: the next read gets the data. */
COIR_SUSPENDS ssize_t coir_read(coir_stream *stream, void *buf, size_t len);

/* Reads what is there into several pieces, in their order, and returns the count. As coir_read.
 * Errors also: -EINVAL a negative count of pieces, or a piece longer than INT64_MAX bytes. */
COIR_SUSPENDS ssize_t coir_readv(coir_stream *stream, const struct iovec *iov, int iov_count);

/* Reads exactly `len` bytes and returns `len`. *ret_done, where given, is how many had come, also
 * on an error.
 * Suspends: yes.  Threads: owner.
 * Errors: those of coir_read; -COIR_EEND the stream ended before.
 * Cancel safety: what had come is in the buffer, and *ret_done says how much. */
COIR_SUSPENDS ssize_t coir_read_full(coir_stream *stream, void *buf, size_t len, size_t *ret_done);

/* Writes at least one byte, and returns the count, which may be short.
 * Suspends: yes.  Threads: owner.
 * Errors: -EPIPE, -ECONNRESET and others of send(2); -EBUSY; -EXDEV.
 * Cancel safety: an error means that nothing was written. */
COIR_SUSPENDS ssize_t coir_write(coir_stream *stream, const void *buf, size_t len);

/* Writes several pieces, in their order, and returns the count, which may be short. As coir_write.
 * Errors also: -EINVAL a negative count of pieces, or a piece longer than INT64_MAX bytes. */
COIR_SUSPENDS ssize_t coir_writev(coir_stream *stream, const struct iovec *iov, int iov_count);

/* Writes all of `len` bytes, and returns 0.
 * Suspends: yes.  Threads: owner.
 * Errors: those of coir_write. After any error an unknown part has been written: close the stream.
 * Cancel safety: as after any other error. */
COIR_SUSPENDS int coir_write_all(coir_stream *stream, const void *buf, size_t len);

/* Writes all of several pieces, and returns 0. The call changes the array. As coir_write_all.
 * Errors also: -EINVAL a negative count of pieces, or a piece longer than INT64_MAX bytes. */
COIR_SUSPENDS int coir_writev_all(coir_stream *stream, struct iovec *iov, int iov_count);

/* Reads what is there, and never waits. As coir_read.
 * Suspends: no.  Threads: owner.
 * Errors also: -EAGAIN it would have to wait. */
COIR_API ssize_t coir_try_read(coir_stream *stream, void *buf, size_t len);

/* Peeks: reads what is there, at least one byte, and leaves it for the next read. Returns the
 * count; 0 is the end of the stream. It does not wait until `len` bytes have come.
 * Suspends: yes.  Threads: owner.
 * Errors: those of coir_read; -EOPNOTSUPP a stream over another one, as of TLS, a pipe, or a
 * terminal.
 * Cancel safety: nothing is lost. */
COIR_SUSPENDS ssize_t coir_peek(coir_stream *stream, void *buf, size_t len);

/* Writes what there is room for, and never waits. As coir_write.
 * Suspends: no.  Threads: owner.
 * Errors also: -EAGAIN it would have to wait. */
COIR_API ssize_t coir_try_write(coir_stream *stream, const void *buf, size_t len);

/* Waits until one of `events` holds on a stream, and returns those that do. Moves no data. The
 * bits are those of enum coir_events. COIR_HANGUP and COIR_EVENT_ERROR may be returned unasked:
 * with 0 it waits until the connection is gone. To wait for COIR_READ counts as reading, to wait
 * for COIR_WRITE alone as writing; of a pipe or a terminal, to wait for both counts as both.
 * Suspends: yes.  Threads: owner.
 * Errors: those of coir_read; -EINVAL other bits.
 * Cancel safety: nothing is lost. */
COIR_SUSPENDS int coir_stream_wait(coir_stream *stream, int events);

/* Storage for the future of any other operation on a stream or descriptor. A future is awaited as
 * coir/future.h says. */
typedef struct coir_io_op {
    coir_future future;
    uint64_t opaque[14];
} coir_io_op;

/* Storage for the future of a call that may make several operations: coir_read_full, coir_peek,
 * coir_write_all or coir_writev_all. */
typedef struct coir_io_all_op {
    coir_future future;
    uint64_t opaque[26];
} coir_io_all_op;

COIR_API coir_future *coir_read_op(coir_io_op *op, coir_stream *stream, void *buf, size_t len);
COIR_API coir_future *coir_readv_op(coir_io_op *op, coir_stream *stream, const struct iovec *iov,
                                    int iov_count);
COIR_API coir_future *coir_write_op(coir_io_op *op, coir_stream *stream, const void *buf,
                                    size_t len);
COIR_API coir_future *coir_writev_op(coir_io_op *op, coir_stream *stream, const struct iovec *iov,
                                     int iov_count);
COIR_API coir_future *coir_stream_wait_op(coir_io_op *op, coir_stream *stream, int events);
COIR_API coir_future *coir_read_full_op(coir_io_all_op *op, coir_stream *stream, void *buf,
                                        size_t len, size_t *ret_done);
COIR_API coir_future *coir_peek_op(coir_io_all_op *op, coir_stream *stream, void *buf, size_t len);
COIR_API coir_future *coir_write_all_op(coir_io_all_op *op, coir_stream *stream, const void *buf,
                                        size_t len);
COIR_API coir_future *coir_writev_all_op(coir_io_all_op *op, coir_stream *stream, struct iovec *iov,
                                         int iov_count);

/* Copies what comes from a stream to another one. It ends when `len` bytes are copied or the end
 * has come (COIR_UNLIMITED: only then), and returns how many. *ret_done, where given, is the same,
 * also on an error. Between sockets the bytes stay in the kernel (splice(2)); otherwise they pass
 * through a buffer of 64 KiB. Both directions of a proxy are two calls in two tasks. The end is not
 * passed on: see coir_shutdown_write.
 * Suspends: yes.  Threads: owner of both.
 * Errors: those of coir_read and coir_write; -ENOMEM; -EINVAL no stream.
 * Cancel safety: what was read and not written yet is lost: close both. */
COIR_SUSPENDS ssize_t coir_stream_copy(coir_stream *to, coir_stream *from, size_t len,
                                       size_t *ret_done);

/* Storage for the future of a copy between streams. */
typedef struct coir_copy_op {
    coir_future future;
    uint64_t opaque[34];
} coir_copy_op;
COIR_API coir_future *coir_stream_copy_op(coir_copy_op *op, coir_stream *to, coir_stream *from,
                                          size_t len, size_t *ret_done);

/* Events on a stream, as a case of coir_select; moves no data. As coir_stream_wait. */
COIR_API coir_case coir_case_stream(coir_stream *stream, int events);

/* Ends the writing direction of a stream. The peer reads the end of the stream; reading goes on.
 * Suspends: no.  Threads: owner.
 * Errors: -ENOTCONN; -EOPNOTSUPP a pipe that is read from; -EINVAL no stream; of a filter
 * (coir/filter.h): what it returns. */
COIR_API int coir_shutdown_write(coir_stream *stream);

/* Limits how long the peer may keep a stream waiting. `events` names the directions that are
 * limited: COIR_READ, COIR_WRITE, or both, each of which has an account of its own. The time in
 * which calls wait for the peer adds to the account; each byte that the peer sends or takes
 * subtracts its time at `rate_min` bytes a second (at most 2^30; 0: any byte clears the account);
 * it never drops below 0, so that a fast start earns no credit. When the account reaches `timeout`,
 * the call that waits returns -ETIMEDOUT, and so does each later one that has to wait, until bytes
 * have moved. With 10 s and 1,000 bytes a second, a peer may pause for 10 s, and be slow only for
 * as long as it is not 10 s behind.
 *
 * This holds for every call that waits on the stream, from its next wait on, also in coir_select;
 * and for its write queue, at once, which ends with -ETIMEDOUT. Time between calls does not count:
 * a COIR_DEADLINE limits all of it. The account begins anew with each coir_stream_set_timeout;
 * COIR_NEVER removes the limit. coir_filter_new moves the limits from the transport to the stream
 * over it.
 * Suspends: no.  Threads: owner.
 * Errors: -EINVAL no stream, other events, a timeout that is not positive, or a higher rate;
 * -EXDEV; -ENOMEM. */
COIR_API int coir_stream_set_timeout(coir_stream *stream, int events, coir_time timeout,
                                     size_t rate_min);

/* Lets another worker of the same runtime have a stream. It belongs to the worker of its next
 * operation. Bytes that coir has read ahead go along.
 * Suspends: no.  Threads: owner.
 * Errors: -EBUSY a task waits on it, or it has a write queue; -EXDEV; -EOPNOTSUPP not a socket;
 * -ENOMEM; -EINVAL no stream. */
COIR_API int coir_stream_detach(coir_stream *stream);

/* Makes a stream of a connected stream socket that the program has opened. It becomes non-blocking
 * and close-on-exec. As the address "fd:N" of coir_tcp_connect.
 * Suspends: no.  Threads: worker.  Owns: if it succeeds the descriptor is the stream's;
 * *ret_stream is the caller's to close.
 * Errors: -COIR_EPASSED not open, or no connected stream socket; -ECONNRESET and others that have
 * ended the connection; -ENOMEM; -ESRCH; -EINVAL ret_stream is NULL. */
COIR_API int coir_stream_adopt(coir_fd fd, coir_stream **ret_stream);

/* Releases the descriptor of a stream, and frees the stream: coir has nothing to do with it any
 * more. Bytes that coir had read ahead of its readers are put into `buf`, and counted in *ret_len:
 * io_uring reads ahead, at most 4 MiB, the buffers of a worker; other drivers do not. After
 * an error the stream is as it was, or belongs to no worker until its next operation, as after
 * coir_stream_detach; with -EMSGSIZE, *ret_len is the size that is needed.
 * Suspends: no.  Threads: owner.  Owns: *ret_fd is the caller's to close.
 * Errors: -EBUSY a task waits on it, or it has a write queue; -EXDEV; -EMSGSIZE `size` is too small
 * for what was read ahead; -EOPNOTSUPP not a socket; -ENOMEM; the error that the next read would
 * return; -EINVAL no stream, no buffer that has a size, no ret_len or no ret_fd. */
COIR_API int coir_stream_release(coir_stream *stream, void *buf, size_t size, size_t *ret_len,
                                 coir_fd *ret_fd);

/* Closes a stream and frees it. Calls that wait on it return -ECANCELED; the descriptor is closed
 * when its last operation has completed. Takes NULL.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_close(coir_stream *stream);

/* Writes the address of a stream's peer as text, "127.0.0.1:80" or "[::1]:80", and returns its
 * whole length. The text ends with a NUL, and is cut to fit `size` bytes. An IPv4 peer is written
 * as one, whatever family the listener is of.
 * Suspends: no.  Threads: owner.
 * Errors: -ENOTCONN; -EOPNOTSUPP a stream without addresses; -EINVAL no stream or no text. */
COIR_API int coir_stream_peer(const coir_stream *stream, char *text, size_t size);

/* Writes the local address of a stream as text. As coir_stream_peer. */
COIR_API int coir_stream_local(const coir_stream *stream, char *text, size_t size);

/* Makes two streams that are the ends of a connection in memory, on the calling worker. Each
 * direction holds at most `capacity` bytes (0: 64 KiB).
 * Suspends: no.  Threads: worker.  Owns: both are the caller's to close.
 * Errors: -ENOMEM; -ESRCH; -EINVAL ret_a or ret_b is NULL. */
COIR_API int coir_duplex(size_t capacity, coir_stream **ret_a, coir_stream **ret_b);

#ifdef __cplusplus
}
#endif

#endif
