/* The request parser: what RFC 9112 allows, what it forbids, and every way to cut either into
 * pieces. */
#include "proto/http1.h"

#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "http1_compare.h"
#include "turkish.h"

static const struct ci_http1_limits limits = {200, 1000};
static struct ci_http1_head head;

/* Feeds `cut` bytes first, then one more at a time. */
static int parse_cut(const char *text, size_t len, size_t cut)
{
    int rc = 0;
    ci_http1_head_init(&head);
    for (size_t at = cut; at <= len && rc == 0; at++)
        rc = ci_http1_parse(&head, &limits, text, at);
    return rc;
}

/* Whole, and cut anywhere: the answer must be the same. */
static int parse(const char *text)
{
    size_t len = strlen(text);
    int whole;
    for (size_t cut = 0; cut < len; cut++) {
        int rc = parse_cut(text, len, cut);
        whole = parse_cut(text, len, len);
        if (rc != whole)
            test_fail(__FILE__, __LINE__, "cut at %zu: %d instead of %d: %s", cut, rc, whole, text);
    }
    return parse_cut(text, len, len);
}

static void expect(const char *text, int want)
{
    int got = parse(text);
    if (want > 0 ? got <= 0 : got != want)
        test_fail(__FILE__, __LINE__, "got %d, not %d, for: %s", got, want, text);
}

static int is(struct ci_span span, const char *text, const char *want)
{
    return span.len == strlen(want) && memcmp(text + span.at, want, span.len) == 0;
}

/* With empty lines in front, and without: those make the parser look for each line's end first. */
TEST(requests_are_understood)
{
    const char *with_empty_lines =
        "\r\n\r\nPOST /a/b?x=1&y=2 HTTP/1.1\r\nHost: example.com:80\r\nContent-Length:\t12 "
        "\r\nX-Thing:  a b\tc  \r\nX-Long: 0123456789 \r\nX-Spaces:  9876543210\r\n"
        "Empty:\r\n\r\n";
    for (int skip = 0; skip <= 4; skip += 2) {
        const char *text = with_empty_lines + skip;
        CHECK_EQ(parse(text), strlen(text));
        CHECK(is(head.method, text, "POST") && is(head.path, text, "/a/b") &&
              is(head.query, text, "x=1&y=2"));
        CHECK(is(head.host, text, "example.com:80"));
        CHECK(head.content_length == 12 && !head.chunked && head.keep_alive &&
              head.minor_version == 1);
        CHECK(is(ci_http1_find(&head, text, "x-thing", 7)->value, text, "a b\tc"));
        CHECK(is(ci_http1_find(&head, text, "x-long", 6)->value, text, "0123456789"));
        CHECK(is(ci_http1_find(&head, text, "x-spaces", 8)->value, text, "9876543210"));
        CHECK(is(ci_http1_find(&head, text, "empty", 5)->value, text, ""));
        CHECK(ci_http1_find(&head, text, "none", 4) == NULL);
        CHECK_EQ(head.field_count, 6);
    }
}

TEST(keep_alive_follows_version_and_connection)
{
    static const struct {
        const char *text;
        bool keep;
    } cases[] = {
        {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", true},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", false},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: foo, CLOSE ,bar\r\n\r\n", false},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: closed\r\n\r\n", true},
        {"GET / HTTP/1.0\r\n\r\n", false},
        {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true},
        {"GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", false},
        {"GET / HTTP/1.7\r\nHost: a\r\n\r\n", true},
    };
    for (size_t i = 0; i < ci_countof(cases); i++) {
        expect(cases[i].text, 1);
        CHECK_EQ(head.keep_alive, cases[i].keep);
    }
}

TEST(the_four_forms_of_a_target)
{
    const char *text = "GET http://example.org:81/x?y HTTP/1.1\r\nHost: other\r\n\r\n";
    expect(text, 1);
    CHECK(head.form == CI_TARGET_ABSOLUTE && is(head.host, text, "example.org:81") &&
          is(head.path, text, "/x") && is(head.query, text, "y"));
    text = "GET http://example.org HTTP/1.1\r\nHost: other\r\n\r\n";
    expect(text, 1);
    CHECK(head.form == CI_TARGET_ABSOLUTE && head.path.len == 0);
    expect("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 1);
    CHECK(head.form == CI_TARGET_ASTERISK);
    expect("GET * HTTP/1.1\r\nHost: a\r\n\r\n", -400);
    expect("CONNECT a.example:443 HTTP/1.1\r\nHost: a\r\n\r\n", 1);
    CHECK(head.form == CI_TARGET_AUTHORITY);
    expect("CONNECT /x HTTP/1.1\r\nHost: a\r\n\r\n", -400);
    expect("GET a.example:443 HTTP/1.1\r\nHost: a\r\n\r\n", -400);
    expect("GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", -400);
    expect("GET http:/// HTTP/1.1\r\nHost: a\r\n\r\n", -400);
    expect("GET http://user@a/ HTTP/1.1\r\nHost: a\r\n\r\n", -400);
}

/* Each is answered with the given status, wherever it is cut. */
TEST(bad_heads_get_their_status)
{
    static const struct {
        const char *text;
        int status;
    } cases[] = {
        /* line ends */
        {"GET / HTTP/1.1\nHost: a\n\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\n\r\n", 400},
        {"GET / HTTP/1.1\rHost: a\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a%zz\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a%4\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a:8o\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: :80\r\n\r\n", 400},
        {"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        /* request line */
        {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400},
        {"GET /\r\nHost: a\r\n\r\n", 400},
        {" GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"G@T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET /#f HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET / http/1.1\r\nHost: a\r\n\r\n", 400},
        {"GET / HTTP/1\r\nHost: a\r\n\r\n", 400},
        {"GET / HTTP/11\r\nHost: a\r\n\r\n", 400},
        {"GET / HTTP/1.10\r\nHost: a\r\n\r\n", 400},
        {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
        {"GET / HTTP/0.9\r\nHost: a\r\n\r\n", 505},
        /* host */
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400},
        {"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: [::1]x\r\n\r\n", 400},
        /* fields */
        {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\n X: folded\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n\tfolded\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nX\x7f: b\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nX: \x01\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nX: \x7f\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nExpect: more\r\n\r\n", 417},
        /* lengths */
        {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5 5\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", 400},
        /* smuggling */
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
         400},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
         400},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: "
         "chunked\r\n\r\n",
         400},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0b"
         "chunked\r\n\r\n",
         400},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n", 400},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501},
        {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    };
    for (size_t i = 0; i < ci_countof(cases); i++)
        expect(cases[i].text, -cases[i].status);
}

/* Whatever lay in a head before: it is parsed, whole or cut off anywhere, to the same members. */
TEST(a_head_says_nothing_of_the_request_before_it)
{
    static const char *const texts[] = {
        "",
        "\n",
        "HEAD\n",
        "HEAD / HTTP/1.1\n",
        "\r\n\r\nPOST http://b/a?x=1 HTTP/1.0\r\nHost: a\r\nConnection: "
        "keep-alive\r\nContent-Length: 12 \r\nExpect: 100-continue\r\n\r\n",
        "CONNECT a:1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\nX: "
        "y\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    };
    for (size_t i = 0; i < ci_countof(texts); i++)
        for (size_t len = 0; len <= strlen(texts[i]); len++) {
            static struct ci_http1_head fresh, used;
            memset(&fresh, 0, sizeof fresh);
            memset(&used, 0xa5, sizeof used);
            ci_http1_head_init(&fresh);
            ci_http1_head_init(&used);
            int rc = ci_http1_parse(&fresh, &limits, texts[i], len);
            CHECK_EQ(ci_http1_parse(&used, &limits, texts[i], len), rc);
            size_t size =
                offsetof(struct ci_http1_head, fields) + fresh.field_count * sizeof *fresh.fields;
            if (memcmp(&fresh, &used, size) != 0)
                test_fail(__FILE__, __LINE__, "%zu bytes of: %s", len, texts[i]);
        }
}

/* Who does not see that a body has chunks takes what is in it for a request. */
TEST(names_are_compared_whatever_the_locale)
{
    static const char chunks[] = "POST / HTTP/1.1\r\nHost: a\r\nTRANSFER-ENCODING: CHUNKED\r\n",
                      tail[] = "\r\n", length[] = "Content-Length: 5\r\n\r\n",
                      find[] = "GET / HTTP/1.1\r\nHost: a\r\nIf-None-Match: b\r\n\r\n";
    char text[200];
    snprintf(text, sizeof text, "%s%s", chunks, length);
    CHECK_EQ(parse(text), -400);
    snprintf(text, sizeof text, "%s%s", chunks, tail);
    CHECK(parse(text) > 0 && head.chunked);
    CHECK(parse(find) > 0 && ci_http1_find(&head, find, "if-none-match", 13));
}

TEST(nuls_are_refused)
{
    static const char in_target[] = "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n",
                      in_value[] = "GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n",
                      in_name[] = "GET / HTTP/1.1\r\nHost: a\r\nX\0: b\r\n\r\n";
    CHECK_EQ(parse_cut(in_target, sizeof in_target - 1, 0), -400);
    CHECK_EQ(parse_cut(in_value, sizeof in_value - 1, 0), -400);
    CHECK_EQ(parse_cut(in_name, sizeof in_name - 1, 0), -400);
}

/* What was searched for the end of its line is not looked at again while the line goes on: whatever
 * it is changed to, it is not seen. */
TEST(bytes_that_come_one_by_one_are_searched_once)
{
    static const char text[] = "\r\nGET /a/rather/long/path?and=a&query=too HTTP/1.1\r\nHost: "
                               "somewhere\r\nX: a value\r\n\r\n";
    static const char traps[] = {'\r', '\n', '\0'};
    for (size_t trap = 0; trap < sizeof traps; trap++)
        for (size_t step = 1; step < 5; step++) {
            char trapped[sizeof text];
            int rc = 0;
            ci_http1_head_init(&head);
            for (size_t have = step; rc == 0 && have < sizeof text; have += step) {
                memcpy(trapped, text, sizeof text);
                /* where the line begins that the last of these bytes belongs to */
                size_t line = head.scanned;
                while (line > 0 && text[line - 1] != '\n')
                    line--;
                bool ends = memchr(text + head.scanned, '\n', have - head.scanned) != NULL;
                if (!ends && head.scanned > line) /* but for the last one, which may be a CR */
                    memset(trapped + line, traps[trap], head.scanned - line - 1);
                rc = ci_http1_parse(&head, &limits, trapped, have);
                if (rc < 0)
                    test_fail(__FILE__, __LINE__, "%zu bytes: %d; they were searched again", have,
                              rc);
            }
        }
}

TEST(limits_hold)
{
    char text[4000];
    int len = snprintf(text, sizeof text, "GET /%0300d HTTP/1.1\r\nHost: a\r\n\r\n", 0);
    CHECK_EQ(parse_cut(text, (size_t)len, 0), -414);
    CHECK_EQ(parse_cut(text, (size_t)len, (size_t)len), -414);
    len = snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: a\r\nX: %01200d\r\n\r\n", 0);
    CHECK_EQ(parse_cut(text, (size_t)len, 0), -431);
    CHECK_EQ(parse_cut(text, (size_t)len, (size_t)len), -431);
    len = snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: a\r\n");
    for (int i = 0; i < CI_HTTP1_FIELDS; i++)
        len += snprintf(text + len, sizeof text - (size_t)len, "X:%d\r\n", i);
    len += snprintf(text + len, sizeof text - (size_t)len, "\r\n");
    CHECK_EQ(parse_cut(text, (size_t)len, 0), -431);
    memset(text, 'a', sizeof text);
    ci_http1_head_init(&head);
    /* without waiting for the line's end */
    CHECK_EQ(ci_http1_parse(&head, &limits, text, 201), -414);
}

/* Each limit at its value, and one beside; whole and byte by byte. */
static void expect_limit(const char *text, size_t len, int want)
{
    int whole = parse_cut(text, len, len), pieces = parse_cut(text, len, 0);
    if ((want > 0 ? whole != (int)len : whole != want) || whole != pieces)
        test_fail(__FILE__, __LINE__, "%d, %d in pieces, not %d: %.40s", whole, pieces, want, text);
}

TEST(limits_may_be_reached)
{
    char text[4000];
    for (int over = 0; over < 2; over++) {
        int len = snprintf(text, sizeof text, "GET /%0*d HTTP/1.1\r\nHost: a\r\n\r\n",
                           200 - 14 + over, 0);
        expect_limit(text, (size_t)len, over ? -414 : 1);
        len = snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: a\r\nX: %0*d\r\n\r\n",
                       1000 - 32 + over, 0);
        CHECK_EQ(len, 1000 + over);
        expect_limit(text, (size_t)len, over ? -431 : 1);
        len = snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: a\r\n");
        for (int i = 1; i < CI_HTTP1_FIELDS + over; i++)
            len += snprintf(text + len, sizeof text - (size_t)len, "X:%d\r\n", i);
        len += snprintf(text + len, sizeof text - (size_t)len, "\r\n");
        expect_limit(text, (size_t)len, over ? -431 : 1);
        len = snprintf(text, sizeof text,
                       "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: %s999999999999999999\r\n\r\n",
                       over ? "1" : "");
        expect_limit(text, (size_t)len, over ? -400 : 1);
    }
    CHECK_EQ(parse_cut(text, 0, 0), 0);
    int len = snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: a\r\nX: %01500d", 0);
    /* its end would come too late */
    CHECK(len > 1000 && parse_cut(text, 999, 999) == 0 && parse_cut(text, 1000, 1000) == -431);
}

/* ---- beside the oracle ---- */

static uint64_t random_state = 1;

static size_t below(size_t limit)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(random_state >> 33) % limit;
}

static const char *const pieces_of_requests[] = {
    "GET ",
    "POST ",
    "CONNECT ",
    "OPTIONS ",
    "/",
    "/a%41?b",
    "*",
    "http://",
    "a:80",
    " HTTP/1.1\r\n",
    " HTTP/1.0\r\n",
    "Host: ",
    "Host:a\r\n",
    "[::1]",
    "[",
    "]",
    "1:",
    "::",
    "1.2.3.4",
    "v1.a",
    "%00",
    "%zz",
    "%",
    ":",
    "@",
    "?",
    "#",
    "{",
    "|",
    "\r\n",
    "\r\n\r\n",
    "\r",
    "\n",
    " ",
    "\t",
    "Content-Length: ",
    "5",
    "18",
    "Transfer-Encoding: ",
    "chunked",
    ",",
    "Connection: ",
    "close",
    "keep-alive",
    "Expect: 100-continue\r\n",
    "X: y\r\n",
    "\x7f",
    "\x80",
    "a",
    ";",
    "=",
    "\"",
    "\\",
    "0\r\n\r\n",
    "5\r\nhello\r\n",
    "1\r\nx\r\n",
    ";a=b",
    ";a=\"b\"",
    "0000000000000000",
    "A: b\r\n",
};

static const char *const whole_requests[] = {
    "GET /a/b?c=d HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET http://[1:2::3]:80/a?b HTTP/1.1\r\nHost: \r\nConnection: close, x\r\n\r\n",
    ("POST / HTTP/1.1\r\nHost: [::1.2.3.4]:8080\r\nContent-Length: 12\r\n"
     "Expect: 100-continue\r\n\r\n"),
    "POST /%41 HTTP/1.1\r\nhost:a.b-c\r\ntransfer-encoding: chunked\r\n\r\n",
    "\r\nOPTIONS * HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\nX: a b\tc \r\nY:\r\n\r\n",
    "5;a=b ; c=\"d\\\"e\"\r\nhello\r\n0\r\nA: b\r\n\r\n",
    "000a\r\n0123456789\r\n0;x\r\n\r\n",
    "0\r\n\r\n",
};

/* One that is whole, changed in a few places: pieces are put in, or in the place of others; bytes
 * are taken out or changed. */
static size_t mutate(char *text, size_t room)
{
    size_t len =
        (size_t)snprintf(text, room, "%s", whole_requests[below(ci_countof(whole_requests))]);
    for (size_t changes = below(4); changes > 0; changes--) {
        const char *piece = pieces_of_requests[below(ci_countof(pieces_of_requests))];
        size_t at = below(len + 1), piece_len = below(4) ? strlen(piece) : 0,
               gone = below(3) ? 0 : below(4);
        gone = gone < len - at ? gone : len - at;
        if (len + piece_len >= room)
            continue;
        memmove(text + at + piece_len, text + at + gone, len - at - gone);
        memcpy(text + at, piece, piece_len);
        len += piece_len - gone;
        if (below(5) == 0 && len > 0)
            text[below(len)] = (char)below(256);
    }
    return len;
}

TEST(random_requests_are_judged_as_the_grammar_says)
{
    static char text[1000];
    int heads = 0, bodies = 0;
    for (int i = 0; i < 5000; i++) {
        size_t len = mutate(text, sizeof text), used;
        static char out[sizeof text];
        static struct oracle oracle;
        const char *wrong = compare_heads(text, len, below(len + 1));
        if (!wrong)
            wrong = compare_bodies(text, len, 1 + below(7));
        if (wrong)
            test_fail(__FILE__, __LINE__, "number %d: %s: %.*s", i, wrong, (int)len, text);
        heads += oracle_parse(&oracle, &compare_limits, text, len) > 0;
        bodies += oracle_decode(text, len, out, &used) >= 0;
    }
    CHECK(heads > 500 && bodies > 500 && heads + bodies < 4000); /* both answers are met often */
}
