/* Handles: joining tasks. */
#include <coir.h>
#include <errno.h>

#include "harness.h"
#include "sys/misuse.h"

static int ran;

static int count(void *arg)
{
    ran++;
    return (int)(intptr_t)arg;
}

TEST_SIM(handles_give_results_more_than_once)
{
    COIR_HANDLE(handle);
    COIR_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    CHECK_EQ(coir_join(handle), -EINVAL);
    coir_go_with(scope, &options, count, (void *)42);
    CHECK(!coir_handle_has_ended(handle));
    CHECK_EQ(coir_join(handle), 42);
    CHECK(coir_handle_has_ended(handle));
    CHECK_EQ(coir_join(handle), 42);
    coir_cancel(handle); /* of a finished task: nothing */
}

TEST_SIM(a_handle_dropped_before_the_end_is_not_written_to)
{
    COIR_SCOPE(scope);
    {
        COIR_HANDLE(handle);
        coir_go_options options = COIR_GO_OPTIONS;
        options.handle = handle;
        coir_go_with(scope, &options, count, NULL);
    }
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(ran, 1);
}

static coir_handle *own;

static int cancel_oneself(void *arg)
{
    (void)arg;
    coir_cancel(own);
    CHECK_EQ(coir_sleep_for(COIR_S), -ECANCELED);
    return 5;
}

static int answer(void *arg)
{
    return (int)(intptr_t)arg;
}

static int leave_unjoined(void *arg)
{
    COIR_HANDLE(handle);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    return coir_go_with(arg, &options, answer, NULL); /* the handle goes before its task */
}

TEST_REAL(a_handle_is_good_at_any_time)
{
    COIR_SERVING_SCOPE(scope);
    COIR_HANDLE(first);
    COIR_HANDLE(second);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = own = first;
    CHECK_EQ(coir_go_with(scope, &options, cancel_oneself, NULL), 0);
    coir_go(scope, leave_unjoined, scope);
    coir_scope_wait(scope);
    for (int i = 0; i < 100; i++) { /* others run on its stack and in its record */
        options.handle = second;
        CHECK_EQ(coir_go_with(scope, &options, answer, (void *)(intptr_t)i), 0);
        coir_cancel(first); /* it has ended: the cancel has no effect */
        CHECK_EQ(coir_join(second), i);
        CHECK_EQ(coir_join(first), 5);
        coir_cancel(second);
    }
    coir_counters counters = COIR_COUNTERS;
    coir_counters_get(coir_runtime_current(), &counters);
    CHECK(counters.stacks_cached <= 4);
}

static int nap(void *arg)
{
    (void)arg;
    return coir_sleep_for(COIR_S);
}

static int join_it(void *handle)
{
    return coir_join(handle);
}

/* A task that naps, by `handle`, and by `joiner` one that joins it. */
static void start_with_joiner(coir_scope *scope, coir_handle *handle, coir_handle *joiner)
{
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    CHECK_EQ(coir_go_with(scope, &options, nap, NULL), 0);
    options.handle = joiner;
    CHECK_EQ(coir_go_with(scope, &options, join_it, handle), 0);
}

TEST_SIM(a_handle_has_one_waiter)
{
    COIR_SERVING_SCOPE(scope);
    COIR_HANDLE(handle);
    COIR_HANDLE(first);
    start_with_joiner(scope, handle, first);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0); /* the first waits now */
    CHECK_EQ(coir_join(handle), -EBUSY);
    CHECK_EQ(coir_join(first), 0);
    CHECK_EQ(coir_join(handle), 0);
}

TEST_SIM(a_joiner_that_gives_up_leaves_the_handle_to_others)
{
    COIR_SERVING_SCOPE(scope);
    COIR_HANDLE(handle);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    CHECK_EQ(coir_go_with(scope, &options, nap, NULL), 0);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_join(handle), -ETIME);
    }
    CHECK_EQ(coir_join(handle), 0); /* the task has not been touched */
}

/* ---- a handle that is used again before who joined has run ---- */

struct reuse {
    coir_handle handle;
    coir_event ended;
    int joined;
};

static int join_the_first(void *arg)
{
    struct reuse *reuse = arg;
    reuse->joined = coir_join(&reuse->handle);
    return 0;
}

static int say_and_return_seven(void *arg)
{
    struct reuse *reuse = arg;
    CHECK_EQ(coir_yield(), 0);
    coir_event_set(&reuse->ended); /* so the opener runs before who joins */
    return 7;
}

static int return_nine(void *arg)
{
    (void)arg;
    return 9;
}

TEST_REAL(who_joins_gets_the_result_of_the_task_that_it_has_waited_for)
{
    struct reuse reuse = {.ended = COIR_EVENT_INIT};
    COIR_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = &reuse.handle;
    CHECK_EQ(coir_go_with(scope, &options, say_and_return_seven, &reuse), 0);
    CHECK_EQ(coir_go(scope, join_the_first, &reuse), 0);
    CHECK_EQ(coir_event_wait(&reuse.ended), 0);
    while (!coir_handle_has_ended(&reuse.handle))
        CHECK_EQ(coir_yield(), 0);
    CHECK_EQ(coir_go_with(scope, &options, return_nine, NULL), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(reuse.joined, 7);
    CHECK_EQ(coir_join(&reuse.handle), 9);
}

TEST_SIM(a_handle_that_has_let_go_tells_of_no_end)
{
    ci_misuse_aborts = false;
    COIR_HANDLE(handle);
    COIR_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    CHECK_EQ(coir_go_with(scope, &options, return_nine, NULL), 0);
    coir_handle_done(handle);
    CHECK(!coir_handle_has_ended(handle));
    CHECK_EQ(coir_join(handle), -EINVAL);
    CHECK_EQ(coir_go_with(scope, &options, return_nine, NULL), 0);
    CHECK_EQ(coir_join(handle), 9);
    coir_handle_done(handle); /* of a task that has ended */
    CHECK_EQ(coir_join(handle), 9);
}

TEST_SIM(who_joins_by_a_handle_that_lets_go_is_told)
{
    ci_misuse_aborts = false;
    COIR_HANDLE(handle);
    COIR_HANDLE(joiner);
    COIR_SERVING_SCOPE(scope);
    start_with_joiner(scope, handle, joiner);
    CHECK_EQ(coir_yield(), 0); /* it waits */
    coir_handle_done(handle);
    CHECK_EQ(coir_join(joiner), -EINVAL);
}

static int join_the_first_by_op(void *arg)
{
    struct reuse *reuse = arg;
    reuse->joined = (int)coir_await(coir_join_op(&reuse->handle));
    return 0;
}

TEST_REAL(a_second_join_by_an_op_leaves_the_result_of_the_first)
{
    struct reuse reuse = {.ended = COIR_EVENT_INIT};
    bool aborts = ci_misuse_aborts;
    COIR_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = &reuse.handle;
    CHECK_EQ(coir_go_with(scope, &options, say_and_return_seven, &reuse), 0);
    CHECK_EQ(coir_go(scope, join_the_first_by_op, &reuse), 0);
    CHECK_EQ(coir_event_wait(&reuse.ended), 0);
    while (!coir_handle_has_ended(&reuse.handle))
        CHECK_EQ(coir_yield(), 0);
    CHECK_EQ(coir_go_with(scope, &options, return_nine, NULL), 0);
    CHECK_EQ(reuse.joined, 0); /* who joined the first has not run */
    ci_misuse_aborts = false;
    CHECK_EQ(coir_await(coir_join_op(&reuse.handle)), -EBUSY);
    ci_misuse_aborts = aborts;
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(reuse.joined, 7);
    CHECK_EQ(coir_await(coir_join_op(&reuse.handle)), 9);
}
