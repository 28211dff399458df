/* What a scenario is: one function in a program of its own, whose main is scenario.c. */
#ifndef TEST_SIM_SCENARIO_H
#define TEST_SIM_SCENARIO_H

#include <coir/sim.h>

/* Called for each seed of the campaign (coir_sim_main). */
int scenario(coir_sim *sim);

/* What the campaign was told, for what one driver alone cannot do. */
extern const char *scenario_driver;

#endif
