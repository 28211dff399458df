/* What a scenario draws from its seed. */
#ifndef TEST_SIM_CHANCE_H
#define TEST_SIM_CHANCE_H

#include <coir/sim.h>
#include <stdint.h>

/* The simulation whose seed is drawn from, before all else. */
void chance_init(coir_sim *sim);

uint64_t below(uint64_t bound);

/* Every other time nothing, else up to `most`. */
double some(double most);

#endif
