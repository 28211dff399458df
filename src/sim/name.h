/* Name resolution in the simulated world. */
#ifndef CI_SIM_NAME_H
#define CI_SIM_NAME_H

#include "sim/world.h"
#include "sys/lookup.h"

int ci_world_set_name(struct ci_world *world, const char *name, const coir_name_answer *answer);
void ci_world_free_names(struct ci_world *world);

/* The answer of the name servers, and how long it takes: 0 or an error. */
int ci_world_resolve(const struct ci_world *world, const char *host, int family,
                     struct ci_ips *ret_ips, coir_time *ret_delay);

#endif
