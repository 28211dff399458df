/* Streams over streams: a filter that changes each byte, keeps what the transport does not take,
 * and ends with a byte of its own. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "io/io.h"
#include "mask.h"
#include "misuse.h"

static const coir_filter_kind mask_kind =
    COIR_FILTER_KIND(mask_read, mask_write, mask_flush, mask_readable, mask_end, mask_free);

/* Two filters over a transport of `capacity` bytes. */
struct pair {
    struct mask masks[2];
    coir_stream *ends[2];
};

static void make_pair(struct pair *pair, size_t capacity)
{
    coir_stream *transports[2];
    *pair = (struct pair){0};
    CHECK_EQ(coir_duplex(capacity, &transports[0], &transports[1]), 0);
    for (int i = 0; i < 2; i++) {
        pair->masks[i] = (struct mask){.transport = transports[i], .ahead = -1};
        CHECK_EQ(coir_filter_new(&mask_kind, &pair->masks[i], transports[i], &pair->ends[i]), 0);
    }
}

static void close_pair(struct pair *pair)
{
    for (int i = 0; i < 2; i++) {
        coir_close(pair->ends[i]);
        pair->ends[i] = NULL;
    }
    CHECK_EQ(coir_sleep_for(COIR_MS), 0); /* the farewells */
    CHECK_EQ(pair->masks[0].frees, 1);
    CHECK_EQ(pair->masks[1].frees, 1);
}

static char text[5000];

static int write_text(void *arg)
{
    int rc = coir_write_all(arg, text, sizeof text);
    return rc < 0 ? rc : coir_shutdown_write(arg);
}

static void carry(size_t capacity)
{
    struct pair pair;
    static char got[sizeof text];
    make_pair(&pair, capacity);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i % 100);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, write_text, pair.ends[0]), 0);
    CHECK_EQ(coir_go(scope, write_text, pair.ends[1]), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(coir_read_full(pair.ends[i], got, sizeof got, NULL), sizeof got);
        CHECK(memcmp(text, got, sizeof got) == 0);
        CHECK_EQ(coir_read(pair.ends[i], got, 1), 0);
        memset(got, 0, sizeof got);
    }
    CHECK_EQ(coir_scope_wait(scope), 0);
    close_pair(&pair);
}

TEST_SIM(bytes_pass_both_ways_through_a_large_transport)
{
    carry(0);
}

TEST_SIM(bytes_pass_both_ways_through_a_transport_of_a_byte)
{
    carry(1);
}

TEST_SIM(vectors_pass_too)
{
    struct pair pair;
    char a[3] = "abc", b[4] = "defg", c[2], d[5];
    make_pair(&pair, 0);
    struct iovec out[] = {{a, 3}, {a, 0}, {b, 4}}, in[] = {{c, 2}, {d, 5}};
    CHECK_EQ(coir_writev_all(pair.ends[0], out, 3), 0);
    CHECK_EQ(coir_readv(pair.ends[1], in, 2), 7);
    CHECK(memcmp(c, "ab", 2) == 0 && memcmp(d, "cdefg", 5) == 0);
    close_pair(&pair);
}

TEST_SIM(a_cancelled_read_takes_nothing_and_a_cancelled_write_has_written_nothing)
{
    struct pair pair;
    char got[64];
    size_t written = 0, seen = 0;
    make_pair(&pair, 8);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_read(pair.ends[1], got, sizeof got), -ETIME);
    }
    for (ssize_t n = 1; n > 0;) { /* until nothing is taken any more */
        COIR_DEADLINE(coir_in(COIR_MS));
        n = coir_write(pair.ends[0], "abcdef", 6);
        if (n > 0)
            written += (size_t)n;
        else
            CHECK_EQ(n, -ETIME);
    }
    CHECK_EQ(written, 12); /* the transport has 8; more is taken when the rest is sent */
    CHECK_EQ(coir_shutdown_write(pair.ends[0]), 0);
    for (ssize_t n; (n = coir_read(pair.ends[1], got, sizeof got)) > 0;)
        seen += (size_t)n;
    CHECK_EQ(seen, written);
    close_pair(&pair);
}

TEST_SIM(select_waits_on_a_filter)
{
    struct pair pair;
    char got[4];
    make_pair(&pair, 0);
    coir_case cases[] = {coir_case_stream(pair.ends[1], COIR_READ), coir_case_after(COIR_MS)};
    CHECK_EQ(coir_select(cases, 2), 1);
    CHECK_EQ(coir_try_read(pair.ends[1], got, 4), -EAGAIN);
    CHECK_EQ(coir_write_all(pair.ends[0], "news", 4), 0);
    coir_case again[] = {coir_case_stream(pair.ends[1], COIR_READ), coir_case_after(COIR_S)};
    CHECK_EQ(coir_select(again, 2), 0);
    CHECK_EQ(coir_try_read(pair.ends[1], got, 4), 4);
    CHECK(memcmp(got, "news", 4) == 0);
    close_pair(&pair);
}

TEST_SIM(what_is_written_before_a_close_is_sent)
{
    struct pair pair;
    char got[64];
    make_pair(&pair, 1);
    CHECK_EQ(coir_write(pair.ends[0], "0123456789", 10), 10);
    coir_close(pair.ends[0]);
    pair.ends[0] = NULL;
    CHECK_EQ(pair.masks[0].frees, 0);
    CHECK_EQ(coir_read_full(pair.ends[1], got, 10, NULL), 10);
    CHECK_EQ(coir_read(pair.ends[1], got, 1), 0);
    close_pair(&pair);
}

/* The peer does not read: the farewell ends when its time is over. */
TEST_SIM(a_farewell_is_bounded)
{
    struct pair pair;
    make_pair(&pair, 1);
    CHECK_EQ(coir_write(pair.ends[0], "0123456789", 10), 10);
    coir_close(pair.ends[0]);
    CHECK_EQ(coir_sleep_for(4 * COIR_S), 0);
    CHECK_EQ(pair.masks[0].frees, 0);
    CHECK_EQ(coir_sleep_for(2 * COIR_S), 0);
    CHECK_EQ(pair.masks[0].frees, 1);
    pair.ends[0] = NULL;
    close_pair(&pair);
}

static int read_and_keep(void *arg)
{
    char byte;
    return (int)coir_read(arg, &byte, 1) == -ECANCELED ? 0 : -EINVAL;
}

TEST_SIM(a_close_cancels_whoever_waits)
{
    struct pair pair;
    make_pair(&pair, 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, read_and_keep, pair.ends[0]), 0);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    coir_close(pair.ends[0]);
    pair.ends[0] = NULL;
    CHECK_EQ(coir_scope_wait(scope), 0);
    close_pair(&pair);
}

static int wait_for_hang_up(void *arg)
{
    return coir_stream_wait(arg, 0) == -ECANCELED ? 0 : -EINVAL;
}

/* The wait for a hang-up, too, although the farewell takes its time; also of a stream with a
 * limit. */
TEST_SIM(a_close_cancels_whoever_waits_for_a_hang_up)
{
    for (int limited = 0; limited < 2; limited++) {
        struct pair pair;
        make_pair(&pair, 1);
        COIR_SCOPE(scope);
        if (limited)
            CHECK_EQ(coir_stream_set_timeout(pair.ends[0], COIR_READ, COIR_S, 0), 0);
        CHECK_EQ(coir_write(pair.ends[0], "0123456789", 10), 10);
        CHECK_EQ(coir_go(scope, wait_for_hang_up, pair.ends[0]), 0);
        CHECK_EQ(coir_go(scope, wait_for_hang_up, pair.ends[0]), 0);
        CHECK_EQ(coir_sleep_for(COIR_MS), 0);
        coir_close(pair.ends[0]);
        pair.ends[0] = NULL;
        {
            COIR_DEADLINE(coir_in(COIR_MS));
            CHECK_EQ(coir_scope_wait(scope), 0);
        }
        CHECK_EQ(pair.masks[0].frees, 0);
        CHECK_EQ(coir_sleep_for(6 * COIR_S), 0);
        close_pair(&pair);
    }
}

/* ---- a transport that withdraws no poll: they complete when it is closed ---- */

static struct ci_op *polls[2];

static bool stubborn_start(coir_stream *stream, struct ci_op *op)
{
    (void)stream;
    op->pending = op->kind == CI_OP_POLL;
    if (op->pending)
        polls[polls[0] != NULL] = op;
    else
        op->result = op->kind == CI_OP_WRITE ? (int32_t)op->len : -EAGAIN;
    return !op->pending;
}

static bool stubborn_cancel(coir_stream *stream, struct ci_op *op)
{
    (void)stream, (void)op;
    return false;
}

static void stubborn_close(coir_stream *stream)
{
    (void)stream;
    for (int i = 0; i < 2 && polls[i]; i++) {
        polls[i]->pending = false;
        polls[i]->result = -ECANCELED;
        polls[i]->done(polls[i]);
    }
}

static const struct ci_stream_kind stubborn_kind = {
    .name = "stubborn",
    .start = stubborn_start,
    .cancel = stubborn_cancel,
    .close = stubborn_close,
};

TEST_SIM(a_poll_that_completes_when_the_filter_is_closed_is_ignored)
{
    coir_stream transport = {.kind = &stubborn_kind, .worker = ci_worker_current}, *stream;
    struct mask mask = {.transport = &transport, .ahead = -1};
    CHECK_EQ(coir_filter_new(&mask_kind, &mask, &transport, &stream), 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, read_and_keep, stream), 0);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    CHECK(polls[0] && !polls[1]);
    coir_close(stream);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(mask.frees, 1);
}

TEST_SIM(errors_of_the_filter_are_the_streams)
{
    struct pair pair;
    char byte;
    make_pair(&pair, 0);
    CHECK_EQ(coir_shutdown_write(pair.masks[0].transport), 0);
    CHECK_EQ(coir_read(pair.ends[1], &byte, 1), -ECONNRESET);
    pair.masks[1].error = -EPROTO;
    CHECK_EQ(coir_read(pair.ends[1], &byte, 1), -EPROTO);
    CHECK_EQ(coir_stream_wait(pair.ends[1], COIR_READ), COIR_READ);
    close_pair(&pair);
}

static int let_it_flush(void *arg)
{
    ((struct mask *)arg)->error = 0;
    return 0;
}

/* Such as one that compresses on another thread. */
TEST_SIM(a_flush_that_waits_for_more_than_its_transport_lets_other_tasks_run)
{
    struct pair pair;
    char byte;
    make_pair(&pair, 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, let_it_flush, &pair.masks[0]), 0);
    pair.masks[0].error = -EAGAIN;
    CHECK_EQ(coir_shutdown_write(pair.ends[0]), 0);
    CHECK_EQ(coir_read(pair.ends[1], &byte, 1), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    close_pair(&pair);
}

TEST_SIM(when_what_is_kept_cannot_be_sent_every_write_fails)
{
    struct mask mask = {.ahead = -1};
    coir_stream *peer, *stream;
    CHECK_EQ(coir_duplex(1, &mask.transport, &peer), 0);
    CHECK_EQ(coir_filter_new(&mask_kind, &mask, mask.transport, &stream), 0);
    CHECK_EQ(coir_write(stream, "0123456789abcdef", 16), MASK_ROOM - 1);
    coir_close(peer); /* what the filter keeps is never sent */
    CHECK_EQ(coir_write(stream, "z", 1), -EPIPE);
    CHECK_EQ(coir_stream_wait(stream, COIR_WRITE), COIR_WRITE);
    CHECK_EQ(coir_write_all(stream, text, sizeof text), -EPIPE);
    CHECK_EQ(coir_shutdown_write(stream), -EPIPE);
    coir_close(stream);
    CHECK_EQ(mask.frees, 1);
}

static int write_one(void *arg)
{
    return (int)coir_write(arg, "z", 1);
}

static int wait_until_writable(void *arg)
{
    return coir_stream_wait(arg, COIR_WRITE);
}

/* The transport takes nothing, now or later. */
static void fail_while(coir_task_fn *waits, int result)
{
    struct mask mask = {.ahead = -1};
    coir_stream *peer, *stream;
    char byte;
    COIR_HANDLE(handle);
    COIR_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    CHECK_EQ(coir_duplex(1, &mask.transport, &peer), 0);
    CHECK_EQ(coir_filter_new(&mask_kind, &mask, mask.transport, &stream), 0);
    CHECK_EQ(coir_write(stream, "0123456789abcdef", 16), MASK_ROOM - 1);
    CHECK_EQ(coir_go_with(scope, &options, waits, stream), 0);
    CHECK_EQ(coir_yield(), 0);
    CHECK(!coir_handle_has_ended(handle));
    mask.error = -EPROTO;
    CHECK_EQ(coir_try_read(stream, &byte, 1), -EPROTO); /* what is kept is tried, too */
    CHECK_EQ(coir_join(handle), result);
    coir_close(stream);
    coir_close(peer);
    CHECK_EQ(mask.frees, 1);
}

TEST_SIM(when_what_is_kept_cannot_be_sent_the_writes_that_wait_end)
{
    fail_while(write_one, -EPROTO);
    fail_while(wait_until_writable, COIR_WRITE);
}

TEST_SIM(a_write_that_finds_that_what_is_kept_cannot_be_sent_ends)
{
    struct pair pair;
    make_pair(&pair, 1);
    CHECK_EQ(coir_write(pair.ends[0], "0123456789abcdef", 16), MASK_ROOM - 1);
    pair.masks[0].error = -EPROTO;
    CHECK_EQ(coir_write(pair.ends[0], "z", 1), -EPROTO);
    close_pair(&pair);
}

TEST_SIM(a_filter_may_stand_on_a_filter)
{
    struct pair pair;
    struct mask above[2];
    coir_stream *ends[2];
    char got[5];
    make_pair(&pair, 3);
    for (int i = 0; i < 2; i++) {
        above[i] = (struct mask){.transport = pair.ends[i], .ahead = -1};
        CHECK_EQ(coir_filter_new(&mask_kind, &above[i], pair.ends[i], &ends[i]), 0);
        pair.ends[i] = ends[i];
    }
    CHECK_EQ(coir_write_all(ends[0], "hello", 5), 0);
    CHECK_EQ(coir_read_full(ends[1], got, 5, NULL), 5);
    CHECK(memcmp(got, "hello", 5) == 0);
    close_pair(&pair);
    CHECK_EQ(above[0].frees + above[1].frees, 2);
}

TEST_SIM(a_stream_tells_its_filter)
{
    struct pair pair;
    coir_filter_kind other = mask_kind;
    coir_stream *plain, *peer;
    other.free = NULL;
    make_pair(&pair, 0);
    CHECK(coir_filter_arg(pair.ends[0], &mask_kind) == &pair.masks[0]);
    CHECK(coir_filter_arg(pair.ends[0], &other) == NULL);
    CHECK_EQ(coir_duplex(0, &plain, &peer), 0);
    CHECK(coir_filter_arg(plain, &mask_kind) == NULL);
    CHECK_EQ(coir_tcp_set_option(pair.ends[0], COIR_TCP_NODELAY, 1), -EOPNOTSUPP);
    coir_close(plain);
    coir_close(peer);
    ci_stream_break(pair.ends[1], -ECONNABORTED);
    CHECK(coir_filter_arg(pair.ends[1], &mask_kind) == &pair.masks[1]);
    close_pair(&pair);
}

static int accept_one(void *arg)
{
    coir_stream **streams = arg;
    return coir_accept((coir_listener *)(void *)streams[0], &streams[1]);
}

TEST_REAL(options_and_addresses_are_those_of_the_socket_below)
{
    coir_listener *listener;
    coir_stream *client, *over, *accepted[2];
    char where[64], peer[64];
    struct mask mask = {.ahead = -1};
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    CHECK(coir_listener_local(listener, where, sizeof where) > 0);
    accepted[0] = (coir_stream *)(void *)listener;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, accept_one, accepted), 0);
    CHECK_EQ(coir_tcp_connect(where, &client), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    mask.transport = client;
    CHECK_EQ(coir_filter_new(&mask_kind, &mask, client, &over), 0);
    CHECK_EQ(coir_tcp_set_option(over, COIR_TCP_NODELAY, 1), 0);
    CHECK(coir_stream_peer(over, peer, sizeof peer) > 0);
    CHECK(strcmp(where, peer) == 0);
    CHECK_EQ(coir_stream_detach(over), 0);
    CHECK_EQ(coir_write_all(over, "x", 1), 0); /* adopts it again */
    CHECK_EQ(coir_read(accepted[1], peer, 1), 1);
    CHECK_EQ(peer[0], 'x' ^ MASK);
    CHECK_EQ(coir_stream_detach(over), 0);
    CHECK_EQ(coir_shutdown_write(over), 0); /* adopts it, too */
    CHECK_EQ(coir_read(accepted[1], peer, 1), 1);
    CHECK_EQ((unsigned char)peer[0], MASK_END);
    CHECK_EQ(coir_write_all(accepted[1], "y", 1), 0);
    CHECK_EQ(coir_read(over, peer, 1), 1);
    ci_stream_break(over, -ECONNABORTED);
    CHECK_EQ(coir_tcp_set_option(over, COIR_TCP_NODELAY, 0), 0);
    CHECK_EQ(coir_tcp_get_option(over, COIR_TCP_NODELAY), 0);
    coir_close(over);
    coir_close(accepted[1]);
    coir_listener_close(listener);
}

/* Without a runtime: a debug build names the call, and the streams are not looked at. */
TEST(misuse_is_named)
{
    coir_filter_kind without = mask_kind;
    struct mask mask = {.ahead = -1};
    char storage[1];
    coir_stream *a = (coir_stream *)(void *)storage, *over;
    without.flush = NULL;
    REFUSED(coir_filter_new, (&without, &mask, a, &over));
    REFUSED(coir_filter_new, (&mask_kind, &mask, NULL, &over));
    REFUSED(coir_filter_new, (&mask_kind, &mask, a, NULL));
    REFUSED(coir_filter_new, (NULL, &mask, a, &over));
    CHECK_EQ(coir_filter_new(&mask_kind, &mask, a, &over), -ESRCH);
}

TEST_SIM(what_cannot_be_a_filter_is_refused)
{
    coir_filter_kind unsized = mask_kind;
    struct mask mask = {.ahead = -1};
    coir_stream *a, *b, *over;
    unsized.size = 3;
    CHECK_EQ(coir_duplex(0, &a, &b), 0);
    CHECK_EQ(coir_filter_new(&unsized, &mask, a, &over), -COIR_EUNSIZED);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, read_and_keep, a), 0);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    CHECK_EQ(coir_filter_new(&mask_kind, &mask, a, &over), -EBUSY);
    coir_close(a);
    coir_close(b);
}

static int stand_twice(void *arg)
{
    struct mask mask = {.ahead = -1}, second = {.ahead = -1};
    coir_stream *a, *b, *over, *other;
    (void)arg;
    CHECK_EQ(coir_duplex(0, &a, &b), 0);
    mask.transport = second.transport = a;
    CHECK_EQ(coir_filter_new(&mask_kind, &mask, a, &over), 0);
    CHECK_EQ(coir_filter_new(&mask_kind, &second, a, &other), -EBUSY);
    coir_close(over);
    coir_close(b);
    return 0;
}

TEST(one_filter_stands_on_a_transport)
{
    ci_misuse_aborts = false;
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    CHECK_EQ(test_run(&config, stand_twice, NULL), 0);
}

TEST_SIM(timeouts_of_the_transport_hold_for_the_stream_over_it)
{
    struct mask mask = {.ahead = -1};
    coir_stream *transport, *peer, *stream;
    char byte;
    CHECK_EQ(coir_duplex(0, &transport, &peer), 0);
    mask.transport = transport;
    CHECK_EQ(coir_stream_set_timeout(transport, COIR_READ, COIR_S, 0), 0);
    CHECK_EQ(coir_filter_new(&mask_kind, &mask, transport, &stream), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(coir_write(peer, "xy", 2), 2);
        for (int read = 0; read < 2; read++)
            CHECK_EQ(coir_read(stream, &byte, 1), 1);
        coir_time start = coir_now();
        CHECK_EQ(coir_read(stream, &byte, 1), -ETIMEDOUT);
        CHECK(coir_now() - start >= COIR_S && coir_now() - start < 2 * COIR_S);
    }
    CHECK(coir_filter_arg(stream, &mask_kind) == &mask);
    coir_close(stream);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    CHECK_EQ(mask.frees, 1);
    coir_close(peer);
}

static int until_failure; /* the number of the allocation that fails; 0: none */

static void *take_memory(size_t size, void *arg)
{
    (void)arg;
    if (until_failure && --until_failure == 0)
        return NULL;
    return aligned_alloc(64, (size + 63) / 64 * 64);
}

static void give_memory(void *memory, size_t size, void *arg)
{
    (void)size, (void)arg;
    free(memory);
}

static int fail_each_allocation(void *arg)
{
    coir_stream *stream;
    char byte;
    int rc = -ENOMEM, failures = 0;
    (void)arg;
    while (rc == -ENOMEM) {
        coir_stream *transport, *peer;
        CHECK_EQ(coir_duplex(0, &transport, &peer), 0);
        CHECK_EQ(coir_stream_set_timeout(transport, COIR_READ, COIR_S, 0), 0);
        struct mask mask = {.transport = transport, .ahead = -1};
        until_failure = ++failures;
        rc = coir_filter_new(&mask_kind, &mask, transport, &stream);
        until_failure = 0;
        CHECK(rc == 0 || rc == -ENOMEM);
        coir_close(rc == 0 ? stream : transport);
        if (rc < 0)
            CHECK_EQ(coir_try_read(peer, &byte, 1), 0);
        coir_close(peer);
    }
    CHECK(failures > 2); /* of the filter, and of its timeouts */
    return 0;
}

TEST(a_transport_is_the_callers_until_the_filter_is_made)
{
    const coir_allocator failing = COIR_ALLOCATOR(take_memory, give_memory, NULL);
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.allocator = &failing;
    CHECK_EQ(test_run(&config, fail_each_allocation, NULL), 0);
}

static coir_stream *moving;

static int read_there(void *arg)
{
    char byte;
    (void)arg;
    CHECK_EQ(coir_read(moving, &byte, 1), 1);
    CHECK_EQ(coir_stream_detach(moving), 0);
    return 0;
}

/* A read that was cancelled leaves a poll of the transport armed, which a driver may not be able to
 * withdraw at once: it is -EBUSY until then. */
static void move_a_filter(void)
{
    coir_listener *listener;
    coir_stream *near, *far;
    struct mask mask = {.ahead = -1};
    char address[64], byte;
    int rc;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    CHECK(coir_listener_local(listener, address, sizeof address) > 0);
    CHECK_EQ(coir_tcp_connect(address, &near), 0);
    CHECK_EQ(coir_accept(listener, &far), 0);
    mask.transport = near;
    CHECK_EQ(coir_filter_new(&mask_kind, &mask, near, &moving), 0);
    for (int i = 0; i < 3; i++) {
        {
            COIR_DEADLINE(coir_in(1 * COIR_MS));
            CHECK_EQ(coir_read(moving, &byte, 1), -ETIME);
        }
        while ((rc = coir_stream_detach(moving)) == -EBUSY)
            CHECK_EQ(coir_yield(), 0);
        CHECK_EQ(rc, 0);
        CHECK_EQ(coir_write(far, "x", 1), 1);
        CHECK_EQ(coir_call_on(1, read_there, NULL), 0);
    }
    coir_close(moving);
    coir_close(far);
    coir_listener_close(listener);
}

TEST(a_filter_moves_when_its_polls_have_ended)
{
    test_in_runtime(move_a_filter, 2);
}

/* ---- a queue whose outcome closes the stream, inside of the filter's own loop ---- */

enum { BUFFERS = 8 };

static struct {
    coir_stream *stream;
    int close_at, written, cancelled; /* close_at: after so many buffers were written */
} outcome;

static void close_with_outcome(coir_buffer *buffer, int result, void *arg)
{
    (void)buffer;
    (void)arg;
    outcome.written += result == 0;
    outcome.cancelled += result == -ECANCELED;
    if (outcome.written < outcome.close_at)
        return;
    coir_stream *stream = outcome.stream;
    outcome.stream = NULL;
    coir_close(stream);
}

static ssize_t reader_result;

static int read_a_byte(void *arg)
{
    char byte;
    reader_result = coir_read(arg, &byte, 1);
    return 0;
}

static void close_at(int count)
{
    struct pair pair;
    coir_write_queue *queue;
    coir_buffer *buffer;
    char got[8];
    make_pair(&pair, 8);
    outcome.stream = pair.ends[0];
    outcome.close_at = count;
    coir_write_queue_options options = COIR_WRITE_QUEUE_OPTIONS;
    options.on_outcome = close_with_outcome;
    CHECK_EQ(coir_write_queue_new_with(pair.ends[0], &options, &queue), 0);
    COIR_SERVING_SCOPE(scope);
    CHECK_EQ(coir_go(scope, read_a_byte, pair.ends[0]), 0);
    CHECK_EQ(coir_buffer_new("abcdef", 6, &buffer), 0);
    for (int i = 0; i < BUFFERS; i++)
        CHECK_EQ(coir_write_queue_try_push(queue, buffer), 0);
    coir_buffer_unref(buffer);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0); /* until there is no room */
    CHECK(outcome.stream);
    while (outcome.stream)
        CHECK(coir_read(pair.ends[1], got, sizeof got) > 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(reader_result, -ECANCELED);
    CHECK(outcome.written >= count);
    CHECK_EQ(outcome.written + outcome.cancelled, BUFFERS);
    coir_write_queue_free(queue);
    pair.ends[0] = NULL;
    close_pair(&pair);
}

TEST_SIM(an_outcome_that_closes_the_stream_ends_what_waits_beside_it)
{
    close_at(4);
    outcome.written = outcome.cancelled = 0;
    close_at(BUFFERS);
}

/* A filter that takes everything once it is open, and nothing before; it waits for input. */
static bool gate_open;

static ssize_t gate_read(void *buf, size_t len, int *events, void *arg)
{
    (void)buf, (void)len, (void)events, (void)arg;
    return 0;
}

static ssize_t gate_write(const void *buf, size_t len, int *events, void *arg)
{
    (void)buf, (void)arg;
    *events = COIR_READ;
    return gate_open ? (ssize_t)len : -EAGAIN;
}

static bool gate_readable(int *events, void *arg)
{
    (void)events, (void)arg;
    return true;
}

static bool gate_writable(int *events, void *arg)
{
    (void)arg;
    *events = COIR_READ;
    return gate_open;
}

static int gate_nothing(void *arg)
{
    (void)arg;
    return 0;
}

static void gate_free(void *arg)
{
    (void)arg;
}

/* Nothing is kept, and the peer says nothing more: the filter is freed at once. */
TEST_SIM(the_last_outcome_may_close_the_stream)
{
    coir_filter_kind kind = COIR_FILTER_KIND(gate_read, gate_write, gate_nothing, gate_readable,
                                             gate_nothing, gate_free);
    coir_stream *transports[2];
    coir_write_queue *queue;
    coir_buffer *buffer;
    char byte;
    kind.writable = gate_writable;
    CHECK_EQ(coir_duplex(0, &transports[0], &transports[1]), 0);
    CHECK_EQ(coir_filter_new(&kind, NULL, transports[0], &outcome.stream), 0);
    CHECK_EQ(coir_read(outcome.stream, &byte, 1), 0);
    coir_write_queue_options options = COIR_WRITE_QUEUE_OPTIONS;
    options.on_outcome = close_with_outcome;
    CHECK_EQ(coir_write_queue_new_with(outcome.stream, &options, &queue), 0);
    CHECK_EQ(coir_buffer_new("a", 1, &buffer), 0);
    CHECK_EQ(coir_write_queue_try_push(queue, buffer), 0);
    coir_buffer_unref(buffer);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0); /* until it waits */
    outcome.close_at = 1;
    gate_open = true;
    CHECK_EQ(coir_write_all(transports[1], "x", 1), 0);
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    CHECK_EQ(outcome.written, 1);
    CHECK(!outcome.stream);
    coir_write_queue_free(queue);
    coir_close(transports[1]);
}
