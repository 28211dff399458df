/* The buffer of answers, and clients that take them slowly. */
#include "site.h"

/* What is larger than the buffer, or fills it, comes behind what has gathered there. */
TEST_SERVER(no_body_overtakes_its_head)
{
    char request[200];
    for (int around = BUFFER; around <= 2 * BUFFER; around += BUFFER)
        for (int len = around - 200; len < around + 10;
             len += len < around - 130 || len > around - 5 ? 1 : 7) {
            snprintf(request, sizeof request,
                     GET("/none") GET("/bytes/%d") GET("/chunk/%d") GET("/query?v=end"), len, len);
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

TEST_SERVER(a_slow_reader_gets_everything)
{
    coir_stream *stream = dial();
    send_text(stream, GET("/big/3000000"));
    size_t got = 0;
    for (ssize_t n; (n = coir_read(stream, answer, 50000)) > 0;) {
        got += (size_t)n;
        if (got % 7 == 0)
            coir_sleep_for(10 * COIR_S); /* each pause shorter than the limit */
        if (got > 3000000)
            break;
    }
    CHECK(got > 3000000 && got < 3000500);
    coir_close(stream);
    stream = dial(); /* and one who stops for good is dropped */
    send_text(stream, GET("/big/3000000"));
    coir_sleep_for(100 * COIR_S);
    coir_counters counters = COIR_COUNTERS;
    coir_http_counters http = COIR_HTTP_COUNTERS;
    coir_counters_get(coir_runtime_current(), &counters);
    coir_http_counters_get(&http);
    CHECK_EQ(http.connections_live, 0);
    coir_close(stream);
}
