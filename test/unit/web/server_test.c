/* A server with many connections: idle ones, its graceful end, and clients that vanish at any
 * moment, on networks of every kind. */
#include <coir/sim.h>

#include "site.h"
#include "sys/misuse.h"

TEST_SERVER(slow_heads_and_idle_connections_end)
{
    coir_stream *stream = dial();
    coir_time start = coir_now();
    for (int i = 0; i < 8; i++) { /* a byte a second does not help */
        send_text(stream, "G");
        coir_sleep_for(COIR_S);
    }
    receive_all(stream);
    CHECK_EQ(status(answer), 408);
    CHECK(coir_now() - start > 9 * COIR_S && coir_now() - start < 13 * COIR_S);
    coir_close(stream);
    stream = dial();
    start = coir_now();
    CHECK_EQ(coir_read(stream, answer, 1), 0);
    CHECK(coir_now() - start >= 60 * COIR_S && coir_now() - start < 61 * COIR_S);
    coir_close(stream);
    stream = dial(); /* each request puts the end off */
    start = coir_now();
    for (int i = 0; i < 5; i++) {
        send_text(stream, GET("/hello"));
        CHECK(coir_read(stream, answer, 1000) > 0);
        coir_sleep_for(50 * COIR_S);
    }
    CHECK_EQ(coir_read(stream, answer, 1), 0);
    CHECK(coir_now() - start >= 260 * COIR_S && coir_now() - start < 261 * COIR_S);
    coir_close(stream);
    stream = dial(); /* a body that stalls */
    send_text(stream, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    receive_all(stream);
    CHECK_EQ(status(answer), 408);
    coir_close(stream);
}

/* Each request puts the idle timeout off; the end of one that began before another has no say. */
TEST_SERVER(the_idle_timeout_begins_behind_each_answer)
{
    coir_stream *stream = dial();
    for (int i = 0; i < 4; i++) {
        coir_time start = coir_now();
        send_text(stream, GET("/query?v=x"));
        CHECK(coir_read(stream, answer, 1000) > 0);
        coir_sleep_for(59 * COIR_S - (coir_now() - start));
    }
    coir_time start = coir_now();
    CHECK_EQ(coir_read(stream, answer, 1), 0);
    CHECK(coir_now() - start > 500 * COIR_MS && coir_now() - start < 1500 * COIR_MS);
    coir_close(stream);
}

/* An answer that said nothing of an end had begun before the server was asked to stop: its
 * connection ends with it all the same. */
TEST_SIM(no_connection_becomes_idle_while_a_server_drains)
{
    COIR_SCOPE(server);
    coir_go(server, serve, NULL);
    coir_stream *stream = dial();
    send_text(stream, GET("/linger"));
    coir_sleep_for(COIR_S / 2);
    coir_time start = coir_now();
    coir_scope_cancel(server);
    CHECK(status(receive_all(stream)) == 200 && strstr(answer, "\r\n\r\nok"));
    CHECK(coir_now() - start < COIR_S); /* and not the time for draining */
    coir_close(stream);                 /* else the server would linger for a moment */
    coir_scope_wait(server);
    CHECK(coir_now() - start < COIR_S);
}

enum { IDLERS = 5000 };

TEST_SERVER(five_thousand_idle_connections_hold_no_stack_and_end_by_their_timeout)
{
    static coir_stream *idlers[IDLERS];
    coir_counters counters = COIR_COUNTERS;
    coir_http_counters http = COIR_HTTP_COUNTERS;
    for (int i = 0; i < IDLERS; i++) {
        idlers[i] = dial();
        if (i % 2) {
            send_text(idlers[i], GET("/hello"));
            CHECK(coir_read(idlers[i], answer, 1000) > 0);
        }
    }
    coir_counters_get(coir_runtime_current(), &counters);
    coir_http_counters_get(&http);
    CHECK_EQ(http.connections_live, IDLERS);
    CHECK(counters.stacks_live < 10);
    coir_sleep_for(62 * COIR_S);
    coir_http_counters_get(&http);
    CHECK_EQ(http.connections_live, 0);
    for (int i = 0; i < IDLERS; i++) {
        CHECK_EQ(coir_read(idlers[i], answer, 1), 0);
        coir_close(idlers[i]);
    }
}

/* ---- the graceful end ---- */

static int stopped_at(coir_time nap)
{
    char request[100];
    snprintf(request, sizeof request, "GET /nap/%d HTTP/1.1\r\nHost: a\r\n\r\n",
             (int)(nap / COIR_MS));
    COIR_SCOPE(server);
    coir_go(server, serve, NULL);
    coir_stream *idle = dial();
    coir_stream *busy = dial();
    send_text(busy, request);
    coir_sleep_for(COIR_S);
    coir_time start = coir_now();
    coir_scope_cancel(server);
    CHECK_EQ(coir_read(idle, answer, 1), 0); /* at once */
    CHECK(coir_now() - start < COIR_S);
    receive_all(busy);
    coir_close(idle);
    coir_close(busy);
    coir_scope_wait(server);
    return (int)((coir_now() - start) / COIR_S);
}

TEST_SIM(a_stopped_server_drains)
{
    CHECK_EQ(stopped_at(5 * COIR_S), 4); /* one second had passed */
    CHECK(strstr(answer, "slept") && strstr(answer, "Connection: close"));
    CHECK_EQ(stopped_at(100 * COIR_S), 10); /* the drain timeout */
    CHECK_EQ(answer_len, 0);
}

/* ---- clients that vanish at any moment, on networks of every kind ---- */

static int rude_client(void *arg)
{
    static const char text[] =
        GET("/hello") "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello" GET(
            "/nap/50") GET("/big/100000");
    uint64_t *random = arg;
    for (int i = 0; i < 10; i++) {
        coir_stream *stream;
        *random = *random * 6364136223846793005u + 1442695040888963407u;
        int rc = coir_tcp_connect("server:80", &stream);
        if (rc < 0) {
            coir_sleep_for(COIR_MS);
            continue;
        }
        COIR_DEADLINE(coir_in((coir_time)(*random >> 40) * 10));
        size_t len = (size_t)(*random >> 33) % sizeof text;
        rc = coir_write_all(stream, text, len);
        if (rc == 0 && (*random >> 60) % 2)
            coir_shutdown_write(stream);
        if (rc == 0 && (*random >> 61) % 2)
            while (coir_read(stream, answer, 5000) > 0)
                continue;
        coir_close(stream);
    }
    return 0;
}

static int polite_client(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20;) {
        coir_stream *stream;
        if (coir_tcp_connect("server:80", &stream) < 0) {
            coir_sleep_for(COIR_MS);
            continue;
        }
        if (coir_write_all(stream, GET("/hello"), sizeof GET("/hello") - 1) == 0) {
            char buf[500];
            ssize_t n = coir_read(stream, buf, sizeof buf);
            if (n > 9)
                CHECK(memcmp(buf, "HTTP/1.1 ", 9) == 0);
            i += n > 0;
        }
        coir_close(stream);
    }
    return 0;
}

static int all_clients(void *arg)
{
    uint64_t seeds[4] = {*(uint64_t *)arg, *(uint64_t *)arg + 77, *(uint64_t *)arg * 31, 5};
    COIR_SCOPE(scope);
    for (int i = 0; i < 4; i++)
        coir_go(scope, rude_client, &seeds[i]);
    coir_go(scope, polite_client, NULL);
    return coir_scope_wait(scope);
}

static int rude_scenario(coir_sim *sim, void *arg)
{
    coir_host *server = coir_sim_host(sim, "server", serve, NULL);
    coir_link link = {.latency = COIR_MS,
                      .jitter = COIR_MS,
                      .loss = 0.02,
                      .reset = *(uint64_t *)arg % 2 ? 0.02 : 0,
                      .short_io = 0.3};
    coir_sim_link(sim, server, NULL, link);
    return coir_sim_host_main(sim, "clients", all_clients, arg);
}

/* SEEDS=N runs N seeds; SEED=N prints the trace of one. */
TEST(clients_may_vanish_at_any_moment)
{
    const char *count = getenv("SEEDS");
    uint64_t first = 1, last = count ? (uint64_t)atoll(count) : 300;
    if (test_one_seed(&first))
        last = first;
    for (uint64_t seed = first; seed <= last; seed++) {
        coir_sim_options sim_options = test_sim_options(seed, 1 + (unsigned)(seed % 2));
        coir_sim_result result = COIR_SIM_RESULT, again = COIR_SIM_RESULT;
        int rc = coir_sim_run(&sim_options, rude_scenario, &seed, &result);
        if (rc < 0)
            test_fail(__FILE__, __LINE__, "SEED=%llu: %s", (unsigned long long)seed,
                      coir_strerror(rc));
        if (seed % 20)
            continue;
        CHECK_EQ(coir_sim_run(&sim_options, rude_scenario, &seed, &again), 0);
        CHECK(result.trace_hash == again.trace_hash);
    }
}

TEST_SIM(a_server_without_address_or_router_is_refused)
{
    coir_router *router = make_router(routes);
    ci_misuse_aborts = false;
    CHECK_EQ(coir_serve_http("127.0.0.1:0", NULL), -EINVAL);
    CHECK_EQ(coir_serve_http(NULL, router), -EINVAL);
    CHECK_EQ(coir_serve_http_with(HTTP_ON(NULL), router), -EINVAL);
    CHECK_EQ(coir_http_counters_get(NULL), -EINVAL);
    coir_router_free(router);
}
