/* Writing a queue: in order, without a task, until the peer or a policy ends it. */
#include "pair.h"
#include "write_queues.h"

TEST_SIM(what_is_pushed_is_written_in_order_without_a_task)
{
    coir_write_queue_options options = options_of(COIR_OVERFLOW_WAIT, 200);
    open_queue(0, &options);
    char want[201] = {0};
    for (int i = 0; i < 200; i++) {
        char text[2] = {(char)('0' + i % 64), 0};
        want[i] = text[0];
        CHECK_EQ(push(text), 0);
    }
    CHECK_EQ(stats_of(t.queue).written, 0); /* no push has made a system call */
    CHECK_EQ(coir_write_queue_flush(t.queue), 0);
    CHECK_EQ(stats_of(t.queue).written, 200);
    CHECK_EQ(stats_of(t.queue).sent, 200);
    expect_bytes(want);
    close_queue();
}

TEST_SIM(a_full_queue_that_closes_takes_the_stream_along)
{
    fill(COIR_OVERFLOW_CLOSE);
    COIR_HANDLE(reader);
    COIR_SERVING_SCOPE(scope);
    coir_go_options go = COIR_GO_OPTIONS;
    go.handle = reader;
    CHECK_EQ(coir_go_with(scope, &go, read_one, NULL), 0);
    settle();
    CHECK_EQ(push("d"), -EPIPE);
    CHECK_EQ(coir_join(reader), -ECONNABORTED);
    CHECK_EQ(coir_write_queue_flush(t.queue), -COIR_EFULL);
    CHECK_EQ(stats_of(t.queue).failed, 3);
    expect_outcome('0', -COIR_EFULL);
    expect_outcome('b', -COIR_EFULL);
    CHECK_EQ(t.outcomes['d'], 0); /* refused */
    CHECK_EQ(push("e"), -EPIPE);
    CHECK_EQ(read_one(NULL), -ECONNABORTED);
    close_queue();
}

static int wait_for_hang_up(void *arg)
{
    return coir_stream_wait(arg, 0);
}

TEST_SIM(a_wait_for_a_hang_up_ends_with_the_stream_of_a_queue_that_closes)
{
    coir_stream *far;
    coir_write_queue_options options = options_of(COIR_OVERFLOW_CLOSE, 2);
    memset(&t, 0, sizeof t);
    connect_pair(&far, &t.near);
    CHECK_EQ(coir_write_queue_new_with(t.near, &options, &t.queue), 0);
    COIR_HANDLE(waits);
    COIR_SERVING_SCOPE(scope);
    coir_go_options go = COIR_GO_OPTIONS;
    go.handle = waits;
    CHECK_EQ(coir_go_with(scope, &go, wait_for_hang_up, t.near), 0);
    CHECK_EQ(coir_yield(), 0);
    while (push("d") == 0)
        continue;
    COIR_DEADLINE(coir_in(COIR_S));
    CHECK_EQ(coir_join(waits), -ECONNABORTED);
    coir_write_queue_free(t.queue);
    coir_close(t.near);
    coir_close(far);
}

TEST_REAL(a_peer_that_is_gone_ends_the_queue)
{
    memset(&t, 0, sizeof t);
    connect_pair(&t.far, &t.near);
    coir_write_queue_options options = options_of(COIR_OVERFLOW_WAIT, 1000);
    CHECK_EQ(coir_write_queue_new_with(t.near, &options, &t.queue), 0);
    CHECK_EQ(coir_tcp_set_option(t.far, COIR_TCP_RESET_ON_CLOSE, 1), 0);
    coir_close(t.far);
    int rc = 0;
    COIR_DEADLINE(coir_in(30 * COIR_S));
    while ((rc = push("x")) == 0)
        CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    CHECK_EQ(rc, -EPIPE);
    rc = coir_write_queue_flush(t.queue);
    CHECK(rc == -ECONNRESET || rc == -EPIPE);
    CHECK_EQ(stats_of(t.queue).failed + stats_of(t.queue).written, (uint64_t)t.outcomes['x']);
    coir_write_queue_free(t.queue);
    coir_close(t.near);
}

TEST_REAL(a_stuck_peer_is_reset_by_the_policy)
{
    static char large[64 * 1024];
    memset(&t, 0, sizeof t);
    connect_pair(&t.far, &t.near);
    coir_write_queue_options options = COIR_WRITE_QUEUE_OPTIONS;
    options.overflow = COIR_OVERFLOW_CLOSE;
    coir_buffer *buffer;
    CHECK_EQ(coir_buffer_wrap(large, sizeof large, NULL, NULL, &buffer), 0);
    CHECK_EQ(coir_write_queue_new_with(t.near, &options, &t.queue), 0);
    COIR_DEADLINE(coir_in(30 * COIR_S));
    while (coir_write_queue_try_push(t.queue, buffer) == 0)
        CHECK_EQ(coir_yield(), 0);
    CHECK_EQ(read_one(NULL), -ECONNABORTED);
    coir_close(t.near);
    coir_write_queue_free(t.queue);
    coir_buffer_unref(buffer);
    ssize_t n;
    while ((n = coir_read(t.far, large, sizeof large)) > 0)
        continue;
    CHECK_EQ(n, -ECONNRESET);
    coir_close(t.far);
}
