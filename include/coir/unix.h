/* What only Unix sockets can do: passing descriptors with bytes, and telling which process is at
 * the other end.
 *
 * They are listened on and connected to by the calls of coir/tcp.h, with "unix:" addresses. */
#ifndef COIR_UNIX_H
#define COIR_UNIX_H

#include <coir/socket.h>
#include <coir/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sends bytes of a Unix stream, at least one, and with the first of them descriptors. The peer
 * gets descriptors of its own for the same open files; these stay the caller's. Returns how many
 * bytes were sent, which may be fewer than `len`: send the rest by coir_write.
 * Suspends: yes.  Threads: owner.
 * Errors: -EOPNOTSUPP not a Unix stream, or descriptors in the simulated world; -EINVAL no stream,
 * no bytes, no descriptors where some are counted, or more than COIR_UNIX_FDS_MAX; -EBADF;
 * -ETOOMANYREFS too many descriptors are in flight; those of coir_write.
 * Cancel safety: an error means that nothing was sent. */
COIR_SUSPENDS ssize_t coir_unix_send_fds(coir_stream *stream, const void *data, size_t len,
                                         const coir_fd *fds, size_t fd_count);

/* Reads what is there of a Unix stream, and the descriptors that came with it. They are
 * close-on-exec. Bytes are read as by coir_read. A read ends behind bytes that came with
 * descriptors. *ret_count is 0 unless some are handed out. Any other call that reads from the
 * stream closes the descriptors that come with the bytes.
 * Suspends: yes.  Threads: owner.  Owns: the descriptors are the caller's to close.
 * Errors: -EOPNOTSUPP not a Unix stream; -EINVAL no stream, no room for bytes, or no ret_fds or
 * ret_count; -EMSGSIZE more than `fds_max` descriptors came; -EMFILE the process had no room for
 * them. After these two all that came have been closed, and the bytes that they came with are lost:
 * close the stream. Those of coir_read.
 * Cancel safety: an error other than these two means that nothing was read. */
COIR_SUSPENDS ssize_t coir_unix_recv_fds(coir_stream *stream, void *buf, size_t len,
                                         coir_fd *ret_fds, size_t fds_max, size_t *ret_count);

/* Storage for the future of a call that moves descriptors. */
typedef struct coir_unix_op {
    coir_future future;
    uint64_t opaque[208];
} coir_unix_op;
COIR_API coir_future *coir_unix_send_fds_op(coir_unix_op *op, coir_stream *stream, const void *data,
                                            size_t len, const coir_fd *fds, size_t fd_count);
COIR_API coir_future *coir_unix_recv_fds_op(coir_unix_op *op, coir_stream *stream, void *buf,
                                            size_t len, coir_fd *ret_fds, size_t fds_max,
                                            size_t *ret_count);

/* Tells which process is at the other end of a Unix stream. That is the process as it was when it
 * called connect(2) or listen(2).
 * Suspends: no.  Threads: owner.
 * Errors: -EINVAL no stream, or no ret_credentials; -EOPNOTSUPP not a Unix stream; -COIR_EUNSIZED;
 * others of getsockopt(2). */
COIR_API int coir_unix_peer(const coir_stream *stream, coir_credentials *ret_credentials);

#ifdef __cplusplus
}
#endif

#endif
