/* Topic trees: patterns, the last items, who is present, what is lost. */
#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/sync/everywhere.h"

enum { MANY = 64 };

static coir_topic_tree *new_tree(bool keep_last)
{
    coir_topic_tree_options options = COIR_TOPIC_TREE_OPTIONS;
    coir_topic_tree *tree;
    options.item_size = sizeof(int);
    options.keep_last = keep_last;
    CHECK_EQ(coir_topic_tree_new_with(&options, &tree), 0);
    return tree;
}

static coir_channel *subscribe(coir_topic_tree *tree, const char *pattern)
{
    coir_channel *channel;
    CHECK_EQ(coir_topic_tree_subscribe(tree, pattern, MANY, COIR_OVERFLOW_DROP_OLDEST, &channel),
             0);
    return channel;
}

static coir_channel *join(coir_topic_tree *tree, const char *name, uint64_t member)
{
    coir_channel *channel;
    CHECK_EQ(coir_topic_tree_join(tree, name, member, MANY, COIR_OVERFLOW_DROP_OLDEST, &channel),
             0);
    return channel;
}

/* The next item, or 0 if there is none. */
static int next(coir_channel *channel)
{
    int item = 0;
    int rc = coir_channel_try_recv(channel, &item);
    CHECK(rc == 0 || rc == -EAGAIN);
    return item;
}

static int publish(coir_topic_tree *tree, const char *name, int item)
{
    return coir_topic_tree_publish(tree, name, &item);
}

TEST(items_reach_the_subscriptions_that_match)
{
    coir_topic_tree *tree = new_tree(false);
    coir_channel *room = subscribe(tree, "rooms/7/messages"),
                 *every = subscribe(tree, "rooms/*/messages"), *all = subscribe(tree, "rooms/#"),
                 *again = subscribe(tree, "rooms/7/messages");
    CHECK_EQ(publish(tree, "rooms/7/messages", 1), 4);
    CHECK_EQ(publish(tree, "rooms/8/messages", 2), 2);
    CHECK_EQ(publish(tree, "rooms", 3), 1);
    CHECK_EQ(publish(tree, "room", 4), 0);
    CHECK(next(room) == 1 && next(room) == 0);
    CHECK(next(again) == 1 && next(again) == 0);
    CHECK(next(every) == 1 && next(every) == 2 && next(every) == 0);
    CHECK(next(all) == 1 && next(all) == 2 && next(all) == 3 && next(all) == 0);
    coir_channel_free(every);
    CHECK_EQ(publish(tree, "rooms/7/messages", 5), 3);
    coir_channel_free(room);
    coir_channel_free(all);
    CHECK_EQ(publish(tree, "rooms/7/messages", 6), 1);
    coir_channel_free(again);
    coir_topic_tree_free(tree);
}

TEST(a_new_subscription_begins_with_the_last_items)
{
    coir_topic_tree *tree = new_tree(true);
    int item;
    publish(tree, "rooms/1/state", 1);
    publish(tree, "rooms/2/state", 2);
    publish(tree, "rooms/1/state", 3);
    publish(tree, "rooms/2", 4);
    coir_channel *states = subscribe(tree, "rooms/*/state"), *all = subscribe(tree, "#");
    CHECK(next(states) == 3 && next(states) == 2 && next(states) == 0);
    CHECK_EQ(coir_channel_count(all), 3);
    CHECK(coir_topic_tree_last(tree, "rooms/2", &item) == 0 && item == 4);
    CHECK_EQ(coir_topic_tree_last(tree, "rooms/3", &item), -ENODATA);
    CHECK_EQ(coir_topic_tree_last(tree, "rooms/*", &item), -EINVAL);
    CHECK_EQ(coir_topic_tree_forget(tree, "rooms/2"), 0);
    CHECK_EQ(coir_topic_tree_forget(tree, "rooms/2"), -ENODATA);
    CHECK_EQ(coir_topic_tree_forget(tree, ""), -EINVAL);
    CHECK_EQ(coir_topic_tree_last(tree, "rooms/2", &item), -ENODATA);
    coir_channel_free(states);
    coir_channel_free(all);
    coir_topic_tree_free(tree);
}

static void expect(coir_channel *watch, const char *name, uint64_t member, bool joined,
                   size_t present)
{
    coir_presence presence;
    CHECK_EQ(coir_channel_try_recv(watch, &presence), 0);
    CHECK(strcmp(presence.name, name) == 0);
    CHECK_EQ(presence.member, member);
    CHECK_EQ(presence.joined, joined);
    CHECK_EQ(presence.present, present);
}

TEST(who_is_present_is_told_to_those_that_watch)
{
    coir_topic_tree *tree = new_tree(false);
    coir_channel *watch, *late, *other;
    CHECK_EQ(coir_topic_tree_watch(tree, "rooms/*", MANY, COIR_OVERFLOW_CLOSE, &watch), 0);
    CHECK_EQ(coir_topic_tree_watch(tree, "rooms/2", MANY, COIR_OVERFLOW_CLOSE, &other), 0);
    coir_channel *ada = join(tree, "rooms/1", 11), *bob = join(tree, "rooms/1", 12),
                 *listener = subscribe(tree, "rooms/1");
    CHECK_EQ(coir_topic_tree_present(tree, "rooms/1"), 2);
    CHECK_EQ(publish(tree, "rooms/1", 5), 3);
    expect(watch, "rooms/1", 11, true, 1);
    expect(watch, "rooms/1", 12, true, 2);
    CHECK_EQ(coir_topic_tree_watch(tree, "#", MANY, COIR_OVERFLOW_CLOSE, &late), 0);
    expect(late, "rooms/1", 11, true, 1);
    expect(late, "rooms/1", 12, true, 2);
    coir_channel_close(ada); /* it is present until it is freed */
    CHECK_EQ(coir_channel_count(late), 0);
    coir_channel_free(ada);
    expect(late, "rooms/1", 11, false, 1);
    expect(watch, "rooms/1", 11, false, 1);
    coir_channel_free(listener);
    coir_channel_free(bob);
    expect(watch, "rooms/1", 12, false, 0);
    CHECK_EQ(coir_topic_tree_present(tree, "rooms/1"), 0);
    CHECK_EQ(coir_channel_count(other), 0);
    coir_channel_free(watch);
    coir_channel_free(late);
    coir_channel_free(other);
    coir_topic_tree_free(tree);
}

TEST(what_cannot_be_subscribed_to)
{
    coir_topic_tree *tree = new_tree(true), *none;
    coir_channel *channel;
    int item = 1;
    CHECK_EQ(coir_topic_tree_new(0, &none), -EINVAL);
    CHECK_EQ(coir_topic_tree_new(4, &none), 0);
    coir_topic_tree_free(none);
    coir_topic_tree_free(NULL);
    CHECK_EQ(coir_topic_tree_subscribe(tree, "a//b", 1, COIR_OVERFLOW_CLOSE, &channel), -EINVAL);
    CHECK_EQ(coir_topic_tree_subscribe(tree, "a", 0, COIR_OVERFLOW_CLOSE, &channel), -EINVAL);
    CHECK_EQ(coir_topic_tree_subscribe(tree, "a", 1, COIR_OVERFLOW_WAIT, &channel), -EINVAL);
    CHECK_EQ(coir_topic_tree_join(tree, "a/*", 1, 1, COIR_OVERFLOW_CLOSE, &channel), -EINVAL);
    CHECK_EQ(coir_topic_tree_publish(tree, "a/*", &item), -EINVAL);
    CHECK_EQ(coir_topic_tree_publish(tree, "", &item), -EINVAL);
    CHECK_EQ(coir_topic_tree_present(tree, "a/*"), 0);
    coir_topic_tree_close(tree);
    coir_topic_tree_close(tree);
    CHECK_EQ(coir_topic_tree_publish(tree, "a", &item), -EPIPE);
    CHECK_EQ(coir_topic_tree_subscribe(tree, "a", 1, COIR_OVERFLOW_CLOSE, &channel), -EPIPE);
    CHECK_EQ(coir_topic_tree_watch(tree, "a", 1, COIR_OVERFLOW_CLOSE, &channel), -EPIPE);
    coir_topic_tree_free(tree);
}

TEST(levels_have_a_limit)
{
    coir_topic_tree_options options = COIR_TOPIC_TREE_OPTIONS;
    coir_topic_tree *tree;
    coir_channel *channel, *other;
    int item = 1;
    options.item_size = sizeof item;
    options.keep_last = true;
    options.levels_max = 2;
    CHECK_EQ(coir_topic_tree_new_with(&options, &tree), 0);
    CHECK_EQ(coir_topic_tree_subscribe(tree, "a/*", 4, COIR_OVERFLOW_CLOSE, &channel), 0);
    CHECK_EQ(coir_topic_tree_subscribe(tree, "b", 4, COIR_OVERFLOW_CLOSE, &other), -COIR_ETOOLARGE);
    CHECK_EQ(coir_topic_tree_publish(tree, "a/b", &item), -COIR_ETOOLARGE);
    CHECK_EQ(coir_channel_count(channel), 0);
    CHECK_EQ(coir_topic_tree_publish(tree, "a", &item), 0);
    coir_channel_free(channel);
    CHECK_EQ(coir_topic_tree_subscribe(tree, "b", 4, COIR_OVERFLOW_CLOSE, &other), 0);
    coir_channel_free(other);
    coir_topic_tree_free(tree);
}

TEST_REAL(a_closed_tree_ends_those_that_wait)
{
    coir_topic_tree *tree = new_tree(false);
    coir_channel *channel = join(tree, "a", 1);
    int item = 0;
    publish(tree, "a", 7);
    coir_topic_tree_close(tree);
    CHECK(coir_channel_recv(channel, &item) == 0 && item == 7);
    CHECK_EQ(coir_channel_recv(channel, &item), -EPIPE);
    coir_channel_free(channel);
    coir_topic_tree_free(tree);
}

TEST(each_subscription_counts_what_it_has_lost)
{
    coir_topic_tree *tree = new_tree(false);
    coir_channel *oldest, *closes;
    CHECK_EQ(coir_topic_tree_subscribe(tree, "a", 3, COIR_OVERFLOW_DROP_OLDEST, &oldest), 0);
    CHECK_EQ(coir_topic_tree_subscribe(tree, "*", 3, COIR_OVERFLOW_CLOSE, &closes), 0);
    for (int i = 1; i <= 10; i++)
        CHECK_EQ(publish(tree, "a", i), i <= 3 ? 2 : 1);
    CHECK_EQ(coir_channel_lost(oldest), 7);
    CHECK_EQ(next(oldest), 8);
    CHECK(coir_channel_is_closed(closes));
    coir_channel_free(oldest);
    coir_channel_free(closes);
    coir_topic_tree_free(tree);
}

static int references;

static void count_ref(void *item, void *arg)
{
    (void)item, (void)arg;
    __atomic_add_fetch(&references, 1, __ATOMIC_RELAXED);
}

static void count_unref(void *item, void *arg)
{
    (void)item, (void)arg;
    __atomic_sub_fetch(&references, 1, __ATOMIC_RELAXED);
}

static bool memory_is_out;

static void *take_memory(size_t size, void *arg)
{
    (void)arg;
    return memory_is_out ? NULL : aligned_alloc(64, (size + 63) / 64 * 64);
}

static void give_memory(void *memory, size_t size, void *arg)
{
    (void)size, (void)arg;
    free(memory);
}

static int publish_without_memory(void *arg)
{
    (void)arg;
    coir_topic_tree_options options = COIR_TOPIC_TREE_OPTIONS;
    coir_topic_tree *tree, *other;
    coir_channel *channel, *second;
    options.item_size = sizeof(int);
    options.keep_last = true;
    options.ref = count_ref;
    options.unref = count_unref;
    CHECK_EQ(coir_topic_tree_new_with(&options, &tree), 0);
    CHECK_EQ(
        coir_topic_tree_subscribe(tree, "#", COIR_UNLIMITED, COIR_OVERFLOW_DROP_OLDEST, &channel),
        0);
    memory_is_out = true;
    CHECK_EQ(publish(tree, "a/b", 1), -ENOMEM); /* it cannot be kept: no subscriber gets it */
    CHECK_EQ(coir_channel_lost(channel), 0);
    CHECK_EQ(coir_topic_tree_new_with(&options, &other), -ENOMEM);
    CHECK_EQ(coir_topic_tree_subscribe(tree, "a", 1, COIR_OVERFLOW_CLOSE, &second), -ENOMEM);
    memory_is_out = false;
    CHECK_EQ(references, 0);
    CHECK_EQ(publish(tree, "a/b", 1), 1);
    memory_is_out = true;
    for (int i = 2; coir_channel_lost(channel) == 0; i++)
        CHECK(publish(tree, "a/b", i) >= 0 && i < 10000);
    memory_is_out = false;
    CHECK_EQ(references, (int)coir_channel_count(channel) + 1);
    coir_channel_free(channel);
    CHECK_EQ(references, 1);
    coir_topic_tree_free(tree);
    CHECK_EQ(references, 0);
    return 0;
}

TEST(without_memory_nothing_is_half_done)
{
    coir_allocator allocator = COIR_ALLOCATOR(take_memory, give_memory, NULL);
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.allocator = &allocator;
    CHECK_EQ(test_run(&config, publish_without_memory, NULL), 0);
}

/* ---- from all workers ---- */

struct reader {
    coir_topic_tree *tree;
    const char *pattern;
    int last, count;
};

static int read_to_the_end(void *arg)
{
    struct reader *reader = arg;
    coir_channel *channel;
    int item;
    CHECK_EQ(coir_topic_tree_subscribe(reader->tree, reader->pattern, COIR_UNLIMITED,
                                       COIR_OVERFLOW_DROP_OLDEST, &channel),
             0);
    coir_channel *ready = join(reader->tree, "ready", 1);
    while (coir_channel_recv(channel, &item) == 0 && item) {
        CHECK(item > reader->last);
        reader->last = item;
        reader->count++;
    }
    coir_channel_free(ready);
    coir_channel_free(channel);
    return 0;
}

static void readers_everywhere(void)
{
    coir_topic_tree *tree = new_tree(false);
    struct reader readers[] = {{tree, "a/b", 0, 0}, {tree, "a/#", 0, 0}, {tree, "*/*", 0, 0}};
    coir_channel *watch;
    coir_presence presence;
    CHECK_EQ(coir_topic_tree_watch(tree, "ready", MANY, COIR_OVERFLOW_CLOSE, &watch), 0);
    {
        COIR_SCOPE(scope);
        for (int i = 0; i < 3; i++)
            coir_go_on(scope, i % workers(), read_to_the_end, &readers[i]);
        for (int i = 0; i < 3; i++)
            CHECK_EQ(coir_channel_recv(watch, &presence), 0);
        for (int i = 1; i <= 50; i++)
            CHECK_EQ(publish(tree, "a/b", i), 3);
        publish(tree, "a/b", 0);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(readers[i].count, 50);
        expect(watch, "ready", 1, false, (size_t)(2 - i));
    }
    coir_channel_free(watch);
    coir_topic_tree_free(tree);
}

TEST(readers_on_all_workers_get_everything_in_order)
{
    everywhere(readers_everywhere);
}
