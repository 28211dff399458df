/* The trace: its lines, and the hash by which runs are compared. */
#include "sim/trace.h"

#include "net.h"

static char lines[1000];

static void keep(const char *line, void *arg)
{
    CHECK(arg == lines);
    strcat(strcat(lines, line), "\n");
}

static uint64_t hash_of(const char *what, coir_time when)
{
    struct net net;
    net_open(&net, 1);
    net.world.now = when;
    ci_world_trace(&net.world, net.a, "%s", what);
    net_close(&net);
    return net.world.trace_hash;
}

TEST(a_line_has_the_time_and_the_host)
{
    struct net net;
    net_open(&net, 1);
    net.world.trace = keep;
    net.world.trace_arg = lines;
    net.world.now = 2 * COIR_S + 34;
    ci_world_trace(&net.world, net.b, "hello %d", 7);
    ci_world_trace(&net.world, NULL, "nobody");
    net.world.trace = NULL;
    CHECK_EQ(strcmp(lines, "2.000000034 b hello 7\n2.000000034 - nobody\n"), 0);
    net_close(&net);
}

TEST(the_hash_is_of_every_line)
{
    CHECK(hash_of("x", COIR_S) == hash_of("x", COIR_S));
    CHECK(hash_of("x", COIR_S) != hash_of("y", COIR_S));
    CHECK(hash_of("x", COIR_S) != hash_of("x", COIR_S + 1));
}
