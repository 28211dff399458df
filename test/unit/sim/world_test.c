/* A whole world: the same from the same seed, and nothing of it is left afterwards (the sanitizer
 * would tell). */
#include "sim/world.h"

#include <fcntl.h>

#include "net.h"
#include "sim/disk.h"
#include "sim/link.h"

static uint64_t live(uint64_t seed)
{
    struct net net;
    coir_fd client, server;
    char text[10];
    net_open(&net, seed);
    ci_world_link(&net.world, NULL, NULL, &(coir_link){.jitter = COIR_MS, .loss = 0.1});
    net_pair(&net, &client, &server);
    CHECK_EQ(net_write(&net, net.on_b, client, "hello"), 5);
    CHECK_EQ(net_read(&net, net.on_a, server, text, sizeof text), 5);
    CHECK(ci_disk_open(net.a, "x", O_RDWR | O_CREAT) >= 0);
    CHECK_EQ(net_write(&net, net.on_a, server, "never read"), 10);
    net_close(&net);
    return net.world.trace_hash;
}

TEST(the_same_seed_does_the_same_again)
{
    CHECK(live(1) == live(1));
    CHECK(live(1) != live(2));
}
