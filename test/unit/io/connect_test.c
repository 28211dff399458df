/* Connecting to one address: what is refused leaves nothing open, and a Unix socket waits while the
 * backlog is full. */
#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "open_files.h"

static int connect_and_close(void *arg)
{
    coir_stream *stream;
    int rc = coir_tcp_connect(arg, &stream);
    if (rc == 0)
        coir_close(stream);
    return rc;
}

static void be_refused(void)
{
    coir_listener *listener;
    char address[64];
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    CHECK(coir_listener_local(listener, address, sizeof address) > 0);
    int before = open_files();
    CHECK_EQ(connect_and_close(address), 0);
    coir_listener_close(listener);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(connect_and_close(address), -ECONNREFUSED);
    CHECK_EQ(connect_and_close("unix:/nobody/is/here"), -ENOENT);
    CHECK_EQ(coir_yield(), 0);
    CHECK_EQ(open_files(), before - 1); /* the listener */
}

TEST_REAL(what_is_refused_leaves_nothing_open)
{
    be_refused();
}

enum { CLIENTS = 8 };

static void fill_the_backlog(void)
{
    coir_listener *listener;
    coir_stream *stream;
    coir_listen_options options = COIR_LISTEN_OPTIONS;
    char name[64];
    options.backlog = 1;
    CHECK_EQ(coir_tcp_listen_with("unix:@", &options, &listener), 0);
    CHECK(coir_listener_local(listener, name, sizeof name) > 0);
    COIR_SCOPE(scope);
    for (int i = 0; i < CLIENTS; i++)
        CHECK_EQ(coir_go(scope, connect_and_close, name), 0);
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_EQ(coir_accept(listener, &stream), 0);
        coir_close(stream);
    }
    CHECK_EQ(coir_scope_wait(scope), 0);
    COIR_DEADLINE(coir_in(20 * COIR_MS));
    int rc = 0;
    while (rc == 0) /* as many as fit; the next one leaves at its deadline */
        rc = connect_and_close(name);
    CHECK_EQ(rc, -ETIME);
    coir_listener_close(listener);
}

TEST_REAL(a_client_waits_while_the_backlog_is_full)
{
    fill_the_backlog();
}

/* ---- from a local address ---- */

static int from(const char *local, const char *to, coir_stream **ret_stream)
{
    coir_tcp_connect_options options = COIR_TCP_CONNECT_OPTIONS;
    options.local = local;
    return coir_tcp_connect_with(to, &options, ret_stream);
}

TEST_REAL(a_connection_is_made_from_the_local_address)
{
    char where[64], by_name[64], peer[64];
    coir_listener *listener;
    coir_stream *client, *server;
    coir_open_op op;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    coir_listener_local(listener, where, sizeof where);
    snprintf(by_name, sizeof by_name, "localhost%s", strchr(where, ':'));
    CHECK_EQ(from("127.0.0.2:0", where, &client), 0);
    CHECK_EQ(coir_accept(listener, &server), 0);
    coir_stream_peer(server, peer, sizeof peer);
    CHECK(strncmp(peer, "127.0.0.2:", 10) == 0);
    CHECK_EQ(from(peer, where, &client), -EADDRINUSE); /* with its port, which is taken */
    coir_close(client);
    coir_close(server);
    CHECK_EQ(from("127.0.0.3:0", by_name, &client), 0); /* ::1 is not tried from there */
    CHECK_EQ(coir_accept(listener, &server), 0);
    coir_stream_peer(server, peer, sizeof peer);
    CHECK(strncmp(peer, "127.0.0.3:", 10) == 0);
    coir_close(client);
    coir_close(server);
    CHECK_EQ(from(NULL, where, &client), 0);
    coir_close(client);
    CHECK_EQ(coir_await(coir_tcp_connect_with_op(&op, where, NULL, &client)), 0);
    coir_close(client);
    CHECK_EQ(from("192.0.2.1:0", where, &client), -EADDRNOTAVAIL);
    CHECK_EQ(from("[::1]:0", where, &client), -EAFNOSUPPORT);
    CHECK_EQ(from("localhost:0", where, &client), -COIR_EADDRESS);
    CHECK_EQ(from("unix:/tmp/a", where, &client), -COIR_EADDRESS);
    CHECK_EQ(from("127.0.0.1", where, &client), -COIR_EPORT);
    coir_listener_close(listener);
}
