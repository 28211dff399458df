/* What a driver may read before it is asked to. */
#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"

static void connect_pair(coir_listener *listener, coir_stream **client, coir_stream **server)
{
    char where[64];
    coir_listener_local(listener, where, sizeof where);
    CHECK_EQ(coir_tcp_connect(where, client), 0);
    CHECK_EQ(coir_accept(listener, server), 0);
}

/* ---- streams that are not read ---- */

enum { CROWD = 600 };
static coir_stream *senders[CROWD], *unread[CROWD];

/* Writes until the socket has no more room. */
static void fill_up(coir_stream *stream)
{
    static const char data[1 << 16];
    COIR_DEADLINE(coir_in(2 * COIR_MS));
    while (coir_write(stream, data, sizeof data) > 0)
        continue;
}

static void crowd(int count)
{
    coir_listener *listener;
    coir_stream *client, *server;
    char byte;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    for (int i = 0; i < count; i++) {
        connect_pair(listener, &senders[i], &unread[i]);
        COIR_DEADLINE(coir_in(100 * COIR_US));
        CHECK_EQ(coir_read(unread[i], &byte, 1), -ETIME); /* was read once, and is not again */
    }
    for (int i = 0; i < count; i++)
        fill_up(senders[i]);
    connect_pair(listener, &client, &server);
    for (int i = 0; i < 1000; i++) {
        char text[16], got[16];
        int len = snprintf(text, sizeof text, "%d", i);
        COIR_DEADLINE(coir_in(60 * COIR_S));
        CHECK_EQ(coir_write_all(client, text, (size_t)len), 0);
        CHECK_EQ(coir_read_full(server, got, (size_t)len, NULL), len);
        CHECK(memcmp(got, text, (size_t)len) == 0);
    }
    for (int i = 0; i < count; i++) {
        CHECK_EQ(coir_read(unread[i], &byte, 1), 1); /* it is all there */
        coir_close(senders[i]);
        coir_close(unread[i]);
    }
    coir_close(client);
    coir_close(server);
    coir_listener_close(listener);
}

static void small_crowd(void)
{
    crowd(64);
}

static void large_crowd(void) /* more than there are buffers */
{
    crowd(CROWD);
}

TEST(streams_that_nobody_reads_do_not_stop_another)
{
    test_in_runtime(small_crowd, 1);
}

TEST(nor_do_more_of_them_than_there_are_buffers)
{
    test_in_runtime(large_crowd, 1);
}

/* ---- from worker to worker ---- */

enum { TOTAL = 400000 };
static coir_stream *passed_on;
static size_t received;

static unsigned char byte_at(size_t at)
{
    return (unsigned char)(at * 7 >> 2);
}

static int send_all(void *arg)
{
    static unsigned char data[TOTAL];
    coir_stream *stream = *(coir_stream **)arg;
    for (size_t i = 0; i < TOTAL; i++)
        data[i] = byte_at(i);
    int rc = coir_write_all(stream, data, TOTAL);
    return rc < 0 ? rc : coir_shutdown_write(stream);
}

/* Reads a part, waits until there is more, and closes the stream. */
static int read_a_part(void *arg)
{
    unsigned char part[5000];
    (void)arg;
    for (int i = 0; i < 3; i++) {
        ssize_t n = coir_read(passed_on, part, sizeof part - (size_t)i * 1000);
        CHECK(n >= 0);
        for (ssize_t j = 0; j < n; j++)
            CHECK_EQ(part[j], byte_at(received + (size_t)j));
        received += (size_t)n;
        if (n == 0)
            return coir_stream_detach(passed_on);
    }
    CHECK(coir_stream_wait(passed_on, COIR_READ) & COIR_READ);
    CHECK_EQ(coir_stream_detach(passed_on), 0);
    return 1;
}

static int wait_for_it(void *arg)
{
    char byte;
    (void)arg;
    return (int)coir_read(passed_on, &byte, 1);
}

static void pass_on(void)
{
    coir_listener *listener;
    coir_stream *client;
    received = 0;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    connect_pair(listener, &client, &passed_on);
    {
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go(scope, wait_for_it, NULL), 0);
        coir_yield();
        CHECK_EQ(coir_stream_detach(passed_on), -EBUSY);
        coir_scope_cancel(scope);
        coir_scope_wait(scope);
    }
    COIR_SCOPE(sending);
    CHECK_EQ(coir_go(sending, send_all, &client), 0);
    CHECK_EQ(coir_stream_detach(passed_on), 0);
    for (int worker = 1; received < TOTAL; worker = !worker) {
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go_on(scope, worker, read_a_part, NULL), 0);
        CHECK(coir_scope_wait(scope) >= 0);
    }
    CHECK_EQ(received, TOTAL);
    CHECK_EQ(coir_scope_wait(sending), 0);
    coir_close(client);
    coir_close(passed_on); /* a detached one */
    coir_listener_close(listener);
}

TEST(what_was_read_ahead_goes_from_worker_to_worker)
{
    test_in_runtime(pass_on, 2);
}

/* ---- from run to run ---- */

static coir_listener *kept_listener;
static coir_stream *kept_client, *kept_server;

static int begin_talk(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &kept_listener), 0);
    connect_pair(kept_listener, &kept_client, &kept_server);
    CHECK_EQ(coir_write_all(kept_client, "one", 3), 0);
    CHECK(coir_stream_wait(kept_server, COIR_READ) & COIR_READ);
    return 0;
}

static int end_talk(void *arg)
{
    char buf[6];
    (void)arg;
    CHECK_EQ(coir_write_all(kept_client, "two", 3), 0);
    CHECK_EQ(coir_read_full(kept_server, buf, 6, NULL), 6);
    CHECK(memcmp(buf, "onetwo", 6) == 0);
    coir_close(kept_client);
    coir_close(kept_server);
    coir_listener_close(kept_listener);
    return 0;
}

TEST(what_was_read_ahead_is_there_in_the_next_run)
{
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    config.workers = 1;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    CHECK_EQ(coir_runtime_run(runtime, begin_talk, NULL), 0);
    CHECK_EQ(coir_runtime_run(runtime, end_talk, NULL), 0);
    coir_runtime_free(runtime);
}

/* ---- detached streams ---- */

/* Streams that are not read hold all buffers when a stream with unread bytes is moved to another
 * worker. */
static void detach_in_a_crowd(void)
{
    char buf[8];
    coir_listener *listener;
    coir_stream *client, *server;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    connect_pair(listener, &client, &server);
    CHECK_EQ(coir_write_all(client, "kept", 4), 0);
    CHECK(coir_stream_wait(server, COIR_READ) & COIR_READ);
    for (int i = 0; i < CROWD; i++) {
        connect_pair(listener, &senders[i], &unread[i]);
        COIR_DEADLINE(coir_in(100 * COIR_US));
        CHECK_EQ(coir_read(unread[i], buf, 1), -ETIME);
    }
    for (int i = 0; i < CROWD; i++)
        fill_up(senders[i]);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(coir_stream_detach(server), 0);
        CHECK_EQ(coir_read_full(server, buf, 1, NULL), 1);
        CHECK_EQ(buf[0], "kept"[i]);
    }
    CHECK_EQ(coir_stream_detach(server), 0);
    coir_close(server); /* with a byte unread */
    CHECK_EQ(coir_read(client, buf, 1), -ECONNRESET);
    coir_close(client);
    for (int i = 0; i < CROWD; i++) {
        coir_close(senders[i]);
        coir_close(unread[i]);
    }
    coir_listener_close(listener);
}

TEST(a_detached_stream_needs_no_buffers)
{
    test_in_runtime(detach_in_a_crowd, 1);
}
