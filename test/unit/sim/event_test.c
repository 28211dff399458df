/* Events happen in the order of their time, then of their making. */
#include <stdlib.h>

#include "net.h"

static size_t happened[64], count;

static void note(void *arg, size_t amount)
{
    (void)arg;
    CHECK(count < 64);
    happened[count++] = amount;
}

TEST(by_time_then_by_making)
{
    struct ci_world world;
    ci_world_init(&world, 1);
    static const coir_time when[] = {5, 1, 3, 1, 4, 1, 2};
    static const size_t order[] = {1, 3, 5, 6, 2, 4, 0};
    coir_time start = world.now;
    for (size_t i = 0; i < 7; i++)
        ci_world_call(&world, start + when[i], note, NULL, i, NULL);
    CHECK_EQ(ci_world_next_event(&world), start + 1);
    world.now = start + 4;
    ci_world_run_due(&world); /* but not what comes later */
    CHECK_EQ(count, 6);
    CHECK_EQ(ci_world_next_event(&world), start + 5);
    world.now = start + 5;
    ci_world_run_due(&world);
    for (size_t i = 0; i < 7; i++)
        CHECK_EQ(happened[i], order[i]);
    CHECK_EQ(ci_world_next_event(&world), COIR_NEVER);
    ci_world_done(&world);
}

static struct ci_world *chained;

static void schedule_one_now(void *arg, size_t amount)
{
    (void)arg;
    ci_world_call(chained, chained->now, note, NULL, amount, NULL);
}

TEST(what_is_due_at_once_happens_in_the_same_round)
{
    struct ci_world world;
    ci_world_init(&world, 1);
    chained = &world;
    ci_world_call(&world, world.now, schedule_one_now, NULL, 7, NULL);
    ci_world_run_due(&world);
    CHECK_EQ(count, 1);
    CHECK_EQ(happened[0], 7);
    ci_world_done(&world);
}

/* Memory of an event that never happens is freed with the world: the sanitizer would tell. */
TEST(what_never_happens_is_freed)
{
    struct ci_world world;
    ci_world_init(&world, 1);
    char *data = malloc(10);
    ci_world_call(&world, COIR_NEVER - 1, note, NULL, 0, data);
    ci_world_done(&world);
    CHECK_EQ(count, 0);
}
