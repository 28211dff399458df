/* The same waits between real threads, for as many rounds as ROUNDS says: to be run under the
 * thread sanitizer. */
#include <coir.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

#include "harness.h"

static uint64_t rounds(uint64_t otherwise)
{
    const char *text = getenv("ROUNDS");
    return text ? strtoull(text, NULL, 0) : otherwise;
}

static void on_two_pinned(void (*body)(void))
{
    test_in_runtime(body, 2);
}

/* ---- channels: one sends, the other receives and is now and then late, or cancelled ---- */

static coir_channel *channel;
static uint64_t received, sum;

static int receive_until_closed(void *arg)
{
    uint64_t item;
    int rc = 0;
    (void)arg;
    for (uint64_t i = 0;; i++) {
        COIR_DEADLINE(i % 64 == 0 ? coir_in(COIR_US) : COIR_NEVER);
        rc = i % 3 ? coir_channel_recv(channel, &item) : -1;
        if (rc == -1) {
            coir_case waits[] = {coir_case_recv(channel, &item), coir_case_after(10 * COIR_US)};
            int which = coir_select(waits, 2);
            rc = which == 0 ? (int)waits[0].result : which < 0 ? which : -ETIME;
        }
        if (rc == -EPIPE)
            return 0;
        if (rc == 0) {
            received++;
            sum += item;
        }
    }
}

static void channels(void)
{
    uint64_t count = rounds(20000);
    for (size_t capacity = 0; capacity <= 16; capacity += 8) {
        received = sum = 0;
        CHECK_EQ(coir_channel_new(sizeof(uint64_t), capacity, &channel), 0);
        {
            COIR_SCOPE(scope);
            CHECK_EQ(coir_go_on(scope, 1, receive_until_closed, NULL), 0);
            for (uint64_t i = 1; i <= count; i++)
                CHECK_EQ(coir_channel_send(channel, &i), 0);
            coir_channel_close(channel);
            CHECK_EQ(coir_scope_wait(scope), 0);
        }
        CHECK_EQ(received, count);
        CHECK_EQ(sum, count * (count + 1) / 2);
        coir_channel_free(channel);
    }
}

TEST(channels_between_threads)
{
    on_two_pinned(channels);
}

/* ---- mutexes ---- */

static coir_mutex mutex;
static uint64_t counter;

static int count_up(void *arg)
{
    uint64_t count = rounds(50000);
    (void)arg;
    for (uint64_t i = 0; i < count; i++) {
        CHECK_EQ(coir_mutex_lock(&mutex), 0);
        counter++;
        if (i % 1000 == 0)
            coir_yield();
        coir_mutex_unlock(&mutex);
    }
    return 0;
}

static void mutexes(void)
{
    for (int fair = 0; fair < 2; fair++) {
        coir_mutex plain = COIR_MUTEX_INIT, even = COIR_FAIR_MUTEX_INIT;
        mutex = fair ? even : plain;
        counter = 0;
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go_on(scope, 1, count_up, NULL), 0);
        CHECK_EQ(coir_go(scope, count_up, NULL), 0);
        CHECK_EQ(count_up(NULL), 0);
        CHECK_EQ(coir_scope_wait(scope), 0);
        CHECK_EQ(counter, 3 * rounds(50000));
    }
}

TEST(mutexes_between_threads)
{
    on_two_pinned(mutexes);
}

/* ---- wake-ups from a plain thread; remote tasks that are joined and cancelled ---- */

struct ball {
    coir_waker waker;
    sem_t thrown;  /* to the thread */
    bool returned; /* it is the task's turn */
    uint64_t count;
};

static void *play(void *arg)
{
    struct ball *ball = arg;
    for (uint64_t i = 0; i < ball->count; i++) {
        sem_wait(&ball->thrown);
        __atomic_store_n(&ball->returned, true, __ATOMIC_RELEASE);
        coir_waker_wake_by_ref(&ball->waker);
    }
    coir_waker_drop(ball->waker);
    return NULL;
}

static void wake_ups(void)
{
    struct ball ball = {.count = rounds(20000)};
    coir_parker parker;
    pthread_t thread;
    CHECK_EQ(coir_parker_init(&parker), 0);
    ball.waker = coir_parker_waker(&parker);
    sem_init(&ball.thrown, 0, 0);
    pthread_create(&thread, NULL, play, &ball);
    for (uint64_t i = 0; i < ball.count; i++) {
        __atomic_store_n(&ball.returned, false, __ATOMIC_RELEASE);
        sem_post(&ball.thrown);
        while (!__atomic_load_n(&ball.returned, __ATOMIC_ACQUIRE))
            CHECK_EQ(coir_parker_wait(&parker), 0);
    }
    pthread_join(thread, NULL);
    sem_destroy(&ball.thrown);
    coir_parker_done(&parker);
}

TEST(wake_ups_from_a_thread)
{
    test_in_runtime(wake_ups, 1);
}

static int short_life(void *arg)
{
    return (intptr_t)arg % 2 ? coir_yield() : 0;
}

static void remote_tasks(void)
{
    uint64_t count = rounds(20000);
    for (uint64_t i = 0; i < count; i++) {
        COIR_SERVING_SCOPE(scope);
        COIR_HANDLE(handle);
        coir_go_options options = COIR_GO_OPTIONS;
        options.handle = handle;
        options.place = i % 4 == 3 ? COIR_ANYWHERE : COIR_ON_WORKER(1);
        CHECK_EQ(coir_go_with(scope, &options, short_life, (void *)i), 0);
        if (i % 3 == 0)
            coir_cancel(handle);
        int rc = coir_join(handle);
        CHECK(rc == 0 || rc == -ECANCELED);
    }
}

TEST(remote_tasks_between_threads)
{
    on_two_pinned(remote_tasks);
}
