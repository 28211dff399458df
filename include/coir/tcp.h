/* TCP: listeners, connections, and a server in one call.
 *
 * An address is text, in one syntax for listening, connecting and datagrams:
 *
 *   127.0.0.1:80, [::1]:80  a number and a port; with port 0 the system chooses one
 *   [fe80::1%eth0]:80       a number with a zone
 *   example.org:80          a name and a port
 *   :80, *:80               every interface, IPv6 and IPv4
 *   unix:/path              a Unix socket: a file
 *   unix:@name              a Unix socket in the abstract namespace; "unix:@": the system chooses
 *   fd:3                    a socket that is open in this process; the call takes it over
 *   systemd:NAME            a socket that was passed by socket activation (FileDescriptorName=)
 *
 * The error names the wrong part: -COIR_EHOST, -COIR_EPORT, -COIR_EPATH, -COIR_EPASSED (fd: and
 * systemd:), or -COIR_EADDRESS where the text is empty or its form has no meaning for the call.
 * What only Unix sockets can do is in coir/unix.h. */
#ifndef COIR_TCP_H
#define COIR_TCP_H

#include <coir/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coir_listener coir_listener;

typedef struct coir_listen_options {
    size_t size; /* sizeof(coir_listen_options), set by COIR_LISTEN_OPTIONS */
    /* [4096; COIR_UNLIMITED: as many as the system allows] connections that nobody accepted yet */
    size_t backlog;
    bool reuse_port; /* [false] SO_REUSEPORT: several listeners share the port */
    bool ipv6_only;  /* [false] */
    /* [as the system makes it] of the file of a Unix socket: mode, user and group by number */
    unsigned unix_mode, unix_owner, unix_group;
} coir_listen_options;

#define COIR_LISTEN_OPTIONS                           \
    {                                                 \
        sizeof(coir_listen_options), 0, 0, 0, 0, 0, 0 \
    }

/* Starts listening. Any worker of the runtime may accept from it, all at the same time. An address
 * that is in use is tried again for a second: a server on io_uring that was killed keeps its own
 * for a moment. The file of a Unix socket that nobody listens on any more is replaced, under a lock
 * (flock(2)) of its directory, and removed by coir_listener_close.
 * Suspends: yes, while the address is in use.  Threads: worker.  Owns: *ret_listener is the
 * caller's to close.
 * Errors: those of an address and of coir_resolve; -EADDRINUSE and others of bind(2) and
 * listen(2); -ECANCELED; -ETIME.
 * Cancel safety: nothing listens. */
COIR_SUSPENDS int coir_tcp_listen(const char *address, coir_listener **ret_listener);
COIR_SUSPENDS int coir_tcp_listen_with(const char *address, const coir_listen_options *options,
                                       coir_listener **ret_listener);

/* The next connection, with TCP_NODELAY set.
 * Suspends: yes.  Threads: worker.  Owns: *ret_stream is the caller's to close.
 * Errors: -EMFILE, -ENFILE, -ENOBUFS, -ENOMEM, -ENOSPC (fs.epoll.max_user_watches): the
 * connection stays in the backlog, wait before trying again.
 * Cancel safety: an error means that no connection was taken. */
COIR_SUSPENDS int coir_accept(coir_listener *listener, coir_stream **ret_stream);

/* The future of it, and the case of coir_select: a connection that came for a select that was
 * decided otherwise is the listener's next.
 * Suspends: no.  Threads: worker. */
typedef struct coir_open_op {
    coir_future future;
    uint64_t opaque[40];
} coir_open_op;
COIR_API coir_future *coir_accept_op(coir_open_op *op, coir_listener *listener,
                                     coir_stream **ret_stream);
COIR_API coir_case coir_case_accept(coir_listener *listener, coir_stream **ret_stream);

/* The address it listens on, as text: the length. */
COIR_API int coir_listener_local(const coir_listener *listener, char *text, size_t size);

/* Closes and frees. The accepts of other workers must have ended. Takes NULL.
 * Suspends: no.  Threads: worker. */
COIR_API void coir_listener_close(coir_listener *listener);

/* Connects to an address, or to a name: then its IPv6 and IPv4 addresses are asked for at the same
 * time and tried one after the other, the families in turn, each a quarter of a second after the
 * one before, or at once when that has failed; the first connection wins (Happy Eyeballs, RFC
 * 8305). ":80" is this machine, by either family.
 * Suspends: yes.  Threads: worker.  Owns: *ret_stream is the caller's to close.
 * Errors: those of an address; -COIR_ENAME; -COIR_ENAMESERVER; -ECONNREFUSED and others of
 * connect(2): of a name's addresses, of the one that was tried last.
 * Cancel safety: every attempt is given up, and its descriptor closed. */
COIR_SUSPENDS int coir_tcp_connect(const char *address, coir_stream **ret_stream);
COIR_API coir_future *coir_tcp_connect_op(coir_open_op *op, const char *address,
                                          coir_stream **ret_stream);

/* Options of a TCP stream. Connections begin with COIR_TCP_NODELAY set. */
enum coir_tcp_option {
    COIR_TCP_NODELAY = 1, /* 0 or 1: send small pieces at once */
    COIR_TCP_KEEPALIVE,   /* 0, or seconds without traffic after which the peer is probed */
    COIR_TCP_SEND_BUFFER, /* bytes of the kernel's buffer */
    COIR_TCP_RECEIVE_BUFFER,
    COIR_TCP_RESET_ON_CLOSE /* 0 or 1: coir_close resets the connection, and what was not sent yet
                               is lost; the peer's calls fail with -ECONNRESET (SO_LINGER with a
                               time of 0) */
};

/* Suspends: no.  Threads: owner.
 * Errors: -EOPNOTSUPP not a TCP stream; -EINVAL; others of setsockopt(2). */
COIR_API int coir_tcp_set_option(coir_stream *stream, enum coir_tcp_option option, int value);

/* Called for each connection, in a fiber of its own; the stream is closed when it returns. */
typedef int coir_connection_fn(coir_stream *connection, void *arg);

/* Serves until cancelled: every worker accepts, and runs the connections it accepted. Errors of
 * `fn` are counted and logged; they touch no other connection. Out of descriptors it waits and
 * recovers. Cancelled, it takes what the backlog holds and closes the listener's descriptor, lets
 * the connections go on for a second, cancels what is left, and waits for it.
 * Suspends: yes.  Threads: worker.
 * Errors: those of coir_tcp_listen; -EINVAL no address, or no function; -ECANCELED.
 * Cancel safety: that is how it is stopped. */
COIR_SUSPENDS int coir_serve_tcp(const char *address, coir_connection_fn *fn, void *arg);

typedef struct coir_serve_tcp_options {
    size_t size;         /* sizeof(coir_serve_tcp_options), set by COIR_SERVE_TCP_OPTIONS */
    const char *address; /* where to listen; or */
    /* what to accept from: it listens no more afterwards, and is the caller's to close */
    coir_listener *listener;
    /* [1 s] for connections in progress when the server is asked to stop; COIR_NEVER: until they
     * end */
    coir_time drain_timeout;
} coir_serve_tcp_options;

#define COIR_SERVE_TCP_OPTIONS                  \
    {                                           \
        sizeof(coir_serve_tcp_options), 0, 0, 0 \
    }

/* The same with options.
 * Suspends: yes.  Threads: worker.
 * Errors: those of coir_serve_tcp; -EINVAL bad options: both of address and listener, or neither.
 * Cancel safety: that is how it is stopped. */
COIR_SUSPENDS int coir_serve_tcp_with(const coir_serve_tcp_options *options, coir_connection_fn *fn,
                                      void *arg);

#ifdef __cplusplus
}
#endif

#endif
