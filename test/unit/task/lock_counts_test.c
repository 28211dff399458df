/* Names of locks, and what is counted by them. (What counts is tested with the locks: mutex_test.c,
 * shared_mutex_test.c, semaphore_test.c.) */
#include "task/lock_counts.h"

#include <stdio.h>
#include <string.h>

#include "harness.h"

static char bytes[1 << 18];

static const char *read_all(void)
{
    struct ci_metrics_text text = {bytes, sizeof bytes, 0};
    bytes[0] = '\0';
    ci_lock_counts_put(&text);
    return bytes;
}

TEST(without_names_nothing_is_said)
{
    CHECK_EQ(*read_all(), '\0');
    CHECK(!ci_lock_name(0));
}

TEST(waits_count_by_name)
{
    uint8_t number = ci_lock_number("visits");
    CHECK(number != 0);
    CHECK_EQ(ci_lock_number("visits"), number);
    CHECK_EQ(strcmp(ci_lock_name(number), "visits"), 0);
    uint64_t since = ci_lock_wait_begins(number);
    ci_lock_wait_begins(number); /* one that is cancelled */
    ci_lock_wait_ended(number, since);
    ci_lock_wait_ended(number, 0); /* one that began before there was a name */
    CHECK(strstr(read_all(), "coir_lock_waits_total{lock=\"visits\"} 2\n"));
    CHECK(strstr(bytes, "coir_lock_wait_seconds_count{lock=\"visits\"} 1\n"));
}

TEST(a_name_is_cut_and_there_are_so_many)
{
    char name[100];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    uint8_t number = ci_lock_number(name);
    CHECK(number != 0);
    CHECK_EQ(strlen(ci_lock_name(number)), CI_LOCK_NAME - 1);
    CHECK_EQ(ci_lock_number(name), number);
    int found = 0;
    for (int i = 0; i < 2 * CI_LOCK_NAMES; i++) {
        snprintf(name, sizeof name, "lock %d", i);
        found += ci_lock_number(name) != 0;
    }
    CHECK(found > 0 && found < CI_LOCK_NAMES);
    CHECK_EQ(ci_lock_number("one more"), 0);
    CHECK(ci_lock_number("lock 0") != 0);
}
