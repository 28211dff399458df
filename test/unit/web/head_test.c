/* Heads that come in pieces, that are not valid, that are too long. */
#include "site.h"

TEST_SERVER(a_request_split_at_every_byte_is_answered)
{
    static const char text[] = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
                               "chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" GET("/hello");
    for (size_t cut = 1; cut < sizeof text - 1; cut++) {
        coir_stream *stream = dial();
        send_bytes(stream, text, cut);
        coir_sleep_for(COIR_MS);
        send_bytes(stream, text + cut, sizeof text - 1 - cut);
        coir_shutdown_write(stream);
        receive_all(stream);
        coir_close(stream);
        if (!strstr(answer, "o\r\n0\r\n\r\nHTTP/1.1 200 OK"))
            test_fail(__FILE__, __LINE__, "cut at %zu: %s", cut, answer);
        CHECK(strstr(answer, "Hello, World!"));
    }
    coir_stream *stream = dial();
    for (size_t at = 0; at < sizeof text - 1; at++) {
        send_bytes(stream, text + at, 1);
        coir_sleep_for(10 * COIR_US);
    }
    coir_shutdown_write(stream);
    CHECK(strstr(receive_all(stream), "Hello, World!"));
    coir_close(stream);
}

/* Bad requests: the status, then the end, even though more follows; and nothing of what follows is
 * answered. */
TEST_SERVER(bad_requests_get_their_status_and_the_end)
{
    static const struct {
        const char *text;
        int status;
    } cases[] = {
        {"GET /hello HTTP/1.1\nHost: a\n\n", 400},
        {"GET /hello HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 400},
        {"GET /hello HTTP/1.1\r\n\r\n", 400},
        {"GET /hello HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
         400},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: "
         "chunked\r\n\r\n0\r\n\r\n",
         400},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, x\r\n\r\n0\r\n\r\n", 400},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x, chunked\r\n\r\n0\r\n\r\n", 501},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n\r\n", 400},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
         "chunked\r\n\r\nffffffffffffffffff\r\n\r\n",
         400},
        {"POST /hello HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n\r\n", 405},
        {"GET /hello HTTP/3.0\r\nHost: a\r\n\r\n", 505},
        {"GET /hello HTTP/1.1\r\nHost: a\r\nExpect: wonders\r\n\r\n", 417},
        {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400}, /* TLS to a plain port */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        coir_stream *stream = dial();
        send_text(stream, cases[i].text);
        coir_write_all(stream, GET("/hello/smuggled"), sizeof GET("/hello/smuggled") - 1);
        receive_all(stream); /* ends: the server closes */
        coir_close(stream);
        if (status(answer) != cases[i].status || strstr(answer, "smuggled") ||
            !strstr(answer, "Connection: close"))
            test_fail(__FILE__, __LINE__, "got %s for %s", answer, cases[i].text);
    }
    static char lines[20000];
    snprintf(lines, sizeof lines, "GET /%09000d HTTP/1.1\r\nHost: a\r\n\r\n", 0);
    CHECK_EQ(status(ask(lines)), 414);
    snprintf(lines, sizeof lines, "GET / HTTP/1.1\r\nHost: a\r\nX: %09000d\r\n\r\n", 0);
    CHECK_EQ(status(ask(lines)), 431);
    size_t len = (size_t)snprintf(lines, sizeof lines, "GET / HTTP/1.1\r\nHost: a\r\n");
    for (int i = 0; i < 100; i++)
        len += (size_t)snprintf(lines + len, sizeof lines - len, "X-%d: y\r\n", i);
    snprintf(lines + len, sizeof lines - len, "\r\n");
    CHECK_EQ(status(ask(lines)), 431);
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
