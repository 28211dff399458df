/* An io_uring: entries, completions, buffers, what is taken back. */
#include "sys/mapping_keep.h"
#include "sys/ring.h"

#include <errno.h>
#include <stdio.h>

#include "harness.h"
#include "sys/call.h"

static struct ci_ring ring;

/* False: it does not work here. */
static bool open_ring(void)
{
    int rc = ci_ring_open(&ring, 4, 8, false);
    if (rc < 0)
        printf("left out: %s\n", coir_strerror(rc));
    CHECK(rc == 0 || rc == -ENOSYS || rc == -EPERM || rc == -EINVAL);
    return rc == 0;
}

TEST(entries_are_taken_and_completed_in_order)
{
    if (!open_ring())
        return;
    for (uint64_t i = 1; i <= 4; i++) {
        struct io_uring_sqe *sqe = ci_ring_entry(&ring);
        CHECK(sqe);
        sqe->opcode = IORING_OP_NOP;
        sqe->user_data = i;
    }
    CHECK(!ci_ring_entry(&ring)); /* all are taken */
    CHECK(!ci_ring_submitted(&ring) && ci_ring_busy(&ring));
    CHECK_EQ(ci_ring_enter(&ring, 4, -1), 0);
    CHECK(ci_ring_submitted(&ring));
    for (uint64_t i = 1; i <= 4; i++) {
        struct io_uring_cqe *completion = ci_ring_completion(&ring);
        CHECK(completion && completion->user_data == i);
        ci_ring_seen(&ring);
    }
    CHECK(!ci_ring_completion(&ring) && ci_ring_entry(&ring));
    ci_ring_close(&ring);
}

TEST(a_wait_ends_at_its_timeout_and_a_request_is_taken_back)
{
    if (!open_ring())
        return;
    coir_fd fd = ci_sys_eventfd();
    struct io_uring_sqe *sqe = ci_ring_entry(&ring);
    sqe->opcode = IORING_OP_POLL_ADD;
    sqe->fd = fd;
    sqe->poll32_events = 1; /* POLLIN */
    sqe->user_data = 9;
    CHECK_EQ(ci_ring_enter(&ring, 1, COIR_MS), 0); /* it has submitted something */
    CHECK_EQ(ci_ring_enter(&ring, 1, COIR_MS), -ETIME);
    CHECK(!ci_ring_completion(&ring));
    CHECK_EQ(ci_ring_take_back(&ring, 9), 0);
    CHECK_EQ(ci_ring_enter(&ring, 0, 0), 0);
    struct io_uring_cqe *completion = ci_ring_completion(&ring);
    CHECK(completion && completion->user_data == 9 && completion->res == -ECANCELED);
    CHECK_EQ(ci_ring_take_back(&ring, 10), -ENOENT);
    ci_sys_close(fd);
    ci_ring_close(&ring);
}

TEST(buffers_are_distinct_and_given_in_order)
{
    struct ci_ring_buffers buffers;
    CHECK_EQ(ci_ring_buffers_make(&buffers, 8, 4096), 0);
    for (uint16_t id = 0; id < 8; id++) {
        ci_ring_buffer(&buffers, id)[4095] = 1;
        ci_ring_buffer_give(&buffers, id);
        CHECK(buffers.ring->bufs[id].addr == (uintptr_t)ci_ring_buffer(&buffers, id) &&
              buffers.ring->bufs[id].bid == id);
    }
    CHECK_EQ(buffers.ring->tail, 8);
    ci_ring_buffers_free(&buffers);
    ci_ring_buffers_free(&(struct ci_ring_buffers){0});
}

TEST(buffers_of_a_thread_that_keeps_mappings_are_taken_again)
{
    static struct ci_mapping_keep keep;
    struct ci_ring_buffers buffers;
    ci_mapping_keep(&keep);
    CHECK_EQ(ci_ring_buffers_make(&buffers, 16, 4096), 0);
    const void *first = buffers.ring;
    ci_ring_buffers_free(&buffers);
    CHECK_EQ(keep.count, 1);
    CHECK_EQ(ci_ring_buffers_make(&buffers, 16, 4096), 0);
    CHECK(buffers.ring == first);
    CHECK_EQ(keep.count, 0);
    ci_mapping_keep(NULL);
    ci_ring_buffers_free(&buffers);
}
