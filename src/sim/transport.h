/* Transport between the two ends of a stream, modelled on TCP. */
#ifndef CI_SIM_TRANSPORT_H
#define CI_SIM_TRANSPORT_H

#include "sim/socket.h"

/* The delay of a segment that was lost once, and the first retry interval on a cut link. */
static const coir_time ci_transport_retransmission = 200 * COIR_MS;

/* How many bytes may be under way, or not read yet by the peer. */
enum { CI_TRANSPORT_WINDOW = 64 * 1024 };

/* The link from this end to the peer, and whether it is cut. */
const coir_link *ci_transport_link(const struct ci_world *world, const struct ci_socket *socket);
bool ci_transport_is_cut(const struct ci_world *world, const struct ci_socket *socket);

/* The arrival time of `len` bytes that this end sends now. */
coir_time ci_transport_arrival(struct ci_world *world, struct ci_socket *socket, size_t len);

/* Schedules an event of the peer, at the time it arrives there: after everything that was sent
 * before. Owns `data`. */
void ci_transport_send(struct ci_world *world, struct ci_socket *socket, ci_socket_event_fn *what,
                       size_t amount, void *data);

/* Sends the peer a reset. A lost reset is not retransmitted. */
void ci_transport_send_reset(struct ci_world *world, struct ci_socket *socket);

/* This end is reset: its input is discarded, and `error` will be reported. */
void ci_transport_reset(struct ci_world *world, struct ci_socket *socket, int error);
void ci_transport_reset_arrives(struct ci_world *world, struct ci_socket *socket, size_t amount,
                                void *data);

/* A segment of this end reached no socket. `socket` NULL: this end has been closed as well. */
void ci_transport_unanswered(struct ci_world *world, struct ci_socket *socket);

/* The window of this end has become full, or a link has changed since: while nothing can tell it of
 * room, it asks, and times out as a segment does. */
void ci_transport_probe(struct ci_world *world, struct ci_socket *socket);

/* It has heard of room: its time begins anew. */
void ci_transport_probe_answered(struct ci_socket *socket);

void ci_transport_drop_outbox(struct ci_socket *socket);

#endif
