/* A broadcast on real sockets: one reader that is stuck and 1,000 quick ones. The quick ones get
 * everything in order, the stuck one what its policy leaves; memory is bounded by the queues, and
 * no byte is copied on the way to the system: the payload is never allocated again. */
#include <coir.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "harness.h"

enum { QUICK = 1000, MESSAGES = 300, PAYLOAD = 4096, STUCK_MAX = 50 };

struct message {
    int number;
    char rest[PAYLOAD - sizeof(int)];
};

static struct {
    coir_stream *far[QUICK + 1], *near[QUICK + 1]; /* the last one's peer reads nothing */
    coir_write_queue *queues[QUICK + 1];
    struct message messages[MESSAGES];
    int freed, read_to_the_end;
    size_t allocated, peak; /* bytes */
} t;

/* ---- memory is counted ---- */

static void *count_alloc(size_t size, void *arg)
{
    (void)arg;
    size_t now = __atomic_add_fetch(&t.allocated, size, __ATOMIC_SEQ_CST);
    if (now > t.peak)
        t.peak = now;
    void *memory = NULL;
    return posix_memalign(&memory, 64, size) == 0 ? memory : NULL;
}

static void count_free(void *memory, size_t size, void *arg)
{
    (void)arg;
    __atomic_sub_fetch(&t.allocated, size, __ATOMIC_SEQ_CST);
    free(memory);
}

/* ---- readers ---- */

static int read_all(void *arg)
{
    coir_stream *stream = arg;
    struct message got;
    for (int i = 0; i < MESSAGES; i++) {
        CHECK_EQ(coir_read_full(stream, &got, sizeof got, NULL), sizeof got);
        CHECK_EQ(got.number, i);
    }
    t.read_to_the_end++;
    return 0;
}

/* What the stuck one finds when it reads at last: whole messages, in order, with gaps, and the
 * latest. */
static void read_rest(uint64_t written)
{
    struct message got;
    int last = -1;
    for (uint64_t i = 0; i < written; i++) {
        CHECK_EQ(coir_read_full(t.far[QUICK], &got, sizeof got, NULL), sizeof got);
        CHECK(got.number > last);
        last = got.number;
    }
    CHECK_EQ(last, MESSAGES - 1);
}

static void note_freed(void *data, void *arg)
{
    (void)data;
    (void)arg;
    t.freed++;
}

/* ---- the broadcast ---- */

static void open_all(void)
{
    char where[64];
    coir_listener *listener;
    coir_write_queue_options options = COIR_WRITE_QUEUE_OPTIONS;
    options.overflow = COIR_OVERFLOW_DROP_OLDEST;
    options.items_max = STUCK_MAX;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    coir_listener_local(listener, where, sizeof where);
    for (int i = 0; i <= QUICK; i++) {
        CHECK_EQ(coir_tcp_connect(where, &t.far[i]), 0);
        CHECK_EQ(coir_accept(listener, &t.near[i]), 0);
        coir_tcp_set_option(t.near[i], COIR_TCP_RESET_ON_CLOSE, 1); /* no TIME_WAIT is left */
        if (i == QUICK) {
            coir_tcp_set_option(t.near[i], COIR_TCP_SEND_BUFFER, 8192);
            coir_tcp_set_option(t.far[i], COIR_TCP_RECEIVE_BUFFER, 8192);
        }
        CHECK_EQ(coir_write_queue_new_with(t.near[i], i == QUICK ? &options : NULL, &t.queues[i]),
                 0);
    }
    coir_listener_close(listener);
}

static void send_to_all(int number)
{
    coir_buffer *buffer;
    t.messages[number].number = number;
    CHECK_EQ(
        coir_buffer_wrap(&t.messages[number], sizeof t.messages[number], note_freed, NULL, &buffer),
        0);
    for (int i = 0; i <= QUICK; i++)
        CHECK_EQ(coir_write_queue_push(t.queues[i], buffer), 0);
    coir_buffer_unref(buffer);
}

static coir_write_queue_stats stats_of(int index)
{
    coir_write_queue_stats stats = COIR_WRITE_QUEUE_STATS;
    CHECK_EQ(coir_write_queue_stats_get(t.queues[index], &stats), 0);
    return stats;
}

static void check_stuck(void)
{
    coir_write_queue_stats stats = stats_of(QUICK);
    CHECK(stats.dropped > 0);
    CHECK(stats.items <= STUCK_MAX + 1 && stats.bytes <= (STUCK_MAX + 1) * sizeof(struct message));
    CHECK_EQ(stats.written + stats.dropped + stats.items, MESSAGES);
    /* what is held is what the stuck one's queue holds */
    CHECK_EQ((uint64_t)t.freed, MESSAGES - stats.items);
}

static void broadcast(void)
{
    open_all();
    {
        COIR_SCOPE(scope);
        for (int i = 0; i < QUICK; i++)
            CHECK_EQ(coir_go(scope, read_all, t.far[i]), 0);
        coir_yield();
        size_t before = t.allocated;
        t.peak = before;
        for (int i = 0; i < MESSAGES; i++)
            send_to_all(i);
        CHECK_EQ(coir_scope_wait(scope), 0);
        for (int i = 0; i < QUICK; i++) {
            CHECK_EQ(coir_write_queue_flush(t.queues[i]), 0);
            CHECK_EQ(stats_of(i).written, MESSAGES);
        }
        CHECK_EQ(t.read_to_the_end, QUICK);
        /* less than one message would need if it was copied for each of them: the rings of the
         * queues and the heads of buffers */
        CHECK(t.peak - before < (size_t)QUICK * PAYLOAD / 2);
    }
    check_stuck();
    uint64_t left = stats_of(QUICK).written + stats_of(QUICK).items;
    read_rest(left);
    CHECK_EQ(coir_write_queue_flush(t.queues[QUICK]), 0);
    CHECK_EQ(t.freed, MESSAGES);
    for (int i = 0; i <= QUICK; i++) {
        coir_write_queue_free(t.queues[i]);
        coir_close(t.near[i]);
        coir_close(t.far[i]);
    }
}

static int start(void *arg)
{
    (void)arg;
    broadcast();
    return 0;
}

TEST(one_stuck_reader_costs_a_thousand_quick_ones_nothing)
{
    struct rlimit files = {3000, 3000};
    setrlimit(RLIMIT_NOFILE, &files);
    coir_runtime *runtime;
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    coir_allocator counting = COIR_ALLOCATOR(count_alloc, count_free, NULL);
    config.allocator = &counting;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    CHECK_EQ(coir_runtime_run(runtime, start, NULL), 0);
    coir_runtime_free(runtime);
    CHECK_EQ(t.allocated, 0);
}
