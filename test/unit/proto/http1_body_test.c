/* Chunked bodies: what RFC 9112, 7.1 allows, whole and in pieces, and how much framing. */
#include "proto/http1_body.h"

#include <stdio.h>
#include <string.h>

#include "chunked.h"
#include "harness.h"

/* As decode_chunked; -2 when bytes are left over. */
static int64_t decode(const char *text, size_t len, size_t step, char *out)
{
    size_t used = 0;
    int64_t got = decode_chunked(text, len, step, out, &used);
    return got >= 0 && used != len ? -2 : got;
}

static void expect_body(const char *text, int64_t want, const char *content)
{
    char out[200];
    for (size_t step = 1; step <= strlen(text); step++) {
        int64_t got = decode(text, strlen(text), step, out);
        if (got != want || (content && memcmp(out, content, (size_t)got) != 0))
            test_fail(__FILE__, __LINE__, "got %lld, not %lld, for: %s", (long long)got,
                      (long long)want, text);
    }
}

TEST(chunked_bodies_are_decoded_or_refused)
{
    expect_body("0\r\n\r\n", 0, "");
    expect_body("5\r\nhello\r\n0\r\n\r\n", 5, "hello");
    expect_body("5;a=b;c=\"d\"\r\nhello\r\n1\r\n!\r\n000\r\nTrailer: x\r\nB: \r\n\r\n", 6,
                "hello!");
    expect_body("A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", 20, "01234567890123456789");
    expect_body("5\r\nhel", -1, NULL);
    static const char *const extended[] = {
        "5 ;a\r\nhello\r\n0\r\n\r\n",
        "5\t \t; \ta\r\nhello\r\n0\r\n\r\n",
        "5;a;b;c\r\nhello\r\n0;d\r\n\r\n",
        "5;a=b ;c = d\t; e\t=\"f\" ;g=\"\"\r\nhello\r\n0\r\n\r\n",
        "5;a=\"b;\\\"\\\\=\t\xff\"\r\nhello\r\n0\r\n\r\n",
        "0000000000000005\r\nhello\r\n0000000000000000\r\n\r\n",
    };
    for (size_t i = 0; i < ci_countof(extended); i++)
        expect_body(extended[i], 5, "hello");
    static const char *const bad[] = {
        "\r\n",
        "g\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhelloX\r\n",
        "5\r\nhello0\r\n\r\n",
        "-5\r\nhello\r\n",
        "+5\r\nhello",
        "0x5\r\nhello",
        " 5\r\nhello",
        "5 \r\nhello",
        "5\rhello",
        "fffffffffffffffff\r\n",
        "ffffffffffffffffffffffff\r\n",
        "5;\x01\r\nhello",
        "5;a\nhello\r\n0\r\n\r\n",
        /* extensions */
        "5;\r\n",
        "5;=\r\n",
        "5;;;\r\n",
        "5;\"\r\n",
        "5;\"a\"\r\n",
        "5;a=\r\n",
        "5;a= \r\n",
        "5;a=b=c\r\n",
        "5;a=\"b\r\n",
        "5;a=\"b\\\r\n",
        "5;a=\"b\"c\r\n",
        "5;a=b\"c\"\r\n",
        "5;a b\r\n",
        "5;a=b c\r\n",
        "5;a \r\n",
        "5;a=b \r\n",
        "5;a=\"b\" \r\n",
        "5; \r\n",
        "5 a\r\n",
        "5;a@b\r\n",
        "5;a=@\r\n",
        "5;a=\"\x01\"\r\n",
        "5;a=\"\x7f\"\r\n",
        /* sizes that do not fit */
        "10000000000000000\r\n",
        "4000000000000000\r\n",
        "ffffffffffffffff\r\n",
        "00000000000000005\r\n",
        "00000000000000000",
        "0\r\n\n",
        "0\r\nbad trailer\r\n\r\n",
        "0\r\n: x\r\n\r\n",
        "0\r\nA: \x01\r\n\r\n",
        "0\r\n folded\r\n\r\n",
    };
    for (size_t i = 0; i < ci_countof(bad); i++)
        expect_body(bad[i], -400, NULL);
}

/* The first so many bytes of an endless body of which `unit` is repeated; what it says, and how
 * much of it was taken. */
static int64_t feed_endlessly(const char *first, const char *unit, size_t most, size_t *ret_taken)
{
    struct ci_http1_head request = {.chunked = true};
    struct ci_http1_body body;
    size_t taken = 0;
    int64_t rc = 0;
    ci_http1_body_init(&body, &request);
    for (const char *text = first; rc >= 0 && taken < most; text = unit)
        for (size_t at = 0; rc >= 0 && at < strlen(text);) {
            size_t data = 0;
            if ((rc = ci_http1_body_frame(&body, text + at, strlen(text) - at, &data)) < 0)
                break;
            if (data)
                ci_http1_body_took(&body, data);
            at += (size_t)rc + data;
            taken += (size_t)rc + data;
        }
    *ret_taken = taken;
    return rc;
}

TEST(framing_is_bounded)
{
    static const struct {
        const char *first, *unit;
        int status; /* 0: this may go on */
    } cases[] = {
        {"", "0", 400},
        {"0", "0", 400},
        {"1;", "a", 400},
        {"1;a=", "b", 400},
        {"1;a=\"", "b", 400},
        {"1;a", ";a", 400},
        {"1", " ", 400},
        {"0\r\n", "a", 431},
        {"0\r\na:", "b", 431},
        {"0\r\n", "a:\r\n", 431},
        {"", "1;a=bcdefghijklmnopq\r\nx\r\n", 400}, /* 25 bytes of framing for one */
        {"", "1\r\nx\r\n", 0},
        {"", "0000000000001\r\nx\r\n", 400}, /* 17 bytes */
        {"", "000000000001\r\nx\r\n", 0},    /* 16 */
        {"",
         "40;a=bcdefghijk\r\n0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\r\n",
         0}, /* 19, and 4 for the data */
    };
    for (size_t i = 0; i < ci_countof(cases); i++) {
        size_t taken;
        int64_t rc = feed_endlessly(cases[i].first, cases[i].unit, 1000000, &taken);
        if (cases[i].status ? rc != -cases[i].status || taken > 250000 : rc < 0)
            test_fail(__FILE__, __LINE__, "%s%s: %lld after %zu bytes", cases[i].first,
                      cases[i].unit, (long long)rc, taken);
    }
}

/* The limit itself, and one beside. */
TEST(framing_may_reach_its_limit)
{
    static char text[2 * CI_HTTP1_FRAMING_MAX];
    for (int over = 0; over < 2; over++) {
        /* the last chunk leaves 1 byte that counts; the trailers have 6 more than the zeros */
        size_t used = 0;
        size_t len = (size_t)snprintf(text, sizeof text, "0\r\na:%0*d\r\n\r\n",
                                      CI_HTTP1_FRAMING_MAX - 7 + over, 0);
        CHECK_EQ(decode_chunked(text, len, len, NULL, &used), over ? -431 : 0);
        CHECK_EQ(decode_chunked(text, len, 1, NULL, &used), over ? -431 : 0);
        len = (size_t)snprintf(text, sizeof text, "5;%0*d\r\nhello\r\n0\r\n\r\n",
                               CI_HTTP1_FRAMING_MAX - 3 + over, 0);
        CHECK_EQ(decode_chunked(text, len, len, NULL, &used), over ? -400 : 5);
    }
}
