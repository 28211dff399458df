/* Streams over sockets: options, addresses, time-outs, and what a peer sees of a close. */
#include <coir.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "plain.h"

static void connect_pair(coir_listener *listener, coir_stream **client, coir_stream **server)
{
    char where[64];
    coir_listener_local(listener, where, sizeof where);
    CHECK_EQ(coir_tcp_connect(where, client), 0);
    CHECK_EQ(coir_accept(listener, server), 0);
}

TEST_REAL(a_read_after_a_timeout_gets_the_data)
{
    coir_listener *listener;
    coir_stream *client, *server;
    char buf[16], peer[64], local[64];
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    connect_pair(listener, &client, &server);
    coir_stream_peer(server, peer, sizeof peer);
    coir_stream_local(client, local, sizeof local);
    CHECK(strcmp(peer, local) == 0);
    CHECK_EQ(coir_tcp_set_option(client, COIR_TCP_NODELAY, 0), 0);
    CHECK_EQ(coir_tcp_set_option(client, COIR_TCP_KEEPALIVE, 30), 0);
    CHECK_EQ(coir_tcp_set_option(client, COIR_TCP_SEND_BUFFER, 100000), 0);
    CHECK_EQ(coir_tcp_set_option(client, COIR_TCP_KEEPALIVE, -1), -EINVAL);
    for (int i = 0; i < 20; i++) {
        {
            COIR_DEADLINE(coir_in(200 * COIR_US));
            CHECK_EQ(coir_read(server, buf, sizeof buf), -ETIME);
        }
        CHECK_EQ(coir_write_all(client, "late", 4), 0);
        CHECK_EQ(coir_read_full(server, buf, 4, NULL), 4);
    }
    coir_close(client);
    coir_close(server);
    coir_listener_close(listener);
}

static void close_with_and_without_a_reset(void)
{
    coir_listener *listener;
    coir_stream *client, *server;
    char byte;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    for (int on = 0; on <= 2; on++) { /* 2: taken back */
        connect_pair(listener, &client, &server);
        CHECK_EQ(coir_tcp_set_option(client, COIR_TCP_RESET_ON_CLOSE, on != 0), 0);
        CHECK_EQ(coir_tcp_set_option(client, COIR_TCP_RESET_ON_CLOSE, on == 1), 0);
        coir_close(client);
        CHECK_EQ(coir_read(server, &byte, 1), on == 1 ? -ECONNRESET : 0);
        coir_close(server);
    }
    coir_listener_close(listener);
}

TEST_REAL(a_close_resets_where_it_is_to)
{
    close_with_and_without_a_reset();
}

TEST_SIM(a_close_resets_where_it_is_to_simulated)
{
    close_with_and_without_a_reset();
}

TEST_REAL(a_peer_sees_the_end_while_the_fiber_that_closed_computes)
{
    char address[64];
    coir_listener *listener;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    coir_listener_local(listener, address, sizeof address);
    for (int i = 0; i < 4; i++) {
        char buf[8];
        coir_stream *stream;
        int peer = plain_dial_for(address, 1);
        CHECK_EQ(coir_accept(listener, &stream), 0);
        if (i & 1) {
            CHECK_EQ(send(peer, "x", 1, 0), 1);
            CHECK_EQ(coir_read(stream, buf, sizeof buf), 1);
        }
        if (i & 2)
            CHECK_EQ(coir_write_all(stream, "last", 4), 0);
        coir_close(stream);
        if (i & 2)
            CHECK_EQ(recv(peer, buf, sizeof buf, 0), 4);
        /* blocks the worker's thread: it enters nothing */
        CHECK_EQ(recv(peer, buf, sizeof buf, 0), 0);
        close(peer);
    }
    coir_listener_close(listener);
}
