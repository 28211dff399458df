/* Simulated streams: bytes in order, a bounded window, ends and resets. */
#include "sim/stream.h"

#include <errno.h>

#include "net.h"
#include "sim/link.h"

enum { WINDOW = 64 * 1024 };

TEST(bytes_arrive_in_order_over_a_link_that_delays_each)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct net net;
        coir_fd client, server;
        char text[4] = "";
        net_open(&net, seed);
        net_pair(&net, &client, &server);
        ci_world_link(&net.world, NULL, NULL,
                      &(coir_link){.latency = COIR_MS, .jitter = COIR_S, .loss = 0.3});
        for (char c = 'a'; c <= 'z'; c++)
            CHECK_EQ(net_write(&net, net.on_b, client, (char[]){c, 0}), 1);
        CHECK_EQ(ci_sim_stream_shutdown_write(&net.world, client), 0);
        CHECK_EQ(net_write(&net, net.on_b, client, "x"), -EPIPE);
        for (char c = 'a'; c <= 'z'; c++) {
            CHECK_EQ(net_read(&net, net.on_a, server, text, 1), 1);
            CHECK_EQ(text[0], c);
        }
        CHECK_EQ(net_read(&net, net.on_a, server, text, 1), 0);
        net_close(&net);
    }
}

TEST(the_end_arrives_once)
{
    struct net net;
    coir_fd client, server;
    char byte;
    net_open(&net, 1);
    net_pair(&net, &client, &server);
    CHECK_EQ(ci_sim_stream_shutdown_write(&net.world, client), 0);
    CHECK_EQ(ci_sim_stream_shutdown_write(&net.world, client), 0);
    ci_driver_close(net.on_b, client);
    while (net_pass(&net)) {
    }
    CHECK_EQ(net_read(&net, net.on_a, server, &byte, 1), 0);
    net_close(&net);
}

TEST(a_writer_waits_for_the_peer_to_read)
{
    static char block[2 * WINDOW];
    struct net net;
    coir_fd client, server;
    net_open(&net, 1);
    net_pair(&net, &client, &server);
    struct ci_op write = {
        .kind = CI_OP_WRITE, .fd = client, .data = block, .len = sizeof block, .done = net_done};
    CHECK(ci_driver_start(net.on_b, &write));
    CHECK_EQ(write.result, WINDOW);
    CHECK(!ci_driver_start(net.on_b, &write));
    while (net_pass(&net)) {
    }
    CHECK(write.pending);
    CHECK_EQ(net_read(&net, net.on_a, server, block, 100), 100);
    CHECK_EQ(net_finish(&net, &write), 100);
    net_close(&net);
}

/* As the kernel does: a write fails at once. */
TEST(a_wait_for_room_is_told_of_the_end_of_its_own_direction)
{
    static char block[WINDOW];
    struct net net;
    coir_fd client, server;
    net_open(&net, 1);
    net_pair(&net, &client, &server);
    struct ci_op write = {
        .kind = CI_OP_WRITE, .fd = client, .data = block, .len = sizeof block, .done = net_done};
    struct ci_op poll = {.kind = CI_OP_POLL, .fd = client, .events = COIR_WRITE, .done = net_done};
    CHECK_EQ(net_run(&net, net.on_b, write), WINDOW);
    CHECK(!ci_driver_start(net.on_b, &poll));
    CHECK_EQ(ci_sim_stream_shutdown_write(&net.world, client), 0);
    CHECK_EQ(net_finish(&net, &poll), COIR_WRITE);
    net_close(&net);
}

TEST(closing_with_unread_bytes_resets)
{
    struct net net;
    coir_fd client, server;
    char byte;
    net_open(&net, 1);
    net_pair(&net, &client, &server);
    CHECK_EQ(net_write(&net, net.on_b, client, "x"), 1);
    net_pass(&net);
    ci_driver_close(net.on_a, server);
    CHECK_EQ(net_read(&net, net.on_b, client, &byte, 1), -ECONNRESET);
    CHECK_EQ(net_read(&net, net.on_b, client, &byte, 1), 0); /* it is told once */
    CHECK_EQ(net_write(&net, net.on_b, client, "x"), -EPIPE);
    net_close(&net);
}

TEST(a_close_is_an_end_or_a_reset_when_asked_for)
{
    for (int resets = 0; resets <= 1; resets++) {
        struct net net;
        coir_fd client, server;
        char byte;
        net_open(&net, 1);
        net_pair(&net, &client, &server);
        CHECK_EQ(ci_sim_stream_reset_on_close(&net.world, server, resets), 0);
        ci_driver_close(net.on_a, server);
        CHECK_EQ(net_read(&net, net.on_b, client, &byte, 1), resets ? -ECONNRESET : 0);
        net_close(&net);
    }
    struct net net;
    net_open(&net, 1);
    CHECK_EQ(ci_sim_stream_reset_on_close(&net.world, 9, true), -EBADF);
    CHECK_EQ(ci_sim_stream_shutdown_write(&net.world, 9), -EBADF);
    net_close(&net);
}

TEST(events_are_what_the_stream_can_do)
{
    struct net net;
    coir_fd client, server;
    char byte;
    net_open(&net, 1);
    net_pair(&net, &client, &server);
    struct ci_op poll = {.kind = CI_OP_POLL, .fd = server, .events = COIR_READ, .done = net_done};
    CHECK(!ci_driver_start(net.on_a, &poll));
    CHECK_EQ(net_write(&net, net.on_b, client, "x"), 1);
    CHECK_EQ(net_finish(&net, &poll), COIR_READ);
    poll.events = COIR_WRITE;
    CHECK_EQ(net_run(&net, net.on_a, poll), COIR_WRITE);
    CHECK_EQ(net_read(&net, net.on_a, server, &byte, 1), 1);
    ci_driver_close(net.on_b, client);
    CHECK_EQ(net_read(&net, net.on_a, server, &byte, 1), 0);
    CHECK_EQ(ci_sim_stream_shutdown_write(&net.world, server), 0);
    CHECK_EQ(net_run(&net, net.on_a, poll) & COIR_HANGUP, COIR_HANGUP);
    net_close(&net);
}
