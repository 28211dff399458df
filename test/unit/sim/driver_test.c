/* The simulated driver: its clocks, and what it refuses. Its operations are also those of the suite
 * for every driver (test/drivers). */
#include "sim/driver.h"

#include <errno.h>

#include "net.h"

TEST(its_clock_is_the_worlds)
{
    struct net net;
    net_open(&net, 1);
    CHECK_EQ(ci_driver_now(net.on_a), net.world.now);
    net.world.now += 5;
    CHECK_EQ(ci_driver_now(net.on_a), net.world.now);
    CHECK(net.on_a->kind->simulated);
    net_close(&net);
}

TEST(the_time_of_day_jumps_when_a_fault_says_so)
{
    struct net net;
    net_open(&net, 1);
    coir_time wall = net.on_a->kind->wall(net.on_a);
    CHECK(wall > 1767225600 * COIR_S); /* 2026 */
    CHECK_EQ(net.on_a->kind->wall(net.on_a), wall);
    net.a->faults.clock_jump = 1;
    coir_time jumped = net.on_a->kind->wall(net.on_a) - wall;
    CHECK(jumped != 0 && jumped > -3601 * COIR_S && jumped < 3601 * COIR_S);
    CHECK_EQ(net.on_b->kind->wall(net.on_b), wall);
    net_close(&net);
}

TEST(foreign_descriptors_and_unknown_options_are_refused)
{
    struct net net;
    net_open(&net, 1);
    CHECK_EQ(net_run(&net, net.on_a, (struct ci_op){.kind = CI_OP_FOREIGN, .fd = 0}), -EOPNOTSUPP);
    CHECK_EQ(net_run(&net, net.on_a, (struct ci_op){.kind = CI_OP_WATCH, .fd = 0}), -EOPNOTSUPP);
    coir_fd fd = net.on_a->kind->socket(net.on_a, AF_INET);
    CHECK_EQ(net.on_a->kind->option(net.on_a, fd, COIR_TCP_NODELAY, 1), 0);
    CHECK_EQ(net.on_a->kind->option(net.on_a, fd, COIR_TCP_NODELAY, -1), -EINVAL);
    CHECK_EQ(net.on_a->kind->option(net.on_a, fd, (enum coir_tcp_option)99, 1), -EINVAL);
    net_close(&net);
}

TEST(a_wake_makes_it_busy_until_the_next_wait)
{
    struct net net;
    net_open(&net, 1);
    CHECK(!ci_sim_driver_busy(net.on_a));
    net.on_a->kind->wake(net.on_a);
    CHECK(ci_sim_driver_busy(net.on_a));
    net.on_a->kind->wait(net.on_a, 0);
    CHECK(!ci_sim_driver_busy(net.on_a));
    net_close(&net);
}
