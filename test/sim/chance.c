#include "chance.h"

static coir_sim *world;

void chance_init(coir_sim *sim)
{
    world = sim;
}

uint64_t below(uint64_t bound)
{
    return coir_sim_random(world) % bound;
}

double some(double most)
{
    return below(2) ? 0 : most * (double)below(100) / 100;
}
