/* A server in fixed memory: what it needs is allocated, and locked where the system allows it,
 * before it serves; what is too much is told to come back later.
 * Usage: 38_fixed_memory [ADDRESS], then http://127.0.0.1:7791/ */
#include <coir.h>
#include <coir/web.h>
#include <errno.h>
#include <stdio.h>

enum { CONNECTIONS = 1000, REQUESTS = 50, SLOWLY = 20 /* ms */ };

static int front(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char *note = coir_request_alloc(req, 1000); /* of the request's arena, which is there */
    int rc = coir_sleep_for(SLOWLY * COIR_MS);
    if (rc < 0 || !note)
        return rc < 0 ? rc : -ENOMEM;
    snprintf(note, 1000, "You asked for %s.\n", coir_request_path(req));
    return coir_respond_text(res, 200, "%s", note);
}

/* For whoever watches it: how many were refused. */
static int stats(coir_request *req, coir_response *res, void *arg)
{
    (void)req;
    (void)arg;
    coir_http_counters counters = COIR_HTTP_COUNTERS;
    coir_http_counters_get(&counters);
    return coir_respond_text(res, 200, "connections %llu\nrequests %llu\nrefused %llu\n",
                             (unsigned long long)counters.connections_live,
                             (unsigned long long)counters.requests,
                             (unsigned long long)counters.refused);
}

static int serve(coir_router *router, const char *address)
{
    coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
    options.address = address;
    options.connections_max = CONNECTIONS; /* of each worker */
    options.requests_max = REQUESTS;
    options.at_limit = COIR_LIMIT_ANSWERS; /* 503, with Retry-After */
    options.retry_after = 2 * COIR_S;
    options.arena_max = 4096;
    options.fixed_memory = options.lock_memory = true;
    printf("serving on http://%s\n", address);
    fflush(stdout);
    int rc = coir_serve_http_with(&options, router);
    if (rc == -ENOMEM || rc == -EPERM) { /* the log has said why */
        options.lock_memory = false;
        rc = coir_serve_http_with(&options, router);
    }
    return rc;
}

static int start(void *address)
{
    coir_router *router;
    int rc = coir_router_new(&router);
    if (rc < 0)
        return rc;
    if ((rc = coir_route(router, "GET", "/stats", stats, NULL)) == 0 &&
        (rc = coir_route(router, "GET", "/{path...}", front, NULL)) == 0)
        rc = serve(router, address);
    coir_router_free(router);
    return rc;
}

int main(int argc, char **argv)
{
    return coir_main(start, argc > 1 ? argv[1] : "127.0.0.1:7791");
}
