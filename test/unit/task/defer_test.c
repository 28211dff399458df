/* Deferred calls. */
#include <coir.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

static char ran[32];

static void note(void *arg)
{
    strcat(ran, arg);
}

static void slow_note(void *arg)
{
    strcat(ran, coir_sleep_for(COIR_S) == 0 ? "slept " : "refused ");
    strcat(ran, arg);
}

static int with_defers(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_defer(note, "a"), 0);
    CHECK_EQ(coir_defer(note, "b"), 0);
    CHECK_EQ(coir_defer(slow_note, "c"), 0);
    CHECK_EQ(coir_defer(note, "d"), 0);
    CHECK(coir_defer_disarm(note, "b"));
    CHECK(!coir_defer_disarm(note, "b"));
    CHECK(!coir_defer_disarm(note, "c"));
    return coir_sleep_for(100 * COIR_S);
}

TEST_SIM(deferred_callbacks_run_last_in_first_out_and_shielded)
{
    COIR_SCOPE(scope);
    coir_go(scope, with_defers, NULL);
    coir_yield();
    coir_scope_cancel(scope);
    coir_scope_wait(scope);
    CHECK(strcmp(ran, "dslept ca") == 0);
}

static void defer_again(void *arg)
{
    strcat(ran, "again ");
    coir_defer(note, arg);
}

/* In the task function's own frame, whose locals are gone when the callbacks run. */
static int defer_and_return(void *arg)
{
    char *copies[8];
    for (int i = 0; i < 8; i++) {
        CHECK((copies[i] = strdup(arg)));
        CHECK_EQ(coir_defer(free, copies[i]), 0);
    }
    CHECK_EQ(coir_defer(defer_again, arg), 0);
    CHECK(coir_defer_disarm(free, copies[3]));
    free(copies[3]);
    return 0;
}

TEST_SIM(a_task_that_returns_at_once_runs_what_it_deferred)
{
    for (int i = 0; i < 2; i++) {
        COIR_SCOPE(scope);
        coir_go(scope, defer_and_return, "x");
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    CHECK(strcmp(ran, "again xagain x") == 0);
}

TEST(outside_of_a_fiber_nothing_is_deferred)
{
    CHECK_EQ(coir_defer(free, NULL), -ESRCH);
    CHECK(!coir_defer_disarm(free, NULL));
}

static void far_too_slow(void *arg)
{
    *(int *)arg = coir_sleep_for(1000 * COIR_S);
}

static int defer_slow(void *arg)
{
    return coir_defer(far_too_slow, arg);
}

TEST_SIM(deferred_callbacks_have_a_deadline_of_their_own)
{
    int rc = 0;
    coir_time start = coir_now();
    COIR_SCOPE(scope);
    coir_go(scope, defer_slow, &rc);
    coir_scope_wait(scope);
    CHECK_EQ(rc, -ETIME);
    CHECK_EQ(coir_now() - start, 5 * COIR_S);
}
