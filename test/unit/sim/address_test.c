/* Addresses: which host and which socket one leads to, and what a socket says of its own. */
#include "sim/address.h"

#include <errno.h>

#include "net.h"

static struct ci_socket *client_of(struct net *net, struct ci_driver *on)
{
    return ci_socket_of(&net->world, on->kind->socket(on, AF_INET));
}

static coir_fd listen_at(struct ci_driver *on, const void *address, bool ipv6_only, bool reuse_port)
{
    struct ci_listen listen = {.address = address,
                               .address_len = sizeof(struct sockaddr_in6),
                               .backlog = 1,
                               .ipv6_only = ipv6_only,
                               .reuse_port = reuse_port};
    return on->kind->listen(on, &listen);
}

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
    const struct ci_socket *on_a = client_of(&net, net.on_a), *on_b = client_of(&net, net.on_b);
    CHECK(ci_sim_address_find(&net.world, listener, on_b, &loopback, false)->fd == far);
    CHECK(!ci_sim_address_find(&net.world, listener, on_a, &b, false));
    coir_fd near = listen_at(net.on_b, &b, false, false);
    CHECK(ci_sim_address_find(&net.world, listener, on_b, &loopback, false)->fd == near);
    CHECK(ci_sim_address_find(&net.world, listener, on_a, &loopback, false)->fd == far);
    CHECK(!ci_sim_address_find(&net.world, listener, on_a, &loopback, true));
    net_close(&net);
}

TEST(a_port_is_taken_once_a_host_and_family)
{
    struct net net;
    net_open(&net, 1);
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(7)};
    const struct ci_socket_kind *listener = ci_socket_of(&net.world, net_listen(&net, 7, 1))->kind;
    const struct ci_socket *on_a = client_of(&net, net.on_a), *on_b = client_of(&net, net.on_b);
    CHECK(ci_sim_address_is_taken(&net.world, listener, on_a, htons(7)));
    CHECK(!ci_sim_address_is_taken(&net.world, listener, on_b, htons(7)));
    CHECK(!ci_sim_address_is_taken(&net.world, listener, on_a, 0));
    CHECK_EQ(net_listen(&net, 7, 1), -EADDRINUSE);
    CHECK_EQ(listen_at(net.on_a, &any, false, false), -EADDRINUSE);
    CHECK(listen_at(net.on_a, &any, true, false) >= 0);
    CHECK_EQ(listen_at(net.on_a, &any, true, true), -EADDRINUSE); /* both must share it */
    CHECK(net_listen(&net, 0, 1) >= 0);
    net_close(&net);
}

TEST(a_port_that_a_program_asked_for_is_given_to_no_other)
{
    struct net net;
    net_open(&net, 1);
    CHECK(net_listen(&net, CI_PORT_FIRST + 3, 1) >= 0);
    for (int i = 0; i < 9; i++)
        CHECK(ntohs(client_of(&net, net.on_a)->local.sin_port) != CI_PORT_FIRST + 3);
    net_close(&net);
}

TEST(no_host_listens_on_the_address_of_another)
{
    struct net net;
    net_open(&net, 1);
    struct sockaddr_in own = net_address(net.b, 7), loopback = own, others = net_address(net.a, 7);
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(8)};
    loopback.sin_port = htons(9);
    loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(listen_at(net.on_b, &own, false, false) >= 0);
    CHECK(listen_at(net.on_b, &loopback, false, false) >= 0);
    CHECK_EQ(listen_at(net.on_b, &others, false, false), -EADDRNOTAVAIL);
    others.sin_addr.s_addr = htonl(192u << 24 | 2 << 8 | 1);
    CHECK_EQ(listen_at(net.on_b, &others, false, false), -EADDRNOTAVAIL);
    six.sin6_addr.s6_addr[0] = 0xfd;
    six.sin6_addr.s6_addr[15] = (uint8_t)net.b->number;
    CHECK(listen_at(net.on_b, &six, false, false) >= 0);
    six.sin6_addr.s6_addr[15]++;
    CHECK_EQ(listen_at(net.on_b, &six, false, false), -EADDRNOTAVAIL);
    six.sin6_addr.s6_addr[0] = 0x20; /* no route leads there */
    CHECK_EQ(listen_at(net.on_b, &six, false, false), -EADDRNOTAVAIL);
    net_close(&net);
}

TEST(of_the_sockets_that_share_a_port_the_address_chooses)
{
    struct net net;
    net_open(&net, 1);
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(7)};
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(7), .sin_addr = ci_sim_address_of(net.a)};
    coir_fd first = listen_at(net.on_a, &any, false, true);
    coir_fd second = listen_at(net.on_a, &any, false, true);
    CHECK(first >= 0 && second >= 0);
    const struct ci_socket_kind *listener = ci_socket_of(&net.world, first)->kind;
    int got[2] = {0};
    for (int i = 0; i < 50; i++) {
        const struct ci_socket *client = client_of(&net, net.on_b);
        const struct ci_socket *found =
            ci_sim_address_find(&net.world, listener, client, &to, false);
        CHECK(found->fd == first || found->fd == second);
        CHECK(ci_sim_address_find(&net.world, listener, client, &to, false) == found);
        got[found->fd == second]++;
    }
    CHECK(got[0] > 10 && got[1] > 10);
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
