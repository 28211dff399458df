/* Names of hosts are resolved to their addresses. */
#include "sim/name.h"

#include "net.h"

static int resolve(struct net *net, const char *name, struct sockaddr_in *ret)
{
    struct sockaddr_storage address;
    socklen_t len;
    int rc = ci_world_resolve(&net->world, name, &address, &len);
    memcpy(ret, &address, sizeof *ret);
    return rc < 0 ? rc : (int)len;
}

TEST(a_host_has_its_name_while_it_has_its_address)
{
    struct net net;
    struct sockaddr_in address;
    net_open(&net, 1);
    CHECK_EQ(resolve(&net, "b", &address), sizeof address);
    CHECK_EQ(ntohl(address.sin_addr.s_addr), 10u << 24 | (unsigned)net.b->number);
    CHECK_EQ(resolve(&net, "localhost", &address), sizeof address);
    CHECK_EQ(ntohl(address.sin_addr.s_addr), INADDR_LOOPBACK);
    CHECK_EQ(resolve(&net, "c", &address), -COIR_ENAME);
    ci_world_kill(&net.world, net.b);
    ci_world_add_node(&net.world, "b");
    CHECK_EQ(resolve(&net, "b", &address), sizeof address);
    net_close(&net);
}
