/* Opening and closing listeners. Listening that fails logs where, why, and what to do about it. */
#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "io/listener.h"

static char said[400];

static void log_line(enum coir_log_level level, const char *line, void *context)
{
    (void)context;
    if (level == COIR_LOG_ERROR)
        snprintf(said, sizeof said, "%s", line);
}

static void fails(const char *address, int error, const char *remedy)
{
    char begin[100];
    coir_listener *listener = NULL;
    said[0] = 0;
    CHECK_EQ(coir_tcp_listen(address, &listener), error);
    snprintf(begin, sizeof begin, "cannot listen on \"%s\": %s", address, coir_strerror(error));
    CHECK(strncmp(said, begin, strlen(begin)) == 0);
    CHECK(strstr(said, remedy) != NULL);
}

static int listen_badly(void *arg)
{
    (void)arg;
    char address[64];
    coir_listener *listener;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    CHECK(said[0] == 0);
    CHECK(coir_listener_local(listener, address, sizeof address) > 0);
    fails(address, -EADDRINUSE, "choose another port");
    fails("192.0.2.1:0", -EADDRNOTAVAIL, "0.0.0.0");
    fails("nonsense", -COIR_EPORT, "127.0.0.1:8080");
    fails("unix:nonsense", -COIR_EPATH, "unix:/");
    fails("fd:999", -COIR_EPASSED, "listens already");
    coir_listener_close(listener);
    return 0;
}

TEST(listening_that_fails_says_where_why_and_what_to_do)
{
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    config.workers = 1;
    config.log = log_line;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    CHECK_EQ(coir_runtime_run(runtime, listen_badly, NULL), 0);
    coir_runtime_free(runtime);
}

/* ---- closing ---- */

struct accepting {
    coir_listener *listener;
    int rc;
};

static int accept_one(void *arg)
{
    struct accepting *accepting = arg;
    coir_stream *stream;
    accepting->rc = coir_accept(accepting->listener, &stream);
    return 0;
}

/* The record outlives the accepts that waited on the worker that closes it. */
static void close_under_an_accept(void)
{
    struct accepting waits[3];
    coir_listener *listener;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    COIR_SCOPE(scope);
    for (int i = 0; i < 3; i++) {
        waits[i] = (struct accepting){listener, 1};
        CHECK_EQ(coir_go(scope, accept_one, &waits[i]), 0);
    }
    while (listener->seats[ci_worker_current->index].waiting < 3)
        coir_yield();
    coir_listener_close(listener);
    CHECK_EQ(coir_scope_wait(scope), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(waits[i].rc, -ECANCELED);
}

TEST_REAL(accepts_that_wait_end_when_the_listener_is_closed)
{
    close_under_an_accept();
}

TEST_SIM(accepts_that_wait_end_when_a_simulated_listener_is_closed)
{
    close_under_an_accept();
}

/* ---- closing under the accepts of other workers ---- */

enum { WORKERS = 3, ACCEPTS = 2 };

static int accept_until_closed(void *arg)
{
    struct accepting *accepting = arg;
    coir_stream *stream;
    while ((accepting->rc = coir_accept(accepting->listener, &stream)) == 0)
        coir_close(stream);
    return 0;
}

static uint32_t count_waiting(coir_listener *listener)
{
    uint32_t sum = 0;
    for (int i = 0; i < listener->seat_count; i++)
        sum += ci_load_relaxed(&listener->seats[i].waiting);
    return sum;
}

static void until_waiting(coir_listener *listener, uint32_t count)
{
    while (count_waiting(listener) != count)
        coir_yield();
}

static void start_accepts(coir_scope *scope, coir_listener *listener, struct accepting *waits)
{
    for (int i = 0; i < WORKERS * ACCEPTS; i++) {
        waits[i] = (struct accepting){listener, 1};
        CHECK_EQ(coir_go_on(scope, i % WORKERS, accept_until_closed, &waits[i]), 0);
    }
    until_waiting(listener, WORKERS * ACCEPTS);
}

static void expect_ended(coir_scope *scope, const struct accepting *waits)
{
    CHECK_EQ(coir_scope_wait(scope), 0);
    for (int i = 0; i < WORKERS * ACCEPTS; i++)
        CHECK_EQ(waits[i].rc, -ECANCELED);
}

/* `paused`: they wait for the listener to open. */
static void close_under_all(bool paused)
{
    struct accepting waits[WORKERS * ACCEPTS];
    char address[64];
    coir_listener *listener;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    CHECK(coir_listener_local(listener, address, sizeof address) > 0);
    start_accepts(scope, listener, waits);
    if (paused) {
        CHECK_EQ(coir_listener_pause(listener), 0);
        until_waiting(listener, 0);
    }
    coir_listener_close(listener);
    expect_ended(scope, waits);
    CHECK_EQ(coir_tcp_listen(address, &listener), 0); /* the address is free */
    coir_listener_close(listener);
}

static void close_under_waits(void)
{
    close_under_all(false);
}

static void close_under_pause(void)
{
    close_under_all(true);
}

static coir_event connected;

static int connect_until_refused(void *address)
{
    coir_stream *stream;
    while (coir_tcp_connect(address, &stream) == 0) {
        coir_close(stream);
        coir_event_set(&connected);
    }
    return 0;
}

static void close_under_clients(void)
{
    struct accepting waits[WORKERS * ACCEPTS];
    static char address[64];
    coir_listener *listener;
    COIR_SCOPE(scope);
    COIR_SCOPE(clients);
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    CHECK(coir_listener_local(listener, address, sizeof address) > 0);
    connected = (coir_event)COIR_EVENT_INIT;
    ci_fetch_add_relaxed(&listener->refs, 1); /* for accepts that begin after the close */
    start_accepts(scope, listener, waits);
    for (int i = 0; i < WORKERS; i++)
        CHECK_EQ(coir_go_on(clients, i, connect_until_refused, address), 0);
    CHECK_EQ(coir_event_wait(&connected), 0);
    coir_listener_close(listener);
    expect_ended(scope, waits);
    CHECK_EQ(coir_scope_wait(clients), 0);
    ci_listener_unref(listener);
}

static void everywhere(void (*body)(void))
{
    for (int i = 0; i < 10; i++)
        test_in_runtime(body, WORKERS);
    for (uint64_t seed = 1; seed <= 100; seed++)
        test_in_sim(body, WORKERS, seed);
}

TEST(accepts_of_all_workers_end_when_the_listener_is_closed)
{
    everywhere(close_under_waits);
}

TEST(accepts_of_a_paused_listener_end_when_it_is_closed)
{
    everywhere(close_under_pause);
}

TEST(clients_may_connect_while_the_listener_is_closed)
{
    everywhere(close_under_clients);
}
