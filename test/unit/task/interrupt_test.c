/* Deadlines and shields. */
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

TEST_SIM(sleeps_never_end_early_in_virtual_time)
{
    for (coir_time duration = 1; duration < 1000 * COIR_S; duration = duration * 7 + 3) {
        coir_time start = coir_now();
        CHECK_EQ(coir_sleep_for(duration), 0);
        CHECK_EQ(coir_now() - start, duration);
    }
}

TEST_REAL(sleeps_never_end_early_in_real_time)
{
    for (coir_time duration = 1; duration < 30 * COIR_MS; duration = duration * 3 + 1) {
        coir_time start = coir_now();
        CHECK_EQ(coir_sleep_for(duration), 0);
        CHECK(coir_now() - start >= duration);
    }
}

/* The last millisecond of a sleep is slept, not polled: a sleep costs a handful of waits, whatever
 * its length. */
TEST_REAL(sleeps_do_not_spin_at_their_end)
{
    coir_counters before = COIR_COUNTERS, after = COIR_COUNTERS;
    coir_counters_get(coir_runtime_current(), &before);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(coir_sleep_for(1500 * COIR_US), 0);
    coir_counters_get(coir_runtime_current(), &after);
    CHECK(after.driver_waits - before.driver_waits <= 30);
}

/* ---- sleeps by their duration: the clock is read when the worker is about to wait ---- */

TEST_SIM(sleeps_end_in_the_order_of_their_durations)
{
    coir_sleep_op ops[4];
    static const coir_time durations[4] = {3 * COIR_MS, 1 * COIR_MS, COIR_NEVER, 2 * COIR_MS};
    coir_branch members[4], *ended;
    coir_set set;
    coir_set_init(&set);
    coir_time start = coir_now();
    for (int i = 0; i < 4; i++) {
        members[i] = (coir_branch)COIR_BRANCH(coir_sleep_for_op(&ops[i], durations[i]));
        CHECK_EQ(coir_set_add(&set, &members[i]), 0);
    }
    static const int order[] = {1, 3, 0};
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(coir_set_next(&set, &ended), 1);
        CHECK_EQ(ended - members, order[i]);
        CHECK_EQ(coir_now() - start, (i + 1) * COIR_MS);
    }
    coir_set_done(&set); /* the one that never ends */
    CHECK_EQ(ops[2].future.result, -ECANCELED);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_sleep_for(COIR_NEVER), -ETIME);
    }
    CHECK_EQ(coir_sleep_for(-5), 0);
}

TEST_REAL(a_sleep_withdrawn_before_the_worker_waits_leaves_nothing)
{
    for (int i = 0; i < 1000; i++) {
        coir_sleep_op sleep;
        coir_future turn;
        coir_branch race[] = {COIR_BRANCH(coir_sleep_for_op(&sleep, COIR_S)),
                              COIR_BRANCH(coir_yield_op(&turn))};
        CHECK_EQ(coir_any(race, 2), 1);
        CHECK_EQ(sleep.future.result, -ECANCELED);
    }
    coir_time start = coir_now();
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    CHECK(coir_now() - start >= COIR_MS);
}

/* In a fiber of any kind of worker. */
static void try_borders(void)
{
    static const coir_time past[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1};
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(coir_sleep_until(past[i]), 0);
        CHECK_EQ(coir_sleep_for(past[i]), 0);
        coir_case cases[] = {coir_case_at(past[i]), coir_case_at(COIR_NEVER)};
        CHECK_EQ(coir_select(cases, 2), 0);
        COIR_DEADLINE(past[i]);
        CHECK_EQ(coir_yield(), -ETIME);
    }
    CHECK_EQ(coir_in(COIR_NEVER), COIR_NEVER);
    CHECK_EQ(coir_in(COIR_NEVER - 1), COIR_NEVER);
    CHECK(coir_in(INT64_MIN) <= coir_now());
    COIR_DEADLINE(coir_in(COIR_NEVER));
    CHECK_EQ(coir_task_deadline(), COIR_NEVER);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
}

TEST_REAL(any_time_can_be_slept_until)
{
    try_borders();
}

TEST_SIM(any_simulated_time_can_be_slept_until)
{
    try_borders();
}
