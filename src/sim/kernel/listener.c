/* Listeners, and how connections are established: net/ipv4/inet_connection_sock.c of Linux 6.1;
 * listen(2), connect(2), accept(2).
 *
 *   connect -- SYN --> (listener found, room in its backlog: a child)
 *           <- SYN, ACK -- connected
 *           -- ACK --> the child is queued, accept takes it
 *
 * - A SYN to a port without a listener is answered by a reset. If the backlog is full, the listener
 *   refuses (SO_ATTACH_FILTER) or the link is cut, the SYN is dropped and sent again; after
 *   SYN_TRIES tries the connect fails with ETIMEDOUT.
 * - Closing a listener resets the connections that were not accepted.
 * - An error of a queued connection is reported by the accepted socket, not by accept.
 */
#include <errno.h>
#include <string.h>

#include "sim/kernel/socket.h"

enum { SYN_TRIES = 3 };
static const coir_time syn_retry = 1 * COIR_S;

static void syn_arrives(void *arg, size_t number);

/* ---- listening ---- */

static struct ci_ksocket *listener_at(const struct ci_node *node, const struct sockaddr_in6 *to)
{
    struct ci_ksocket *found = NULL;
    uint64_t count = 0;
    for (struct ci_ksocket *socket = ci_k.sockets; node && socket; socket = socket->next)
        if (socket->state == CI_KLISTENING && socket->node == node &&
            socket->local.sin6_port == to->sin6_port && (socket->takes & ci_kaddress_family(to)) &&
            ci_kbelow(++count) == 0)
            found = socket; /* any of the listeners that share the port */
    return found;
}

int ci_klistener_start(struct ci_ksocket *socket, const struct sockaddr *address, socklen_t len,
                       int backlog, bool reuse_port, bool six_only)
{
    int rc = ci_kaddress_bind(socket, address, len, six_only);
    socket->shares_port = reuse_port;
    if (rc < 0)
        return rc;
    if (!ci_ksocket_port_is_free(socket, CI_KLISTENING))
        return -EADDRINUSE;
    socket->state = CI_KLISTENING;
    socket->backlog_most = backlog + 1; /* sk_acceptq_is_full: more than the backlog */
    return 0;
}

/* An error of the network, which accept(2) passes on from the connection it would have returned, or
 * of a filter (EPERM): nothing is wrong with the listener. */
static int network_error(void)
{
    static const int errors[] = {EPERM,  ENETDOWN,     EPROTO,     ENOPROTOOPT, EHOSTDOWN,
                                 ENONET, EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH};
    return -errors[ci_kbelow(sizeof errors / sizeof *errors)];
}

int ci_klistener_refused(void)
{
    struct ci_node *node = ci_k.process->node;
    int rc = ci_kfd_refused();
    if (rc < 0)
        return rc;
    if (ci_world_fault(ci_k.world, node, node->faults.no_buffers, "no buffers to accept"))
        return ci_kone_in(3) ? network_error() : -ENOBUFS;
    if (ci_world_fault(ci_k.world, node, node->faults.no_memory, "no memory to accept"))
        return -ENOMEM;
    return 0;
}

int ci_klistener_accept(struct ci_kfile *file, struct ci_kfile **ret_file)
{
    struct ci_ksocket *listener = ci_ksocket_of(file), *accepted = listener->backlog;
    if (listener->state != CI_KLISTENING)
        return -EINVAL;
    if (!accepted)
        return -EAGAIN;
    listener->backlog = accepted->backlog_next;
    listener->backlog_len--;
    accepted->listener = NULL;
    accepted->queued = false;
    *ret_file = &accepted->file;
    return 0;
}

static void reset_child(struct ci_ksocket *child)
{
    child->listener = NULL;
    child->resets = true;
    ci_kfile_unref(&child->file);
}

/* inet_csk_listen_stop: first the accept queue in its order, then connections whose handshake is in
 * progress. */
void ci_klistener_close(struct ci_ksocket *listener)
{
    listener->state = CI_KCLOSED;
    for (struct ci_ksocket *child = listener->backlog; child; child = child->backlog_next)
        reset_child(child);
    listener->backlog = NULL;
    for (struct ci_ksocket *child = ci_k.sockets; child; child = child->next)
        if (child->listener == listener)
            reset_child(child);
}

/* ---- connecting ---- */

static bool is_at_once(coir_time latency)
{
    return latency <= 10 * COIR_US && ci_kone_in(ci_k.settings.at_once_one_in);
}

static void schedule_from(struct ci_ksocket *socket, coir_time delay, ci_call_fn *fn)
{
    coir_time when = ci_time_after(ci_know(), delay);
    ci_kschedule(when, fn, socket, 0);
}

/* The third segment of the handshake arrives: the child can be accepted. */
static void ack_arrives(void *arg, size_t number)
{
    (void)number;
    struct ci_ksocket *child = arg, *listener = child->listener;
    if (!listener || child->queued)
        return; /* the listener has closed */
    if (ci_world_is_cut(ci_k.world, child->node, child->peer_node) ||
        listener->backlog_len >= listener->backlog_most) {
        schedule_from(child, syn_retry, ack_arrives);
        return;
    }
    struct ci_ksocket **at = &listener->backlog;
    while (*at)
        at = &(*at)->backlog_next;
    *at = child;
    child->backlog_next = NULL;
    child->queued = true;
    listener->backlog_len++;
    ci_ktrace("connection", (int64_t)listener->file.serial, (int64_t)child->file.serial);
    ci_kfile_wake(&listener->file, POLLIN | POLLRDNORM);
}

static void reset_arrives(void *arg, size_t number)
{
    (void)number;
    ci_knetwork_become_reset(arg, ((struct ci_ksocket *)arg)->state == CI_KCONNECTING ? ECONNREFUSED
                                                                                      : ECONNRESET);
}

/* The answer to a SYN arrives: the client is connected, and acknowledges. If it was closed, it
 * resets the child. */
static void answer_arrives(void *arg, size_t number)
{
    (void)number;
    struct ci_ksocket *client = arg, *child = client->peer;
    if (client->orphan) {
        ci_knetwork_send_reset(client);
        return;
    }
    if (client->state != CI_KCONNECTING)
        return;
    client->state = CI_KCONNECTED;
    ci_ktrace("connected", (int64_t)client->file.serial, 0);
    ci_kfile_wake(&client->file, 0);
    ci_knetwork_deliver(client, ack_arrives, child);
}

static void give_up(void *arg, size_t number)
{
    (void)number;
    ci_knetwork_become_reset(arg, ETIMEDOUT);
}

static void make_child(struct ci_ksocket *listener, struct ci_ksocket *client)
{
    struct ci_ksocket *child = ci_ksocket_new(listener->node, listener->file.type);
    child->state = CI_KCONNECTED;
    child->listener = listener;
    child->six = listener->six;
    child->local = client->remote;
    child->remote = client->local;
    child->peer = client;
    child->peer_node = client->node;
    client->peer = child;
    client->peer_node = child->node;
    ci_knetwork_deliver(child, answer_arrives, client);
}

static void syn_arrives(void *arg, size_t number)
{
    (void)number;
    struct ci_ksocket *client = arg;
    if (client->state != CI_KCONNECTING)
        return;
    struct ci_world *world = ci_k.world;
    const struct ci_node *there = ci_kaddress_node(client->node, &client->remote);
    struct ci_ksocket *listener = listener_at(there, &client->remote);
    bool lost = !there || ci_world_is_cut(world, client->node, there) ||
                ci_world_is_cut(world, there, client->node);
    const coir_link *link = ci_world_find_link(world, client->node, there ? there : client->node);
    if (!lost && !listener && is_at_once(link->latency)) {
        reset_arrives(client, 0);
    } else if (!lost && !listener) {
        schedule_from(client, link->latency, reset_arrives);
    } else if (lost || listener->refuses || listener->backlog_len >= listener->backlog_most ||
               ci_world_fault(world, there, link->no_answer, "no answer")) {
        schedule_from(client, syn_retry, ++client->tries >= SYN_TRIES ? give_up : syn_arrives);
    } else {
        make_child(listener, client);
    }
}

/* tcp_v6_connect does without IPv4's form of an address, as opposed to the calls on datagrams. */
static int begin_connect(struct ci_ksocket *socket, const struct sockaddr *address, socklen_t len)
{
    if (socket->six && address->sa_family == AF_INET)
        return len < sizeof(struct sockaddr_in6) ? -EINVAL : -EAFNOSUPPORT;
    int rc = ci_kaddress_remote(socket, address, len, &socket->remote);
    if (rc == 0)
        socket->local = ci_kaddress_source(socket->node, &socket->remote, socket->local.sin6_port);
    return rc;
}

int ci_klistener_connect(struct ci_kfile *file, const struct sockaddr *address, socklen_t len)
{
    struct ci_ksocket *socket = ci_ksocket_of(file);
    if (socket->state == CI_KCONNECTING)
        return -EALREADY;
    if (socket->state == CI_KCONNECTED) {
        bool was_told = socket->was_told;
        socket->was_told = true;
        return was_told ? -EISCONN : 0;
    }
    if (socket->error)
        return -ci_ksocket_take_error(socket);
    if (socket->state != CI_KCLOSED || socket->in_ended)
        ci_kunknown("connecting a socket for the second time");
    int rc = begin_connect(socket, address, len);
    if (rc < 0)
        return rc;
    const struct ci_node *there = ci_kaddress_node(socket->node, &socket->remote);
    coir_time latency =
        ci_world_find_link(ci_k.world, socket->node, there ? there : socket->node)->latency;
    socket->state = CI_KCONNECTING;
    if (is_at_once(latency))
        syn_arrives(socket, 0);
    else
        schedule_from(socket, latency, syn_arrives);
    return -EINPROGRESS;
}

/* The answer to its SYN will find an orphan: answer_arrives. */
void ci_klistener_give_up(struct ci_ksocket *socket)
{
    socket->out_ended = true;
}
