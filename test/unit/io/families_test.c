/* IPv6 and IPv4, on the real drivers and in both simulated worlds: which addresses reach which
 * sockets, how the peers are written, and who may have a port. */
#include <coir.h>
#include <coir/name.h>
#include <coir/udp.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"

/* A machine without IPv6 has nothing to show. */
static bool has_ipv6(void)
{
    coir_listener *listener;
    int rc = coir_tcp_listen("[::1]:0", &listener);
    if (rc == -EAFNOSUPPORT || rc == -EADDRNOTAVAIL) {
        puts("  left out: this machine has no IPv6");
        return false;
    }
    CHECK_EQ(rc, 0);
    coir_listener_close(listener);
    return true;
}

static void everywhere(void (*body)(void))
{
    test_in_runtime(body, 1);
    test_in_sim(body, 1, 1);
}

/* Where a socket is bound, and how a peer that reaches it by IPv4 and by IPv6 is written; NULL: it
 * is refused. */
static const struct row {
    const char *own;
    bool ipv6_only;
    const char *four, *six;
} rows[] = {
    {"127.0.0.1", false, "127.0.0.1:", NULL},
    {"0.0.0.0", false, "127.0.0.1:", NULL},
    {"[::1]", false, NULL, "[::1]:"},
    {"[::]", false, "127.0.0.1:", "[::1]:"},
    {"[::]", true, NULL, "[::1]:"},
    {"", false, "127.0.0.1:", "[::1]:"},
    {"*", true, NULL, "[::1]:"},
};

static void with_port(char text[64], const char *host, const char *own)
{
    snprintf(text, 64, "%s%s", host, strrchr(own, ':'));
}

/* The simulated network has one address for each host and family. */
static void check_peer(const struct row *row, const char *text, const char *expected)
{
    bool six = text[0] == '[', simulated = strncmp(text, "10.", 3) == 0 || strstr(text, "[fd");
    if (!simulated && strncmp(text, expected, strlen(expected)) != 0)
        test_fail(__FILE__, __LINE__, "at \"%s\": a peer is %s, not %s", row->own, text, expected);
    CHECK_EQ(six, expected[0] == '[');
}

/* ---- streams ---- */

static coir_listener *listen_at(const struct row *row, char own[64])
{
    coir_listen_options options = COIR_LISTEN_OPTIONS;
    coir_listener *listener;
    char address[64];
    options.ipv6_only = row->ipv6_only;
    snprintf(address, sizeof address, "%s:0", row->own);
    CHECK_EQ(coir_tcp_listen_with(address, &options, &listener), 0);
    CHECK(coir_listener_local(listener, own, 64) > 0);
    return listener;
}

static void connect_by(const struct row *row, coir_listener *listener, const char *address,
                       const char *expected)
{
    coir_stream *client, *server;
    char text[64], byte = 'x';
    int rc = coir_tcp_connect(address, &client);
    CHECK_EQ(rc, expected ? 0 : -ECONNREFUSED);
    if (rc < 0)
        return;
    CHECK_EQ(coir_accept(listener, &server), 0);
    CHECK(coir_stream_peer(server, text, sizeof text) > 0);
    check_peer(row, text, expected);
    CHECK(coir_stream_peer(client, text, sizeof text) > 0);
    CHECK(strcmp(strrchr(text, ':'), strrchr(address, ':')) == 0);
    CHECK_EQ(coir_write_all(client, &byte, 1), 0);
    byte = 0;
    CHECK_EQ(coir_read(server, &byte, 1), 1);
    CHECK_EQ(byte, 'x');
    coir_close(server);
    coir_close(client);
}

static void streams(void)
{
    char own[64], address[64];
    for (size_t i = 0; has_ipv6() && i < sizeof rows / sizeof *rows; i++) {
        coir_listener *listener = listen_at(&rows[i], own);
        with_port(address, "127.0.0.1", own);
        connect_by(&rows[i], listener, address, rows[i].four);
        with_port(address, "[::1]", own);
        connect_by(&rows[i], listener, address, rows[i].six);
        coir_listener_close(listener);
    }
}

TEST(streams_reach_listeners_of_their_family)
{
    everywhere(streams);
}

/* ---- datagrams ---- */

static coir_udp *open_at(const struct row *row, char own[64])
{
    coir_udp_options options = COIR_UDP_OPTIONS;
    coir_udp *udp;
    char address[64];
    snprintf(address, sizeof address, "%s:0", row->own);
    options.address = address;
    options.ipv6_only = row->ipv6_only;
    CHECK_EQ(coir_udp_open_with(&options, &udp), 0);
    CHECK(coir_udp_local(udp, own, 64) > 0);
    return udp;
}

/* From a socket that is connected, and is answered at the address that its datagram came from. */
static void send_by(const struct row *row, coir_udp *server, const char *address,
                    const char *expected)
{
    coir_udp *client;
    coir_address from;
    char text[64], byte = 'x';
    CHECK_EQ(coir_udp_open(":0", address, &client), 0);
    CHECK_EQ(coir_udp_send(client, &byte, 1), 1);
    if (expected) {
        CHECK_EQ(coir_udp_recv(server, &byte, 1, &from), 1);
        CHECK(coir_address_format(&from, text, sizeof text) > 0);
        check_peer(row, text, expected);
        CHECK_EQ(coir_udp_send_to(server, &byte, 1, &from), 1);
        CHECK_EQ(coir_udp_recv(client, &byte, 1, NULL), 1);
        CHECK_EQ(coir_address_parse(text, &from), 0); /* also as it was written */
        CHECK_EQ(coir_udp_send_to(server, &byte, 1, &from), 1);
        CHECK_EQ(coir_udp_recv(client, &byte, 1, NULL), 1);
    } else {
        CHECK_EQ(coir_udp_recv(client, &byte, 1, NULL), -ECONNREFUSED);
    }
    coir_udp_close(client);
}

static void datagrams(void)
{
    char own[64], address[64];
    for (size_t i = 0; has_ipv6() && i < sizeof rows / sizeof *rows; i++) {
        coir_udp *server = open_at(&rows[i], own);
        with_port(address, "127.0.0.1", own);
        send_by(&rows[i], server, address, rows[i].four);
        with_port(address, "[::1]", own);
        send_by(&rows[i], server, address, rows[i].six);
        coir_udp_close(server);
    }
}

TEST(datagrams_reach_sockets_of_their_family)
{
    everywhere(datagrams);
}

static void a_peer_of_the_other_family(void)
{
    coir_udp_options options = COIR_UDP_OPTIONS;
    coir_udp *udp;
    options.address = ":0";
    options.peer = "127.0.0.1:9";
    options.ipv6_only = true;
    CHECK(!has_ipv6() || coir_udp_open_with(&options, &udp) == -EAFNOSUPPORT);
}

TEST(a_socket_of_ipv6_alone_gets_no_ipv4_peer)
{
    everywhere(a_peer_of_the_other_family);
}

/* ---- ports ---- */

static int listen_beside(const char *host, const char *own, bool ipv6_only, bool reuse_port,
                         coir_listener **ret_listener)
{
    coir_listen_options options = COIR_LISTEN_OPTIONS;
    char address[64];
    with_port(address, host, own);
    options.ipv6_only = ipv6_only;
    options.reuse_port = reuse_port;
    return coir_tcp_listen_with(address, &options, ret_listener);
}

static void ports(void)
{
    coir_listener *four, *six, *third;
    char own[64];
    if (!has_ipv6())
        return;
    four = listen_at(&rows[1], own);
    CHECK_EQ(listen_beside("[::]", own, false, false, &six), -EADDRINUSE);
    CHECK_EQ(listen_beside("[::]", own, true, false, &six), 0);
    CHECK_EQ(listen_beside("[::]", own, true, false, &third), -EADDRINUSE);
    coir_listener_close(four);
    coir_listener_close(six);
}

TEST(each_family_has_its_ports)
{
    everywhere(ports);
}

static const char *any_port(char ret_address[64])
{
    char host[16];
    test_own_loopback(host);
    snprintf(ret_address, 64, "%s:0", host);
    return ret_address;
}

/* Each of two gets something in the end, and one sender has always the same. */
static void shared_by_datagrams(void)
{
    coir_udp *both[2];
    coir_udp_options options = COIR_UDP_OPTIONS;
    char own[64], byte = 'x';
    options.address = any_port(own);
    options.reuse_port = true;
    CHECK_EQ(coir_udp_open_with(&options, &both[0]), 0);
    CHECK(coir_udp_local(both[0], own, sizeof own) > 0);
    options.address = own;
    CHECK_EQ(coir_udp_open_with(&options, &both[1]), 0);
    options.reuse_port = false;
    coir_udp *client;
    CHECK_EQ(coir_udp_open_with(&options, &client), -EADDRINUSE);
    for (int got_by[2] = {0}; !got_by[0] || !got_by[1];) {
        int first = -1;
        CHECK_EQ(coir_udp_open("127.0.0.1:0", own, &client), 0);
        for (int i = 0; i < 5; i++) {
            CHECK_EQ(coir_udp_send(client, &byte, 1), 1);
            coir_case cases[] = {coir_case_udp(both[0], COIR_READ),
                                 coir_case_udp(both[1], COIR_READ)};
            int which = coir_select(cases, 2);
            CHECK(which >= 0);
            CHECK_EQ(coir_udp_recv(both[which], &byte, 1, NULL), 1);
            CHECK(first < 0 || which == first);
            first = which;
            got_by[which]++;
        }
        coir_udp_close(client);
    }
    coir_udp_close(both[0]);
    coir_udp_close(both[1]);
}

TEST(a_port_shared_by_datagram_sockets_is_one_senders_choice)
{
    everywhere(shared_by_datagrams);
}

static coir_udp *open_shared(const char *address, const char *peer, char own[64])
{
    coir_udp_options options = COIR_UDP_OPTIONS;
    coir_udp *udp;
    options.address = address;
    options.peer = peer;
    options.reuse_port = true;
    CHECK_EQ(coir_udp_open_with(&options, &udp), 0);
    CHECK(coir_udp_local(udp, own, 64) > 0);
    return udp;
}

/* Of two that share a port, the connected one gets its peer's datagrams, the other one the rest. */
static void share_with_a_connected_one(bool connected_first)
{
    char own[64], peers[64], byte = 'x';
    coir_address to;
    coir_udp *stranger, *peer = open_shared(any_port(peers), NULL, peers);
    coir_udp *first = open_shared(any_port(own), connected_first ? peers : NULL, own);
    coir_udp *second = open_shared(own, connected_first ? NULL : peers, own);
    coir_udp *connected = connected_first ? first : second;
    CHECK_EQ(coir_address_parse(own, &to), 0);
    CHECK_EQ(coir_udp_send_to(peer, &byte, 1, &to), 1);
    CHECK_EQ(coir_udp_recv(connected, &byte, 1, NULL), 1);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(coir_udp_open("127.0.0.1:0", NULL, &stranger), 0);
        CHECK_EQ(coir_udp_send_to(stranger, &byte, 1, &to), 1);
        CHECK_EQ(coir_udp_recv(connected_first ? second : first, &byte, 1, NULL), 1);
        coir_udp_close(stranger);
    }
    coir_udp_close(first);
    coir_udp_close(second);
    coir_udp_close(peer);
}

static void shared_with_a_connected_one(void)
{
    for (int i = 0; i < 16; i++) /* peers of different ports */
        share_with_a_connected_one(i % 2);
}

TEST(a_connected_socket_that_shares_a_port_is_its_peers_alone)
{
    everywhere(shared_with_a_connected_one);
}
