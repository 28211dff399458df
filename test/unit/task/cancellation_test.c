/* Cancel scopes: deadlines and shields, and what they interrupt. */
#include <coir.h>
#include <errno.h>

#include "harness.h"

TEST_SIM(a_deadline_holds_to_the_end_of_its_block)
{
    coir_time start = coir_now();
    {
        COIR_DEADLINE(coir_in(500 * COIR_MS));
        CHECK_EQ(coir_sleep_for(100 * COIR_MS), 0);
        CHECK_EQ(coir_sleep_for(COIR_S), -ETIME);
        CHECK_EQ(coir_now() - start, 500 * COIR_MS);
        CHECK_EQ(coir_sleep_for(COIR_S), -ETIME);
        CHECK_EQ(coir_task_interrupted(), -ETIME);
    }
    CHECK_EQ(coir_task_interrupted(), 0);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
}

TEST_SIM(the_nearer_of_nested_deadlines_wins)
{
    COIR_DEADLINE(coir_in(2 * COIR_S));
    {
        COIR_DEADLINE(coir_in(5 * COIR_S));
        CHECK_EQ(coir_task_deadline(), coir_in(2 * COIR_S));
        CHECK_EQ(coir_sleep_for(3 * COIR_S), -ETIME);
    }
    CHECK_EQ(coir_task_interrupted(), -ETIME); /* the outer one's */
}

TEST_SIM(a_deadline_in_the_past_has_passed)
{
    COIR_DEADLINE(coir_now());
    CHECK_EQ(coir_yield(), -ETIME);
}

TEST_SIM(a_deadline_may_be_moved)
{
    coir_cancel_scope cancel_scope;
    coir_deadline_enter(&cancel_scope, coir_in(COIR_MS));
    coir_deadline_move(&cancel_scope, coir_in(3 * COIR_S));
    CHECK_EQ(coir_sleep_for(2 * COIR_S), 0);
    coir_deadline_move(&cancel_scope, coir_in(COIR_MS));
    CHECK_EQ(coir_sleep_for(2 * COIR_S), -ETIME);
    coir_deadline_move(&cancel_scope, COIR_NEVER);
    CHECK_EQ(coir_sleep_for(2 * COIR_S), 0);
    coir_cancel_scope_leave(&cancel_scope);
}

static int results[2];

static int sleeper(void *arg)
{
    return results[(intptr_t)arg] = coir_sleep_for(100 * COIR_S);
}

TEST_SIM(the_tasks_of_a_scope_inherit_the_deadline)
{
    COIR_DEADLINE(coir_in(COIR_S));
    COIR_SCOPE(scope);
    coir_go(scope, sleeper, (void *)0);
    coir_go(scope, sleeper, (void *)1);
    CHECK_EQ(coir_scope_wait(scope), -ETIME);
    CHECK_EQ(results[0], -ETIME);
    CHECK_EQ(results[1], -ETIME);
}

static int cancel_me(void *arg)
{
    int *seen = arg;
    {
        COIR_SHIELD;
        seen[0] = coir_sleep_for(2 * COIR_S); /* cancelled meanwhile, but not in here */
        {
            COIR_DEADLINE(coir_in(COIR_S));
            seen[1] = coir_sleep_for(5 * COIR_S); /* deadlines inside of the shield count */
        }
        COIR_SCOPE(scope);
        coir_go(scope, sleeper, (void *)0);
        COIR_DEADLINE(coir_in(COIR_S));
        coir_sleep_for(2 * COIR_S);
        coir_scope_cancel(scope);
    }
    return seen[2] = coir_sleep_for(COIR_S);
}

TEST_SIM(a_shield_hides_cancellation_until_its_end)
{
    int seen[3] = {1, 1, 1};
    COIR_SCOPE(scope);
    coir_go(scope, cancel_me, seen);
    coir_sleep_for(COIR_S);
    coir_scope_cancel(scope);
    coir_scope_wait(scope);
    CHECK_EQ(seen[0], 0);
    CHECK_EQ(seen[1], -ETIME);
    CHECK_EQ(seen[2], -ECANCELED);
}
