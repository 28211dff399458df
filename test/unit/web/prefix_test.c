/* Answers whose heads are kept (prefix.h): one that is like those before it is the same, but for
 * the date, and one that differs in anything is as if nothing were kept. */
#include <stdio.h>

#include "client.h"

static const char body[] = "Hello, World!";
enum { BODY = sizeof body - 1 };

/* The query says how the answer differs from the commonest one. */
static int same(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    const char *field = coir_request_query_value(req, "field"),
               *type = coir_request_query_value(req, "type"),
               *len = coir_request_query_value(req, "len"),
               *nap = coir_request_query_value(req, "nap"),
               *status = coir_request_query_value(req, "status");
    if (coir_request_query_value(req, "none"))
        return coir_respond(res, 200, NULL, body, BODY);
    if (field)
        CHECK_EQ(coir_response_add_header(res, "X", field), 0);
    if (nap)
        coir_sleep_for(atoi(nap) * COIR_MS);
    int rc = coir_respond(res, status ? atoi(status) : 200, type ? type : "text/plain", body,
                          len ? (size_t)atoi(len) : (size_t)BODY);
    CHECK_EQ(coir_respond(res, 200, "text/plain", body, BODY), -EALREADY);
    return rc;
}

static const struct route routes[] = {
    {"GET", "/same", same},
    {"POST", "/same", same},
    {0},
};

static int serve(void *arg)
{
    (void)arg;
    return serve_routes(routes, NULL);
}

#define DATED "HTTP/1.1 200 OK\r\nDate: .............................\r\n"
#define TYPED DATED "Content-Type: text/plain\r\n"
#define COMMON TYPED "Content-Length: 13\r\n\r\nHello, World!"
#define POST(fields) "POST /same HTTP/1.1\r\nHost: a\r\n" fields "\r\n"

/* A head that is too long to be kept, as its first lines are not. */
#define LONG_TYPE "a/bcdefghijklmnopqrstuvwxyzabcdefghijklmnopqr"
#define LONG GET("/same?type=" LONG_TYPE)
#define LONGS DATED "Content-Type: " LONG_TYPE "\r\nContent-Length: 13\r\n\r\nHello, World!"

static const struct {
    const char *request, *answer;
} others[] = {
    {"HEAD /same HTTP/1.1\r\nHost: a\r\n\r\n", TYPED "Content-Length: 13\r\n\r\n"},
    {"GET /same HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
     TYPED "Content-Length: 13\r\nConnection: close\r\n\r\nHello, World!"},
    {"GET /same HTTP/1.0\r\n\r\n",
     TYPED "Content-Length: 13\r\nConnection: close\r\n\r\nHello, World!"},
    {"GET /same HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
     TYPED "Content-Length: 13\r\nConnection: keep-alive\r\n\r\nHello, World!"},
    {POST("Content-Length: 3\r\n") "abc", COMMON},
    {POST("Content-Length: 0\r\n"), COMMON},
    {POST("Content-Length: 1000000\r\n"),
     TYPED "Content-Length: 13\r\nConnection: close\r\n\r\nHello, World!"},
    {POST("Content-Length: 3\r\nExpect: 100-continue\r\n"),
     TYPED "Content-Length: 13\r\nConnection: close\r\n\r\nHello, World!"},
    {GET("/same?none"), DATED "Content-Length: 13\r\n\r\nHello, World!"},
    {GET("/same?type="), DATED "Content-Type: \r\nContent-Length: 13\r\n\r\nHello, World!"},
    {GET("/same?type=text/plaim"),
     DATED "Content-Type: text/plaim\r\nContent-Length: 13\r\n\r\nHello, World!"},
    {GET("/same?none"), DATED "Content-Length: 13\r\n\r\nHello, World!"},
    {GET("/same?type=text/plainabcd"), /* in the same place */
     DATED "Content-Type: text/plainabcd\r\nContent-Length: 13\r\n\r\nHello, World!"},
    {LONG LONG LONG LONG LONG, LONGS LONGS LONGS LONGS LONGS},
    {GET("/same?field=y"), TYPED "Content-Length: 13\r\nX: y\r\n\r\nHello, World!"},
    {GET("/same?status=404"),
     "HTTP/1.1 404 Not Found\r\nDate: .............................\r\n"
     "Content-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!"},
    {GET("/same?status=204"), "HTTP/1.1 204 No Content\r\nDate: .............................\r\n"
                              "Content-Type: text/plain\r\n\r\n"},
    {GET("/same?status=304"), "HTTP/1.1 304 Not Modified\r\nDate: .............................\r\n"
                              "Content-Type: text/plain\r\nContent-Length: 13\r\n\r\n"},
    {GET("/same?len=12"), TYPED "Content-Length: 12\r\n\r\nHello, World"},
    {GET("/same?len=1"), TYPED "Content-Length: 1\r\n\r\nH"},
    {GET("/same?len=0"), TYPED "Content-Length: 0\r\n\r\n"},
    {GET("/same"), COMMON},
};
enum { OTHERS = sizeof others / sizeof others[0], AGAIN = 3 };

/* Takes the date out of each answer; all of them have the same, which is returned. */
static const char *take_dates(void)
{
    static const char field[] = "\r\nDate: ";
    static char date[30];
    *date = '\0';
    for (char *at = answer; (at = strstr(at, field)); at += 29) {
        at += sizeof field - 1;
        CHECK(!*date || strncmp(at, date, 29) == 0);
        memcpy(date, at, 29);
        memset(at, '.', 29);
    }
    return date;
}

static void expect(const char *request, const char *want)
{
    ask(request);
    take_dates();
    if (strcmp(answer, want) != 0)
        test_fail(__FILE__, __LINE__, "the answer to\n%s\n-- is --\n%s\n-- not --\n%s", request,
                  answer, want);
}

TEST_SERVER(an_answer_that_differs_from_those_before_differs_as_it_must)
{
    for (int i = 0; i < OTHERS; i++) {
        for (int again = 0; again < AGAIN; again++)
            expect(GET("/same"), COMMON);
        for (int again = 0; again < AGAIN; again++)
            expect(others[i].request, others[i].answer);
    }
}

TEST_SERVER(answers_that_are_like_those_before_have_the_date_of_their_time)
{
    char before[30] = "";
    for (int second = 0; second < 4; second++) {
        ask(GET("/same") GET("/same") GET("/same") GET("/same"));
        const char *date = take_dates();
        CHECK_EQ(occurrences(answer, COMMON), 4);
        CHECK(strcmp(date, before) != 0);
        memcpy(before, date, sizeof before);
        coir_sleep_for(COIR_S);
    }
}

/* More than the server's buffer holds: answers wait for room, and none is cut. */
TEST_SERVER(many_answers_that_are_alike_do_not_overrun_the_buffer)
{
    enum { MANY = 400 };
    static char requests[MANY * sizeof GET("/same")];
    for (int i = 0; i < MANY; i++)
        strcat(requests, GET("/same"));
    ask(requests);
    take_dates();
    CHECK_EQ(occurrences(answer, COMMON), MANY);
    CHECK_EQ(answer_len, MANY * (sizeof COMMON - 1));
}

TEST_SIM(an_answer_while_the_server_drains_says_so)
{
    COIR_SCOPE(scope);
    coir_go(scope, serve, NULL);
    coir_sleep_for(COIR_MS);
    for (int again = 0; again < AGAIN; again++)
        expect(GET("/same"), COMMON);
    coir_stream *stream = dial();
    /* in the same second: the head is kept still when it is answered */
    send_text(stream, GET("/same?nap=20") GET("/same"));
    coir_sleep_for(COIR_MS);
    coir_scope_cancel(scope);
    receive_all(stream);
    CHECK(strstr(answer, "\r\nConnection: close\r\n"));
    CHECK_EQ(occurrences(answer, "HTTP/1.1 200 OK\r\n"), 1);
    coir_close(stream);
    coir_scope_wait(scope);
}

/* Its path has no memory if it is longer. */
static int says_path(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    bool there = *coir_request_path(req) == '/';
    CHECK_EQ(coir_respond(res, 200, "text/plain", body, BODY), there ? 0 : -ENOMEM);
    return there ? 0 : -ENOMEM;
}

static int serve_in_little_memory(void *arg)
{
    (void)arg;
    static const struct route paths[] = {{"GET", "/{path...}", says_path}, {0}};
    coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
    options.arena_max = 16;
    return serve_routes(paths, &options);
}

static void ask_for_much(void)
{
    for (int again = 0; again < AGAIN; again++)
        expect(GET("/short"), COMMON);
    CHECK_EQ(status(ask(GET("/as/long/as/can/be"))), 503);
}

TEST_SIM(an_answer_to_what_there_was_no_memory_for_is_none_of_those_before)
{
    CHECK_EQ(with_server(serve_in_little_memory, ask_for_much), 0);
}
