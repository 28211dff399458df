/* Histograms, the ages of what is queued, and turns by name. */
#include "task/stats.h"

#include <stdio.h>
#include <string.h>

#include "harness.h"

static struct ci_stats stats = {.ns_per_tick = (uint64_t)1 << 32};

static uint64_t count(const struct ci_histogram *histogram)
{
    uint64_t sum = 0;
    for (int i = 0; i < CI_STATS_BUCKETS; i++)
        sum += histogram->buckets[i];
    return sum;
}

TEST(a_bucket_is_below_a_power_of_two)
{
    struct ci_histogram histogram = {.sum = 0};
    ci_histogram_add(&histogram, 0);
    ci_histogram_add(&histogram, 1023);
    ci_histogram_add(&histogram, 1024);
    ci_histogram_add(&histogram, UINT64_MAX / 2);
    CHECK_EQ(histogram.buckets[1], 1);
    CHECK_EQ(histogram.buckets[10], 1);
    CHECK_EQ(histogram.buckets[11], 1);
    CHECK_EQ(histogram.buckets[CI_STATS_BUCKETS - 1], 1);
}

TEST(what_is_queued_first_begins_first)
{
    ci_stats_began(&stats, NULL, 5); /* of what nothing is known */
    CHECK_EQ(count(&stats.delays), 0);
    ci_stats_queued(&stats, 100, 2, false);
    ci_stats_queued(&stats, 100, 0, false);
    ci_stats_queued(&stats, 200, 1, true);
    ci_stats_began(&stats, NULL, 110);
    ci_stats_began(&stats, NULL, 120);
    CHECK_EQ(stats.delays.sum, 10 + 20);
    CHECK_EQ(stats.poll_delays.sum, 0);
    ci_stats_began(&stats, NULL, 250);
    CHECK_EQ(stats.poll_delays.sum, 50);
    CHECK_EQ(count(&stats.delays), 2);
    CHECK_EQ(count(&stats.poll_delays), 1);
    ci_stats_began(&stats, NULL, 300);
    CHECK_EQ(count(&stats.delays) + count(&stats.poll_delays), 3);
}

/* Counters of CPUs may differ, and those of virtual machines jump when they move. */
TEST(time_does_not_go_backwards)
{
    ci_stats_queued(&stats, 100, 1, false);
    ci_stats_began(&stats, NULL, 90);
    ci_stats_ended(&stats, NULL, 90, 80);
    CHECK_EQ(stats.delays.sum, 0);
    CHECK_EQ(stats.turns.sum, 0);
    CHECK_EQ(stats.delays.buckets[1] + stats.turns.buckets[1], 2);
}

TEST(every_turn_of_a_long_queue_counts)
{
    enum { MANY = 3 * CI_STATS_BATCHES };
    for (unsigned i = 0; i < MANY; i++)
        ci_stats_queued(&stats, i, 1, false);
    for (unsigned i = 0; i < MANY; i++)
        ci_stats_began(&stats, NULL, MANY);
    CHECK_EQ(count(&stats.delays), MANY);
    ci_stats_queued(&stats, MANY, 1, true);
    ci_stats_began(&stats, NULL, MANY + 1);
    CHECK_EQ(count(&stats.poll_delays), 1);
}

TEST(turns_count_by_name)
{
    char same[] = "one";
    ci_stats_ended(&stats, ci_stats_of(&stats, "one", false), 100, 100 + 10);
    ci_stats_ended(&stats, ci_stats_of(&stats, same, false), 100, 100 + 30);
    ci_stats_ended(&stats, ci_stats_of(&stats, NULL, false), 100, 100 + 5);
    ci_stats_ended(&stats, ci_stats_of(&stats, "", false), 100, 100 + 5);
    uint64_t turns = 0, sum = 0, max = 0;
    for (int i = 0; i <= CI_STATS_NAMES; i++) {
        const struct ci_stats_name *entry = &stats.names[i];
        CHECK(!entry->turns || strcmp(entry->name, "one") == 0);
        turns += entry->turns;
        sum += entry->lengths.sum;
        max = entry->max > max ? entry->max : max;
    }
    CHECK_EQ(turns, 2);
    CHECK_EQ(sum, 40);
    CHECK_EQ(max, 30);
    CHECK_EQ(count(&stats.turns), 4);
}

TEST(delays_count_by_name)
{
    struct ci_stats_name *name = ci_stats_of(&stats, "one", false);
    ci_stats_queued(&stats, 100, 2, false);
    ci_stats_queued(&stats, 200, 1, true);
    ci_stats_began(&stats, name, 110);
    ci_stats_began(&stats, NULL, 120);
    ci_stats_began(&stats, name, 10200);
    CHECK_EQ(name->delays.sum, 10 + 10000);
    CHECK_EQ(name->delays.buckets[ci_coarse_bucket(10)], 1);
    CHECK_EQ(name->delays.buckets[ci_coarse_bucket(10000)], 1);
    CHECK_EQ(name->lengths.sum, 0);
}

TEST(names_that_find_no_room_count_together)
{
    static char names[1000][20];
    for (int i = 0; i < 1000; i++) {
        snprintf(names[i], sizeof names[i], "name %d", i);
        ci_stats_ended(&stats, ci_stats_of(&stats, names[i], false), 100, 100 + 1);
    }
    uint64_t turns = 0;
    for (int i = 0; i <= CI_STATS_NAMES; i++)
        turns += stats.names[i].turns;
    CHECK_EQ(turns, 1000);
    CHECK(stats.names[CI_STATS_NAMES].turns >= 1000 - CI_STATS_NAMES);
}

/* Later turns of a task do not compare its name, and memory of one name may get another. */
TEST(a_name_in_the_memory_of_another_one_counts_as_itself)
{
    char name[] = "before";
    struct ci_stats_name *before = ci_stats_of(&stats, name, true);
    CHECK(ci_stats_of(&stats, name, false) == before);
    memcpy(name, "after!", sizeof name);
    struct ci_stats_name *after = ci_stats_of(&stats, name, true); /* of another task */
    CHECK(after != before);
    CHECK(strcmp(after->name, "after!") == 0);
    memcpy(name, "anew!!", sizeof name);
    ci_stats_renamed(&stats, name);
    CHECK(strcmp(ci_stats_of(&stats, name, false)->name, "anew!!") == 0);
    memcpy(name, "traced", sizeof name);
    ci_stats_begin(&stats);
    CHECK(strcmp(ci_stats_of(&stats, name, false)->name, "traced") == 0);
}

TEST(a_long_name_is_kept_up_to_a_whole_character)
{
    static const char name[] = "123456789012345678901234567890\xc3\xb6 and more";
    struct ci_stats_name *entry = ci_stats_find(&stats, name);
    CHECK_EQ(strcmp(entry->name, "123456789012345678901234567890"), 0);
    memset(stats.known, 0, sizeof stats.known);
    CHECK(ci_stats_find(&stats, name) == entry);
}

/* A name may be another copy of the same for each task: they take one place. */
TEST(copies_of_a_name_leave_room_for_others)
{
    static char copies[100 * CI_STATS_NAMES][8];
    struct ci_stats_name *first = NULL;
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++) {
        strcpy(copies[i], "copy");
        struct ci_stats_name *entry = ci_stats_of(&stats, copies[i], true);
        first = first ? first : entry;
        CHECK(entry == first);
    }
    struct ci_stats_name *other = ci_stats_of(&stats, "other", true);
    CHECK(ci_stats_is_named(&stats, other) && other != first);
}
