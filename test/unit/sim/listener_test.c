/* Simulated listeners: the backlog, and what becomes of it. */
#include "sim/listener.h"

#include <errno.h>

#include "net.h"
#include "sim/link.h"

static int accept_one(struct net *net, coir_fd listener, bool no_wait)
{
    return net_run(net, net->on_a,
                   (struct ci_op){.kind = CI_OP_ACCEPT, .fd = listener, .no_wait = no_wait});
}

TEST(connections_are_accepted_in_order)
{
    struct net net;
    coir_fd clients[3];
    net_open(&net, 1);
    coir_fd listener = net_listen(&net, 7, 3);
    CHECK_EQ(accept_one(&net, listener, true), -EAGAIN);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(net_connect(&net, 7, &clients[i]), 0);
    for (int i = 0; i < 3; i++) {
        coir_fd server = accept_one(&net, listener, true);
        CHECK(ci_socket_of(&net.world, server)->peer == ci_socket_of(&net.world, clients[i]));
    }
    net_close(&net);
}

/* The first segment is dropped, three times, a second apart. */
TEST(a_full_backlog_and_one_that_refuses_do_not_answer)
{
    struct net net;
    coir_fd client;
    net_open(&net, 1);
    coir_fd listener = net_listen(&net, 7, 1);
    CHECK_EQ(net_connect(&net, 7, &client), 0);
    coir_time before = net.world.now;
    CHECK_EQ(net_connect(&net, 7, &client), -ETIMEDOUT);
    CHECK(net.world.now - before >= 3 * COIR_S);
    CHECK(accept_one(&net, listener, true) >= 0);
    CHECK_EQ(net_connect(&net, 7, &client), 0);
    CHECK(accept_one(&net, listener, true) >= 0);
    CHECK_EQ(ci_sim_listener_refuse(&net.world, listener), 0);
    CHECK_EQ(net_connect(&net, 7, &client), -ETIMEDOUT);
    CHECK_EQ(ci_sim_listener_refuse(&net.world, client), -EINVAL);
    net_close(&net);
}

TEST(closing_resets_what_was_not_accepted)
{
    struct net net;
    coir_fd client;
    char byte;
    net_open(&net, 1);
    coir_fd listener = net_listen(&net, 7, 3);
    CHECK_EQ(net_connect(&net, 7, &client), 0);
    ci_driver_close(net.on_a, listener);
    CHECK_EQ(net_read(&net, net.on_b, client, &byte, 1), -ECONNRESET);
    CHECK_EQ(net_connect(&net, 7, &client), -ECONNREFUSED);
    net_close(&net);
}

TEST(a_connection_may_die_in_the_backlog)
{
    struct net net;
    coir_fd client;
    char byte;
    net_open(&net, 1);
    coir_fd listener = net_listen(&net, 7, 3);
    CHECK_EQ(net_connect(&net, 7, &client), 0);
    ci_world_link(&net.world, NULL, NULL, &(coir_link){.reset = 1});
    CHECK_EQ(accept_one(&net, listener, false), -ECONNABORTED);
    CHECK_EQ(net_read(&net, net.on_b, client, &byte, 1), -ECONNRESET);
    net.a->faults.no_descriptor = 1;
    ci_world_link(&net.world, NULL, NULL, &(coir_link){.latency = 1});
    CHECK_EQ(net_connect(&net, 7, &client), 0);
    int rc = accept_one(&net, listener, false);
    CHECK(rc == -EMFILE || rc == -ENFILE);
    net_close(&net);
}

TEST(no_descriptor_is_left_for_a_listener)
{
    struct net net;
    net_open(&net, 1);
    net.a->faults.no_descriptor = 1;
    coir_fd listener = net_listen(&net, 7, 1);
    CHECK(listener == -EMFILE || listener == -ENFILE);
    net.a->faults.no_descriptor = 0;
    CHECK(net_listen(&net, 7, 1) >= 0);
    net_close(&net);
}
