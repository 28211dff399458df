/* Calls on objects, or with out-parameters, that are NULL: an error, or nothing; a debug build
 * names the call. */
#include <coir.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "misuse.h"

static coir_wait_op op;
static coir_condition_op condition_op;
static coir_mutex mutex = COIR_MUTEX_INIT;
static coir_condition condition = COIR_CONDITION_INIT;
static coir_channel *channel;
static coir_topic *topic;
static coir_latest *latest;
static coir_channel_options channel_options = COIR_CHANNEL_OPTIONS;
static coir_topic_options topic_options = COIR_TOPIC_OPTIONS;
static coir_topic_tree_options tree_options = COIR_TOPIC_TREE_OPTIONS;
static int item;

static void make_objects(void)
{
    CHECK_EQ(coir_channel_new(sizeof item, 1, &channel), 0);
    CHECK_EQ(coir_topic_new(sizeof item, &topic), 0);
    CHECK_EQ(coir_latest_new(sizeof item, &item, &latest), 0);
}

static void free_objects(void)
{
    coir_channel_free(channel);
    coir_topic_free(topic);
    coir_latest_free(latest);
}

TEST(locks_events_and_values_look_at_their_arguments)
{
    make_objects();
    REFUSED_IN_DEBUG(coir_mutex_lock, (NULL));
    REFUSED(coir_mutex_try_lock, (NULL));
    REFUSED(coir_shared_mutex_lock, (NULL));
    REFUSED(coir_shared_mutex_share, (NULL));
    REFUSED(coir_shared_mutex_try_lock, (NULL));
    REFUSED(coir_shared_mutex_try_share, (NULL));
    NOTHING(coir_shared_mutex_unlock, (NULL));
    REFUSED(coir_condition_wait, (NULL, &mutex));
    REFUSED(coir_condition_wait, (&condition, NULL));
    NOTHING(coir_condition_signal, (NULL));
    NOTHING(coir_condition_broadcast, (NULL));
    REFUSED(coir_semaphore_acquire, (NULL, 1));
    REFUSED(coir_semaphore_try_acquire, (NULL, 1));
    REFUSED(coir_semaphore_release, (NULL, 1));
    COMPUTES_0(coir_semaphore_units, (NULL));
    REFUSED(coir_event_wait, (NULL));
    NOTHING(coir_event_set, (NULL));
    NOTHING(coir_event_reset, (NULL));
    COMPUTES_0(coir_event_is_set, (NULL));
    REFUSED(coir_latest_new, (1, &item, NULL));
    REFUSED(coir_latest_new, (1, NULL, &latest));
    NOTHING(coir_latest_set, (NULL, &item));
    NOTHING(coir_latest_set, (latest, NULL));
    COMPUTES_0(coir_latest_get, (NULL, &item));
    COMPUTES_0(coir_latest_get, (latest, NULL));
    REFUSED(coir_latest_wait, (NULL, 0));
    NOTHING(coir_latest_close, (NULL));
    free_objects();
}

TEST(channels_and_topics_look_at_their_arguments)
{
    make_objects();
    REFUSED_IN_DEBUG(coir_channel_send, (NULL, &item));
    REFUSED_IN_DEBUG(coir_channel_send, (channel, NULL));
    REFUSED_IN_DEBUG(coir_channel_recv, (NULL, &item));
    REFUSED_IN_DEBUG(coir_channel_recv, (channel, NULL));
    REFUSED_IN_DEBUG(coir_channel_recv_many, (NULL, &item, 1));
    REFUSED_IN_DEBUG(coir_channel_recv_many, (channel, NULL, 1));
    REFUSED(coir_channel_new, (1, 1, NULL));
    REFUSED(coir_channel_new_with, (&channel_options, NULL));
    REFUSED(coir_channel_try_send, (NULL, &item));
    REFUSED(coir_channel_try_send, (channel, NULL));
    REFUSED(coir_channel_try_recv, (NULL, &item));
    REFUSED(coir_channel_try_recv, (channel, NULL));
    NOTHING(coir_channel_close, (NULL));
    COMPUTES_0(coir_channel_count, (NULL));
    COMPUTES_0(coir_channel_is_closed, (NULL));
    REFUSED(coir_topic_new, (1, NULL));
    REFUSED(coir_topic_new_with, (&topic_options, NULL));
    REFUSED(coir_subscribe, (NULL, 1, COIR_OVERFLOW_WAIT, &channel));
    REFUSED(coir_subscribe, (topic, 1, COIR_OVERFLOW_WAIT, NULL));
    REFUSED(coir_publish, (NULL, &item));
    REFUSED(coir_publish, (topic, NULL));
    REFUSED(coir_try_publish, (NULL, &item));
    REFUSED(coir_try_publish, (topic, NULL));
    NOTHING(coir_topic_close, (NULL));
    COMPUTES_0(coir_topic_subscribers, (NULL));
    REFUSED(coir_topic_tree_new, (1, NULL));
    REFUSED(coir_topic_tree_new_with, (&tree_options, NULL));
    REFUSED(coir_topic_tree_subscribe, (NULL, "a", 1, COIR_OVERFLOW_CLOSE, &channel));
    REFUSED(coir_topic_tree_join, (NULL, "a", 1, 1, COIR_OVERFLOW_CLOSE, &channel));
    REFUSED(coir_topic_tree_watch, (NULL, "a", 1, COIR_OVERFLOW_CLOSE, &channel));
    REFUSED(coir_topic_tree_publish, (NULL, "a", &item));
    REFUSED(coir_topic_tree_last, (NULL, "a", &item));
    REFUSED(coir_topic_tree_forget, (NULL, "a"));
    COMPUTES_0(coir_topic_tree_present, (NULL, "a"));
    NOTHING(coir_topic_tree_close, (NULL));
    free_objects();
}

TEST(futures_of_nothing_complete_with_an_error)
{
    make_objects();
    FUTURE_REFUSED(coir_mutex_lock_op, (&op, NULL));
    FUTURE_REFUSED(coir_shared_mutex_lock_op, (&op, NULL));
    FUTURE_REFUSED(coir_shared_mutex_share_op, (&op, NULL));
    FUTURE_REFUSED(coir_condition_wait_op, (&condition_op, NULL, &mutex));
    FUTURE_REFUSED(coir_condition_wait_op, (&condition_op, &condition, NULL));
    FUTURE_REFUSED(coir_semaphore_acquire_op, (&op, NULL, 1));
    FUTURE_REFUSED(coir_event_wait_op, (&op, NULL));
    FUTURE_REFUSED(coir_latest_wait_op, (&op, NULL, 0));
    FUTURE_REFUSED(coir_channel_send_op, (&op, NULL, &item));
    FUTURE_REFUSED(coir_channel_send_op, (&op, channel, NULL));
    FUTURE_REFUSED(coir_channel_recv_op, (&op, NULL, &item));
    FUTURE_REFUSED(coir_channel_recv_op, (&op, channel, NULL));
    FUTURE_REFUSED(coir_channel_recv_many_op, (&op, NULL, NULL, 0));
    FUTURE_REFUSED(coir_channel_recv_many_op, (&op, channel, NULL, 1));
    FUTURE_REFUSED(coir_publish_op, (&op, NULL, &item));
    FUTURE_REFUSED(coir_publish_op, (&op, topic, NULL));
    free_objects();
}

TEST(cases_of_nothing_are_named)
{
    make_objects();
    if (CI_DEBUG) {
        NAMED(coir_case_event, (NULL));
        NAMED(coir_case_latest, (NULL, 0));
        NAMED(coir_case_send, (NULL, &item));
        NAMED(coir_case_recv, (channel, NULL));
    }
    free_objects();
}

static int select_nothing(void *arg)
{
    (void)arg;
    coir_case cases[] = {coir_case_event(NULL)};
    CHECK_EQ(coir_select(cases, 1), 0);
    CHECK_EQ(cases[0].result, -EINVAL);
    return 0;
}

TEST(a_case_of_nothing_completes_with_an_error)
{
    CHECK_EQ(coir_main(select_nothing, NULL), 0);
}

/* A lock that is not held cannot be given back, in any build. */
TEST(what_is_free_is_not_given_back)
{
    coir_shared_mutex shared = COIR_SHARED_MUTEX_INIT;
    for (int i = 0; i < 2; i++) {
        int out, status;
        pid_t child = begin(&out);
        if (child == 0) {
            i ? coir_shared_mutex_unlock(&shared) : coir_mutex_unlock(&mutex);
            _exit(0);
        }
        if (CI_DEBUG) {
            expect_named(child, out, i ? "coir_shared_mutex_unlock" : "coir_mutex_unlock");
            continue;
        }
        close(out);
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}
