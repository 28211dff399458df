/* Links: which rule counts, what is cut, and how long bytes take. */
#include "sim/link.h"

#include "net.h"

TEST(the_last_link_that_was_set_counts)
{
    struct net net;
    net_open(&net, 1);
    CHECK(ci_world_find_link(&net.world, net.a, net.b)->latency <= COIR_MS); /* perfect */
    ci_world_link(&net.world, NULL, NULL, &(coir_link){.latency = 5 * COIR_MS});
    ci_world_link(&net.world, net.a, net.b, &(coir_link){.latency = 7 * COIR_MS, .one_way = true});
    CHECK_EQ(ci_world_find_link(&net.world, net.a, net.b)->latency, 7 * COIR_MS);
    CHECK_EQ(ci_world_find_link(&net.world, net.b, net.a)->latency, 5 * COIR_MS);
    ci_world_link(&net.world, net.b, NULL, &(coir_link){.latency = 9 * COIR_MS});
    CHECK_EQ(ci_world_find_link(&net.world, net.a, net.b)->latency, 9 * COIR_MS);
    CHECK_EQ(ci_world_find_link(&net.world, net.b, net.a)->latency, 9 * COIR_MS);
    CHECK_EQ(ci_world_find_link(&net.world, net.a, net.a)->latency, 5 * COIR_MS);
    net_close(&net);
}

TEST(a_dead_host_and_a_cut_link_are_cut_off)
{
    struct net net;
    net_open(&net, 1);
    CHECK(!ci_world_is_cut(&net.world, net.a, net.b));
    ci_world_link(&net.world, net.a, net.b, &(coir_link){.cut = true, .one_way = true});
    CHECK(ci_world_is_cut(&net.world, net.a, net.b));
    CHECK(!ci_world_is_cut(&net.world, net.b, net.a));
    ci_world_kill(&net.world, net.a);
    CHECK(ci_world_is_cut(&net.world, net.b, net.a));
    net_close(&net);
}

/* Bytes queue for the link, each direction for itself. */
TEST(bandwidth_is_shared)
{
    struct net net;
    net_open(&net, 1);
    coir_time now = net.world.now;
    ci_world_link(&net.world, NULL, NULL, &(coir_link){.bandwidth = 1000, .latency = COIR_MS});
    CHECK_EQ(ci_world_sent_at(&net.world, net.a, net.b, 500), now + COIR_S / 2);
    CHECK_EQ(ci_world_sent_at(&net.world, net.a, net.b, 500), now + COIR_S);
    CHECK_EQ(ci_world_arrival(&net.world, net.a, net.b, 1000), now + 2 * COIR_S + COIR_MS);
    CHECK_EQ(ci_world_sent_at(&net.world, net.b, net.a, 500), now + COIR_S / 2);
    const struct ci_node *other = ci_world_add_node(&net.world, "c");
    CHECK_EQ(ci_world_sent_at(&net.world, net.a, other, 500), now + COIR_S / 2);
    net.world.now += 10 * COIR_S; /* what was not used is lost */
    CHECK_EQ(ci_world_sent_at(&net.world, net.a, net.b, 1000), now + 11 * COIR_S);
    net_close(&net);
}

TEST(jitter_is_added_to_the_latency)
{
    struct net net;
    net_open(&net, 1);
    coir_time least = COIR_NEVER, most = 0;
    ci_world_link(&net.world, NULL, NULL, &(coir_link){.latency = 10, .jitter = 5});
    for (int i = 0; i < 1000; i++) {
        coir_time takes = ci_world_arrival(&net.world, net.a, net.b, 1) - net.world.now;
        least = takes < least ? takes : least;
        most = takes > most ? takes : most;
    }
    CHECK_EQ(least, 10);
    CHECK_EQ(most, 14);
    net_close(&net);
}
