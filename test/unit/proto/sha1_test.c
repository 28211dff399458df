/* SHA-1 and Base64 by the examples of their standards, and of every length around a block. */
#include "proto/sha1.h"

#include <stdio.h>
#include <string.h>

#include "harness.h"

static bool digest_is(const char *text, const char *want)
{
    uint8_t digest[CI_SHA1_SIZE];
    char hex[2 * CI_SHA1_SIZE + 1];
    ci_sha1(text, strlen(text), digest);
    for (int i = 0; i < CI_SHA1_SIZE; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    return strcmp(hex, want) == 0;
}

TEST(sha1_of_the_examples)
{
    CHECK(digest_is("", "da39a3ee5e6b4b0d3255bfef95601890afd80709"));
    CHECK(digest_is("abc", "a9993e364706816aba3e25717850c26c9cd0d89d"));
    CHECK(digest_is("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                    "84983e441c3bd26ebaae4aa1f95129e5e54670f1"));
    CHECK(digest_is("The quick brown fox jumps over the lazy dog",
                    "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12"));
}

/* Of n times "a", for each n at which the padding changes its form; by sha1sum. */
TEST(sha1_around_a_block)
{
    static const struct {
        int len;
        const char *digest;
    } cases[] = {
        {55, "c1c8bbdc22796e28c0e15163d20899b65621d65a"},
        {56, "c2db330f6083854c99d4b5bfb6e8f29f201be699"},
        {63, "03f09f5b158a7a8cdad920bddc29b81c18a551f5"},
        {64, "0098ba824b5c16427bd7a1122a5a442a25ec644d"},
        {65, "11655326c708d70319be2610e8a57d9a5b959d3b"},
        {119, "ee971065aaa017e0632a8ca6c77bb3bf8b1dfc56"},
    };
    char text[120];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memset(text, 'a', sizeof text);
        text[cases[i].len] = '\0';
        CHECK(digest_is(text, cases[i].digest));
    }
}

TEST(base64_of_the_examples)
{
    static const char *const cases[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"},
                                           {"\xfb\xef\xbe\xff", "++++/w=="}};
    char text[16];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK_EQ(ci_base64(cases[i][0], strlen(cases[i][0]), text), strlen(cases[i][1]));
        CHECK(strcmp(text, cases[i][1]) == 0);
    }
}
