/* The clocks: which one each is, and how ticks relate to them. */
#include "sys/clock.h"

#include <stdlib.h>
#include <time.h>

#include "harness.h"

TEST(each_clock_is_the_systems)
{
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    coir_time now = ci_clock_now();
    clock_gettime(CLOCK_MONOTONIC, &after);
    CHECK(now >= before.tv_sec * COIR_S + before.tv_nsec);
    CHECK(now <= after.tv_sec * COIR_S + after.tv_nsec);
    CHECK(llabs(ci_clock_wall() / COIR_S - (long long)time(NULL)) <= 60);
}

TEST(a_sleep_is_not_shorter_than_asked)
{
    coir_time start = ci_clock_now();
    ci_clock_sleep(2 * COIR_MS);
    CHECK(ci_clock_now() - start >= 2 * COIR_MS);
}

TEST(ticks_grow_with_the_duration)
{
    uint64_t one = ci_clock_ticks_in(COIR_MS), ten = ci_clock_ticks_in(10 * COIR_MS);
    CHECK(one > 0);
    CHECK(ten / 10 >= one - 1 && ten / 10 <= one + 1); /* the rate is measured once */
    uint64_t start = ci_clock_ticks();
    ci_clock_sleep(COIR_MS);
    CHECK(ci_clock_ticks() > start);
}
