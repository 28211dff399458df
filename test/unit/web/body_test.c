/* Bodies that are read piece by piece, limited, discarded, and asked for with a 100. */
#include "site.h"

TEST_SERVER(bodies_are_streamed_limited_and_thrown_away)
{
    static char body[50000], request[51000];
    memset(body, 'z', sizeof body - 1);
    snprintf(request, sizeof request,
             "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %zu\r\n\r\n%s", sizeof body - 1,
             body);
    ask(request);
    CHECK(status(answer) == 200 && strcmp(strstr(answer, "\r\n\r\n") + 4, body) == 0);
    /* a small body that the handler does not read is discarded; the connection goes on */
    ask("GET /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" GET("/hello"));
    CHECK_EQ(occurrences(answer, "Hello, World!"), 2);
    /* a large one ends it */
    coir_stream *stream = dial();
    send_text(stream, "GET /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n");
    coir_write(stream, body, sizeof body);
    receive_all(stream);
    CHECK_EQ(occurrences(answer, "Hello, World!"), 1);
    coir_close(stream);
    options.body_max = 0;
    ask("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n");
    CHECK_EQ(status(answer), 413);
}

TEST_SERVER(continue_is_sent_when_the_body_is_wanted)
{
    coir_stream *stream = dial();
    send_text(
        stream,
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    ssize_t n = coir_read(stream, answer, 1000);
    CHECK(n == 25 && memcmp(answer, "HTTP/1.1 100 Continue\r\n\r\n", 25) == 0);
    send_text(stream, "ok");
    coir_shutdown_write(stream);
    CHECK(status(receive_all(stream)) == 200 && strstr(answer, "\r\n\r\nok"));
    coir_close(stream);
    /* and not when it is not: the final answer comes, and the connection closes */
    stream = dial();
    send_text(
        stream,
        "POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    CHECK_EQ(status(receive_all(stream)), 405);
    coir_close(stream);
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
