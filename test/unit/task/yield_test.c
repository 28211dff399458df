/* Yielding: by request, and when the budget is spent. */
#include <coir.h>
#include <string.h>

#include "harness.h"

static int read_for_ever(void *arg)
{
    char byte;
    coir_stream *stream = arg;
    while (coir_read(stream, &byte, 1) == 1) /* always ready: never parks by itself */
        continue;
    return 0;
}

TEST_REAL(a_fiber_that_is_always_ready_yields_after_its_budget)
{
    coir_stream *a, *b;
    char data[1000] = "";
    int flag = 0;
    CHECK_EQ(coir_duplex(1000, &a, &b), 0);
    CHECK_EQ(coir_try_write(a, data, sizeof data), 1000);
    COIR_SCOPE(scope);
    coir_go(scope, read_for_ever, b);
    coir_yield();
    flag = (int)coir_try_write(a, data, sizeof data);
    CHECK(flag > 0 && flag < 1000); /* it was stopped in the middle */
    coir_close(a);
    coir_scope_wait(scope);
    coir_close(b);
}

static int set_flag(void *arg)
{
    *(bool *)arg = true;
    return 0;
}

TEST_REAL(a_fiber_that_awaits_what_is_complete_yields_after_its_budget)
{
    coir_event event = COIR_EVENT_INIT;
    coir_event_set(&event);
    bool flag = false;
    COIR_SCOPE(scope);
    coir_go(scope, set_flag, &flag);
    int rounds = 0;
    while (!flag && rounds < 10000) {
        coir_wait_op wait;
        coir_branch branch = COIR_BRANCH(coir_event_wait_op(&wait, &event));
        CHECK_EQ(coir_any(&branch, 1), 0);
        rounds++;
    }
    CHECK(rounds > 1 && rounds < 10000);
}

static char order[16];

static int write_thrice(void *letter)
{
    for (int i = 0; i < 3; i++) {
        strncat(order, letter, 1);
        CHECK_EQ(coir_yield(), 0);
    }
    return 0;
}

TEST_REAL(those_that_yield_take_turns)
{
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, write_thrice, "a"), 0);
    CHECK_EQ(coir_go(scope, write_thrice, "b"), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK(strcmp(order, "ababab") == 0);
}

/* Takes a mutex until another task has run. */
static int count_operations(void *arg)
{
    size_t *count = arg;
    coir_mutex mutex = COIR_MUTEX_INIT;
    bool flag = false;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, set_flag, &flag), 0);
    while (!flag) {
        CHECK_EQ(coir_mutex_lock(&mutex), 0);
        coir_mutex_unlock(&mutex);
        ++*count;
    }
    return coir_scope_wait(scope);
}

TEST(a_budget_is_as_many_operations)
{
    static const size_t budgets[] = {1, 2, 7, 128};
    for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
        coir_config config = COIR_CONFIG;
        config.workers = 1;
        config.budget = budgets[i];
        coir_runtime *runtime;
        size_t count = 0;
        CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
        CHECK_EQ(coir_runtime_run(runtime, count_operations, &count), 0);
        coir_runtime_free(runtime);
        CHECK_EQ(count, budgets[i]);
    }
}
