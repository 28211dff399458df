/* The buffer of what a client has sent. */
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
