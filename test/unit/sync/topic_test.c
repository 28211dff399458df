/* Topics: every subscriber gets every item in one order, as its policy allows. */
#include <coir.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/sync/everywhere.h"

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
        CHECK_EQ(coir_try_publish(topic, &item), 1); /* no publisher is queued any more */
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

/* ---- what is lost, and what is kept ---- */

TEST_REAL(each_subscriber_counts_what_it_has_lost)
{
    coir_topic *topic;
    coir_channel *oldest, *newest, *latest, *roomy;
    CHECK_EQ(coir_topic_new(sizeof(int), &topic), 0);
    CHECK_EQ(coir_subscribe(topic, 3, COIR_OVERFLOW_DROP_OLDEST, &oldest), 0);
    CHECK_EQ(coir_subscribe(topic, 3, COIR_OVERFLOW_DROP_NEWEST, &newest), 0);
    CHECK_EQ(coir_subscribe(topic, 3, COIR_OVERFLOW_KEEP_LATEST, &latest), 0);
    CHECK_EQ(coir_subscribe(topic, 10, COIR_OVERFLOW_DROP_OLDEST, &roomy), 0);
    for (int i = 0; i < 10; i++)
        CHECK(coir_try_publish(topic, &i) >= 3);
    CHECK(coir_channel_lost(oldest) == 7 && coir_channel_lost(newest) == 7);
    CHECK(coir_channel_lost(latest) == 9 && coir_channel_count(latest) == 1);
    CHECK_EQ(coir_channel_lost(roomy), 0);
    coir_channel_free(oldest);
    coir_channel_free(newest);
    coir_channel_free(latest);
    coir_channel_free(roomy);
    coir_topic_free(topic);
}

static int references;

static void count_ref(void *item, void *arg)
{
    (void)item, (void)arg;
    references++;
}

static void count_unref(void *item, void *arg)
{
    (void)item, (void)arg;
    references--;
}

TEST_REAL(a_new_subscription_begins_with_the_last_item)
{
    coir_topic *topic;
    coir_channel *first, *second;
    int item = 1;
    coir_topic_options options = COIR_TOPIC_OPTIONS;
    options.item_size = sizeof item;
    options.keep_last = true;
    options.ref = count_ref;
    options.unref = count_unref;
    CHECK_EQ(coir_topic_new_with(&options, &topic), 0);
    CHECK_EQ(coir_subscribe(topic, 1, COIR_OVERFLOW_WAIT, &first), 0);
    CHECK_EQ(coir_channel_try_recv(first, &item), -EAGAIN); /* there is none yet */
    for (item = 1; item < 5; item++) {
        CHECK_EQ(coir_try_publish(topic, &item), 1);
        CHECK_EQ(coir_channel_recv(first, &(int){0}), 0);
        references--; /* it was received */
    }
    CHECK_EQ(coir_subscribe(topic, 1, COIR_OVERFLOW_WAIT, &second), 0);
    CHECK_EQ(coir_try_publish(topic, &item), -EAGAIN); /* it counts as any item */
    CHECK(coir_channel_recv(second, &item) == 0 && item == 4);
    references--;
    CHECK_EQ(coir_try_publish(topic, &item), 2);
    coir_channel_free(first);
    coir_channel_free(second);
    CHECK_EQ(references, 1); /* the topic's own */
    coir_topic_free(topic);
    CHECK_EQ(references, 0);
}

/* An item may be a pointer: what is called for the one that is kept may dereference it. */
struct counted {
    int references;
};

static int misaligned;

static void hold(void *item, void *arg)
{
    (void)arg;
    misaligned += (uintptr_t)item % _Alignof(struct counted *) != 0;
    struct counted *counted;
    memcpy(&counted, item, sizeof counted);
    counted->references++;
}

static void let_go(void *item, void *arg)
{
    struct counted *counted;
    hold(item, arg);
    memcpy(&counted, item, sizeof counted);
    counted->references -= 2;
}

TEST_REAL(the_last_item_is_aligned_as_items_are)
{
    struct counted counted = {0}, *item = &counted;
    coir_topic_options options = COIR_TOPIC_OPTIONS;
    coir_topic *topic;
    coir_channel *channel;
    options.item_size = sizeof item;
    options.keep_last = true;
    options.ref = hold;
    options.unref = let_go;
    CHECK_EQ(coir_topic_new_with(&options, &topic), 0);
    CHECK_EQ(coir_try_publish(topic, &item), 0);
    CHECK_EQ(coir_try_publish(topic, &item), 0);
    CHECK_EQ(coir_subscribe(topic, 1, COIR_OVERFLOW_WAIT, &channel), 0);
    CHECK_EQ(counted.references, 2);
    coir_channel_free(channel);
    coir_topic_free(topic);
    CHECK_EQ(counted.references, 0);
    CHECK_EQ(misaligned, 0);
    options.item_size = SIZE_MAX - 8; /* no such memory, and no overflow */
    CHECK_EQ(coir_topic_new_with(&options, &topic), -ENOMEM);
}

static bool memory_is_out;

static void *take_memory(size_t size, void *arg)
{
    (void)arg;
    return memory_is_out ? NULL : aligned_alloc(64, (size + 63) / 64 * 64);
}

static void give_memory(void *memory, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    free(memory);
}

static int publish_without_memory(void *arg)
{
    coir_topic *topic;
    coir_channel *first, *second;
    int item = 1;
    coir_topic_options options = COIR_TOPIC_OPTIONS;
    (void)arg;
    options.item_size = sizeof item;
    options.keep_last = true;
    CHECK_EQ(coir_topic_new_with(&options, &topic), 0);
    CHECK_EQ(coir_subscribe(topic, COIR_UNLIMITED, COIR_OVERFLOW_WAIT, &first), 0);
    memory_is_out = true;
    CHECK_EQ(coir_try_publish(topic, &item), 0);
    CHECK_EQ(coir_channel_lost(first), 1);
    CHECK_EQ(coir_subscribe(topic, COIR_UNLIMITED, COIR_OVERFLOW_WAIT, &second), -ENOMEM);
    memory_is_out = false;
    CHECK_EQ(coir_topic_subscribers(topic), 1);
    CHECK_EQ(coir_subscribe(topic, COIR_UNLIMITED, COIR_OVERFLOW_WAIT, &second), 0);
    CHECK_EQ(coir_channel_count(second), 1); /* the last item */
    coir_channel_free(first);
    coir_channel_free(second);
    coir_topic_free(topic);
    return 0;
}

TEST(what_there_is_no_memory_for_is_counted)
{
    coir_allocator allocator = COIR_ALLOCATOR(take_memory, give_memory, NULL);
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.allocator = &allocator;
    CHECK_EQ(test_run(&config, publish_without_memory, NULL), 0);
}

/* The one that the publisher waits for leaves, and another one is found to be full. */
TEST_REAL(each_full_subscriber_is_waited_for)
{
    coir_topic *topic;
    coir_channel *full[3];
    int item = 1;
    coir_topic_new(sizeof(int), &topic);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(coir_subscribe(topic, 1, COIR_OVERFLOW_WAIT, &full[i]), 0);
    CHECK_EQ(coir_try_publish(topic, &item), 3);
    CHECK_EQ(coir_try_publish(topic, &item), -EAGAIN);
    coir_channel_free(full[0]);
    CHECK_EQ(coir_try_publish(topic, &item), -EAGAIN);
    CHECK_EQ(coir_channel_recv(full[1], &item), 0);
    CHECK_EQ(coir_try_publish(topic, &item), -EAGAIN);
    coir_channel_close(full[2]);
    CHECK_EQ(coir_try_publish(topic, &item), 1);
    coir_channel_free(full[1]);
    coir_channel_free(full[2]);
    coir_topic_free(topic);
}
