/* A write queue for tests: `t.queue` writes to `t.near`, and the test reads from `t.far`. Outcomes
 * are counted by the first byte of the buffer. */
#ifndef TEST_WRITE_QUEUES_H
#define TEST_WRITE_QUEUES_H

#include <coir.h>
#include <errno.h>
#include <string.h>

#include "harness.h"

static struct {
    coir_stream *far, *near;
    coir_write_queue *queue;
    int outcomes[128], last[128]; /* by the buffer's first byte: how many, and the last result */
} t;

static inline void note(coir_buffer *buffer, int result, void *arg)
{
    CHECK(arg == &t);
    unsigned char first = *(const unsigned char *)coir_buffer_data(buffer);
    t.outcomes[first]++;
    t.last[first] = result;
}

static inline coir_write_queue_options options_of(enum coir_overflow overflow, size_t items_max)
{
    coir_write_queue_options options = COIR_WRITE_QUEUE_OPTIONS;
    options.overflow = overflow;
    options.items_max = items_max;
    options.on_outcome = note;
    options.arg = &t;
    return options;
}

/* A pair in memory that holds `capacity` bytes, with a queue on its near end. */
static inline void open_queue(size_t capacity, const coir_write_queue_options *options)
{
    memset(&t, 0, sizeof t);
    CHECK_EQ(coir_duplex(capacity, &t.far, &t.near), 0);
    CHECK_EQ(coir_write_queue_new_with(t.near, options, &t.queue), 0);
}

static inline void close_queue(void)
{
    coir_write_queue_free(t.queue);
    coir_close(t.near);
    coir_close(t.far);
}

/* Pushes without waiting. */
static inline int push(const char *text)
{
    coir_buffer *buffer;
    CHECK_EQ(coir_buffer_new(text, strlen(text), &buffer), 0);
    int rc = coir_write_queue_try_push(t.queue, buffer);
    coir_buffer_unref(buffer);
    return rc;
}

static inline int push_waiting(void *arg)
{
    coir_buffer *buffer;
    CHECK_EQ(coir_buffer_new(arg, strlen(arg), &buffer), 0);
    int rc = coir_write_queue_push(t.queue, buffer);
    coir_buffer_unref(buffer);
    return rc;
}

static inline void settle(void)
{
    for (int i = 0; i < 10; i++)
        coir_yield();
}

static inline void expect_bytes(const char *want)
{
    char got[300];
    CHECK_EQ(coir_read_full(t.far, got, strlen(want), NULL), strlen(want));
    CHECK(memcmp(got, want, strlen(want)) == 0);
}

static inline coir_write_queue_stats stats_of(coir_write_queue *queue)
{
    coir_write_queue_stats stats = COIR_WRITE_QUEUE_STATS;
    CHECK_EQ(coir_write_queue_stats_get(queue, &stats), 0);
    return stats;
}

/* A queue whose first buffer has begun to be written, with two more behind it. */
static inline void fill_with(const coir_write_queue_options *options)
{
    open_queue(4, options);
    CHECK_EQ(push("0123456"), 0);
    while (!stats_of(t.queue).sent)
        CHECK_EQ(coir_yield(), 0);
    CHECK_EQ(stats_of(t.queue).sent, 4);
    CHECK(push("b") == 0 && push("c") == 0);
    settle();
}

/* As fill_with, by a policy, with room for two buffers. */
static inline void fill(enum coir_overflow overflow)
{
    coir_write_queue_options options = options_of(overflow, 2);
    fill_with(&options);
}

static inline void expect_outcome(char which, int result)
{
    CHECK_EQ(t.outcomes[(unsigned char)which], 1);
    CHECK_EQ(t.last[(unsigned char)which], result);
}

static inline int read_one(void *arg)
{
    char byte;
    (void)arg;
    return (int)coir_read(t.near, &byte, 1);
}

#endif
