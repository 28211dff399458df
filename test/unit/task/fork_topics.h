/* What fork_test.c asks of topics and topic trees; its objects are in `o`. */
#ifndef TEST_FORK_TOPICS_H
#define TEST_FORK_TOPICS_H

#include <coir.h>

#include "harness.h"

static coir_topic_tree *forked_tree;
static coir_topic_options topic_options = COIR_TOPIC_OPTIONS;
static coir_topic_tree_options tree_options = COIR_TOPIC_TREE_OPTIONS;

static void make_tree(void)
{
    topic_options.item_size = tree_options.item_size = 8;
    CHECK_EQ(coir_topic_tree_new(8, &forked_tree), 0);
}

#define TOPIC_CALLS(R, V, P)                                                                   \
    R(coir_topic_new, coir_topic_new(8, RET(coir_topic)))                                      \
    R(coir_topic_new_with, coir_topic_new_with(&topic_options, RET(coir_topic)))               \
    V(coir_topic_close, coir_topic_close(o.topic))                                             \
    V(coir_topic_free, coir_topic_free(o.topic))                                               \
    R(coir_subscribe, coir_subscribe(o.topic, 1, COIR_OVERFLOW_WAIT, RET(coir_channel)))       \
    R(coir_publish, coir_publish(o.topic, &item))                                              \
    R(coir_try_publish, coir_try_publish(o.topic, &item))                                      \
    P(coir_topic_subscribers, coir_topic_subscribers(o.topic))                                 \
    R(coir_topic_tree_new, coir_topic_tree_new(8, RET(coir_topic_tree)))                       \
    R(coir_topic_tree_new_with, coir_topic_tree_new_with(&tree_options, RET(coir_topic_tree))) \
    V(coir_topic_tree_free, coir_topic_tree_free(forked_tree))                                 \
    V(coir_topic_tree_close, coir_topic_tree_close(forked_tree))                               \
    R(coir_topic_tree_subscribe,                                                               \
      coir_topic_tree_subscribe(forked_tree, "a", 1, COIR_OVERFLOW_CLOSE, RET(coir_channel)))  \
    R(coir_topic_tree_join,                                                                    \
      coir_topic_tree_join(forked_tree, "a", 1, 1, COIR_OVERFLOW_CLOSE, RET(coir_channel)))    \
    R(coir_topic_tree_watch,                                                                   \
      coir_topic_tree_watch(forked_tree, "a", 1, COIR_OVERFLOW_CLOSE, RET(coir_channel)))      \
    R(coir_topic_tree_publish, coir_topic_tree_publish(forked_tree, "a", &item))               \
    R(coir_topic_tree_last, coir_topic_tree_last(forked_tree, "a", &item))                     \
    R(coir_topic_tree_forget, coir_topic_tree_forget(forked_tree, "a"))                        \
    P(coir_topic_tree_present, coir_topic_tree_present(forked_tree, "a"))

#endif
