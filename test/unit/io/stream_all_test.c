/* Reading and writing all of a buffer, and counts of every size, on every kind of stream. */
#include <coir.h>
#include <errno.h>
#include <string.h>

#include "harness.h"

TEST_SIM(full_and_vector_forms_do_what_they_say)
{
    coir_stream *a, *b;
    char x[4] = "", y[4] = "";
    size_t done = 9;
    coir_io_op op;
    coir_duplex(0, &a, &b);
    struct iovec out[3] = {{"ab", 2}, {"", 0}, {"cdef", 4}}, in[2] = {{x, 3}, {y, 3}};
    CHECK_EQ(coir_writev_all(a, out, 3), 0);
    CHECK_EQ(coir_readv(b, in, 2), 6);
    CHECK(strcmp(x, "abc") == 0 && strcmp(y, "def") == 0);
    struct iovec again[2] = {{"gh", 2}, {"i", 1}};
    CHECK_EQ(coir_await(coir_writev_op(&op, a, again, 2)), 3);
    CHECK_EQ(coir_await(coir_readv_op(&op, b, in, 2)), 3);
    CHECK(memcmp(x, "ghi", 3) == 0);
    coir_write_all(a, "xyz", 3);
    CHECK_EQ(coir_read_full(b, x, 2, &done), 2);
    CHECK_EQ(done, 2);
    coir_shutdown_write(a);
    CHECK_EQ(coir_read_full(b, x, 4, &done), -COIR_EEND);
    CHECK_EQ(done, 1);
    CHECK_EQ(coir_try_read(b, x, 4), 0);
    CHECK_EQ(coir_try_read(a, x, 4), -EAGAIN);
    CHECK_EQ(coir_stream_peer(a, x, 4), -EOPNOTSUPP);
    coir_close(a);
    coir_close(b);
}

TEST_SIM(a_call_that_is_interrupted_before_it_begins_has_done_nothing)
{
    coir_stream *a, *b;
    char byte;
    size_t done[4] = {9, 9, 9, 9};
    coir_io_all_op op;
    coir_copy_op copy;
    CHECK_EQ(coir_duplex(0, &a, &b), 0);
    {
        COIR_DEADLINE(coir_now());
        CHECK_EQ(coir_read_full(a, &byte, 1, &done[0]), -ETIME);
        CHECK_EQ(coir_await(coir_read_full_op(&op, a, &byte, 1, &done[1])), -ETIME);
        CHECK_EQ(coir_stream_copy(b, a, 1, &done[2]), -ETIME);
        CHECK_EQ(coir_await(coir_stream_copy_op(&copy, b, a, 1, &done[3])), -ETIME);
        for (int error = 1; error < 200; error++) /* the result of a read that nobody looked at */
            CHECK_EQ(coir_write_all(a, &byte, (size_t)-error), -ETIME);
    }
    for (int i = 0; i < 4; i++)
        CHECK_EQ(done[i], 0);
    coir_close(a);
    coir_close(b);
}

static int send_pieces(void *arg)
{
    enum { PIECES = 3000 };
    static char bytes[PIECES];
    static struct iovec pieces[PIECES];
    for (int i = 0; i < PIECES; i++) {
        bytes[i] = (char)i;
        pieces[i] = (struct iovec){&bytes[i], i % 3 ? 1 : 0};
    }
    CHECK_EQ(coir_writev_all(arg, pieces, PIECES), 0);
    for (int i = 0; i < PIECES; i++)
        pieces[i] = (struct iovec){&bytes[i], i % 3 ? 1 : 0};
    coir_io_all_op op;
    CHECK_EQ(coir_await(coir_writev_all_op(&op, arg, pieces, PIECES)), 0);
    return 0;
}

static void ask_for_all_kinds_of_counts(coir_stream *a, coir_stream *b)
{
    struct iovec none = {NULL, 0};
    coir_io_op op;
    coir_io_all_op all;
    char byte;
    CHECK_EQ(coir_read(a, &byte, 0), 0);
    CHECK_EQ(coir_try_read(a, &byte, 0), 0);
    CHECK_EQ(coir_read_full(a, &byte, 0, NULL), 0);
    CHECK_EQ(coir_write(a, &byte, 0), 0);
    CHECK_EQ(coir_readv(a, &none, 1), 0);
    CHECK_EQ(coir_writev(a, NULL, 0), 0);
    CHECK_EQ(coir_readv(a, &none, -1), -EINVAL);
    CHECK_EQ(coir_writev(a, &none, -1), -EINVAL);
    CHECK_EQ(coir_writev_all(a, &none, -1), -EINVAL);
    CHECK_EQ(coir_await(coir_readv_op(&op, a, &none, -1)), -EINVAL);
    CHECK_EQ(coir_await(coir_writev_all_op(&all, a, &none, -1)), -EINVAL);
    CHECK_EQ(coir_await(coir_writev_all_op(&all, a, &none, 1)), 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, send_pieces, a), 0);
    for (int i = 0; i < 4000; i++) {
        CHECK_EQ(coir_read(b, &byte, 1), 1);
        CHECK_EQ(byte, (char)(i % 2000 / 2 * 3 + i % 2 + 1));
    }
    CHECK_EQ(coir_scope_wait(scope), 0);
}

/* A frame that goes on after its interruption: also for nothing, what it awaits is refused. */
struct asks_for_nothing {
    coir_future future;
    coir_event never;
    coir_stream *stream;
    coir_wait_op wait;
    coir_io_all_op all;
    coir_future *inner;
    struct iovec none;
    size_t done;
    int results[4];
};

static coir_future *ask_for_nothing(coir_future *future)
{
    struct asks_for_nothing *self = (struct asks_for_nothing *)future;
    COIR_BEGIN(future);
    COIR_AWAIT(future, self->inner = coir_event_wait_op(&self->wait, &self->never));
    self->results[0] = (int)self->inner->result;
    COIR_AWAIT(future,
               self->inner = coir_read_full_op(&self->all, self->stream, NULL, 0, &self->done));
    self->results[1] = (int)self->inner->result;
    COIR_AWAIT(future, self->inner = coir_write_all_op(&self->all, self->stream, NULL, 0));
    self->results[2] = (int)self->inner->result;
    COIR_AWAIT(future, self->inner = coir_writev_all_op(&self->all, self->stream, &self->none, 0));
    self->results[3] = (int)self->inner->result;
    COIR_END(future);
}

TEST_SIM(a_frame_that_was_cancelled_is_refused_nothing_too)
{
    static const coir_future_kind kind = COIR_FUTURE_KIND("nothing", ask_for_nothing, NULL);
    for (int cancelled = 0; cancelled < 2; cancelled++) {
        struct asks_for_nothing frame = {.never = COIR_EVENT_INIT, .done = 9};
        coir_stream *peer;
        coir_future_init(&frame.future, &kind);
        CHECK_EQ(coir_duplex(100, &frame.stream, &peer), 0);
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go_future(scope, &frame.future), 0);
        coir_yield();
        if (cancelled)
            coir_scope_cancel(scope);
        else
            coir_event_set(&frame.never);
        CHECK_EQ(coir_scope_wait(scope), 0);
        for (int i = 0; i < 4; i++)
            CHECK_EQ(frame.results[i], cancelled ? -ECANCELED : 0);
        CHECK_EQ(frame.done, 0);
        coir_close(frame.stream);
        coir_close(peer);
    }
}

static void ask_on_both_kinds(void)
{
    coir_stream *a, *b;
    coir_listener *listener;
    char where[64];
    CHECK_EQ(coir_duplex(100, &a, &b), 0);
    ask_for_all_kinds_of_counts(a, b);
    coir_close(a);
    coir_close(b);
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    coir_listener_local(listener, where, sizeof where);
    CHECK_EQ(coir_tcp_connect(where, &a), 0);
    CHECK_EQ(coir_accept(listener, &b), 0);
    ask_for_all_kinds_of_counts(a, b);
    coir_close(a);
    coir_close(b);
    coir_listener_close(listener);
}

TEST_REAL(counts_mean_the_same_on_every_stream)
{
    ask_on_both_kinds();
}

TEST_SIM(counts_mean_the_same_on_every_simulated_stream)
{
    ask_on_both_kinds();
}

/* ---- peeking ---- */

static coir_stream *far, *near;

static int send_late(void *arg)
{
    coir_sleep_for(COIR_MS);
    return coir_write_all(far, arg, strlen(arg));
}

/* A peek sees some of the first bytes: not always all of those that are there. */
static void peek_sees(const char *text)
{
    char seen[16] = "";
    ssize_t n = coir_peek(near, seen, strlen(text));
    CHECK(n >= 1 && n <= (ssize_t)strlen(text));
    CHECK(memcmp(seen, text, (size_t)n) == 0);
}

/* Peeks that see the same again and again, with what was read ahead and without. */
static void peek_and_read(void)
{
    char seen[16] = "";
    coir_io_all_op op;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, send_late, "hello"), 0);
    peek_sees("he"); /* waits */
    CHECK_EQ(coir_scope_wait(scope), 0);
    for (int i = 0; i < 3; i++)
        peek_sees("hello");
    CHECK_EQ(coir_await(coir_peek_op(&op, near, seen, 1)), 1);
    CHECK_EQ(coir_read_full(near, seen, 3, NULL), 3);
    CHECK(memcmp(seen, "hel", 3) == 0);
    peek_sees("lo");
    CHECK_EQ(coir_read_full(near, seen, 2, NULL), 2);
    CHECK(memcmp(seen, "lo", 2) == 0);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_peek(near, seen, 1), -ETIME);
    }
    CHECK_EQ(coir_write_all(far, "x", 1), 0);
    CHECK_EQ(coir_read(near, seen, sizeof seen), 1); /* a peek leaves a read as it was */
    coir_close(far);
    CHECK_EQ(coir_peek(near, seen, 1), 0);
    CHECK_EQ(coir_peek(near, seen, 1), 0);
    CHECK_EQ(coir_read(near, seen, 1), 0);
    coir_close(near);
}

static void peek_at_a_socket(void)
{
    char where[64];
    coir_listener *listener;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    coir_listener_local(listener, where, sizeof where);
    CHECK_EQ(coir_tcp_connect(where, &far), 0);
    CHECK_EQ(coir_accept(listener, &near), 0);
    coir_listener_close(listener);
    peek_and_read();
}

TEST_REAL(a_peek_leaves_what_it_reads)
{
    peek_at_a_socket();
}

TEST_SIM(a_peek_leaves_what_it_reads_in_the_simulated_world)
{
    peek_at_a_socket();
    CHECK_EQ(coir_duplex(0, &far, &near), 0);
    peek_and_read();
}
