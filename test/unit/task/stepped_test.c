/* A runtime whose workers have no threads: it does nothing but in the turns that it is given. */
#include "task/run.h"
#include "task/run_state.h"
#include "task/stepped.h"

#include <coir.h>
#include <errno.h>

#include "harness.h"
#include "sim/driver.h"
#include "sim/node.h"
#include "task/runtime.h"

static struct ci_world world;
static struct ci_node *node;

static int open_driver(void *arg, int worker, const coir_allocator *allocator,
                       struct ci_driver **ret_driver)
{
    (void)worker;
    (void)allocator;
    return arg ? -EIO : ci_sim_driver_open(&world, node, ret_driver);
}

static int turns;

static int count_turns(void *arg)
{
    (void)arg;
    turns++;
    coir_sleep_for(5 * COIR_MS);
    turns++;
    return 3;
}

TEST(runs_in_the_turns_that_it_is_given)
{
    coir_runtime *runtime;
    coir_config config = COIR_CONFIG;
    ci_world_init(&world, 1);
    CHECK((node = ci_world_add_node(&world, "host")));
    CHECK_EQ(ci_stepped_new(&config, &node->allocator, open_driver, "fails", &runtime), -EIO);
    CHECK_EQ(node->memory, 0);
    config.workers = 2;
    CHECK_EQ(ci_stepped_new(&config, &node->allocator, open_driver, NULL, &runtime), 0);
    CHECK_EQ(ci_stepped_next_timer(runtime), COIR_NEVER);
    CHECK_EQ(ci_runtime_begin(runtime, count_turns, NULL), 0);
    CHECK_EQ(turns, 0);
    for (int i = 0; i < 10; i++) /* until it sleeps */
        for (size_t w = 0; w < 2; w++)
            if (ci_stepped_has_work(runtime, w, world.now))
                ci_stepped_turn(runtime, w);
    CHECK_EQ(turns, 1);
    CHECK(!ci_stepped_has_work(runtime, 0, world.now) && !ci_run_ended(runtime));
    coir_time timer = ci_stepped_next_timer(runtime);
    CHECK(timer >= world.now + 5 * COIR_MS && timer < world.now + 6 * COIR_MS);
    world.now = timer;
    CHECK(ci_stepped_has_work(runtime, 0, world.now) || ci_stepped_has_work(runtime, 1, world.now));
    for (int i = 0; i < 10 && !ci_run_ended(runtime); i++)
        for (size_t w = 0; w < 2; w++)
            ci_stepped_turn(runtime, w);
    CHECK_EQ(turns, 2);
    CHECK_EQ(ci_runtime_result(runtime), 3);
    CHECK(ci_stepped_driver(runtime, 1)->kind->simulated);
    ci_run_settle(runtime);
    coir_runtime_free(runtime);
    CHECK_EQ(node->memory, 0);
    ci_world_done(&world);
}
