/* What a handler sees of a request. */
#include "site.h"

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

/* Sends a request and closes its direction a while later: how many handlers were cancelled by that.
 */
static int cancelled_by_end(const char *request, coir_time after)
{
    int before = handlers_cancelled;
    coir_stream *stream = dial();
    send_text(stream, request);
    coir_sleep_for(after);
    coir_shutdown_write(stream);
    receive_all(stream);
    coir_close(stream);
    return handlers_cancelled - before;
}

TEST_SERVER(a_half_close_cancels_the_handlers_that_ask_for_it)
{
    CHECK_EQ(cancelled_by_end(GET("/there"), 0), 1);
    CHECK_EQ(cancelled_by_end(GET("/there"), COIR_S / 2), 1);
    CHECK_EQ(cancelled_by_end(GET("/there"), 2 * COIR_S), 1);
    /* said after the end had come */
    CHECK_EQ(cancelled_by_end(GET("/there?late=1"), COIR_S / 2), 1);
    CHECK_EQ(cancelled_by_end(GET("/there?late=1&never=1"), COIR_S / 2), 0);
    CHECK_EQ(cancelled_by_end(GET("/there?never=1"), 2 * COIR_S), 0);
    CHECK_EQ(cancelled_by_end(GET("/nap/1000"), 0), 0);
}

TEST_SIM(a_half_close_cancels_handlers_where_the_server_wants_it)
{
    options.end_cancels = true;
    COIR_SCOPE(server);
    coir_go(server, serve, NULL);
    CHECK_EQ(cancelled_by_end(GET("/nap/1000"), COIR_S / 2), 1);
    CHECK_EQ(cancelled_by_end(GET("/there?late=1&never=1"), COIR_S / 2), 0);
    coir_scope_cancel(server);
    coir_scope_wait(server);
}
