/* Connections of HTTP over TLS at rest: those that have waited for a second have no task. */
#include <coir/web.h>

#include "pair.h"
#include "task/current.h"
#include "task/runtime.h"

enum { IDLERS = 20, RECORDS_MAX = 10000 };

static coir_tls *client, *server;
static coir_listener *listener;
static char address[64];

static int hello(coir_request *req, coir_response *res, void *arg)
{
    (void)req, (void)arg;
    return coir_respond_text(res, 200, "hello");
}

static int serve(void *arg)
{
    coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
    coir_router *router;
    (void)arg;
    CHECK_EQ(coir_router_new(&router), 0);
    CHECK_EQ(coir_route(router, "GET", "/", hello, NULL), 0);
    options.listener = listener;
    options.layer = coir_tls_layer;
    options.layer_arg = server;
    options.idle_timeout = 60 * COIR_S;
    int rc = coir_serve_http_with(&options, router);
    coir_router_free(router);
    return rc;
}

static coir_stream *dial(void)
{
    coir_stream *tcp, *conn;
    CHECK_EQ(coir_tcp_connect(address, &tcp), 0);
    CHECK_EQ(coir_tls_connect(client, "example.org", tcp, &conn), 0);
    return conn;
}

static void ask(coir_stream *conn)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n";
    char answer[1000];
    CHECK_EQ(coir_write_all(conn, request, sizeof request - 1), 0);
    ssize_t n = coir_read(conn, answer, sizeof answer - 1);
    CHECK(n > 5);
    answer[n] = '\0';
    CHECK(strcmp(answer + n - 5, "hello") == 0);
}

/* How many records of tasks the worker has free; it gets no memory for more meanwhile. */
static void *no_memory(size_t size, void *context)
{
    (void)size, (void)context;
    return NULL;
}

static void free_nothing(void *memory, size_t size, void *context)
{
    (void)memory, (void)size, (void)context;
}

static const coir_allocator none = COIR_ALLOCATOR(no_memory, free_nothing, NULL);

static int free_records(void)
{
    static void *records[RECORDS_MAX];
    struct ci_pool *tasks = &ci_worker_current->tasks;
    const coir_allocator *before = tasks->allocator;
    int count = 0;
    tasks->allocator = &none;
    while ((records[count] = ci_pool_take(tasks)))
        CHECK(++count < RECORDS_MAX);
    for (int i = 0; i < count; i++)
        ci_pool_give(tasks, records[i]);
    tasks->allocator = before;
    return count;
}

static void close_all(coir_stream *conns[IDLERS])
{
    for (int i = 0; i < IDLERS; i++)
        coir_close(conns[i]);
}

static void be_asked_after_a_rest(void)
{
    coir_stream *conns[IDLERS];
    char byte;
    for (int i = 0; i < IDLERS; i++)
        ask(conns[i] = dial());
    int busy = free_records();
    for (int round = 0; round < 3; round++) {
        CHECK_EQ(coir_sleep_for(10 * COIR_S), 0);
        CHECK_EQ(free_records(), busy + IDLERS);
        for (int i = 0; i < IDLERS; i++)
            ask(conns[i]);
        CHECK_EQ(free_records(), busy);
    }
    CHECK_EQ(coir_sleep_for(61 * COIR_S), 0); /* the idle timeout of those at rest: close_notify */
    for (int i = 0; i < IDLERS; i++)
        CHECK_EQ(coir_read(conns[i], &byte, 1), 0);
    close_all(conns);
    CHECK_EQ(coir_sleep_for(10 * COIR_S), 0);
    CHECK_EQ(free_records(), busy + IDLERS);
}

static void end_while_at_rest(coir_scope *scope)
{
    coir_stream *conns[IDLERS];
    char byte;
    for (int i = 0; i < IDLERS; i++)
        ask(conns[i] = dial());
    CHECK_EQ(coir_sleep_for(3 * COIR_S), 0);
    int resting = free_records();
    coir_close(conns[0]);
    conns[0] = NULL;
    CHECK_EQ(coir_sleep_for(3 * COIR_S), 0);
    CHECK_EQ(free_records(), resting); /* it has ended at rest */
    coir_scope_cancel(scope);
    CHECK_EQ(coir_scope_wait(scope), 0);
    for (int i = 1; i < IDLERS; i++)
        CHECK_EQ(coir_read(conns[i], &byte, 1), 0);
    close_all(conns);
}

TEST_SIM(https_connections_that_wait_give_their_tasks_back)
{
    client = client_of((coir_tls_options)COIR_TLS_OPTIONS);
    server = server_of((coir_tls_options)COIR_TLS_OPTIONS);
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    CHECK(coir_listener_local(listener, address, sizeof address) > 0);
    {
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go(scope, serve, NULL), 0);
        be_asked_after_a_rest();
        end_while_at_rest(scope);
    }
    coir_listener_close(listener);
    coir_tls_unref(client);
    coir_tls_unref(server);
}
