/* A simulated socket, for the files that make its kinds: stream.c, listener.c, datagram.c. */
#ifndef CI_SIM_SOCKET_H
#define CI_SIM_SOCKET_H

#include <netinet/in.h>
#include <sys/un.h>

#include "sim/completion.h"
#include "sim/event.h"
#include "sim/node.h"

/* The operations of a kind of socket. */
struct ci_socket_kind {
    const char *name;

    /* Begins a CI_OP_CONNECT before it is tried for the first time: 0 or an error. NULL:
     * -EISCONN. */
    int (*connect)(struct ci_world *world, struct ci_socket *socket, const struct ci_op *op);

    /* Tries an operation other than CI_OP_POLL. True: it is complete. */
    bool (*attempt)(struct ci_world *world, struct ci_socket *socket, struct ci_op *op);

    /* The events that hold now, for a CI_OP_POLL. */
    int (*events)(const struct ci_socket *socket);

    /* Called before the socket is freed. May be NULL. */
    void (*close)(struct ci_world *world, struct ci_socket *socket);
};

enum ci_stream_state {
    CI_STREAM_UNCONNECTED, /* also the state of sockets of other kinds */
    CI_STREAM_CONNECTING,
    CI_STREAM_CONNECTED,
    CI_STREAM_RESET
};

/* Bytes that have arrived or are in flight. */
struct ci_segment {
    struct ci_segment *next;
    uint64_t sender_serial;
    coir_fd sender;  /* of a datagram; -1: the sender gets no refusals, as it is not connected */
    uint64_t number; /* of a stream: how many the sender sent before it */
    size_t start, len;
    struct sockaddr_in from;  /* of a datagram */
    const struct ci_node *to; /* likewise */
    bool six;                 /* likewise: it is of IPv6 */
    uint8_t ecn;              /* likewise */
    char data[];
};

struct ci_socket {
    coir_fd fd;
    uint64_t serial; /* unique, whereas descriptors are reused */
    const struct ci_socket_kind *kind;
    struct ci_node *node;
    int error; /* to be reported once */
    struct sockaddr_in local, remote;
    bool six;         /* its addresses are IPv6 */
    bool any_family;  /* of a listener or datagram socket: it takes both IPv4 and IPv6 */
    bool shares_port; /* likewise: SO_REUSEPORT */
    bool is_unix;
    struct sockaddr_un name, remote_name; /* of a Unix socket: valid on its own host only */
    struct ci_segment *in, **in_tail;

    /* operations that are not complete: socket.c */
    struct ci_pending *pending;
    bool trying, changed; /* see ci_socket_changed */

    /* a stream */
    enum ci_stream_state state;
    bool in_ended, out_ended;
    bool resets;                     /* when it is closed */
    struct ci_socket *peer;          /* NULL: closed */
    const struct ci_node *peer_node; /* remains set when the peer is closed */
    size_t unread_by_peer;
    size_t held_room; /* the news that the peer has read so much waits for another link */
    uint64_t segments_in, segments_out;
    int syn_tries; /* connect.c */

    /* a stream's way to its peer: transport.c */
    coir_time last_arrival; /* of the last segment that this end has sent */
    struct ci_parcel *outbox, **outbox_tail;
    int retries;
    int probes; /* see ci_transport_probe: 1 more than were not answered in a row; 0: it does not */

    /* of a stream: in a listener's backlog, not accepted yet */
    bool queued;
    struct ci_socket *backlog_next;

    /* a listener; `backlog_len` counts a datagram socket's input, too */
    struct ci_socket *backlog, **backlog_tail;
    int backlog_len, backlog_max;
    bool refuses; /* new connections are not answered */

    /* a datagram socket */
    bool has_peer;    /* it is connected to `remote` */
    bool peer_is_six; /* by IPv6 */
    bool tells_local, tells_ecn;
    uint8_t sends_ecn; /* with the datagram that is being sent */
};

/* A new socket at the lowest free descriptor, with a port of its own; NULL: memory is out. */
struct ci_socket *ci_socket_new(struct ci_world *world, struct ci_node *node,
                                const struct ci_socket_kind *kind);

/* The socket with a descriptor; the socket with a descriptor and a serial number. NULL: closed. */
static inline struct ci_socket *ci_socket_of(const struct ci_world *world, coir_fd fd)
{
    return fd >= 0 && (size_t)fd < world->socket_capacity ? world->sockets[fd] : NULL;
}
struct ci_socket *ci_socket_find(const struct ci_world *world, coir_fd fd, uint64_t serial);

/* -EMFILE or -ENFILE if a fault happens here; otherwise 0. */
int ci_socket_no_descriptor(struct ci_world *world, const struct ci_node *node);

/* Schedules an event of a socket. */
void ci_socket_schedule(struct ci_world *world, coir_time when, ci_socket_event_fn *what,
                        const struct ci_socket *socket, size_t amount, void *data);

/* Takes the socket's error, which is reported once; `otherwise` if there is none. */
int ci_socket_take_error(struct ci_socket *socket, int otherwise);

void ci_socket_drop_input(struct ci_socket *socket);

/* Something has happened to the socket: tries its operations again. */
void ci_socket_changed(struct ci_world *world, struct ci_socket *socket);

/* ---- for drivers ---- */

/* Starts an operation. True: it is complete already. */
bool ci_socket_start(struct ci_sim_driver *driver, struct ci_op *op);

/* Requests the cancellation of an operation. True: it is withdrawn. False: it will be reported. */
bool ci_socket_cancel(struct ci_sim_driver *driver, struct ci_op *op);

/* Takes the pending operations of one driver (NULL: of all) off the descriptor; they complete with
 * -ECANCELED. */
void ci_socket_forget(struct ci_world *world, const struct ci_sim_driver *driver, coir_fd fd);
void ci_socket_close(struct ci_world *world, coir_fd fd);

/* The audit: sockets that are still open. */
void ci_socket_audit(struct ci_world *world);

#endif
