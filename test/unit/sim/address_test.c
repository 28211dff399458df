/* Addresses: which host and which socket one leads to, and what a socket says of its own. */
#include "sim/address.h"

#include <errno.h>

#include "net.h"

TEST(a_loopback_address_is_the_own_host_first)
{
    struct net net;
    net_open(&net, 1);
    struct sockaddr_in b = net_address(net.b, 7), loopback = b, elsewhere = b;
    loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    elsewhere.sin_addr.s_addr = htonl(10u << 24 | 99);
    CHECK(ci_sim_address_node(&net.world, net.a, &b) == net.b);
    CHECK(ci_sim_address_node(&net.world, net.a, &loopback) == net.a);
    CHECK(!ci_sim_address_node(&net.world, net.a, &elsewhere));
    CHECK_EQ(ci_sim_address_of(net.b).s_addr, b.sin_addr.s_addr);

    coir_fd far = net_listen(&net, 7, 1); /* on "a" */
    const struct ci_socket_kind *listener = ci_socket_of(&net.world, far)->kind;
    CHECK(ci_sim_address_find(&net.world, listener, net.b, &loopback)->fd == far);
    CHECK(!ci_sim_address_find(&net.world, listener, net.a, &b));
    struct ci_listen listen = {
        .address = (struct sockaddr *)&b, .address_len = sizeof b, .backlog = 1};
    coir_fd near = net.on_b->kind->listen(net.on_b, &listen);
    CHECK(ci_sim_address_find(&net.world, listener, net.b, &loopback)->fd == near);
    CHECK(ci_sim_address_find(&net.world, listener, net.a, &loopback)->fd == far);
    net_close(&net);
}

TEST(a_port_is_taken_once_a_host)
{
    struct net net;
    net_open(&net, 1);
    const struct ci_socket_kind *listener = ci_socket_of(&net.world, net_listen(&net, 7, 1))->kind;
    CHECK(ci_sim_address_is_taken(&net.world, listener, net.a, htons(7)));
    CHECK(!ci_sim_address_is_taken(&net.world, listener, net.b, htons(7)));
    CHECK(!ci_sim_address_is_taken(&net.world, listener, net.a, 0));
    CHECK_EQ(net_listen(&net, 7, 1), -EADDRINUSE);
    CHECK(net_listen(&net, 0, 1) >= 0);
    net_close(&net);
}

TEST(ends_of_a_connection_name_each_other)
{
    struct net net;
    coir_fd client, server;
    struct sockaddr_storage own, peer;
    socklen_t len;
    net_open(&net, 1);
    net_pair(&net, &client, &server);
    CHECK_EQ(ci_socket_address(&net.world, client, false, &own, &len), 0);
    CHECK_EQ(ci_socket_address(&net.world, server, true, &peer, &len), 0);
    CHECK_EQ(len, sizeof(struct sockaddr_in));
    CHECK_EQ(memcmp(&own, &peer, len), 0);
    CHECK_EQ(ci_socket_address(&net.world, 99, true, &peer, &len), -EBADF);
    coir_fd alone = net.on_b->kind->socket(net.on_b, AF_INET);
    CHECK_EQ(ci_socket_address(&net.world, alone, true, &peer, &len), -ENOTCONN);
    net_close(&net);
}
