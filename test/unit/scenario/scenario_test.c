/* One run of a scenario: its options, its result, and its random numbers. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "harness.h"

static int draw(coir_sim *sim, void *arg)
{
    *(uint64_t *)arg = coir_sim_random(sim);
    return 5;
}

TEST(numbers_are_from_the_seed)
{
    uint64_t a, b, c;
    coir_sim_options options = test_sim_options(1, 1);
    CHECK_EQ(coir_sim_run(&options, draw, &a, NULL), 5);
    CHECK_EQ(coir_sim_run(&options, draw, &b, NULL), 5);
    options.seed = 2;
    CHECK_EQ(coir_sim_run(&options, draw, &c, NULL), 5);
    CHECK(a == b && a != c);
}

TEST(options_are_checked)
{
    uint64_t number;
    coir_sim_options options = test_sim_options(1, 257);
    CHECK_EQ(coir_sim_run(&options, draw, &number, NULL), -EINVAL);
    options.workers = 256;
    CHECK_EQ(coir_sim_run(&options, draw, &number, NULL), 5);
    options.time_max = -1;
    CHECK_EQ(coir_sim_run(&options, draw, &number, NULL), -EINVAL);
    options.size = 1;
    CHECK_EQ(coir_sim_run(&options, draw, &number, NULL), -COIR_EUNSIZED);
    CHECK_EQ(coir_sim_run(NULL, draw, &number, NULL), 5);
    coir_sim_result result = {0};
    CHECK_EQ(coir_sim_run(NULL, draw, &number, &result), -COIR_EUNSIZED);
}

static int sleep_one_second(void *arg)
{
    (void)arg;
    return coir_sleep_for(COIR_S);
}

static int with_faults(coir_sim *sim, void *arg)
{
    (void)arg;
    coir_sim_faults(sim, NULL, (coir_faults){.late = 1});
    return coir_sim_host_main(sim, "host", sleep_one_second, NULL);
}

TEST(a_result_is_as_long_as_the_program_knows_it)
{
    coir_sim_options options = test_sim_options(1, 1);
    coir_sim_result result = COIR_SIM_RESULT, part;
    CHECK_EQ(coir_sim_run(&options, with_faults, NULL, &result), 0);
    CHECK(result.steps > 0 && result.trace_hash && result.time >= 2 * COIR_S);
    memset(&part, 0xff, sizeof part);
    part.size = offsetof(coir_sim_result, time);
    CHECK_EQ(coir_sim_run(&options, with_faults, NULL, &part), 0);
    CHECK(part.trace_hash == result.trace_hash && part.steps == result.steps);
    CHECK_EQ(part.time, -1); /* untouched */
    CHECK_EQ(part.left[0], (char)0xff);
}
