/* A peer that keeps a stream waiting: without any progress, or below a rate. */
#include <coir.h>
#include <errno.h>
#include <string.h>

#include "harness.h"
#include "pair.h"

enum { BIG = 1 << 20 };

static struct {
    coir_stream *far, *near;
    char bytes[BIG];
} t;

static void open_both(void)
{
    memset(&t, 0, sizeof t);
    connect_pair(&t.far, &t.near);
}

static void close_both(void)
{
    coir_close(t.near);
    coir_close(t.far);
}

/* The time of the wait, which must have ended with `result`. */
static coir_time time_of_read(ssize_t result)
{
    char byte;
    coir_time start = coir_now();
    CHECK_EQ(coir_read(t.near, &byte, 1), result);
    return coir_now() - start;
}

static void expect_about(coir_time time, coir_time expected)
{
    CHECK(time >= expected && time < expected + 100 * COIR_MS);
}

TEST_SIM(a_silent_peer_ends_the_read_and_the_stream_reads_on_when_it_sends)
{
    open_both();
    CHECK_EQ(coir_stream_set_timeout(t.near, COIR_READ, COIR_S, 0), 0);
    expect_about(time_of_read(-ETIMEDOUT), COIR_S);
    expect_about(time_of_read(-ETIMEDOUT), 0); /* nothing has come since */
    CHECK_EQ(coir_write(t.far, "xy", 2), 2);
    CHECK_EQ(coir_sleep_for(10 * COIR_S), 0); /* no task waits: the time does not count */
    CHECK_EQ(time_of_read(1), 0);
    CHECK_EQ(time_of_read(1), 0);
    expect_about(time_of_read(-ETIMEDOUT), COIR_S);
    CHECK_EQ(coir_stream_set_timeout(t.near, COIR_READ | COIR_WRITE, 2 * COIR_S, 0), 0);
    expect_about(time_of_read(-ETIMEDOUT), 2 * COIR_S);
    CHECK_EQ(coir_stream_set_timeout(t.near, COIR_READ, COIR_NEVER, 0), 0);
    COIR_DEADLINE(coir_in(60 * COIR_S));
    expect_about(time_of_read(-ETIME), 60 * COIR_S);
    close_both();
}

TEST_SIM(every_call_that_waits_is_ended)
{
    char bytes[4];
    struct iovec piece = {bytes, sizeof bytes};
    open_both();
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(coir_stream_set_timeout(t.near, COIR_READ, COIR_S, 1), 0);
        ssize_t n = i == 0   ? coir_read_full(t.near, bytes, 4, NULL)
                    : i == 1 ? coir_readv(t.near, &piece, 1)
                    : i == 2 ? coir_peek(t.near, bytes, 4)
                    : i == 3 ? coir_stream_wait(t.near, COIR_READ)
                             : coir_stream_copy(t.far, t.near, 1, NULL);
        CHECK_EQ(n, -ETIMEDOUT);
    }
    close_both();
}

/* ---- a rate ---- */

/* Ten bytes, ten times a second, for 20 s. */
static int send_slowly(void *arg)
{
    (void)arg;
    for (int i = 0; i < 200; i++) {
        int rc = coir_sleep_for(100 * COIR_MS);
        if (rc == 0)
            rc = coir_write_all(t.far, "0123456789", 10);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* How long it was read, and its end. */
static coir_time read_slow_peer(size_t rate_min, ssize_t end)
{
    char bytes[10];
    ssize_t n = 1;
    open_both();
    COIR_SERVING_SCOPE(scope);
    CHECK_EQ(coir_stream_set_timeout(t.near, COIR_READ, COIR_S, rate_min), 0);
    CHECK_EQ(coir_go(scope, send_slowly, NULL), 0);
    coir_time start = coir_now();
    while (n > 0 && coir_now() - start < 15 * COIR_S)
        n = coir_read(t.near, bytes, sizeof bytes);
    CHECK_EQ(n < 0 ? n : 0, end);
    coir_time took = coir_now() - start;
    coir_scope_cancel(scope);
    CHECK_EQ(coir_scope_wait(scope), 0);
    close_both();
    return took;
}

TEST_SIM(a_peer_below_the_rate_is_given_up_and_one_above_it_is_not)
{
    expect_about(read_slow_peer(0, 0), 15 * COIR_S);
    expect_about(read_slow_peer(COIR_UNLIMITED, 0), 15 * COIR_S);
    expect_about(read_slow_peer(90, 0), 15 * COIR_S);
    /* each tenth of a second it waits for 100 ms and is paid 50 ms: 1 s behind after 1.95 s */
    expect_about(read_slow_peer(200, -ETIMEDOUT), 1900 * COIR_MS);
}

/* ---- writing ---- */

static int read_slowly(void *arg)
{
    size_t step = *(const size_t *)arg;
    ssize_t n = 1;
    while (n > 0) {
        int rc = coir_sleep_for(100 * COIR_MS);
        if (rc < 0)
            return rc;
        n = coir_read_full(t.far, t.bytes, step, NULL);
    }
    return 0;
}

TEST_SIM(a_peer_that_takes_nothing_ends_the_write)
{
    open_both();
    CHECK_EQ(coir_stream_set_timeout(t.near, COIR_WRITE, COIR_S, 0), 0);
    coir_time start = coir_now();
    CHECK_EQ(coir_write_all(t.near, t.bytes, BIG), -ETIMEDOUT);
    expect_about(coir_now() - start, COIR_S);
    CHECK(coir_read(t.far, t.bytes, BIG) > 0);
    CHECK_EQ(coir_sleep_for(COIR_S), 0);
    CHECK(coir_write(t.near, t.bytes, 1000) > 0); /* there is room now */
    close_both();
}

static ssize_t write_to_slow_peer(size_t step, size_t rate_min, size_t len)
{
    ssize_t rc;
    open_both();
    COIR_SERVING_SCOPE(scope);
    CHECK_EQ(coir_stream_set_timeout(t.near, COIR_WRITE, 2 * COIR_S, rate_min), 0);
    CHECK_EQ(coir_go(scope, read_slowly, &step), 0);
    rc = coir_write_all(t.near, t.bytes, len);
    coir_close(t.near);
    coir_scope_cancel(scope);
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_close(t.far);
    return rc;
}

TEST_SIM(a_peer_that_takes_less_than_the_rate_ends_the_write)
{
    CHECK_EQ(write_to_slow_peer(20000, 100000, BIG), 0);
    CHECK_EQ(write_to_slow_peer(20000, 2000000, BIG), -ETIMEDOUT);
    CHECK_EQ(write_to_slow_peer(20000, 0, BIG), 0);
}

/* ---- a write queue ---- */

enum { ITEM = 16 * 1024, ITEMS = 40 };

static struct {
    int written, failed;
} outcomes;

static void on_outcome(coir_buffer *buffer, int result, void *arg)
{
    (void)buffer, (void)arg;
    CHECK(result == 0 || result == -ETIMEDOUT);
    if (result == 0)
        outcomes.written++;
    else
        outcomes.failed++;
}

static int read_one(void *arg)
{
    char byte;
    (void)arg;
    return (int)coir_read(t.near, &byte, 1);
}

/* The result of a flush, with a reader of `step` bytes each tenth of a second. */
static int queue_to_slow_peer(size_t step, size_t rate_min)
{
    coir_write_queue_options options = COIR_WRITE_QUEUE_OPTIONS;
    coir_write_queue *queue;
    coir_buffer *buffer;
    options.on_outcome = on_outcome;
    memset(&outcomes, 0, sizeof outcomes);
    open_both();
    COIR_SERVING_SCOPE(scope);
    COIR_HANDLE(reader);
    coir_go_options go = COIR_GO_OPTIONS;
    go.handle = reader;
    CHECK_EQ(coir_buffer_wrap(t.bytes, ITEM, NULL, NULL, &buffer), 0);
    CHECK_EQ(coir_write_queue_new_with(t.near, &options, &queue), 0);
    CHECK_EQ(coir_stream_set_timeout(t.near, COIR_WRITE, 2 * COIR_S, rate_min), 0);
    CHECK_EQ(coir_go(scope, read_slowly, &step), 0);
    CHECK_EQ(coir_go_with(scope, &go, read_one, NULL), 0);
    for (int i = 0; i < ITEMS; i++)
        CHECK_EQ(coir_write_queue_push(queue, buffer), 0);
    int rc = coir_write_queue_flush(queue);
    CHECK_EQ(outcomes.written + outcomes.failed, ITEMS);
    CHECK_EQ(outcomes.failed > 0, rc < 0);
    coir_write_queue_free(queue);
    coir_buffer_unref(buffer);
    if (rc == -ETIMEDOUT) /* the stream is broken */
        CHECK_EQ(coir_join(reader), -ECONNABORTED);
    coir_close(t.near);
    coir_scope_cancel(scope);
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_close(t.far);
    return rc;
}

TEST_SIM(a_peer_that_takes_less_than_the_rate_ends_the_write_queue)
{
    CHECK_EQ(queue_to_slow_peer(20000, 100000), 0);
    CHECK_EQ(queue_to_slow_peer(20000, 2000000), -ETIMEDOUT);
    CHECK_EQ(queue_to_slow_peer(20000, 0), 0);
}

/* A queue waits for as long as its peer takes nothing: so its wait in progress counts, too. */
static coir_time end_of_blocked_queue(coir_time first, coir_time then)
{
    coir_write_queue *queue;
    coir_buffer *buffer;
    open_both();
    CHECK_EQ(coir_buffer_wrap(t.bytes, BIG, NULL, NULL, &buffer), 0);
    CHECK_EQ(coir_write_queue_new(t.near, &queue), 0);
    if (first)
        CHECK_EQ(coir_stream_set_timeout(t.near, COIR_WRITE, first, 0), 0);
    CHECK_EQ(coir_write_queue_push(queue, buffer), 0);
    CHECK_EQ(coir_sleep_for(COIR_S / 2), 0); /* until there is no room */
    CHECK_EQ(coir_stream_set_timeout(t.near, COIR_WRITE, then, 0), 0);
    coir_time start = coir_now();
    {
        COIR_DEADLINE(coir_in(60 * COIR_S));
        CHECK_EQ(coir_write_queue_flush(queue), then == COIR_NEVER ? -ETIME : -ETIMEDOUT);
    }
    coir_time waited = coir_now() - start;
    coir_write_queue_free(queue);
    coir_buffer_unref(buffer);
    close_both();
    return waited;
}

TEST_SIM(a_limit_holds_for_a_write_queue_that_waits_already)
{
    expect_about(end_of_blocked_queue(0, COIR_S), COIR_S);
    expect_about(end_of_blocked_queue(10 * COIR_S, COIR_S), COIR_S);
    expect_about(end_of_blocked_queue(COIR_S, 2 * COIR_S), 2 * COIR_S);
    expect_about(end_of_blocked_queue(COIR_S, COIR_NEVER), 60 * COIR_S);
}

/* A poll of the queue may still be in flight when the queue is freed. */
TEST_SIM(a_stream_is_limited_after_its_write_queue_was_freed)
{
    coir_write_queue *queue;
    coir_buffer *buffer;
    open_both();
    CHECK_EQ(coir_stream_set_timeout(t.near, COIR_WRITE, COIR_S, 0), 0);
    CHECK_EQ(coir_buffer_wrap(t.bytes, BIG, NULL, NULL, &buffer), 0);
    CHECK_EQ(coir_write_queue_new(t.near, &queue), 0);
    CHECK_EQ(coir_write_queue_push(queue, buffer), 0);
    CHECK_EQ(coir_sleep_for(COIR_S / 2), 0);
    coir_write_queue_free(queue);
    coir_time start = coir_now();
    CHECK_EQ(coir_write_all(t.near, t.bytes, BIG), -ETIMEDOUT);
    expect_about(coir_now() - start, COIR_S / 2); /* it has been waiting for half a second */
    coir_buffer_unref(buffer);
    close_both();
}

/* ---- cancellation ---- */

TEST_SIM(a_wait_that_is_withdrawn_counts_and_loses_nothing)
{
    char byte;
    open_both();
    CHECK_EQ(coir_stream_set_timeout(t.near, COIR_READ, COIR_S, 0), 0);
    for (int i = 0; i < 3; i++) {
        coir_case cases[] = {coir_case_stream(t.near, COIR_READ), coir_case_after(300 * COIR_MS)};
        CHECK_EQ(coir_select(cases, 2), 1);
    }
    expect_about(time_of_read(-ETIMEDOUT), 95 * COIR_MS);
    {
        CHECK_EQ(coir_stream_set_timeout(t.near, COIR_READ, COIR_S, 0), 0);
        COIR_DEADLINE(coir_in(100 * COIR_MS));
        expect_about(time_of_read(-ETIME), 100 * COIR_MS);
    }
    CHECK_EQ(coir_write(t.far, "z", 1), 1);
    CHECK_EQ(coir_read(t.near, &byte, 1), 1);
    CHECK_EQ(byte, 'z');
    close_both();
}

/* The call waits on under the limit at which it began; what follows is on the new account. */
TEST_SIM(a_limit_that_is_set_during_a_wait_begins_the_account_anew)
{
    COIR_HANDLE(reader);
    COIR_SERVING_SCOPE(scope);
    coir_go_options go = COIR_GO_OPTIONS;
    go.handle = reader;
    open_both();
    CHECK_EQ(coir_stream_set_timeout(t.near, COIR_READ, COIR_S, 1), 0);
    CHECK_EQ(coir_go_with(scope, &go, read_one, NULL), 0);
    CHECK_EQ(coir_sleep_for(900 * COIR_MS), 0);
    CHECK_EQ(coir_stream_set_timeout(t.near, COIR_READ, 10 * COIR_S, 1), 0);
    CHECK_EQ(coir_join(reader), -ETIMEDOUT);
    expect_about(time_of_read(-ETIMEDOUT), 9900 * COIR_MS);
    close_both();
}

TEST_SIM(a_close_ends_the_waits)
{
    COIR_HANDLE(reader);
    COIR_SERVING_SCOPE(scope);
    coir_go_options go = COIR_GO_OPTIONS;
    go.handle = reader;
    open_both();
    CHECK_EQ(coir_stream_set_timeout(t.near, COIR_READ | COIR_WRITE, COIR_S, 0), 0);
    CHECK_EQ(coir_go_with(scope, &go, read_one, NULL), 0);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    coir_close(t.near);
    CHECK_EQ(coir_join(reader), -ECANCELED);
    coir_close(t.far);
}

TEST_SIM(a_stream_in_memory_is_limited_too)
{
    memset(&t, 0, sizeof t);
    CHECK_EQ(coir_duplex(1000, &t.far, &t.near), 0);
    CHECK_EQ(coir_stream_set_timeout(t.near, COIR_READ | COIR_WRITE, COIR_S, 10), 0);
    expect_about(time_of_read(-ETIMEDOUT), COIR_S);
    CHECK_EQ(coir_write_all(t.near, t.bytes, 1001), -ETIMEDOUT);
    close_both();
}

TEST_SIM(a_detached_stream_keeps_its_limits)
{
    open_both();
    CHECK_EQ(coir_stream_set_timeout(t.near, COIR_READ, COIR_S, 0), 0);
    CHECK_EQ(coir_stream_detach(t.near), 0);
    expect_about(time_of_read(-ETIMEDOUT), COIR_S);
    close_both();
}

TEST_SIM(limits_that_mean_nothing_are_refused)
{
    open_both();
    CHECK_EQ(coir_stream_set_timeout(t.near, 0, COIR_S, 0), -EINVAL);
    CHECK_EQ(coir_stream_set_timeout(t.near, COIR_HANGUP, COIR_S, 0), -EINVAL);
    CHECK_EQ(coir_stream_set_timeout(t.near, COIR_READ, 0, 0), -EINVAL);
    CHECK_EQ(coir_stream_set_timeout(t.near, COIR_READ, -1, 0), -EINVAL);
    CHECK_EQ(coir_stream_set_timeout(t.near, COIR_READ, COIR_S, ((size_t)1 << 30) + 1), -EINVAL);
    CHECK_EQ(coir_stream_set_timeout(t.near, COIR_READ, COIR_NEVER - 1, 1 << 30), 0);
    COIR_DEADLINE(coir_in(COIR_S));
    expect_about(time_of_read(-ETIME), COIR_S);
    close_both();
}

/* ---- on the machine ---- */

enum { PAIRS = 60, MESSAGES = 30 };

static struct {
    coir_stream *far[PAIRS], *near[PAIRS];
    bool silent[PAIRS];
    int timed_out, ended;
} many;

/* Sends messages of any length at any time; a silent one stops in the middle. Its messages are
 * short: on a busy machine it may be given up before it has begun, and then nobody makes room for
 * them. */
static int send_any(void *arg)
{
    intptr_t i = (intptr_t)arg;
    uint64_t random = (uint64_t)i * 0x9e3779b97f4a7c15 + 1;
    for (int message = 0; message < MESSAGES; message++) {
        random = random * 6364136223846793005 + 1442695040888963407;
        if (many.silent[i] && message == MESSAGES / 2)
            return 0;
        int rc = coir_write_all(many.far[i], t.bytes,
                                1 + (random >> 33) % (many.silent[i] ? 100 : 20000));
        if (rc == 0 && (random >> 60) == 0)
            rc = coir_sleep_for((coir_time)(random % 3) * COIR_MS);
        if (rc < 0)
            return rc;
    }
    return coir_shutdown_write(many.far[i]);
}

static int receive_any(void *arg)
{
    intptr_t i = (intptr_t)arg;
    char bytes[3000];
    ssize_t n;
    coir_time limit = many.silent[i] ? 30 * COIR_MS : 300 * COIR_S;
    CHECK_EQ(coir_stream_set_timeout(many.near[i], COIR_READ, limit, 1), 0);
    coir_time start = coir_now();
    while ((n = coir_read(many.near[i], bytes, sizeof bytes)) > 0)
        ;
    CHECK_EQ(n, many.silent[i] ? -ETIMEDOUT : 0);
    CHECK(!many.silent[i] || coir_now() - start >= limit);
    many.timed_out += n < 0;
    many.ended += n == 0;
    return 0;
}

/* How long the silent ones take is not looked at: the machine may be busy. */
TEST_REAL(of_many_peers_the_silent_ones_are_given_up_and_no_others)
{
    COIR_SCOPE(scope);
    for (intptr_t i = 0; i < PAIRS; i++) {
        many.silent[i] = i % 3 == 0;
        connect_pair(&many.far[i], &many.near[i]);
        CHECK_EQ(coir_go(scope, send_any, (void *)i), 0);
        CHECK_EQ(coir_go(scope, receive_any, (void *)i), 0);
    }
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(many.timed_out, PAIRS / 3);
    CHECK_EQ(many.ended, PAIRS - PAIRS / 3);
    for (int i = 0; i < PAIRS; i++) {
        coir_close(many.near[i]);
        coir_close(many.far[i]);
    }
}
