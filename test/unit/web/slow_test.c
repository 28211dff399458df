/* Clients that are slow, and bytes that are no request. */
#include <coir/web.h>
#include <stdio.h>

#include "client.h"

static coir_http_options options = COIR_HTTP_OPTIONS;

static int count_body(coir_request *req, coir_response *res)
{
    char buf[1000];
    long total = 0;
    ssize_t n;
    while ((n = coir_request_read(req, buf, sizeof buf)) > 0)
        total += n;
    return n < 0 ? (int)n : coir_respond_text(res, 200, "%ld", total);
}

static int serve(void *arg)
{
    coir_router *router;
    (void)arg;
    CHECK_EQ(coir_router_new(&router), 0);
    CHECK_EQ(coir_route(router, "POST", "/count", count_body), 0);
    int rc = coir_serve_http("127.0.0.1:80", router, &options);
    coir_router_free(router);
    return rc;
}

#define TEST_SERVER(name)                             \
    static void name##_test(void);                    \
    TEST_SIM(name)                                    \
    {                                                 \
        CHECK_EQ(with_server(serve, name##_test), 0); \
    }                                                 \
    static void name##_test(void)

#define POST "POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"

static void read_one_answer(coir_stream *stream)
{
    ssize_t n = coir_read(stream, answer, 1000);
    CHECK(n > 0);
    answer[answer_len = (size_t)n] = '\0';
}

/* How long until the server closes, sending nothing. */
static coir_time until_closed_in_silence(coir_stream *stream)
{
    coir_time start = coir_now();
    CHECK_EQ(coir_read(stream, answer, 1), 0);
    coir_close(stream);
    return coir_now() - start;
}

/* RFC 9112, 2.2: some clients send a CRLF behind a body. */
TEST_SERVER(a_connection_with_an_empty_line_is_idle)
{
    static const char *const lines[] = {"\r\n", "\r\n\r\n\r\n"};
    for (size_t i = 0; i < 2; i++)
        for (int apart = 0; apart < 2; apart++) {
            coir_stream *stream = dial();
            char text[200];
            snprintf(text, sizeof text, POST "%s", apart ? "" : lines[i]);
            send_text(stream, text);
            read_one_answer(stream);
            if (apart)
                send_text(stream, lines[i]);
            coir_time time = until_closed_in_silence(stream);
            CHECK(time >= 59 * COIR_S && time < 61 * COIR_S);
        }
    coir_stream *stream = dial();
    send_text(stream, POST "\r");
    read_one_answer(stream);
    coir_sleep_for(COIR_S);
    send_text(stream, "\n" POST); /* an empty line in two pieces, before a request */
    read_one_answer(stream);
    CHECK_EQ(status(answer), 200);
    send_text(stream, "\r"); /* and one that never ends: no request, so no answer */
    until_closed_in_silence(stream);
}

/* They are not answered, and put the idle timeout off by nothing. */
TEST_SERVER(empty_lines_keep_no_connection_alive)
{
    static const char *const lines[] = {"\r\n", "\r", "\n"};
    for (size_t i = 0; i < 2; i++) {
        coir_stream *stream = dial();
        coir_time start = coir_now();
        int rc = 0;
        send_text(stream, POST);
        read_one_answer(stream);
        for (int n = 0; rc == 0 && coir_now() - start < 200 * COIR_S; n++) {
            coir_sleep_for(4 * COIR_S);
            rc = coir_write_all(stream, lines[i == 0 ? 0 : 1 + n % 2], strlen(lines[i == 0 ? 0 : 1 + n % 2]));
        }
        CHECK(coir_now() - start < 80 * COIR_S);
        coir_close(stream);
    }
}
