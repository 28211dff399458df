/* The main of each scenario. */
#include "scenario.h"

#include <string.h>

#include "chance.h"

const char *scenario_driver = "sim";

static int run(coir_sim *sim, void *arg)
{
    (void)arg;
    chance_init(sim);
    return scenario(sim);
}

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--driver") == 0)
            scenario_driver = argv[i + 1];
    return coir_sim_main(argc, argv, run, NULL);
}
