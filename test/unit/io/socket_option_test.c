/* Options by name, and what the system tells about a connection: the simulated kernel knows few of
 * them. */
#include <coir.h>
#include <errno.h>

#include "harness.h"

static void connect_pair(coir_listener *listener, coir_stream **client, coir_stream **server)
{
    char where[64];
    coir_listener_local(listener, where, sizeof where);
    CHECK_EQ(coir_tcp_connect(where, client), 0);
    CHECK_EQ(coir_accept(listener, server), 0);
}

TEST_REAL(options_have_values_by_name)
{
    static const enum coir_tcp_option options[] = {
        COIR_TCP_NODELAY,      COIR_TCP_KEEPALIVE,          COIR_TCP_RESET_ON_CLOSE,
        COIR_TCP_USER_TIMEOUT, COIR_TCP_KEEPALIVE_INTERVAL, COIR_TCP_KEEPALIVE_COUNT,
        COIR_TCP_SEND_BUFFER,  COIR_TCP_RECEIVE_BUFFER};
    static const int values[] = {0, 40, 1, 1500, 7, 3, 20000, 30000};
    coir_listener *listener;
    coir_stream *client, *server;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    connect_pair(listener, &client, &server);
    CHECK_EQ(coir_tcp_get_option(client, COIR_TCP_NODELAY), 1);
    CHECK_EQ(coir_tcp_get_option(server, COIR_TCP_NODELAY), 1);
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(coir_tcp_set_option(client, options[i], values[i]), 0);
        CHECK_EQ(coir_tcp_get_option(client, options[i]), i < 6 ? values[i] : 2 * values[i]);
    }
    CHECK_EQ(coir_tcp_set_option(client, COIR_TCP_KEEPALIVE, 0), 0);
    CHECK_EQ(coir_tcp_get_option(client, COIR_TCP_KEEPALIVE), 0);
    CHECK_EQ(coir_tcp_get_option(client, (enum coir_tcp_option)99), -EINVAL);
    CHECK_EQ(coir_tcp_set_option(client, (enum coir_tcp_option)99, 1), -EINVAL);
    coir_close(client);
    coir_close(server);
    coir_listener_close(listener);
}

TEST_REAL(the_system_tells_about_a_connection)
{
    coir_tcp_info info = COIR_TCP_INFO;
    coir_listener *listener;
    coir_stream *client, *server, *a, *b;
    char byte;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    connect_pair(listener, &client, &server);
    CHECK_EQ(coir_write(client, "x", 1), 1);
    CHECK_EQ(coir_read(server, &byte, 1), 1);
    CHECK_EQ(coir_tcp_info_get(client, &info), 0);
    CHECK(info.rtt > 0 && info.rtt < 10 * COIR_S && info.segment_size > 500 && info.window > 0);
    info.size = 1;
    CHECK_EQ(coir_tcp_info_get(client, &info), -COIR_EUNSIZED);
    CHECK_EQ(coir_duplex(0, &a, &b), 0);
    info.size = sizeof info;
    CHECK_EQ(coir_tcp_info_get(a, &info), -EOPNOTSUPP);
    CHECK_EQ(coir_tcp_get_option(a, COIR_TCP_NODELAY), -EOPNOTSUPP);
    coir_close(a);
    coir_close(b);
    coir_close(client);
    coir_close(server);
    coir_listener_close(listener);
}
