/* Groups: join all, join or cancel, any. */
#include <coir.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "beat.h"
#include "harness.h"
#include "nap.h"
#include "sys/misuse.h"

TEST_SIM(join_waits_for_all)
{
    struct beat beats[3];
    coir_branch branches[3];
    for (int i = 0; i < 3; i++)
        branches[i] = (coir_branch)COIR_BRANCH(&make_beat(&beats[i])->future);
    coir_time before = coir_now();
    CHECK_EQ(coir_join_all(branches, 3, 0), 0);
    CHECK_EQ(coir_now() - before, 30 * COIR_MS);
    for (int i = 0; i < 3; i++)
        CHECK(beats[i].sent == 13 && beats[i].future.result == 13 &&
              coir_branch_is_complete(&branches[i]));
    CHECK_EQ(coir_join_all(NULL, 0, 0), 0);
}

TEST_SIM(join_in_a_window_runs_so_many_at_a_time)
{
    struct beat beats[5];
    coir_branch branches[5];
    for (int i = 0; i < 5; i++)
        branches[i] = (coir_branch)COIR_BRANCH(&make_beat(&beats[i])->future);
    coir_time before = coir_now();
    CHECK_EQ(coir_join_all(branches, 5, 2), 0);
    CHECK_EQ(coir_now() - before, 90 * COIR_MS);
}

TEST_SIM(the_first_error_ends_a_try_join)
{
    struct nap naps[4] = {{30 * COIR_MS, 0, 0},
                          {10 * COIR_MS, -EIO, 0},
                          {20 * COIR_MS, -EPERM, 0},
                          {5 * COIR_MS, 3, 0}};
    coir_call calls[4];
    coir_branch branches[4];
    for (int i = 0; i < 4; i++)
        branches[i] = (coir_branch)COIR_BRANCH(coir_call_init(&calls[i], take_nap, &naps[i]));
    coir_time before = coir_now();
    CHECK_EQ(coir_join_or_cancel(branches, 4, 0), -EIO);
    CHECK_EQ(coir_now() - before, 10 * COIR_MS);
    CHECK_EQ(naps[0].ended, -ECANCELED);
    CHECK_EQ(naps[2].ended, -ECANCELED);
    CHECK_EQ(naps[3].ended, 1);
    CHECK_EQ(calls[3].future.result, 3);
    naps[1].result = naps[2].result = 0;
    for (int i = 0; i < 4; i++)
        branches[i] = (coir_branch)COIR_BRANCH(coir_call_init(&calls[i], take_nap, &naps[i]));
    CHECK_EQ(coir_join_or_cancel(branches, 4, 0), 0);
}

TEST_SIM(any_is_decided_once_and_cancels_the_rest)
{
    struct nap naps[3] = {{30 * COIR_MS, 1, 0}, {10 * COIR_MS, 2, 0}, {20 * COIR_MS, 3, 0}};
    coir_call calls[3];
    coir_branch branches[3];
    for (int i = 0; i < 3; i++)
        branches[i] = (coir_branch)COIR_BRANCH(coir_call_init(&calls[i], take_nap, &naps[i]));
    coir_time before = coir_now();
    CHECK_EQ(coir_any(branches, 3), 1);
    CHECK_EQ(coir_now() - before, 10 * COIR_MS);
    CHECK(naps[0].ended == -ECANCELED && naps[1].ended == 1 && naps[2].ended == -ECANCELED);
    CHECK_EQ(coir_any(NULL, 0), -EINVAL);
}

/* Two calls of one task, each with blocks of its own. */
static int under_a_deadline(void *arg)
{
    int rc = 0;
    for (int i = 0; i < 3; i++) {
        COIR_DEADLINE(coir_in(*(coir_time *)arg));
        COIR_SCOPE(scope);
        struct nap nap = {50 * COIR_MS, 0, 0};
        coir_go(scope, take_nap, &nap);
        rc = coir_scope_wait(scope);
        CHECK_EQ(rc, -ETIME);
    }
    return rc;
}

TEST_SIM(calls_of_one_task_have_deadlines_of_their_own)
{
    coir_time times[2] = {7 * COIR_MS, 11 * COIR_MS};
    coir_call calls[2];
    coir_branch branches[2] = {COIR_BRANCH(coir_call_init(&calls[0], under_a_deadline, &times[0])),
                               COIR_BRANCH(coir_call_init(&calls[1], under_a_deadline, &times[1]))};
    CHECK_EQ(coir_join_all(branches, 2, 0), 0);
    CHECK_EQ(calls[0].future.result, -ETIME);
    CHECK_EQ(calls[1].future.result, -ETIME);
}

TEST_SIM(groups_nest_and_cancel_inwards)
{
    coir_sleep_op sleeps[4];
    coir_branch inner[2][2], outer[2];
    coir_group groups[2];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 4; i++)
            inner[i / 2][i % 2] =
                (coir_branch)COIR_BRANCH(coir_sleep_for_op(&sleeps[i], (10 + i) * COIR_MS));
        for (int i = 0; i < 2; i++)
            outer[i] = (coir_branch)COIR_BRANCH(coir_join_all_op(&groups[i], inner[i], 2, 0));
        coir_time before = coir_now();
        if (round == 0) {
            CHECK_EQ(coir_any(outer, 2), 0);
            CHECK_EQ(coir_now() - before, 11 * COIR_MS);
            CHECK_EQ(sleeps[2].future.result, -ECANCELED);
            CHECK_EQ(groups[1].future.result, -ECANCELED);
        } else {
            COIR_DEADLINE(coir_in(5 * COIR_MS));
            CHECK_EQ(coir_any(outer, 2), -ETIME);
            CHECK_EQ(coir_now() - before, 5 * COIR_MS);
            CHECK_EQ(sleeps[3].future.result, -ETIME);
        }
    }
}

TEST_SIM(any_over_members_that_are_always_ready_serves_all)
{
    int served[3] = {0};
    for (int i = 0; i < 300; i++) {
        coir_future yields[3];
        coir_branch branches[3];
        for (int k = 0; k < 3; k++)
            branches[k] = (coir_branch)COIR_BRANCH(coir_yield_op(&yields[k]));
        int which = coir_any(branches, 3);
        CHECK(which >= 0 && which < 3);
        served[which]++;
    }
    for (int k = 0; k < 3; k++)
        CHECK(served[k] >= 50);
}

/* Random trees of groups over calls and sleeps, cancelled at random: everything that began has
 * ended when the outermost group has. */
struct leaf {
    coir_call call;
    int runs;
};

static int leaf_task(void *arg)
{
    struct leaf *leaf = arg;
    leaf->runs++;
    int rc = 0;
    for (int i = 0; rc == 0 && i < 3; i++)
        rc = coir_sleep_for((rand() % 100) * COIR_US);
    leaf->runs--;
    return rc < 0 ? rc : rand() % 4 ? 0 : -EIO;
}

static void random_groups(void)
{
    enum { WIDTH = 4 };
    struct leaf leaves[WIDTH][WIDTH];
    memset(leaves, 0, sizeof leaves);
    coir_group groups[WIDTH];
    coir_branch inner[WIDTH][WIDTH], outer[WIDTH];
    for (int i = 0; i < WIDTH; i++) {
        for (int k = 0; k < WIDTH; k++)
            inner[i][k] = (coir_branch)COIR_BRANCH(
                coir_call_init(&leaves[i][k].call, leaf_task, &leaves[i][k]));
        coir_future *group =
            rand() % 3 == 0 ? coir_any_op(&groups[i], inner[i], WIDTH)
            : rand() % 2 == 0
                ? coir_join_or_cancel_op(&groups[i], inner[i], WIDTH, (size_t)rand() % 3)
                : coir_join_all_op(&groups[i], inner[i], WIDTH, (size_t)rand() % 3);
        outer[i] = (coir_branch)COIR_BRANCH(group);
    }
    COIR_DEADLINE(coir_in((rand() % 400) * COIR_US));
    switch (rand() % 3) {
    case 0: coir_any(outer, WIDTH); break;
    case 1: coir_join_or_cancel(outer, WIDTH, 0); break;
    default: coir_join_all(outer, WIDTH, 2);
    }
    for (int i = 0; i < WIDTH; i++)
        for (int k = 0; k < WIDTH; k++)
            CHECK_EQ(leaves[i][k].runs, 0);
}

TEST(groups_end_after_everything_in_them)
{
    const char *seeds = getenv("SEEDS");
    uint64_t count = seeds ? strtoull(seeds, NULL, 0) : 500;
    for (uint64_t seed = 1; seed <= count; seed++) {
        srand((unsigned)seed);
        test_in_sim(random_groups, 1, seed);
    }
}

TEST_SIM(the_first_in_order_is_a_future_too)
{
    coir_event event = {0};
    coir_wait_op waits[2];
    coir_sleep_op sleep;
    coir_group group;
    coir_event_set(&event);
    for (int i = 0; i < 20; i++) { /* both are complete at once: the first wins each time */
        coir_branch branches[2] = {COIR_BRANCH(coir_event_wait_op(&waits[0], &event)),
                                   COIR_BRANCH(coir_event_wait_op(&waits[1], &event))};
        CHECK_EQ(coir_await(coir_any_in_order_op(&group, branches, 2)), 0);
        branches[0] = (coir_branch)COIR_BRANCH(coir_sleep_until_op(&sleep, coir_in(COIR_S)));
        branches[1] = (coir_branch)COIR_BRANCH(coir_event_wait_op(&waits[1], &event));
        CHECK_EQ(coir_await(coir_any_in_order_op(&group, branches, 2)), 1);
    }
}

TEST_SIM(the_same_future_is_a_member_once)
{
    struct beat beats[2];
    coir_branch branches[3] = {COIR_BRANCH(&beats[0].future), COIR_BRANCH(&beats[1].future),
                               COIR_BRANCH(&beats[0].future)};
    int (*const calls[])(coir_branch * branches, size_t count) = {coir_any, coir_any_in_order};
    for (int i = 0; i < 4; i++) {
        make_beat(&beats[0]), make_beat(&beats[1]);
        int rc = i == 0   ? coir_join_all(branches, 3, 0)
                 : i == 1 ? coir_join_or_cancel(branches, 3, 0)
                          : calls[i - 2](branches, 3);
        CHECK_EQ(rc, -EBUSY);
        CHECK(!beats[0].future.caller && !beats[1].future.caller); /* they have ended */
        CHECK(!coir_branch_is_complete(&branches[2]));
    }
    make_beat(&beats[0]), make_beat(&beats[1]);
    CHECK_EQ(coir_join_all(branches, 3, 1), 0); /* one after the other */
    CHECK_EQ(beats[0].sent, 26);
}

static int await_beat(void *arg)
{
    return (int)coir_await(arg);
}

TEST_SIM(a_future_in_flight_is_no_member)
{
    struct beat beats[2];
    coir_branch branches[2] = {COIR_BRANCH(&make_beat(&beats[0])->future),
                               COIR_BRANCH(&make_beat(&beats[1])->future)};
    COIR_SCOPE(scope);
    COIR_HANDLE(handle);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    CHECK_EQ(coir_go_with(scope, &options, await_beat, &beats[1].future), 0);
    coir_sleep_for(1 * COIR_MS);
    CHECK_EQ(coir_any(branches, 2), -EBUSY);
    CHECK_EQ(coir_join(handle), 13);
}

/* Ends later than it is cancelled: only after others have run. */
static int end_late(void *arg)
{
    int rc = coir_channel_recv(arg, &(int){0});
    COIR_SHIELD;
    coir_yield();
    coir_yield();
    return rc;
}

static int send_some(void *arg)
{
    coir_channel *const *channels = arg;
    for (int i = 0, rc = 0; rc == 0; i++) {
        rc = coir_channel_send(channels[0], &i);
        if (rc == 0)
            rc = coir_channel_send(channels[1], &i);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* A fiber that waits for a coir_any is resumed by the fiber that parks next, as a rule; but not
 * while a member of it goes on, nor where another future awaits the coir_any, nor by another group.
 */
TEST_REAL(the_fiber_that_parks_resumes_the_one_of_a_decided_any)
{
    coir_channel *channels[2], *never;
    int item, before = -1;
    CHECK(coir_channel_new(sizeof item, 0, &channels[0]) == 0 &&
          coir_channel_new(sizeof item, 0, &channels[1]) == 0 &&
          coir_channel_new(sizeof item, 1, &never) == 0);
    {
        COIR_SERVING_SCOPE(scope);
        coir_go(scope, send_some, channels);
        for (int i = 0; i < 100; i++) {
            coir_group group;
            coir_wait_op ops[2];
            coir_sleep_op sleep;
            coir_call call;
            coir_case waits[] = {coir_case_recv(channels[0], &item), coir_case_after(COIR_S)};
            coir_branch members[2] = {
                COIR_BRANCH(coir_channel_recv_op(&ops[0], channels[1], &item)),
                COIR_BRANCH(coir_call_init(&call, end_late, never))};
            CHECK_EQ(coir_select(waits, 2), 0);
            CHECK_EQ(item, before + 1);
            CHECK_EQ(coir_any(members, 2), 0);
            CHECK_EQ(item, ++before);
            CHECK_EQ(call.future.result, -ECANCELED);
            coir_branch inner[2] = {COIR_BRANCH(coir_channel_recv_op(&ops[0], channels[1], &item)),
                                    COIR_BRANCH(coir_sleep_for_op(&sleep, COIR_S))},
                        outer[2] = {
                            COIR_BRANCH(coir_any_op(&group, inner, 2)),
                            COIR_BRANCH(coir_channel_recv_op(&ops[1], channels[0], &before))};
            CHECK_EQ(coir_join_all(outer, 2, 0), 0);
            CHECK(item == before && coir_branch_is_complete(&outer[1]));
        }
        coir_scope_cancel(scope);
    }
    for (int i = 0; i < 2; i++)
        coir_channel_free(channels[i]);
    coir_channel_free(never);
}

/* A count that an int does not hold, as of bytes that were copied. */
static coir_future *count_poll(coir_future *future)
{
    COIR_BEGIN(future);
    COIR_RETURN(future, 3 * (int64_t)INT32_MAX / 2);
}
static const coir_future_kind count_kind = COIR_FUTURE_KIND("a count", count_poll, NULL);

TEST_SIM(a_large_count_is_no_error)
{
    coir_future count;
    coir_sleep_op sleep;
    coir_branch branches[] = {COIR_BRANCH(coir_future_init(&count, &count_kind)),
                              COIR_BRANCH(coir_sleep_for_op(&sleep, COIR_MS))};
    CHECK_EQ(coir_join_or_cancel(branches, 2, 0), 0);
    CHECK_EQ(count.result, 3 * (int64_t)INT32_MAX / 2);
    CHECK(coir_branch_is_complete(&branches[1]));
}

TEST_SIM(a_member_without_a_future_is_refused)
{
    coir_sleep_op sleep;
    coir_group group;
    coir_future unmade = {0};
    coir_future *(*const ops[])(coir_group *, coir_branch *, size_t) = {coir_any_op,
                                                                        coir_any_in_order_op};
    ci_misuse_aborts = false;
    for (int i = 0; i < 2; i++) {
        coir_branch branches[] = {COIR_BRANCH(coir_sleep_for_op(&sleep, COIR_S)),
                                  COIR_BRANCH(i ? &unmade : NULL)};
        CHECK_EQ(coir_await(ops[i](&group, branches, 2)), -EINVAL);
        branches[0] = (coir_branch)COIR_BRANCH(coir_sleep_for_op(&sleep, COIR_S));
        CHECK_EQ(coir_await(coir_join_all_op(&group, branches, 2, 0)), -EINVAL);
        CHECK_EQ(sleep.future.result, -ECANCELED);
    }
}
