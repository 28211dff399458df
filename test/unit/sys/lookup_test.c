/* What the system knows about names: numbers and localhost need no name server. */
#include "sys/lookup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "harness.h"

TEST(an_address_in_digits_is_itself)
{
    struct ci_ips ips;
    struct in_addr four;
    struct in6_addr six;
    CHECK_EQ(ci_sys_lookup("192.0.2.7", AF_INET, &ips), 0);
    inet_pton(AF_INET, "192.0.2.7", &four);
    CHECK_EQ(ips.count, 1);
    CHECK_EQ(ips.ip[0].four.sin_addr.s_addr, four.s_addr);
    CHECK_EQ(ips.ip[0].four.sin_port, 0);
    CHECK_EQ(ci_ip_len(&ips.ip[0]), sizeof(struct sockaddr_in));
    CHECK_EQ(ci_sys_lookup("2001:db8::7", AF_INET6, &ips), 0);
    inet_pton(AF_INET6, "2001:db8::7", &six);
    CHECK_EQ(ips.count, 1);
    CHECK(memcmp(&ips.ip[0].six.sin6_addr, &six, sizeof six) == 0);
    CHECK_EQ(ci_ip_len(&ips.ip[0]), sizeof(struct sockaddr_in6));
}

TEST(an_address_of_the_other_family_is_none)
{
    struct ci_ips ips = {.count = 3};
    CHECK_EQ(ci_sys_lookup("192.0.2.7", AF_INET6, &ips), -COIR_ENAME);
    CHECK_EQ(ips.count, 3); /* an error leaves it alone */
}

TEST(localhost_is_each_address_once)
{
    struct ci_ips ips;
    CHECK_EQ(ci_sys_lookup("localhost", AF_INET, &ips), 0);
    CHECK(ips.count >= 1);
    for (size_t i = 0; i < ips.count; i++)
        for (size_t j = 0; j < i; j++)
            CHECK(memcmp(&ips.ip[i], &ips.ip[j], sizeof ips.ip[i]) != 0);
}

TEST(the_stamp_is_that_of_the_files)
{
    CHECK(ci_sys_lookup_stamp() == ci_sys_lookup_stamp());
}
