/* The head of a CGI program's answer: what it says, what is refused, and that it does not matter
 * how it is cut. */
#include "proto/cgi.h"

#include "fastcgi_compare.h"
#include "harness.h"

/* The status, or -1 (refused), or 0 (incomplete), wherever it is cut. */
static int status_of(const char *text)
{
    struct ci_cgi_head head;
    size_t len = strlen(text);
    for (size_t cut = 0; cut <= len; cut++) {
        const char *wrong = compare_cgi_heads(text, len, cut);
        if (wrong)
            test_fail(__FILE__, __LINE__, "%s, cut at %zu: %s", wrong, cut, text);
    }
    ci_cgi_head_init(&head);
    int rc = ci_cgi_parse(&head, text, len);
    return rc > 0 ? head.status : rc;
}

TEST(statuses)
{
    static const struct {
        const char *text;
        int status;
    } cases[] = {
        {"Content-Type: a/b\n\n", 200},
        {"Content-Type: a/b\r\n\r\nbody", 200},
        {"Content-type:a/b\r\nX: \t y \t\r\n\n", 200},
        {"Status: 404 Not Found\n\n", 404},
        {"status:503\n\n", 503},
        {"Status: 999 x\n\n", 999},
        {"Location: /there\n\n", 302},
        {"Location: /there\nStatus: 301\n\n", 301},
        {"Content-Length: 0\n\n", 200},
        {"Content-Type: a/b\n", 0},
        {"Content-Type: a/b", 0},
        {"", 0},
        {"\n", -1},
        {"\r\n", -1},
        {"<html>\n\n", -1},
        {"<html>a: b\n\n", -1},
        {"PHP Warning: x\n\n", -1}, /* a space in a name */
        {": a\n\n", -1},
        {"A : b\n\n", -1},
        {"A: b\n folded\n\n", -1},
        {"A: b\rc\n\n", -1},
        {"A: \x01\n\n", -1},
        {"Status: 99\n\n", -1},
        {"Status: 100 Continue\n\n", -1},
        {"Status: 20\n\n", -1},
        {"Status: 2000\n\n", -1},
        {"Status: abc\n\n", -1},
        {"Status:\n\n", -1},
        {"Status: 200\nStatus: 200\n\n", -1},
        {"Location: a\nLocation: b\n\n", -1},
        {"Content-Length: 1\nContent-Length: 1\n\n", -1},
        {"Content-Length: -1\n\n", -1},
        {"Content-Length: 1x\n\n", -1},
        {"Content-Length:\n\n", -1},
        {"Content-Length: 1234567890123456789\n\n", -1},
        {"Content-Length: 123456789012345678\n\n", 200},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int got = status_of(cases[i].text);
        if (got != cases[i].status)
            test_fail(__FILE__, __LINE__, "%d, not %d, for: %s", got, cases[i].status,
                      cases[i].text);
    }
}

TEST(fields)
{
    static const char text[] = "X-A: b c\r\nContent-Length: 5\r\nStatus: 201 Made\r\nSet-Cookie: "
                               "a\nSet-Cookie: b\n\nhello";
    struct ci_cgi_head head;
    ci_cgi_head_init(&head);
    CHECK_EQ(ci_cgi_parse(&head, text, sizeof text - 1), sizeof text - 1 - 5);
    CHECK(head.status == 201 && head.content_length == 5 && head.field_count == 3);
    CHECK(head.fields[0].name.len == 3 && head.fields[0].value.len == 3);
    CHECK(memcmp(text + head.fields[0].value.at, "b c", 3) == 0);
    CHECK(memcmp(text + head.fields[2].value.at, "b", 1) == 0 && head.fields[2].value.len == 1);
}

TEST(the_number_of_fields_is_bounded)
{
    char text[1000] = "";
    struct ci_cgi_head head;
    for (int i = 0; i < CI_CGI_FIELDS; i++)
        strcat(text, "A: b\n");
    strcat(text, "\n");
    ci_cgi_head_init(&head);
    CHECK_EQ(ci_cgi_parse(&head, text, strlen(text)), strlen(text));
    strcpy(text + strlen(text) - 1, "A: b\n\n");
    ci_cgi_head_init(&head);
    CHECK_EQ(ci_cgi_parse(&head, text, strlen(text)), -1);
}
