/* A web server in twenty lines. Try: curl http://127.0.0.1:8081/hello/you */
#include <coir.h>
#include <coir/web.h>

static int hello(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    return coir_respond_text(res, 200, "Hello, %s!\n", coir_request_param(req, "name"));
}

static int start(void *address)
{
    coir_router *router = NULL;
    int rc = coir_router_new(&router);
    if (rc == 0 && (rc = coir_route(router, "GET", "/hello/{name}", hello, NULL)) == 0)
        rc = coir_serve_http(address, router);
    coir_router_free(router);
    return rc;
}

int main(int argc, char **argv)
{
    return coir_main(start, argc > 1 ? argv[1] : "127.0.0.1:8081");
}
