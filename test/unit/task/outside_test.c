/* The edges of a runtime: wakers, plain threads that block on futures, foreign event loops, and
 * runs that are dead. */
#include <coir.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

/* ---- wakers ---- */

TEST_SIM(wake_ups_before_the_wait_are_kept_and_several_are_one)
{
    coir_parker parker;
    CHECK_EQ(coir_parker_init(&parker), 0);
    coir_waker waker = coir_parker_waker(&parker), other = coir_waker_clone(&waker);
    CHECK(coir_waker_will_wake(&waker, &other));
    coir_waker_wake_by_ref(&waker);
    coir_waker_wake(other);
    CHECK_EQ(coir_parker_wait(&parker), 0);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_parker_wait(&parker), -ETIME);
    }
    coir_waker_wake_by_ref(&waker);
    {
        COIR_DEADLINE(coir_in(0));
        CHECK_EQ(coir_parker_wait(&parker), -ETIME); /* and the wake-up is kept */
    }
    CHECK_EQ(coir_parker_wait(&parker), 0);
    coir_parker_done(&parker);
    coir_waker_wake_by_ref(&waker); /* stray: harmless */
    coir_parker again;
    CHECK_EQ(coir_parker_init(&again), 0);
    coir_waker_wake_by_ref(&waker);
    coir_waker mine = coir_parker_waker(&again);
    CHECK(!coir_waker_will_wake(&waker, &mine));
    coir_waker_drop(mine);
    coir_case waits[] = {coir_case_parker(&again), coir_case_after(COIR_MS)};
    CHECK_EQ(coir_select(waits, 2), 1);
    coir_parker_done(&again);
    coir_waker_drop(waker);
}

struct shuttle {
    coir_waker waker;
    int turn, rounds;
};

static void *wake_thread(void *arg)
{
    struct shuttle *shuttle = arg;
    for (int i = 0; i < shuttle->rounds; i++) {
        while (__atomic_load_n(&shuttle->turn, __ATOMIC_ACQUIRE) != i)
            sched_yield();
        __atomic_store_n(&shuttle->turn, -2, __ATOMIC_RELEASE);
        coir_waker_wake_by_ref(&shuttle->waker);
    }
    coir_waker_wake(shuttle->waker);
    return NULL;
}

/* Each round the thread makes something true and wakes; the task waits until it is. A lost wake-up
 * would wait for ever. */
static int be_woken(void *arg)
{
    struct shuttle *shuttle = arg;
    coir_parker parker;
    pthread_t thread;
    CHECK_EQ(coir_parker_init(&parker), 0);
    shuttle->waker = coir_parker_waker(&parker);
    shuttle->turn = -1;
    pthread_create(&thread, NULL, wake_thread, shuttle);
    for (int i = 0; i < shuttle->rounds; i++) {
        __atomic_store_n(&shuttle->turn, i, __ATOMIC_RELEASE);
        while (__atomic_load_n(&shuttle->turn, __ATOMIC_ACQUIRE) == i)
            CHECK_EQ(coir_parker_wait(&parker), 0);
    }
    coir_parker_done(&parker);
    pthread_join(thread, NULL);
    return 0;
}

static coir_waker stray;

static int leave_a_waker(void *arg)
{
    (void)arg;
    coir_parker parker;
    CHECK_EQ(coir_parker_init(&parker), 0);
    stray = coir_parker_waker(&parker);
    return 0; /* it forgets to close, too */
}

TEST(a_foreign_thread_wakes_and_no_wake_up_is_lost)
{
    struct shuttle shuttle = {.rounds = 20000};
    CHECK_EQ(coir_main(be_woken, &shuttle), 0);
}

TEST(a_waker_may_outlive_its_runtime)
{
    CHECK_EQ(coir_main(leave_a_waker, NULL), 0);
    coir_waker copy = coir_waker_clone(&stray);
    coir_waker_wake(copy);
    coir_waker_drop(stray);
}

/* ---- block_on ---- */

static int add(void *arg)
{
    coir_sleep_for(10 * COIR_US);
    CHECK(coir_worker_index() >= 0);
    return *(int *)arg + 1;
}

TEST(a_plain_thread_runs_a_future_on_a_runtime_of_its_own)
{
    coir_call call;
    coir_sleep_op sleep;
    int number = 41;
    CHECK_EQ(coir_block_on(NULL, coir_call_init(&call, add, &number)), 42);
    CHECK_EQ(coir_block_on(NULL, coir_sleep_for_op(&sleep, COIR_MS)), 0);
}

struct visitors {
    coir_runtime *runtime;
    coir_channel *channel;
    coir_semaphore left;
};

static void *visit(void *arg)
{
    struct visitors *visitors = arg;
    for (int i = 0; i < 200; i++) {
        coir_call call;
        coir_wait_op op;
        int number = i;
        CHECK_EQ(coir_block_on(visitors->runtime, coir_call_init(&call, add, &number)), i + 1);
        CHECK_EQ(
            coir_block_on(visitors->runtime, coir_channel_send_op(&op, visitors->channel, &number)),
            0);
    }
    coir_semaphore_release(&visitors->left, 1);
    return NULL;
}

static int host_visitors(void *arg)
{
    struct visitors *visitors = arg;
    coir_future nothing;
    CHECK_EQ(coir_block_on(visitors->runtime, coir_yield_op(&nothing)), -EDEADLK);
    for (int i = 0; i < 600; i++) {
        int number;
        CHECK_EQ(coir_channel_recv(visitors->channel, &number), 0);
    }
    return coir_semaphore_acquire(&visitors->left, 3);
}

TEST(plain_threads_block_on_a_running_runtime)
{
    coir_config config = COIR_CONFIG;
    config.workers = 2;
    struct visitors visitors = {.left = COIR_SEMAPHORE_INIT(0)};
    pthread_t threads[3];
    CHECK_EQ(coir_runtime_new(&config, &visitors.runtime), 0);
    CHECK_EQ(coir_channel_new(sizeof(int), 1, &visitors.channel), 0);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, visit, &visitors); /* the first may come before the run */
    CHECK_EQ(coir_runtime_run(visitors.runtime, host_visitors, &visitors), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    coir_runtime_free(visitors.runtime);
    coir_channel_free(visitors.channel);
}

static int own_index(void *arg)
{
    *(int *)arg = 7;
    coir_yield();
    return coir_worker_index();
}

static void call_others(void)
{
    int touched = 0;
    for (int i = 0; i < (int)coir_worker_count(coir_runtime_current()); i++) {
        touched = 0;
        CHECK_EQ(coir_call_on(i, own_index, &touched), i);
        CHECK_EQ(touched, 7);
    }
    CHECK_EQ(coir_call_on(-1, own_index, &touched), -EINVAL);
    CHECK_EQ(coir_call_on(99, own_index, &touched), -EINVAL);
}

TEST(a_fiber_calls_a_function_on_another_worker)
{
    test_in_runtime(call_others, 3);
    for (uint64_t seed = 1; seed <= 50; seed++)
        test_in_sim(call_others, 3, seed);
}

/* ---- driven by a foreign loop ---- */

static int chat_far(void *arg)
{
    coir_channel *channel = arg;
    for (int i = 0; i < 100; i++)
        CHECK_EQ(coir_channel_send(channel, &i), 0);
    return 0;
}

static int driven(void *arg)
{
    COIR_SCOPE(scope);
    coir_channel *channel;
    coir_time start = coir_now();
    CHECK_EQ(coir_channel_new(sizeof(int), 1, &channel), 0);
    CHECK_EQ(coir_go_on(scope, 1, chat_far, channel), 0);
    for (int i = 0; i < 100; i++) {
        int got;
        CHECK_EQ(coir_channel_recv(channel, &got), 0);
        CHECK_EQ(got, i);
        if (i % 10 == 0)
            coir_sleep_for(COIR_MS);
    }
    CHECK(coir_now() - start >= 10 * COIR_MS);
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_channel_free(channel);
    *(int *)arg = 1;
    return 0;
}

TEST(a_foreign_loop_drives_a_worker)
{
    coir_config config = COIR_CONFIG;
    config.workers = 2;
    coir_runtime *runtime;
    int done = 0, steps = 0;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    int rc = coir_runtime_begin(runtime, driven, &done);
    if (rc == -ENOTSUP) { /* COIR_DRIVER names a driver without a descriptor */
        coir_runtime_free(runtime);
        return;
    }
    CHECK_EQ(rc, 0);
    struct pollfd watched = {.fd = coir_runtime_fd(runtime), .events = POLLIN};
    do {
        coir_time next = coir_runtime_next(runtime), now = coir_now();
        int timeout = next == COIR_NEVER ? -1
                      : next <= now      ? 0
                                         : (int)((next - now + COIR_MS - 1) / COIR_MS);
        CHECK(poll(&watched, 1, timeout) >= 0);
        steps++;
    } while (coir_runtime_step(runtime));
    CHECK_EQ(coir_runtime_end(runtime), 0);
    CHECK_EQ(done, 1);
    CHECK(steps < 20000); /* it waits rather than spins */
    coir_runtime_free(runtime);
}

/* ---- deadlocks ---- */

static char told[4096];

static void note_line(enum coir_log_level level, const char *line, void *context)
{
    (void)context;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (level != COIR_LOG_ERROR)
        return;
    pthread_mutex_lock(&lock);
    size_t len = strlen(told); /* the first lines are enough */
    snprintf(told + len, sizeof told - len, "%s\n", line);
    pthread_mutex_unlock(&lock);
}

static int run_dead(coir_task_fn *fn, void *arg, unsigned workers, enum coir_deadlock deadlock)
{
    coir_config config = COIR_CONFIG;
    config.workers = workers;
    config.deadlock = deadlock;
    config.log = note_line;
    coir_runtime *runtime;
    told[0] = 0;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    int rc = coir_runtime_run(runtime, fn, arg);
    coir_runtime_free(runtime);
    return rc;
}

struct crossed {
    coir_channel *a, *b;
};

static int wait_for_b(void *arg)
{
    struct crossed *crossed = arg;
    int item;
    coir_task_set_name("left");
    return coir_channel_recv(crossed->b, &item);
}

static int wait_for_a(void *arg)
{
    struct crossed *crossed = arg;
    int item;
    coir_task_set_name("right");
    return coir_channel_recv(crossed->a, &item);
}

static int cross(void *arg)
{
    coir_task_set_name("main");
    COIR_SCOPE(scope);
    coir_go(scope, wait_for_b, arg);
    coir_go_on(scope, (int)coir_worker_count(coir_runtime_current()) - 1, wait_for_a, arg);
    return coir_scope_wait(scope);
}

TEST(two_that_wait_for_each_other_are_told_and_ended)
{
    for (int i = 0; i < 200; i++) {
        struct crossed crossed;
        CHECK_EQ(coir_channel_new(sizeof(int), 1, &crossed.a), 0);
        CHECK_EQ(coir_channel_new(sizeof(int), 1, &crossed.b), 0);
        CHECK_EQ(run_dead(cross, &crossed, 1 + (unsigned)i % 3, COIR_DEADLOCK_END), -EDEADLK);
        CHECK(strstr(told, "task main waits for the tasks of a scope"));
        CHECK(strstr(told, "task left waits for an item of a channel"));
        if (i % 3 == 0)
            CHECK(strstr(told, "task right waits for an item of a channel"));
        coir_channel_free(crossed.a);
        coir_channel_free(crossed.b);
    }
}

static int lock_twice(void *arg)
{
    (void)arg;
    coir_mutex mutex = COIR_MUTEX_INIT;
    coir_mutex_lock(&mutex);
    return coir_mutex_lock(&mutex);
}

static coir_handle own_handle;

static int join_oneself(void *arg)
{
    (void)arg;
    return coir_join(&own_handle);
}

static int wait_for_oneself(void *arg)
{
    (void)arg;
    COIR_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = &own_handle;
    coir_go_with(scope, &options, join_oneself, NULL);
    return coir_scope_wait(scope);
}

static coir_future *stuck_poll(coir_future *future)
{
    static coir_wait_op op;
    static coir_event never = COIR_EVENT_INIT;
    COIR_BEGIN(future);
    COIR_AWAIT(future, coir_event_wait_op(&op, &never));
    COIR_RETURN(future, op.future.result);
}

static const coir_future_kind stuck_kind = COIR_FUTURE_KIND("a stuck frame", stuck_poll, NULL);

static int select_for_ever(void *arg)
{
    struct crossed *crossed = arg;
    int item;
    coir_future frame;
    coir_event event = COIR_EVENT_INIT;
    COIR_SCOPE(scope);
    coir_go_future(scope, coir_future_init(&frame, &stuck_kind));
    coir_case waits[] = {coir_case_recv(crossed->a, &item), coir_case_event(&event)};
    return coir_select_in_order(waits, 2);
}

TEST(a_select_says_what_it_waits_for)
{
    struct crossed crossed;
    CHECK_EQ(coir_channel_new(sizeof(int), 1, &crossed.a), 0);
    CHECK_EQ(run_dead(select_for_ever, &crossed, 1, COIR_DEADLOCK_END), -EDEADLK);
    CHECK(strstr(told, "task main waits for any of an item of a channel, an event"));
    CHECK(strstr(told, "task a stuck frame waits for an event"));
    coir_channel_free(crossed.a);
}

/* So many that memory may be given back when they end: the look for that hides no deadlock. */
static int many_wait(void *arg)
{
    enum { MANY = 300 };
    COIR_SCOPE(scope);
    for (int i = 0; i < MANY; i++)
        CHECK_EQ(coir_go(scope, wait_for_a, arg), 0);
    return coir_scope_wait(scope);
}

TEST(a_deadlock_of_many_is_told_and_ended)
{
    struct crossed crossed;
    CHECK_EQ(coir_channel_new(sizeof(int), 1, &crossed.a), 0);
    CHECK_EQ(run_dead(many_wait, &crossed, 1, COIR_DEADLOCK_END), -EDEADLK);
    coir_channel_free(crossed.a);
}

TEST(a_task_that_waits_for_itself_and_a_mutex_that_nobody_unlocks_are_told)
{
    CHECK_EQ(run_dead(lock_twice, NULL, 2, COIR_DEADLOCK_END), -EDEADLK);
    CHECK(strstr(told, "waits for a mutex"));
    CHECK_EQ(run_dead(wait_for_oneself, NULL, 1, COIR_DEADLOCK_END), -EDEADLK);
    CHECK(strstr(told, "waits for a task"));
}

/* What looks like a deadlock and is none: somebody outside is going to send. */
static coir_event outside_event = COIR_EVENT_INIT;

static void *set_later(void *arg)
{
    coir_runtime *runtime = arg;
    for (int i = 0; i < 1000; i++)
        sched_yield();
    coir_event_set(&outside_event);
    coir_runtime_release(runtime);
    return NULL;
}

static int wait_for_outside(void *arg)
{
    pthread_t *thread = arg;
    coir_runtime_hold(coir_runtime_current());
    pthread_create(thread, NULL, set_later, coir_runtime_current());
    return coir_event_wait(&outside_event);
}

static int offload_nap(void *arg)
{
    (void)arg;
    for (int i = 0; i < 1000; i++)
        sched_yield();
    return 0;
}

static int wait_for_offloaded(void *arg)
{
    (void)arg;
    return coir_offload(offload_nap, NULL);
}

static void *use_waker(void *arg)
{
    for (int i = 0; i < 1000; i++)
        sched_yield();
    coir_waker_wake(*(coir_waker *)arg);
    return NULL;
}

static int wait_for_waker(void *arg)
{
    coir_parker parker;
    coir_waker waker;
    coir_parker_init(&parker);
    waker = coir_parker_waker(&parker);
    pthread_create(arg, NULL, use_waker, &waker);
    int rc = coir_parker_wait(&parker);
    coir_parker_done(&parker);
    return rc;
}

TEST(what_is_no_deadlock_is_not_told)
{
    pthread_t thread;
    for (int i = 0; i < 20; i++) {
        coir_event_reset(&outside_event);
        CHECK_EQ(run_dead(wait_for_outside, &thread, 2, COIR_DEADLOCK_END), 0);
        pthread_join(thread, NULL);
        CHECK_EQ(run_dead(wait_for_offloaded, NULL, 2, COIR_DEADLOCK_END), 0);
        CHECK_EQ(run_dead(wait_for_waker, &thread, 2, COIR_DEADLOCK_END), 0);
        pthread_join(thread, NULL);
        CHECK_EQ(told[0], 0);
    }
}
