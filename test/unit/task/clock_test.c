/* The time, as tasks and plain threads ask for it. */
#include <coir.h>

#include "harness.h"

static void check_clock(void)
{
    coir_time before = coir_now();
    for (int i = 0; i < 1000; i++) {
        coir_time now = coir_now();
        CHECK(now >= before);
        before = now;
    }
    CHECK(coir_in(COIR_S) >= before + COIR_S);
    CHECK(coir_in(-COIR_S) >= before); /* no duration is negative */
    CHECK_EQ(coir_in(COIR_NEVER), COIR_NEVER);
}

TEST(on_a_plain_thread)
{
    check_clock();
}

TEST_REAL(in_a_task)
{
    check_clock();
}

TEST_SIM(in_the_simulator_time_stands_still_while_a_task_runs)
{
    check_clock();
    coir_time before = coir_now();
    CHECK_EQ(coir_in(COIR_S), before + COIR_S);
    CHECK_EQ(coir_sleep_for(COIR_S), 0);
    CHECK(coir_now() >= before + COIR_S);
}
