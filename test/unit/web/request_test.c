/* What a handler sees of a request. */
#include "site.h"
#include "sys/misuse.h"

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

/* A handler that looks at values for which there is no memory. */
static int trust(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    while (coir_request_alloc(req, 1))
        continue;
    const char *allowed = coir_request_header(req, "x-allowed");
    CHECK(allowed && *allowed == '\0');
    CHECK_EQ(coir_respond_text(res, 200, "as nobody had asked"), -ENOMEM);
    return -ENOMEM;
}

/* All memory is used up, and none of it for a value of the request. */
static int use_up(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    while (coir_request_alloc(req, 100))
        continue;
    return coir_respond_text(res, 200, "used up");
}

static int serve_starved(void *arg)
{
    static const struct route starved[] = {
        {"GET", "/trust", trust}, {"GET", "/use", use_up}, {NULL, NULL, NULL}};
    (void)arg;
    options.arena_max = ARENA_MAX;
    return serve_routes(starved, &options);
}

static void ask_for_too_much(void)
{
    CHECK_EQ(status(ask("GET /trust HTTP/1.1\r\nHost: a\r\nX-Allowed: no\r\n\r\n")), 503);
    CHECK_EQ(status(ask(GET("/use"))), 200);
}

TEST_SIM(a_value_without_memory_is_not_taken_for_an_absent_one)
{
    CHECK_EQ(with_server(serve_starved, ask_for_too_much), 0);
}

/* Sends a request and closes its direction a while later: how many handlers were cancelled by
 * that. */
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

/* ---- everything that a request says ---- */

static int server_wide;

static int tell(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    CHECK(strcmp(coir_request_method(req), "POST") == 0);
    CHECK(strcmp(coir_request_path(req), "/tell/a%20b") == 0);
    CHECK(strcmp(coir_request_query(req), "c=d&e") == 0);
    CHECK(strcmp(coir_request_host(req), "some.host:81") == 0);
    CHECK(strcmp(coir_request_header(req, "x-a"), "first") == 0);
    CHECK(coir_request_header(req, "x-b") == NULL);
    CHECK(strcmp(coir_request_param(req, "name"), "a b") == 0);
    CHECK(coir_request_param(req, "nam") == NULL && coir_request_param(req, "names") == NULL);
    CHECK_EQ(coir_request_length(req), 3);
    CHECK(coir_request_context(req) == &server_wide);
    char peer[64];
    CHECK(coir_stream_peer(coir_request_stream(req), peer, sizeof peer) > 0);
    char *memory = coir_request_alloc(req, 100);
    CHECK(memory && (uintptr_t)memory % 16 == 0);
    return coir_respond_text(res, 200, "told");
}

/* ---- calls that cannot be right ---- */

struct pair {
    coir_request *req;
    coir_response *res;
};

/* On another worker than the request's. */
static int call_elsewhere(void *arg)
{
    struct pair *pair = arg;
    const char *body;
    char byte;
    CHECK_EQ(coir_request_read(pair->req, &byte, 1), -EXDEV);
    CHECK_EQ(coir_request_body(pair->req, 1, &body), -EXDEV);
    coir_request_set_end_cancels(pair->req, true); /* has no effect */
    CHECK_EQ(coir_response_add_header(pair->res, "a", "b"), -EXDEV);
    CHECK_EQ(coir_respond(pair->res, 200, NULL, "", 0), -EXDEV);
    CHECK_EQ(coir_respond_text(pair->res, 200, "x"), -EXDEV);
    CHECK_EQ(coir_response_begin(pair->res, 200, NULL, 0), -EXDEV);
    CHECK_EQ(coir_response_write(pair->res, "x", 1), -EXDEV);
    CHECK_EQ(coir_response_flush(pair->res), -EXDEV);
    return 0;
}

static int misuse(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    struct pair pair = {req, res};
    const char *body;
    char byte;
    CHECK(*coir_request_method(NULL) == 0 && *coir_request_path(NULL) == 0);
    CHECK(*coir_request_query(NULL) == 0 && *coir_request_host(NULL) == 0);
    CHECK(!coir_request_header(NULL, "a") && !coir_request_header(req, NULL));
    CHECK(!coir_request_param(NULL, "a") && !coir_request_param(req, NULL));
    CHECK(!coir_request_query_value(NULL, "a") && !coir_request_query_value(req, NULL));
    CHECK(!coir_request_context(NULL) && !coir_request_alloc(NULL, 1));
    CHECK(!coir_request_stream(NULL));
    CHECK_EQ(coir_request_length(NULL), -EINVAL);
    coir_request_set_end_cancels(NULL, true);
    CHECK_EQ(coir_request_read(NULL, &byte, 1), -EINVAL);
    CHECK_EQ(coir_request_read(req, NULL, 1), -EINVAL);
    CHECK_EQ(coir_request_read(req, NULL, 0), 0);
    CHECK_EQ(coir_request_body(NULL, 1, &body), -EINVAL);
    CHECK_EQ(coir_request_body(req, 1, NULL), -EINVAL);
    CHECK_EQ(coir_response_add_header(NULL, "a", "b"), -EINVAL);
    CHECK_EQ(coir_response_add_header(res, NULL, "b"), -EINVAL);
    CHECK_EQ(coir_response_add_header(res, "a", NULL), -EINVAL);
    CHECK_EQ(coir_respond(NULL, 200, NULL, "", 0), -EINVAL);
    CHECK_EQ(coir_respond(res, 200, NULL, NULL, 1), -EINVAL);
    CHECK_EQ(coir_respond_text(NULL, 200, "x"), -EINVAL);
    CHECK_EQ(coir_response_begin(NULL, 200, NULL, 0), -EINVAL);
    CHECK_EQ(coir_response_write(NULL, "x", 1), -EINVAL);
    CHECK_EQ(coir_response_write(res, NULL, 1), -EINVAL);
    CHECK_EQ(coir_response_flush(NULL), -EINVAL);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go_on(scope, 1 - coir_worker_index(), call_elsewhere, &pair), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    return coir_respond_text(res, 200, "refused");
}

static int serve_both(void *arg)
{
    (void)arg;
    static const struct route both[] = {
        {"POST", "/tell/{name}", tell}, {"GET", "/misuse", misuse}, {0}};
    coir_serve_http_options with = COIR_SERVE_HTTP_OPTIONS;
    with.context = &server_wide;
    return serve_routes(both, &with);
}

static void ask_both(void)
{
    CHECK(strstr(ask("POST /tell/a%20b?c=d&e HTTP/1.1\r\nHost: some.host:81\r\n"
                     "X-A: first\r\nX-A: second\r\nContent-Length: 3\r\n\r\nabc"),
                 "told"));
    CHECK(strstr(ask(GET("/misuse")), "refused"));
}

static void beside_both(void)
{
    ci_misuse_aborts = false;
    CHECK_EQ(with_server(serve_both, ask_both), 0);
}

TEST(a_request_says_everything_and_refuses_what_cannot_be_right)
{
    test_in_sim(beside_both, 2, 1);
}
