/* coir_resolve: the addresses that a text means, in which order, and what is wrong with it. */
#include "names.h"

static void expect_wildcard(enum coir_family family, const char *expected)
{
    coir_resolve_options options = COIR_RESOLVE_OPTIONS;
    coir_address address;
    char text[64];
    options.family = family;
    CHECK_EQ(coir_resolve_with(":84", &options, &address, 1), 1);
    CHECK(coir_address_format(&address, text, sizeof text) > 0);
    CHECK(strcmp(text, expected) == 0);
}

static int find(void *arg)
{
    coir_address one;
    (void)arg;
    expect("7.example:80", 2, "[fd01::7]:80", "10.1.0.7:80");
    expect("127.0.0.1:81", 1, "127.0.0.1:81");
    expect("[::1]:82", 1, "[::1]:82");
    expect("localhost:83", 2, "[::1]:83", "127.0.0.1:83");
    CHECK_EQ(coir_resolve("7.example:80", NULL, 0), 2);
    CHECK_EQ(coir_resolve("7.example:80", &one, 1), 2);
    CHECK_EQ(resolve_one("[::1]:82", COIR_IPV4), -COIR_ENAME);
    CHECK_EQ(resolve_one("[::1]:82", COIR_IPV6), 1);
    CHECK_EQ(resolve_one("7.example:80", (enum coir_family)5), -EINVAL);
    expect(":84", 1, "[::]:84");
    expect_wildcard(COIR_IPV4, "0.0.0.0:84");
    expect_wildcard(COIR_IPV6, "[::]:84");
    CHECK_EQ(coir_resolve("7.example", &one, 1), -COIR_EPORT);
    CHECK_EQ(coir_resolve("fd:0", &one, 1), -COIR_EADDRESS);
    CHECK_EQ(coir_resolve("unknown:80", &one, 1), -COIR_ENAME);
    CHECK_EQ(coir_resolve("broken:80", &one, 1), -COIR_ENAMESERVER);
    coir_case cases[] = {coir_case_resolve("9.example:1", &one, 1), coir_case_after(1000 * COIR_S)};
    CHECK_EQ(coir_select(cases, 2), 0);
    CHECK_EQ(cases[0].result, 2);
    coir_name_op op;
    CHECK_EQ(coir_await(coir_resolve_op(&op, "11.example:1", &one, 1)), 2);
    CHECK_EQ(coir_await(coir_resolve_op(&op, NULL, &one, 1)), -EINVAL);
    CHECK_EQ(coir_resolve(NULL, &one, 1), -EINVAL);
    CHECK_EQ(coir_resolve("7.example:80", NULL, 1), -EINVAL);
    CHECK_EQ(coir_resolve_with(NULL, NULL, &one, 1), -EINVAL);
    coir_listener *listener;
    CHECK_EQ(coir_tcp_listen("unknown:80", &listener), -COIR_ENAME);
    CHECK_EQ(coir_tcp_listen("7.example:80", &listener), -EADDRNOTAVAIL);
    return 0;
}

TEST(names_have_addresses)
{
    run(find, 1);
}
