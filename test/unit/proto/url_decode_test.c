/* Percent-encoding: decoded, and compared as if decoded. */
#include "proto/url_decode.h"

#include <string.h>

#include "harness.h"

static const char *decoded(const char *text, bool plus)
{
    static char to[100];
    return ci_url_decode(to, text, strlen(text), plus) ? to : NULL;
}

TEST(escapes_are_decoded_or_refused)
{
    CHECK(strcmp(decoded("a%20b+c%7e", true), "a b c~") == 0);
    CHECK(strcmp(decoded("a%20b+c%7E", false), "a b+c~") == 0);
    CHECK(strcmp(decoded("%c3%A9", false), "\xc3\xa9") == 0);
    CHECK(strcmp(decoded("", false), "") == 0);
    CHECK(!decoded("a%00b", false) && !decoded("%", false) && !decoded("a%4", false));
    CHECK(!decoded("%4g", false) && !decoded("%g4", false) && !decoded("%-1", false));
    char to[4], nul[] = {'a', '\0', 'b'};
    CHECK(!ci_url_decode(to, nul, sizeof nul, false));
    /* the length ends the text, not a NUL behind it */
    CHECK(!ci_url_decode(to, "%41", 2, false));
    CHECK(ci_url_decode(to, "%41", 3, false) && strcmp(to, "A") == 0);
}

static bool equal(const char *a, const char *b)
{
    CHECK_EQ(ci_url_equal(a, strlen(a), b, strlen(b)), ci_url_equal(b, strlen(b), a, strlen(a)));
    return ci_url_equal(a, strlen(a), b, strlen(b));
}

TEST(texts_are_compared_as_decoded)
{
    CHECK(equal("abc", "a%62c") && equal("%61%62%63", "abc") && equal("", ""));
    CHECK(equal("a%2fb", "a%2Fb") && !equal("a%2fb", "a/b")); /* that slash does not separate */
    CHECK(!equal("abc", "ab") && !equal("ab%63", "ab") && !equal("a", "A"));
    CHECK(equal("%c3%a9", "\xc3\xa9") && !equal("%25", "%2525"));
}
