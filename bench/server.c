/* The server whose requests test/e2e/costs and bench/instructions count. It is no other program's:
 * its table of routes changes only to be measured. Usage: bench_server */
#include <coir.h>
#include <coir/web.h>
#include <stdio.h>

static int hello(coir_request *req, coir_response *res, void *arg)
{
    (void)req, (void)arg;
    return coir_respond(res, 200, "text/plain", "Hello, World!", 13);
}

static int user(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    return coir_respond_text(res, 200, "%s", coir_request_param(req, "id"));
}

static int route_all(coir_router *router)
{
    static const struct {
        const char *method, *pattern;
        coir_handler_fn *handler;
    } routes[] = {
        {"GET", "/", hello},
        {"GET", "/users", hello},
        {"POST", "/users", hello},
        {"GET", "/users/{id}", user},
        {"DELETE", "/users/{id}", user},
        {"GET", "/users/{id}/posts", user},
        {"GET", "/hello", hello},
        {"GET", "/files/{path...}", hello},
    };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof routes / sizeof routes[0]; i++)
        rc = coir_route(router, routes[i].method, routes[i].pattern, routes[i].handler, NULL);
    return rc;
}

static int start(void *arg)
{
    (void)arg;
    char address[64];
    coir_router *router;
    coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
    int rc = coir_router_new(&router);
    if (rc < 0)
        return rc;
    if ((rc = route_all(router)) == 0 &&
        (rc = coir_tcp_listen("127.0.0.1:0", &options.listener)) == 0) {
        coir_listener_local(options.listener, address, sizeof address);
        printf("serving on http://%s\n", address);
        fflush(stdout);
        rc = coir_serve_http_with(&options, router);
        coir_listener_close(options.listener);
    }
    coir_router_free(router);
    return rc;
}

int main(void)
{
    return coir_main(start, NULL);
}
