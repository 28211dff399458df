/* The items of a write queue: the bounds, the policies that drop, one outcome for each buffer. */
#include "io/write_queue.h"
#include "write_queues.h"

TEST_SIM(a_full_queue_drops_the_oldest_but_not_what_has_begun)
{
    fill(COIR_OVERFLOW_DROP_OLDEST);
    CHECK_EQ(push("d"), 0);
    expect_outcome('b', -COIR_EFULL);
    expect_bytes("0123456cd");
    CHECK_EQ(coir_write_queue_flush(t.queue), 0);
    CHECK_EQ(stats_of(t.queue).dropped, 1);
    CHECK_EQ(stats_of(t.queue).written, 3);
    expect_outcome('0', 0);
    expect_outcome('c', 0);
    expect_outcome('d', 0);
    close_queue();
}

TEST_SIM(a_full_queue_drops_the_newest)
{
    fill(COIR_OVERFLOW_DROP_NEWEST);
    CHECK_EQ(push("d"), 0);
    expect_outcome('d', -COIR_EFULL);
    expect_bytes("0123456bc");
    CHECK_EQ(coir_write_queue_flush(t.queue), 0);
    close_queue();
}

TEST_SIM(a_full_queue_keeps_only_the_latest)
{
    fill(COIR_OVERFLOW_KEEP_LATEST);
    CHECK_EQ(push("d"), 0);
    expect_outcome('b', -COIR_EFULL);
    expect_outcome('c', -COIR_EFULL);
    expect_bytes("0123456d");
    CHECK_EQ(coir_write_queue_flush(t.queue), 0);
    close_queue();
}

TEST_SIM(the_bound_in_bytes_holds_and_no_buffer_is_larger)
{
    coir_write_queue_options options = options_of(COIR_OVERFLOW_DROP_OLDEST, 100);
    options.bytes_max = 8;
    open_queue(1, &options);
    CHECK_EQ(push("123456789"), -COIR_ETOOLARGE);
    CHECK_EQ(push("12"), 0);
    settle();
    CHECK(push("abc") == 0 && push("def") == 0 && push("gh") == 0);
    CHECK_EQ(stats_of(t.queue).bytes, 1 + 8);
    CHECK_EQ(push("ijkl"), 0); /* needs the room of two */
    CHECK_EQ(stats_of(t.queue).dropped, 2);
    expect_bytes("12ghijkl");
    CHECK_EQ(coir_write_queue_flush(t.queue), 0);
    close_queue();
}

TEST_SIM(what_a_system_call_is_writing_is_not_dropped)
{
    struct ci_write_gone gone = {.count = 0};
    fill(COIR_OVERFLOW_DROP_OLDEST);
    t.queue->taken = 2; /* as during a write of the first two */
    t.queue->first_taken = ci_write_queue_at(t.queue, 0)->number;
    ci_write_queue_lock(t.queue);
    ci_write_queue_make_room(t.queue, 1, &gone);
    CHECK_EQ(gone.count, 1);
    CHECK_EQ(*(const char *)coir_buffer_data(gone.buffers[0]), 'c');
    t.queue->taken = 0;
    ci_lock_give(&t.queue->lock);
    ci_write_queue_report(t.queue, &gone, -COIR_EFULL);
    expect_bytes("0123456b");
    CHECK_EQ(coir_write_queue_flush(t.queue), 0);
    close_queue();
}
