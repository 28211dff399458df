/* A client that knows nothing of HTTP, for the tests of the server: it sends bytes and keeps those
 * that come back. */
#ifndef TEST_WEB_CLIENT_H
#define TEST_WEB_CLIENT_H

#include <coir.h>
#include <coir/web.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"

static char answer[4 << 20];
static size_t answer_len;

/* In the simulator every host may use port 80; elsewhere serve_router takes a free one. */
static char server_address[64] = "127.0.0.1:80";

/* What a test serves: an array that ends with an empty route. */
struct route {
    const char *method, *pattern;
    coir_handler_fn *handler;
};

static inline coir_router *make_router(const struct route *route)
{
    coir_router *router;
    CHECK_EQ(coir_router_new(&router), 0);
    for (; route->method; route++)
        CHECK_EQ(coir_route(router, route->method, route->pattern, route->handler, NULL), 0);
    return router;
}

static inline int serve_router(coir_router *router, const coir_serve_http_options *options)
{
    coir_listener *listener;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    coir_listener_local(listener, server_address, sizeof server_address);
    coir_serve_http_options with =
        options ? *options : (coir_serve_http_options)COIR_SERVE_HTTP_OPTIONS;
    with.listener = listener;
    int rc = coir_serve_http_with(&with, router);
    coir_listener_close(listener);
    return rc;
}

static inline int serve_routes(const struct route *routes, const coir_serve_http_options *options)
{
    coir_router *router = make_router(routes);
    int rc = serve_router(router, options);
    coir_router_free(router);
    return rc;
}

/* A handler that answers how many bytes the body has. */
static inline int count_body(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char buf[700];
    long total = 0;
    ssize_t n;
    while ((n = coir_request_read(req, buf, sizeof buf)) > 0)
        total += n;
    if (n < 0 && !coir_task_interrupted())
        CHECK_EQ(coir_request_read(req, buf, sizeof buf), n); /* it stays so */
    return n < 0 ? (int)n : coir_respond_text(res, 200, "%ld", total);
}

static inline coir_stream *dial(void)
{
    coir_stream *stream;
    int rc;
    while ((rc = coir_tcp_connect(server_address, &stream)) == -ECONNREFUSED)
        coir_sleep_for(COIR_MS);
    CHECK_EQ(rc, 0);
    return stream;
}

static inline void send_bytes(coir_stream *stream, const char *bytes, size_t len)
{
    CHECK_EQ(coir_write_all(stream, bytes, len), 0);
}

static inline void send_text(coir_stream *stream, const char *text)
{
    send_bytes(stream, text, strlen(text));
}

/* Reads until the other end closes; what came lies in `answer`. */
static inline const char *receive_all(coir_stream *stream)
{
    ssize_t n;
    answer_len = 0;
    while ((n = coir_read(stream, answer + answer_len, sizeof answer - 1 - answer_len)) > 0)
        answer_len += (size_t)n;
    answer[answer_len] = '\0';
    return answer;
}

static inline const char *ask(const char *text)
{
    coir_stream *stream = dial();
    send_text(stream, text);
    coir_shutdown_write(stream); /* half closed: the answer still comes */
    receive_all(stream);
    coir_close(stream);
    return answer;
}

static inline int status(const char *text)
{
    return strncmp(text, "HTTP/1.1 ", 9) == 0 ? atoi(text + 9) : -1;
}

static inline int occurrences(const char *text, const char *what)
{
    int count = 0;
    for (; (text = strstr(text, what)); text += strlen(what))
        count++;
    return count;
}

/* Runs a test beside a server, which is stopped behind it. */
static inline int with_server(coir_task_fn *serve, void (*test)(void))
{
    COIR_SCOPE(scope);
    coir_go(scope, serve, NULL);
    coir_sleep_for(COIR_MS);
    test();
    coir_scope_cancel(scope);
    return coir_scope_wait(scope);
}

/* A test in the simulator, beside the server that the file's `serve` is. */
#define TEST_SERVER(name)                             \
    static void name##_test(void);                    \
    TEST_SIM(name)                                    \
    {                                                 \
        CHECK_EQ(with_server(serve, name##_test), 0); \
    }                                                 \
    static void name##_test(void)

static inline uint64_t test_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

#endif
