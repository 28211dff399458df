/* Sets of futures. */
#include <coir.h>
#include <errno.h>

#include "harness.h"
#include "nap.h"
#include "sys/misuse.h"

TEST_SIM(a_set_gives_its_members_back_in_the_order_of_completion)
{
    struct nap naps[10];
    coir_call calls[10];
    coir_branch members[10], *done;
    coir_set set;
    coir_set_init(&set);
    CHECK_EQ(coir_set_next(&set, &done), 0);
    for (int i = 0; i < 10; i++) {
        naps[i] = (struct nap){(10 - i) * COIR_MS, i, 0};
        members[i] = (coir_branch)COIR_BRANCH(coir_call_init(&calls[i], take_nap, &naps[i]));
        if (i >= 5) /* the set grows while it is awaited */
            CHECK_EQ(coir_set_next(&set, &done), 1);
        CHECK_EQ(coir_set_add(&set, &members[i]), 0);
    }
    int left = 0;
    while (coir_set_next(&set, &done) == 1) {
        CHECK(coir_branch_is_complete(done) && done->future->result == (int)(done - members));
        left++;
    }
    CHECK_EQ(left, 5);
    CHECK_EQ(coir_set_live(&set), 0);
    naps[0].time = COIR_S;
    members[0] = (coir_branch)COIR_BRANCH(coir_call_init(&calls[0], take_nap, &naps[0]));
    CHECK_EQ(coir_set_add(&set, &members[0]), 0);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_set_next(&set, &done), -ETIME);
    }
    coir_set_done(&set);
    CHECK_EQ(naps[0].ended, -ECANCELED);
}

static int wait_for_next(void *set)
{
    return coir_set_next(set, &(coir_branch *){NULL});
}

TEST_SIM(a_set_has_one_waiter)
{
    coir_set set;
    coir_sleep_op op;
    coir_branch member = COIR_BRANCH(coir_sleep_for_op(&op, COIR_S)), *done;
    coir_set_init(&set);
    CHECK_EQ(coir_set_add(&set, &member), 0);
    COIR_SERVING_SCOPE(scope);
    CHECK_EQ(coir_go(scope, wait_for_next, &set), 0);
    CHECK_EQ(coir_yield(), 0);
    CHECK_EQ(coir_set_next(&set, &done), -EBUSY);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_set_next(&set, &done), 0);
}

static int count_run(void *arg)
{
    ++*(int *)arg;
    return 0;
}

TEST_SIM(a_member_of_a_set_may_be_cancelled_before_it_has_begun)
{
    int runs = 0;
    coir_sleep_op sleep;
    coir_branch member = COIR_BRANCH(coir_sleep_for_op(&sleep, COIR_S)), *done;
    coir_set set;
    COIR_SCOPE(scope);
    coir_set_init(&set);
    CHECK_EQ(coir_set_add(&set, &member), 0);
    CHECK_EQ(coir_go(scope, count_run, &runs), 0); /* behind the member in the queue */
    coir_set_cancel(&set);
    coir_time before = coir_now();
    CHECK_EQ(coir_set_next(&set, &done), 1);
    CHECK_EQ(done->future->result, -ECANCELED);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(runs, 1);
    CHECK_EQ(coir_now(), before);
}

TEST_SIM(the_next_of_a_set_is_a_future_too)
{
    struct nap naps[2] = {{2 * COIR_MS, 2, 0}, {1 * COIR_MS, 1, 0}};
    coir_call calls[2];
    coir_branch members[2], *done = NULL;
    coir_set set;
    coir_set_init(&set);
    CHECK_EQ(coir_await(coir_set_next_op(&set, &done)), 0); /* it is empty */
    for (int i = 0; i < 2; i++) {
        members[i] = (coir_branch)COIR_BRANCH(coir_call_init(&calls[i], take_nap, &naps[i]));
        CHECK_EQ(coir_set_add(&set, &members[i]), 0);
    }
    CHECK_EQ(coir_await(coir_set_next_op(&set, &done)), 1);
    CHECK(done == &members[1]);
    CHECK_EQ(coir_await(coir_set_next_op(&set, &done)), 1);
    CHECK(done == &members[0]);
    coir_set_done(&set);
}

/* ---- a result that waits for its task's turn ---- */

struct two_waits {
    coir_set set;
    int results[2];
};

static int take_one(void *arg)
{
    struct two_waits *waits = arg;
    coir_branch *done;
    waits->results[0] = coir_set_next(&waits->set, &done);
    return 0;
}

/* With such a budget a call that completes at once lets others run before it returns. */
static int take_two(void *arg)
{
    struct two_waits waits;
    coir_sleep_op ops[2];
    coir_branch members[] = {COIR_BRANCH(coir_sleep_for_op(&ops[0], 0)),
                             COIR_BRANCH(coir_sleep_for_op(&ops[1], 5 * COIR_MS))},
                *done;
    (void)arg;
    coir_set_init(&waits.set);
    CHECK_EQ(coir_set_add(&waits.set, &members[0]), 0);
    CHECK_EQ(coir_set_add(&waits.set, &members[1]), 0);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0); /* one has completed */
    COIR_SERVING_SCOPE(scope);
    CHECK_EQ(coir_go(scope, take_one, &waits), 0);
    CHECK_EQ(coir_yield(), 0);
    waits.results[1] = coir_set_next(&waits.set, &done);
    CHECK(waits.results[1] == 1 || waits.results[1] == -EBUSY);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(waits.results[0], 1);
    coir_set_done(&waits.set);
    return 0;
}

TEST(a_second_wait_leaves_the_result_of_the_first)
{
    coir_config config = COIR_CONFIG;
    config.workers = config.budget = 1;
    CHECK_EQ(test_run(&config, take_two, NULL), 0);
}

TEST_SIM(a_set_that_was_not_made_is_refused)
{
    ci_misuse_aborts = false;
    static coir_set set;
    coir_branch *done;
    CHECK_EQ(coir_set_next(&set, &done), -EINVAL);
    CHECK_EQ(coir_await(coir_set_next_op(&set, &done)), -EINVAL);
    coir_set_cancel(&set);
    coir_set_done(&set);
}
