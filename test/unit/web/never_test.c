/* A server without limits: COIR_NEVER in each option that is a time, COIR_UNLIMITED in every
 * other. */
#include <coir.h>
#include <coir/web.h>
#include <string.h>

#include "harness.h"

static coir_listener *listener;

static int hello(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char body[8];
    ssize_t n = coir_request_read(req, body, sizeof body);
    return n < 0 ? (int)n : coir_respond_text(res, 200, "%d bytes", (int)n);
}

static int serve(void *router)
{
    coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
    options.header_timeout = options.idle_timeout = options.body_timeout = COIR_NEVER;
    options.write_timeout = options.drain_timeout = COIR_NEVER;
    options.body_total_timeout = options.linger_timeout = COIR_NEVER;
    options.line_max = options.head_max = options.arena_max = options.linger_max = COIR_UNLIMITED;
    options.connections_max = options.rate_min = COIR_UNLIMITED;
    options.body_max = COIR_UNLIMITED;
    options.listener = listener;
    return coir_serve_http_with(&options, router);
}

static void say(coir_stream *stream, const char *text)
{
    CHECK_EQ(coir_write_all(stream, text, strlen(text)), 0);
}

/* The client waits for nine minutes before each part of its requests. */
TEST_SIM(a_server_without_limits_waits)
{
    static const char *const parts[] = {"POST / HT",
                                        "TP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n", "ab"};
    char address[64], buf[500];
    coir_router *router;
    coir_stream *stream;
    CHECK_EQ(coir_router_new(&router), 0);
    CHECK_EQ(coir_route(router, "POST", "/", hello, NULL), 0);
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    coir_listener_local(listener, address, sizeof address);
    {
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go(scope, serve, router), 0);
        CHECK_EQ(coir_tcp_connect(address, &stream), 0);
        for (int i = 0; i < 2; i++) {
            for (int part = 0; part < 3; part++) {
                CHECK_EQ(coir_sleep_for(9 * 60 * COIR_S), 0);
                say(stream, parts[part]);
            }
            ssize_t n = coir_read(stream, buf, sizeof buf - 1);
            CHECK(n > 0);
            buf[n] = '\0';
            CHECK(strstr(buf, "200 OK"));
        }
        coir_close(stream);
        coir_scope_cancel(scope);
    }
    coir_listener_close(listener);
    coir_router_free(router);
}
