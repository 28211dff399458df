/* Whole bodies: every limit at its value and one beside. */
#include <coir/web.h>
#include <stdio.h>

#include "client.h"

enum { MAX = 5000, ARENA_MAX = 20000 };

static size_t max = MAX;

static int whole(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    const char *body = NULL;
    ssize_t n = coir_request_body(req, max, &body);
    if (n < 0) {
        CHECK(body == NULL);
        return (int)n;
    }
    CHECK(body[n] == '\0');
    const char *again = NULL;
    CHECK(coir_request_body(req, max, &again) == 0 && *again == '\0'); /* nothing is left */
    return coir_respond(res, 200, NULL, body, (size_t)n);
}

static int rest(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char first[10];
    const char *body;
    CHECK_EQ(coir_request_read(req, first, sizeof first), sizeof first);
    ssize_t n = coir_request_body(req, max, &body);
    return n < 0 ? (int)n : coir_respond(res, 200, NULL, body, (size_t)n);
}

/* The client has gone away in the middle. */
static int lost(coir_request *req, coir_response *res, void *arg)
{
    (void)res, (void)arg;
    char byte;
    const char *body = NULL;
    ssize_t n;
    while ((n = coir_request_read(req, &byte, 1)) > 0)
        continue;
    CHECK_EQ(n, -COIR_EEND);
    CHECK_EQ(coir_request_body(req, 10, &body), -COIR_EEND);
    return (int)n;
}

static const struct route routes[] = {
    {"POST", "/lost", lost},
    {"POST", "/whole", whole},
    {"POST", "/rest", rest},
    {0},
};

static int serve(void *arg)
{
    coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
    (void)arg;
    options.arena_max = ARENA_MAX;
    return serve_routes(routes, &options);
}

/* A body of so many bytes, in chunks of `chunk` (0: declared), sent in pieces of `piece`. */
static int send_body(const char *path, size_t len, size_t chunk, size_t piece)
{
    static char text[100000];
    size_t at = (size_t)sprintf(text, "POST %s HTTP/1.1\r\nHost: a\r\n", path);
    if (!chunk)
        at += (size_t)sprintf(text + at, "Content-Length: %zu\r\n\r\n", len);
    else
        at += (size_t)sprintf(text + at, "Transfer-Encoding: chunked\r\n\r\n");
    for (size_t sent = 0; sent < len;) {
        size_t n = !chunk || len - sent < chunk ? len - sent : chunk;
        if (chunk)
            at += (size_t)sprintf(text + at, "%zx\r\n", n);
        for (size_t i = 0; i < n; i++)
            text[at++] = (char)('a' + (sent + i) % 26);
        sent += n;
        if (chunk)
            at += (size_t)sprintf(text + at, "\r\n");
    }
    if (chunk)
        at += (size_t)sprintf(text + at, "0\r\n\r\n");
    coir_stream *stream = dial();
    for (size_t sent = 0; sent < at; sent += piece) {
        if (coir_write_all(stream, text + sent, at - sent < piece ? at - sent : piece) < 0)
            break;
        if (piece < at)
            coir_sleep_for(COIR_MS);
    }
    coir_shutdown_write(stream);
    receive_all(stream);
    coir_close(stream);
    return status(answer);
}

static void expect_body(size_t len, size_t from)
{
    const char *body = strstr(answer, "\r\n\r\n") + 4;
    CHECK_EQ(answer + answer_len - body, len);
    for (size_t i = 0; i < len; i++)
        CHECK_EQ(body[i], 'a' + (from + i) % 26);
}

static void expect_whole_bodies(void)
{
    static const size_t lens[] = {0, 1, MAX - 1, MAX, MAX + 1, 2 * MAX},
                        chunks[] = {0, 1, 700, MAX, 100000}, pieces[] = {1000000, 999};
    for (size_t l = 0; l < 6; l++)
        for (size_t c = 0; c < 5; c++)
            for (size_t p = 0; p < 2; p++) {
                int got = send_body("/whole", lens[l], chunks[c], pieces[p]);
                if (got != (lens[l] <= MAX ? 200 : 413))
                    test_fail(__FILE__, __LINE__, "%d for %zu bytes in chunks of %zu", got, lens[l],
                              chunks[c]);
                if (got == 200)
                    expect_body(lens[l], 0);
            }
    CHECK_EQ(send_body("/rest", MAX + 10, 0, 1000000), 200);
    expect_body(MAX, 10);
    CHECK_EQ(send_body("/rest", MAX + 11, 0, 1000000), 413);
    CHECK_EQ(send_body("/rest", MAX + 10, 900, 1000000), 200);
    expect_body(MAX, 10);
    max = SIZE_MAX;
    CHECK_EQ(send_body("/whole", ARENA_MAX - 200, 0, 1000000), 200);
    /* no memory for it, which is not the client's fault */
    CHECK_EQ(send_body("/whole", ARENA_MAX + 1, 0, 1000000), 500);
    CHECK_EQ(send_body("/whole", ARENA_MAX + 1, 900, 1000000), 500);
    max = 0;
    CHECK_EQ(send_body("/whole", 0, 0, 1000000), 200);
    CHECK_EQ(send_body("/whole", 0, 1, 1000000), 200);
    CHECK_EQ(send_body("/whole", 1, 0, 1000000), 413);
    CHECK_EQ(send_body("/whole", 1, 1, 1000000), 413);
}

TEST_SIM(a_whole_body_is_read_or_refused)
{
    CHECK_EQ(with_server(serve, expect_whole_bodies), 0);
}

/* ---- a read that this machine fails ---- */

static coir_sim *world;

/* Memory is out while the handler waits for the rest of the body. `again`: it tries once more. */
static int starve(coir_request *req, bool again)
{
    char body[10];
    CHECK_EQ(coir_request_read(req, body, sizeof body), 1);
    coir_sim_faults(world, NULL, (coir_faults){.no_memory = 1});
    ssize_t n = coir_request_read(req, body, sizeof body);
    coir_sim_faults(world, NULL, (coir_faults){0});
    CHECK_EQ(n, -ENOMEM);
    return again ? (int)coir_request_read(req, body, sizeof body) : (int)n;
}

static int starve_once(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    CHECK_EQ(starve(req, true), 1);
    return coir_respond_text(res, 200, "%s", "whole");
}

static int starve_and_fail(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)res;
    return starve(req, false);
}

static int serve_starving(void *arg)
{
    coir_router *router;
    (void)arg;
    CHECK_EQ(coir_router_new(&router), 0);
    CHECK_EQ(coir_route(router, "POST", "/once", starve_once, NULL), 0);
    CHECK_EQ(coir_route(router, "POST", "/fail", starve_and_fail, NULL), 0);
    int rc = coir_serve_http("0.0.0.0:80", router);
    coir_router_free(router);
    return rc;
}

static int ask_starving(void *arg)
{
    static const char *const requests[] = {"POST /once", "POST /fail"};
    static const char *const answers[] = {"HTTP/1.1 200 ", "HTTP/1.1 500 "};
    (void)arg;
    strcpy(server_address, "server:80");
    for (int i = 0; i < 2; i++) {
        coir_stream *stream = dial();
        send_text(stream, requests[i]);
        send_text(stream,
                  " HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\n1");
        coir_sleep_for(COIR_MS);
        send_text(stream, "2");
        CHECK(strncmp(receive_all(stream), answers[i], 13) == 0);
        coir_close(stream);
    }
    return 0;
}

static int scenario(coir_sim *sim, void *arg)
{
    (void)arg;
    world = sim;
    CHECK(coir_sim_host(sim, "server", serve_starving, NULL) != NULL);
    return coir_sim_host_main(sim, "client", ask_starving, NULL);
}

TEST(a_read_without_memory_is_not_the_clients_fault)
{
    coir_sim_options options = test_sim_options(1, 1);
    CHECK_EQ(coir_sim_run(&options, scenario, NULL, NULL), 0);
}

TEST_SERVER(a_body_that_has_failed_is_not_too_long)
{
    CHECK_EQ(status(ask("POST /lost HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nsome")), 400);
}
