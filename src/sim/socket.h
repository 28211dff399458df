/* What the simulated sockets are, for the files that make them: streams in socket.c, datagrams in
 * datagram.c. */
#ifndef CI_SIM_SOCKET_H
#define CI_SIM_SOCKET_H

#include <netinet/in.h>

#include "sim/world.h"

enum state { UNCONNECTED, LISTENING, CONNECTING, CONNECTED, RESET, DATAGRAM };

struct segment {
    struct segment *next;
    uint64_t sender_serial;
    coir_fd sender;
    size_t start, len;
    struct sockaddr_in from;  /* of a datagram */
    const struct ci_node *to; /* likewise */
    char data[];
};

struct pending {
    struct pending *next;
    struct ci_op *op;
    struct ci_sim_driver *driver;
};

/* Something for the peer that cannot get there. */
struct parcel {
    struct parcel *next;
    ci_event_fn *what;
    size_t amount;
    void *data;
};

struct ci_socket {
    coir_fd fd;
    uint64_t serial;
    struct ci_node *node;
    enum state state;
    int error; /* to be reported once */
    struct sockaddr_in local, remote;
    struct ci_socket *peer; /* NULL: closed */
    struct segment *in, **in_tail;
    bool in_ended, out_ended;
    bool resets;   /* when it is closed */
    bool has_peer; /* a datagram socket that is connected to `remote` */
    size_t unread_by_peer;
    const struct ci_node *peer_node; /* also when the peer is closed */
    coir_time last_arrival;          /* of what this end has sent */
    struct parcel *outbox, **outbox_tail;
    int retries;
    struct pending *pending;
    bool looking, look_more;

    struct ci_socket *backlog, **backlog_tail, *backlog_next;
    int backlog_len, backlog_max;
    bool queued;  /* in a listener's backlog */
    bool refuses; /* a listener: new connections are not answered */
    int syn_tries;
};

/* A new socket at the lowest free descriptor, with a port of its own; NULL: memory is out. */
struct ci_socket *ci_socket_new(struct ci_world *world, struct ci_node *node);

/* The number of the node that an address means, seen from a node; the node, NULL: none. */
int ci_socket_number_of(const struct ci_node *node, const struct sockaddr_in *address);
const struct ci_node *ci_socket_node_at(const struct ci_world *world, const struct ci_node *from,
                                        const struct sockaddr_in *address);

/* The socket in a state that an address leads to, seen from a node; whether one has the port
 * already. */
struct ci_socket *ci_socket_at(const struct ci_world *world, enum state state,
                               const struct ci_node *from, const struct sockaddr_in *to);
bool ci_socket_port_is_taken(const struct ci_world *world, enum state state,
                             const struct ci_node *node, in_port_t port);

/* -EMFILE or -ENFILE, where a fault wants it so; else 0. */
int ci_socket_no_descriptor(struct ci_world *world, const struct ci_node *node);

void ci_socket_schedule(struct ci_world *world, coir_time when, ci_event_fn *what,
                        const struct ci_socket *socket, size_t amount, void *data);

/* The error that is to be reported once. */
int ci_socket_take_error(struct ci_socket *socket);

/* Tries its operations again. */
void ci_socket_look_again(struct ci_world *world, struct ci_socket *socket);

/* True: complete, *ret is the result. */
bool ci_datagram_receive(struct ci_socket *socket, struct msghdr *message, int *ret);
bool ci_datagram_send(struct ci_world *world, struct ci_socket *socket,
                      const struct msghdr *message, int *ret);

#endif
