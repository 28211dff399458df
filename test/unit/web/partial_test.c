/* A part of a head that is kept: what it takes, and that parsing goes on from it wherever the head
 * was cut. */
#include <stdio.h>

#include "harness.h"
#include "web/partial.h"

static size_t bytes_live;

static void *count_alloc(size_t size, void *context)
{
    bytes_live += size;
    return ci_system_allocator.alloc(size, context);
}

static void count_free(void *memory, size_t size, void *context)
{
    bytes_live -= size;
    ci_system_allocator.free(memory, size, context);
}

static char in[CI_HTTP_BUFFER], text[CI_HTTP_HEAD_MAX];
static coir_runtime runtime = {.allocator = COIR_ALLOCATOR(count_alloc, count_free, NULL)};
static struct ci_worker worker = {.runtime = &runtime};
static struct ci_http_worker http = {.worker = &worker};
static struct ci_http_server server = {.http = &http};
static struct ci_http_connection connection = {.server = &server};
static struct ci_exchange exchange = {.connection = &connection, .server = &server, .in.bytes = in};
static const struct ci_http1_limits limits = {8000, CI_HTTP_HEAD_MAX};

static size_t make_head(int fields)
{
    size_t len = (size_t)snprintf(
        text, sizeof text,
        "POST /a?b HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n");
    for (int i = 3; i < fields; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "Name-%d: value %d\r\n", i, i * i);
    return len + (size_t)snprintf(text + len, sizeof text - len, "\r\n");
}

static void check_same(const struct ci_http1_head *a, const struct ci_http1_head *b)
{
    CHECK_EQ(a->field_count, b->field_count);
    CHECK_EQ(a->content_length, b->content_length);
    CHECK_EQ(a->minor_version, b->minor_version);
    CHECK_EQ(a->keep_alive, b->keep_alive);
    CHECK(a->has_host == b->has_host && a->says_close == b->says_close && a->form == b->form);
    CHECK(memcmp(&a->query, &b->query, sizeof a->query) == 0);
    CHECK(memcmp(a->fields, b->fields, a->field_count * sizeof a->fields[0]) == 0);
}

/* The head has come up to `cut`, and goes on behind `skipped` bytes that are another request's. */
static void cut_at(size_t cut, size_t len, size_t skipped, const struct ci_http1_head *whole)
{
    memcpy(in + skipped, text, cut);
    exchange.in.start = skipped;
    exchange.in.end = skipped + cut;
    ci_http1_head_init(&exchange.head);
    CHECK_EQ(ci_http1_parse(&exchange.head, &limits, in + skipped, cut), 0);
    size_t found = exchange.head.field_count * sizeof(struct ci_http1_field);
    CHECK(ci_http_partial_save(&exchange, (coir_time)cut));
    size_t room = bytes_live - cut - found;
    /* the parser's state and a few words */
    CHECK(room <= offsetof(struct ci_http1_head, fields) + 64);
    memset(&exchange.head, 0xa5, sizeof exchange.head);
    memset(in, 0xa5, sizeof in);
    CHECK_EQ(ci_http_partial_deadline(&connection), (coir_time)cut);
    CHECK_EQ(ci_http_partial_restore(&exchange), (coir_time)cut);
    CHECK(!connection.partial && bytes_live == 0);
    CHECK(exchange.in.start == 0 && exchange.in.end == cut && memcmp(in, text, cut) == 0);
    memcpy(in + cut, text + cut, len - cut);
    CHECK_EQ(ci_http1_parse(&exchange.head, &limits, in, len), len);
    check_same(&exchange.head, whole);
}

TEST(a_head_goes_on_wherever_it_was_cut_and_takes_what_was_found)
{
    static struct ci_http1_head whole;
    for (int fields = 3; fields <= CI_HTTP1_FIELDS; fields += 61) {
        size_t len = make_head(fields);
        ci_http1_head_init(&whole);
        CHECK_EQ(ci_http1_parse(&whole, &limits, text, len), len);
        CHECK_EQ(whole.field_count, fields);
        for (size_t cut = 1; cut < len; cut++)
            cut_at(cut, len, cut % 3 * 50, &whole);
    }
}
