/* The latest value: some may be missed, none comes twice, late or half. */
#include <coir.h>
#include <errno.h>

#include "unit/sync/everywhere.h"

struct news {
    coir_latest *latest;
    int heard;
};
static int hear(void *arg)
{
    struct news *news = arg;
    int value = 0, last = 0, rc;
    uint64_t seen = 0;
    while ((rc = coir_latest_wait(news->latest, seen)) == 0) {
        seen = coir_latest_get(news->latest, &value);
        CHECK(value >= last); /* some may be missed, none comes twice or late */
        last = value;
    }
    CHECK_EQ(rc, -EPIPE);
    CHECK_EQ(last, 50);
    __atomic_add_fetch(&news->heard, 1, __ATOMIC_SEQ_CST);
    return 0;
}

static void tell(void)
{
    struct news news = {0};
    int value = 0;
    CHECK_EQ(coir_latest_new(sizeof value, &value, &news.latest), 0);
    COIR_SCOPE(scope);
    for (int i = 0; i < 6; i++)
        coir_go_on(scope, i % workers(), hear, &news);
    for (value = 1; value <= 50; value++) {
        coir_latest_set(news.latest, &value);
        if (value % 7 == 0)
            coir_yield();
    }
    coir_latest_close(news.latest);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(news.heard, 6);
    coir_latest_free(news.latest);
}

TEST(the_last_value_reaches_all)
{
    everywhere(tell);
}

TEST_SIM(a_wait_is_for_another_version)
{
    coir_latest *latest;
    coir_wait_op op;
    int value = 5, got = 0;
    CHECK_EQ(coir_latest_new(sizeof value, &value, &latest), 0);
    uint64_t first = coir_latest_get(latest, &got);
    CHECK(first == 1 && got == 5);
    CHECK_EQ(coir_latest_wait(latest, 0), 0);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_latest_wait(latest, first), -ETIME);
    }
    coir_case cases[] = {coir_case_latest(latest, first), coir_case_after(COIR_MS)};
    CHECK_EQ(coir_select_in_order(cases, 2), 1);
    value = 6;
    coir_latest_set(latest, &value);
    CHECK_EQ(coir_select_in_order(cases, 2), 0);
    CHECK_EQ(coir_await(coir_latest_wait_op(&op, latest, first)), 0);
    CHECK_EQ(coir_latest_get(latest, &got), 2);
    CHECK_EQ(got, 6);
    coir_latest_close(latest);
    CHECK_EQ(coir_latest_wait(latest, first), 0); /* a value that was not seen comes first */
    CHECK_EQ(coir_latest_wait(latest, 2), -EPIPE);
    value = 7;
    coir_latest_set(latest, &value); /* too late: the last value stays the last */
    CHECK_EQ(coir_latest_wait(latest, 2), -EPIPE);
    CHECK_EQ(coir_latest_get(latest, &got), 2);
    CHECK_EQ(got, 6);
    coir_latest_free(latest);
    coir_latest_free(NULL);
}

static int wait_to_the_end(void *arg)
{
    CHECK_EQ(coir_latest_wait(arg, 1), -EPIPE);
    return 0;
}

TEST_REAL(a_close_ends_those_who_wait)
{
    coir_latest *latest;
    int value = 0;
    CHECK_EQ(coir_latest_new(sizeof value, &value, &latest), 0);
    {
        COIR_SCOPE(scope);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(coir_go(scope, wait_to_the_end, latest), 0);
        coir_yield();
        coir_latest_close(latest);
        coir_latest_close(latest);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    coir_latest_free(latest);
}
