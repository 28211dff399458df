/* Memory: none is allocated in the steady state, none is lost, and every allocation may fail. */
#include <coir.h>
#include <coir/fastcgi.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fastcgi_peer.h"
#include "harness.h"

static long allocations, live, fail_at = -1;

static void *counted_alloc(size_t size, void *context)
{
    (void)context;
    void *memory = NULL;
    if (__atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED) == fail_at ||
        posix_memalign(&memory, 64, size) != 0)
        return NULL;
    __atomic_fetch_add(&live, 1, __ATOMIC_RELAXED);
    return memory;
}

static void counted_free(void *memory, size_t size, void *context)
{
    (void)context;
    (void)size;
    __atomic_fetch_sub(&live, 1, __ATOMIC_RELAXED);
    free(memory);
}

static const coir_allocator counted = COIR_ALLOCATOR(counted_alloc, counted_free, NULL);

static int run(coir_task_fn *fn)
{
    coir_runtime *runtime;
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.allocator = &counted;
    unsetenv("COIR_WORKERS");
    int rc = coir_runtime_new(&config, &runtime);
    if (rc < 0)
        return rc;
    rc = coir_runtime_run(runtime, fn, NULL);
    coir_runtime_free(runtime);
    return rc;
}

static int hello(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char body[2000];
    ssize_t n = coir_request_read(req, body, sizeof body);
    coir_request_alloc(req, 3000);
    coir_response_add_header(res, "X-Thing", "something");
    return n < 0 ? (int)n
                 : coir_respond_text(res, 200, "Hello, %s!", coir_request_param(req, "name"));
}

static coir_listener *listener;

static int serve(void *arg)
{
    int rc = coir_serve_http_with(HTTP_ON(listener), arg);
    coir_listener_close(listener); /* clients in its backlog are reset */
    return rc;
}

/* One connection, some requests; 0, or the error that ended it. */
static int ask(const char *address, int requests)
{
    static const char text[] =
        "POST /hello/you HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
    char buf[1000];
    coir_stream *stream;
    int rc = coir_tcp_connect(address, &stream);
    if (rc < 0)
        return rc;
    for (int i = 0; i < requests && rc >= 0; i++)
        if ((rc = coir_write_all(stream, text, sizeof text - 1)) == 0) {
            ssize_t n = coir_read(stream, buf, sizeof buf);
            rc = n > 0 ? 0 : n == 0 ? -COIR_EEND : (int)n;
            CHECK(fail_at >= 0 || strncmp(buf, "HTTP/1.1 200", 12) == 0);
        }
    coir_close(stream);
    return rc;
}

static long in_steady_state = -1;
static coir_router *router;

static int serve_and_ask(void *arg)
{
    char address[64];
    coir_router *served = arg ? arg : router;
    int rc = coir_tcp_listen("127.0.0.1:0", &listener);
    if (rc < 0)
        return rc;
    coir_listener_local(listener, address, sizeof address);
    {
        COIR_DEADLINE(coir_in(20 * COIR_S));
        COIR_SERVING_SCOPE(servers);
        rc = coir_go(servers, serve, served);
        for (int i = 0; i < 20 && rc == 0; i++)
            rc = ask(address, 10);
        long warm = __atomic_load_n(&allocations, __ATOMIC_RELAXED);
        for (int i = 0; i < 100 && rc == 0; i++)
            rc = ask(address, 20);
        in_steady_state = __atomic_load_n(&allocations, __ATOMIC_RELAXED) - warm;
        CHECK(rc != -ETIME); /* nothing hangs */
        if (rc == -ENOMEM && coir_scope_live(servers) == 0 && coir_scope_errors(servers) == 0)
            coir_listener_close(listener); /* the server's task could not be made */
    }
    return rc;
}

static int start(void *arg)
{
    (void)arg;
    return serve_and_ask(router);
}

static void make_router(void)
{
    CHECK_EQ(coir_router_new(&router), 0);
    CHECK_EQ(coir_route(router, "POST", "/hello/{name}", hello, NULL), 0);
}

TEST(the_steady_state_allocates_nothing)
{
    make_router();
    CHECK_EQ(run(start), 0);
    CHECK(allocations > 0);
    CHECK_EQ(in_steady_state, 0); /* 2,000 requests on 100 connections */
    CHECK_EQ(live, 0);
    coir_router_free(router);
}

/* ---- requests that a FastCGI application answers ---- */

static coir_fastcgi *fcgi;

static int run_application(coir_stream *stream, void *arg)
{
    (void)arg;
    static struct fcgi_request request; /* one connection at a time */
    int rc;
    while ((rc = fcgi_accept(&request, stream)) == 0) {
        while (fcgi_read_body(&request) > 0)
            continue;
        rc =
            fcgi_write_text(&request, "Content-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello");
        if (rc < 0 || (rc = fcgi_finish(&request)) < 0)
            break;
    }
    return 0;
}

static int serve_application(void *arg)
{
    return coir_serve_tcp_with(TCP_ON(arg), run_application, NULL);
}

static int pass_on(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_fastcgi_script script = COIR_FASTCGI_SCRIPT;
    script.filename = "/srv/page.php";
    script.name = "/page.php";
    return coir_fastcgi_pass(fcgi, req, res, &script);
}

static int start_with_application(void *arg)
{
    char address[64];
    coir_listener *its_listener;
    int rc = coir_tcp_listen("127.0.0.1:0", &its_listener);
    if (rc < 0)
        return rc;
    coir_listener_local(its_listener, address, sizeof address);
    if ((rc = coir_fastcgi_new(address, &fcgi)) == 0) {
        COIR_SERVING_SCOPE(scope);
        rc = coir_go(scope, serve_application, its_listener);
        if (rc == 0)
            rc = serve_and_ask(arg);
        coir_fastcgi_free(fcgi);
    }
    coir_listener_close(its_listener);
    return rc;
}

TEST(fastcgi_allocates_nothing_in_the_steady_state)
{
    CHECK_EQ(coir_router_new(&router), 0);
    CHECK_EQ(coir_route(router, "POST", "/hello/{name}", pass_on, NULL), 0);
    CHECK_EQ(run(start_with_application), 0);
    CHECK(allocations > 0);
    CHECK_EQ(in_steady_state, 0); /* 2,000 requests */
    CHECK_EQ(live, 0);
    coir_router_free(router);
}

TEST(any_allocation_of_fastcgi_may_fail)
{
    CHECK_EQ(coir_router_new(&router), 0);
    CHECK_EQ(coir_route(router, "POST", "/hello/{name}", pass_on, NULL), 0);
    run(start_with_application);
    long count = allocations;
    for (fail_at = 0; fail_at < count; fail_at++) {
        allocations = 0;
        run(start_with_application);
        if (live)
            test_fail(__FILE__, __LINE__, "%ld allocations lost when number %ld failed", live,
                      fail_at);
    }
    coir_router_free(router);
}

TEST(any_allocation_may_fail)
{
    make_router();
    run(start);
    long count = allocations;
    for (fail_at = 0; fail_at < count; fail_at++) {
        allocations = 0;
        run(start); /* an error or success, but an end */
        if (live)
            test_fail(__FILE__, __LINE__, "%ld allocations lost when number %ld failed", live,
                      fail_at);
    }
    coir_router_free(router);
}
