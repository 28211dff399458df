/* Occasions for faults are numbered; those that were taken can be taken again, or left out. */
#include "sim/fault.h"

#include "net.h"

enum { OCCASIONS = 1000 };

static unsigned run(uint64_t seed, const uint32_t *chosen, size_t chosen_count, uint32_t *ret_taken)
{
    struct ci_world world;
    size_t count = 0;
    ci_world_init(&world, seed);
    world.faults.count = &count;
    world.faults.taken = ret_taken;
    world.faults.room = OCCASIONS;
    world.faults.chosen = chosen;
    world.faults.chosen_count = chosen_count;
    world.faults.choose = chosen != NULL;
    for (int i = 0; i < OCCASIONS; i++)
        ci_world_fault(&world, NULL, 0.1, "something");
    CHECK_EQ(ci_world_fault(&world, NULL, 0, "never"), false);
    CHECK_EQ(world.faults.asked, OCCASIONS); /* what is not possible is no occasion */
    ci_world_done(&world);
    return (unsigned)count;
}

TEST(are_drawn_and_replayed)
{
    static uint32_t taken[OCCASIONS], again[OCCASIONS];
    unsigned count = run(5, NULL, 0, taken);
    CHECK(count > 50 && count < 150);
    for (unsigned i = 1; i < count; i++)
        CHECK(taken[i - 1] < taken[i]);
    CHECK_EQ(run(5, taken, count, again), count);
    CHECK_EQ(memcmp(taken, again, count * sizeof *taken), 0);
    CHECK_EQ(run(5, taken + 1, count - 1, again), count - 1);
    CHECK_EQ(again[0], taken[1]);
}

TEST(befall_no_host_that_boots)
{
    struct net net;
    net_open(&net, 1);
    net.a->boots = true;
    CHECK_EQ(ci_world_fault(&net.world, net.a, 1, "anything"), false);
    net.a->boots = false;
    CHECK_EQ(ci_world_fault(&net.world, net.a, 1, "anything"), true);
    net_close(&net);
}

TEST(a_short_count_is_at_least_one)
{
    struct net net;
    net_open(&net, 1);
    bool short_of[10] = {0};
    for (int i = 0; i < 1000; i++) {
        size_t len = ci_world_shorten(&net.world, net.a, 1, 10, "short");
        CHECK(len >= 1 && len < 10);
        short_of[len] = true;
    }
    for (size_t len = 1; len < 10; len++)
        CHECK(short_of[len]);
    CHECK_EQ(ci_world_shorten(&net.world, net.a, 1, 1, "short"), 1);
    CHECK_EQ(ci_world_shorten(&net.world, net.a, 0, 10, "short"), 10);
    net_close(&net);
}
