/* Requests one after another on a connection, and a client that goes away while a handler waits. */
#include "site.h"

/* What a handler wrote is sent before it waits. */
TEST_SERVER(a_waiting_handler_holds_nothing_back)
{
    coir_stream *stream = dial();
    send_text(stream, GET("/hello") GET("/chunks"));
    COIR_DEADLINE(coir_in(500 * COIR_MS));
    ssize_t n;
    answer_len = 0;
    while ((n = coir_read(stream, answer + answer_len, 1000)) > 0)
        answer_len += (size_t)n;
    answer[answer_len] = '\0';
    CHECK_EQ(n, -ETIME);
    CHECK(strstr(answer, "Hello, World!") && strstr(answer, "3\r\none\r\n") &&
          !strstr(answer, "two"));
    coir_close(stream);
}

TEST_SERVER(pipelined_requests_are_answered_at_once_and_in_order)
{
    static const int counts[] = {2, 16, 64, 256};
    static char requests[256 * 64];
    for (size_t i = 0; i < 4; i++) {
        size_t len = 0;
        for (int n = 0; n < counts[i]; n++)
            len += (size_t)snprintf(requests + len, sizeof requests - len,
                                    "GET /hello/%d HTTP/1.1\r\nHost: a\r\n\r\n", n);
        coir_stream *stream = dial();
        coir_time start = coir_now();
        send_bytes(stream, requests, len);
        answer_len = 0;
        while (occurrences(answer, "Hello, ") < counts[i]) {
            ssize_t n = coir_read(stream, answer + answer_len, sizeof answer - 1 - answer_len);
            CHECK(n > 0);
            answer[answer_len += (size_t)n] = '\0';
        }
        CHECK(coir_now() - start < COIR_MS);
        const char *at = answer;
        for (int n = 0; n < counts[i]; n++) {
            char want[32];
            snprintf(want, sizeof want, "Hello, %d!", n);
            CHECK((at = strstr(at, want)));
        }
        coir_close(stream);
        memset(answer, 0, sizeof answer);
    }
}

TEST_SERVER(a_client_that_hangs_up_cancels_its_handler_and_a_half_close_does_not)
{
    coir_stream *stream = dial();
    send_text(stream, GET("/nap/5000"));
    coir_shutdown_write(stream);
    CHECK_EQ(status(receive_all(stream)), 200);
    coir_close(stream);
    CHECK_EQ(handlers_cancelled, 0);
    stream = dial();
    send_text(stream, GET("/chunks") GET("/nap/1000000"));
    coir_sleep_for(2 * COIR_S);
    CHECK_EQ(handlers_running, 1);
    coir_close(stream); /* with unread data: a reset */
    coir_sleep_for(COIR_S);
    CHECK_EQ(handlers_running, 0);
    CHECK_EQ(handlers_cancelled, 1);
}
