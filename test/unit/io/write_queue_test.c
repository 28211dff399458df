/* Write queues: making and freeing them, and closing the stream. */
#include "write_queues.h"

TEST_SIM(the_queue_is_the_only_writer_until_it_is_freed)
{
    coir_write_queue *second;
    open_queue(0, NULL);
    CHECK_EQ(coir_write(t.near, "x", 1), -EBUSY);
    CHECK_EQ(coir_try_write(t.near, "x", 1), -EBUSY);
    CHECK_EQ(coir_stream_wait(t.near, COIR_WRITE), -EBUSY);
    CHECK_EQ(coir_write_queue_new(t.near, &second), -EBUSY);
    CHECK_EQ(push("a"), 0);
    CHECK_EQ(coir_write_queue_flush(t.queue), 0);
    coir_write_queue_free(t.queue);
    CHECK_EQ(coir_write(t.near, "x", 1), 1);
    expect_bytes("ax");
    coir_close(t.near);
    coir_close(t.far);
}

TEST_SIM(freeing_a_queue_fails_what_lies_in_it)
{
    coir_write_queue_options options = options_of(COIR_OVERFLOW_WAIT, 10);
    open_queue(0, &options);
    CHECK(push("a") == 0 && push("b") == 0); /* its message is still on the way */
    close_queue();
    expect_outcome('a', -ECANCELED);
    expect_outcome('b', -ECANCELED);
    settle();
}

TEST_SIM(closing_the_stream_fails_what_is_queued)
{
    fill(COIR_OVERFLOW_WAIT);
    COIR_HANDLE(waiting);
    COIR_SERVING_SCOPE(scope);
    coir_go_options go = COIR_GO_OPTIONS;
    go.handle = waiting;
    CHECK_EQ(coir_go_with(scope, &go, push_waiting, "d"), 0);
    settle();
    coir_close(t.near);
    CHECK_EQ(coir_join(waiting), -EPIPE);
    expect_outcome('0', -ECANCELED);
    expect_outcome('c', -ECANCELED);
    CHECK_EQ(push("e"), -EPIPE);
    CHECK_EQ(stats_of(t.queue).error, -ECANCELED);
    coir_write_queue_free(t.queue);
    coir_close(t.far);
}

/* ---- a queue that its last outcome frees ---- */

static int left;

static void free_at_last(coir_buffer *buffer, int result, void *arg)
{
    note(buffer, result, arg);
    if (--left == 0)
        coir_write_queue_free(t.queue);
}

static void fill_to_free(void)
{
    coir_write_queue_options options = options_of(COIR_OVERFLOW_WAIT, 10);
    options.on_outcome = free_at_last;
    left = 3;
    fill_with(&options);
}

TEST_SIM(the_last_outcome_may_free_the_queue)
{
    fill_to_free();
    expect_bytes("0123456bc"); /* it was written */
    CHECK_EQ(left, 0);
    CHECK_EQ(coir_write(t.near, "x", 1), 1);
    coir_close(t.near);
    coir_close(t.far);

    fill_to_free();
    coir_close(t.near);
    expect_outcome('c', -ECANCELED);
    coir_close(t.far);

    fill_to_free();
    CHECK_EQ(coir_stream_set_timeout(t.near, COIR_WRITE, COIR_S, 0), 0);
    CHECK_EQ(coir_sleep_for(2 * COIR_S), 0);
    expect_outcome('c', -ETIMEDOUT);
    CHECK_EQ(read_one(NULL), -ECONNABORTED);
    coir_close(t.near);
    coir_close(t.far);
}
