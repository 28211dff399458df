/* TCP: listeners, connections, and a server in one call.
 *
 * An address is text, in one syntax for listening, connecting and datagrams:
 *
 *   127.0.0.1:80, [::1]:80  a number and a port; with port 0 the system chooses one
 *   [fe80::1%eth0]:80       a number with a zone: an interface, by its name or number
 *   example.org:80          a name and a port
 *   :80, *:80               every interface, IPv6 and IPv4; to connect to: this machine
 *   unix:/path              a Unix socket: a file
 *   unix:@name              a Unix socket in the abstract namespace; "unix:@": the system chooses
 *   fd:3                    an open socket of this process; a call that succeeds takes it over
 *   systemd:NAME            a socket that was passed by socket activation (FileDescriptorName=)
 *
 * The error names the wrong part: -COIR_EHOST, -COIR_EPORT, -COIR_EPATH, -COIR_EPASSED (fd: and
 * systemd:), or -COIR_EADDRESS where the text is empty or its form has no meaning for the call.
 * What only Unix sockets can do is in coir/unix.h. */
#ifndef COIR_TCP_H
#define COIR_TCP_H

#include <coir/socket.h>
#include <coir/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A listener. It is made by coir_tcp_listen. */
typedef struct coir_listener coir_listener;

/* What happens to connections beyond a limit; of a server of HTTP, also to requests. */
enum coir_at_limit {
    COIR_LIMIT_WAITS,  /* they wait until there is room: connections in the backlog */
    COIR_LIMIT_CLOSES, /* they are accepted and closed, which a listener logs once a minute */
    COIR_LIMIT_ANSWERS /* only HTTP: they are answered by 503, with Retry-After, and closed */
};

/* Options of a listener. */
typedef struct coir_listen_options {
    size_t size; /* sizeof(coir_listen_options), set by COIR_LISTEN_OPTIONS */
    /* [4096; COIR_UNLIMITED: as many as the system allows] connections that were not accepted
     * yet */
    size_t backlog;
    /* [false] SO_REUSEPORT: several listeners, of one process or of several, share the port, and
     * the system chooses one of them for each connection. Closing one resets what is in its
     * backlog, if no server drained it: to restart, see coir_listener_share. */
    bool reuse_port;
    bool ipv6_only; /* [false] "[::]:80" and ":80" take IPv6 connections alone, not IPv4 too */
    /* [as the system makes it] mode, user and group, by number, of the file of a Unix socket;
     * -EINVAL where the address makes none. 0 is the default, so root cannot be asked for: the
     * files of its processes are root's anyway. */
    unsigned unix_mode, unix_owner, unix_group;
    /* [COIR_UNLIMITED] connections that were accepted from it, on all workers, and are open:
     * neither closed nor detached */
    size_t connections_max;
    enum coir_at_limit at_limit; /* [COIR_LIMIT_WAITS] what happens to more than that */
    /* [0: off] TCP fast open (RFC 7413): a client's first bytes come with its request to connect,
     * and may come twice. How many connections may be in that state. Linux: net.ipv4.tcp_fastopen
     * must have 2 set, or the client sends the bytes again. -EOPNOTSUPP where there is no such
     * thing. */
    size_t fast_open;
} coir_listen_options;

#define COIR_LISTEN_OPTIONS                                                   \
    {                                                                         \
        sizeof(coir_listen_options), 0, 0, 0, 0, 0, 0, 0, COIR_LIMIT_WAITS, 0 \
    }

/* Starts listening for connections. Any worker of the runtime may accept from it, all at the same
 * time. An address that is in use is tried again for a second: that of a server on io_uring that
 * was killed stays in use for a moment. The file of a Unix socket that has gone is replaced, and
 * removed by coir_listener_close, both under a lock (flock(2)) of its directory. While another
 * program has that lock, no file is replaced or removed; a free path is listened on after a second.
 * Suspends: yes, while a name is looked up, the address is in use, or the directory is locked.
 * Threads: worker.
 * Owns: *ret_listener is the caller's to close.
 * Errors: those of an address and of coir_resolve; -EADDRINUSE and others of bind(2) and
 * listen(2); of a path, -EEXIST something that is no socket is there, and -EAGAIN the file of a
 * socket that has gone is there and the directory is locked; -EINVAL no address, or no
 * ret_listener; -ENOMEM.
 * Cancel safety: nothing listens. */
COIR_SUSPENDS int coir_tcp_listen(const char *address, coir_listener **ret_listener);

/* Starts listening for TCP connections as the options say. As coir_tcp_listen.
 * Errors also: -EINVAL bad options; -EOPNOTSUPP fast open; -COIR_EUNSIZED; -COIR_ENEWER. */
COIR_SUSPENDS int coir_tcp_listen_with(const char *address, const coir_listen_options *options,
                                       coir_listener **ret_listener);

/* Accepts the next connection of a listener, with TCP_NODELAY set. When the process or the system
 * is short of descriptors, buffers or memory, connections stay in the backlog: it tries again every
 * tenth of a second, and a warning says so, once a minute for each listener. It also waits while
 * the listener is paused, or at its limit (COIR_LIMIT_WAITS). Connections that failed before they
 * were accepted are passed over.
 * Suspends: yes.  Threads: worker.  Owns: *ret_stream is the caller's to close.
 * Errors: -EXDEV a listener of another runtime; -EINVAL no listener, or no ret_stream; -ECANCELED
 * also when a worker closes the listener; others of accept(2).
 * Cancel safety: an error means that no connection was taken. */
COIR_SUSPENDS int coir_accept(coir_listener *listener, coir_stream **ret_stream);

/* Storage for the future of an accept or a connect. */
typedef struct coir_open_op {
    coir_future future;
    uint64_t opaque[56];
} coir_open_op;
COIR_API coir_future *coir_accept_op(coir_open_op *op, coir_listener *listener,
                                     coir_stream **ret_stream);

/* A connection of a listener, as a case of coir_select. If another case wins although a connection
 * has come, the next accept takes it. As coir_accept. */
COIR_API coir_case coir_case_accept(coir_listener *listener, coir_stream **ret_stream);

/* Pauses a listener: accepts wait, and new connections wait in the backlog, until it is resumed. A
 * connection that another worker is just accepting may still come.
 * Suspends: no.  Threads: worker.
 * Errors: -EXDEV a listener of another runtime; -EINVAL no listener. */
COIR_API int coir_listener_pause(coir_listener *listener);

/* Resumes a listener that was paused. One that was not stays as it is.
 * Suspends: no.  Threads: worker.
 * Errors: -EXDEV a listener of another runtime; -EINVAL no listener. */
COIR_API int coir_listener_resume(coir_listener *listener);

/* Makes another descriptor of a listener's socket, for a process that is to listen on it, too: its
 * successor in a restart. The descriptor is passed by coir_unix_send_fds, or inherited over exec
 * without its FD_CLOEXEC; the other process makes a listener of it by the address "fd:N". Both
 * accept from one backlog, so that no client is refused while one process starts and the other
 * stops. From then on the end of the listener here is not the end of the socket: a server that
 * stops leaves the backlog to the other process, and refuses no client; the file of a Unix socket
 * stays.
 * Suspends: no.  Threads: worker.  Owns: the descriptor is the caller's to close.
 * Errors: -EMFILE; -EINVAL no listener; -EOPNOTSUPP on the simulator's own driver. */
COIR_API coir_fd coir_listener_share(coir_listener *listener);

/* Writes the address that a listener listens on as text, and returns its whole length. The text
 * ends with a NUL, and is cut to fit `size` bytes.
 * Suspends: no.  Threads: worker.
 * Errors: what getsockname(2) says; -EINVAL no listener or no text. */
COIR_API int coir_listener_local(const coir_listener *listener, char *text, size_t size);

/* Closes a listener and frees it. Accepts that wait on it, on any worker, end with -ECANCELED; no
 * other call may begin on it. Its address is free when the last of them has ended. Takes NULL.
 * Suspends: no.  Threads: worker. */
COIR_API void coir_listener_close(coir_listener *listener);

/* Connects to an address or to a name. Of a name, its IPv6 and IPv4 addresses are asked for at the
 * same time and tried one after the other, the families in turn, each a quarter of a second after
 * the one before, or at once when that has failed; the first connection wins (Happy Eyeballs, RFC
 * 8305). ":80" is this machine, by either family.
 * Suspends: yes.  Threads: worker.  Owns: *ret_stream is the caller's to close.
 * Errors: those of an address; -COIR_ENAME; -COIR_ENAMESERVER; -ECONNREFUSED and others of
 * connect(2): of a name's addresses, of the one that failed last, those aside whose family cannot
 * be reached; -EINVAL no address, or no ret_stream.
 * Cancel safety: every attempt is given up, and its descriptor closed. */
COIR_SUSPENDS int coir_tcp_connect(const char *address, coir_stream **ret_stream);
COIR_API coir_future *coir_tcp_connect_op(coir_open_op *op, const char *address,
                                          coir_stream **ret_stream);

/* Options of a connection. */
typedef struct coir_tcp_connect_options {
    size_t size; /* sizeof(coir_tcp_connect_options), set by COIR_TCP_CONNECT_OPTIONS */
    /* [the system chooses] the address and port to connect from, in numbers: "10.0.0.2:0", where
     * port 0 leaves the port to the system. Of a name, only addresses of its family are tried. */
    const char *local;
    /* [COIR_NEVER: until the system gives up] how long the connection to one address may take; it
     * fails with -ETIMEDOUT then, and of a name the next address is tried. A deadline limits all of
     * it. */
    coir_time attempt_timeout;
    /* [false] TCP fast open (RFC 7413), to a server that this machine was connected to before: the
     * connection is there at once, and asked for by the first write, whose bytes go along. So a
     * peer that does not answer is an error of the first read or write; the first address of a name
     * wins; and the peer may get those bytes twice. Not for a protocol in which the server speaks
     * first. -EOPNOTSUPP where the system has no such thing, or does not allow it (Linux:
     * net.ipv4.tcp_fastopen). */
    bool fast_open;
} coir_tcp_connect_options;

#define COIR_TCP_CONNECT_OPTIONS                  \
    {                                             \
        sizeof(coir_tcp_connect_options), 0, 0, 0 \
    }

/* Connects as the options say. As coir_tcp_connect.
 * Errors also: those of bind(2), as -EADDRNOTAVAIL and -EADDRINUSE; -EAFNOSUPPORT the local address
 * is of another family; -COIR_EADDRESS it is not of numbers, or what to connect to is a socket
 * (fd:, systemd:), with a local address or fast open; -ETIMEDOUT attempt_timeout;
 * -EOPNOTSUPP fast open, and in the simulated world a local address too; -EINVAL a negative
 * timeout; -COIR_EUNSIZED; -COIR_ENEWER. */
COIR_SUSPENDS int coir_tcp_connect_with(const char *address,
                                        const coir_tcp_connect_options *options,
                                        coir_stream **ret_stream);
COIR_API coir_future *coir_tcp_connect_with_op(coir_open_op *op, const char *address,
                                               const coir_tcp_connect_options *options,
                                               coir_stream **ret_stream);

/* Sets an option of a TCP stream, or of the one that a filter or TLS stands on.
 * Suspends: no.  Threads: owner.
 * Errors: -EOPNOTSUPP no socket, or one without that option; -EINVAL no stream, an unknown option,
 * or a negative value; others of setsockopt(2). */
COIR_API int coir_tcp_set_option(coir_stream *stream, enum coir_tcp_option option, int value);

/* The value of an option of a TCP stream, as the system has it: it doubles the sizes of buffers.
 * Suspends: no.  Threads: owner.
 * Errors: -EOPNOTSUPP no socket, one without that option, or the simulated world; -EINVAL no
 * stream, or an unknown option; others of getsockopt(2). */
COIR_API int coir_tcp_get_option(const coir_stream *stream, enum coir_tcp_option option);

/* Tells what the system knows of the connection of a TCP stream.
 * Suspends: no.  Threads: owner.
 * Errors: -EOPNOTSUPP not a TCP stream, or the simulated world; -EINVAL no stream, or no ret_info;
 * -COIR_EUNSIZED; others of getsockopt(2). */
COIR_API int coir_tcp_info_get(const coir_stream *stream, coir_tcp_info *ret_info);

/* What a server calls for each connection, in a fiber of its own. The stream is closed when it
 * returns. */
typedef int coir_connection_fn(coir_stream *connection, void *arg);

/* Puts a layer over an accepted connection before it is served: coir_tls_layer is one. On success
 * `transport` belongs to *ret_stream; on an error coir closes it, and does not serve it.
 * Runs in a fiber of its own and may suspend; it should end within a time of its own. */
typedef int coir_layer_fn(coir_stream *transport, coir_stream **ret_stream, void *arg);

/* Serves TCP connections until cancelled. Every worker accepts, and runs the connections it
 * accepted. Errors of `fn` are counted and logged; they touch no other connection. When it is
 * cancelled, it accepts what is in the backlog (unless the listener is shared), closes the
 * listener's descriptor, and lets the connections go on for a second; then it cancels those that
 * are left, and waits until they have ended. A limit of the listener holds in that time, too:
 * connections of the backlog that get no place are closed.
 * Suspends: yes.  Threads: worker.
 * Errors: those of coir_tcp_listen; -EINVAL no address, or no function; -ECANCELED.
 * Cancel safety: that is how it is stopped. */
COIR_SUSPENDS int coir_serve_tcp(const char *address, coir_connection_fn *fn, void *arg);

/* Options of a TCP server. */
typedef struct coir_serve_tcp_options {
    size_t size;         /* sizeof(coir_serve_tcp_options), set by COIR_SERVE_TCP_OPTIONS */
    const char *address; /* where to listen; or */
    /* what to accept from: it listens no more afterwards, and is the caller's to close */
    coir_listener *listener;
    /* [1 s] for connections in progress when the server is asked to stop; COIR_NEVER: until they
     * end */
    coir_time drain_timeout;
    coir_layer_fn *layer; /* [none] put over each connection, with `layer_arg` */
    void *layer_arg;
} coir_serve_tcp_options;

#define COIR_SERVE_TCP_OPTIONS                        \
    {                                                 \
        sizeof(coir_serve_tcp_options), 0, 0, 0, 0, 0 \
    }

/* Serves TCP connections as the options say, until cancelled. As coir_serve_tcp.
 * Errors also: -EINVAL both of address and listener, or neither; -COIR_EUNSIZED; -COIR_ENEWER. */
COIR_SUSPENDS int coir_serve_tcp_with(const coir_serve_tcp_options *options, coir_connection_fn *fn,
                                      void *arg);

#ifdef __cplusplus
}
#endif

#endif
