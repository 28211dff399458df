/* A single connection on the real driver: no other client and no timer ever wakes the worker. */
#include <coir.h>
#include <coir/web.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "plain.h"

static coir_listener *listener;
static coir_serve_http_options options;

static int hello(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    return coir_respond_text(res, 200, "hello");
}

static int swallow(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char buf[5000];
    ssize_t n;
    size_t total = 0;
    while ((n = coir_request_read(req, buf, sizeof buf)) > 0)
        total += (size_t)n;
    return n < 0 ? (int)n : coir_respond_text(res, 200, "%zu bytes", total);
}

static int serve(void *arg)
{
    coir_serve_http_options with = options;
    with.listener = listener;
    return coir_serve_http_with(&with, arg);
}

/* ---- the client: plain sockets on a plain thread ---- */

static int client;
static char address[64];

static void say(const char *text, size_t body_len)
{
    static const char body[1 << 16];
    CHECK_EQ(send(client, text, strlen(text), MSG_NOSIGNAL), strlen(text));
    CHECK_EQ(send(client, body, body_len, MSG_NOSIGNAL), body_len);
}

static void expect(const char *end)
{
    char buf[1000];
    size_t len = 0;
    do {
        ssize_t n = recv(client, buf + len, sizeof buf - 1 - len, 0);
        if (n <= 0)
            test_fail(__FILE__, __LINE__, "no answer: %s", n ? strerror(errno) : "closed");
        len += (size_t)n;
        buf[len] = '\0';
    } while (len < strlen(end) || strcmp(buf + len - strlen(end), end) != 0);
}

static int upload_and_ask(void *arg)
{
    static const struct {
        const char *head;
        size_t len;
        const char *answer;
    } uploads[] = {
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n", 100, "100 bytes"},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8000\r\n\r\n", 8000, "8000 bytes"},
        {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 40000\r\n\r\n", 40000, "40000 bytes"},
    };
    (void)arg;
    client = plain_dial_for(address, 5);
    for (int i = 0; i < 30; i++) {
        say(uploads[i % 3].head, uploads[i % 3].len);
        expect(uploads[i % 3].answer);
        for (int j = 0; j < i % 4; j++) {
            say("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 0);
            expect("hello");
        }
    }
    close(client);
    return 0;
}

static int pause_and_ask(void *arg)
{
    (void)arg;
    client = plain_dial_for(address, 5);
    for (int i = 0; i < 2; i++) {
        say("GET / HTTP/1.1\r\nHost: a\r\n\r\n", 0);
        expect("hello");
        struct pollfd ask = {.fd = client, .events = POLLIN};
        CHECK_EQ(poll(&ask, 1, 200), 0); /* ten times the write timeout: it is not closed */
    }
    close(client);
    return 0;
}

/* ---- both ---- */

static coir_task_fn *client_fn;

static void with_server(void)
{
    coir_router *router;
    CHECK_EQ(coir_router_new(&router), 0);
    CHECK_EQ(coir_route(router, "GET", "/", hello, NULL), 0);
    CHECK_EQ(coir_route(router, "POST", "/", swallow, NULL), 0);
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    coir_listener_local(listener, address, sizeof address);
    {
        COIR_SERVING_SCOPE(servers);
        CHECK_EQ(coir_go(servers, serve, router), 0);
        CHECK_EQ(coir_offload(client_fn, NULL), 0);
        coir_scope_cancel(servers);
    }
    coir_listener_close(listener);
    coir_router_free(router);
}

TEST(requests_after_uploads_are_answered)
{
    options = (coir_serve_http_options)COIR_SERVE_HTTP_OPTIONS;
    client_fn = upload_and_ask;
    test_in_runtime(with_server, 1);
}

TEST(the_write_timeout_ends_with_the_write)
{
    options = (coir_serve_http_options)COIR_SERVE_HTTP_OPTIONS;
    options.write_timeout = 20 * COIR_MS;
    client_fn = pause_and_ask;
    test_in_runtime(with_server, 1);
}
