/* Memory of WebSocket: none is allocated for a message in the steady state, in either form, by
 * echoes and broadcasts; none is lost; and every allocation may fail. */
#include <coir.h>
#include <coir/ws.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static int echo(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_ws *ws;
    coir_ws_message *message;
    int rc = coir_ws_accept(req, res, &ws);
    while (rc >= 0 && (rc = coir_ws_recv(ws, &message)) > 0) {
        rc = coir_ws_send(ws, message);
        coir_ws_message_unref(message);
    }
    return 0;
}

static int on_message(coir_ws *ws, coir_ws_message *message, void *arg)
{
    (void)arg;
    return message ? coir_ws_send(ws, message) : 0;
}

static int echo_without(coir_request *req, coir_response *res, void *arg)
{
    return coir_ws_handle(req, res, on_message, arg);
}

static coir_listener *listener;

static int serve(void *router)
{
    int rc = coir_serve_http_with(HTTP_ON(listener), router);
    coir_listener_close(listener);
    return rc;
}

enum { CLIENTS = 4 };
static int rounds = 20;
static long in_steady_state;

static int receive(coir_ws *ws, size_t len)
{
    coir_ws_message *message;
    int rc = coir_ws_recv(ws, &message);
    if (rc <= 0)
        return rc < 0 ? rc : -COIR_EEND;
    CHECK_EQ(coir_ws_message_len(message), len);
    coir_ws_message_unref(message);
    return 0;
}

/* One message to all of them, which comes back from each; and one of each. */
static int converse(coir_ws **clients, size_t len)
{
    static const char data[30000];
    coir_ws_message *message;
    int rc = coir_ws_message_new(COIR_WS_BINARY, data, len, &message);
    if (rc < 0)
        return rc;
    for (int i = 0; i < CLIENTS && rc == 0; i++)
        if ((rc = coir_ws_send(clients[i], message)) == 0)
            rc = coir_ws_send_text(clients[i], "hello");
    coir_ws_message_unref(message);
    for (int i = 0; i < CLIENTS && rc == 0; i++)
        if ((rc = receive(clients[i], len)) == 0)
            rc = receive(clients[i], 5);
    return rc;
}

static int use(const char *address)
{
    coir_ws *clients[CLIENTS] = {NULL};
    char url[100];
    int rc = 0;
    for (int i = 0; i < CLIENTS && rc == 0; i++) {
        snprintf(url, sizeof url, "ws://%s/%s", address, i % 2 ? "echo" : "without");
        rc = coir_ws_connect(url, &clients[i]);
    }
    for (int i = 0; i < 2 * rounds && rc == 0; i++) {
        if (i == rounds)
            in_steady_state = -__atomic_load_n(&allocations, __ATOMIC_RELAXED);
        rc = converse(clients, (size_t)(i % 5) * 7000);
    }
    in_steady_state += __atomic_load_n(&allocations, __ATOMIC_RELAXED);
    for (int i = 0; i < CLIENTS; i++) {
        if (rc == 0)
            rc = coir_ws_close(clients[i], 1000, NULL);
        coir_ws_free(clients[i]);
    }
    return rc;
}

static int serve_and_use(void *router)
{
    char address[64];
    int rc = coir_tcp_listen("127.0.0.1:0", &listener);
    if (rc < 0)
        return rc;
    coir_listener_local(listener, address, sizeof address);
    COIR_DEADLINE(coir_in(20 * COIR_S));
    COIR_SERVING_SCOPE(servers);
    if ((rc = coir_go(servers, serve, router)) < 0)
        coir_listener_close(listener);
    else
        rc = use(address);
    CHECK(rc != -ETIME); /* nothing hangs */
    return rc;
}

static int run(void)
{
    coir_runtime *runtime;
    coir_router *router;
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.allocator = &counted;
    unsetenv("COIR_WORKERS");
    CHECK_EQ(coir_router_new(&router), 0);
    CHECK_EQ(coir_route(router, "GET", "/echo", echo, NULL), 0);
    CHECK_EQ(coir_route(router, "GET", "/without", echo_without, NULL), 0);
    int rc = coir_runtime_new(&config, &runtime);
    if (rc == 0) {
        rc = coir_runtime_run(runtime, serve_and_use, router);
        coir_runtime_free(runtime);
    }
    coir_router_free(router);
    return rc;
}

TEST(the_steady_state_allocates_nothing)
{
    rounds = 500;
    CHECK_EQ(run(), 0);
    CHECK(allocations > 0);
    CHECK_EQ(in_steady_state, 0); /* 4,000 messages, and their echoes */
    CHECK_EQ(live, 0);
}

TEST(any_allocation_may_fail)
{
    rounds = 3;
    CHECK_EQ(run(), 0);
    long count = allocations;
    for (fail_at = 0; fail_at < count; fail_at++) {
        allocations = 0;
        run(); /* an error or success, but an end */
        if (live)
            test_fail(__FILE__, __LINE__, "%ld allocations lost when number %ld failed", live,
                      fail_at);
    }
}
