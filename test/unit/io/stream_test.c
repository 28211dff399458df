/* Operations on streams: one reader and one writer, one worker, and what a hang-up does. */
#include <coir.h>
#include <errno.h>

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
