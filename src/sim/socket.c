/* Simulated stream sockets: what TCP promises, at its worst.
 *
 * 1. A direction's bytes arrive in order; each segment suffers the link's delays on its own, but
 * never overtakes.
 * 2. What is sent and not yet read by the peer is bounded: a writer waits for the peer to read.
 * 3. Closing with unread data or before a connect is answered, and data that reaches a closed end,
 * reset the connection, as Linux does.
 * 4. Datagrams are lost, delayed each by itself, and so reordered, and dropped where too many wait.
 * 5. Over a link that is cut nothing arrives. What a stream sent waits in its outbox and is sent
 * again later and later; when that has been in vain for long enough, the stream ends with
 * -ETIMEDOUT, and its peer knows nothing. Closing gives up what is in the outbox.
 * 6. A socket's operations are tried again after everything that happens to it. What completes is
 * reported by the driver later, so the program sees completions that race with its own cancels. A
 * cancelled operation is withdrawn or completes later, as the seed says.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/socket.h"

enum { WINDOW = 64 * 1024, SYN_TRIES = 3 };
enum { RETRIES = 8 };
static const coir_time retransmission = 200 * COIR_MS, retransmission_most = 10 * COIR_S,
                       syn_retry = 1 * COIR_S;

static struct ci_socket *socket_of(const struct ci_world *world, coir_fd fd)
{
    return fd >= 0 && (size_t)fd < world->socket_capacity ? world->sockets[fd] : NULL;
}

struct ci_socket *ci_socket_find(const struct ci_world *world, coir_fd fd, uint64_t serial)
{
    struct ci_socket *socket = socket_of(world, fd);
    return socket && socket->serial == serial ? socket : NULL;
}

void ci_socket_schedule(struct ci_world *world, coir_time when, ci_event_fn *what,
                        const struct ci_socket *socket, size_t amount, void *data)
{
    ci_world_schedule(world, &(struct ci_event){
                                 .when = when,
                                 .what = what,
                                 .fd = socket->fd,
                                 .serial = socket->serial,
                                 .amount = amount,
                                 .data = data,
                             });
}

/* ---- what is where ---- */

/* The lowest free descriptor, as POSIX has it: numbers are reused at once. */
struct ci_socket *ci_socket_new(struct ci_world *world, struct ci_node *node)
{
    size_t fd = 0;
    while (fd < world->socket_capacity && world->sockets[fd])
        fd++;
    if (ci_grow(&ci_system_allocator, (void **)&world->sockets, &world->socket_capacity,
                sizeof *world->sockets, fd + 1) < 0)
        return NULL;
    struct ci_socket *socket = calloc(1, sizeof *socket);
    if (!socket)
        return NULL;
    socket->fd = (coir_fd)fd;
    socket->serial = ++world->event_serial;
    socket->node = node;
    socket->in_tail = &socket->in;
    socket->outbox_tail = &socket->outbox;
    socket->peer_node = node;
    socket->backlog_tail = &socket->backlog;
    socket->local = (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_port = htons(world->next_port),
        .sin_addr.s_addr = htonl(10u << 24 | (unsigned)node->number),
    };
    world->next_port = world->next_port < 65000 ? (uint16_t)(world->next_port + 1) : 40000;
    world->sockets[fd] = socket;
    return socket;
}

int ci_socket_no_descriptor(struct ci_world *world, const struct ci_node *node)
{
    if (!ci_world_fault(world, node, node->faults.no_descriptor, "no descriptor"))
        return 0;
    return ci_random_next(&world->random) & 1 ? -EMFILE : -ENFILE;
}

int ci_socket_open(struct ci_world *world, struct ci_node *node)
{
    int rc = ci_socket_no_descriptor(world, node);
    if (rc < 0)
        return rc;
    struct ci_socket *socket = ci_socket_new(world, node);
    return socket ? socket->fd : -ENOMEM;
}

int ci_socket_number_of(const struct ci_node *node, const struct sockaddr_in *address)
{
    uint32_t host = ntohl(address->sin_addr.s_addr);
    return host >> 24 == 127 ? node->number : (int)(host & 0xffffff);
}

const struct ci_node *ci_socket_node_at(const struct ci_world *world, const struct ci_node *from,
                                        const struct sockaddr_in *address)
{
    const struct ci_node *node = world->nodes;
    while (node && node->number != ci_socket_number_of(from, address))
        node = node->next;
    return node;
}

/* The socket in a state that an address leads to, seen from a node. */
struct ci_socket *ci_socket_at(const struct ci_world *world, enum state state,
                               const struct ci_node *from, const struct sockaddr_in *to)
{
    uint32_t host = ntohl(to->sin_addr.s_addr);
    bool loopback = host >> 24 == 127;
    struct ci_socket *found = NULL;
    for (size_t fd = 0; fd < world->socket_capacity; fd++) {
        struct ci_socket *socket = world->sockets[fd];
        if (!socket || socket->state != state || socket->local.sin_port != to->sin_port ||
            !socket->node->number)
            continue;
        if (!loopback && (uint32_t)socket->node->number != (host & 0xffffff))
            continue;
        if (!found || socket->node == from)
            found = socket;
    }
    return found;
}

static struct ci_socket *find_listener(const struct ci_world *world, const struct ci_node *from,
                                       const struct sockaddr_in *to)
{
    return ci_socket_at(world, LISTENING, from, to);
}

bool ci_socket_port_is_taken(const struct ci_world *world, enum state state,
                             const struct ci_node *node, in_port_t port)
{
    for (size_t fd = 0; fd < world->socket_capacity; fd++) {
        const struct ci_socket *other = world->sockets[fd];
        if (port && other && other->state == state && other->node == node &&
            other->local.sin_port == port)
            return true;
    }
    return false;
}

int ci_socket_listen(struct ci_world *world, struct ci_node *node, const struct ci_listen *listen)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    if (listen->address->sa_family == AF_INET)
        memcpy(&address, listen->address, sizeof address);
    else
        address.sin_port = ((const struct sockaddr_in6 *)(const void *)listen->address)->sin6_port;
    if (ci_socket_port_is_taken(world, LISTENING, node, address.sin_port))
        return -EADDRINUSE;
    struct ci_socket *socket = ci_socket_new(world, node);
    if (!socket)
        return -ENOMEM;
    if (!address.sin_port)
        address.sin_port = socket->local.sin_port;
    socket->local = address;
    socket->state = LISTENING;
    socket->backlog_max = listen->backlog;
    ci_world_trace(world, node, "listen fd=%d port=%d", socket->fd, ntohs(address.sin_port));
    return socket->fd;
}

int ci_socket_address(struct ci_world *world, coir_fd fd, bool peer,
                      struct sockaddr_storage *ret_address, socklen_t *ret_len)
{
    const struct ci_socket *socket = socket_of(world, fd);
    if (!socket)
        return -EBADF;
    if (peer && socket->state != CONNECTED)
        return -ENOTCONN;
    memcpy(ret_address, peer ? &socket->remote : &socket->local, sizeof socket->local);
    *ret_len = sizeof socket->local;
    return 0;
}

/* ---- the network ---- */

static const coir_link *link_of(const struct ci_world *world, const struct ci_socket *socket)
{
    return ci_world_find_link(world, socket->node, socket->peer_node);
}

static bool cut_off(const struct ci_world *world, const struct ci_socket *socket)
{
    return ci_world_is_cut(world, socket->node, socket->peer_node);
}

/* When something that this end sends now arrives. */
static coir_time arrival(struct ci_world *world, struct ci_socket *socket, size_t len)
{
    const coir_link *link = link_of(world, socket);
    coir_time when =
        ci_time_after(ci_world_sent_at(world, socket->node, socket->peer_node, len), link->latency);
    if (link->jitter > 0)
        when =
            ci_time_after(when, (coir_time)ci_random_below(&world->random, (uint64_t)link->jitter));
    if (ci_world_fault(world, socket->node, link->loss, "a segment is lost"))
        when = ci_time_after(when, retransmission);
    if (when < socket->last_arrival)
        when = socket->last_arrival;
    return socket->last_arrival = when;
}

static void drop_input(struct ci_socket *socket)
{
    while (socket->in) {
        struct segment *segment = socket->in;
        socket->in = segment->next;
        free(segment);
    }
    socket->in_tail = &socket->in;
}

static void become_reset(struct ci_world *world, struct ci_socket *socket, int error)
{
    if (socket->state == RESET)
        return;
    ci_world_trace(world, socket->node, "reset fd=%d", socket->fd);
    drop_input(socket);
    socket->state = RESET;
    socket->error = error;
    ci_socket_look_again(world, socket);
}

static void reset_arrives(struct ci_world *world, struct ci_socket *socket, size_t amount,
                          void *data)
{
    (void)amount;
    (void)data;
    if (socket)
        become_reset(world, socket, -ECONNRESET);
}

static void send_reset(struct ci_world *world, struct ci_socket *socket)
{
    if (socket->peer && !cut_off(world, socket)) /* else it is lost, and never sent again */
        ci_socket_schedule(world, arrival(world, socket, 0), reset_arrives, socket->peer, 0, NULL);
}

/* ---- what goes to the peer, in order ---- */

static void drop_outbox(struct ci_socket *socket)
{
    while (socket->outbox) {
        struct parcel *parcel = socket->outbox;
        socket->outbox = parcel->next;
        free(parcel->data);
        free(parcel);
    }
    socket->outbox_tail = &socket->outbox;
}

static coir_time retry_time(const struct ci_world *world, size_t retries)
{
    coir_time wait = retransmission << retries;
    return ci_time_after(world->now, wait < retransmission_most ? wait : retransmission_most);
}

static void time_out(struct ci_world *world, struct ci_socket *socket)
{
    drop_outbox(socket);
    become_reset(world, socket, -ETIMEDOUT);
}

/* What this end sent has met no socket: a reset comes back, when the way back is open before this
 * end has given up. */
static void nobody_there(struct ci_world *world, struct ci_socket *socket, size_t retries,
                         void *data)
{
    if (!socket)
        return;
    if (!ci_world_is_cut(world, socket->peer_node, socket->node))
        ci_socket_schedule(world, ci_time_after(world->now, link_of(world, socket)->latency),
                           reset_arrives, socket, 0, NULL);
    else if (++retries <= RETRIES)
        ci_socket_schedule(world, retry_time(world, retries), nobody_there, socket, retries, data);
    else
        time_out(world, socket);
}

static void send_off(struct ci_world *world, struct ci_socket *socket, ci_event_fn *what,
                     size_t amount, void *data)
{
    if (socket->peer) {
        ci_socket_schedule(world, arrival(world, socket, amount), what, socket->peer, amount, data);
    } else { /* the far end is closed already: what was sent meets nobody */
        free(data);
        ci_socket_schedule(world, arrival(world, socket, amount), nobody_there, socket, 0, NULL);
    }
}

static void retry(struct ci_world *world, struct ci_socket *socket, size_t amount, void *data)
{
    (void)amount;
    (void)data;
    if (!socket || !socket->outbox)
        return;
    if (cut_off(world, socket)) {
        if (++socket->retries <= RETRIES) {
            ci_socket_schedule(world, retry_time(world, (size_t)socket->retries), retry, socket, 0,
                               NULL);
            return;
        }
        time_out(world, socket);
        return;
    }
    socket->retries = 0;
    while (socket->outbox) {
        struct parcel *parcel = socket->outbox;
        if (!(socket->outbox = parcel->next))
            socket->outbox_tail = &socket->outbox;
        send_off(world, socket, parcel->what, parcel->amount, parcel->data);
        free(parcel);
    }
}

static void send_to_peer(struct ci_world *world, struct ci_socket *socket, ci_event_fn *what,
                         size_t amount, void *data)
{
    if (!socket->outbox && !cut_off(world, socket)) {
        send_off(world, socket, what, amount, data);
        return;
    }
    struct parcel *parcel = malloc(sizeof *parcel);
    ci_check(parcel);
    *parcel = (struct parcel){NULL, what, amount, data};
    if (!socket->outbox) {
        socket->retries = 0;
        ci_socket_schedule(world, retry_time(world, (size_t)socket->retries), retry, socket, 0,
                           NULL);
    }
    *socket->outbox_tail = parcel;
    socket->outbox_tail = &parcel->next;
}

static void segment_arrives(struct ci_world *world, struct ci_socket *socket, size_t amount,
                            void *data)
{
    struct segment *segment = data;
    if (!socket || socket->state != CONNECTED) {
        struct ci_socket *sender = ci_socket_find(world, segment->sender, segment->sender_serial);
        if (!socket)
            nobody_there(world, sender, 0, NULL);
        free(segment);
        return;
    }
    ci_world_trace(world, socket->node, "deliver fd=%d bytes=%zu", socket->fd, amount);
    *socket->in_tail = segment;
    socket->in_tail = &segment->next;
    ci_socket_look_again(world, socket);
}

static void end_arrives(struct ci_world *world, struct ci_socket *socket, size_t amount, void *data)
{
    (void)amount;
    (void)data;
    if (!socket)
        return;
    ci_world_trace(world, socket->node, "end fd=%d", socket->fd);
    socket->in_ended = true;
    ci_socket_look_again(world, socket);
}

static void room_arrives(struct ci_world *world, struct ci_socket *socket, size_t amount,
                         void *data)
{
    (void)data;
    if (!socket)
        return;
    if (ci_world_is_cut(world, socket->peer_node, socket->node)) {
        ci_socket_schedule(world, ci_time_after(world->now, retransmission), room_arrives, socket,
                           amount, NULL);
        return;
    }
    socket->unread_by_peer -= amount;
    ci_socket_look_again(world, socket);
}

/* ---- reading and writing ---- */

static size_t shortened(struct ci_world *world, const struct ci_socket *socket, size_t len)
{
    if (len > 1 && ci_world_fault(world, socket->node, link_of(world, socket)->short_io,
                                  "moves less than it could"))
        return 1 + (size_t)ci_random_below(&world->random, len - 1);
    return len;
}

static size_t buffers_of(const struct ci_op *op, const struct iovec **ret_iov, struct iovec *one)
{
    if (op->kind == CI_OP_READV || op->kind == CI_OP_WRITEV) {
        *ret_iov = op->iov;
        return (size_t)op->count;
    }
    *one = (struct iovec){op->buf, op->len};
    *ret_iov = one;
    return 1;
}

static size_t take(struct ci_socket *socket, char *to, size_t len)
{
    size_t taken = 0;
    while (taken < len && socket->in) {
        struct segment *segment = socket->in;
        size_t n = segment->len < len - taken ? segment->len : len - taken;
        memcpy(to + taken, segment->data + segment->start, n);
        taken += n;
        segment->start += n;
        segment->len -= n;
        if (segment->len == 0) {
            socket->in = segment->next;
            if (!socket->in)
                socket->in_tail = &socket->in;
            free(segment);
        }
    }
    return taken;
}

int ci_socket_take_error(struct ci_socket *socket)
{
    int error = socket->error;
    socket->error = 0;
    return error;
}

static int take_error(struct ci_socket *socket, int otherwise)
{
    int error = ci_socket_take_error(socket);
    return error ? error : otherwise;
}

static bool try_read(struct ci_world *world, struct ci_socket *socket, const struct ci_op *op,
                     int *ret)
{
    if (socket->state == RESET)
        return *ret = take_error(socket, 0), true;
    if (socket->state != CONNECTED)
        return *ret = -ENOTCONN, true;
    if (!socket->in)
        return *ret = 0, socket->in_ended;
    const struct iovec *iov;
    struct iovec one;
    size_t count = buffers_of(op, &iov, &one), available = 0, wanted = 0, taken = 0;
    for (const struct segment *segment = socket->in; segment; segment = segment->next)
        available += segment->len;
    for (size_t i = 0; i < count; i++)
        wanted += iov[i].iov_len;
    size_t limit = shortened(world, socket, available < wanted ? available : wanted);
    for (size_t i = 0; i < count && taken < limit; i++)
        taken += take(socket, iov[i].iov_base,
                      iov[i].iov_len < limit - taken ? iov[i].iov_len : limit - taken);
    if (socket->peer && taken)
        ci_socket_schedule(world, ci_time_after(world->now, link_of(world, socket)->latency),
                           room_arrives, socket->peer, taken, NULL);
    return *ret = (int)taken, true;
}

static bool try_write(struct ci_world *world, struct ci_socket *socket, const struct ci_op *op,
                      int *ret)
{
    if (socket->state == RESET)
        return *ret = take_error(socket, -EPIPE), true;
    if (socket->state != CONNECTED)
        return *ret = -ENOTCONN, true;
    if (socket->out_ended)
        return *ret = -EPIPE, true;
    if (socket->unread_by_peer >= WINDOW)
        return false;
    const struct iovec *iov;
    struct iovec one;
    size_t count = buffers_of(op, &iov, &one), wanted = 0, copied = 0;
    for (size_t i = 0; i < count; i++)
        wanted += iov[i].iov_len;
    size_t room = WINDOW - socket->unread_by_peer,
           len = shortened(world, socket, wanted < room ? wanted : room);
    if (ci_world_fault(world, socket->node, socket->node->faults.no_buffers, "no buffers"))
        return *ret = -ENOBUFS, true;
    if (ci_world_fault(world, socket->node, link_of(world, socket)->reset,
                       "the connection is reset")) {
        send_reset(world, socket);
        become_reset(world, socket, -ECONNRESET);
        return *ret = take_error(socket, -EPIPE), true;
    }
    struct segment *segment = malloc(sizeof *segment + len);
    if (!segment)
        return *ret = -ENOMEM, true;
    *segment = (struct segment){.sender = socket->fd, .sender_serial = socket->serial, .len = len};
    for (size_t i = 0; i < count && copied < len; i++) {
        size_t n = iov[i].iov_len < len - copied ? iov[i].iov_len : len - copied;
        memcpy(segment->data + copied, iov[i].iov_base, n);
        copied += n;
    }
    socket->unread_by_peer += len;
    send_to_peer(world, socket, segment_arrives, len, segment);
    return *ret = (int)len, true;
}

/* ---- trying ---- */

static int events_now(const struct ci_socket *socket)
{
    int events = 0;
    bool reset = socket->state == RESET;
    if (socket->in || socket->in_ended || reset || socket->backlog)
        events |= COIR_READ;
    if (socket->in_ended || reset)
        events |= CI_EVENT_END;
    if (reset || socket->state == DATAGRAM ||
        (socket->state == CONNECTED && socket->unread_by_peer < WINDOW))
        events |= COIR_WRITE;
    if (reset || (socket->in_ended && socket->out_ended))
        events |= COIR_HANGUP;
    if (socket->error)
        events |= COIR_EVENT_ERROR;
    return events;
}

static bool try_accept(struct ci_world *world, struct ci_socket *socket, int *ret)
{
    struct ci_socket *accepted = socket->backlog;
    if (!accepted)
        return false;
    if ((*ret = ci_socket_no_descriptor(world, socket->node)) < 0)
        return true;
    socket->backlog = accepted->backlog_next;
    if (!socket->backlog)
        socket->backlog_tail = &socket->backlog;
    socket->backlog_len--;
    accepted->queued = false;
    if (ci_world_fault(world, socket->node, link_of(world, accepted)->reset,
                       "a connection dies in the backlog")) {
        send_reset(world, accepted);
        ci_socket_close(world, accepted->fd);
        return *ret = -ECONNABORTED, true;
    }
    ci_world_trace(world, socket->node, "accept fd=%d new=%d", socket->fd, accepted->fd);
    return *ret = accepted->fd, true;
}

/* True: complete, *ret says how. */
static bool attempt(struct ci_world *world, struct ci_socket *socket, struct ci_op *op, int *ret)
{
    switch ((enum ci_op_kind)op->kind) {
    case CI_OP_READ:
    case CI_OP_READV: return try_read(world, socket, op, ret);
    case CI_OP_WRITE:
    case CI_OP_WRITEV: return try_write(world, socket, op, ret);
    case CI_OP_RECEIVE: return ci_datagram_receive(socket, op->message, ret);
    case CI_OP_SEND: return ci_datagram_send(world, socket, op->message, ret);
    case CI_OP_ACCEPT: return try_accept(world, socket, ret);
    case CI_OP_CONNECT:
        if (socket->state == CONNECTING)
            return false;
        return *ret = socket->state == CONNECTED ? 0 : take_error(socket, -ECONNREFUSED), true;
    case CI_OP_POLL:
    case CI_OP_FOREIGN:
    case CI_OP_WATCH:
    case CI_OP_READ_AT:
    case CI_OP_WRITE_AT:
    case CI_OP_SYNC: break;
    }
    int events = events_now(socket) & (op->events | COIR_HANGUP | COIR_EVENT_ERROR);
    return *ret = events, events != 0;
}

static void try_all(struct ci_world *world, struct ci_socket *socket)
{
    for (struct pending **at = &socket->pending; *at;) {
        struct pending *pending = *at;
        int result = 0;
        if (!attempt(world, socket, pending->op, &result)) {
            at = &pending->next;
            continue;
        }
        *at = pending->next;
        ci_world_trace(world, socket->node, "complete fd=%d kind=%d result=%d", socket->fd,
                       pending->op->kind, result);
        ci_sim_driver_complete(pending->driver, pending->op, result);
        free(pending);
    }
}

/* Trying may itself be something that happens to the socket: then once more. */
void ci_socket_look_again(struct ci_world *world, struct ci_socket *socket)
{
    socket->look_more = true;
    if (socket->looking)
        return;
    socket->looking = true;
    while (socket->look_more) {
        socket->look_more = false;
        try_all(world, socket);
    }
    socket->looking = false;
}

/* ---- connecting ---- */

static void answer_arrives(struct ci_world *world, struct ci_socket *socket, size_t refused,
                           void *data)
{
    (void)data;
    if (!socket || socket->state != CONNECTING)
        return;
    socket->state = refused ? UNCONNECTED : CONNECTED;
    socket->error = refused ? -(int)refused : 0;
    ci_socket_look_again(world, socket);
}

static struct ci_socket *make_peer(struct ci_world *world, struct ci_socket *listener,
                                   struct ci_socket *client)
{
    struct ci_socket *server = ci_socket_new(world, listener->node);
    if (!server)
        return NULL;
    server->state = CONNECTED;
    server->queued = true;
    server->local = listener->local;
    server->remote = client->local;
    server->peer = client;
    client->peer = server;
    server->peer_node = client->node;
    client->peer_node = server->node;
    *listener->backlog_tail = server;
    listener->backlog_tail = &server->backlog_next;
    listener->backlog_len++;
    return server;
}

static void syn_arrives(struct ci_world *world, struct ci_socket *client, size_t amount, void *data)
{
    (void)amount;
    (void)data;
    if (!client || client->state != CONNECTING)
        return;
    struct ci_socket *listener = find_listener(world, client->node, &client->remote);
    const struct ci_node *there =
        listener ? listener->node : ci_socket_node_at(world, client->node, &client->remote);
    if (!there) /* no host has the address */
        there = client->node;
    const coir_link *link = ci_world_find_link(world, client->node, there);
    bool lost =
        ci_world_is_cut(world, client->node, there) || ci_world_is_cut(world, there, client->node);
    if (!listener && !lost) {
        ci_socket_schedule(world, ci_time_after(world->now, link->latency), answer_arrives, client,
                           ECONNREFUSED, NULL);
        return;
    }
    if (lost || listener->refuses || listener->backlog_len >= listener->backlog_max ||
        ci_world_fault(world, there, link->no_answer, "no answer")) {
        /* dropped; the client tries again, then gives up */
        bool last = ++client->syn_tries >= SYN_TRIES;
        if (last)
            ci_socket_schedule(world, ci_time_after(world->now, syn_retry), answer_arrives, client,
                               ETIMEDOUT, NULL);
        else
            ci_socket_schedule(world, ci_time_after(world->now, syn_retry), syn_arrives, client, 0,
                               NULL);
        return;
    }
    if (!make_peer(world, listener, client))
        return;
    ci_world_trace(world, listener->node, "connection fd=%d from=%s", listener->fd,
                   client->node->name);
    ci_socket_schedule(world, arrival(world, client->peer, 0), answer_arrives, client, 0, NULL);
    ci_socket_look_again(world, listener);
}

static int begin_connect(struct ci_world *world, struct ci_socket *socket,
                         const struct sockaddr *address)
{
    if (address->sa_family != AF_INET)
        return -EAFNOSUPPORT;
    if (socket->state != UNCONNECTED)
        return -EISCONN;
    memcpy(&socket->remote, address, sizeof socket->remote);
    struct ci_socket *listener = find_listener(world, socket->node, &socket->remote);
    const coir_link *link =
        ci_world_find_link(world, socket->node, listener ? listener->node : socket->node);
    socket->state = CONNECTING;
    ci_socket_schedule(world, ci_time_after(world->now, link->latency), syn_arrives, socket, 0,
                       NULL);
    return 0;
}

/* ---- what the driver calls ---- */

bool ci_socket_start(struct ci_sim_driver *driver, struct ci_op *op)
{
    struct ci_world *world = driver->world;
    struct ci_socket *socket = socket_of(world, op->fd);
    if (!socket)
        return op->result = -EBADF, true;
    if (ci_world_fault(world, socket->node, socket->node->faults.no_memory,
                       "no memory for an operation"))
        return op->result = -ENOMEM, true;
    if (op->kind == CI_OP_CONNECT) {
        int rc = begin_connect(world, socket, op->address);
        if (rc < 0)
            return op->result = rc, true;
    }
    int result = 0;
    if (attempt(world, socket, op, &result)) {
        ci_world_trace(world, socket->node, "at once fd=%d kind=%d result=%d", op->fd, op->kind,
                       result);
        return op->result = result, true;
    }
    if (op->no_wait)
        return op->result = -EAGAIN, true;
    struct pending *pending = malloc(sizeof *pending);
    if (!pending)
        return op->result = -ENOMEM, true;
    *pending = (struct pending){socket->pending, op, driver};
    socket->pending = pending;
    op->pending = true;
    return false;
}

bool ci_socket_cancel(struct ci_sim_driver *driver, struct ci_op *op)
{
    struct ci_world *world = driver->world;
    struct ci_socket *socket = socket_of(world, op->fd);
    struct pending **at = &socket->pending;
    while (*at && (*at)->op != op)
        at = &(*at)->next;
    if (!*at)
        return false; /* complete, and about to be reported */
    struct pending *pending = *at;
    *at = pending->next;
    free(pending);
    bool at_once = ci_random_next(&world->random) & 1;
    ci_world_trace(world, driver->node, "cancel fd=%d kind=%d %s", op->fd, op->kind,
                   at_once ? "withdrawn" : "to complete");
    if (!at_once) {
        ci_sim_driver_complete(driver, op, -ECANCELED);
        return false;
    }
    op->pending = false;
    op->result = -ECANCELED;
    return true;
}

void ci_socket_forget(struct ci_world *world, const struct ci_sim_driver *driver, coir_fd fd)
{
    struct ci_socket *socket = socket_of(world, fd);
    if (!socket)
        return;
    for (struct pending **at = &socket->pending; *at;) {
        struct pending *pending = *at;
        if (driver && pending->driver != driver) {
            at = &pending->next;
            continue;
        }
        *at = pending->next;
        ci_sim_driver_complete(pending->driver, pending->op, -ECANCELED);
        free(pending);
    }
}

int ci_socket_refuse(struct ci_world *world, coir_fd fd)
{
    struct ci_socket *socket = socket_of(world, fd);
    if (!socket || socket->state != LISTENING)
        return -EINVAL;
    socket->refuses = true;
    return 0;
}

int ci_socket_reset_on_close(struct ci_world *world, coir_fd fd, bool on)
{
    struct ci_socket *socket = socket_of(world, fd);
    if (!socket)
        return -EBADF;
    socket->resets = on;
    return 0;
}

int ci_socket_shutdown_write(struct ci_world *world, coir_fd fd)
{
    struct ci_socket *socket = socket_of(world, fd);
    if (!socket)
        return -EBADF;
    if (socket->state != CONNECTED)
        return -ENOTCONN;
    if (socket->out_ended)
        return 0;
    socket->out_ended = true;
    if (socket->peer || socket->outbox)
        send_to_peer(world, socket, end_arrives, 0, NULL);
    ci_socket_look_again(world, socket);
    return 0;
}

/* A connect is given up after its first segment has arrived: the answer meets nobody and is reset;
 * where that cannot get back, the server gives up in its turn. */
static void abandon_peer(struct ci_world *world, struct ci_socket *client)
{
    coir_time when = cut_off(world, client) ? ci_time_after(world->now, SYN_TRIES * syn_retry)
                                            : arrival(world, client, 0);
    ci_socket_schedule(world, when, reset_arrives, client->peer, 0, NULL);
}

void ci_socket_close(struct ci_world *world, coir_fd fd)
{
    struct ci_socket *socket = socket_of(world, fd);
    if (!socket)
        return;
    ci_world_trace(world, socket->node, "close fd=%d", fd);
    while (socket->backlog) {
        struct ci_socket *waiting = socket->backlog;
        socket->backlog = waiting->backlog_next;
        send_reset(world, waiting);
        ci_socket_close(world, waiting->fd);
    }
    if (socket->peer) {
        if (socket->state == CONNECTING)
            abandon_peer(world, socket);
        else if (socket->in || socket->resets)
            send_reset(world, socket);
        else
            ci_socket_shutdown_write(world, fd);
        socket->peer->peer = NULL;
    }
    drop_input(socket);
    drop_outbox(socket);
    ci_socket_forget(world, NULL, fd);
    world->sockets[fd] = NULL;
    free(socket);
}
