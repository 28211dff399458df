/* The answers that are kept: which, how many, for how long. */
#include "names.h"

static int ask_again(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(resolve_four("1.example:1"), 1);
        CHECK_EQ(resolve_four("1.EXAMPLE:2"), 1);
        CHECK_EQ(resolve_four("unknown:1"), -COIR_ENAME);
    }
    CHECK_EQ(asked(), 2);
    return 0;
}

TEST(answers_are_kept_also_that_a_name_is_unknown)
{
    config.name_cache_time = COIR_NEVER;
    run(ask_again, 1);
}

static int ask_more_than_is_kept(void *arg)
{
    static const char *const order[] = {"1.example:1", "2.example:1", "1.example:1", "3.example:1",
                                        "1.example:1"};
    (void)arg;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        CHECK_EQ(resolve_four(order[i]), 1);
    CHECK_EQ(asked(), 3); /* 1 was used after 2, which has gone */
    CHECK_EQ(resolve_four("2.example:1"), 1);
    CHECK_EQ(asked(), 4);
    return 0;
}

TEST(as_many_answers_are_kept_as_may_be)
{
    config.name_cache_max = 2;
    config.name_cache_time = COIR_NEVER;
    run(ask_more_than_is_kept, 1);
}

static int ask_when_it_is_too_old(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++)
        CHECK_EQ(resolve_four("1.example:1"), 1);
    CHECK_EQ(asked(), 3);
    return 0;
}

TEST(answers_are_asked_for_anew_when_they_are_too_old)
{
    config.name_cache_time = 1;
    run(ask_when_it_is_too_old, 1);
}

/* The files are looked at once a second. */
static int ask_after_files_changed(void *arg)
{
    (void)arg;
    CHECK_EQ(resolve_four("1.example:1"), 1);
    CHECK_EQ(coir_sleep_for(COIR_S + COIR_MS), 0);
    CHECK_EQ(resolve_four("1.example:1"), 1);
    CHECK_EQ(asked(), 1);
    pthread_mutex_lock(&sys.lock);
    sys.stamp++;
    pthread_mutex_unlock(&sys.lock);
    CHECK_EQ(coir_sleep_for(COIR_S + COIR_MS), 0);
    CHECK_EQ(resolve_four("1.example:1"), 1);
    CHECK_EQ(asked(), 2);
    return 0;
}

TEST(answers_are_asked_for_anew_when_the_files_change)
{
    config.name_cache_time = COIR_NEVER;
    run(ask_after_files_changed, 1);
}
