/* What the client sees of an answer: its head, its framing, and of handlers that fail. */
#include "site.h"

TEST_SERVER(handlers_that_fail_get_a_status_or_an_early_end)
{
    CHECK_EQ(status(ask(GET("/broken"))), 500);
    CHECK_EQ(status(ask(GET("/nothing"))), 500);
    CHECK(strstr(ask(GET("/too-long")), "\r\n\r\nrefused"));
    CHECK_EQ(status(ask(GET("/short"))), 200);
    CHECK(strcmp(strstr(answer, "\r\n\r\n") + 4, "short") == 0);
    CHECK(strstr(ask(GET("/fields?v=a%20b+c")), "X-Good: a b c\r\n"));
    CHECK(strstr(ask(GET("/type/201")), "00000\r\nContent-Length: 2\r\nX: y\r\n\r\nit"));
    CHECK(strstr(ask(GET("/type/8186")), "00000\r\nContent-Length: 2\r\nX: y\r\n\r\nit") &&
          answer_len > 8192);
    CHECK(strstr(ask(GET("/type/8187")), "\r\n\r\n8187: a limit"));
    CHECK(strstr(ask(GET("/typed")), "content-type: a/b\r\n") && !strstr(answer, "c/d"));
    CHECK(strstr(ask(GET("/chunks")), "\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"));
    CHECK(strstr(ask("GET /chunks HTTP/1.0\r\n\r\n"), "\r\n\r\nonetwo"));
}

/* Also where first lines that are kept (prefix.h) have the same place, or nearly the same type. */
TEST_SERVER(each_answer_has_its_own_status_type_and_date)
{
    static const struct {
        int status;
        const char *type;
    } answers[] = {{200, "a-b"}, {200, "a-c"},     {200, "a-b"},  {403, "a-b"},
                   {203, "b"},   {200, "a-bcdef"}, {404, "abcd"}, {403, "a-b"},
                   {201, "ab"},  {200, "a-bcdeg"}, {999, "abcd"}, {200, "a-b"}};
    enum { ANSWERS = sizeof answers / sizeof answers[0] };
    char request[200], line[100], field[100], dates[ANSWERS][40] = {{0}};
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < ANSWERS; i++) {
            snprintf(request, sizeof request, GET("/as/%d/%s"), answers[i].status, answers[i].type);
            snprintf(line, sizeof line, "HTTP/1.1 %d ", answers[i].status);
            snprintf(field, sizeof field, "GMT\r\nContent-Type: %s\r\n", answers[i].type);
            ask(request);
            CHECK(strncmp(answer, line, strlen(line)) == 0 && strstr(answer, field));
            const char *date = strstr(answer, "\r\nDate: ");
            CHECK(date && strncmp(date, dates[i], 39) != 0);
            snprintf(dates[i], sizeof dates[i], "%.39s", date);
        }
        coir_sleep_for(COIR_S);
    }
    CHECK_EQ(status(ask(GET("/as/200/a%0A"))), 500); /* of the length of one that is kept */
    CHECK_EQ(status(ask(GET("/as/199/a-b"))), 500);
}

enum { IN_A_ROW = 10000 };

static int ask_in_a_row(void *arg)
{
    coir_stream *slow = arg;
    for (int i = 0; i < IN_A_ROW; i++)
        send_text(slow, GET("/as/200/a-b"));
    return coir_shutdown_write(slow);
}

/* Their client does not read, so one of them waits for room, for its head: meanwhile first lines
 * that are kept (prefix.h) become those of others, and the date another. */
TEST_SERVER(an_answer_that_waits_for_room_has_its_own_status)
{
    char date[40];
    coir_stream *slow = dial();
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, ask_in_a_row, slow), 0);
    coir_sleep_for(COIR_S);
    for (int code = 400; code < 404; code++) {
        char request[100];
        snprintf(request, sizeof request, GET("/as/%d/a-b"), code);
        CHECK_EQ(status(ask(request)), code);
    }
    snprintf(date, sizeof date, "%.39s", strstr(answer, "\r\nDate: "));
    receive_all(slow);
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_close(slow);
    CHECK_EQ(occurrences(answer, "HTTP/1.1 200 OK\r\n"), IN_A_ROW);
    CHECK(occurrences(answer, date) > 0 && occurrences(answer, date) < IN_A_ROW);
}

TEST_SERVER(lengths_are_written_in_full)
{
    static const int lengths[] = {0, 1, 9, 10, 11, 99, 100, 101, 909, 990, 999, 1000, 1001, 9099};
    char request[100], field[50];
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        snprintf(request, sizeof request, GET("/bytes/%d"), lengths[i]);
        snprintf(field, sizeof field, "\r\nContent-Length: %d\r\n", lengths[i]);
        CHECK(strstr(ask(request), field));
        CHECK_EQ(answer_len - (size_t)(strstr(answer, "\r\n\r\n") + 4 - answer), lengths[i]);
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
