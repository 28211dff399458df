/* The limit of connections a worker: the other worker takes what one cannot, and what nobody can
 * take waits. */
#include <coir.h>
#include <coir/web.h>
#include <errno.h>
#include <string.h>

#include "harness.h"

static int hello(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    return coir_respond_text(res, 200, "worker %d", coir_worker_index());
}

static coir_listener *listener;

static int serve(void *arg)
{
    coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
    options.connections_max = 1;
    options.listener = listener;
    return coir_serve_http_with(&options, arg);
}

static coir_stream *dial(const char *address)
{
    coir_stream *stream;
    CHECK_EQ(coir_tcp_connect(address, &stream), 0);
    return stream;
}

/* The number of the worker that answers, or the error. */
static int ask(coir_stream *stream)
{
    static const char text[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    char buf[500];
    int rc = coir_write_all(stream, text, sizeof text - 1);
    ssize_t n = rc < 0 ? rc : coir_read(stream, buf, sizeof buf - 1);
    if (n < 0)
        return (int)n;
    buf[n] = '\0';
    CHECK(strstr(buf, "worker "));
    return strstr(buf, "worker ")[7] - '0';
}

static int wait_for_answer(coir_stream *stream)
{
    char buf[500];
    ssize_t n = coir_read(stream, buf, sizeof buf);
    return n < 0 ? (int)n : 0;
}

static void fill(void)
{
    char address[64];
    coir_router *router;
    CHECK_EQ(coir_router_new(&router), 0);
    CHECK_EQ(coir_route(router, "GET", "/", hello, NULL), 0);
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    coir_listener_local(listener, address, sizeof address);
    {
        COIR_DEADLINE(coir_in(30 * COIR_S));
        COIR_SERVING_SCOPE(servers);
        coir_go(servers, serve, router);
        for (int round = 0; round < 20; round++) {
            coir_stream *first = dial(address), *second = dial(address), *third;
            int a = ask(first), b = ask(second);
            if (a < 0 || b < 0 || a == b) /* one each */
                test_fail(__FILE__, __LINE__, "round %d: the first got %d, the second %d", round, a,
                          b);
            third = dial(address);
            {
                COIR_DEADLINE(coir_in(20 * COIR_MS));
                CHECK_EQ(ask(third), -ETIME); /* it waits in the backlog */
            }
            coir_close(first);
            CHECK_EQ(wait_for_answer(third), 0); /* and is taken when there is room */
            coir_close(second);
            coir_close(third);
        }
    }
    coir_listener_close(listener);
    coir_router_free(router);
}

TEST(what_one_worker_cannot_take_another_does_or_waits)
{
    test_in_runtime(fill, 2);
}
