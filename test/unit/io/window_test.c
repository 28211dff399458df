/* Bytes through windows of a few bytes: whatever a write or a read was cut to, it goes on where it
 * was cut. */
#include <coir.h>
#include <string.h>

#include "harness.h"

enum { LEN = 500, PIECES = 140, WAYS = 4 };

static char sent[LEN], received[LEN];

/* Cuts memory into pieces of 0 to 8 bytes: how many. */
static int cut(char *memory, struct iovec *pieces)
{
    int count = 0;
    for (size_t at = 0; at < LEN; count++) {
        size_t len = (size_t)(count * 7 % 9);
        CHECK(count < PIECES);
        pieces[count] = (struct iovec){memory + at, len < LEN - at ? len : LEN - at};
        at += pieces[count].iov_len;
    }
    return count;
}

struct job {
    coir_stream *stream;
    int way;
};

static int write_it(void *arg)
{
    const struct job *job = arg;
    static struct iovec pieces[PIECES + 1];
    coir_io_all_op op;
    int count = cut(sent, pieces), rc = 0;
    switch (job->way) {
    case 0: rc = coir_write_all(job->stream, sent, LEN); break;
    case 1: rc = coir_writev_all(job->stream, pieces, count); break;
    case 2: rc = (int)coir_await(coir_write_all_op(&op, job->stream, sent, LEN)); break;
    default: rc = (int)coir_await(coir_writev_all_op(&op, job->stream, pieces, count)); break;
    }
    coir_shutdown_write(job->stream);
    return rc;
}

static void read_vectors(coir_stream *stream)
{
    for (size_t at = 0; at < LEN;) {
        struct iovec three[3] = {
            {received + at, 1}, {received + at + 1, 0}, {received + at + 1, LEN - at - 1}};
        ssize_t n = coir_readv(stream, three, 3);
        CHECK(n > 0);
        at += (size_t)n;
    }
}

static void read_it(coir_stream *stream, int way)
{
    coir_io_all_op op;
    size_t done = 0;
    memset(received, 0, LEN);
    switch (way) {
    case 0: CHECK_EQ(coir_read_full(stream, received, LEN, &done), LEN); break;
    case 1: CHECK_EQ(coir_await(coir_read_full_op(&op, stream, received, LEN, &done)), LEN); break;
    default: read_vectors(stream); break;
    }
    CHECK(way > 1 || done == LEN);
    CHECK(memcmp(sent, received, LEN) == 0);
    CHECK_EQ(coir_read_full(stream, received, 3, &done), -COIR_EEND);
    CHECK_EQ(done, 0);
}

static void through_windows(void)
{
    for (int i = 0; i < LEN; i++)
        sent[i] = (char)(i * 31 + (i >> 8));
    for (size_t capacity = 1; capacity <= 9; capacity++)
        for (int way = 0; way < WAYS * 3; way++) {
            coir_stream *a, *b;
            CHECK_EQ(coir_duplex(capacity, &a, &b), 0);
            COIR_SCOPE(scope);
            struct job job = {a, way % WAYS};
            CHECK_EQ(coir_go(scope, write_it, &job), 0);
            read_it(b, way / WAYS);
            CHECK_EQ(coir_scope_wait(scope), 0);
            coir_close(a);
            coir_close(b);
        }
}

TEST_SIM(bytes_through_windows_of_a_few_bytes)
{
    through_windows();
}

/* The same over a network that cuts reads and writes short. */
static int serve_ways(coir_stream *stream, void *arg)
{
    static int way;
    struct job job = {stream, way++ % WAYS};
    (void)arg;
    return write_it(&job);
}

static int serve(void *arg)
{
    return coir_serve_tcp_with(TCP_ON(arg), serve_ways, NULL);
}

static int fetch_all(void *arg)
{
    char address[64];
    coir_listener *listener;
    (void)arg;
    through_windows(); /* fills `sent` */
    CHECK_EQ(coir_tcp_listen("10.0.0.1:0", &listener), 0);
    coir_listener_local(listener, address, sizeof address);
    {
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go(scope, serve, listener), 0);
        for (int way = 0; way < WAYS * 3; way++) {
            coir_stream *stream;
            CHECK_EQ(coir_tcp_connect(address, &stream), 0);
            read_it(stream, way / WAYS);
            coir_close(stream);
        }
        coir_scope_cancel(scope);
    }
    coir_listener_close(listener);
    return 0;
}

static int with_short_io(coir_sim *sim, void *arg)
{
    coir_sim_link(sim, NULL, NULL, (coir_link){.latency = COIR_US, .short_io = 0.7});
    return coir_sim_host_main(sim, "host", fetch_all, arg);
}

TEST(bytes_over_a_network_that_cuts_short)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        coir_sim_options options = test_sim_options(seed, 1);
        CHECK_EQ(coir_sim_run(&options, with_short_io, NULL, NULL), 0);
    }
}
