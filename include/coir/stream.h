/* Streams: two directions of bytes. The same calls for TCP and for the in-memory duplex; the
 * argument order is POSIX's.
 *
 * A stream belongs to the worker of its first operation; elsewhere calls return -EXDEV, until it is
 * detached. One reader and one writer at a time: a second gets -EBUSY. A call that asks for nothing
 * (0 bytes, no pieces, or only empty ones) returns 0 at once, whatever the state of the stream. A
 * negative count of pieces, or a piece of more than INT64_MAX bytes, is -EINVAL; there may be any
 * number of pieces, of which a call that may be short takes the first 1,024 that begin with one
 * that is not empty. */
#ifndef COIR_STREAM_H
#define COIR_STREAM_H

#include <coir/select.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coir_stream coir_stream;

/* Reads what is there, at least one byte: the count, or 0 at the end of the stream. `buf` is
 * borrowed until the call returns.
 * Suspends: yes.  Threads: owner.
 * Errors: -ECONNRESET and others of recv(2); -EBUSY; -EXDEV.
 * Cancel safety: an error means that nothing was read: the next read gets the data. */
COIR_SUSPENDS ssize_t coir_read(coir_stream *stream, void *buf, size_t len);
COIR_SUSPENDS ssize_t coir_readv(coir_stream *stream, const struct iovec *iov, int iov_count);

/* Reads exactly `len` bytes and returns `len`. On an error *ret_done, where given, says how many
 * had come.
 * Suspends: yes.  Threads: owner.
 * Errors: those of coir_read; -COIR_EEND the stream ended before.
 * Cancel safety: what had come is in the buffer, and *ret_done says how much. */
COIR_SUSPENDS ssize_t coir_read_full(coir_stream *stream, void *buf, size_t len, size_t *ret_done);

/* Writes at least one byte; may be short.
 * Suspends: yes.  Threads: owner.
 * Errors: -EPIPE, -ECONNRESET and others of send(2); -EBUSY; -EXDEV.
 * Cancel safety: an error means that nothing was written. */
COIR_SUSPENDS ssize_t coir_write(coir_stream *stream, const void *buf, size_t len);
COIR_SUSPENDS ssize_t coir_writev(coir_stream *stream, const struct iovec *iov, int iov_count);

/* Writes everything; 0 when done. After an error an unknown part has been written.
 * Suspends: yes.  Threads: owner.
 * Errors: those of coir_write.
 * Cancel safety: an unknown part has been written: close the stream. */
COIR_SUSPENDS int coir_write_all(coir_stream *stream, const void *buf, size_t len);

/* The same for a vector, which is used as scratch space and changed. */
COIR_SUSPENDS int coir_writev_all(coir_stream *stream, struct iovec *iov, int iov_count);

/* The forms that never suspend: -EAGAIN instead.
 * Suspends: no.  Threads: owner. */
COIR_API ssize_t coir_try_read(coir_stream *stream, void *buf, size_t len);
COIR_API ssize_t coir_try_write(coir_stream *stream, const void *buf, size_t len);

/* Waits until one of `events` (enum coir_events) holds, and returns those that do. Moves no data.
 * Suspends: yes.  Threads: owner.
 * Errors: -EBUSY.
 * Cancel safety: nothing is lost. */
COIR_SUSPENDS int coir_stream_wait(coir_stream *stream, int events);

/* The futures of these calls: the same arguments, errors and ownership. */
typedef struct coir_io_op {
    coir_future future;
    uint64_t opaque[14];
} coir_io_op;
typedef struct coir_io_all_op {
    coir_future future;
    uint64_t opaque[22];
} coir_io_all_op;

/* Suspends: no (they make futures).  Threads: worker. */
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
COIR_API coir_future *coir_write_all_op(coir_io_all_op *op, coir_stream *stream, const void *buf,
                                        size_t len);
COIR_API coir_future *coir_writev_all_op(coir_io_all_op *op, coir_stream *stream, struct iovec *iov,
                                         int iov_count);

/* Events on a stream as a case of coir_select; its result are those that hold. Moves no data.
 * Suspends: no.  Threads: worker. */
COIR_API coir_case coir_case_stream(coir_stream *stream, int events);

/* Ends the writing direction: the peer reads the end of the stream; reading goes on.
 * Suspends: no.  Threads: owner.
 * Errors: -ENOTCONN. */
COIR_API int coir_shutdown_write(coir_stream *stream);

/* Lets another worker of the same runtime have the stream: it belongs to the worker of its next
 * operation. Nothing may wait on it; what was read of it and not asked for yet goes along.
 * Suspends: no.  Threads: owner.
 * Errors: -EBUSY; -EXDEV; -EOPNOTSUPP not a socket; -ENOMEM. */
COIR_API int coir_stream_detach(coir_stream *stream);

/* Closes and frees. Waiting calls return -ECANCELED; the descriptor goes after its last operation.
 * Takes NULL.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_close(coir_stream *stream);

/* Writes the peer's or the local address as text ("127.0.0.1:80", "[::1]:80") with a NUL, cut at
 * `size`; returns its length.
 * Suspends: no.  Threads: owner.
 * Errors: -ENOTCONN; -EOPNOTSUPP for a stream without addresses. */
COIR_API int coir_stream_peer(const coir_stream *stream, char *text, size_t size);
COIR_API int coir_stream_local(const coir_stream *stream, char *text, size_t size);

/* Two ends of an in-memory connection on the calling worker; each direction holds at most
 * `capacity` bytes (0: 64 KiB).
 * Suspends: no.  Threads: worker.  Owns: both are the caller's to close.
 * Errors: -ENOMEM; -ESRCH. */
COIR_API int coir_duplex(size_t capacity, coir_stream **ret_a, coir_stream **ret_b);

#ifdef __cplusplus
}
#endif

#endif
