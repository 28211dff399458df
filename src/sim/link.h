/* The links between the hosts of a simulated world.
 *
 * 1. Nothing arrives before it was sent.
 */
#ifndef CI_SIM_LINK_H
#define CI_SIM_LINK_H

#include "sim/world.h"

/* Sets the link between `a` and `b` (NULL: every host); a later call overrides earlier ones. */
void ci_world_link(struct ci_world *world, const struct ci_node *a, const struct ci_node *b,
                   const coir_link *link);

/* The link from `a` to `b`; whether it is cut, so that nothing arrives. */
const coir_link *ci_world_find_link(const struct ci_world *world, const struct ci_node *a,
                                    const struct ci_node *b);
bool ci_world_is_cut(const struct ci_world *world, const struct ci_node *a,
                     const struct ci_node *b);

/* Whether a segment from `a` to `b`, which is dead, gets to its heir, and an answer back: a reset,
 * as the heir knows of no connection. *ret_round: how long that takes. */
bool ci_world_is_refused(const struct ci_world *world, const struct ci_node *a,
                         const struct ci_node *b, coir_time *ret_round);

/* When the last of `len` bytes that `a` sends to `b` now has left `a`, given the link's bandwidth.
 * The bytes occupy the link until then. */
coir_time ci_world_sent_at(struct ci_world *world, const struct ci_node *a, const struct ci_node *b,
                           size_t len);

/* When they arrive at `b`: that time, plus the link's latency and jitter. */
coir_time ci_world_arrival(struct ci_world *world, const struct ci_node *a, const struct ci_node *b,
                           size_t len);

void ci_world_free_links(struct ci_world *world);

#endif
