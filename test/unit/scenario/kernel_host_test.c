/* Hosts on a simulated kernel are refused by a library that has none. Those of one that has are
 * tested in test/kernel/world_test.c, and by every campaign with --driver. */
#include <coir/sim.h>
#include <errno.h>

#include "harness.h"

static int never(coir_sim *sim, void *arg)
{
    (void)sim;
    (void)arg;
    test_fail(__FILE__, __LINE__, "the scenario runs");
}

TEST(need_a_simulated_kernel)
{
    coir_sim_options options = test_sim_options(1, 1);
    options.driver = "epoll";
    CHECK_EQ(coir_sim_run(&options, never, NULL, NULL), -ENOTSUP);
    options.driver = "no such driver";
    CHECK_EQ(coir_sim_run(&options, never, NULL, NULL), -ENOTSUP);
}
