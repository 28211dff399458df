/* UDP: datagrams. Addresses are text as in coir/tcp.h, or a coir_address that came with a
 * datagram. The same calls do for datagrams of Unix sockets ("unix:/path", "unix:@name", "unix:@":
 * a name that the system chooses), of which the system drops none: a send waits while the
 * receiver's queue is full. The simulated world has no Unix datagrams (-EOPNOTSUPP).
 *
 * coir_udp_send and coir_udp_recv move one datagram. coir_udp_send_many and coir_udp_recv_many move
 * several in one system call, and tell and set what there is beside the bytes: coir_datagram.
 *
 * One socket for each worker: each opens its own on the same address, with reuse_port. */
#ifndef COIR_UDP_H
#define COIR_UDP_H

#include <coir/socket.h>
#include <coir/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A UDP socket. It is made by coir_udp_open. */
typedef struct coir_udp coir_udp;

/* Opens a datagram socket. It is bound to `address` ("*:0": any). The file of a Unix socket that no
 * process has open is replaced, as by coir_tcp_listen, and removed by coir_udp_close. With a `peer`
 * (NULL: none) it is connected: a send that names no other address goes to the peer, only the
 * peer's datagrams are received (and what others have sent to `address` between bind(2) and
 * connect(2)), and if the peer has no socket there, the next call returns -ECONNREFUSED.
 * Suspends: no.  Threads: worker.  Owns: *ret_udp is the caller's to close.
 * Errors: those of an address; -COIR_ENAME a name other than localhost: see coir_resolve;
 * -EADDRINUSE and others of socket(2), bind(2) and connect(2); -ENOMEM; -EINVAL no address, or no
 * ret_udp. */
COIR_API int coir_udp_open(const char *address, const char *peer, coir_udp **ret_udp);

/* Options of a UDP socket. */
typedef struct coir_udp_options {
    size_t size;         /* sizeof(coir_udp_options), set by COIR_UDP_OPTIONS */
    const char *address; /* where it is bound, as coir_udp_open */
    const char *peer;    /* [none] as coir_udp_open */
    /* [false] SO_REUSEPORT: several sockets have the address. The system chooses one of them for
     * each sender, and always the same; multicasts and broadcasts come to all. For port 0 Linux may
     * choose one that another such socket of the user has */
    bool reuse_port;
    bool ipv6_only;  /* [false] "[::]:80" and ":80" take IPv6 alone, not IPv4 too */
    bool broadcast;  /* [false] it may send broadcasts */
    bool tell_local; /* [false] received: coir_datagram.local and interface */
    bool tell_ecn;   /* [false] received: coir_datagram.ecn */
    /* [false] received: datagrams of one sender may come as one, with segment_len; give them room
     */
    bool merge;
    bool no_multicast_loop;          /* [false] multicasts do not come back to this machine */
    unsigned ttl;                    /* [the system's] hops, 1 to 255 */
    unsigned multicast_ttl;          /* [1] hops of multicasts, 1 to 255 */
    const char *multicast_interface; /* [the system chooses] by which multicasts leave */
    size_t send_buffer;              /* [the system's] bytes of the kernel's buffer */
    size_t receive_buffer;           /* [the system's] likewise */
} coir_udp_options;

#define COIR_UDP_OPTIONS                                                   \
    {                                                                      \
        sizeof(coir_udp_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
    }

/* Opens a datagram socket as the options say. As coir_udp_open.
 * Suspends: no.  Threads: worker.  Owns: *ret_udp is the caller's to close.
 * Errors also: -EINVAL bad options, or ipv6_only of a passed socket that takes IPv4; -ENODEV no
 * such interface; -EOPNOTSUPP the system does not have an option: of the simulated world, broadcast
 * and multicast_interface; -COIR_EUNSIZED; -COIR_ENEWER. */
COIR_API int coir_udp_open_with(const coir_udp_options *options, coir_udp **ret_udp);

/* Joins a multicast group: what is sent to it, and to the socket's port, is received. `interface`
 * is the name of the one to join on (NULL: the system chooses).
 * Suspends: no.  Threads: owner.
 * Errors: -ENODEV no such interface; -EADDRINUSE it has joined already; -EINVAL no multicast
 * address, no socket or no group; -EOPNOTSUPP in the simulated world; others of setsockopt(2). */
COIR_API int coir_udp_join(coir_udp *udp, const coir_address *group, const char *interface);

/* Leaves a multicast group that the socket has joined, on the same interface. As coir_udp_join.
 * Suspends: no.  Threads: owner.
 * Errors: -EADDRNOTAVAIL it has not joined; others of coir_udp_join. */
COIR_API int coir_udp_leave(coir_udp *udp, const coir_address *group, const char *interface);

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

/* Sends several datagrams, in order, each to its peer, and returns how many were sent.
 * That is at least one, at most COIR_DATAGRAMS_MAX; the rest is for another call.
 * Suspends: yes, while the system's buffer is full.  Threads: owner.  Owns: *datagrams is borrowed.
 * Errors: of the first datagram, those of coir_udp_send; -EINVAL also no datagrams, an ecn of more
 * than 3, and where the system refuses its local address or its segments (64 at most, on some
 * systems 128); -EOPNOTSUPP for local, segments and ecn on a Unix socket, for local and ecn in a
 * simulated kernel; -COIR_EUNSIZED.
 * Cancel safety: an error means that none was sent. */
COIR_SUSPENDS ssize_t coir_udp_send_many(coir_udp *udp, const coir_datagram *datagrams,
                                         size_t count);

/* Receives the datagrams that are there, at least one, and returns how many.
 * That is at most `count`, and COIR_DATAGRAMS_MAX. Of each, data and room say where to.
 * Suspends: yes.  Threads: owner.  Owns: *datagrams is borrowed.
 * Errors: those of coir_udp_recv; -EINVAL also no datagrams; -COIR_EUNSIZED.
 * Cancel safety: an error means that none was taken. */
COIR_SUSPENDS ssize_t coir_udp_recv_many(coir_udp *udp, coir_datagram *datagrams, size_t count);

/* The readiness of a UDP socket (COIR_READ, COIR_WRITE), as a case of coir_select. Its result is
 * the events that hold, also COIR_EVENT_ERROR. Nothing is received by it: what is there waits for a
 * coir_udp_recv. As coir_udp_recv. */
COIR_API coir_case coir_case_udp(coir_udp *udp, int events);

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

COIR_API coir_future *coir_udp_send_many_op(coir_udp_op *op, coir_udp *udp,
                                            const coir_datagram *datagrams, size_t count);
COIR_API coir_future *coir_udp_recv_many_op(coir_udp_op *op, coir_udp *udp,
                                            coir_datagram *datagrams, size_t count);

/* Makes an address of text, as in coir/tcp.h. It may name "localhost", and a simulated host where
 * a task of the simulation asks.
 * Suspends: no.  Threads: any.
 * Errors: those of an address; -COIR_ENAME a name other than localhost; -EINVAL no text, or no
 * ret_address. */
COIR_API int coir_address_parse(const char *text, coir_address *ret_address);

/* Writes an address as text, and returns its whole length. The text ends with a NUL, and is cut to
 * fit `size` bytes. An IPv4 sender is written as one, whatever family the socket is of; a zone is
 * written as a number.
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
