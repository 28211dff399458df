/* UDP: datagrams. Addresses are text as in coir/tcp.h, or a coir_address that came with a
 * datagram. The same calls do for datagrams of Unix sockets ("unix:/path", "unix:@name", "unix:@":
 * a name that the system chooses), which are never lost: a send waits while the receiver's queue
 * is full. The simulated world has none of these (-EOPNOTSUPP). */
#ifndef COIR_UDP_H
#define COIR_UDP_H

#include <coir/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A UDP socket. It is made by coir_udp_open. */
typedef struct coir_udp coir_udp;

/* An address in the system's form: a sockaddr_storage. */
typedef struct coir_address {
    uint64_t opaque[20];
} coir_address;

/* Opens a datagram socket. It is bound to `address` ("*:0": any). The file of a Unix socket that no
 * process has open is replaced, as by coir_tcp_listen, and removed by coir_udp_close. With a `peer`
 * (NULL: none) it is connected: a send that names no other address goes to the peer, only the
 * peer's datagrams are received, and if the peer has no socket there, the next call returns
 * -ECONNREFUSED.
 * Suspends: no.  Threads: worker.  Owns: *ret_udp is the caller's to close.
 * Errors: those of an address; -COIR_ENAME a name other than localhost: see coir_resolve;
 * -EADDRINUSE and others of socket(2), bind(2) and connect(2); -ENOMEM; -EINVAL no address, or no
 * ret_udp. */
COIR_API int coir_udp_open(const char *address, const char *peer, coir_udp **ret_udp);

/* Closes a UDP socket and frees it. Calls that wait on it return -ECANCELED. Takes NULL.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_udp_close(coir_udp *udp);

/* Sends one datagram to the peer of a UDP socket, and returns its length.
 * Suspends: yes, while the system's buffer is full.  Threads: owner.
 * Errors: -EDESTADDRREQ there is no peer; -ECONNREFUSED an earlier datagram found no socket at the
 * peer, or no socket has the name; -EMSGSIZE and others of sendmsg(2); -EXDEV; -EINVAL no socket,
 * or no data that has a length.
 * Cancel safety: an error means that it was not sent. */
COIR_SUSPENDS ssize_t coir_udp_send(coir_udp *udp, const void *data, size_t len);

/* Sends one datagram to an address, and returns its length. As coir_udp_send.
 * Suspends: yes, while the system's buffer is full.  Threads: owner.  Owns: *to is borrowed. */
COIR_SUSPENDS ssize_t coir_udp_send_to(coir_udp *udp, const void *data, size_t len,
                                       const coir_address *to);

/* Receives one datagram, cut at `len` bytes, and returns its length. *from, where given, is set to
 * its sender.
 * Suspends: yes.  Threads: owner.
 * Errors: -ECONNREFUSED an earlier datagram found no socket at the peer; others of recvmsg(2);
 * -EXDEV; -EINVAL no socket, or no buffer.
 * Cancel safety: an error means that no datagram was taken. */
COIR_SUSPENDS ssize_t coir_udp_recv(coir_udp *udp, void *buf, size_t len, coir_address *from);

/* Storage for the future of an operation on a UDP socket. */
typedef struct coir_udp_op {
    coir_future future;
    uint64_t opaque[40];
} coir_udp_op;
COIR_API coir_future *coir_udp_send_op(coir_udp_op *op, coir_udp *udp, const void *data,
                                       size_t len);
COIR_API coir_future *coir_udp_send_to_op(coir_udp_op *op, coir_udp *udp, const void *data,
                                          size_t len, const coir_address *to);
COIR_API coir_future *coir_udp_recv_op(coir_udp_op *op, coir_udp *udp, void *buf, size_t len,
                                       coir_address *from);

/* Makes an address of text, as in coir/tcp.h. It may name "localhost", and a simulated host where
 * a task of the simulation asks.
 * Suspends: no.  Threads: any.
 * Errors: those of an address; -COIR_ENAME a name other than localhost; -EINVAL no text, or no
 * ret_address. */
COIR_API int coir_address_parse(const char *text, coir_address *ret_address);

/* Writes an address as text, and returns its whole length. The text ends with a NUL, and is cut to
 * fit `size` bytes.
 * Suspends: no.  Threads: any.
 * Errors: -EOPNOTSUPP it is of no known family; -EINVAL no address or no text. */
COIR_API int coir_address_format(const coir_address *address, char *text, size_t size);

/* Writes the local address of a UDP socket as text, and returns its whole length. The text ends
 * with a NUL, and is cut to fit `size` bytes.
 * Suspends: no.  Threads: owner.
 * Errors: what getsockname(2) says; -EINVAL no socket or no text. */
COIR_API int coir_udp_local(const coir_udp *udp, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
