/* Every order of the begin and the end of a run against those who stop it, post to it, block on
 * it, call between its workers, and free it (task/run.c). */
#include "model/model.h"

#include <errno.h>

#include "harness.h"

static int calls, results[2];
static coir_event event;

static void reset(void)
{
    calls = 0;
    results[0] = results[1] = 1;
    event = (coir_event)COIR_EVENT_INIT;
}

static void no_check(void)
{
}

static int return_at_once(void *arg)
{
    (void)arg;
    return 0;
}

static int add_one(void *arg)
{
    (void)arg;
    calls++;
    return 0;
}

static int wait_for_event(void *arg)
{
    (void)arg;
    return coir_event_wait(&event);
}

/* ---- stop ---- */

static void stop_it(void)
{
    coir_runtime_stop(model_runtime);
}

static int yield_twice(void *arg)
{
    (void)arg;
    coir_yield();
    return coir_yield();
}

TEST(stop_against_the_begin)
{
    model_run_whole(&(struct model){"stop against the begin",
                                    2,
                                    2,
                                    reset,
                                    wait_for_event,
                                    {stop_it, NULL},
                                    no_check,
                                    -ECANCELED,
                                    0},
                    true);
    model_run_whole(&(struct model){"two stops against the begin",
                                    1,
                                    2,
                                    reset,
                                    wait_for_event,
                                    {stop_it, stop_it},
                                    no_check,
                                    -ECANCELED,
                                    0},
                    false);
}

TEST(stop_against_the_end)
{
    model_run_whole(&(struct model){"stop against the end",
                                    2,
                                    2,
                                    reset,
                                    yield_twice,
                                    {stop_it, NULL},
                                    no_check,
                                    MODEL_ANY_RESULT,
                                    0},
                    false);
}

/* ---- the last hold and the last waker, against the free ---- */

static coir_waker waker;

static void wait_for_the_start(void)
{
    while (!__atomic_load_n(&calls, __ATOMIC_ACQUIRE))
        model_pause();
}

static int hold(void *arg)
{
    coir_runtime_hold(arg);
    __atomic_store_n(&calls, 1, __ATOMIC_RELEASE);
    return 0;
}

static void release(void)
{
    wait_for_the_start();
    coir_runtime_release(model_runtime);
}

/* The parker is not ended: the runtime does that when it is freed. */
static int give_a_waker(void *arg)
{
    static coir_parker parker;
    (void)arg;
    CHECK_EQ(coir_parker_init(&parker), 0);
    waker = coir_parker_waker(&parker);
    __atomic_store_n(&calls, 1, __ATOMIC_RELEASE);
    return 0;
}

static void drop(void)
{
    wait_for_the_start();
    coir_waker_drop(waker);
}

/* A worker with a timer is not stuck, so the run waits for the stop. */
static int wait_for_the_stop(void *arg)
{
    (void)arg;
    return coir_sleep_for(COIR_S);
}

TEST(who_alerts_workers_is_not_overtaken_by_the_free)
{
    static const struct {
        const char *name;
        coir_task_fn *start;
        void (*plain)(void);
        int result;
    } rows[] = {{"release against the free", hold, release, 0},
                {"dropped waker against the free", give_a_waker, drop, 0},
                {"stop and its alerts against the free", wait_for_the_stop, stop_it, -ECANCELED}};
    for (int i = 0; i < 6; i++)
        model_run_whole(&(struct model){rows[i / 2].name,
                                        1 + (unsigned)i % 2,
                                        2,
                                        reset,
                                        rows[i / 2].start,
                                        {rows[i / 2].plain, NULL},
                                        no_check,
                                        rows[i / 2].result,
                                        COIR_DEADLOCK_END},
                        true);
}

/* ---- block_on ---- */

static void block_on_it(void)
{
    coir_call call;
    results[0] = (int)coir_block_on(model_runtime, coir_call_init(&call, add_one, NULL));
}

/* It was started, or it was refused; it never waits for ever. */
static void check_blocked(void)
{
    CHECK(results[0] == 0 || results[0] == -COIR_EENDED);
    CHECK_EQ(calls, results[0] == 0);
}

TEST(block_on_against_the_end)
{
    model_run_whole(&(struct model){"block_on against the end",
                                    1,
                                    3,
                                    reset,
                                    return_at_once,
                                    {block_on_it, NULL},
                                    check_blocked,
                                    0,
                                    0},
                    false);
    model_run_whole(&(struct model){"block_on, two workers",
                                    2,
                                    2,
                                    reset,
                                    return_at_once,
                                    {block_on_it, NULL},
                                    check_blocked,
                                    0,
                                    0},
                    false);
}

static void check_cancelled(void)
{
    CHECK(results[0] == 0 || results[0] == -ECANCELED || results[0] == -COIR_EENDED);
    CHECK_EQ(calls, results[0] == 0);
}

TEST(block_on_against_stop)
{
    model_run_whole(&(struct model){"block_on against stop",
                                    1,
                                    2,
                                    reset,
                                    wait_for_event,
                                    {block_on_it, stop_it},
                                    check_cancelled,
                                    -ECANCELED,
                                    0},
                    false);
}

/* ---- posts that spawn ---- */

static int call_the_other(void *arg)
{
    (void)arg;
    results[1] = coir_call_on(1 - coir_worker_index(), add_one, NULL);
    return 0;
}

static void spawn_one(void *arg)
{
    (void)arg;
    results[0] = coir_go(NULL, call_the_other, NULL);
}

static int post_here(void *arg)
{
    CHECK_EQ(coir_runtime_post(arg, 0, spawn_one, NULL), 0);
    return 0;
}

static int post_there(void *arg)
{
    CHECK_EQ(coir_runtime_post(arg, 1, spawn_one, NULL), 0);
    return 0;
}

static void post_from_outside(void)
{
    int rc = coir_runtime_post(model_runtime, 1, spawn_one, NULL);
    if (rc < 0) {
        CHECK_EQ(rc, -COIR_EENDED);
        results[0] = rc;
    }
}

/* A task that was started reached the other worker, which had not left; or nothing was started.
 * -ESRCH: the call was made after the run. */
static void check_spawned(void)
{
    CHECK(results[0] == 0 || results[0] == -COIR_EENDED || results[0] == -ESRCH);
    CHECK_EQ(results[1], results[0] == 0 ? 0 : 1);
    CHECK_EQ(calls, results[0] == 0);
}

TEST(a_post_that_spawns_against_the_end)
{
    model_run_whole(
        &(struct model){
            "post to itself", 2, 3, reset, post_here, {NULL, NULL}, check_spawned, 0, 0},
        false);
    model_run_whole(
        &(struct model){
            "post to the other", 2, 3, reset, post_there, {NULL, NULL}, check_spawned, 0, 0},
        false);
    model_run_whole(&(struct model){"post from outside",
                                    2,
                                    2,
                                    reset,
                                    return_at_once,
                                    {post_from_outside, NULL},
                                    check_spawned,
                                    0,
                                    0},
                    false);
}

/* ---- freeing it under a visitor ---- */

static void set_event(void *arg)
{
    (void)arg;
    coir_event_set(&event);
}

static void post_the_end(void)
{
    CHECK_EQ(coir_runtime_post(model_runtime, 0, set_event, NULL), 0);
}

static void set_from_outside(void)
{
    coir_event_set(&event);
}

TEST(freeing_under_a_visitor)
{
    model_run_whole(&(struct model){"freeing under a post",
                                    1,
                                    3,
                                    reset,
                                    wait_for_event,
                                    {post_the_end, NULL},
                                    no_check,
                                    0,
                                    0},
                    true);
    model_run_whole(&(struct model){"freeing under a wake",
                                    1,
                                    3,
                                    reset,
                                    wait_for_event,
                                    {set_from_outside, NULL},
                                    no_check,
                                    0,
                                    0},
                    true);
}

/* ---- shared work ---- */

/* Where both others sleep already, one task wakes one of them, and not the other. */
static int share_one(void *arg)
{
    coir_counters before = COIR_COUNTERS, after = COIR_COUNTERS;
    COIR_SCOPE(scope);
    coir_counters_get(arg, &before);
    CHECK_EQ(coir_go_anywhere(scope, add_one, NULL), 0);
    coir_counters_get(arg, &after);
    CHECK(after.wakeups_sent - before.wakeups_sent <= 1);
    if (after.wakeups_sent != before.wakeups_sent)
        results[0] = 2; /* in this order a thread slept */
    return coir_scope_wait(scope);
}

static int slept;

static void check_shared(void)
{
    CHECK_EQ(calls, 1);
    slept += results[0] == 2;
}

TEST(one_idle_worker_is_woken_for_one_shared_task)
{
    model_run(&(struct model){
        "one shared task", 3, 2, reset, share_one, {NULL, NULL}, check_shared, 0, 0});
    CHECK(slept > 0);
}
