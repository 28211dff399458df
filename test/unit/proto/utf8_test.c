/* UTF-8 in pieces: every code point, every pair of bytes against a decoder that reads a character
 * at a time, and every way to cut a text in three. */
#include "proto/utf8.h"

#include <string.h>

#include "harness.h"

/* What RFC 3629 says of one character: its length at `at`, 0: it is none, -1: it is cut off. */
static int length_at(const uint8_t *at, size_t len)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    int size = at[0] < 0x80             ? 1
               : (at[0] & 0xe0) == 0xc0 ? 2
               : (at[0] & 0xf0) == 0xe0 ? 3
               : (at[0] & 0xf8) == 0xf0 ? 4
                                        : 0;
    uint32_t code = at[0] & (size == 1 ? 0x7f : 0x7f >> size);
    for (int i = 1; i < size; i++) {
        if ((size_t)i == len)
            return -1;
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3f);
    }
    bool fits = size > 0 && code >= least[size] && code <= 0x10ffff;
    return fits && !(code >= 0xd800 && code <= 0xdfff) ? size : 0;
}

static bool whole_by_the_decoder(const uint8_t *text, size_t len)
{
    for (size_t at = 0; at < len;) {
        int size = length_at(text + at, len - at);
        if (size <= 0)
            return false;
        at += (size_t)size;
    }
    return true;
}

static bool whole(const uint8_t *text, size_t len, size_t cut)
{
    struct ci_utf8 utf8 = {0};
    bool valid = ci_utf8_check(&utf8, text, cut) && ci_utf8_check(&utf8, text + cut, len - cut);
    return valid && ci_utf8_is_whole(&utf8);
}

static size_t encode(uint32_t code, uint8_t *to)
{
    size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = size; i-- > 1; code >>= 6)
        to[i] = (uint8_t)(0x80 | (code & 0x3f));
    to[0] = (uint8_t)(leads[size] | code);
    return size;
}

TEST(every_code_point)
{
    uint8_t text[4];
    for (uint32_t code = 0; code < 0x120000; code++) {
        size_t len = encode(code, text);
        bool valid = code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
        for (size_t cut = 0; cut <= len; cut++)
            if (whole(text, len, cut) != valid)
                test_fail(__FILE__, __LINE__, "U+%04X, cut at %zu", code, cut);
    }
}

/* Three bytes of every kind, and whether the error shows at the first byte that cannot be right. */
TEST(every_three_bytes)
{
    static const uint8_t kinds[] = {0,    0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0,
                                    0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0,
                                    0xf1, 0xf3, 0xf4, 0xf5, 0xf7, 0xf8, 0xfb, 0xfe, 0xff};
    enum { KINDS = sizeof kinds };
    for (int i = 0; i < KINDS * KINDS * KINDS; i++) {
        uint8_t text[] = {kinds[i / KINDS / KINDS], kinds[i / KINDS % KINDS], kinds[i % KINDS]};
        for (size_t cut = 0; cut <= 3; cut++)
            if (whole(text, 3, cut) != whole_by_the_decoder(text, 3))
                test_fail(__FILE__, __LINE__, "%02x %02x %02x", text[0], text[1], text[2]);
    }
    static const uint8_t bad[][3] = {
        {0xe0, 0x9f}, {0xed, 0xa0}, {0xf0, 0x8f}, {0xf4, 0x90}, {0xc1}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct ci_utf8 utf8 = {0};
        CHECK(!ci_utf8_check(&utf8, bad[i], strlen((const char *)bad[i])));
    }
}

/* A bad byte at each place of a long text, and a character across each end of the fast path. */
TEST(long_texts)
{
    uint8_t text[200];
    for (size_t at = 0; at < sizeof text - 4; at++) {
        memset(text, 'a', sizeof text);
        CHECK(whole(text, sizeof text, at));
        memcpy(text + at, "\xf0\x9f\x98\x80", 4);
        CHECK(whole(text, sizeof text, at + 2));
        text[at + 3] = 'a';
        CHECK(!whole(text, sizeof text, 0));
    }
}
