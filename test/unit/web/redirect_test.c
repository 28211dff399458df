/* A redirect inside of the server: another handler answers, once, and sees the other path. */
#include "web/redirect.h"

#include "client.h"

static coir_router *inside;

static int tell(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    const char *value = coir_request_query_value(req, "q");
    return coir_respond_text(res, 200, "%s %s %s %s %s", coir_request_method(req),
                             coir_request_path(req), coir_request_query(req),
                             coir_request_param(req, "rest"), value ? value : "none");
}

static int again(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    int rc = ci_redirect(req, res, inside, "/files/a");
    return rc == -COIR_EPROTOCOL ? coir_respond_text(res, 508, "again") : rc;
}

static int redirect(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    int rc = ci_redirect(req, res, inside, coir_request_query_value(req, "to"));
    return rc == -COIR_EPROTOCOL ? coir_respond_text(res, 502, "bad") : rc;
}

static int serve(void *arg)
{
    (void)arg;
    static const struct route all[] = {{"GET", "/", redirect}, {"POST", "/", redirect}, {0}},
                              within[] = {{"GET", "/files/{rest...}", tell},
                                          {"GET", "/again", again},
                                          {"POST", "/post", tell},
                                          {0}};
    inside = make_router(within);
    coir_router *router = make_router(all);
    coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
    options.address = server_address;
    int rc = coir_serve_http_with(&options, router);
    coir_router_free(router);
    coir_router_free(inside);
    return rc;
}

TEST_SERVER(another_handler_answers)
{
    CHECK(strstr(ask(GET("/?to=/files/a/b%253Fc%3Fq%3D1")),
                 "\r\n\r\nGET /files/a/b%3Fc q=1 a/b?c 1"));
    CHECK(strstr(ask(GET("/?to=/files/")), "\r\n\r\nGET /files/   none"));
    ask("POST /?to=/files/x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    CHECK(strstr(answer, "\r\n\r\nPOST /files/x  x none"));
    CHECK_EQ(status(ask(GET("/?to=/none"))), 404);
    CHECK_EQ(status(ask(GET("/?to=/post"))), 404); /* it is looked up for GET */
    CHECK_EQ(status(ask(GET("/?to=files/a"))), 502);
    CHECK_EQ(status(ask(GET("/?to="))), 502);
    CHECK_EQ(status(ask(GET("/?to=/files/a%20b"))), 502); /* a space */
    CHECK_EQ(status(ask(GET("/?to=/files/%25zz"))), 502);
    CHECK_EQ(status(ask(GET("/?to=/again"))), 508);
    CHECK_EQ(status(ask(GET("/files/a"))), 404); /* no client reaches it */
}
