/* TCP with callbacks, on a loop (coir/loop.h), for programs that want no tasks.
 *
 * A socket and an acceptor belong to the thread of their loop, and keep it running until they are
 * closed. Their functions are called from turns of the loop, never from inside the call that
 * started something; only coir_socket_close tells outcomes itself. Any of them may close its own
 * socket or acceptor, or any other. Freeing the loop closes what is left.
 *
 * Addresses are those of coir/tcp.h, as far as no name server needs to be asked: numbers, and
 * "localhost". */
#ifndef COIR_LOOP_TCP_H
#define COIR_LOOP_TCP_H

#include <coir/loop.h>
#include <coir/socket.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A connection. It is made by coir_socket_connect, or by an acceptor. */
typedef struct coir_socket coir_socket;

/* What accepts connections. It is made by coir_acceptor_open. */
typedef struct coir_acceptor coir_acceptor;

/* What a socket calls when it is connected (0), or when a read has ended: with the count of bytes,
 * 0 at the end; or a negative error. */
typedef void coir_socket_fn(coir_socket *socket, ssize_t result, void *arg);

/* ---- connections ---- */

/* Connects, and calls `fn` with the result. The socket can be used at once: reads and writes wait
 * for the connection, and fail with its error if there is none. It is the caller's in any case.
 * COIR_TCP_NODELAY is set.
 * Suspends: no.  Threads: owner.  Owns: *ret_socket is the caller's, closed by coir_socket_close.
 * Errors: -COIR_EHOST, -COIR_EPORT, -COIR_EADDRESS the address is wrong; -COIR_ENAME it is a name;
 * -EMFILE and others of socket(2); -ENOMEM; -EINVAL. Those of `fn`: of connect(2); -ETIMEDOUT. */
COIR_API int coir_socket_connect(coir_loop *loop, const char *address, coir_socket_fn *fn,
                                 void *arg, coir_socket **ret_socket);

/* Offers a buffer for one read. `fn` is called once, when bytes have come, at the end, or with an
 * error; the buffer is the socket's until then, or until the socket is closed. There is no read
 * without an offer: who is too slow offers later, and the peer is held back.
 * Suspends: no.  Threads: owner.
 * Errors: -EBUSY a read is in progress; -EINVAL, also a `size` of 0; the connect's. Those of `fn`:
 * of read(2); -ETIMEDOUT nothing came in time, and nothing is lost. */
COIR_API int coir_socket_read(coir_socket *socket, void *buffer, size_t size, coir_socket_fn *fn,
                              void *arg);

/* Asks for the end of a read, to have its buffer back: its function is called with -ECANCELED, or
 * with what had come before. Bytes that come later are there for the next read. Does nothing if no
 * read is in progress.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_socket_cancel_read(coir_socket *socket);

/* A write in a socket's queue: coir_socket_write. It needs no initialisation. */
typedef struct coir_queued_write {
    uint64_t opaque[12];
} coir_queued_write;

/* What a socket calls with the outcome of a write: 0, or a negative error. The write and its data
 * are the program's again. */
typedef void coir_queued_write_fn(coir_socket *socket, coir_queued_write *write, int result,
                                  void *arg);

/* Queues a write of `len` bytes, behind those that are queued. If this returns 0, `fn` is called
 * exactly once, in the order of the queue: 0 the system has taken all bytes; -ECANCELED the socket
 * was closed before; the error of the connect, or of the write that failed, with which all later
 * ones fail; -ETIMEDOUT no byte was taken in time. `write` and `data` must stay until then.
 * Suspends: no.  Threads: owner.
 * Errors: -EPIPE after coir_socket_shutdown_write; the error by which writing has ended; -EINVAL.
 */
COIR_API int coir_socket_write(coir_socket *socket, coir_queued_write *write, const void *data,
                               size_t len, coir_queued_write_fn *fn, void *arg);

/* Queues the end of what is sent: when all that is queued has been written, the peer reads the end.
 * Reading goes on. As coir_socket_write, with no data. */
COIR_API int coir_socket_shutdown_write(coir_socket *socket, coir_queued_write *write,
                                        coir_queued_write_fn *fn, void *arg);

/* How many bytes are queued and were not taken by the system yet.
 * Suspends: no.  Threads: owner. */
COIR_API size_t coir_socket_queued(const coir_socket *socket);

/* Limits the time without progress. COIR_READ: how long a read may wait for its first byte.
 * COIR_WRITE: how long connecting may take, and then how long the system may take none of the
 * queue. COIR_NEVER, as it is at first, is no limit. It counts anew for what is in progress.
 * Suspends: no.  Threads: owner.
 * Errors: -EINVAL no socket, other events, or a timeout that is not positive. */
COIR_API int coir_socket_set_timeout(coir_socket *socket, int events, coir_time timeout);

/* Sets an option of a socket. As coir_tcp_set_option.
 * Suspends: no.  Threads: owner.
 * Errors: -EINVAL; others of setsockopt(2). */
COIR_API int coir_socket_set_option(coir_socket *socket, enum coir_tcp_option option, int value);

/* Writes the address of a socket's own end as text, and returns its whole length. The text ends
 * with a NUL, and is cut to fit `size` bytes.
 * Suspends: no.  Threads: owner.
 * Errors: what getsockname(2) says; -EINVAL no socket or no text. */
COIR_API int coir_socket_local(const coir_socket *socket, char *text, size_t size);

/* Writes the address of the peer. As coir_socket_local.
 * Errors also: -ENOTCONN. */
COIR_API int coir_socket_peer(const coir_socket *socket, char *text, size_t size);

/* Closes a socket. Writes in its queue fail with -ECANCELED, before this returns; its other
 * functions are not called any more. It may be called again from inside of these functions, and not
 * used after that. Takes NULL.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_socket_close(coir_socket *socket);

/* ---- listening ---- */

/* What an acceptor calls for each connection, and for errors. With a connection `result` is 0, and
 * the socket the program's to close. With an error there is no socket; the acceptor tries again a
 * tenth of a second later, and connections wait in the backlog meanwhile. */
typedef void coir_acceptor_fn(coir_acceptor *acceptor, coir_socket *socket, int result, void *arg);

/* Listens on an address, and calls `fn` for each connection. Connections that failed before they
 * were accepted are passed over.
 * Suspends: no.  Threads: owner.  Owns: *ret_acceptor is the caller's to close.
 * Errors: those of an address, as coir_socket_connect; -EADDRINUSE and others of bind(2) and
 * listen(2); -ENOMEM; -EINVAL. Those of `fn`: -EMFILE, -ENOMEM and others of accept(2). */
COIR_API int coir_acceptor_open(coir_loop *loop, const char *address, coir_acceptor_fn *fn,
                                void *arg, coir_acceptor **ret_acceptor);

/* Writes the address that an acceptor listens on as text. As coir_socket_local.
 * Errors also: -EINVAL no acceptor or no text. */
COIR_API int coir_acceptor_local(const coir_acceptor *acceptor, char *text, size_t size);

/* Closes an acceptor: its function is not called any more. The sockets it made stay. Takes NULL.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_acceptor_close(coir_acceptor *acceptor);

#ifdef __cplusplus
}
#endif

#endif
