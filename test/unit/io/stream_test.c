/* Streams: the in-memory duplex, TCP in the simulator and on loopback, foreign descriptors. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "harness.h"

/* ---- duplex ---- */

static int write_pattern(void *arg)
{
    unsigned char data[777];
    for (size_t at = 0; at < 100000; at += sizeof data) {
        for (size_t i = 0; i < sizeof data; i++)
            data[i] = (unsigned char)((at + i) % 251);
        int rc = coir_write_all(arg, data, sizeof data);
        if (rc < 0)
            return rc;
    }
    return coir_shutdown_write(arg);
}

static void read_pattern(coir_stream *stream)
{
    unsigned char data[500];
    ssize_t n;
    size_t at = 0;
    while ((n = coir_read(stream, data, sizeof data)) > 0)
        for (ssize_t i = 0; i < n; i++, at++)
            CHECK_EQ(data[i], at % 251);
    CHECK_EQ(n, 0);
    CHECK(at >= 100000);
}

TEST_SIM(a_duplex_carries_bytes_through_a_small_ring)
{
    coir_stream *a, *b;
    CHECK_EQ(coir_duplex(64, &a, &b), 0);
    COIR_SCOPE(scope);
    coir_go(scope, write_pattern, a);
    read_pattern(b);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_write(b, "x", 1), 1);
    coir_close(b);
    CHECK_EQ(coir_write(a, "x", 1), -EPIPE);
    coir_close(a);
    coir_close(NULL);
}

TEST_SIM(full_and_vector_forms_do_what_they_say)
{
    coir_stream *a, *b;
    char x[4] = "", y[4] = "";
    size_t done = 9;
    coir_duplex(0, &a, &b);
    struct iovec out[3] = {{"ab", 2}, {"", 0}, {"cdef", 4}}, in[2] = {{x, 3}, {y, 3}};
    CHECK_EQ(coir_writev_all(a, out, 3), 0);
    CHECK_EQ(coir_readv(b, in, 2), 6);
    CHECK(strcmp(x, "abc") == 0 && strcmp(y, "def") == 0);
    coir_write_all(a, "xyz", 3);
    CHECK_EQ(coir_read_full(b, x, 2, &done), 2);
    CHECK_EQ(done, 2);
    coir_shutdown_write(a);
    CHECK_EQ(coir_read_full(b, x, 4, &done), -COIR_EEND);
    CHECK_EQ(done, 1);
    CHECK_EQ(coir_try_read(b, x, 4), 0);
    CHECK_EQ(coir_try_read(a, x, 4), -EAGAIN);
    CHECK_EQ(coir_stream_peer(a, x, 4), -EOPNOTSUPP);
    coir_close(a);
    coir_close(b);
}

static int read_one(void *arg)
{
    char byte;
    return (int)coir_read(arg, &byte, 1);
}

TEST_SIM(one_reader_at_a_time_and_closing_wakes_it)
{
    coir_stream *a, *b;
    char byte;
    coir_duplex(0, &a, &b);
    COIR_HANDLE(handle);
    COIR_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    coir_go_with(scope, &options, read_one, b);
    coir_yield();
    coir_yield();
    CHECK_EQ(coir_read(b, &byte, 1), -EBUSY);
    CHECK_EQ(coir_write(b, "x", 1), 1); /* a writer is somebody else */
    coir_close(b);
    CHECK_EQ(coir_join(handle), -ECANCELED);
    coir_close(a);
}

/* ---- the same echo server, client and test on epoll and in the simulator ---- */

static int echo(coir_stream *stream, void *arg)
{
    (void)arg;
    char buf[1000];
    ssize_t n;
    while ((n = coir_read(stream, buf, sizeof buf)) > 0) {
        int rc = coir_write_all(stream, buf, (size_t)n);
        if (rc < 0)
            return rc;
    }
    return (int)n;
}

static char address[64]; /* of the server; empty until it listens */
static const char *listen_on = "127.0.0.1:0";

static int serve_echo(void *arg)
{
    (void)arg;
    coir_listener *listener;
    int rc = coir_tcp_listen(listen_on, &listener);
    if (rc < 0)
        return rc;
    if (!address[0])
        coir_listener_local(listener, address, sizeof address);
    rc = coir_serve_tcp_with(TCP_ON(listener), echo, NULL);
    coir_listener_close(listener);
    return rc;
}

static int talk(void *arg)
{
    coir_stream *stream;
    char out[3000], in[3000];
    int rc, seed = (int)(intptr_t)arg;
    while ((rc = coir_tcp_connect(address, &stream)) ==
           -ECONNREFUSED) /* the server is not up yet */
        if ((rc = coir_sleep_for(COIR_MS)) < 0)
            break;
    if (rc < 0)
        return rc;
    for (int round = 0; round < 5 && rc == 0; round++) {
        size_t len = (size_t)(1 + (seed * 7919 + round * 613) % 3000);
        memset(out, seed + round, len);
        if ((rc = coir_write_all(stream, out, len)) == 0) {
            ssize_t n = coir_read_full(stream, in, len, NULL);
            rc = n < 0 ? (int)n : 0;
            if (rc == 0)
                CHECK(memcmp(in, out, len) == 0);
        }
    }
    if (rc == 0) {
        CHECK_EQ(coir_shutdown_write(stream), 0);
        CHECK_EQ(coir_read(stream, in, 1), 0);
    }
    coir_close(stream);
    /* what a world with resets may do */
    return rc == -ECONNRESET || rc == -EPIPE || rc == -COIR_EEND ? 0 : rc;
}

static int talk_all(void *arg)
{
    COIR_SCOPE(scope);
    for (int i = 0; i < *(int *)arg; i++)
        coir_go(scope, talk, (void *)(intptr_t)i);
    return coir_scope_wait(scope);
}

static void serve_and_talk(void)
{
    int clients_here = 200;
    address[0] = '\0';
    COIR_SERVING_SCOPE(servers);
    coir_go(servers, serve_echo, NULL);
    while (!address[0]) /* until it listens */
        coir_yield();
    CHECK_EQ(talk_all(&clients_here), 0);
    coir_scope_cancel(servers);
    CHECK_EQ(coir_scope_wait(servers), 0);
}

TEST(echo_on_the_real_driver)
{
    test_in_runtime(serve_and_talk, 1);
    test_in_runtime(serve_and_talk, 3);
}

static int clients = 5;

static int scenario(coir_sim *sim, void *arg)
{
    coir_host *server = coir_sim_host(sim, "server", serve_echo, NULL);
    coir_sim_link(sim, server, NULL, *(coir_link *)arg);
    return coir_sim_host_main(sim, "client", talk_all, &clients);
}

TEST(echo_in_a_world_that_fails_a_thousand_seeds)
{
    coir_link link = {.latency = 2 * COIR_MS,
                      .jitter = 3 * COIR_MS,
                      .loss = 0.05,
                      .reset = 0.01,
                      .short_io = 0.3};
    listen_on = "127.0.0.1:7777";
    snprintf(address, sizeof address, "server:7777");
    uint64_t first_seed = 1, last_seed = 1000;
    if (test_one_seed(&first_seed))
        last_seed = first_seed;
    for (uint64_t seed = first_seed; seed <= last_seed; seed++) {
        coir_sim_options options = test_sim_options(seed, 1 + (unsigned)(seed % 3));
        coir_sim_result first = COIR_SIM_RESULT, second = COIR_SIM_RESULT;
        int rc = coir_sim_run(&options, scenario, &link, &first);
        if (rc < 0)
            test_fail(__FILE__, __LINE__, "SEED=%llu: %s", (unsigned long long)seed,
                      coir_strerror(rc));
        if (seed % 50 == 0) {
            CHECK_EQ(coir_sim_run(&options, scenario, &link, &second), rc);
            CHECK(first.trace_hash == second.trace_hash && first.steps == second.steps);
        }
    }
}

/* ---- waiting on descriptors of others ---- */

TEST_REAL(a_foreign_timerfd_is_waited_for)
{
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct itimerspec soon = {.it_value = {0, 2000000}};
    uint64_t count;
    coir_time start = coir_now();
    timerfd_settime(fd, 0, &soon, NULL);
    CHECK_EQ(coir_fd_wait(fd, COIR_READ), COIR_READ);
    CHECK(coir_now() - start >= 2 * COIR_MS);
    CHECK_EQ(coir_fd_read(fd, &count, sizeof count), sizeof count);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_fd_read(fd, &count, sizeof count), -ETIME);
    }
    timerfd_settime(fd, 0, &soon, NULL);
    /* a timeout does not damage anything */
    CHECK_EQ(coir_fd_read(fd, &count, sizeof count), sizeof count);
    close(fd);
    CHECK_EQ(coir_fd_wait(fd, COIR_READ), -EBADF);
}

static int write_pipe(void *arg)
{
    return (int)coir_fd_write(*(int *)arg, "ping", 4);
}

static int close_pipe(void *arg)
{
    return close(*(int *)arg);
}

/* A pipe without a reader is an error, not the end of the process. */
TEST_REAL(a_broken_pipe_is_an_error)
{
    int ends[2];
    CHECK_EQ(pipe2(ends, O_NONBLOCK), 0);
    signal(SIGPIPE, SIG_DFL);
    close(ends[0]);
    CHECK_EQ(coir_fd_write(ends[1], "x", 1), -EPIPE);
    close(ends[1]);
}

TEST_REAL(pipes_are_read_and_their_hangup_wakes_at_once)
{
    int ends[2];
    char buf[16];
    CHECK_EQ(pipe2(ends, O_NONBLOCK), 0);
    COIR_DEADLINE(coir_in(30 * COIR_S));
    COIR_SERVING_SCOPE(scope);
    coir_go(scope, write_pipe, &ends[1]);
    CHECK_EQ(coir_fd_read(ends[0], buf, sizeof buf), 4);
    coir_go(scope, close_pipe, &ends[1]);
    CHECK(coir_fd_wait(ends[0], COIR_READ) & COIR_HANGUP);
    CHECK_EQ(coir_fd_read(ends[0], buf, sizeof buf), 0);
    close(ends[0]);
}

/* ---- real sockets in trouble ---- */

static void connect_pair(coir_listener *listener, coir_stream **client, coir_stream **server)
{
    char where[64];
    coir_listener_local(listener, where, sizeof where);
    CHECK_EQ(coir_tcp_connect(where, client), 0);
    CHECK_EQ(coir_accept(listener, server), 0);
}

TEST_REAL(a_read_after_a_timeout_gets_the_data)
{
    coir_listener *listener;
    coir_stream *client, *server;
    char buf[16], peer[64], local[64];
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    connect_pair(listener, &client, &server);
    coir_stream_peer(server, peer, sizeof peer);
    coir_stream_local(client, local, sizeof local);
    CHECK(strcmp(peer, local) == 0);
    CHECK_EQ(coir_tcp_set_option(client, COIR_TCP_NODELAY, 0), 0);
    CHECK_EQ(coir_tcp_set_option(client, COIR_TCP_KEEPALIVE, 30), 0);
    CHECK_EQ(coir_tcp_set_option(client, COIR_TCP_SEND_BUFFER, 100000), 0);
    CHECK_EQ(coir_tcp_set_option(client, COIR_TCP_KEEPALIVE, -1), -EINVAL);
    for (int i = 0; i < 20; i++) {
        {
            COIR_DEADLINE(coir_in(200 * COIR_US));
            CHECK_EQ(coir_read(server, buf, sizeof buf), -ETIME);
        }
        CHECK_EQ(coir_write_all(client, "late", 4), 0);
        CHECK_EQ(coir_read_full(server, buf, 4, NULL), 4);
    }
    coir_close(client);
    coir_close(server);
    coir_listener_close(listener);
}

static void close_with_and_without_a_reset(void)
{
    coir_listener *listener;
    coir_stream *client, *server;
    char byte;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    for (int on = 0; on <= 2; on++) { /* 2: taken back */
        connect_pair(listener, &client, &server);
        CHECK_EQ(coir_tcp_set_option(client, COIR_TCP_RESET_ON_CLOSE, on != 0), 0);
        CHECK_EQ(coir_tcp_set_option(client, COIR_TCP_RESET_ON_CLOSE, on == 1), 0);
        coir_close(client);
        CHECK_EQ(coir_read(server, &byte, 1), on == 1 ? -ECONNRESET : 0);
        coir_close(server);
    }
    coir_listener_close(listener);
}

TEST_REAL(a_close_resets_where_it_is_to)
{
    close_with_and_without_a_reset();
}

TEST_SIM(a_close_resets_where_it_is_to_simulated)
{
    close_with_and_without_a_reset();
}

TEST_REAL(a_hangup_wakes_a_waiting_reader_at_once)
{
    coir_listener *listener;
    coir_stream *client, *server;
    char byte;
    CHECK_EQ(coir_tcp_listen("[::1]:0", &listener), 0);
    COIR_DEADLINE(coir_in(30 * COIR_S));
    connect_pair(listener, &client, &server);
    COIR_HANDLE(handle);
    COIR_SERVING_SCOPE(scope);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    coir_go_with(scope, &options, read_one, server);
    coir_yield();
    coir_close(client);
    CHECK_EQ(coir_join(handle), 0);
    CHECK_EQ(coir_read(server, &byte, 1), 0);
    coir_close(server);
    coir_listener_close(listener);
}

TEST_REAL(addresses_are_understood_or_refused)
{
    coir_listener *listener;
    coir_stream *stream;
    CHECK_EQ(coir_tcp_listen("", &listener), -COIR_EADDRESS);
    CHECK_EQ(coir_tcp_listen("::1:80", &listener), -COIR_EHOST);
    CHECK_EQ(coir_tcp_listen("127.0.0.1", &listener), -COIR_EPORT);
    CHECK_EQ(coir_tcp_connect("no such name:80", &stream), -COIR_EHOST);
    CHECK_EQ(coir_tcp_listen("localhost:0", &listener), 0);
    coir_listener_close(listener);
    CHECK_EQ(coir_tcp_listen("*:0", &listener), 0);
    coir_listener_close(listener);
}

static int exhausted_server(void *arg)
{
    (void)arg;
    return serve_echo(NULL);
}

/* Out of descriptors, accepting backs off without spinning, and goes on by itself when there are
 * some again. */
TEST_REAL(emfile_backs_off_and_recovers)
{
    int taken[64], count = 0;
    coir_stream *client;
    char byte;
    COIR_SERVING_SCOPE(scope);
    coir_go(scope, exhausted_server, NULL);
    while (!address[0]) /* until it listens */
        coir_yield();
    /* its number is freed for the client below */
    int socket_for_client = socket(AF_INET, SOCK_STREAM, 0);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    struct rlimit few = {(rlim_t)socket_for_client + 1, limit.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
    while (count < 64 && (taken[count] = dup(0)) >= 0)
        count++;
    close(socket_for_client);
    CHECK_EQ(coir_tcp_connect(address, &client), 0); /* by the kernel; nobody can accept it */
    CHECK_EQ(coir_write_all(client, "x", 1), 0);
    coir_counters before = COIR_COUNTERS, after = COIR_COUNTERS;
    coir_counters_get(coir_runtime_current(), &before);
    {
        COIR_DEADLINE(coir_in(250 * COIR_MS));
        CHECK_EQ(coir_read(client, &byte, 1), -ETIME);
    }
    coir_counters_get(coir_runtime_current(), &after);
    CHECK(after.driver_waits - before.driver_waits < 50); /* no spinning */
    setrlimit(RLIMIT_NOFILE, &limit);
    COIR_DEADLINE(coir_in(30 * COIR_S));
    CHECK_EQ(coir_read(client, &byte, 1), 1);
    coir_close(client);
    while (count)
        close(taken[--count]);
}

static coir_stream *from_elsewhere;

static int use_elsewhere(void *arg)
{
    char byte;
    (void)arg;
    return (int)coir_read(from_elsewhere, &byte, 1);
}

static void try_elsewhere(void)
{
    coir_listener *listener;
    coir_stream *client, *server;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    connect_pair(listener, &client, &server);
    from_elsewhere = server;
    COIR_SCOPE(scope);
    coir_go_on(scope, 1, use_elsewhere, NULL);
    CHECK_EQ(coir_scope_wait(scope), -EXDEV);
    coir_close(client);
    coir_close(server);
    coir_listener_close(listener);
}

TEST(a_stream_belongs_to_its_worker)
{
    test_in_runtime(try_elsewhere, 2);
}

static int fail_for_a(coir_stream *stream, void *arg)
{
    char byte;
    (void)arg;
    if (coir_read(stream, &byte, 1) != 1)
        return -ENODATA;
    if (byte == 'a')
        return -EBADMSG;
    int rc = coir_write_all(stream, &byte, 1);
    return rc < 0 ? rc : (int)coir_read(stream, &byte, 1);
}

static int failing_server(void *arg)
{
    coir_listener *listener;
    (void)arg;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    coir_listener_local(listener, address, sizeof address);
    int rc = coir_serve_tcp_with(TCP_ON(listener), fail_for_a, NULL);
    coir_listener_close(listener);
    return rc;
}

TEST_REAL(one_handlers_error_never_touches_the_others)
{
    coir_stream *good, *bad;
    char byte;
    COIR_SERVING_SCOPE(scope);
    coir_go(scope, failing_server, NULL);
    while (!address[0]) /* until it listens */
        coir_yield();
    CHECK_EQ(coir_tcp_connect(address, &good), 0);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(coir_tcp_connect(address, &bad), 0);
        CHECK_EQ(coir_write_all(bad, "a", 1), 0);
        CHECK_EQ(coir_read(bad, &byte, 1), 0); /* closed */
        coir_close(bad);
    }
    CHECK_EQ(coir_write_all(good, "b", 1), 0);
    CHECK_EQ(coir_read(good, &byte, 1), 1);
    coir_close(good);
    coir_counters counters = COIR_COUNTERS;
    coir_yield();
    coir_counters_get(coir_runtime_current(), &counters);
    CHECK(counters.task_errors >= 20);
}

/* ---- how much is asked for: the same answers on every kind of stream ---- */

static int send_pieces(void *arg)
{
    enum { PIECES = 3000 };
    static char bytes[PIECES];
    static struct iovec pieces[PIECES];
    for (int i = 0; i < PIECES; i++) {
        bytes[i] = (char)i;
        pieces[i] = (struct iovec){&bytes[i], i % 3 ? 1 : 0};
    }
    CHECK_EQ(coir_writev_all(arg, pieces, PIECES), 0);
    for (int i = 0; i < PIECES; i++)
        pieces[i] = (struct iovec){&bytes[i], i % 3 ? 1 : 0};
    coir_io_all_op op;
    CHECK_EQ(coir_await(coir_writev_all_op(&op, arg, pieces, PIECES)), 0);
    return 0;
}

static void ask_for_all_kinds_of_counts(coir_stream *a, coir_stream *b)
{
    struct iovec none = {NULL, 0};
    coir_io_op op;
    coir_io_all_op all;
    char byte;
    CHECK_EQ(coir_read(a, &byte, 0), 0);
    CHECK_EQ(coir_try_read(a, &byte, 0), 0);
    CHECK_EQ(coir_read_full(a, &byte, 0, NULL), 0);
    CHECK_EQ(coir_write(a, &byte, 0), 0);
    CHECK_EQ(coir_readv(a, &none, 1), 0);
    CHECK_EQ(coir_writev(a, NULL, 0), 0);
    CHECK_EQ(coir_readv(a, &none, -1), -EINVAL);
    CHECK_EQ(coir_writev(a, &none, -1), -EINVAL);
    CHECK_EQ(coir_writev_all(a, &none, -1), -EINVAL);
    CHECK_EQ(coir_await(coir_readv_op(&op, a, &none, -1)), -EINVAL);
    CHECK_EQ(coir_await(coir_writev_all_op(&all, a, &none, -1)), -EINVAL);
    CHECK_EQ(coir_await(coir_writev_all_op(&all, a, &none, 1)), 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, send_pieces, a), 0);
    for (int i = 0; i < 4000; i++) {
        CHECK_EQ(coir_read(b, &byte, 1), 1);
        CHECK_EQ(byte, (char)(i % 2000 / 2 * 3 + i % 2 + 1));
    }
    CHECK_EQ(coir_scope_wait(scope), 0);
}

/* A frame that goes on after its interruption: also for nothing, what it awaits is refused. */
struct asks_for_nothing {
    coir_future future;
    coir_event never;
    coir_stream *stream;
    coir_wait_op wait;
    coir_io_all_op all;
    coir_future *inner;
    struct iovec none;
    size_t done;
    int results[4];
};

static coir_future *ask_for_nothing(coir_future *future)
{
    struct asks_for_nothing *self = (struct asks_for_nothing *)future;
    COIR_BEGIN(future);
    COIR_AWAIT(future, self->inner = coir_event_wait_op(&self->wait, &self->never));
    self->results[0] = (int)self->inner->result;
    COIR_AWAIT(future,
               self->inner = coir_read_full_op(&self->all, self->stream, NULL, 0, &self->done));
    self->results[1] = (int)self->inner->result;
    COIR_AWAIT(future, self->inner = coir_write_all_op(&self->all, self->stream, NULL, 0));
    self->results[2] = (int)self->inner->result;
    COIR_AWAIT(future, self->inner = coir_writev_all_op(&self->all, self->stream, &self->none, 0));
    self->results[3] = (int)self->inner->result;
    COIR_END(future);
}

TEST_SIM(a_frame_that_was_cancelled_is_refused_nothing_too)
{
    static const coir_future_kind kind = COIR_FUTURE_KIND("nothing", ask_for_nothing, NULL);
    for (int cancelled = 0; cancelled < 2; cancelled++) {
        struct asks_for_nothing frame = {.never = COIR_EVENT_INIT, .done = 9};
        coir_stream *peer;
        coir_future_init(&frame.future, &kind);
        CHECK_EQ(coir_duplex(100, &frame.stream, &peer), 0);
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go_future(scope, &frame.future), 0);
        coir_yield();
        if (cancelled)
            coir_scope_cancel(scope);
        else
            coir_event_set(&frame.never);
        CHECK_EQ(coir_scope_wait(scope), 0);
        for (int i = 0; i < 4; i++)
            CHECK_EQ(frame.results[i], cancelled ? -ECANCELED : 0);
        CHECK_EQ(frame.done, 0);
        coir_close(frame.stream);
        coir_close(peer);
    }
}

static void ask_on_both_kinds(void)
{
    coir_stream *a, *b;
    coir_listener *listener;
    char where[64];
    CHECK_EQ(coir_duplex(100, &a, &b), 0);
    ask_for_all_kinds_of_counts(a, b);
    coir_close(a);
    coir_close(b);
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    coir_listener_local(listener, where, sizeof where);
    CHECK_EQ(coir_tcp_connect(where, &a), 0);
    CHECK_EQ(coir_accept(listener, &b), 0);
    ask_for_all_kinds_of_counts(a, b);
    coir_close(a);
    coir_close(b);
    coir_listener_close(listener);
}

TEST_REAL(counts_mean_the_same_on_every_stream)
{
    ask_on_both_kinds();
}

TEST_SIM(counts_mean_the_same_on_every_simulated_stream)
{
    ask_on_both_kinds();
}
