/* Connecting to one address: what is refused leaves nothing open, and a Unix socket waits while the
 * backlog is full. */
#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "every_driver.h"
#include "harness.h"
#include "open_files.h"
#include "own_network.h"

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
    coir_tcp_connect_options once = COIR_TCP_CONNECT_OPTIONS;
    int rc = 0;
    for (int i = 1; i <= 10; i++) { /* some are due together with the end of a pause */
        once.attempt_timeout = i * COIR_MS;
        while ((rc = coir_tcp_connect_with(name, &once, &stream)) == 0) /* as many as fit */
            coir_close(stream);
        CHECK_EQ(rc, -ETIMEDOUT);
    }
    COIR_DEADLINE(coir_in(20 * COIR_MS));
    rc = 0;
    while (rc == 0) /* one leaves at its deadline */
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

/* ---- fast open ---- */

static void connect_fast(const char *where, coir_listener *listener)
{
    coir_stream *client, *server;
    char bytes[5];
    coir_tcp_connect_options options = COIR_TCP_CONNECT_OPTIONS;
    options.fast_open = true;
    CHECK_EQ(coir_tcp_connect_with(where, &options, &client), 0);
    CHECK_EQ(coir_write_all(client, "hello", 5), 0);
    CHECK_EQ(coir_accept(listener, &server), 0);
    CHECK_EQ(coir_read_full(server, bytes, 5, NULL), 5);
    CHECK(memcmp(bytes, "hello", 5) == 0);
    CHECK_EQ(coir_write_all(server, "world", 5), 0);
    CHECK_EQ(coir_read_full(client, bytes, 5, NULL), 5);
    CHECK(memcmp(bytes, "world", 5) == 0);
    coir_close(server);
    CHECK_EQ(coir_read(client, bytes, 1), 0);
    coir_close(client);
}

/* A counter of the network's (TcpExt): names and values are lines of their own. */
static long tcp_counter(const char *name)
{
    static char names[8192], values[8192];
    char *in_names, *in_values;
    FILE *file = fopen("/proc/self/net/netstat", "r");
    CHECK(file && fgets(names, sizeof names, file) && fgets(values, sizeof values, file));
    fclose(file);
    char *key = strtok_r(names, " ", &in_names), *value = strtok_r(values, " ", &in_values);
    while (key && strcmp(key, name) != 0) {
        key = strtok_r(NULL, " ", &in_names);
        value = strtok_r(NULL, " ", &in_values);
    }
    return value ? atol(value) : -1;
}

/* The client gets a cookie with the first connection, and uses it for the others. */
static void open_fast(void)
{
    coir_listen_options options = COIR_LISTEN_OPTIONS;
    coir_listener *listener;
    char where[64];
    long before = tcp_counter("TCPFastOpenPassive");
    options.fast_open = 16;
    COIR_DEADLINE(coir_in(30 * COIR_S));
    CHECK_EQ(coir_tcp_listen_with("127.0.0.1:0", &options, &listener), 0);
    CHECK(coir_listener_local(listener, where, sizeof where) > 0);
    for (int i = 0; i < 4; i++)
        connect_fast(where, listener);
    CHECK(tcp_counter("TCPFastOpenPassive") - before >= 3);
    coir_listener_close(listener);
}

/* False, and says so: it cannot be set here. */
static bool allow_fast_open(const char *value)
{
    static const char path[] = "/proc/sys/net/ipv4/tcp_fastopen";
    if (!enter_own_network(""))
        return false;
    if (access(path, W_OK) < 0) {
        printf("left out: %s cannot be written\n", path);
        return false;
    }
    put_file(path, value);
    return true;
}

TEST(the_first_bytes_go_along_with_fast_open)
{
    if (!allow_fast_open("3"))
        return;
    run_on_every_driver((coir_config)COIR_CONFIG, open_fast);
}

static void expect_no_fast_open(void)
{
    coir_tcp_connect_options options = COIR_TCP_CONNECT_OPTIONS;
    coir_stream *stream;
    int before = open_files();
    options.fast_open = true;
    CHECK_EQ(coir_tcp_connect_with("127.0.0.1:1", &options, &stream), -EOPNOTSUPP);
    CHECK_EQ(open_files(), before);
}

TEST(a_network_that_does_not_allow_fast_open_is_an_error)
{
    if (!allow_fast_open("0"))
        return;
    run_on_every_driver((coir_config)COIR_CONFIG, expect_no_fast_open);
}

TEST_REAL(a_unix_socket_has_no_fast_open)
{
    coir_listen_options options = COIR_LISTEN_OPTIONS;
    coir_listener *listener;
    int before = open_files();
    options.fast_open = 16;
    CHECK_EQ(coir_tcp_listen_with("unix:@", &options, &listener), -EOPNOTSUPP);
    CHECK_EQ(open_files(), before);
}

TEST_SIM(the_simulated_world_has_no_fast_open)
{
    coir_listen_options options = COIR_LISTEN_OPTIONS;
    coir_listener *listener;
    expect_no_fast_open();
    options.fast_open = 16;
    CHECK_EQ(coir_tcp_listen_with("127.0.0.1:0", &options, &listener), -EOPNOTSUPP);
    coir_tcp_connect_options negative = COIR_TCP_CONNECT_OPTIONS;
    coir_stream *stream;
    negative.attempt_timeout = -1;
    CHECK_EQ(coir_tcp_connect_with("127.0.0.1:1", &negative, &stream), -EINVAL);
}
