/* Which handler is called for which path; which patterns are refused. */
#include "site.h"
#include "sys/misuse.h"
#include "web/router.h"

TEST_SERVER(routes_answer)
{
    CHECK(strstr(ask(GET("/hello")), "\r\n\r\nHello, World!"));
    CHECK(strstr(ask(GET("/hello/caf%C3%A9%20au%2Flait")), "Hello, caf\xc3\xa9 au/lait!"));
    CHECK(strstr(ask(GET("http://elsewhere/hello?x")), "Hello, World!"));
    CHECK(strstr(ask(GET("/hell%6f")), "Hello, World!") &&
          strstr(ask(GET("/%68ello/%79ou")), "Hello, you!"));
    CHECK(strstr(ask(GET("/a%2fb")), "slash") && strstr(ask(GET("/a%2Fb")), "slash") &&
          strstr(ask(GET("/%63af%c3%a9/*")), "star"));
    ask("HEAD /a%2fb HTTP/1.1\r\nHost: a\r\n\r\n"); /* its own route, behind GET's */
    CHECK(strstr(answer, "Content-Length: 4\r\n"));
    CHECK_EQ(status(ask(GET("/a/b"))), 404);
    CHECK_EQ(status(ask(GET("/%2fhello"))), 404);
    CHECK_EQ(status(ask(GET("/hello%2fyou"))), 404); /* that slash does not separate */
    CHECK_EQ(status(ask(GET("/hello%00"))), 400);
    CHECK_EQ(status(ask(GET("/hello/%"))), 400);
    CHECK_EQ(status(ask(GET("/none"))), 404);
    CHECK_EQ(status(ask(GET("/hello/"))), 404);
    CHECK_EQ(status(ask(GET("/hello/a/b"))), 404);
    CHECK_EQ(status(ask("POST /hello HTTP/1.1\r\nHost: a\r\n\r\n")), 405);
    CHECK(strstr(answer, "Allow: GET, HEAD, OPTIONS\r\n"));
    CHECK_EQ(status(ask("OPTIONS /echo HTTP/1.1\r\nHost: a\r\n\r\n")), 204);
    CHECK(strstr(answer, "Allow: POST, OPTIONS\r\n"));
    CHECK_EQ(status(ask("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")), 204);
    CHECK_EQ(status(ask("BREW /hello HTTP/1.1\r\nHost: a\r\n\r\n")), 501);
    ask("HEAD /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(status(answer) == 200 && strstr(answer, "Content-Length: 13\r\n") &&
          strstr(answer, "\r\n\r\n")[4] == '\0');
    CHECK(strstr(ask("GET /hello HTTP/1.0\r\n\r\n"), "Connection: close"));
    CHECK(strstr(ask("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
                 "Connection: keep-alive"));
    CHECK(strstr(answer, "Date: Thu, 01 Jan 2026 "));
}

TEST(a_bad_route_is_refused)
{
    static const struct route bad[] = {
        {"GET", "no/slash", hello}, {"GET", "/a%", hello},
        {"GET", "/a%0g", hello},    {"GET", "/a%00", hello},
        {"GET", "/a?b", hello},     {"GET", "/a#b", hello},
        {"GET", "/a{b}", hello},    {"GET", "/{}", hello},
        {"G T", "/", hello},        {"GET", "/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}", hello},
    };
    coir_router *router = make_router(routes);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (coir_route(router, bad[i].method, bad[i].pattern, bad[i].handler, NULL) != -EINVAL)
            test_fail(__FILE__, __LINE__, "%s %s", bad[i].method, bad[i].pattern);
    coir_router_free(router);
}

/* A route that no request could reach is refused. */
TEST(a_route_behind_its_like_is_refused)
{
    static const struct {
        const char *first, *second;
        bool dead;
    } cases[] = {
        {"/", "/", true},
        {"/a", "/a", true},
        {"/a", "/%61", true},
        {"/%61", "/a", true},
        {"/a%2fb", "/a%2Fb", true},
        {"/{x}", "/{y}", true},
        {"/{x}", "/a", true},
        {"/a/{x}/c", "/a/b/c", true},
        {"/a/{x}", "/a/{x}", true},
        {"/a", "/{x}", false},
        {"/a", "/a/", false},
        {"/a/", "/a", false},
        {"/{x}", "/", false},
        {"/", "/{x}", false},
        {"/{x}/b", "/a/{y}", false},
        {"/{x}", "/a/b", false},
        {"/a%2fb", "/a/b", false},
        {"/a/{x}", "/a/", false},
        {"/{x}/{y}", "/a/b/c", false},
        {"/a", "/A", false},
        {"/a/{x...}", "/a/{y...}", true},
        {"/a/{x...}", "/a/", true},
        {"/a/{x...}", "/a/b/c", true},
        {"/a/{x...}", "/a/{y}", true},
        {"/a/{x...}", "/a/{y}/b", true},
        {"/a/{x...}", "/a", false},
        {"/a/{x...}", "/b/c", false},
        {"/a/{x}", "/a/{y...}", false},
        {"/a/b", "/a/{y...}", false},
        {"/{x...}", "/", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        coir_router *router;
        CHECK_EQ(coir_router_new(&router), 0);
        CHECK_EQ(coir_route(router, "GET", cases[i].first, hello, NULL), 0);
        CHECK_EQ(coir_route(router, "PUT", cases[i].second, hello, NULL), 0);
        CHECK_EQ(coir_route(router, "HEAD", cases[i].second, hello, NULL), 0);
        if (coir_route(router, "GET", cases[i].second, hello, NULL) !=
            (cases[i].dead ? -EEXIST : 0))
            test_fail(__FILE__, __LINE__, "%s behind %s", cases[i].second, cases[i].first);
        coir_router_free(router);
    }
    coir_router *router;
    CHECK_EQ(coir_router_new(&router), 0);
    CHECK_EQ(coir_route(router, "GET", "/files/*", hello, NULL),
             -EINVAL); /* not what it looks like: a literal star is %2A */
    CHECK_EQ(coir_route(router, "GET", "/files/{rest*}", hello, NULL), -EINVAL);
    CHECK_EQ(coir_route(router, "GET", "/files/{rest...}/", hello, NULL), -EINVAL);
    CHECK_EQ(coir_route(router, "GET", "/files/{rest...}/a", hello, NULL), -EINVAL);
    CHECK_EQ(coir_route(router, "GET", "/files/{rest..}", hello, NULL), -EINVAL);
    CHECK_EQ(coir_route(router, "GET", "/files/{...}", hello, NULL), -EINVAL);
    CHECK_EQ(coir_route(router, "GET", "/files/{rest....}", hello, NULL), -EINVAL);
    CHECK_EQ(coir_route(router, "GET", "/files/{a}/{a...}", hello, NULL), -EINVAL);
    CHECK_EQ(coir_route(router, "GET", "/files/{a-b_C1}", hello, NULL), 0);
    /* coir_request_param could give only one of them */
    CHECK_EQ(coir_route(router, "GET", "/y/{a}/{a}", hello, NULL), -EINVAL);
    CHECK_EQ(coir_route(router, "GET", "/{long}/y/{l}/{long}", hello, NULL), -EINVAL);
    CHECK_EQ(coir_route(router, "GET", "/y/{a}/{aa}/{b}/a", hello, NULL), 0);
    coir_router_free(router);
}

static int rest(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    const char *first = coir_request_param(req, "first");
    return coir_respond_text(res, 200, "%s|%s", first ? first : "none",
                             coir_request_param(req, "rest"));
}

static int serve_rest(void *arg)
{
    (void)arg;
    static const struct route all[] = {{"GET", "/files/one", hello},
                                       {"GET", "/files/{rest...}", rest},
                                       {"GET", "/a/{first}/{rest...}", rest},
                                       {0}};
    coir_router *router = make_router(all);
    coir_serve_http_options with = COIR_SERVE_HTTP_OPTIONS;
    with.address = server_address;
    int rc = coir_serve_http_with(&with, router);
    coir_router_free(router);
    return rc;
}

static void ask_for_rest(void)
{
    CHECK(strstr(ask(GET("/files/one")), "Hello"));
    CHECK(strstr(ask(GET("/files/")), "\r\n\r\nnone|"));
    CHECK(strstr(answer, "Content-Length: 5\r\n"));
    CHECK(strstr(ask(GET("/files/b/c%20d//e/")), "none|b/c d//e/"));
    CHECK(strstr(ask(GET("/f%69les/b")), "none|b"));
    CHECK(strstr(ask(GET("/a/b%2fc/d/e")), "b/c|d/e"));
    CHECK_EQ(status(ask(GET("/files"))), 404);
    CHECK_EQ(status(ask(GET("/a//b"))), 404);
    CHECK_EQ(status(ask(GET("/a/b"))), 404);
}

TEST_SIM(the_rest_of_a_path_is_a_parameter)
{
    CHECK_EQ(with_server(serve_rest, ask_for_rest), 0);
}

TEST(a_call_without_its_arguments_is_refused)
{
    coir_router *router;
    ci_misuse_aborts = false;
    CHECK_EQ(coir_router_new(NULL), -EINVAL);
    CHECK_EQ(coir_router_new_with(NULL, NULL), -EINVAL);
    CHECK_EQ(coir_router_new_with(NULL, &router), 0);
    CHECK_EQ(coir_route(NULL, "GET", "/", hello, NULL), -EINVAL);
    CHECK_EQ(coir_route(router, NULL, "/", hello, NULL), -EINVAL);
    CHECK_EQ(coir_route(router, "GET", NULL, hello, NULL), -EINVAL);
    CHECK_EQ(coir_route(router, "GET", "/", NULL, NULL), -EINVAL);
    CHECK_EQ(coir_route(router, "GET", "/", hello, NULL), 0);
    coir_router_free(router);
    coir_router_free(NULL);
}

TEST(allow_lists_each_method_once)
{
    static const struct route some[] = {{"DISPATCH", "/a", hello},
                                        {"PATCH", "/a", hello},
                                        {"GET", "/a", hello},
                                        {"GET", "/{b}", hello},
                                        {0}};
    coir_router *router = make_router(some);
    char text[64];
    size_t len = ci_router_allow(router, "/a", 2, text, sizeof text);
    CHECK_EQ(len, strlen(text));
    CHECK(strcmp(text, "DISPATCH, PATCH, GET, HEAD, OPTIONS") == 0);
    coir_router_free(router);
}

/* The same is found where method and path lie apart, where they lie in a line as in a request, and
 * where it is no space that is between them. */
static const struct ci_route *match(const coir_router *router, const char *method, const char *path,
                                    struct ci_match *ret_match)
{
    static const char between[] = {' ', '\0', '\t', '/'};
    char line[256];
    size_t method_len = strlen(method), path_len = strlen(path);
    ci_router_match(router, method, method_len, path, path_len, ret_match);
    for (size_t i = 0; i < sizeof between; i++) {
        struct ci_match found;
        snprintf(line, sizeof line, "%s%c%s", method, ' ', path);
        line[method_len] = between[i];
        ci_router_match(router, line, method_len, line + method_len + 1, path_len, &found);
        CHECK(found.route == ret_match->route);
        CHECK_EQ(found.path_known, ret_match->path_known);
        CHECK_EQ(found.param_count, ret_match->param_count);
    }
    return ret_match->route;
}

/* Routes without parameters lie in lists by their length; some of these are in the same list. */
TEST(literal_routes_are_told_apart)
{
    static const char *const paths[] = {"/",
                                        "/a",
                                        "/b",
                                        "/ab",
                                        "/abcdefghijabcdefghijabcdefghijab",
                                        "/abcdefghijabcdefghijabcdefghijabc",
                                        "/abcdefghijabcdefghijabcdefghijabd"},
                             *const methods[] = {"GET", "PUT", "POST"};
    struct ci_match found;
    coir_router *router;
    CHECK_EQ(coir_router_new(&router), 0);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        for (size_t j = 0; j < sizeof methods / sizeof *methods; j++)
            CHECK_EQ(coir_route(router, methods[j], paths[i], hello, NULL), 0);
    CHECK_EQ(coir_route(router, "GET", "/{any}", hello, NULL), 0);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        for (size_t j = 0; j < sizeof methods / sizeof *methods; j++) {
            const struct ci_route *route = match(router, methods[j], paths[i], &found);
            CHECK(route && strcmp(route->method, methods[j]) == 0 &&
                  strcmp(route->pattern, paths[i]) == 0 && found.param_count == 0);
        }
        CHECK(!match(router, "DELETE", paths[i], &found) && found.path_known);
        CHECK(match(router, "HEAD", paths[i], &found) &&
              strcmp(found.route->pattern, paths[i]) == 0);
    }
    CHECK(match(router, "GET", "/c", &found) && found.param_count == 1);
    CHECK(!match(router, "GET", "/c/c", &found) && !found.path_known);
    coir_router_free(router);
}
