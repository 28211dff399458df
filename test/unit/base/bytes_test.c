/* Short pieces of memory: every length around the bounds, and every byte of each. */
#include "base/bytes.h"

#include "harness.h"

enum { MOST = 40 };

TEST(bytes_are_put_where_they_belong_and_nowhere_else)
{
    char from[MOST], to[MOST + 2];
    for (int i = 0; i < MOST; i++)
        from[i] = (char)(i + 1);
    for (size_t len = 0; len <= MOST; len++) {
        memset(to, 0, sizeof to);
        CHECK(ci_bytes_put(to + 1, from, len) == to + 1 + len);
        CHECK_EQ(memcmp(to + 1, from, len), 0);
        CHECK_EQ(to[0], 0);
        CHECK_EQ(to[1 + len], 0);
    }
}

TEST(bytes_are_equal_if_each_of_them_is)
{
    char a[MOST], b[MOST];
    for (int i = 0; i < MOST; i++)
        a[i] = b[i] = (char)(i + 1);
    for (size_t len = 0; len <= MOST; len++) {
        CHECK(ci_bytes_equal(a, b, len));
        for (size_t at = 0; at < MOST; at++) {
            b[at] ^= 0x40;
            CHECK_EQ(ci_bytes_equal(a, b, len), at >= len);
            b[at] ^= 0x40;
        }
    }
}
