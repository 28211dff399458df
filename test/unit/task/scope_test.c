/* Scopes, tasks, results, cancellation. On the simulator's clock: nothing here waits for real
 * time. */
#include <coir.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "sys/misuse.h"

static int ran, ended;

static int count(void *arg)
{
    ran++;
    return (int)(intptr_t)arg;
}

static int sleep_long(void *arg)
{
    (void)arg;
    ran++;
    int rc = coir_sleep_for(1000 * COIR_S);
    ended++;
    return rc;
}

TEST_SIM(a_scope_waits_for_its_tasks)
{
    COIR_SCOPE(scope);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(coir_go(scope, count, NULL), 0);
    CHECK_EQ(ran, 0); /* they run when the opener suspends */
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(ran, 100);
    CHECK_EQ(coir_scope_live(scope), 0);
}

TEST_SIM(the_first_error_cancels_the_siblings_and_is_the_result)
{
    coir_time start = coir_now();
    COIR_SCOPE(scope);
    coir_go(scope, sleep_long, NULL);
    coir_go(scope, count, (void *)-EBADMSG);
    coir_go(scope, sleep_long, NULL);
    CHECK_EQ(coir_scope_wait(scope), -EBADMSG);
    CHECK_EQ(ended, 2);
    CHECK(coir_now() - start < COIR_S);
    CHECK_EQ(coir_go(scope, count, NULL), -ECANCELED); /* a cancelled scope takes no more */
}

TEST_SIM(a_serving_scope_counts_errors_and_goes_on)
{
    COIR_SERVING_SCOPE(scope);
    coir_go(scope, count, (void *)-EBADMSG);
    coir_go(scope, count, (void *)-ENOENT);
    coir_go(scope, count, NULL);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_scope_errors(scope), 2);
    CHECK_EQ(coir_go(scope, count, NULL), 0);
}

TEST_SIM(leaving_the_block_cancels_and_waits)
{
    {
        COIR_SCOPE(scope);
        coir_go(scope, sleep_long, NULL);
        coir_yield();
    }
    CHECK_EQ(ran, 1);
    CHECK_EQ(ended, 1);
}

TEST_SIM(a_task_cancelled_before_it_started_still_runs_and_is_told)
{
    COIR_HANDLE(handle);
    COIR_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    CHECK_EQ(coir_go_with(scope, &options, sleep_long, NULL), 0);
    coir_cancel(handle);
    CHECK_EQ(coir_join(handle), -ECANCELED);
    CHECK_EQ(ran, 1);
    CHECK_EQ(coir_scope_wait(scope), 0); /* it did as it was asked: no error */
}

static int nested(void *arg)
{
    COIR_SCOPE(inner);
    coir_go(inner, sleep_long, NULL);
    coir_go(inner, sleep_long, NULL);
    int rc = coir_scope_wait(inner);
    *(int *)arg = rc;
    return rc;
}

TEST_SIM(cancellation_flows_into_open_scopes)
{
    int inner_result = 0;
    COIR_SCOPE(scope);
    coir_go(scope, nested, &inner_result);
    coir_yield();
    coir_yield();
    CHECK_EQ(ran, 2);
    coir_scope_cancel(scope);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(ended, 2);
    CHECK_EQ(inner_result, -ECANCELED);
}

static int ignore_errors(void *arg)
{
    int *stop = arg;
    while (!*stop) {
        coir_sleep_for(COIR_S); /* returns -ECANCELED for ever */
        ran++;
    }
    return 0;
}

static int set_flag(void *arg)
{
    *(int *)arg = 1;
    return 0;
}

TEST_REAL(a_cancelled_loop_that_ignores_its_errors_does_not_stop_its_worker)
{
    int stop = 0;
    COIR_SERVING_SCOPE(scope);
    coir_go(scope, ignore_errors, &stop);
    coir_yield();
    coir_scope_cancel(scope);
    COIR_SCOPE(other);
    coir_go(other, set_flag, &stop);
    CHECK_EQ(coir_scope_wait(other), 0); /* the flag setter gets its turn */
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK(ran > 0);
}

static int copied(void *arg)
{
    CHECK(strcmp(arg, "copied") == 0);
    return count(NULL);
}

static int wait_for_other(void *arg)
{
    return coir_scope_wait(arg);
}

TEST_SIM(a_scope_has_one_waiter)
{
    COIR_SCOPE(waiters);
    COIR_SCOPE(scope);
    coir_go(scope, sleep_long, NULL);
    coir_go(waiters, wait_for_other, scope);
    coir_sleep_for(COIR_S);
    CHECK_EQ(coir_scope_wait(scope), -EBUSY);
    coir_scope_cancel(scope);
    CHECK_EQ(coir_scope_wait(waiters), 0);
}

TEST_SIM(an_argument_may_be_copied_at_spawn)
{
    char text[] = "copied";
    COIR_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.copy_size = sizeof text;
    CHECK_EQ(coir_go_with(scope, &options, copied, text), 0);
    memset(text, 'x', sizeof text);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(ran, 1);
    options.copy_size = COIR_COPY_MAX + 1;
    CHECK_EQ(coir_go_with(scope, &options, copied, text), -EINVAL);
}

static int spawn_detached(void *arg)
{
    (void)arg;
    return coir_go(NULL, count, NULL);
}

TEST(the_run_ends_when_no_task_is_left)
{
    coir_runtime *runtime;
    coir_config config = COIR_CONFIG;
    config.workers = 2;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    for (int i = 1; i <= 3; i++) {
        CHECK_EQ(coir_runtime_run(runtime, spawn_detached, NULL), 0);
        CHECK_EQ(ran, i); /* the detached one has run as well */
    }
    CHECK_EQ(coir_runtime_run(runtime, count, (void *)-EBADMSG), -EBADMSG);
    coir_runtime_free(runtime);
    CHECK_EQ(coir_go(NULL, count, NULL), -ESRCH);
    CHECK_EQ(coir_sleep_for(1), -ESRCH);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, count, NULL), -ESRCH);
}

TEST(the_table_of_tasks_has_a_limit)
{
    coir_runtime *runtime;
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.tasks_max = 1;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    CHECK_EQ(coir_runtime_run(runtime, spawn_detached, NULL), -EAGAIN);
    coir_runtime_free(runtime);
    config.driver = "no such driver";
    unsetenv("COIR_DRIVER");
    CHECK_EQ(coir_runtime_new(&config, &runtime), -EINVAL);
}

struct failing {
    int error, ignores; /* how often it ignores that it was cancelled */
};

static int fail_late(void *arg)
{
    const struct failing *failing = arg;
    for (int i = 0; i < failing->ignores; i++)
        coir_yield();
    return failing->error;
}

/* Each of several tasks fails with an error of its own, in a known order, whatever it was asked
 * meanwhile. */
static void fail_in_turn(void)
{
    static const int errors[] = {-ENOENT, -EIO, -ECANCELED, -ETIME, -EBADMSG};
    enum { COUNT = sizeof errors / sizeof *errors };
    for (int first = 0; first < COUNT; first++) {
        struct failing failing[COUNT];
        COIR_SCOPE(scope);
        for (int i = 0; i < COUNT; i++) {
            int turn = (i - first + COUNT) % COUNT;
            failing[i] = (struct failing){errors[i], turn ? 10 + 10 * turn : 0};
            CHECK_EQ(coir_go(scope, fail_late, &failing[i]), 0);
        }
        CHECK_EQ(coir_scope_wait(scope), errors[first]);
        CHECK_EQ(coir_scope_live(scope), 0);
        CHECK_EQ(coir_scope_wait(scope), errors[first]); /* also to one who asks again */
    }
}

TEST(a_siblings_later_error_does_not_replace_the_first)
{
    test_in_runtime(fail_in_turn, 1);
    test_in_runtime(fail_in_turn, 2);
}

/* ---- calls from a plain thread ---- */

struct owned {
    coir_scope *scope;
    coir_handle *handle;
};

static int close_and_cancel(void *arg)
{
    const struct owned *owned = arg;
    coir_cancel(owned->handle);
    coir_scope_close(owned->scope);
    return 0;
}

/* Refused: neither looks at the task, which is another thread's. */
TEST_REAL(a_plain_thread_neither_cancels_a_task_nor_closes_a_scope)
{
    ci_misuse_aborts = false;
    COIR_HANDLE(handle);
    COIR_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    CHECK_EQ(coir_go_with(scope, &options, sleep_long, NULL), 0);
    CHECK_EQ(coir_yield(), 0);
    CHECK_EQ(coir_offload(close_and_cancel, &(struct owned){scope, handle}), 0);
    CHECK_EQ(coir_scope_live(scope), 1);
    CHECK(!coir_handle_has_ended(handle));
    coir_cancel(handle);
    CHECK_EQ(coir_join(handle), -ECANCELED);
}

/* ---- closed by another fiber than its opener, which is cancelled ---- */

static int sleep_shielded(void *arg)
{
    (void)arg;
    COIR_SHIELD;
    return coir_sleep_for(10 * COIR_MS);
}

static int close_cancelled(void *scope)
{
    CHECK_EQ(coir_sleep_for(COIR_S), -ECANCELED);
    coir_scope_close(scope);
    return 0;
}

TEST_SIM(a_close_waits_also_in_a_cancelled_task_that_has_not_opened_it)
{
    coir_scope storage = {{0}};
    COIR_HANDLE(handle);
    COIR_SCOPE(around);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    coir_scope *scope = coir_scope_open(&storage);
    CHECK_EQ(coir_go(scope, sleep_shielded, NULL), 0);
    CHECK_EQ(coir_go_with(around, &options, close_cancelled, scope), 0);
    CHECK_EQ(coir_yield(), 0);
    coir_cancel(handle);
    coir_time before = coir_now();
    CHECK_EQ(coir_join(handle), 0);
    CHECK_EQ(coir_now() - before, 10 * COIR_MS);
    CHECK_EQ(coir_go(scope, sleep_shielded, NULL), -EBADF);
}
