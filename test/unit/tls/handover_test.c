/* A TLS stream that goes from one worker to another: what lies in it goes along. */
#include "fill.h"
#include "pair.h"
#include "tls/tls.h"

static coir_stream *moving;

static int let_go(void)
{
    int rc;
    while ((rc = coir_stream_detach(moving)) == -EBUSY) /* a poll is being withdrawn */
        CHECK_EQ(coir_yield(), 0);
    return rc;
}

static int answer_there(void *arg)
{
    char got[4];
    (void)arg;
    CHECK_EQ(coir_worker_index(), 1);
    CHECK_EQ(coir_read(moving, got, sizeof got), 3); /* was read ahead with the record before */
    CHECK(memcmp(got, "two", 3) == 0);
    CHECK_EQ(coir_write_all(moving, "and", 3), 0); /* and with it the ticket */
    CHECK_EQ(coir_read(moving, got, sizeof got), 4);
    CHECK(memcmp(got, "more", 4) == 0);
    return let_go();
}

/* What was written on the other worker, and had no room, is sent by this one. */
static int end_there(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_shutdown_write(moving), 0);
    CHECK_EQ(coir_stream_wait(moving, COIR_WRITE), COIR_WRITE);
    return let_go();
}

static int call_end_there(void *arg)
{
    return coir_call_on(1, end_there, arg);
}

static void move_the_server(void)
{
    struct pair pair = tcp_pair();
    char got[4];
    moving = pair.tls_b;
    CHECK_EQ(coir_write_all(pair.tls_a, "one", 3), 0);
    CHECK_EQ(coir_write_all(pair.tls_a, "two", 3), 0);
    CHECK_EQ(coir_read(moving, got, sizeof got), 3);
    CHECK(memcmp(got, "one", 3) == 0);
    CHECK_EQ(pair.client->session_count, 0);
    CHECK_EQ(let_go(), 0);
    CHECK_EQ(coir_write_all(pair.tls_a, "more", 4), 0);
    CHECK_EQ(coir_call_on(1, answer_there, NULL), 0);
    CHECK_EQ(coir_read(pair.tls_a, got, sizeof got), 3);
    CHECK_EQ(pair.client->session_count, 1);
    for (int i = 0; i < 3; i++) { /* a read that was cancelled leaves a poll armed */
        {
            COIR_DEADLINE(coir_in(COIR_MS));
            CHECK_EQ(coir_read(moving, got, 1), -ETIME);
        }
        CHECK_EQ(let_go(), 0);
    }
    close_pair(&pair);
}

static void move_what_is_unsent(void)
{
    struct pair pair = tcp_pair();
    moving = pair.tls_b;
    size_t sent = fill(moving);
    const struct ci_tls_stream *inside = coir_filter_arg(moving, &ci_tls_filter);
    CHECK(inside->out_len > 0);
    CHECK_EQ(let_go(), 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, call_end_there, NULL), 0);
    CHECK_EQ(read_to_the_end(pair.tls_a), sent);
    CHECK_EQ(coir_scope_wait(scope), 0);
    close_pair(&pair);
}

TEST(what_a_stream_has_not_sent_moves_with_it)
{
    test_in_runtime(move_what_is_unsent, 2);
}

TEST(a_stream_with_bytes_and_a_ticket_in_it_moves)
{
    test_in_runtime(move_the_server, 2);
}
