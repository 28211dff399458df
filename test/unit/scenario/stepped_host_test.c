/* Hosts that the world steps: all workers of all hosts, in an order from the seed; and time that
 * moves only when none has anything to do. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <string.h>

#include "harness.h"

static char order[100];

static int note(void *arg)
{
    for (int i = 0; i < 4; i++) {
        strncat(order, arg, 1);
        coir_yield();
    }
    return 0;
}

static int two_hosts(coir_sim *sim, void *arg)
{
    (void)arg;
    order[0] = '\0';
    CHECK(coir_sim_host(sim, "a", note, "a"));
    CHECK_EQ(coir_sim_host_main(sim, "b", note, "b"), 0);
    return 0;
}

TEST(the_order_is_the_seeds)
{
    char first[100];
    bool differs = false;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        coir_sim_options options = test_sim_options(seed, 1);
        CHECK_EQ(coir_sim_run(&options, two_hosts, NULL, NULL), 0);
        strcpy(first, order);
        CHECK_EQ(coir_sim_run(&options, two_hosts, NULL, NULL), 0);
        CHECK_EQ(strcmp(first, order), 0);
        differs |= strncmp(order, "aaaabbbb", 8) != 0 && strncmp(order, "bbbbaaaa", 8) != 0;
    }
    CHECK(differs);
}

static int count_time(void *arg)
{
    coir_time *start = arg;
    *start = coir_now();
    for (int i = 0; i < 1000; i++)
        coir_yield();
    CHECK_EQ(coir_now(), *start); /* work takes no time */
    coir_sleep_for(3 * COIR_S);
    return coir_now() == *start + 3 * COIR_S ? 0 : -EIO;
}

static int sleep_for_ever(void *arg)
{
    (void)arg;
    coir_event event = COIR_EVENT_INIT;
    return coir_event_wait(&event);
}

static int main_of(coir_sim *sim, void *arg)
{
    coir_time start;
    return coir_sim_host_main(sim, "host", arg ? sleep_for_ever : count_time, &start);
}

TEST(time_moves_only_when_there_is_nothing_to_do)
{
    coir_sim_options options = test_sim_options(1, 1);
    CHECK_EQ(coir_sim_run(&options, main_of, NULL, NULL), 0);
}

TEST(what_can_never_end_is_a_deadlock_and_what_takes_too_long_times_out)
{
    coir_sim_options options = test_sim_options(1, 1);
    CHECK_EQ(coir_sim_run(&options, main_of, "for ever", NULL), -EDEADLK);
    options.time_max = 2 * COIR_S; /* the world begins at 1 s */
    CHECK_EQ(coir_sim_run(&options, main_of, NULL, NULL), -ETIME);
}

static void note_call(void *arg)
{
    *(bool *)arg = true;
}

static int post_and_end(void *arg)
{
    return coir_runtime_post(coir_runtime_current(), 1, note_call, arg);
}

static int post_to_another(coir_sim *sim, void *arg)
{
    (void)arg;
    bool called = false;
    CHECK_EQ(coir_sim_host_main(sim, "host", post_and_end, &called), 0);
    CHECK(called);
    return 0;
}

TEST(calls_that_were_posted_before_the_end_are_made)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        coir_sim_options options = test_sim_options(seed, 2);
        CHECK_EQ(coir_sim_run(&options, post_to_another, NULL, NULL), 0);
    }
}
