/* How connections spread over the workers: by count, however they arrive, whatever waits for the
 * kernel, whoever accepts. */
#include <coir.h>
#include <coir/web.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "harness.h"
#include "io/listener.h"
#include "plain.h"

enum { CONNECTIONS = 1000, WORKERS_MOST = 4 };

static const char *const drivers[] = {"io_uring", "epoll", "poll"};

/* ---- servers: each connection is told the number of its worker ---- */

static coir_runtime *runtime;
static coir_listener *listener;
static int workers, served, busy;
static char address[64];

static int say_worker(coir_stream *stream, void *arg)
{
    (void)arg;
    char byte = (char)('0' + coir_worker_index());
    ci_fetch_add(&served, 1); /* before its client learns of it */
    int rc = coir_write_all(stream, &byte, 1);
    return rc < 0 ? rc : (int)coir_read(stream, &byte, 1);
}

static int serve_tcp(void *arg)
{
    (void)arg;
    return coir_serve_tcp_with(TCP_ON(listener), say_worker, NULL);
}

static int run_stream(void *stream)
{
    int rc = say_worker(stream, NULL);
    coir_close(stream);
    return rc;
}

static int accept_plainly(void *arg)
{
    (void)arg;
    COIR_SERVING_SCOPE(connections);
    coir_stream *stream;
    int rc;
    while ((rc = coir_accept(listener, &stream)) == 0)
        if ((rc = coir_go(connections, run_stream, stream)) < 0) { /* cancelled as it accepted */
            coir_close(stream);
            break;
        }
    return rc;
}

static int serve_plainly(void *arg)
{
    (void)arg;
    COIR_SCOPE(acceptors);
    for (int i = 0; i < workers; i++)
        CHECK_EQ(coir_go_on(acceptors, i, accept_plainly, NULL), 0);
    return coir_scope_wait(acceptors);
}

static int answer_worker(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    return coir_respond_text(res, 200, "worker %d", coir_worker_index());
}

static int serve_http(void *arg)
{
    (void)arg;
    coir_router *router;
    CHECK_EQ(coir_router_new(&router), 0);
    CHECK_EQ(coir_route(router, "GET", "/", answer_worker, NULL), 0);
    int rc = coir_serve_http_with(HTTP_ON(listener), router);
    coir_router_free(router);
    return rc;
}

/* Computes until the other workers have accepted the connections that arrived meanwhile. */
static void compute(void *arg)
{
    (void)arg;
    ci_store(&busy, 2);
    while (ci_load(&served) < 49)
        continue;
    ci_store(&busy, 0);
}

/* ---- a client in plain code ---- */

static bool http;
static int sockets[CONNECTIONS], counts[WORKERS_MOST];

static int dial(void)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    int fd = plain_dial(address);
    if (http)
        CHECK_EQ(send(fd, request, sizeof request - 1, 0), sizeof request - 1);
    return fd;
}

/* The worker that answers. */
static int hear(int fd)
{
    char text[500] = "";
    ssize_t n = recv(fd, text, sizeof text - 1, 0);
    CHECK(n > 0);
    const char *worker = http ? strstr(text, "worker ") : text;
    CHECK(worker);
    int index = worker[http ? 7 : 0] - '0';
    CHECK(index >= 0 && index < workers);
    counts[index]++;
    return index;
}

/* Closes all clients, and waits until the server has closed its ends: open connections would count
 * in the next step. */
static void leave(void)
{
    char byte;
    for (int i = 0; i < CONNECTIONS; i++)
        CHECK_EQ(shutdown(sockets[i], SHUT_WR), 0);
    for (int i = 0; i < CONNECTIONS; i++) {
        CHECK(recv(sockets[i], &byte, 1, 0) < 0 && errno == ECONNRESET);
        close(sockets[i]);
    }
}

/* Connects the clients in groups: those of a group at once, each group answered before the next. */
static void come_in_groups(int size)
{
    for (int from = 0; from < CONNECTIONS; from += size) {
        for (int i = from; i < from + size; i++)
            sockets[i] = dial();
        for (int i = from; i < from + size; i++)
            hear(sockets[i]);
    }
    leave();
}

/* No worker has more than 5/4, or less than 1/4, of its share. */
static bool shares_are_fair(void)
{
    for (int i = 0; i < workers; i++)
        if (counts[i] * workers * 4 > CONNECTIONS * 5 || counts[i] * workers * 4 <= CONNECTIONS)
            return false;
    return true;
}

/* A worker that the machine does not run is passed over as a busy one is, so one try may fail:
 * there are several. */
static void come_fairly(const char *how, void (*come)(int), int size)
{
    for (int tries = 20; tries > 0; tries--) {
        memset(counts, 0, sizeof counts);
        come(size);
        if (shares_are_fair())
            return;
    }
    test_fail(__FILE__, __LINE__, "%s of %d over %d workers: %d %d %d %d", how, size, workers,
              counts[0], counts[1], counts[2], counts[3]);
}

static void come_in_all_ways(void)
{
    come_fairly("groups", come_in_groups, 1);
    come_fairly("groups", come_in_groups, 10);
    come_fairly("groups", come_in_groups, 100);
    come_fairly("groups", come_in_groups, CONNECTIONS);
}

/* Each connection ends before the next begins. A worker that has not noticed the end yet is passed
 * over, so the shares are not exact. */
static void come_one_by_one(int count)
{
    for (int i = 0; i < count; i++) {
        int fd = dial();
        hear(fd);
        close(fd);
    }
}

static void come_and_go(void)
{
    come_fairly("single connections", come_one_by_one, CONNECTIONS);
}

/* Worker 0 computes until the others have served all but one: that one may have been promised to it
 * by io_uring before. */
static void come_to_a_busy_one(void)
{
    memset(counts, 0, sizeof counts);
    ci_store(&served, 0);
    ci_store(&busy, 1);
    CHECK_EQ(coir_runtime_post(runtime, 0, compute, NULL), 0);
    while (ci_load(&busy) != 2)
        sched_yield();
    for (int i = 0; i < 50; i++)
        sockets[i] = dial();
    for (int i = 0; i < 50; i++)
        hear(sockets[i]);
    for (int i = 0; i < 50; i++)
        close(sockets[i]);
    if (counts[0] > 1)
        test_fail(__FILE__, __LINE__, "the busy worker was given %d of 50 connections", counts[0]);
}

/* ---- one run ---- */

static coir_task_fn *server;
static void (*client)(void);

/* Until every worker accepts: their threads begin when the machine lets them. */
static void wait_for_all_workers(void)
{
    memset(counts, 0, sizeof counts);
    for (int i = 0; i < workers; i++)
        while (!counts[i]) {
            int fd = dial();
            hear(fd);
            close(fd);
        }
}

static void *run_client(void *arg)
{
    (void)arg;
    wait_for_all_workers();
    client();
    coir_runtime_stop(runtime);
    return NULL;
}

static int listen_and_serve(void *arg)
{
    (void)arg;
    pthread_t thread;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    plain_reset_on_close(listener->fd);
    CHECK(coir_listener_local(listener, address, sizeof address) > 0);
    CHECK_EQ(pthread_create(&thread, NULL, run_client, NULL), 0);
    CHECK_EQ(server(NULL), -ECANCELED);
    coir_listener_close(listener);
    pthread_join(thread, NULL);
    return 0;
}

static void run(const char *driver, int worker_count, coir_task_fn *how, void (*clients)(void))
{
    coir_config config = COIR_CONFIG;
    config.driver = driver;
    config.workers = (unsigned)(workers = worker_count);
    server = how;
    client = clients;
    http = how == serve_http;
    if (coir_runtime_new(&config, &runtime) < 0) {
        CHECK(strcmp(driver, "io_uring") == 0); /* it does not work here */
        return;
    }
    CHECK_EQ(coir_runtime_run(runtime, listen_and_serve, NULL), 0);
    coir_runtime_free(runtime);
}

static void on_every_driver(coir_task_fn *how, void (*clients)(void))
{
    unsetenv("COIR_WORKERS");
    unsetenv("COIR_DRIVER");
    for (int i = 0; i < 3; i++)
        for (int count = 2; count <= WORKERS_MOST; count += 2)
            run(drivers[i], count, how, clients);
}

TEST(connections_of_a_tcp_server_spread)
{
    on_every_driver(serve_tcp, come_in_all_ways);
}

TEST(connections_of_an_http_server_spread)
{
    on_every_driver(serve_http, come_in_all_ways);
}

TEST(connections_of_plain_acceptors_spread)
{
    on_every_driver(serve_plainly, come_in_all_ways);
}

TEST(short_connections_spread)
{
    on_every_driver(serve_tcp, come_and_go);
}

/* ---- workers that accept one connection, and serve it before the next ---- */

static int serve_in_turn(void *from)
{
    coir_stream *stream;
    int rc;
    while ((rc = coir_accept(from, &stream)) == 0)
        run_stream(stream);
    return rc;
}

static int serve_one_each(void *arg)
{
    (void)arg;
    COIR_SCOPE(acceptors);
    for (int i = 0; i < workers; i++)
        CHECK_EQ(coir_go_on(acceptors, i, serve_in_turn, listener), 0);
    return coir_scope_wait(acceptors);
}

/* The other process of a hand-over is another listener here: every second worker accepts from
 * it. */
static int serve_one_each_and_share(void *arg)
{
    coir_listener *successor;
    char text[32];
    (void)arg;
    COIR_SCOPE(acceptors);
    for (int i = 0; i < workers; i += 2)
        CHECK_EQ(coir_go_on(acceptors, i, serve_in_turn, listener), 0);
    while (!ci_load_relaxed(&listener->seats[0].waiting))
        coir_yield();
    coir_fd fd = coir_listener_share(listener);
    CHECK(fd >= 0);
    while (!ci_load_relaxed(&listener->seats[0].shares)) /* its worker has been told */
        coir_yield();
    snprintf(text, sizeof text, "fd:%d", fd);
    CHECK_EQ(coir_tcp_listen(text, &successor), 0);
    for (int i = 1; i < workers; i += 2)
        CHECK_EQ(coir_go_on(acceptors, i, serve_in_turn, successor), 0);
    int rc = coir_scope_wait(acceptors);
    coir_listener_close(successor);
    return rc;
}

/* As many come as there are workers: none waits for another one to leave. */
static void come_one_for_each(void)
{
    int fds[WORKERS_MOST];
    char byte;
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < workers; i++) {
            fds[i] = plain_dial_for(address, 10);
            CHECK_EQ(recv(fds[i], &byte, 1, 0), 1);
        }
        for (int i = 0; i < workers; i++)
            close(fds[i]);
    }
}

TEST(a_worker_that_serves_keeps_no_connection_from_one_that_accepts)
{
    on_every_driver(serve_one_each, come_one_for_each);
}

TEST(a_process_that_serves_keeps_no_connection_from_its_successor)
{
    on_every_driver(serve_one_each_and_share, come_one_for_each);
}

TEST(a_busy_worker_is_given_nothing)
{
    on_every_driver(serve_tcp, come_to_a_busy_one);
}
