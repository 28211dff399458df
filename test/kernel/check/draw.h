/* What the files that draw calls share: check.h. */
#ifndef TEST_KERNEL_DRAW_H
#define TEST_KERNEL_DRAW_H

#include "check.h"

/* A slot of that kind; SLOTS: there is none. */
uint8_t pick(const struct game *game, struct ci_random *random, enum kind kind);

static inline uint32_t below(struct ci_random *random, uint32_t bound)
{
    return (uint32_t)ci_random_below(random, bound);
}

/* bytes of a stream, but for OP_FILL */
enum { SENT_MAX = 8000 };

/* Whether a ring may receive from this slot, too. */
bool may_receive(const struct game *game, uint8_t at);

/* Streams of both families; the slot of the peer, or SLOTS, is the step's. */
bool may_fill(const struct game *game, struct step *step, uint8_t to);
bool may_drain(struct game *game, struct step *step, uint8_t of);
uint32_t draw_send_flags(struct ci_random *random);
bool draw_ring_receive(const struct game *game, struct ci_random *random, struct step *step);

/* draw_families.c: forms of addresses (check.h), in programs that have IPv6 sockets. A socket gets
 * a port of another one, or SLOTS. False: what the model does not say. */
bool has_families(const struct game *game);
void draw_bound(const struct game *game, struct ci_random *random, struct step *step);
void draw_peer_form(struct ci_random *random, struct step *step);
bool draw_datagram_form(const struct game *game, struct ci_random *random, struct step *step);
/* Of listeners or datagram sockets, also closed ones, one whose port was free at every address. */
uint8_t pick_free_everywhere(const struct game *game, struct ci_random *random, enum kind kind);

/* draw_unix.c: programs about Unix sockets. */
bool is_about_unix(const struct game *game);
bool draw_on_unix(struct game *game, struct ci_random *random, struct step *step);
bool draw_unix_beginning(const struct game *game, enum mode mode, struct step *ret_step);

#endif
