/* The sockets of the simulated kernel. stream.c has the system calls on streams, network.c the
 * transport between two of them, listener.c listeners and connecting, datagram.c datagrams.
 * Unix sockets: unix_stream.c, unix_datagram.c, unix.c (names), rights.c (descriptors in flight).
 * socket.c has what all have in common.
 *
 * A socket is not freed before the kernel ends: events in flight may point at it.
 */
#ifndef CI_SIM_KERNEL_SOCKET_H
#define CI_SIM_KERNEL_SOCKET_H

#include <netinet/in.h>
#include <sys/un.h>

#include "sim/kernel/kernel.h"

enum { CI_KFOUR = 1, CI_KSIX = 2 }; /* families of addresses: address.c */

enum ci_ksocket_state { CI_KCLOSED, CI_KLISTENING, CI_KCONNECTING, CI_KCONNECTED, CI_KDATAGRAM };

/* Descriptors in flight. */
struct ci_krights {
    struct ci_kfile **files;
    size_t count;
};

/* Bytes in flight, or the end of the stream; or a datagram. */
struct ci_ksegment {
    struct ci_ksegment *next;
    coir_time arrives;
    bool end;
    struct sockaddr_in6 from;  /* of a datagram */
    struct ci_ksocket *sender; /* likewise */
    const struct ci_node *to;  /* likewise */
    in_port_t port;            /* likewise, the destination */
    struct ci_krights rights;  /* of Unix sockets: descriptors in flight with it */
    size_t charge; /* of Unix sockets: what the sender is charged until it has been read */
    size_t start, len;
    char data[];
};

struct ci_kqueue {
    struct ci_ksegment *first, **last;
    size_t bytes, count;
};

struct ci_ksocket {
    struct ci_kfile file;
    struct ci_ksocket *next; /* of all */
    struct ci_node *node;
    enum ci_ksocket_state state;
    bool orphan;                       /* no descriptor is left */
    struct sockaddr_in6 local, remote; /* address.c 1 */
    bool six, six_only;                /* AF_INET6; IPV6_V6ONLY */
    unsigned takes;   /* of a listener or datagram socket: CI_KFOUR, CI_KSIX: address.c 3 */
    bool shares_port; /* likewise: SO_REUSEPORT */

    int error;                /* sk_err: reported once */
    bool in_ended, out_ended; /* RCV_SHUTDOWN, SEND_SHUTDOWN */
    bool done;                /* SOCK_DONE: the peer's end has arrived, as opposed to a reset */
    bool no_space;            /* SOCK_NOSPACE: a writer waits for room */
    bool resets;              /* SO_LINGER of 0 */
    bool end_arrived;         /* our end has reached the peer */
    bool end_is_late;         /* its acknowledgement has not reached us */
    size_t in_most, out_most; /* buffer sizes */

    struct ci_ksocket *peer;
    const struct ci_node *peer_node;
    struct ci_kqueue in, out;
    coir_time last_arrival; /* of the last segment that this end has sent: none overtakes another */
    bool pumps;             /* an event that will move the bytes of `out` is scheduled */
    bool stalled;           /* it waits for room at the peer */
    int retries;

    struct ci_ksocket *listener;               /* of an incoming connection, until it is accepted */
    struct ci_ksocket *backlog, *backlog_next; /* accepted in this order */
    int backlog_len, backlog_most;
    bool refuses;
    bool queued;   /* in a backlog */
    int tries;     /* to reach a listener */
    bool was_told; /* a connect has returned the success */

    /* of Unix sockets */
    struct sockaddr_un name;
    socklen_t name_len; /* 0: it has none */
    bool bound;         /* as opposed to one that has its listener's name */
    int owner_pid;      /* of the process that has made it listen */
    int peer_pid;       /* 0: it has no peer */
};

static inline struct ci_ksocket *ci_ksocket_of(struct ci_kfile *file)
{
    return ci_container_of(file, struct ci_ksocket, file);
}

static inline bool ci_ksocket_is(const struct ci_kfile *file)
{
    return file && file->type->is_socket;
}

/* socket.c. is_free: for a socket that is bound to it. */
struct ci_ksocket *ci_ksocket_new(struct ci_node *node, const struct ci_kfile_type *type);
bool ci_ksocket_port_is_free(const struct ci_ksocket *socket, enum ci_ksocket_state state);
int ci_ksocket_take_error(struct ci_ksocket *socket);
extern const struct ci_kfile_type ci_kstream_type, ci_kdatagram_type;

void ci_kqueue_init(struct ci_kqueue *queue);
void ci_kqueue_push(struct ci_kqueue *queue, struct ci_ksegment *segment);
struct ci_ksegment *ci_kqueue_pop(struct ci_kqueue *queue);
void ci_kqueue_drop(struct ci_kqueue *queue);
struct ci_ksegment *ci_ksegment_new(size_t len);

/* address.c. remote: of a peer, if the socket can reach it: -EINVAL, -EAFNOSUPPORT, -ENETUNREACH.
 * bind: of a socket that has a port already, if the address has none; -EINVAL, -EAFNOSUPPORT,
 * -EADDRNOTAVAIL. show: as the program sees it. node: NULL, none. */
bool ci_kaddress_is_four(const struct sockaddr_in6 *address);
unsigned ci_kaddress_family(const struct sockaddr_in6 *address); /* CI_KFOUR or CI_KSIX */
struct sockaddr_in6 ci_kaddress_of(const struct ci_node *node, unsigned family, in_port_t port);
/* That its packets to `remote` come from: the loopback's is the same for each host. */
struct sockaddr_in6 ci_kaddress_source(const struct ci_node *node,
                                       const struct sockaddr_in6 *remote, in_port_t port);

/* That a socket's packets to `remote` come from: the one that it is bound to, else as above.
 * -EINVAL: one of the loopback's, and to another host. */
int ci_kaddress_from(const struct ci_ksocket *socket, const struct sockaddr_in6 *remote,
                     struct sockaddr_in6 *ret_from);
int ci_kaddress_remote(const struct ci_ksocket *socket, const struct sockaddr *address,
                       socklen_t len, struct sockaddr_in6 *ret_address);
int ci_kaddress_bind(struct ci_ksocket *socket, const struct sockaddr *address, socklen_t len,
                     bool six_only);
void ci_kaddress_show(const struct ci_ksocket *socket, const struct sockaddr_in6 *address,
                      void *ret_address, socklen_t *ret_len);
const struct ci_node *ci_kaddress_node(const struct ci_node *from,
                                       const struct sockaddr_in6 *address);

/* network.c */
const coir_link *ci_knetwork_link(const struct ci_ksocket *socket);
bool ci_knetwork_is_cut(const struct ci_ksocket *socket);
coir_time ci_knetwork_arrival(struct ci_ksocket *socket, size_t len);
/* calls fn(to) after the latency from `socket` */
void ci_knetwork_deliver(struct ci_ksocket *socket, ci_call_fn *fn, struct ci_ksocket *to);
void ci_knetwork_send(struct ci_ksocket *socket, struct ci_ksegment *segment);
ssize_t ci_kstream_peek(struct ci_kfile *file, char *to, size_t len);
void ci_knetwork_room(struct ci_ksocket *socket); /* its reader has taken something */
void ci_knetwork_links_changed(void);
void ci_knetwork_send_reset(struct ci_ksocket *socket);
void ci_knetwork_become_reset(struct ci_ksocket *socket, int error);
bool ci_knetwork_is_writable(const struct ci_ksocket *socket);

/* listener.c */
int ci_klistener_start(struct ci_ksocket *socket, const struct sockaddr *address, socklen_t len,
                       int backlog, bool reuse_port, bool six_only);
int ci_klistener_accept(struct ci_kfile *file, struct ci_kfile **ret_file);
/* -EMFILE, -ENFILE, -ENOBUFS, -ENOMEM or an error of the network if a fault makes accept(2) fail;
 * otherwise 0. */
int ci_klistener_refused(void);
int ci_klistener_connect(struct ci_kfile *file, const struct sockaddr *address, socklen_t len);
void ci_klistener_close(struct ci_ksocket *listener);
/* the socket of a connect in progress is closed */
void ci_klistener_give_up(struct ci_ksocket *socket);

/* datagram.c */
int ci_kdatagram_make(const struct sockaddr *address, socklen_t len, bool reuse_port, bool six_only,
                      struct ci_kfile **ret_file);

/* unix.c. find and at: NULL, with an error. */
extern const struct ci_kfile_type ci_kunix_stream_type, ci_kunix_datagram_type;
bool ci_kunix_is(const struct ci_ksocket *socket);
struct ci_ksocket *ci_kunix_at(coir_fd fd, int *ret_error); /* it counts as a call */
struct ci_ksocket *ci_kunix_find(const struct ci_kfile_type *type, const struct sockaddr *address,
                                 socklen_t len, int *ret_error);
int ci_kunix_name(const struct ci_ksocket *socket, bool peer, struct sockaddr_storage *ret_address,
                  socklen_t *ret_len);
void ci_kunix_copy_name(const struct ci_ksocket *socket, struct msghdr *message);
void ci_kunix_forget_name(const struct ci_ksocket *socket); /* it closes */
void ci_kunix_free_all(void);

/* What both kinds of Unix sockets send. make: takes the descriptors over and charges the sender.
 * end: frees it with its descriptors, and tells the sender of room. */
struct ci_ksegment *ci_kunix_segment_make(struct ci_ksocket *sender, const struct msghdr *message,
                                          size_t from, size_t len, struct ci_krights *rights);
void ci_kunix_segment_end(struct ci_ksegment *segment);
void ci_kunix_drop(struct ci_ksocket *socket); /* what it has not read */
bool ci_kunix_is_writable(const struct ci_ksocket *socket);
/* For ci_kfile_type: a receive, a send without a name or descriptors. */
ssize_t ci_kunix_read(struct ci_kfile *file, const struct iovec *iov, int count);
ssize_t ci_kunix_write(struct ci_kfile *file, const struct iovec *iov, int count);
size_t ci_kunix_length(const struct msghdr *message);        /* in bytes */
void ci_kunix_shut_down(struct ci_ksocket *socket, int how); /* this end alone */

/* rights.c. take: from the descriptors of ci_k.process. put: into them, and into the control data
 * of a message, whose flags say so if there was no room. */
int ci_krights_take(struct ci_krights *rights, const struct msghdr *message);
void ci_krights_put(struct ci_krights *rights, struct msghdr *message);
void ci_krights_drop(struct ci_krights *rights);

#endif
