/* The main of each scenario. */
#include "scenario.h"

#include "chance.h"

static int run(coir_sim *sim, void *arg)
{
    (void)arg;
    chance_init(sim);
    return scenario(sim);
}

int main(int argc, char **argv)
{
    return coir_sim_main(argc, argv, run, NULL);
}
