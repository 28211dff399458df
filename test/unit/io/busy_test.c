/* What is freed or closed while it is used: named, and left as it is. */
#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "said.h"

static int receive(void *channel)
{
    char byte;
    return coir_channel_recv(channel, &byte) == -EPIPE ? 0 : -EBADMSG;
}

static void free_channel(void)
{
    coir_channel *channel;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_channel_new(1, 1, &channel), 0);
    CHECK_EQ(coir_go(scope, receive, channel), 0);
    coir_yield();
    coir_channel_free(channel);
    expect_named("coir_channel_free");
    coir_channel_close(channel);
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_channel_free(channel);
}

static void free_topic(void)
{
    coir_topic *topic;
    coir_channel *subscriber;
    CHECK_EQ(coir_topic_new(1, &topic), 0);
    CHECK_EQ(coir_subscribe(topic, 1, COIR_OVERFLOW_WAIT, &subscriber), 0);
    coir_topic_free(topic);
    expect_named("coir_topic_free");
    CHECK_EQ(coir_publish(topic, "x"), 1);
    coir_channel_free(subscriber);
    coir_topic_free(topic);
}

static int flush(void *queue)
{
    return coir_write_queue_flush(queue) == -ECANCELED ? 0 : -EBADMSG;
}

static void free_write_queue(void)
{
    coir_stream *near, *far;
    coir_write_queue *queue;
    coir_buffer *buffer;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_duplex(1, &near, &far), 0);
    CHECK_EQ(coir_write_queue_new(near, &queue), 0);
    CHECK_EQ(coir_buffer_new("long", 4, &buffer), 0);
    CHECK_EQ(coir_write_queue_push(queue, buffer), 0);
    CHECK_EQ(coir_go(scope, flush, queue), 0);
    coir_yield();
    coir_write_queue_free(queue);
    expect_named("coir_write_queue_free");
    coir_close(near);
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_write_queue_free(queue);
    coir_buffer_unref(buffer);
    coir_close(far);
}

static coir_parker parker;

static int park(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_parker_init(&parker), 0);
    int rc = coir_parker_wait(&parker);
    coir_parker_done(&parker);
    return rc;
}

static void end_parker(void)
{
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, park, NULL), 0);
    coir_yield();
    coir_parker_done(&parker);
    expect_named("coir_parker_done");
    CHECK_EQ(coir_parker_wait(&parker), -EBUSY);
    expect_named("coir_parker_wait");
    CHECK_EQ(coir_await(coir_parker_wait_op(&parker)), -EBUSY);
    expect_named("coir_await");
    coir_waker_wake(coir_parker_waker(&parker));
    CHECK_EQ(coir_scope_wait(scope), 0);
}

static void free_poller(void)
{
    coir_poller *poller;
    coir_source source = {{0}};
    CHECK_EQ(coir_poller_new(&poller), 0);
    CHECK_EQ(coir_source_add(&source, poller, 1), 0);
    coir_poller_free(poller);
    expect_named("coir_poller_free");
    coir_source_remove(&source);
    coir_poller_free(poller);
}

static int free_itself(coir_generator *generator, uint64_t first, void *arg)
{
    (void)first, (void)arg;
    coir_generator_free(generator);
    expect_named("coir_generator_free");
    return 7;
}

static void free_generator(void)
{
    coir_generator *generator;
    CHECK_EQ(coir_generator_new(free_itself, NULL, &generator), 0);
    CHECK_EQ(coir_generator_next(generator, 0, &(uint64_t){0}), 7);
    coir_generator_free(generator);
}

static void free_runtime(void)
{
    coir_runtime_free(coir_runtime_current());
    expect_named("coir_runtime_free");
    CHECK_EQ(coir_runtime_step(coir_runtime_current()), 1);
    expect_named("coir_runtime_step");
}

static int end_own_scope(void *scope)
{
    CHECK_EQ(coir_scope_wait(scope), -EDEADLK);
    expect_named("coir_scope_wait");
    coir_scope_close(scope);
    expect_named("coir_scope_close");
    return 0;
}

static int end_scope_waited_for(void *scope)
{
    coir_scope_close(scope);
    expect_named("coir_scope_close");
    return 0;
}

static void end_scope(void)
{
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, end_own_scope, scope), 0);
    coir_yield();
    CHECK_EQ(coir_go(scope, end_scope_waited_for, scope), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
}

static int join(void *handle)
{
    return coir_join(handle);
}

static void join_twice(void)
{
    coir_sleep_op pause;
    COIR_HANDLE(handle);
    COIR_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    CHECK_EQ(coir_go_future_with(scope, &options, coir_sleep_for_op(&pause, 1 * COIR_MS)), 0);
    CHECK_EQ(coir_go(scope, join, handle), 0);
    coir_yield();
    CHECK_EQ(coir_join(handle), -EBUSY);
    CHECK_EQ(coir_await(coir_join_op(handle)), -EBUSY);
    expect_named("coir_join_op");
    CHECK_EQ(coir_scope_wait(scope), 0);
}

static ssize_t read_through(void *buf, size_t len, int *events, void *arg)
{
    (void)events;
    return coir_try_read(arg, buf, len);
}

static ssize_t write_through(const void *buf, size_t len, int *events, void *arg)
{
    (void)events;
    return coir_try_write(arg, buf, len);
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static bool may_be_readable(int *events, void *arg)
{
    (void)events, (void)arg;
    return false;
}

static void free_nothing(void *arg)
{
    (void)arg;
}

static void close_transport(void)
{
    static const coir_filter_kind kind = COIR_FILTER_KIND(read_through, write_through, nothing,
                                                          may_be_readable, nothing, free_nothing);
    coir_stream *near, *far, *filter;
    char byte;
    CHECK_EQ(coir_duplex(1, &near, &far), 0);
    CHECK_EQ(coir_filter_new(&kind, near, near, &filter), 0);
    coir_close(near);
    expect_named("coir_close");
    CHECK_EQ(coir_write(filter, "x", 1), 1);
    CHECK_EQ(coir_read(far, &byte, 1), 1);
    coir_close(filter);
    coir_close(far);
}

static int misuse_all(void *arg)
{
    (void)arg;
    free_channel();
    free_topic();
    free_write_queue();
    end_parker();
    free_poller();
    free_generator();
    free_runtime();
    end_scope();
    join_twice();
    close_transport();
    return 0;
}

TEST(what_is_used_is_not_freed)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.log = take_line;
    CHECK_EQ(test_run(&config, misuse_all, NULL), 0);
}
