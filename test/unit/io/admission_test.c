/* Whether a listener accepts: pause and resume, the limit of its connections, shortages. */
#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/atomic.h"
#include "every_driver.h"
#include "harness.h"
#include "io/listener.h"
#include "plain.h"

static coir_listener *listener;
static char address[64];
static unsigned warnings;
static char last_warning[300];

static void log_line(enum coir_log_level level, const char *line, void *context)
{
    (void)context;
    if (level != COIR_LOG_WARNING)
        return;
    warnings++;
    strncpy(last_warning, line, sizeof last_warning - 1);
}

static void listen_with(size_t connections_max, enum coir_at_limit at_limit)
{
    coir_listen_options options = COIR_LISTEN_OPTIONS;
    options.connections_max = connections_max;
    options.at_limit = at_limit;
    CHECK_EQ(coir_tcp_listen_with("127.0.0.1:0", &options, &listener), 0);
    CHECK(coir_listener_local(listener, address, sizeof address) > 0);
}

static void on_every_driver(void (*body)(void), unsigned workers)
{
    coir_config config = COIR_CONFIG;
    config.workers = workers;
    config.log = log_line;
    run_on_every_driver(config, body);
}

/* ---- pause and resume ---- */

static coir_stream *dial(void)
{
    coir_stream *stream;
    CHECK_EQ(coir_tcp_connect(address, &stream), 0);
    return stream;
}

static void nobody_comes(void)
{
    coir_stream *stream;
    COIR_DEADLINE(coir_in(5 * COIR_MS));
    CHECK_EQ(coir_accept(listener, &stream), -ETIME);
}

static int accept_one(void *ret_stream)
{
    return coir_accept(listener, ret_stream);
}

static void pause_and_resume(void)
{
    coir_stream *clients[2], *accepted[2] = {NULL};
    listen_with(0, COIR_LIMIT_WAITS);
    CHECK_EQ(coir_listener_pause(listener), 0);
    CHECK_EQ(coir_listener_pause(listener), 0); /* once is enough */
    clients[0] = dial();                        /* the backlog takes it */
    nobody_comes();
    CHECK_EQ(coir_listener_resume(listener), 0);
    CHECK_EQ(accept_one(&accepted[0]), 0);
    {
        COIR_SCOPE(scope); /* paused while an accept waits */
        const struct ci_seat *seat = &listener->seats[ci_worker_current->index];
        CHECK_EQ(coir_go(scope, accept_one, &accepted[1]), 0);
        while (!seat->waiting)
            coir_yield();
        CHECK_EQ(coir_listener_pause(listener), 0);
        while (!seat->openings)
            coir_yield();
        CHECK_EQ(seat->waiting, 0);
        clients[1] = dial();
        CHECK_EQ(coir_sleep_for(5 * COIR_MS), 0);
        CHECK(!accepted[1]);
        CHECK_EQ(coir_listener_resume(listener), 0);
        CHECK_EQ(coir_scope_wait(scope), 0);
        CHECK(accepted[1] != NULL);
    }
    for (int i = 0; i < 2; i++) {
        coir_close(clients[i]);
        coir_close(accepted[i]);
    }
    coir_listener_close(listener);
}

static void close_a_paused_one(void)
{
    COIR_HANDLE(handle);
    coir_stream *accepted;
    listen_with(0, COIR_LIMIT_WAITS);
    CHECK_EQ(coir_listener_pause(listener), 0);
    COIR_SERVING_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    CHECK_EQ(coir_go_with(scope, &options, accept_one, &accepted), 0);
    while (!listener->seats[ci_worker_current->index].openings)
        coir_yield();
    coir_listener_close(listener);
    CHECK_EQ(coir_join(handle), -ECANCELED);
}

TEST(a_paused_listener_accepts_nothing_until_it_is_resumed)
{
    on_every_driver(pause_and_resume, 1);
    on_every_driver(pause_and_resume, 2);
    for (uint64_t seed = 1; seed <= 50; seed++)
        test_in_sim(pause_and_resume, 2, seed);
}

TEST(closing_a_paused_listener_ends_its_accepts)
{
    on_every_driver(close_a_paused_one, 1);
    test_in_sim(close_a_paused_one, 1, 1);
}

/* ---- the limit ---- */

enum { LIMIT = 3 };

static void the_rest_waits(void)
{
    coir_stream *clients[LIMIT + 1], *accepted[LIMIT + 1];
    listen_with(LIMIT, COIR_LIMIT_WAITS);
    for (int i = 0; i <= LIMIT; i++)
        clients[i] = dial();
    for (int i = 0; i < LIMIT; i++)
        CHECK_EQ(accept_one(&accepted[i]), 0);
    nobody_comes();
    coir_case cases[] = {coir_case_accept(listener, &accepted[LIMIT]), coir_case_after(COIR_MS)};
    CHECK_EQ(coir_select(cases, 2), 1);
    CHECK_EQ(listener->open, LIMIT);
    coir_close(accepted[0]);
    CHECK_EQ(accept_one(&accepted[LIMIT]), 0);
    CHECK_EQ(coir_stream_detach(accepted[1]), 0); /* it does not count any more */
    CHECK_EQ(listener->open, LIMIT - 1);
    for (int i = 0; i <= LIMIT; i++) {
        if (i > 0)
            coir_close(accepted[i]);
        coir_close(clients[i]);
    }
    CHECK_EQ(listener->open, 0);
    coir_listener_close(listener);
}

TEST(at_the_limit_connections_wait_in_the_backlog)
{
    on_every_driver(the_rest_waits, 1);
    for (uint64_t seed = 1; seed <= 50; seed++)
        test_in_sim(the_rest_waits, 2, seed);
}

static void the_rest_is_closed(void)
{
    coir_stream *clients[LIMIT], *accepted[LIMIT], *more, *last;
    char byte;
    listen_with(LIMIT, COIR_LIMIT_CLOSES);
    for (int i = 0; i < LIMIT; i++) {
        clients[i] = dial();
        CHECK_EQ(accept_one(&accepted[i]), 0);
    }
    warnings = 0;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, accept_one, &last), 0);
    for (int i = 0; i < 5; i++) {
        more = dial();
        CHECK_EQ(coir_read(more, &byte, 1), 0);
        coir_close(more);
    }
    coir_close(accepted[0]);
    more = dial();
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_close(last);
    coir_close(more);
    for (int i = 0; i < LIMIT; i++) {
        if (i > 0)
            coir_close(accepted[i]);
        coir_close(clients[i]);
    }
    coir_listener_close(listener);
}

static void the_rest_is_closed_and_logged(void)
{
    the_rest_is_closed();
    CHECK_EQ(warnings, 1);
    CHECK(strstr(last_warning, "limit of 3"));
}

TEST(at_the_limit_connections_are_closed_where_that_is_asked_for)
{
    on_every_driver(the_rest_is_closed_and_logged, 1);
    test_in_sim(the_rest_is_closed, 1, 1);
}

TEST_SIM(a_limit_is_checked)
{
    coir_listen_options options = COIR_LISTEN_OPTIONS;
    options.at_limit = (enum coir_at_limit)7;
    CHECK_EQ(coir_tcp_listen_with("127.0.0.1:0", &options, &listener), -EINVAL);
}

/* Several workers, and more clients than there may be connections. */
enum { CLIENTS = 30, VISITS = 10 };
static int open_now, open_most, served;

static int answer(coir_stream *stream, void *arg)
{
    char byte;
    (void)arg;
    int now = ci_fetch_add(&open_now, 1) + 1;
    for (int most = ci_load(&open_most); now > most;)
        if (ci_compare_exchange(&open_most, &most, now))
            break;
    ssize_t n = coir_read(stream, &byte, 1);
    ci_fetch_sub(&open_now, 1); /* before its place is another's */
    ci_fetch_add(&served, n == 1);
    return n == 1 ? coir_write_all(stream, &byte, 1) : 0;
}

static int serve(void *arg)
{
    (void)arg;
    return coir_serve_tcp_with(TCP_ON(listener), answer, NULL);
}

static int visit(void *arg)
{
    (void)arg;
    char byte = 'x';
    for (int i = 0; i < VISITS; i++) {
        coir_stream *stream = dial();
        CHECK_EQ(coir_write_all(stream, &byte, 1), 0);
        CHECK_EQ(coir_read(stream, &byte, 1), 1);
        coir_close(stream);
    }
    return 0;
}

static void crowd(void)
{
    listen_with(LIMIT, COIR_LIMIT_WAITS);
    served = open_most = 0;
    COIR_SCOPE(server);
    CHECK_EQ(coir_go(server, serve, NULL), 0);
    {
        COIR_SCOPE(clients);
        for (int i = 0; i < CLIENTS; i++)
            CHECK_EQ(coir_go(clients, visit, NULL), 0);
        CHECK_EQ(coir_scope_wait(clients), 0);
    }
    coir_scope_cancel(server);
    coir_scope_wait(server);
    CHECK_EQ(served, CLIENTS * VISITS);
    CHECK(open_most <= LIMIT);
    coir_listener_close(listener);
}

TEST(no_more_than_the_limit_are_open_on_all_workers_and_all_are_served)
{
    on_every_driver(crowd, 3);
    for (uint64_t seed = 1; seed <= 30; seed++)
        test_in_sim(crowd, 3, seed);
}

static coir_time drain_time;

static int serve_and_drain(void *arg)
{
    coir_serve_tcp_options options = COIR_SERVE_TCP_OPTIONS;
    (void)arg;
    options.listener = listener;
    options.drain_timeout = drain_time;
    return coir_serve_tcp_with(&options, answer, NULL);
}

/* Cancels a server that serves the first of the clients; the others are in the backlog. */
enum { AT_STOP = 3 };
static void stop_at_the_limit(coir_scope *server, enum coir_at_limit at_limit,
                              coir_stream *clients[])
{
    listen_with(1, at_limit);
    open_now = open_most = served = 0;
    CHECK_EQ(coir_go(server, serve_and_drain, NULL), 0);
    clients[0] = dial();
    while (!ci_load(&open_now))
        coir_yield();
    CHECK_EQ(coir_listener_pause(listener), 0); /* which no server that ends heeds */
    for (int i = 1; i < AT_STOP; i++)
        clients[i] = dial();
    coir_scope_cancel(server);
}

static void serve_the_backlog(void)
{
    coir_stream *clients[AT_STOP];
    char byte;
    drain_time = COIR_NEVER;
    COIR_SCOPE(server);
    stop_at_the_limit(server, COIR_LIMIT_WAITS, clients);
    for (int i = AT_STOP; i-- > 0;)
        CHECK_EQ(coir_write_all(clients[i], "x", 1), 0);
    for (int i = 0; i < AT_STOP; i++) {
        CHECK_EQ(coir_read(clients[i], &byte, 1), 1);
        coir_close(clients[i]);
    }
    coir_scope_wait(server);
    CHECK_EQ(served, AT_STOP);
    CHECK_EQ(open_most, 1);
    coir_listener_close(listener);
}

/* The first is not served in the time that there is; or the others are to be closed. */
static void close_the_backlog(coir_time time, enum coir_at_limit at_limit)
{
    coir_stream *clients[AT_STOP];
    char byte;
    drain_time = time;
    COIR_SCOPE(server);
    stop_at_the_limit(server, at_limit, clients);
    for (int i = 1; i < AT_STOP; i++)
        CHECK(coir_read(clients[i], &byte, 1) <= 0);
    if (time == COIR_NEVER)
        CHECK_EQ(coir_write_all(clients[0], "x", 1), 0);
    CHECK_EQ(coir_read(clients[0], &byte, 1), time == COIR_NEVER);
    coir_scope_wait(server);
    CHECK_EQ(open_most, 1);
    for (int i = 0; i < AT_STOP; i++)
        coir_close(clients[i]);
    coir_listener_close(listener);
}

static void stop_in_every_way(void)
{
    serve_the_backlog();
    close_the_backlog(COIR_MS, COIR_LIMIT_WAITS);
    close_the_backlog(COIR_NEVER, COIR_LIMIT_CLOSES);
}

TEST(the_limit_holds_while_a_server_stops)
{
    on_every_driver(stop_in_every_way, 2);
}

/* ---- shortages ---- */

enum { TAKEN_MAX = 256 };
static int taken[TAKEN_MAX], taken_count;
static struct rlimit old_limit;

/* Leaves the process no descriptor but the number `last`, which is free. */
static void take_descriptors(int last)
{
    getrlimit(RLIMIT_NOFILE, &old_limit);
    struct rlimit few = {(rlim_t)last + 1, old_limit.rlim_max};
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (taken_count = 0; taken_count < TAKEN_MAX; taken_count++)
        if ((taken[taken_count] = dup(0)) < 0)
            break;
    CHECK(taken_count < TAKEN_MAX);
    close(last);
}

static void give_descriptors_back(void)
{
    setrlimit(RLIMIT_NOFILE, &old_limit);
    while (taken_count)
        close(taken[--taken_count]);
}

static void run_out_of_descriptors(void)
{
    coir_stream *accepted;
    coir_counters before = COIR_COUNTERS, after = COIR_COUNTERS;
    listen_with(0, COIR_LIMIT_WAITS);
    warnings = 0;
    for (int round = 0; round < 2; round++) {
        take_descriptors(dup(0));
        int client = plain_dial(address); /* the kernel connects it; no worker can accept it */
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go(scope, accept_one, &accepted), 0);
        coir_counters_get(coir_runtime_current(), &before);
        CHECK_EQ(coir_sleep_for(150 * COIR_MS), 0);
        coir_counters_get(coir_runtime_current(), &after);
        CHECK(after.driver_waits - before.driver_waits < 30); /* no spinning */
        CHECK_EQ(warnings, 1);                                /* a minute has not passed */
        CHECK(strstr(last_warning, coir_strerror(-EMFILE)));
        give_descriptors_back();
        CHECK_EQ(coir_scope_wait(scope), 0);
        coir_close(accepted);
        close(client);
    }
    coir_listener_close(listener);
}

TEST(an_accept_without_descriptors_recovers_by_itself)
{
    on_every_driver(run_out_of_descriptors, 1);
}

TEST_SIM(a_listener_reports_once_a_minute)
{
    listen_with(0, COIR_LIMIT_WAITS);
    CHECK(ci_listener_may_report(listener));
    CHECK_EQ(coir_sleep_for(59 * COIR_S), 0);
    CHECK(!ci_listener_may_report(listener));
    CHECK_EQ(coir_sleep_for(1 * COIR_S), 0);
    CHECK(ci_listener_may_report(listener));
    CHECK(!ci_listener_may_report(listener));
    coir_listener_close(listener);
}

/* ---- two processes with one socket ---- */

static void share(void)
{
    char text[32];
    coir_listener *other;
    coir_stream *client, *accepted;
    listen_with(0, COIR_LIMIT_WAITS);
    coir_fd fd = coir_listener_share(listener);
    CHECK(fd >= 0);
    snprintf(text, sizeof text, "fd:%d", fd);
    CHECK_EQ(coir_tcp_listen(text, &other), 0);
    COIR_SCOPE(server);
    CHECK_EQ(coir_go(server, serve, NULL), 0);
    while (!listener->seats[ci_worker_current->index].waiting)
        coir_yield();
    coir_scope_cancel(server); /* it refuses no client, and takes nothing off the backlog */
    client = dial();
    coir_scope_wait(server);
    coir_listener_close(listener);
    CHECK_EQ(coir_accept(other, &accepted), 0);
    coir_close(client);
    client = dial();
    coir_close(accepted);
    CHECK_EQ(coir_accept(other, &accepted), 0);
    coir_close(accepted);
    coir_close(client);
    coir_listener_close(other);
}

TEST(a_shared_listener_that_closes_refuses_nobody)
{
    on_every_driver(share, 1);
}

static void share_a_file(void)
{
    char path[] = "/tmp/coir-share-XXXXXX", text[64];
    coir_listener *other;
    CHECK(mkdtemp(path));
    snprintf(text, sizeof text, "unix:%s/socket", path);
    CHECK_EQ(coir_tcp_listen(text, &listener), 0);
    coir_fd fd = coir_listener_share(listener);
    coir_listener_close(listener);
    CHECK_EQ(access(text + 5, F_OK), 0); /* the other process has it */
    snprintf(address, sizeof address, "fd:%d", fd);
    CHECK_EQ(coir_tcp_listen(address, &other), 0);
    memcpy(address, text, sizeof text);
    coir_stream *client = dial(), *accepted;
    CHECK_EQ(coir_accept(other, &accepted), 0);
    coir_close(client);
    coir_close(accepted);
    coir_listener_close(other);
    unlink(text + 5);
    rmdir(path);
}

TEST(the_file_of_a_shared_listener_stays)
{
    on_every_driver(share_a_file, 1);
}

TEST_SIM(nothing_is_shared_in_the_simulated_world)
{
    listen_with(0, COIR_LIMIT_WAITS);
    CHECK_EQ(coir_listener_share(listener), -EOPNOTSUPP);
    coir_listener_close(listener);
}

/* ---- several listeners of one port ---- */

static void two_of_one_port(void)
{
    coir_listener *both[2], *third;
    coir_stream *client, *accepted;
    int got[2] = {0};
    coir_listen_options options = COIR_LISTEN_OPTIONS;
    options.reuse_port = true;
    CHECK_EQ(coir_tcp_listen_with("127.0.0.1:0", &options, &both[0]), 0);
    CHECK(coir_listener_local(both[0], address, sizeof address) > 0);
    CHECK_EQ(coir_tcp_listen_with(address, &options, &both[1]), 0);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK(coir_tcp_listen(address, &third) < 0);
    }
    while (!got[0] || !got[1]) { /* the system chooses by the client's port */
        client = dial();
        coir_case cases[] = {coir_case_accept(both[0], &accepted),
                             coir_case_accept(both[1], &accepted)};
        int which = coir_select(cases, 2);
        CHECK(which >= 0);
        got[which]++;
        coir_close(accepted);
        coir_close(client);
    }
    coir_listener_close(both[0]);
    coir_listener_close(both[1]);
}

TEST(listeners_may_share_a_port)
{
    on_every_driver(two_of_one_port, 1);
}
