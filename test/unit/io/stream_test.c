/* Operations on streams: one reader and one writer, one worker, and what a hang-up does. */
#include <arpa/inet.h>
#include <coir.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"

static int read_one(void *arg)
{
    char byte;
    return (int)coir_read(arg, &byte, 1);
}

TEST_SIM(one_reader_at_a_time_and_closing_wakes_it)
{
    coir_stream *a, *b;
    char byte;
    coir_duplex(0, &a, &b);
    COIR_HANDLE(handle);
    COIR_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    coir_go_with(scope, &options, read_one, b);
    coir_yield();
    coir_yield();
    CHECK_EQ(coir_read(b, &byte, 1), -EBUSY);
    CHECK_EQ(coir_write(b, "x", 1), 1); /* another task may write */
    coir_close(b);
    CHECK_EQ(coir_join(handle), -ECANCELED);
    coir_close(a);
}

static void connect_pair(coir_listener *listener, coir_stream **client, coir_stream **server)
{
    char where[64];
    coir_listener_local(listener, where, sizeof where);
    CHECK_EQ(coir_tcp_connect(where, client), 0);
    CHECK_EQ(coir_accept(listener, server), 0);
}

TEST_REAL(a_hangup_wakes_a_waiting_reader_at_once)
{
    coir_listener *listener;
    coir_stream *client, *server;
    char byte;
    CHECK_EQ(coir_tcp_listen("[::1]:0", &listener), 0);
    COIR_DEADLINE(coir_in(30 * COIR_S));
    connect_pair(listener, &client, &server);
    COIR_HANDLE(handle);
    COIR_SERVING_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    coir_go_with(scope, &options, read_one, server);
    coir_yield();
    coir_close(client);
    CHECK_EQ(coir_join(handle), 0);
    CHECK_EQ(coir_read(server, &byte, 1), 0);
    coir_close(server);
    coir_listener_close(listener);
}

static coir_stream *from_elsewhere;

static int use_elsewhere(void *arg)
{
    char byte;
    (void)arg;
    return (int)coir_read(from_elsewhere, &byte, 1);
}

static void try_elsewhere(void)
{
    coir_listener *listener;
    coir_stream *client, *server;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    connect_pair(listener, &client, &server);
    from_elsewhere = server;
    COIR_SCOPE(scope);
    coir_go_on(scope, 1, use_elsewhere, NULL);
    CHECK_EQ(coir_scope_wait(scope), -EXDEV);
    coir_close(client);
    coir_close(server);
    coir_listener_close(listener);
}

TEST(a_stream_belongs_to_its_worker)
{
    test_in_runtime(try_elsewhere, 2);
}

static int read_past_urgent(void *stream)
{
    char bytes[8];
    CHECK_EQ(coir_read_full(stream, bytes, 4, NULL), 4);
    CHECK(memcmp(bytes, "abcd", 4) == 0);
    return 0;
}

/* The system ends a receive before an urgent byte: that it was short does not say that it was
 * all. */
TEST_REAL(bytes_after_an_urgent_one_are_read)
{
    char text[64];
    coir_listener *listener;
    coir_stream *stream;
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int sender = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    coir_listener_local(listener, text, sizeof text);
    where.sin_port = htons((uint16_t)atoi(strchr(text, ':') + 1));
    CHECK_EQ(connect(sender, (struct sockaddr *)&where, sizeof where), 0);
    CHECK_EQ(coir_accept(listener, &stream), 0);
    COIR_DEADLINE(coir_in(10 * COIR_S));
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, read_past_urgent, stream), 0);
    coir_yield();
    CHECK_EQ(send(sender, "ab", 2, 0), 2);
    CHECK(send(sender, "!", 1, MSG_OOB) == 1 || errno == EOPNOTSUPP); /* simulated: posix.c */
    CHECK_EQ(send(sender, "cd", 2, 0), 2);
    CHECK_EQ(coir_scope_wait(scope), 0);
    close(sender);
    coir_close(stream);
    coir_listener_close(listener);
}
