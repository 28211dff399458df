/* Locks, events, channels, topics: what each promises, in the simulator with one and with several
 * workers, and with real threads. */
#include <coir.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

enum { SEEDS = 200 };

static uint64_t seeds(void)
{
    const char *text = getenv("SEEDS");
    return text ? strtoull(text, NULL, 0) : SEEDS;
}

static void everywhere(void (*body)(void))
{
    test_in_runtime(body, 1);
    for (int i = 0; i < 5; i++)
        test_in_runtime(body, 3);
    for (uint64_t seed = 1; seed <= seeds(); seed++)
        test_in_sim(body, 1 + (unsigned)seed % 3, seed);
}

static int workers(void)
{
    return (int)coir_worker_count(coir_runtime_current());
}

/* ---- mutexes ---- */

struct guarded {
    coir_mutex mutex;
    coir_shared_mutex shared;
    int inside, readers, writers, total;
};

static int use_mutex(void *arg)
{
    struct guarded *guarded = arg;
    for (int i = 0; i < 20; i++) {
        COIR_DEADLINE(i % 5 == 4 ? coir_in(20 * COIR_US) : COIR_NEVER);
        int rc = coir_mutex_lock(&guarded->mutex);
        if (rc < 0)
            continue;
        CHECK_EQ(guarded->inside++, 0);
        if (i % 3 == 0)
            coir_yield();
        if (i % 7 == 0)
            coir_sleep_for(5 * COIR_US);
        CHECK_EQ(--guarded->inside, 0);
        guarded->total++;
        coir_mutex_unlock(&guarded->mutex);
    }
    return 0;
}

static void many_lock(const coir_mutex init)
{
    struct guarded guarded = {.mutex = init};
    COIR_SCOPE(scope);
    for (int i = 0; i < 9; i++)
        CHECK_EQ(coir_go_on(scope, i % workers(), use_mutex, &guarded), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK(guarded.total >= 9 * 16);
    CHECK_EQ(coir_mutex_try_lock(&guarded.mutex), 0);
    CHECK_EQ(coir_mutex_try_lock(&guarded.mutex), -EAGAIN);
    coir_mutex_unlock(&guarded.mutex);
}

static void plain_mutex(void)
{
    many_lock((coir_mutex)COIR_MUTEX_INIT);
}

static void fair_mutex(void)
{
    many_lock((coir_mutex)COIR_FAIR_MUTEX_INIT);
}

TEST(one_task_at_a_time_has_a_mutex)
{
    everywhere(plain_mutex);
    everywhere(fair_mutex);
}

static int use_shared(void *arg)
{
    struct guarded *guarded = arg;
    for (int i = 0; i < 20; i++) {
        bool writes = i % 4 == 0;
        COIR_DEADLINE(i % 5 == 4 ? coir_in(20 * COIR_US) : COIR_NEVER);
        int rc = writes ? coir_shared_mutex_lock(&guarded->shared)
                        : coir_shared_mutex_share(&guarded->shared);
        if (rc < 0)
            continue;
        int writers = __atomic_add_fetch(&guarded->writers, writes, __ATOMIC_SEQ_CST);
        int readers = __atomic_add_fetch(&guarded->readers, !writes, __ATOMIC_SEQ_CST);
        CHECK(writers == 0 || (writers == 1 && readers == 0));
        if (i % 3 == 0)
            coir_yield();
        __atomic_sub_fetch(&guarded->writers, writes, __ATOMIC_SEQ_CST);
        __atomic_sub_fetch(&guarded->readers, !writes, __ATOMIC_SEQ_CST);
        coir_shared_mutex_unlock(&guarded->shared);
    }
    return 0;
}

static void shared_mutex(void)
{
    struct guarded guarded = {.shared = COIR_SHARED_MUTEX_INIT};
    COIR_SCOPE(scope);
    for (int i = 0; i < 9; i++)
        CHECK_EQ(coir_go_on(scope, i % workers(), use_shared, &guarded), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_shared_mutex_try_share(&guarded.shared), 0);
    CHECK_EQ(coir_shared_mutex_try_share(&guarded.shared), 0);
    CHECK_EQ(coir_shared_mutex_try_lock(&guarded.shared), -EAGAIN);
    coir_shared_mutex_unlock(&guarded.shared);
    coir_shared_mutex_unlock(&guarded.shared);
    CHECK_EQ(coir_shared_mutex_try_lock(&guarded.shared), 0);
}

TEST(readers_share_and_writers_do_not)
{
    everywhere(shared_mutex);
}

static int order[16], order_len;

static int write_once(void *arg)
{
    int rc = coir_shared_mutex_lock(arg);
    if (rc < 0)
        return rc;
    order[order_len++] = 'w';
    coir_shared_mutex_unlock(arg);
    return 0;
}

static int read_once(void *arg)
{
    coir_shared_mutex_share(arg);
    order[order_len++] = 'r';
    coir_shared_mutex_unlock(arg);
    return 0;
}

TEST_REAL(later_readers_do_not_pass_a_writer)
{
    coir_shared_mutex mutex = COIR_SHARED_MUTEX_INIT;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_shared_mutex_share(&mutex), 0);
    coir_go(scope, write_once, &mutex);
    coir_go(scope, read_once, &mutex);
    coir_yield();
    CHECK_EQ(order_len, 0);
    coir_shared_mutex_unlock(&mutex);
    coir_scope_wait(scope);
    CHECK(order[0] == 'w' && order[1] == 'r');
    order_len = 0;
    coir_shared_mutex_share(&mutex);
    {
        COIR_SCOPE(impatient); /* a writer that gives up lets those behind it in */
        coir_go(impatient, write_once, &mutex);
        coir_yield();
        coir_go(scope, read_once, &mutex);
        coir_yield();
        CHECK_EQ(order_len, 0);
        coir_scope_cancel(impatient);
        coir_yield();
    }
    CHECK(order_len == 1 && order[0] == 'r');
    coir_shared_mutex_unlock(&mutex);
}

/* ---- conditions ---- */

struct box {
    coir_mutex mutex;
    coir_condition changed;
    int value, taken;
};

static int take_box(void *arg)
{
    struct box *box = arg;
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(coir_mutex_lock(&box->mutex), 0);
        while (!box->value)
            CHECK_EQ(coir_condition_wait(&box->changed, &box->mutex), 0);
        box->value--;
        box->taken++;
        coir_mutex_unlock(&box->mutex);
    }
    return 0;
}

static int fill_box(void *arg)
{
    struct box *box = arg;
    for (int i = 0; i < 10; i++) {
        coir_mutex_lock(&box->mutex);
        box->value += 2;
        coir_mutex_unlock(&box->mutex);
        if (i % 2) {
            coir_condition_broadcast(&box->changed);
        } else {
            coir_condition_signal(&box->changed);
            coir_condition_signal(&box->changed);
        }
        coir_yield();
    }
    return 0;
}

static void condition(void)
{
    struct box box = {.mutex = COIR_MUTEX_INIT, .changed = COIR_CONDITION_INIT};
    COIR_SCOPE(scope);
    for (int i = 0; i < 4; i++)
        coir_go_on(scope, i % workers(), take_box, &box);
    coir_go(scope, fill_box, &box);
    coir_go_on(scope, workers() - 1, fill_box, &box);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(box.taken, 40);
    coir_mutex_lock(&box.mutex);
    {
        COIR_DEADLINE(coir_in(COIR_US));
        CHECK_EQ(coir_condition_wait(&box.changed, &box.mutex), -ETIME);
    }
    CHECK_EQ(coir_mutex_try_lock(&box.mutex), -EAGAIN); /* it was taken again */
    coir_mutex_unlock(&box.mutex);
}

TEST(a_condition_wakes_those_who_wait)
{
    everywhere(condition);
}

static int lock_and_unlock(void *mutex)
{
    int rc = coir_mutex_lock(mutex);
    if (rc == 0)
        coir_mutex_unlock(mutex);
    return rc;
}

/* Who takes it while a waiter is on its way to it may do that once: then the waiter is given it. */
TEST_REAL(a_waiter_for_a_mutex_loses_once_at_most)
{
    coir_mutex mutex = COIR_MUTEX_INIT;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_mutex_lock(&mutex), 0);
    CHECK_EQ(coir_go(scope, lock_and_unlock, &mutex), 0);
    coir_yield();
    coir_mutex_unlock(&mutex);
    CHECK_EQ(coir_mutex_try_lock(&mutex), 0);
    coir_yield();
    coir_mutex_unlock(&mutex);
    CHECK_EQ(coir_mutex_try_lock(&mutex), -EAGAIN);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_mutex_try_lock(&mutex), 0);
}

/* ---- semaphores, events, latest values ---- */

struct pool {
    coir_semaphore semaphore;
    int used, most;
};

static int use_units(void *arg)
{
    struct pool *pool = arg;
    for (int i = 1; i <= 20; i++) {
        uint64_t amount = 1 + (uint64_t)i % 4;
        COIR_DEADLINE(i % 5 == 4 ? coir_in(20 * COIR_US) : COIR_NEVER);
        if (coir_semaphore_acquire(&pool->semaphore, amount) < 0)
            continue;
        CHECK(__atomic_add_fetch(&pool->used, (int)amount, __ATOMIC_SEQ_CST) <= 5);
        coir_yield();
        __atomic_sub_fetch(&pool->used, (int)amount, __ATOMIC_SEQ_CST);
        coir_semaphore_release(&pool->semaphore, amount);
    }
    return 0;
}

static void semaphore(void)
{
    struct pool pool = {.semaphore = COIR_SEMAPHORE_INIT(5)};
    COIR_SCOPE(scope);
    for (int i = 0; i < 6; i++)
        coir_go_on(scope, i % workers(), use_units, &pool);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_semaphore_units(&pool.semaphore), 5);
    CHECK_EQ(coir_semaphore_try_acquire(&pool.semaphore, 6), -EAGAIN);
    CHECK_EQ(coir_semaphore_try_acquire(&pool.semaphore, 5), 0);
}

TEST(a_semaphore_never_gives_more_than_it_has)
{
    everywhere(semaphore);
}

struct queue {
    coir_semaphore semaphore;
    int next, asked;
};

static int ask_in_turn(void *arg)
{
    struct queue *queue = arg;
    int turn = queue->asked++;
    int rc = coir_semaphore_acquire(&queue->semaphore, 1 + (uint64_t)turn % 3);
    if (rc == 0)
        CHECK_EQ(queue->next++, turn);
    return rc;
}

/* Also where a later request is smaller and could be met. */
TEST_REAL(a_semaphore_is_served_from_the_front)
{
    struct queue queue = {.semaphore = COIR_SEMAPHORE_INIT(0)};
    COIR_SCOPE(scope);
    for (int i = 0; i < 9; i++)
        CHECK_EQ(coir_go(scope, ask_in_turn, &queue), 0);
    coir_yield();
    CHECK_EQ(queue.asked, 9);
    for (int units = 0; units < 18; units++) {
        CHECK_EQ(coir_semaphore_try_acquire(&queue.semaphore, 1), -EAGAIN);
        coir_semaphore_release(&queue.semaphore, 1);
        coir_yield();
    }
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(queue.next, 9);
    CHECK_EQ(coir_semaphore_units(&queue.semaphore), 0);
}

struct news {
    coir_event event;
    coir_latest *latest;
    int heard;
};

static int hear(void *arg)
{
    struct news *news = arg;
    CHECK_EQ(coir_event_wait(&news->event), 0);
    int value = 0, last = 0, rc;
    uint64_t seen = 0;
    while ((rc = coir_latest_wait(news->latest, seen)) == 0) {
        seen = coir_latest_get(news->latest, &value);
        CHECK(value >= last); /* some may be missed, none comes twice or late */
        last = value;
    }
    CHECK_EQ(rc, -EPIPE);
    CHECK_EQ(last, 50);
    __atomic_add_fetch(&news->heard, 1, __ATOMIC_SEQ_CST);
    return 0;
}

static void events(void)
{
    struct news news = {.event = COIR_EVENT_INIT};
    int value = 0;
    CHECK_EQ(coir_latest_new(sizeof value, &value, &news.latest), 0);
    COIR_SCOPE(scope);
    for (int i = 0; i < 6; i++)
        coir_go_on(scope, i % workers(), hear, &news);
    coir_yield();
    CHECK(!coir_event_is_set(&news.event));
    coir_event_set(&news.event);
    coir_event_set(&news.event);
    for (value = 1; value <= 50; value++) {
        coir_latest_set(news.latest, &value);
        if (value % 7 == 0)
            coir_yield();
    }
    coir_latest_close(news.latest);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(news.heard, 6);
    coir_event_reset(&news.event);
    CHECK(!coir_event_is_set(&news.event));
    coir_latest_free(news.latest);
}

TEST(events_and_latest_values_reach_all)
{
    everywhere(events);
}

/* ---- channels ---- */

TEST_SIM(a_channel_keeps_order_and_its_limit)
{
    coir_channel *channel;
    CHECK_EQ(coir_channel_new(0, 3, &channel), -EINVAL);
    CHECK_EQ(coir_channel_new(sizeof(int), 3, &channel), 0);
    int got[8];
    for (int i = 1; i <= 3; i++)
        CHECK_EQ(coir_channel_try_send(channel, &i), 0);
    int four = 4;
    CHECK_EQ(coir_channel_try_send(channel, &four), -EAGAIN);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_channel_send(channel, &four), -ETIME);
    }
    CHECK_EQ(coir_channel_count(channel), 3);
    CHECK_EQ(coir_channel_recv(channel, got), 0);
    CHECK_EQ(got[0], 1);
    CHECK_EQ(coir_channel_send(channel, &four), 0);
    CHECK_EQ(coir_channel_recv_many(channel, got, 8), 3);
    CHECK(got[0] == 2 && got[1] == 3 && got[2] == 4);
    CHECK_EQ(coir_channel_try_recv(channel, got), -EAGAIN);
    CHECK_EQ(coir_channel_send(channel, &four), 0);
    coir_channel_close(channel);
    coir_channel_close(channel);
    CHECK_EQ(coir_channel_send(channel, &four), -EPIPE);
    CHECK_EQ(coir_channel_recv(channel, got), 0);
    CHECK_EQ(coir_channel_recv(channel, got), -EPIPE);
    CHECK_EQ(coir_channel_recv_many(channel, got, 8), -EPIPE);
    CHECK(coir_channel_is_closed(channel));
    coir_channel_free(channel);
    coir_channel_free(NULL);
}

/* The ring is copied when it grows, wherever its oldest item lies. */
TEST_SIM(a_channel_that_grows_keeps_its_order)
{
    coir_channel *channel;
    int got;
    CHECK_EQ(coir_channel_new(sizeof got, COIR_UNLIMITED, &channel), 0);
    for (int taken = 0, sent = 0; taken < 500; taken++) {
        for (int more = 0; more < 3; more++, sent++)
            CHECK_EQ(coir_channel_try_send(channel, &sent), 0);
        CHECK_EQ(coir_channel_try_recv(channel, &got), 0);
        CHECK_EQ(got, taken);
    }
    for (int i = 500; i < 1500; i++) {
        CHECK_EQ(coir_channel_try_recv(channel, &got), 0);
        CHECK_EQ(got, i);
    }
    coir_channel_free(channel);
}

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

static int released;

static void count_release(void *item, void *arg)
{
    (void)arg;
    released += *(int *)item;
}

TEST_SIM(a_full_channel_does_what_its_policy_says)
{
    coir_channel_options options = COIR_CHANNEL_OPTIONS;
    options.item_size = sizeof(int);
    options.capacity = 2;
    options.unref = count_release;
    int got;
    for (int policy = COIR_OVERFLOW_DROP_OLDEST; policy <= COIR_OVERFLOW_CLOSE; policy++) {
        coir_channel *channel;
        options.overflow = (enum coir_overflow)policy;
        CHECK_EQ(coir_channel_new_with(&options, &channel), 0);
        released = 0;
        int last = 0;
        for (int i = 1; i <= 3; i++)
            last = coir_channel_send(channel, &i);
        CHECK_EQ(last, policy == COIR_OVERFLOW_CLOSE ? -EPIPE : 0);
        CHECK_EQ(released, policy == COIR_OVERFLOW_DROP_OLDEST   ? 1
                           : policy == COIR_OVERFLOW_DROP_NEWEST ? 3
                                                                 : 0);
        CHECK_EQ(coir_channel_recv(channel, &got), 0);
        CHECK_EQ(got, policy == COIR_OVERFLOW_DROP_OLDEST ? 2 : 1);
        released = 0;
        coir_channel_free(channel);
        CHECK_EQ(released, policy == COIR_OVERFLOW_DROP_OLDEST ? 3 : 2);
    }
}

/* ---- topics ---- */

struct subscriber {
    coir_channel *channel;
    int count, last;
};

static int listen_to(void *arg)
{
    struct subscriber *subscriber = arg;
    int item;
    while (coir_channel_recv(subscriber->channel, &item) == 0 && item) {
        CHECK(item > subscriber->last);
        subscriber->last = item;
        subscriber->count++;
        if (item % 5 == 0)
            coir_yield();
    }
    return 0;
}

static void topic(void)
{
    coir_topic *topic;
    struct subscriber subscribers[4] = {{0}};
    static const enum coir_overflow policies[] = {COIR_OVERFLOW_WAIT, COIR_OVERFLOW_WAIT,
                                                  COIR_OVERFLOW_DROP_OLDEST, COIR_OVERFLOW_CLOSE};
    CHECK_EQ(coir_topic_new(sizeof(int), &topic), 0);
    int none = 1;
    CHECK_EQ(coir_publish(topic, &none), 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(coir_subscribe(topic, 3, policies[i], &subscribers[i].channel), 0);
    CHECK_EQ(coir_topic_subscribers(topic), 4);
    {
        COIR_SCOPE(scope);
        for (int i = 0; i < 4; i++)
            coir_go_on(scope, i % workers(), listen_to, &subscribers[i]);
        for (int i = 1; i <= 50; i++)
            CHECK(coir_publish(topic, &i) >= 3);
        int end = 0;
        CHECK(coir_publish(topic, &end) >= 3);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    CHECK(subscribers[0].count == 50 && subscribers[1].count == 50);
    CHECK(subscribers[2].last == 50 || subscribers[2].count < 50);
    for (int i = 0; i < 4; i++)
        coir_channel_free(subscribers[i].channel);
    CHECK_EQ(coir_topic_subscribers(topic), 0);
    coir_topic_free(topic);
}

TEST(every_subscriber_gets_what_its_policy_allows)
{
    everywhere(topic);
}

static int publish_two(void *arg)
{
    int item = 1;
    CHECK_EQ(coir_publish(arg, &item), 2);
    CHECK_EQ(coir_publish(arg, &item), 1); /* the one that was waited for has left */
    return 0;
}

TEST_REAL(a_subscriber_that_leaves_is_not_waited_for)
{
    coir_topic *topic;
    coir_channel *slow, *other;
    int item = 1;
    coir_topic_new(sizeof(int), &topic);
    coir_subscribe(topic, 1, COIR_OVERFLOW_WAIT, &slow);
    coir_subscribe(topic, 1, COIR_OVERFLOW_DROP_OLDEST, &other);
    {
        COIR_SCOPE(scope);
        coir_go(scope, publish_two, topic);
        coir_yield();
        CHECK_EQ(coir_try_publish(topic, &item), -EAGAIN);
        coir_channel_free(slow);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    coir_channel_free(other);
    coir_topic_free(topic);
}

/* ---- one item after the other, also when a full subscriber is closed by one of them ---- */

static int publish_one(void *arg)
{
    static int items[] = {2, 3};
    static int next;
    int *item = &items[next++ % 2];
    CHECK(coir_publish(arg, item) >= 0);
    return 0;
}

TEST_REAL(publishers_that_wait_stay_in_order)
{
    coir_topic *topic;
    coir_channel *waits, *closes, *last;
    int item = 1, got;
    coir_topic_new(sizeof(int), &topic);
    coir_subscribe(topic, 1, COIR_OVERFLOW_CLOSE, &closes);
    coir_subscribe(topic, 1, COIR_OVERFLOW_WAIT, &waits);
    coir_subscribe(topic, 3, COIR_OVERFLOW_WAIT, &last);
    {
        COIR_SCOPE(scope);
        CHECK_EQ(coir_publish(topic, &item), 3);
        coir_go(scope, publish_one, topic);
        coir_go(scope, publish_one, topic);
        coir_yield(); /* both wait for the first subscriber */
        /* the second item closes a subscriber, in the middle of its delivery */
        CHECK_EQ(coir_channel_recv(waits, &got), 0);
        CHECK_EQ(coir_channel_recv(waits, &got), 0);
        CHECK_EQ(got, 2);
        CHECK_EQ(coir_channel_recv(waits, &got), 0);
        CHECK_EQ(got, 3);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    for (int i = 1; i <= 3; i++) {
        CHECK_EQ(coir_channel_recv(last, &got), 0);
        CHECK_EQ(got, i);
    }
    coir_channel_free(waits);
    coir_channel_free(closes);
    coir_channel_free(last);
    coir_topic_free(topic);
}

/* ---- from plain threads ---- */

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

static int publish_to_the_end(void *arg)
{
    int item = 7;
    CHECK_EQ(coir_publish(arg, &item), 1);
    CHECK_EQ(coir_publish(arg, &item), -EPIPE); /* it waited for room */
    return 0;
}

TEST_REAL(a_closed_topic_ends_publishers_at_once_and_subscribers_behind_what_is_queued)
{
    coir_topic *topic;
    coir_channel *full, *late;
    int item = 0;
    CHECK_EQ(coir_topic_new(sizeof(int), &topic), 0);
    CHECK_EQ(coir_subscribe(topic, 1, COIR_OVERFLOW_WAIT, &full), 0);
    {
        COIR_SCOPE(scope);
        coir_go(scope, publish_to_the_end, topic);
        coir_yield();
        coir_topic_close(topic);
        coir_topic_close(topic);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    CHECK_EQ(coir_publish(topic, &item), -EPIPE);
    CHECK_EQ(coir_try_publish(topic, &item), -EPIPE);
    CHECK_EQ(coir_subscribe(topic, 1, COIR_OVERFLOW_WAIT, &late), -EPIPE);
    CHECK_EQ(coir_topic_subscribers(topic), 1);
    CHECK_EQ(coir_channel_recv(full, &item), 0);
    CHECK_EQ(item, 7);
    CHECK_EQ(coir_channel_recv(full, &item), -EPIPE);
    coir_channel_free(full);
    coir_topic_free(topic);
}
