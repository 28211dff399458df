/* What a burst of tasks leaves goes back when it is quiet: the look of a worker at its pools. */
#include <coir.h>
#include <coir/loop.h>
#include <errno.h>
#include <time.h>

#include "harness.h"

static int sleep_a_little(void *arg)
{
    (void)arg;
    return coir_sleep_for(COIR_MS);
}

static coir_counters counters(void)
{
    coir_counters now = COIR_COUNTERS;
    coir_counters_get(coir_runtime_current(), &now);
    return now;
}

static int sleep_longer(void *arg)
{
    (void)arg;
    return coir_sleep_for(3 * COIR_S);
}

/* Once it is quiet, the stacks that only the burst needed go back; those of the first mapping
 * stay, and what is left can be used. */
static void burst(coir_task_fn *sleep)
{
    enum { BURST = 12000 };
    for (int round = 0; round < 3; round++) {
        {
            COIR_SCOPE(scope);
            for (int i = 0; i < BURST; i++)
                CHECK_EQ(coir_go(scope, sleep, NULL), 0);
            CHECK_EQ(coir_scope_wait(scope), 0);
        }
        /* at once all of them are kept: another burst may come */
        CHECK(counters().stacks_cached >= BURST);
        coir_sleep_for(10 * COIR_S);
        CHECK(counters().stacks_cached < 1000);
        CHECK_EQ(counters().stacks_live, 1);
    }
}

TEST_SIM(the_stacks_of_a_burst_go_back_when_it_is_quiet)
{
    burst(sleep_a_little);
}

/* The same when the first looks found everything in use. */
TEST_SIM(the_stacks_of_a_long_burst_go_back_too)
{
    burst(sleep_longer);
}
