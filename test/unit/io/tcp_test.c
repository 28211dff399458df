/* Connecting: an echo server and its clients, on every driver and in the simulated world; and
 * addresses that are refused. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "echo.h"
#include "harness.h"

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
