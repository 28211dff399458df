/* An HTTP server whose limits of connections and requests are small, often in fixed memory, and
 * more clients than it may have, under every fault.
 *
 * What must hold:
 * 1. No more handlers run than the limit of requests allows.
 * 2. Every visit has one outcome: the right answer, 503 with Retry-After where the server refuses,
 *    or a connection that ends.
 * 3. When the faults are over every client is answered, and nothing is left open (the audit). */
#include <coir/web.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos.h"
#include "scenario.h"
#include "sim/must.h"

enum { CLIENTS = 8, BODY_MOST = 5000 };

static struct chaos chaos;
static coir_serve_http_options options;

/* ---- the server ---- */

static int answer(coir_request *req, coir_response *res, void *arg)
{
    int32_t *running = arg;
    const char *text = coir_request_param(req, "len");
    if (!text)
        return -ENOMEM;
    size_t len = (size_t)atoi(text);
    size_t workers = coir_worker_count(coir_runtime_current());
    int32_t most = (int32_t)(options.requests_max * workers);
    MUST(__atomic_add_fetch(running, 1, __ATOMIC_RELAXED) <= most); /* 1 */
    int rc = coir_sleep_for((coir_time)chaos_below(&chaos, 300 * COIR_MS));
    char *body = rc == 0 ? coir_request_alloc(req, len) : NULL;
    if (body)
        memset(body, 'a' + (int)(len % 26), len);
    __atomic_sub_fetch(running, 1, __ATOMIC_RELAXED);
    if (rc == 0)
        rc = body ? coir_respond(res, 200, "a/b", body, len) : -ENOMEM;
    return rc;
}

/* Each has a count of its own: on a host that crashed, tasks run on until they end. */
static int serve_once(void)
{
    int32_t running = 0;
    coir_router *router;
    int rc = coir_router_new(&router);
    if (rc < 0)
        return rc;
    if ((rc = coir_route(router, "GET", "/{len}", answer, &running)) == 0)
        rc = coir_serve_http_with(&options, router);
    coir_router_free(router);
    return rc;
}

static int serve(void *arg)
{
    (void)arg;
    return chaos_keep_serving(serve_once);
}

static coir_host *start_server(struct chaos *of)
{
    return coir_sim_host(of->sim, "server", serve, NULL);
}

/* ---- the clients ---- */

/* In two parts, with a pause, now and then; and sometimes after a time in which the connection
 * rests (task/rest.h). */
static int ask(coir_stream *stream, size_t len)
{
    char head[100];
    int n = snprintf(head, sizeof head, "GET /%zu HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
                     len);
    size_t first = 1 + chaos_below(&chaos, (uint64_t)n);
    int rc =
        chaos_below(&chaos, 4) ? 0 : coir_sleep_for((coir_time)chaos_below(&chaos, 3 * COIR_S));
    if (rc == 0)
        rc = coir_write_all(stream, head, first);
    if (rc == 0 && chaos_below(&chaos, 2))
        rc = coir_sleep_for((coir_time)chaos_below(&chaos, COIR_S));
    return rc < 0 ? rc : coir_write_all(stream, head + first, (size_t)n - first);
}

/* The whole of what has come: 0, it is the answer; -EPROTO, it is none. */
static int judge(const char *bytes, size_t got, size_t len)
{
    const char *body = strstr(bytes, "\r\n\r\n");
    int status = 0;
    if (!body)
        return -EPROTO;
    body += 4;
    MUST(sscanf(bytes, "HTTP/1.1 %d", &status) == 1);
    MUST(status == 200 || status == 503 || status == 500 || status == 408); /* 2 */
    if (status == 503 && !strstr(bytes, "\r\nContent-Length: 24\r\n"))      /* that is a shortage */
        MUST(strstr(bytes, "\r\nRetry-After: 1\r\n") && got == (size_t)(body - bytes));
    if (status != 200 || got - (size_t)(body - bytes) < len)
        return -EPROTO;
    MUST(got - (size_t)(body - bytes) == len);
    for (size_t i = 0; i < len; i++)
        MUST(body[i] == 'a' + (char)(len % 26));
    return 0;
}

static int hear(coir_stream *stream, size_t len)
{
    char bytes[BODY_MOST + 1000];
    size_t got = 0;
    ssize_t n = 1;
    while (n > 0 && got < sizeof bytes - 1)
        if ((n = coir_read(stream, bytes + got, sizeof bytes - 1 - got)) > 0)
            got += (size_t)n;
    bytes[got] = '\0';
    int rc = judge(bytes, got, len);
    return rc < 0 && n < 0 ? (int)n : rc;
}

static int visit_once(void)
{
    coir_stream *stream;
    size_t len = chaos_below(&chaos, 2) ? 1 + chaos_below(&chaos, BODY_MOST) : 1;
    int rc = coir_tcp_connect("server:80", &stream);
    if (rc < 0)
        return rc;
    int asked = ask(stream, len);
    rc = asked == -ECANCELED || asked == -ETIME ? asked : hear(stream, len);
    coir_close(stream);
    return rc;
}

/* Who is told to come later does. */
static int visit(int client)
{
    (void)client;
    COIR_DEADLINE(coir_in(60 * COIR_S));
    int rc;
    while ((rc = visit_once()) != 0 && chaos.over && coir_sleep_for(COIR_S) == 0)
        continue;
    return rc;
}

/* ---- the scenario ---- */

int scenario(coir_sim *sim)
{
    chaos = (struct chaos){.restart = start_server};
    options = (coir_serve_http_options)COIR_SERVE_HTTP_OPTIONS;
    options.address = "0.0.0.0:80";
    options.connections_max = 1 + coir_sim_random(sim) % 4;
    options.requests_max = 1 + coir_sim_random(sim) % 2;
    options.at_limit = (enum coir_at_limit)(coir_sim_random(sim) % 3);
    options.fixed_memory = coir_sim_random(sim) % 2;
    options.arena_max = 2 * BODY_MOST;
    options.header_timeout = 3 * COIR_S;
    options.idle_timeout = 4 * COIR_S; /* of connections whose clients have gone, unseen, too */
    options.drain_timeout = 2 * COIR_S;
    MUST_BE(chaos_configure(sim), 0);
    return chaos_run(&chaos, sim, visit, CLIENTS);
}
