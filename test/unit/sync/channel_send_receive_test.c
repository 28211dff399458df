/* Sending and receiving: every item once, in order, by every way to do it. */
#include <coir.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "sync/channel.h"
#include "unit/sync/everywhere.h"

struct traffic {
    coir_channel *channel;
    int items, batch;
    uint64_t sent, received, count;
    int senders_left;
};

static int send_some(void *arg)
{
    struct traffic *traffic = arg;
    for (int i = 0; i < traffic->items; i++) {
        uint64_t item = (uint64_t)(uintptr_t)&i + (uint64_t)i;
        CHECK_EQ(coir_channel_send(traffic->channel, &item), 0);
        __atomic_add_fetch(&traffic->sent, item, __ATOMIC_RELAXED);
        if (i % 7 == 0)
            coir_yield();
    }
    if (__atomic_sub_fetch(&traffic->senders_left, 1, __ATOMIC_SEQ_CST) == 0)
        coir_channel_close(traffic->channel);
    return 0;
}

static int receive_some(void *arg)
{
    struct traffic *traffic = arg;
    uint64_t items[5];
    for (;;) {
        int n = traffic->batch ? (int)coir_channel_recv_many(traffic->channel, items, 5)
                               : coir_channel_recv(traffic->channel, items);
        if (n < 0)
            return n == -EPIPE ? 0 : n;
        for (int i = 0; i < (n ? n : 1); i++)
            __atomic_add_fetch(&traffic->received, items[i], __ATOMIC_RELAXED);
        __atomic_add_fetch(&traffic->count, (uint64_t)(n ? n : 1), __ATOMIC_RELAXED);
        if (items[0] % 3 == 0)
            coir_yield();
    }
}

static void traffic(void)
{
    static const size_t capacities[] = {0, 1, 3, COIR_UNLIMITED};
    for (int kind = 0; kind < 8; kind++) {
        struct traffic traffic = {.items = 40, .batch = kind & 1, .senders_left = 4};
        CHECK_EQ(coir_channel_new(sizeof(uint64_t), capacities[kind / 2], &traffic.channel), 0);
        {
            COIR_SCOPE(scope);
            for (int i = 0; i < 4; i++)
                coir_go_on(scope, i % workers(), send_some, &traffic);
            for (int i = 0; i < 3; i++)
                coir_go_on(scope, (i + 1) % workers(), receive_some, &traffic);
            CHECK_EQ(coir_scope_wait(scope), 0);
        }
        CHECK_EQ(traffic.count, 160);
        CHECK_EQ(traffic.sent, traffic.received);
        coir_channel_free(traffic.channel);
    }
}

TEST(what_is_sent_is_received_once)
{
    everywhere(traffic);
}

/* ---- sizes of items ---- */

enum { SIZE_MAX_TRIED = 33, ITEMS = 20 };

struct sized {
    coir_channel *channel;
    size_t size;
    bool yields;
};

static void fill_item(unsigned char *item, int number)
{
    for (int i = 0; i < SIZE_MAX_TRIED; i++)
        item[i] = (unsigned char)(number * 7 + i);
}

static int send_sized(void *arg)
{
    const struct sized *sized = arg;
    unsigned char item[SIZE_MAX_TRIED];
    for (int i = 0; i < ITEMS; i++) {
        fill_item(item, i);
        CHECK_EQ(coir_channel_send(sized->channel, item), 0);
        if (sized->yields)
            coir_yield();
    }
    return 0;
}

static int receive_sized(const struct sized *sized)
{
    unsigned char item[SIZE_MAX_TRIED + 1], expected[SIZE_MAX_TRIED];
    for (int i = 0; i < ITEMS; i++) {
        fill_item(expected, i);
        memset(item, 0xee, sizeof item);
        CHECK_EQ(coir_channel_recv(sized->channel, item), 0);
        CHECK_EQ(memcmp(item, expected, sized->size), 0);
        CHECK_EQ(item[sized->size], 0xee);
        if (!sized->yields)
            coir_yield();
    }
    return 0;
}

/* With and without a ring; receivers wait for senders, and senders for receivers. */
TEST_SIM(items_of_any_size_arrive_whole)
{
    for (size_t size = 1; size <= SIZE_MAX_TRIED; size++)
        for (int kind = 0; kind < 6; kind++) {
            struct sized sized = {.size = size, .yields = kind % 2};
            CHECK_EQ(coir_channel_new(size, (size_t)kind / 2, &sized.channel), 0);
            COIR_SCOPE(scope);
            CHECK_EQ(coir_go(scope, send_sized, &sized), 0);
            receive_sized(&sized);
            CHECK_EQ(coir_scope_wait(scope), 0);
            coir_channel_free(sized.channel);
        }
}

/* Senders that wait for room in a full ring: their items come in the order in which they began to
 * wait, and the item of one that is cancelled does not. */
enum { WAITING = 7, CANCELLED = 2 };
struct waiting {
    coir_channel *channel;
    uint64_t number;
};

static int send_number(void *arg)
{
    const struct waiting *waiting = arg;
    return coir_channel_send(waiting->channel, &waiting->number);
}

TEST_REAL(senders_of_a_full_ring_are_served_in_order)
{
    for (size_t capacity = 1; capacity <= 3; capacity++) {
        struct waiting waiting[WAITING];
        coir_handle handles[WAITING] = {0};
        coir_channel *channel;
        uint64_t item;
        CHECK_EQ(coir_channel_new(sizeof item, capacity, &channel), 0);
        COIR_SCOPE(scope);
        for (item = 0; item < capacity; item++)
            CHECK_EQ(coir_channel_send(channel, &item), 0);
        for (size_t i = 0; i < WAITING; i++) {
            waiting[i] = (struct waiting){channel, capacity + i};
            coir_go_options options = COIR_GO_OPTIONS;
            options.handle = &handles[i];
            CHECK_EQ(coir_go_with(scope, &options, send_number, &waiting[i]), 0);
            CHECK_EQ(coir_yield(), 0); /* it waits now */
        }
        coir_cancel(&handles[CANCELLED]);
        CHECK_EQ(coir_join(&handles[CANCELLED]), -ECANCELED);
        for (uint64_t expected = 0; expected < capacity + WAITING; expected++) {
            if (expected == capacity + CANCELLED)
                continue;
            CHECK_EQ(coir_channel_recv(channel, &item), 0);
            CHECK_EQ(item, expected);
        }
        CHECK_EQ(coir_channel_try_recv(channel, &item), -EAGAIN);
        CHECK_EQ(coir_scope_wait(scope), 0);
        coir_channel_free(channel);
    }
}

TEST_SIM(receiving_no_items_is_complete_at_once)
{
    coir_channel *channel;
    coir_wait_op op;
    int item = 7, got = 0;
    CHECK_EQ(coir_channel_new(sizeof item, 2, &channel), 0);
    for (int i = 0; i < 3; i++) { /* empty, with an item, closed and empty */
        CHECK_EQ(coir_channel_recv_many(channel, NULL, 0), 0);
        CHECK_EQ(coir_await(coir_channel_recv_many_op(&op, channel, NULL, 0)), 0);
        if (i == 0)
            CHECK_EQ(coir_channel_send(channel, &item), 0);
        else if (i == 1)
            CHECK(coir_channel_recv_many(channel, &got, 1) == 1 && got == 7);
        if (i == 1)
            coir_channel_close(channel);
    }
    coir_channel_free(channel);
}

struct outside {
    coir_channel *in, *out;
    coir_event ready;
    int rounds;
};

static void *outside_thread(void *arg)
{
    struct outside *outside = arg;
    for (int i = 1; i <= outside->rounds; i++) {
        while (coir_channel_try_send(outside->in, &i) < 0)
            sched_yield();
        int back;
        while (coir_channel_try_recv(outside->out, &back) < 0)
            sched_yield();
        CHECK_EQ(back, i * 2);
    }
    coir_event_set(&outside->ready);
    return NULL;
}

static int answer(void *arg)
{
    struct outside *outside = arg;
    for (int i = 1; i <= outside->rounds; i++) {
        int item;
        CHECK_EQ(coir_channel_recv(outside->in, &item), 0);
        item *= 2;
        CHECK_EQ(coir_channel_send(outside->out, &item), 0);
    }
    return coir_event_wait(&outside->ready);
}

TEST(plain_threads_use_the_forms_that_never_suspend)
{
    struct outside outside = {.ready = COIR_EVENT_INIT, .rounds = 2000};
    CHECK_EQ(coir_channel_new(sizeof(int), 1, &outside.in), 0);
    CHECK_EQ(coir_channel_new(sizeof(int), 1, &outside.out), 0);
    CHECK_EQ(coir_channel_recv(outside.in, &outside.rounds), -ESRCH);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        coir_config config = COIR_CONFIG;
        config.workers = 1;
        coir_runtime *runtime;
        outside.rounds = 100;
        coir_event_reset(&outside.ready);
        CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
        pthread_create(&thread, NULL, outside_thread, &outside);
        CHECK_EQ(coir_runtime_run(runtime, answer, &outside), 0);
        coir_runtime_free(runtime); /* the thread may still be inside its last set */
        pthread_join(thread, NULL);
    }
    coir_channel_free(outside.in);
    coir_channel_free(outside.out);
}

/* ---- leases ---- */

enum { SLOTS = 16 };

static void *make_shared(void *channel)
{
    CHECK_EQ(coir_channel_count(channel), 0);
    return NULL;
}

/* A full channel whose receiver has a lease of its items. */
static coir_channel *leased(uint64_t *next)
{
    coir_channel *channel;
    pthread_t thread;
    CHECK_EQ(coir_channel_new(sizeof(uint64_t), SLOTS, &channel), 0);
    CHECK_EQ(coir_channel_count(channel), 0); /* this worker owns its lock */
    CHECK_EQ(pthread_create(&thread, NULL, make_shared, channel), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(channel->own_lock.word, CI_OWN_LOCK_SHARED);
    ci_channel_begin_leases(channel);
    for (*next = 0; *next < SLOTS; ++*next)
        CHECK_EQ(coir_channel_send(channel, next), 0);
    return channel;
}

static void receive(coir_channel *channel, uint64_t from, uint64_t to)
{
    for (uint64_t item; from < to; from++) {
        CHECK_EQ(coir_channel_recv(channel, &item), 0);
        CHECK_EQ(item, from);
    }
}

static int send_next(void *arg)
{
    return coir_channel_send(arg, &(uint64_t){SLOTS + 3});
}

/* Each look at the channel finds it as if there were no leases. */
TEST_REAL(a_lease_does_not_show)
{
    uint64_t next, item;
    coir_channel *channel = leased(&next);
    CHECK_EQ(coir_channel_try_send(channel, &next), -EAGAIN);
    receive(channel, 0, 1);
    CHECK_EQ(channel->lease.left, SLOTS - 1);
    CHECK_EQ(coir_channel_try_send(channel, &next), 0); /* there is room for one */
    CHECK_EQ(coir_channel_try_send(channel, &next), -EAGAIN);
    CHECK_EQ(coir_channel_count(channel), SLOTS);
    receive(channel, 1, 2);
    CHECK(channel->lease.left > 0);
    coir_case sends = coir_case_send(channel, &(uint64_t){SLOTS + 1});
    CHECK_EQ(coir_select(&sends, 1), 0);
    receive(channel, 2, 3);
    CHECK_EQ(coir_channel_send(channel, &(uint64_t){SLOTS + 2}), 0); /* it does not wait */
    {
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go(scope, send_next, channel), 0);
        coir_yield(); /* it waits: no lease begins before the ring is full no more */
        CHECK(!ci_list_empty(&channel->senders));
        receive(channel, 3, 4);
        CHECK_EQ(channel->lease.left, 0);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    receive(channel, 4, 5);
    CHECK(channel->lease.left > 0);
    CHECK_EQ(coir_channel_try_recv(channel, &item), 0);
    CHECK_EQ(item, 5);
    uint64_t several[2];
    CHECK_EQ(coir_channel_recv_many(channel, several, 2), 2);
    CHECK_EQ(several[0], 6);
    CHECK_EQ(several[1], 7);
    receive(channel, 8, 9);
    coir_channel_close(channel);
    CHECK_EQ(coir_channel_send(channel, &next), -EPIPE);
    receive(channel, 9, SLOTS + 4);
    CHECK_EQ(coir_channel_count(channel), 0);
    CHECK_EQ(coir_channel_recv(channel, &item), -EPIPE);
    coir_channel_free(channel);
}

static int receive_one(void *arg)
{
    receive(arg, SLOTS, SLOTS + 1);
    return 0;
}

/* All of it was received, and nothing is settled: the next receive waits for a send. */
TEST_REAL(a_lease_that_is_used_up_is_empty)
{
    uint64_t next;
    coir_channel *channel = leased(&next);
    receive(channel, 0, SLOTS);
    CHECK_EQ(channel->ring.count, SLOTS);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, receive_one, channel), 0);
    coir_yield();
    CHECK_EQ(channel->ring.count, 0);
    CHECK_EQ(coir_channel_send(channel, &next), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_channel_free(channel);
}

/* In programs with TSan the one attempt at the lock fails, so that leases stay. */
TEST_REAL(leases_end_when_one_worker_has_the_channel_alone)
{
    uint64_t next, item;
    coir_channel *channel = leased(&next);
    for (item = 0; item < SLOTS; item++)
        receive(channel, item, item + 1);
    int rounds = 0;
    for (; channel->lease.begun && rounds < 2 * CI_CHANNEL_CALM; rounds++) {
        CHECK_EQ(coir_channel_send(channel, &next), 0);
        receive(channel, next, next + 1);
        next++;
    }
    /* the first receive of all has settled, too */
    CHECK_EQ(rounds, ci_notes_order() ? 2 * CI_CHANNEL_CALM : CI_CHANNEL_CALM - 1);
    CHECK_EQ(coir_channel_count(channel), 0);
    ci_channel_begin_leases(channel);
    CHECK_EQ(channel->lease.calm, 0);
    ci_channel_settle_to_receive(channel, true);
    CHECK_EQ(channel->lease.calm, 1);
    ci_channel_settle_to_receive(channel, false); /* another worker had the lock */
    CHECK_EQ(channel->lease.calm, 0);
    coir_channel_free(channel);
}

/* Two workers, until leases have begun by themselves: every item once, and in order. */
static int drain_in_order(void *arg)
{
    uint64_t item, wanted = 0;
    int rc;
    while ((rc = coir_channel_recv(arg, &item)) == 0)
        CHECK_EQ(item, wanted++);
    return rc == -EPIPE ? (int)wanted : rc;
}

enum { STREAMED = 100000 };

static void stream_to_another_worker(void)
{
    coir_channel *channel;
    CHECK_EQ(coir_channel_new(sizeof(uint64_t), 64, &channel), 0);
    COIR_HANDLE(handle);
    COIR_SERVING_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    options.place = COIR_ON_WORKER(1);
    CHECK_EQ(coir_go_with(scope, &options, drain_in_order, channel), 0);
    for (uint64_t i = 0; i < STREAMED; i++)
        CHECK_EQ(coir_channel_send(channel, &i), 0);
    coir_channel_close(channel);
    CHECK_EQ(coir_join(handle), STREAMED);
    CHECK_EQ(coir_channel_count(channel), 0);
    coir_channel_free(channel);
}

TEST(a_stream_between_workers_keeps_its_order)
{
    test_in_runtime(stream_to_another_worker, 2);
}
