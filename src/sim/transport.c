/* The transport of a stream's segments to its peer, with the worst behaviour that TCP allows.
 *
 * 1. The segments of one end arrive in the order in which they were sent, each exactly once, and
 *    none after the end of the stream. Each has a delay of its own, but none overtakes another.
 * 2. A parcel added to an empty outbox is its head and its tail.
 *
 * Segments sent over a cut link wait in the outbox. They are sent again after 200 ms, then after
 * twice as long each time. After RETRIES retries the stream ends with -ETIMEDOUT, and the peer gets
 * no reset. Closing drops the outbox. A full window is asked about at the same intervals. Where the
 * peer's host is dead and another has its address, that one answers by a reset. */
#include "sim/transport.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "sim/fault.h"
#include "sim/link.h"
#include "sim/trace.h"

enum { RETRIES = 8 };
static const coir_time retransmission_most = 10 * COIR_S;

/* A segment or event for the peer, held up by a cut link. */
struct ci_parcel {
    struct ci_parcel *next;
    ci_socket_event_fn *what;
    size_t amount;
    void *data;
};

const coir_link *ci_transport_link(const struct ci_world *world, const struct ci_socket *socket)
{
    return ci_world_find_link(world, socket->node, socket->peer_node);
}

bool ci_transport_is_cut(const struct ci_world *world, const struct ci_socket *socket)
{
    return ci_world_is_cut(world, socket->node, socket->peer_node);
}

coir_time ci_transport_arrival(struct ci_world *world, struct ci_socket *socket, size_t len)
{
    coir_time when = ci_world_arrival(world, socket->node, socket->peer_node, len);
    if (ci_world_fault(world, socket->node, ci_transport_link(world, socket)->loss,
                       "a segment is lost"))
        when = ci_time_after(when, ci_transport_retransmission);
    if (when < socket->last_arrival)
        when = socket->last_arrival;
    return socket->last_arrival = when;
}

/* ---- resets ---- */

void ci_transport_reset(struct ci_world *world, struct ci_socket *socket, int error)
{
    if (socket->state == CI_STREAM_RESET)
        return;
    ci_world_trace(world, socket->node, "reset fd=%d", socket->fd);
    ci_socket_drop_input(socket);
    socket->state = CI_STREAM_RESET;
    socket->error = error;
    ci_socket_changed(world, socket);
}

void ci_transport_reset_arrives(struct ci_world *world, struct ci_socket *socket, size_t amount,
                                void *data)
{
    (void)amount;
    (void)data;
    if (socket)
        ci_transport_reset(world, socket, -ECONNRESET);
}

void ci_transport_send_reset(struct ci_world *world, struct ci_socket *socket)
{
    if (socket->peer && !ci_transport_is_cut(world, socket))
        ci_socket_schedule(world, ci_transport_arrival(world, socket, 0),
                           ci_transport_reset_arrives, socket->peer, 0, NULL);
}

/* ---- the outbox ---- */

void ci_transport_drop_outbox(struct ci_socket *socket)
{
    while (socket->outbox) {
        struct ci_parcel *parcel = socket->outbox;
        socket->outbox = parcel->next;
        free(parcel->data);
        free(parcel);
    }
    socket->outbox_tail = &socket->outbox;
}

static coir_time retry_time(const struct ci_world *world, size_t retries)
{
    coir_time wait = ci_transport_retransmission << retries;
    return ci_time_after(world->now, wait < retransmission_most ? wait : retransmission_most);
}

/* The peer's host is dead. True: its heir's reset is on its way. */
static bool is_refused(struct ci_world *world, struct ci_socket *socket)
{
    coir_time round;
    if (!ci_world_is_refused(world, socket->node, socket->peer_node, &round))
        return false;
    ci_transport_drop_outbox(socket);
    ci_socket_schedule(world, ci_time_after(world->now, round), ci_transport_reset_arrives, socket,
                       0, NULL);
    return true;
}

static void time_out(struct ci_world *world, struct ci_socket *socket)
{
    ci_transport_drop_outbox(socket);
    ci_transport_reset(world, socket, -ETIMEDOUT);
}

/* This end receives a reset if the link from the peer is restored before the last retry. */
static void unanswered(struct ci_world *world, struct ci_socket *socket, size_t retries, void *data)
{
    (void)data;
    if (!socket || is_refused(world, socket))
        return;
    if (!ci_world_is_cut(world, socket->peer_node, socket->node))
        ci_socket_schedule(world,
                           ci_time_after(world->now, ci_transport_link(world, socket)->latency),
                           ci_transport_reset_arrives, socket, 0, NULL);
    else if (++retries <= RETRIES)
        ci_socket_schedule(world, retry_time(world, retries), unanswered, socket, retries, NULL);
    else
        time_out(world, socket);
}

void ci_transport_unanswered(struct ci_world *world, struct ci_socket *socket)
{
    unanswered(world, socket, 0, NULL);
}

static bool is_cut_off(const struct ci_world *world, const struct ci_socket *socket)
{
    return ci_transport_is_cut(world, socket) ||
           ci_world_is_cut(world, socket->peer_node, socket->node);
}

static void probe(struct ci_world *world, struct ci_socket *socket, size_t amount, void *data)
{
    (void)amount;
    (void)data;
    if (!socket || socket->state != CI_STREAM_CONNECTED)
        return;
    bool full = socket->unread_by_peer >= CI_TRANSPORT_WINDOW;
    if (full && is_cut_off(world, socket)) {
        if (is_refused(world, socket))
            return;
        if (socket->probes > RETRIES)
            time_out(world, socket);
        else
            ci_socket_schedule(world, retry_time(world, (size_t)socket->probes++), probe, socket, 0,
                               NULL);
        return;
    }
    socket->probes = 0;
    if (full && !socket->peer) /* its reset was lost */
        ci_transport_unanswered(world, socket);
}

void ci_transport_probe(struct ci_world *world, struct ci_socket *socket)
{
    if (socket->probes || !is_cut_off(world, socket))
        return;
    socket->probes = 1;
    ci_socket_schedule(world, retry_time(world, 0), probe, socket, 0, NULL);
}

void ci_transport_probe_answered(struct ci_socket *socket)
{
    if (socket->probes)
        socket->probes = 1;
}

static void send_off(struct ci_world *world, struct ci_socket *socket, ci_socket_event_fn *what,
                     size_t amount, void *data)
{
    coir_time when = ci_transport_arrival(world, socket, amount);
    if (socket->peer) {
        ci_socket_schedule(world, when, what, socket->peer, amount, data);
    } else { /* the peer is closed already */
        free(data);
        ci_socket_schedule(world, when, unanswered, socket, 0, NULL);
    }
}

static void retry(struct ci_world *world, struct ci_socket *socket, size_t amount, void *data)
{
    (void)amount;
    (void)data;
    if (!socket || !socket->outbox)
        return;
    if (ci_transport_is_cut(world, socket)) {
        if (is_refused(world, socket))
            return;
        if (++socket->retries <= RETRIES)
            ci_socket_schedule(world, retry_time(world, (size_t)socket->retries), retry, socket, 0,
                               NULL);
        else
            time_out(world, socket);
        return;
    }
    socket->retries = 0;
    while (socket->outbox) {
        struct ci_parcel *parcel = socket->outbox;
        if (!(socket->outbox = parcel->next))
            socket->outbox_tail = &socket->outbox;
        send_off(world, socket, parcel->what, parcel->amount, parcel->data);
        free(parcel);
    }
}

void ci_transport_send(struct ci_world *world, struct ci_socket *socket, ci_socket_event_fn *what,
                       size_t amount, void *data)
{
    if (!socket->outbox && !ci_transport_is_cut(world, socket)) {
        send_off(world, socket, what, amount, data);
        return;
    }
    struct ci_parcel *parcel = malloc(sizeof *parcel);
    ci_check(parcel, "world.h 2");
    *parcel = (struct ci_parcel){NULL, what, amount, data};
    if (!socket->outbox) {
        ci_check(socket->outbox_tail == &socket->outbox, "transport.c 2");
        socket->retries = 0;
        ci_socket_schedule(world, retry_time(world, 0), retry, socket, 0, NULL);
    }
    *socket->outbox_tail = parcel;
    socket->outbox_tail = &parcel->next;
}
