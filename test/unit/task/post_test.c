/* Calls that are posted to a worker. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "harness.h"
#include "task/current.h"
#include "task/worker.h"

static int posted;

static void on_post(void *arg)
{
    CHECK_EQ((intptr_t)arg, posted);
    CHECK_EQ(coir_worker_index(), 1);
    CHECK_EQ(coir_sleep_for(1), -ESRCH); /* not in a fiber */
    __atomic_store_n(&posted, posted + 1, __ATOMIC_RELEASE);
}

static void post_all(void)
{
    for (intptr_t i = 0; i < 10000; i++)
        CHECK_EQ(coir_runtime_post(coir_runtime_current(), 1, on_post, (void *)i), 0);
    CHECK_EQ(coir_runtime_post(coir_runtime_current(), 2, on_post, NULL), -EINVAL);
    while (__atomic_load_n(&posted, __ATOMIC_ACQUIRE) < 10000)
        coir_yield();
}

TEST(posts_run_on_the_worker_in_order)
{
    test_in_runtime(post_all, 2);
}

/* ---- several senders at once, more than a block from each ---- */

enum { SENDERS = 3, EACH = 20000 };
static intptr_t came_from[SENDERS];
static int came_in_all;

static void count_in_order(void *arg)
{
    intptr_t sender = (intptr_t)arg % SENDERS, number = (intptr_t)arg / SENDERS;
    CHECK_EQ(came_from[sender]++, number);
    __atomic_store_n(&came_in_all, came_in_all + 1, __ATOMIC_RELEASE);
}

static int post_each(coir_runtime *runtime, intptr_t sender)
{
    int rc = 0;
    for (intptr_t i = 0; i < EACH && rc == 0; i++)
        rc = coir_runtime_post(runtime, 1, count_in_order, (void *)(i * SENDERS + sender));
    return rc;
}

struct sender {
    coir_runtime *runtime;
    intptr_t number;
};

static void *send_from_a_thread(void *arg)
{
    const struct sender *sender = arg;
    CHECK_EQ(post_each(sender->runtime, sender->number), 0);
    return NULL;
}

static void post_from_everywhere(void)
{
    pthread_t threads[SENDERS - 1];
    struct sender senders[SENDERS - 1];
    for (intptr_t i = 0; i < SENDERS - 1; i++) {
        senders[i] = (struct sender){coir_runtime_current(), i + 1};
        CHECK_EQ(pthread_create(&threads[i], NULL, send_from_a_thread, &senders[i]), 0);
    }
    CHECK_EQ(post_each(coir_runtime_current(), 0), 0);
    while (__atomic_load_n(&came_in_all, __ATOMIC_ACQUIRE) < SENDERS * EACH)
        coir_yield();
    for (int i = 0; i < SENDERS - 1; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < SENDERS; i++)
        CHECK_EQ(came_from[i], EACH);
}

TEST(posts_of_each_sender_keep_their_order)
{
    test_in_runtime(post_from_everywhere, 2);
}

/* ---- a call that posts again lets the loop go on ---- */

static int again_left, timer_fired_at;

static void post_again(void *arg)
{
    if (again_left-- > 0)
        CHECK_EQ(coir_runtime_post(arg, 0, post_again, arg), 0);
}

static void note_left(coir_loop *loop, coir_timer *timer, void *arg)
{
    (void)loop, (void)timer, (void)arg;
    timer_fired_at = again_left;
}

static void post_without_end(void)
{
    coir_timer timer = {{0}};
    again_left = 1000000;
    timer_fired_at = -1;
    coir_timer_start(coir_worker_loop(), &timer, 0, note_left, NULL);
    CHECK_EQ(coir_runtime_post(coir_runtime_current(), 0, post_again, coir_runtime_current()), 0);
    while (timer_fired_at < 0)
        coir_yield();
    CHECK(timer_fired_at > 0); /* before the chain had ended */
    again_left = 0;
    coir_yield();
}

TEST(a_call_that_posts_again_does_not_starve_timers)
{
    test_in_runtime(post_without_end, 1);
}

/* ---- memory ---- */

static size_t allocations;
static bool refuses;

static void *count_alloc(size_t size, void *arg)
{
    (void)arg;
    allocations++;
    return refuses ? NULL : aligned_alloc(64, (size + 63) & ~(size_t)63);
}

static void count_free(void *memory, size_t size, void *arg)
{
    (void)size, (void)arg;
    free(memory);
}

static void count_one(void *arg)
{
    ++*(int *)arg;
}

static int post_in_turns(void *arg)
{
    coir_runtime *runtime = arg;
    int made = 0, wanted = 0;
    refuses = true;
    CHECK_EQ(coir_runtime_post(runtime, 0, count_one, &made), -ENOMEM);
    refuses = false;
    for (int i = 0; i < 3; i++, wanted++)
        CHECK_EQ(coir_runtime_post(runtime, 0, count_one, &made), 0);
    while (made < wanted)
        coir_yield();
    size_t before = allocations;
    for (int turn = 0; turn < 1000; turn++) { /* many blocks, but few at a time */
        for (int i = 0; i < 50; i++, wanted++)
            CHECK_EQ(coir_runtime_post(runtime, 0, count_one, &made), 0);
        while (made < wanted)
            coir_yield();
    }
    CHECK(allocations - before <= 2);
    return 0;
}

TEST(posts_use_their_memory_again)
{
    coir_runtime *runtime;
    coir_allocator allocator = COIR_ALLOCATOR(count_alloc, count_free, NULL);
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.allocator = &allocator;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    CHECK_EQ(coir_runtime_run(runtime, post_in_turns, runtime), 0);
    coir_runtime_free(runtime);
}

/* ---- a busy worker ---- */

enum { BACKLOG = 1000 }; /* several blocks */
static int made;

static void make_one(void *arg)
{
    (void)arg;
    made++;
}

/* Its turns may be long: it makes all calls that are there in one of them. */
static void fall_behind(void)
{
    for (int round = 0; round < 3; round++) {
        made = 0;
        for (int i = 0; i < BACKLOG; i++)
            CHECK_EQ(coir_runtime_post(coir_runtime_current(), 0, make_one, NULL), 0);
        CHECK_EQ(made, 0);
        while (!made)
            CHECK_EQ(coir_yield(), 0);
        CHECK_EQ(made, BACKLOG);
        CHECK(ci_inbox_empty(&ci_worker_current->loop.inbox));
    }
}

TEST(what_has_come_is_made_in_one_turn)
{
    test_in_runtime(fall_behind, 1);
}
