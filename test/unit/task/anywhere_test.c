/* Tasks that any worker may run. */
#include <coir.h>
#include <coir/sim.h>

#include "harness.h"

static int total;

static int add_one(void *arg)
{
    (void)arg;
    coir_sleep_for(10 * COIR_US);
    __atomic_fetch_add(&total, 1, __ATOMIC_RELAXED);
    return 0;
}

static void spread(void)
{
    COIR_SCOPE(scope);
    total = 0;
    for (int i = 0; i < 500; i++)
        CHECK_EQ(coir_go_anywhere(scope, add_one, NULL), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(total, 500);
}

TEST(tasks_for_anybody_all_run)
{
    for (int i = 0; i < 20; i++)
        test_in_runtime(spread, 3);
    for (uint64_t seed = 1; seed <= 50; seed++)
        test_in_sim(spread, 3, seed);
}
