/* Several workers: placement, far tasks, posts, stopping. Simulated ones, whose interleaving comes
 * from a seed, and real threads. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness.h"

static int where(void *arg)
{
    *(int *)arg = coir_worker_index();
    return coir_worker_index() + 100;
}

static void place(void)
{
    int count = (int)coir_worker_count(coir_runtime_current()),
        seen[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
    COIR_SCOPE(scope);
    for (int i = 0; i < count; i++)
        CHECK_EQ(coir_go_on(scope, i, where, &seen[i]), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    for (int i = 0; i < count; i++)
        CHECK_EQ(seen[i], i);
    CHECK_EQ(coir_go_on(scope, count, where, &seen[0]), -EINVAL);
    CHECK_EQ(coir_go_on(scope, -1, where, &seen[0]), -EINVAL);
    COIR_HANDLE(handle);
    coir_go_options options = COIR_GO_OPTIONS;
    options.place = COIR_ON_WORKER(count - 1);
    options.handle = handle;
    CHECK_EQ(coir_go_with(scope, &options, where, &seen[0]), 0);
    for (int i = -3; i < 0; i++) {
        coir_go_options nowhere = COIR_GO_OPTIONS;
        nowhere.place = COIR_ON_WORKER(i);
        CHECK_EQ(coir_go_with(scope, &nowhere, where, &seen[0]), -EINVAL);
        CHECK_EQ(coir_call_on(i, where, &seen[0]), -EINVAL);
    }
    CHECK_EQ(coir_join(handle), 100 + count - 1);
}

TEST(tasks_run_where_they_were_put)
{
    test_in_runtime(place, 4);
    for (uint64_t seed = 1; seed <= 100; seed++)
        test_in_sim(place, 3, seed);
}

static int total;

static int add_one(void *arg)
{
    (void)arg;
    coir_sleep_for(10 * COIR_US);
    __atomic_fetch_add(&total, 1, __ATOMIC_RELAXED);
    return 0;
}

static int wait_long(void *arg)
{
    (void)arg;
    int rc = coir_sleep_for(1000 * COIR_S);
    __atomic_fetch_add(&total, rc == -ECANCELED, __ATOMIC_RELAXED);
    return rc;
}

/* Cancels far tasks at any moment of their lives: before they arrive, while they are shared,
 * parked, or ending. */
static void cancel_far(void)
{
    int count = (int)coir_worker_count(coir_runtime_current());
    for (int round = 0; round < 30; round++) {
        COIR_SERVING_SCOPE(scope);
        for (int i = 0; i < 10; i++) {
            coir_go_on(scope, (round + i) % count, i % 2 ? wait_long : add_one, NULL);
            coir_go_anywhere(scope, i % 3 ? add_one : wait_long, NULL);
            if ((round + i) % 4 == 0)
                coir_yield();
        }
        if (round % 3 == 0)
            coir_sleep_for(round * COIR_US);
        coir_scope_cancel(scope);
        CHECK_EQ(coir_scope_wait(scope), 0);
        CHECK_EQ(coir_scope_live(scope), 0);
    }
}

TEST(far_tasks_may_be_cancelled_at_any_moment)
{
    for (int i = 0; i < 20; i++)
        test_in_runtime(cancel_far, 3);
    for (uint64_t seed = 1; seed <= 200; seed++)
        test_in_sim(cancel_far, 3, seed);
}

static int hello(void *arg)
{
    (void)arg;
    return 0;
}

/* The end comes while the other workers are between looking for it and falling asleep. */
TEST(a_runtime_that_ends_at_once_wakes_every_worker)
{
    coir_config config = COIR_CONFIG;
    config.workers = 3;
    coir_runtime *runtime;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    for (int i = 0; i < 3000; i++)
        CHECK_EQ(coir_runtime_run(runtime, hello, NULL), 0);
    coir_runtime_free(runtime);
}

static int sleep_until_stopped(void *arg)
{
    coir_go_on(NULL, 1, wait_long, NULL);
    kill(getpid(), SIGTERM);                   /* the first task is to end at once, */
    coir_runtime_stop(coir_runtime_current()); /* and what is in the background as well */
    return wait_long(arg);
}

TEST(a_stop_signal_and_another_stop_cancel_everything)
{
    setenv("COIR_WORKERS", "3", 1);
    CHECK_EQ(coir_main(sleep_until_stopped, NULL), 0);
}

static void *signal_helper(void *arg)
{
    (void)arg;
    return NULL;
}

static int handled;

static void on_user_signal(int number)
{
    (void)number;
    __atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
    CHECK(coir_worker_index() <= 0); /* never on a helper thread */
}

static int send_signals(void *arg)
{
    (void)arg;
    for (int i = 0; i < 100; i++) {
        kill(getpid(), SIGUSR1);
        coir_sleep_for(10 * COIR_US);
    }
    return 0;
}

static void under_signals(void)
{
    COIR_SCOPE(scope);
    coir_go_on(scope, 1, send_signals, NULL);
    coir_go_on(scope, 0, send_signals, NULL);
    CHECK_EQ(coir_scope_wait(scope), 0);
}

TEST(signals_are_not_delivered_to_helper_threads)
{
    pthread_t thread;
    signal(SIGUSR1, on_user_signal);
    CHECK(pthread_create(&thread, NULL, signal_helper, NULL) == 0);
    pthread_join(thread, NULL);
    test_in_runtime(under_signals, 2);
    CHECK(handled > 0);
}

static int count_up(coir_generator *generator, uint64_t first, void *arg)
{
    (void)arg;
    int rc = 0;
    for (uint64_t i = first; rc == 0; i++)
        rc = coir_generator_yield(generator, i, NULL);
    return rc;
}

static int resume_elsewhere(void *arg)
{
    uint64_t value = 77;
    CHECK_EQ(coir_generator_next(arg, 5, &value), -EXDEV);
    CHECK_EQ(value, 77);
    return 0;
}

static void share_a_generator(void)
{
    coir_generator *generator;
    uint64_t value = 0;
    CHECK_EQ(coir_generator_new(count_up, NULL, &generator), 0);
    CHECK_EQ(coir_call_on(1, resume_elsewhere, generator), 0); /* before it has begun */
    CHECK_EQ(coir_generator_next(generator, 3, &value), 1);
    CHECK_EQ(value, 3);
    CHECK_EQ(coir_call_on(1, resume_elsewhere, generator), 0); /* while it is suspended */
    CHECK_EQ(coir_generator_next(generator, 0, &value), 1);
    CHECK_EQ(value, 4);
    coir_generator_free(generator);
}

TEST(a_generator_belongs_to_its_worker)
{
    test_in_runtime(share_a_generator, 2);
    for (uint64_t seed = 1; seed <= 20; seed++)
        test_in_sim(share_a_generator, 2, seed);
}

/* ---- callbacks on a worker's loop ---- */

static coir_channel *told;
static int callbacks, ends[2];

static void tell(char what)
{
    CHECK(coir_worker_index() == 0 && coir_worker_loop());
    CHECK_EQ(coir_channel_try_send(told, &what), 0);
    callbacks++;
}

static void on_tick(coir_loop *loop, coir_timer *timer, void *arg)
{
    (void)arg;
    tell('t');
    if (callbacks == 3)
        coir_timer_stop(loop, timer);
}

static void on_readable(coir_loop *loop, coir_watch *watch, int events, void *arg)
{
    (void)arg;
    CHECK_EQ(events, COIR_READ);
    tell('r');
    coir_watch_stop(loop, watch);
}

static void on_hook(coir_loop *loop, coir_hook *hook, void *arg)
{
    (void)arg;
    tell('h');
    coir_hook_stop(loop, hook);
}

static void on_passed(coir_timeout_set *set, coir_timeout *timeout, void *arg)
{
    (void)set, (void)timeout, (void)arg;
    tell('p');
}

static void post_refused(void *arg)
{
    (void)arg;
}

static int no_call(void *arg)
{
    (void)arg;
    return 0;
}

static void expect(char what)
{
    char got;
    CHECK_EQ(coir_channel_recv(told, &got), 0);
    CHECK_EQ(got, what);
}

static int await_callbacks(void *arg)
{
    coir_loop *loop = coir_worker_loop();
    coir_timer timer = {{0}};
    coir_watch watch = {{0}};
    coir_hook hook = {{0}};
    coir_timeout_set passed;
    coir_timeout timeout = {{0}};
    coir_timer_options options = COIR_TIMER_OPTIONS;
    options.interval = COIR_MS;
    callbacks = 0;
    CHECK_EQ(coir_channel_new(1, 8, &told), 0);
    CHECK_EQ(coir_timer_start_with(loop, &timer, &options, on_tick, NULL), 0);
    for (int i = 0; i < 3; i++)
        expect('t');
    coir_hook_start(loop, &hook, COIR_HOOK_IN_TURN, on_hook, NULL);
    expect('h');
    CHECK_EQ(coir_timeout_set_init(&passed, loop, COIR_MS, on_passed), 0);
    coir_timeout_start(&passed, &timeout, NULL);
    expect('p');
    if (!arg) {
        CHECK_EQ(pipe(ends), 0);
        CHECK_EQ(coir_watch_start(loop, &watch, ends[0], COIR_READ, on_readable, NULL), 0);
        CHECK_EQ(write(ends[1], "x", 1), 1);
        expect('r');
        close(ends[0]);
        close(ends[1]);
    }
    /* the runtime runs and stops it */
    CHECK_EQ(coir_loop_run(loop), -EINVAL);
    CHECK_EQ(coir_loop_run_once(loop, 0), -EINVAL);
    CHECK_EQ(coir_loop_post(loop, post_refused, NULL), -EINVAL);
    CHECK_EQ(coir_loop_call(loop, no_call, NULL), -EINVAL);
    CHECK_EQ(coir_loop_fd(loop), -EINVAL);
    coir_loop_stop(loop);
    coir_loop_free(loop);
    coir_channel_free(told);
    return 0;
}

TEST(fibers_and_callbacks_live_on_one_loop)
{
    static const char *const drivers[] = {"io_uring", "epoll", "poll"};
    coir_config config = COIR_CONFIG;
    CHECK(!coir_worker_loop());
    unsetenv("COIR_DRIVER");
    config.workers = 1;
    config.deadlock = COIR_DEADLOCK_END; /* a callback that will be called is not a deadlock */
    for (int i = 0; i < 3; i++) {
        coir_runtime *runtime;
        config.driver = drivers[i];
        if (coir_runtime_new(&config, &runtime) < 0) {
            CHECK_EQ(i, 0); /* io_uring does not work here */
            continue;
        }
        CHECK_EQ(coir_runtime_run(runtime, await_callbacks, NULL), 0);
        coir_runtime_free(runtime);
    }
}

static int callbacks_scenario(coir_sim *sim, void *arg)
{
    return coir_sim_host_main(sim, "host", await_callbacks, arg);
}

TEST(fibers_and_callbacks_live_on_one_simulated_loop)
{
    coir_sim_options options = COIR_SIM_OPTIONS;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        options.seed = seed;
        CHECK_EQ(coir_sim_run(&options, callbacks_scenario, &options, NULL), 0);
    }
}
