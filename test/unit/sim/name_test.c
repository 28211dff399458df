/* Names of the simulated world: hosts, and what the scenario says about other names. */
#include "sim/name.h"

#include <errno.h>

#include "net.h"

static coir_time delay;

/* How many addresses of the family; *ret_first is the last number of the first IPv4 one. */
static int resolve(struct net *net, const char *name, int family, int *ret_first)
{
    struct ci_ips ips;
    int rc = ci_world_resolve(&net->world, name, family, &ips, &delay);
    if (rc < 0)
        return rc;
    if (family == AF_INET)
        *ret_first = (int)(ntohl(ips.ip[0].four.sin_addr.s_addr) & 0xff);
    return (int)ips.count;
}

TEST(a_host_has_its_name_while_it_has_its_address)
{
    struct net net;
    int last;
    net_open(&net, 1);
    CHECK_EQ(resolve(&net, "b", AF_INET, &last), 1);
    CHECK_EQ(last, net.b->number);
    CHECK_EQ(resolve(&net, "b", AF_INET6, NULL), -COIR_ENAME);
    CHECK_EQ(resolve(&net, "localhost", AF_INET, &last), 1);
    CHECK_EQ(last, 1);
    CHECK_EQ(resolve(&net, "localhost", AF_INET6, NULL), 1);
    CHECK_EQ(resolve(&net, "c", AF_INET, &last), -COIR_ENAME);
    CHECK_EQ(delay, 0);
    ci_world_kill(&net.world, net.b);
    int number = net.b->number;
    CHECK(ci_world_add_node(&net.world, "b"));
    CHECK_EQ(resolve(&net, "b", AF_INET, &last), 1);
    CHECK_EQ(last, number);
    net_close(&net);
}

TEST(name_servers_say_what_they_are_told_to)
{
    struct net net;
    int last;
    net_open(&net, 1);
    coir_name_answer answer = {
        .addresses = "192.0.2.9 b fd00::7 unknown", .latency = 5, .latency_ipv6 = 7};
    CHECK_EQ(ci_world_set_name(&net.world, "service", &answer), 0);
    CHECK_EQ(resolve(&net, "service", AF_INET, &last), 2);
    CHECK(last == 9 && delay == 5);
    CHECK_EQ(resolve(&net, "service", AF_INET6, NULL), 2); /* "b" has both */
    CHECK_EQ(delay, 7);
    answer = (coir_name_answer){.addresses = "", .error_ipv6 = -COIR_ENAMESERVER};
    CHECK_EQ(ci_world_set_name(&net.world, "service", &answer), 0);
    CHECK_EQ(resolve(&net, "service", AF_INET, &last), -COIR_ENAME);
    CHECK_EQ(resolve(&net, "service", AF_INET6, NULL), -COIR_ENAMESERVER);
    net_close(&net);
}

TEST(of_several_hosts_of_a_name_it_stays_with_the_first)
{
    struct net net;
    int last;
    net_open(&net, 1);
    CHECK(ci_world_add_node(&net.world, "a"));
    CHECK_EQ(resolve(&net, "a", AF_INET, &last), 1);
    CHECK_EQ(last, 1);
    ci_world_kill(&net.world, net.a);
    CHECK(ci_world_add_node(&net.world, "a"));
    CHECK_EQ(resolve(&net, "a", AF_INET, &last), 1);
    CHECK_EQ(last, 1);
    net_close(&net);
}
