/* The edges of what a server promises: each limit at its value and one beside, and states that are
 * rarely met. */
#include <coir/web.h>
#include <stdio.h>

#include "client.h"

enum { BODY_MAX = 3000, ARENA_MAX = 16000, BUFFER = 16384 };

static coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;

/* A body of so many bytes, in one write. */
static int bytes(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    static char body[3 * BUFFER];
    size_t len = (size_t)atol(coir_request_param(req, "bytes"));
    for (size_t i = 0; i < len; i++)
        body[i] = (char)('a' + i % 26);
    return coir_respond(res, 200, "text/plain", body, len);
}

/* The same, behind so many bytes that are gathered already, in chunks. */
static int chunk(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    static char body[3 * BUFFER];
    size_t len = (size_t)atol(coir_request_param(req, "bytes"));
    memset(body, 'x', sizeof body);
    int rc = coir_response_begin(res, 200, "text/plain", -1);
    rc = rc < 0 ? rc : coir_response_write(res, "first", 5);
    rc = rc < 0 ? rc : coir_response_write(res, body, len);
    return rc < 0 ? rc : coir_response_write(res, "last", 4);
}

static int query(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    const char *value = coir_request_query_value(req, "v");
    return coir_respond_text(res, 200, "%s", value ? value : "NULL");
}

static int arena(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char *all = coir_request_alloc(req, ARENA_MAX), *more = coir_request_alloc(req, 1),
         *none = coir_request_alloc(req, SIZE_MAX);
    if (all)
        memset(all, 1, ARENA_MAX);
    return coir_respond_text(res, 200, "%d %d %d", all != NULL, more != NULL, none != NULL);
}

static int arena_at_once(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    return coir_respond_text(res, 200, "%d", coir_request_alloc(req, ARENA_MAX + 1) != NULL);
}

static int linger_over(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    int rc = coir_response_begin(res, 200, "text/plain", 2);
    rc = rc < 0 ? rc : coir_sleep_for(COIR_S);
    return rc < 0 ? rc : coir_response_write(res, "ok", 2);
}

/* As many fields as there may be. */
static int long_head(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char type[8193];
    memset(type, 'x', sizeof type - 1);
    type[sizeof type - 1] = '\0';
    (void)req;
    return coir_respond(res, 200, type, "it", 2);
}

static int params(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    return coir_respond_text(res, 200, "%s %s", coir_request_param(req, "a"),
                             coir_request_param(req, "h"));
}

static const struct route routes[] = {
    {"GET", "/bytes/{bytes}", bytes},
    {"GET", "/chunk/{bytes}", chunk},
    {"POST", "/take", count_body},
    {"GET", "/query", query},
    {"GET", "/arena", arena},
    {"GET", "/arena/at/once", arena_at_once},
    {"GET", "/linger", linger_over},
    {"GET", "/long/head", long_head},
    {"GET", "/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}", params},
    {0},
};

static int serve(void *arg)
{
    (void)arg;
    return serve_routes(routes, &options);
}

/* What is larger than the buffer, or fills it, comes behind what has gathered there. */
TEST_SERVER(no_body_overtakes_its_head)
{
    char request[200];
    for (int around = BUFFER; around <= 2 * BUFFER; around += BUFFER)
        for (int len = around - 200; len < around + 10;
             len += len < around - 130 || len > around - 5 ? 1 : 7) {
            snprintf(request, sizeof request,
                     GET("/hello") GET("/bytes/%d") GET("/chunk/%d") GET("/query?v=end"), len, len);
            ask(request);
            /* one that has gathered */
            const char *at = strstr(answer, "\r\n\r\n404 Not Found\nHTTP/1.1 200 OK\r\n");
            CHECK(at && (at = strstr(at, "HTTP/1.1")) && (at = strstr(at, "\r\n\r\n")));
            at += 4;
            for (int i = 0; i < len; i++)
                CHECK_EQ(at[i], 'a' + i % 26);
            at += len;
            CHECK(strncmp(at, "HTTP/1.1 200 OK\r\n", 17) == 0 &&
                  (at = strstr(at, "\r\n\r\n5\r\nfirst\r\n")));
            at += 14;
            CHECK_EQ(strtol(at, NULL, 16), len);
            at = strstr(at, "\r\n") + 2;
            CHECK_EQ(strspn(at, "x"), len);
            CHECK(strncmp(at + len, "\r\n4\r\nlast\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n", 33) == 0);
            CHECK(strstr(at + len, "\r\n\r\nend"));
        }
}

/* Nor does a head begin where it does not fit. */
TEST_SERVER(a_long_head_fits_behind_what_has_gathered)
{
    char request[200];
    for (int len = 7000; len < BUFFER; len += 97) {
        snprintf(request, sizeof request, GET("/bytes/%d") GET("/long/head") GET("/query?v=end"),
                 len);
        ask(request);
        CHECK_EQ(occurrences(answer, "HTTP/1.1 200 OK\r\n"), 3);
        CHECK(strstr(answer, "xxx\r\nContent-Length: 2\r\n\r\nitHTTP/1.1 200 OK\r\n") &&
              strstr(answer, "\r\n\r\nend"));
    }
}

static int take_bytes(size_t len, bool chunked)
{
    static char request[10000];
    if (chunked) /* in two chunks */
        snprintf(request, sizeof request,
                 "POST /take HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
                 "chunked\r\n\r\n%x\r\n%0*d\r\n1\r\nz\r\n0\r\n\r\n",
                 (unsigned)len - 1, (int)len - 1, 0);
    else
        snprintf(request, sizeof request,
                 "POST /take HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n%0*d", len, (int)len,
                 0);
    return status(ask(request));
}

static void reach_body_max(void)
{
    for (int chunked = 0; chunked < 2; chunked++) {
        CHECK_EQ(take_bytes(BODY_MAX, chunked), 200);
        CHECK(strstr(answer, "\r\n\r\n3000"));
        CHECK_EQ(take_bytes(BODY_MAX + 1, chunked), 413);
        CHECK(strstr(answer, "Connection: close"));
        CHECK_EQ(take_bytes(BODY_MAX * 3, chunked), 413);
    }
}

TEST_SIM(a_body_may_reach_body_max)
{
    options.body_max = BODY_MAX;
    CHECK_EQ(with_server(serve, reach_body_max), 0);
}

static void reach_arena_max(void)
{
    CHECK(strstr(ask(GET("/arena")), "\r\n\r\n1 0 0"));
    CHECK(strstr(ask(GET("/arena/at/once")), "\r\n\r\n0"));
}

TEST_SIM(a_request_may_use_arena_max)
{
    options.arena_max = ARENA_MAX;
    CHECK_EQ(with_server(serve, reach_arena_max), 0);
}

static void reach_head_limits(void)
{
    static char request[20000];
    for (int over = 0; over < 2; over++) {
        snprintf(request, sizeof request, "GET /%0*d HTTP/1.1\r\nHost: a\r\n\r\n", 500 - 14 + over,
                 0);
        CHECK_EQ(status(ask(request)), over ? 414 : 404);
        snprintf(request, sizeof request, "GET / HTTP/1.1\r\nHost: a\r\nX: %0*d\r\n\r\n",
                 12288 - 32 + over, 0);
        CHECK_EQ(status(ask(request)), over ? 431 : 404);
    }
}

TEST_SIM(a_head_may_reach_its_limits)
{
    options.line_max = 500;
    options.head_max = 12288;
    CHECK_EQ(with_server(serve, reach_head_limits), 0);
}

TEST_SERVER(options_beyond_what_works_are_refused)
{
    coir_router *router;
    coir_serve_http_options bad = COIR_SERVE_HTTP_OPTIONS;
    CHECK_EQ(coir_router_new(&router), 0);
    bad.address = "127.0.0.1:81";
    bad.head_max = 12289;
    CHECK_EQ(coir_serve_http_with(&bad, router), -EINVAL);
    bad.head_max = 0;
    bad.rate_min = (1 << 30) + 1;
    CHECK_EQ(coir_serve_http_with(&bad, router), -EINVAL);
    coir_router_free(router);
}

/* A string with a NUL in it would be another one for C. */
TEST_SERVER(values_are_decoded_or_refused)
{
    CHECK(strstr(ask(GET("/query?v=a%20b+c%7e")), "\r\n\r\na b c~"));
    CHECK(strstr(ask(GET("/query?v=a%00b")), "\r\n\r\nNULL"));
    CHECK(strstr(ask(GET("/query?v=%00")), "\r\n\r\nNULL"));
    CHECK(strstr(ask(GET("/query?v=a%")), "\r\n\r\nNULL") &&
          strstr(ask(GET("/query?v=a%4")), "\r\n\r\nNULL"));
    CHECK(strstr(ask(GET("/query?v=a%4g")), "\r\n\r\nNULL") &&
          strstr(ask(GET("/query?w=a")), "\r\n\r\nNULL"));
    CHECK(strstr(ask(GET("/query?u&v")), "\r\n\r\n") && answer[answer_len - 1] == '\n');
    CHECK(strstr(ask(GET("/1/2/3/4/5/6/7/8")), "\r\n\r\n1 8"));
    CHECK_EQ(status(ask(GET("/1%00/2/3/4/5/6/7/8"))), 400);
}

/* Each request puts the idle timeout off; the end of one that began before another has no say. */
TEST_SERVER(the_idle_timeout_begins_behind_each_answer)
{
    coir_stream *stream = dial();
    for (int i = 0; i < 4; i++) {
        coir_time start = coir_now();
        send_text(stream, GET("/query?v=x"));
        CHECK(coir_read(stream, answer, 1000) > 0);
        coir_sleep_for(59 * COIR_S - (coir_now() - start));
    }
    coir_time start = coir_now();
    CHECK_EQ(coir_read(stream, answer, 1), 0);
    CHECK(coir_now() - start > 500 * COIR_MS && coir_now() - start < 1500 * COIR_MS);
    coir_close(stream);
}

/* An answer that said nothing of an end had begun before the server was asked to stop: its
 * connection ends with it all the same. */
TEST_SIM(no_connection_becomes_idle_while_a_server_drains)
{
    COIR_SCOPE(server);
    coir_go(server, serve, NULL);
    coir_stream *stream = dial();
    send_text(stream, GET("/linger"));
    coir_sleep_for(COIR_S / 2);
    coir_time start = coir_now();
    coir_scope_cancel(server);
    CHECK(status(receive_all(stream)) == 200 && strstr(answer, "\r\n\r\nok"));
    CHECK(coir_now() - start < COIR_S); /* and not the time for draining */
    coir_close(stream);                 /* else the server would linger for a moment */
    coir_scope_wait(server);
    CHECK(coir_now() - start < COIR_S);
}
