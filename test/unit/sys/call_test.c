/* System calls on descriptors of any kind, where they do more than the system's. */
#include "sys/call.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>

#include "harness.h"

TEST(an_eventfd_is_readable_until_it_is_drained)
{
    struct pollfd ready = {.fd = ci_sys_eventfd(), .events = POLLIN};
    CHECK_EQ(ci_sys_poll(&ready, 1, 0), 0);
    ci_sys_eventfd_add(ready.fd);
    ci_sys_eventfd_add(ready.fd);
    CHECK_EQ(ci_sys_poll(&ready, 1, -1), 1);
    ci_sys_eventfd_drain(ready.fd);
    CHECK_EQ(ci_sys_poll(&ready, 1, 0), 0);
    ci_sys_eventfd_drain(ready.fd); /* does not block */
    ci_sys_close(ready.fd);
}

TEST(localhost_is_the_loopback_address_and_other_names_are_unknown)
{
    struct ci_ips ips;
    coir_time delay;
    CHECK_EQ(ci_sys_resolve("LocalHost", AF_INET, &ips, &delay), 0);
    CHECK(ips.count == 1 && ips.ip[0].four.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    CHECK_EQ(ci_sys_resolve("localhost", AF_INET6, &ips, &delay), 0);
    CHECK(IN6_IS_ADDR_LOOPBACK(&ips.ip[0].six.sin6_addr));
    CHECK_EQ(ci_sys_resolve("localhost.example", AF_INET, &ips, &delay), -EAGAIN);
}
