/* What TCP does between the two ends of a stream. */
#ifndef CI_SIM_TRANSPORT_H
#define CI_SIM_TRANSPORT_H

#include "sim/socket.h"

/* How long a lost segment is late, and the first wait of what a cut link holds up. */
static const coir_time ci_transport_retransmission = 200 * COIR_MS;

/* The link from this end to the peer, and whether it is cut. */
const coir_link *ci_transport_link(const struct ci_world *world, const struct ci_socket *socket);
bool ci_transport_is_cut(const struct ci_world *world, const struct ci_socket *socket);

/* When `len` bytes that this end sends now arrive. */
coir_time ci_transport_arrival(struct ci_world *world, struct ci_socket *socket, size_t len);

/* Lets `what` happen to the peer when it arrives there, after all that was sent before it. Owns
 * `data`. */
void ci_transport_send(struct ci_world *world, struct ci_socket *socket, ci_socket_event_fn *what,
                       size_t amount, void *data);

/* Sends the peer a reset; one that is lost is never sent again. */
void ci_transport_send_reset(struct ci_world *world, struct ci_socket *socket);

/* This end is reset: its input is gone, and `error` is to be reported. */
void ci_transport_reset(struct ci_world *world, struct ci_socket *socket, int error);
void ci_transport_reset_arrives(struct ci_world *world, struct ci_socket *socket, size_t amount,
                                void *data);

/* What this end sent has met no socket. NULL: neither is this end there any more. */
void ci_transport_unanswered(struct ci_world *world, struct ci_socket *socket);

void ci_transport_drop_outbox(struct ci_socket *socket);

#endif
