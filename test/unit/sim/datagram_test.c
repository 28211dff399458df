/* Simulated datagrams: delivered whole to their address, lost, doubled, and refused. */
#include "sim/datagram.h"

#include <errno.h>
#include <sys/uio.h>

#include "net.h"
#include "sim/link.h"

static coir_fd open_on(struct net *net, struct ci_node *node, unsigned port,
                       const struct sockaddr_in *peer)
{
    struct sockaddr_in address = net_address(node, port);
    struct ci_datagram datagram = {.address = (struct sockaddr *)&address,
                                   .address_len = sizeof address,
                                   .peer = (const struct sockaddr *)peer,
                                   .peer_len = sizeof *peer};
    return ci_sim_datagram_open(&net->world, node, &datagram);
}

static int transfer(struct net *net, struct ci_driver *driver, enum ci_op_kind kind, coir_fd fd,
                    struct sockaddr_in *address, void *data, size_t len)
{
    struct iovec iov = {data, len};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_name = address};
    if (address)
        message.msg_namelen = sizeof *address;
    int rc = net_run(
        net, driver,
        (struct ci_op){.kind = (uint8_t)kind, .fd = fd, .message = &message, .no_wait = true});
    return rc >= 0 && message.msg_flags & MSG_TRUNC ? -EMSGSIZE : rc;
}

TEST(arrive_whole_with_their_sender)
{
    struct net net;
    char text[10];
    net_open(&net, 1);
    struct sockaddr_in to = net_address(net.a, 7), from;
    coir_fd a = open_on(&net, net.a, 7, NULL), b = open_on(&net, net.b, 8, NULL);
    CHECK_EQ(open_on(&net, net.a, 7, NULL), -EADDRINUSE);
    CHECK_EQ(transfer(&net, net.on_b, CI_OP_SEND, b, &to, (char[]){"hello"}, 5), 5);
    CHECK_EQ(transfer(&net, net.on_b, CI_OP_SEND, b, &to, NULL, 0), 0);
    while (net_pass(&net)) {
    }
    CHECK_EQ(transfer(&net, net.on_a, CI_OP_RECEIVE, a, &from, text, 3), -EMSGSIZE);
    CHECK_EQ(ntohs(from.sin_port), 8);
    CHECK_EQ(ntohl(from.sin_addr.s_addr) & 0xff, net.b->number);
    CHECK_EQ(transfer(&net, net.on_a, CI_OP_RECEIVE, a, &from, text, 3), 0);
    CHECK_EQ(transfer(&net, net.on_a, CI_OP_RECEIVE, a, &from, text, 3), -EAGAIN);
    CHECK_EQ(transfer(&net, net.on_b, CI_OP_SEND, b, NULL, text, 3), -EDESTADDRREQ);
    static char large[70000];
    CHECK_EQ(transfer(&net, net.on_b, CI_OP_SEND, b, &to, large, sizeof large), -EMSGSIZE);
    net_close(&net);
}

TEST(are_lost_doubled_and_dropped_where_too_many_wait)
{
    for (int way = 0; way < 3; way++) {
        struct net net;
        char byte;
        int count = 0;
        net_open(&net, 1);
        struct sockaddr_in to = net_address(net.a, 7);
        coir_fd a = open_on(&net, net.a, 7, NULL), b = open_on(&net, net.b, 8, NULL);
        ci_world_link(&net.world, NULL, NULL,
                      &(coir_link){.loss = way == 0, .duplicate = way == 1, .latency = 1});
        for (int i = 0; i < (way == 2 ? 100 : 10); i++)
            CHECK_EQ(transfer(&net, net.on_b, CI_OP_SEND, b, &to, (char[]){"x"}, 1), 1);
        while (net_pass(&net)) {
        }
        while (transfer(&net, net.on_a, CI_OP_RECEIVE, a, NULL, &byte, 1) == 1)
            count++;
        CHECK_EQ(count, way == 0 ? 0 : way == 1 ? 20 : 64);
        net_close(&net);
    }
}

/* It hears its peer alone, and of a port where no socket is. */
TEST(a_connected_socket)
{
    struct net net;
    char byte;
    net_open(&net, 1);
    struct sockaddr_in to = net_address(net.a, 7), back = net_address(net.b, 8);
    coir_fd b = open_on(&net, net.b, 8, &to);
    CHECK_EQ(transfer(&net, net.on_b, CI_OP_SEND, b, NULL, (char[]){"x"}, 1), 1);
    while (net_pass(&net)) {
    }
    CHECK_EQ(transfer(&net, net.on_b, CI_OP_RECEIVE, b, NULL, &byte, 1), -ECONNREFUSED);
    CHECK_EQ(transfer(&net, net.on_b, CI_OP_RECEIVE, b, NULL, &byte, 1), -EAGAIN);
    coir_fd other = open_on(&net, net.a, 9, NULL), peer = open_on(&net, net.a, 7, NULL);
    CHECK_EQ(transfer(&net, net.on_a, CI_OP_SEND, other, &back, (char[]){"o"}, 1), 1);
    CHECK_EQ(transfer(&net, net.on_a, CI_OP_SEND, peer, &back, (char[]){"p"}, 1), 1);
    while (net_pass(&net)) {
    }
    CHECK_EQ(transfer(&net, net.on_b, CI_OP_RECEIVE, b, NULL, &byte, 1), 1);
    CHECK_EQ(byte, 'p');
    CHECK_EQ(transfer(&net, net.on_b, CI_OP_RECEIVE, b, NULL, &byte, 1), -EAGAIN);
    net_close(&net);
}
