/* The buffer of what a client has sent. */
#include "web/input.h"

#include "site.h"

TEST_SERVER(a_head_that_ends_where_the_buffer_ends_gets_its_body)
{
    static const char first[] = GET("/hello"),
                      post[] = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n";
    for (int off = -2; off <= 2; off++) {
        static char requests[20000];
        size_t end = (size_t)(16384 + off), len = 0;
        while (len + 2 * sizeof first + sizeof post < end)
            len += (size_t)sprintf(requests + len, "%s", first);
        len += (size_t)sprintf(requests + len, "GET /hello HTTP/1.1\r\nHost: ");
        while (len < end - (sizeof post - 1) - 4)
            requests[len++] = 'a';
        len += (size_t)sprintf(requests + len, "\r\n\r\n%s", post);
        CHECK_EQ(len, end);
        coir_stream *stream = dial();
        send_bytes(stream, requests, len);
        coir_sleep_for(COIR_MS);
        send_text(stream, "some body");
        coir_shutdown_write(stream);
        CHECK(strstr(receive_all(stream), "some body"));
        coir_close(stream);
    }
}

/* ---- by itself, over two streams in memory ---- */

static struct ci_http_output output;
static struct ci_http_input input;
static coir_stream *client;

static void open_buffers_over(size_t room)
{
    static char in[CI_HTTP_BUFFER], out[CI_HTTP_BUFFER];
    static coir_serve_http_options limits = {.write_timeout = COIR_S, .rate_min = COIR_UNLIMITED};
    coir_stream *stream;
    CHECK_EQ(coir_duplex(room, &stream, &client), 0);
    ci_http_output_init(&output, stream, &limits, out);
    ci_http_input_init(&input, stream, &output, in);
}

static void open_buffers(void)
{
    open_buffers_over(0);
}

static void close_buffers(void)
{
    coir_close(input.stream);
    coir_close(client);
}

TEST_SIM(what_was_used_makes_room_for_what_comes)
{
    coir_time waited = 0;
    open_buffers();
    CHECK_EQ(ci_http_input_try_read(&input), -EAGAIN);
    send_text(client, "headUSEDunread");
    CHECK_EQ(ci_http_input_try_read(&input), 14);
    CHECK_EQ(input.end, 14);
    input.body_at = 0;
    ci_http_input_take(&input, 8);
    send_text(client, "more");
    CHECK_EQ(ci_http_input_read_body(&input, 4, COIR_S, &waited), 4);
    CHECK(input.body_at == 4 && input.end == 14 && memcmp(input.bytes, "headunreadmore", 14) == 0);
    CHECK_EQ(waited, 0);
    coir_shutdown_write(client);
    CHECK_EQ(ci_http_input_read_body(&input, 4, COIR_S, &waited), 0);
    close_buffers();
}

TEST_SIM(answers_are_sent_before_the_client_is_waited_for)
{
    coir_time waited = 5;
    char got[8];
    open_buffers();
    CHECK_EQ(ci_http_output_send(&output, "answers", 7), 0);
    CHECK_EQ(coir_try_read(client, got, sizeof got), -EAGAIN); /* they gather */
    CHECK_EQ(ci_http_input_read_body(&input, 0, COIR_S, &waited), -ETIME);
    CHECK(waited >= COIR_S + 5 && waited < COIR_S + COIR_MS);
    CHECK_EQ(coir_try_read(client, got, sizeof got), 7);
    close_buffers();
}

/* The deadline is the handler's, which goes on: what has gathered may be another request's. */
TEST_SIM(a_deadline_before_the_wait_loses_no_answers)
{
    coir_time waited = 0;
    char got[8];
    open_buffers();
    CHECK_EQ(ci_http_output_send(&output, "answers", 7), 0);
    {
        COIR_DEADLINE(coir_now());
        CHECK_EQ(ci_http_input_read_body(&input, 0, COIR_S, &waited), -ETIME);
    }
    CHECK_EQ(coir_try_read(client, got, sizeof got), -EAGAIN);
    CHECK_EQ(output.error, 0);
    CHECK_EQ(ci_http_input_read_body(&input, 0, COIR_S, &waited), -ETIME);
    CHECK_EQ(coir_try_read(client, got, sizeof got), 7);
    close_buffers();
}

TEST_SIM(a_deadline_while_answers_are_sent_loses_none)
{
    static const char answers[] = "answers to several requests";
    coir_time waited = 0;
    char got[sizeof answers] = "";
    size_t len = 0;
    open_buffers_over(10);
    CHECK_EQ(ci_http_output_send(&output, answers, sizeof answers), 0);
    while (len < sizeof answers) {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(ci_http_input_read_body(&input, 0, COIR_S, &waited), -ETIME);
        ssize_t n = coir_try_read(client, got + len, sizeof got - len);
        CHECK(n > 0);
        len += (size_t)n;
    }
    CHECK(strcmp(got, answers) == 0 && output.len == 0 && output.error == 0);
    close_buffers();
}
