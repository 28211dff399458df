/* Transport between the two ends of a connection: bytes, the end of the stream, resets. Sources:
 * tcp(7); RFC 9293; net/ipv4/tcp_input.c and tcp.c of Linux 6.1.
 *
 * - Sent bytes stay in `out` until they arrive, and count against out_most. One event for each
 *   direction (pump) moves the bytes that are due, in parts of any size, as far as the receiver has
 *   room; then the end, with the last bytes or after them.
 * - A reset discards `out`; received bytes stay readable. It is reported once: as ECONNRESET, as
 *   EPIPE after the peer's end, or as ECONNREFUSED before the connection was established.
 * - Over a cut link nothing arrives: the pump retries with growing delays, then the sender gets
 *   ETIMEDOUT, and the peer is not told. A reset is sent once.
 * - Where the peer's host is dead and another has its address, that one answers by a reset.
 * - A sender whose peer has no room asks again when a link has changed (tcp_probe_timer): over a
 * cut one it gets ETIMEDOUT as well.
 * - Waiting writers are woken when a third of the buffer is free (sk_stream_write_space).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/kernel/socket.h"

enum { RETRIES = 8 };
static const coir_time retransmission = 200 * COIR_MS, retransmission_most = 10 * COIR_S,
                       pause_most = 20 * COIR_US;
/* delays of acknowledgements: 1 ms, doubled fewer than this many times; at most about
 * TCP_DELACK_MIN */
enum { DELAYS = 6 };
static const coir_time fast = 10 * COIR_US; /* a latency up to this may count as none */

static void pump(void *arg, size_t number);

const coir_link *ci_knetwork_link(const struct ci_ksocket *socket)
{
    return ci_world_find_link(ci_k.world, socket->node, socket->peer_node);
}

bool ci_knetwork_is_cut(const struct ci_ksocket *socket)
{
    return ci_world_is_cut(ci_k.world, socket->node, socket->peer_node);
}

/* The arrival time of a segment that this end sends now. */
coir_time ci_knetwork_arrival(struct ci_ksocket *socket, size_t len)
{
    struct ci_world *world = ci_k.world;
    const coir_link *link = ci_knetwork_link(socket);
    coir_time when =
        ci_time_after(ci_world_sent_at(world, socket->node, socket->peer_node, len), link->latency);
    if (link->jitter > 0)
        when = ci_time_after(when, (coir_time)ci_kbelow((uint64_t)link->jitter));
    if (ci_world_fault(world, socket->node, link->loss, "a segment is lost"))
        when = ci_time_after(when, retransmission);
    if (when < socket->last_arrival)
        when = socket->last_arrival;
    return socket->last_arrival = when;
}

void ci_knetwork_deliver(struct ci_ksocket *socket, ci_call_fn *fn, struct ci_ksocket *to)
{
    if (ci_knetwork_link(socket)->latency <= fast && ci_kone_in(ci_k.settings.at_once_one_in))
        fn(to, 0);
    else
        ci_kschedule(ci_knetwork_arrival(socket, 0), fn, to, 0);
}

/* ---- resets ---- */

void ci_knetwork_become_reset(struct ci_ksocket *socket, int error)
{
    if (socket->state != CI_KCONNECTED && socket->state != CI_KCONNECTING)
        return;
    ci_ktrace("reset", (int64_t)socket->file.serial, error);
    ci_kqueue_drop(&socket->out);
    socket->error = error;
    socket->state = CI_KCLOSED;
    socket->in_ended = socket->out_ended = true;
    ci_kfile_wake(&socket->file, 0);
    ci_kfile_wake(&socket->file, POLLERR);
}

static void reset_arrives(void *arg, size_t number)
{
    (void)number;
    struct ci_ksocket *socket = arg;
    bool finished = socket->in_ended && socket->out_ended && socket->end_arrived;
    if (finished)
        return; /* TIME_WAIT or closed: there is no connection */
    ci_knetwork_become_reset(socket, socket->state == CI_KCONNECTING ? ECONNREFUSED
                                     : socket->in_ended              ? EPIPE
                                                                     : ECONNRESET);
}

void ci_knetwork_send_reset(struct ci_ksocket *socket)
{
    /* otherwise the reset is lost, and is not retransmitted */
    if (socket->peer && !ci_knetwork_is_cut(socket))
        ci_knetwork_deliver(socket, reset_arrives, socket->peer);
}

/* ---- moving ---- */

bool ci_knetwork_is_writable(const struct ci_ksocket *socket)
{
    return socket->out.bytes / 2 <=
               (socket->out_most > socket->out.bytes ? socket->out_most - socket->out.bytes : 0) &&
           socket->out.bytes < socket->out_most;
}

static void tell_of_room(struct ci_ksocket *socket)
{
    if (!socket->no_space || !ci_knetwork_is_writable(socket))
        return;
    socket->no_space = false;
    ci_kfile_wake(&socket->file, POLLOUT | POLLWRNORM);
}

static void schedule_pump(struct ci_ksocket *socket, coir_time when)
{
    if (socket->pumps)
        return;
    socket->pumps = true;
    ci_kschedule(when, pump, socket, 0);
}

/* Moves the first `len` bytes of `out` to the peer. */
static void move(struct ci_ksocket *socket, size_t len)
{
    struct ci_ksegment *segment = socket->out.first, *part;
    if (len == segment->len) {
        part = ci_kqueue_pop(&socket->out);
    } else {
        part = ci_ksegment_new(len);
        memcpy(part->data, segment->data + segment->start, len);
        segment->start += len;
        segment->len -= len;
        socket->out.bytes -= len;
    }
    ci_kqueue_push(&socket->peer->in, part);
}

/* The state changes (to FIN_WAIT2, TIME_WAIT or CLOSE), and waiters are woken. */
static void end_is_acknowledged(void *arg, size_t number)
{
    (void)number;
    struct ci_ksocket *socket = arg;
    bool was_late = socket->end_is_late;
    socket->end_is_late = false;
    if (was_late && !socket->orphan)
        ci_kfile_wake(&socket->file, 0);
}

static void end_arrives(struct ci_ksocket *socket)
{
    struct ci_ksocket *peer = socket->peer;
    free(ci_kqueue_pop(&socket->out));
    socket->end_arrived = true;
    socket->end_is_late = true;
    if (!ci_kone_in(ci_k.settings.late_one_in))
        end_is_acknowledged(socket, 0);
    else
        ci_kschedule(ci_kafter((uint64_t)COIR_MS << ci_kbelow(DELAYS)), end_is_acknowledged, socket,
                     0);
    ci_ktrace("end", (int64_t)peer->file.serial, 0);
    if (peer->state != CI_KCONNECTED)
        return;
    peer->in_ended = peer->done = true;
    ci_kfile_wake(&peer->file, 0);
}

/* Each segment with bytes carries the acknowledgement of what came before it. */
static void tell_of_bytes(struct ci_ksocket *peer, size_t moved)
{
    if (!moved)
        return;
    if (peer->end_is_late)
        end_is_acknowledged(peer, 0);
    ci_ktrace("deliver", (int64_t)peer->file.serial, (int64_t)moved);
    ci_kfile_wake(&peer->file, POLLIN | POLLPRI | POLLRDNORM | POLLRDBAND);
}

/* Moves the bytes that are due. The end of the stream may arrive in the same event as bytes. */
static void move_due(struct ci_ksocket *socket)
{
    struct ci_ksocket *peer = socket->peer;
    const coir_link *link = ci_knetwork_link(socket);
    size_t moved = 0;
    socket->stalled = false;
    for (struct ci_ksegment *segment;
         (segment = socket->out.first) && segment->arrives <= ci_know();) {
        if (segment->end) {
            if (moved && ci_k.settings.part_one_in && ci_kone_in(2))
                break;
            tell_of_bytes(peer, moved);
            moved = 0;
            end_arrives(socket);
            continue;
        }
        size_t room = peer->in_most > peer->in.bytes ? peer->in_most - peer->in.bytes : 0,
               len = segment->len < room ? segment->len : room;
        if ((socket->stalled = !room))
            break;
        bool parted = len > 1 && (ci_kone_in(ci_k.settings.part_one_in) ||
                                  ci_world_fault(ci_k.world, socket->node, link->short_io,
                                                 "moves less than it could"));
        if (parted)
            len = 1 + ci_kbelow(len - 1);
        move(socket, len);
        moved += len;
        if (parted)
            break;
    }
    tell_of_bytes(peer, moved);
    tell_of_room(socket);
}

/* Bytes reached a socket that has been closed: it answers with a reset. */
static void reach_closed_peer(struct ci_ksocket *socket)
{
    bool only_end = socket->out.first->end;
    while (socket->out.first && socket->out.first->arrives <= ci_know()) {
        only_end &= socket->out.first->end;
        socket->end_arrived |= socket->out.first->end;
        free(ci_kqueue_pop(&socket->out));
    }
    tell_of_room(socket);
    if (!only_end && !ci_world_is_cut(ci_k.world, socket->peer_node, socket->node))
        ci_knetwork_deliver(socket, reset_arrives, socket);
}

static bool try_again(struct ci_ksocket *socket)
{
    coir_time wait = retransmission << socket->retries;
    if (++socket->retries > RETRIES) {
        ci_knetwork_become_reset(socket, ETIMEDOUT);
        return false;
    }
    schedule_pump(
        socket, ci_time_after(ci_know(), wait < retransmission_most ? wait : retransmission_most));
    return true;
}

/* The peer's host is dead. True: its heir's reset is on its way. */
static bool is_refused(struct ci_ksocket *socket)
{
    coir_time round;
    if (!ci_world_is_refused(ci_k.world, socket->node, socket->peer_node, &round))
        return false;
    ci_kqueue_drop(&socket->out);
    ci_kschedule(ci_time_after(ci_know(), round), reset_arrives, socket, 0);
    return true;
}

static void pump(void *arg, size_t number)
{
    (void)number;
    struct ci_ksocket *socket = arg;
    socket->pumps = false;
    if (!socket->out.first)
        return;
    if (socket->out.first->arrives > ci_know()) {
        schedule_pump(socket, socket->out.first->arrives);
        return;
    }
    if (ci_knetwork_is_cut(socket) || (socket->peer->listener && !socket->peer->queued)) {
        /* the link is cut, or the handshake has not ended */
        if (!is_refused(socket))
            try_again(socket);
        return;
    }
    socket->retries = 0;
    if (socket->peer->orphan || socket->peer->state != CI_KCONNECTED)
        reach_closed_peer(socket);
    else
        move_due(socket);
    if (socket->out.first && !socket->stalled) {
        coir_time soon = ci_kafter((uint64_t)pause_most), due = socket->out.first->arrives;
        schedule_pump(socket, due > soon ? due : soon);
    }
}

void ci_knetwork_send(struct ci_ksocket *socket, struct ci_ksegment *segment)
{
    segment->arrives = ci_knetwork_arrival(socket, segment->len);
    bool first = !socket->out.first;
    ci_kqueue_push(&socket->out, segment);
    if (first && !socket->pumps && ci_knetwork_link(socket)->latency <= fast &&
        ci_kone_in(ci_k.settings.at_once_one_in)) {
        segment->arrives = ci_know();
        pump(socket, 0);
    } else if (!socket->stalled) {
        schedule_pump(socket, segment->arrives);
    }
}

/* The window opens: the sender learns of it one latency later. A delayed acknowledgement may be
 * sent with it (tcp_cleanup_rbuf). */
void ci_knetwork_room(struct ci_ksocket *socket)
{
    struct ci_ksocket *peer = socket->peer;
    if (peer && peer->end_is_late && ci_kone_in(2))
        end_is_acknowledged(peer, 0);
    if (peer && peer->stalled && peer->out.first && socket->in.bytes < socket->in_most)
        schedule_pump(peer, ci_time_after(ci_know(), ci_knetwork_link(socket)->latency));
}

void ci_knetwork_links_changed(void)
{
    for (struct ci_ksocket *socket = ci_k.sockets; socket; socket = socket->next)
        if (socket->stalled && socket->out.first)
            schedule_pump(socket, ci_time_after(ci_know(), retransmission));
}
