/* The classes of characters, against the grammars that they are for. */
#include "proto/characters.h"

#include <string.h>

#include "harness.h"

#define DIGITS "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

static void expect_class(int class, const char *members, int from, int to)
{
    for (int c = 0; c < 256; c++) {
        bool member = (c && strchr(members, c)) || (c >= from && c <= to);
        if (ci_char_is((char)c, class) != member)
            test_fail(__FILE__, __LINE__, "class %d, character %d: %d", class, c, !member);
    }
}

TEST(classes_are_those_of_the_grammars)
{
    /* RFC 9110, 5.6.2: tchar */
    expect_class(CI_CHAR_TOKEN, "!#$%&'*+-.^_`|~" DIGITS LETTERS, 1, 0);
    /* RFC 3986, 2.2 and 2.3: unreserved, sub-delims; "%" begins an escape */
    expect_class(CI_CHAR_HOST, "-._~!$&'()*+,;=%" DIGITS LETTERS, 1, 0);
    /* what is reserved besides, and "{", "|", "}", which clients send though RFC 3986 has them
     * not */
    expect_class(CI_CHAR_TARGET, "-._~!$&'()*+,;=%:/?@[]{|}" DIGITS LETTERS, 1, 0);
    expect_class(CI_CHAR_HEX, DIGITS "abcdefABCDEF", 1, 0);
    for (int c = 0; c < 256; c++) /* RFC 9110, 5.5: field-content and white space */
        CHECK_EQ(ci_char_is((char)c, CI_CHAR_VALUE), c == '\t' || (c >= ' ' && c != 0x7f));
}

TEST(a_text_belongs_to_a_class_with_all_its_characters)
{
    CHECK(ci_chars_are("09aF", 4, CI_CHAR_HEX));
    CHECK(!ci_chars_are("09ag", 4, CI_CHAR_HEX));
    CHECK(ci_chars_are("09ag", 3, CI_CHAR_HEX));
    CHECK(ci_chars_are("g", 0, CI_CHAR_HEX));
}

/* Each character at each place of texts of each length, before others with and without controls. */
TEST(control_characters_are_found)
{
    char text[24];
    for (size_t len = 0; len <= sizeof text; len++)
        for (size_t at = 0; at < len; at++)
            for (int c = 0; c < 512; c++) {
                bool more = c > 255 && at + 1 < len;
                bool control = c % 256 < ' ' || c % 256 == 0x7f;
                for (size_t i = 0; i < sizeof text; i++)
                    text[i] = more && i > at ? "\x7f\x80 \n"[i % 4] : "\x80 ~"[i % 3];
                text[at] = (char)c;
                const char *want = text + (control ? at : len);
                for (size_t i = at + 1; more && !control && i < len && want == text + len; i++)
                    if (text[i] == 0x7f || text[i] == '\n')
                        want = text + i;
                CHECK(ci_chars_find_control(text, text + len) == want);
                CHECK_EQ(ci_chars_have_control(text, len), want < text + len);
            }
    CHECK(!ci_chars_have_control(text, 0));
}
