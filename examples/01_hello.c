/* A web server in twenty lines. Try: curl http://127.0.0.1:8081/hello/you */
#include <coir.h>
#include <coir/web.h>

static int hello(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    return coir_respond_text(res, 200, "Hello, %s!\n", coir_request_param(req, "name"));
}

static int start(void *arg)
{
    (void)arg;
    coir_router *router = NULL;
    int rc = coir_router_new(&router);
    if (rc == 0 && (rc = coir_route(router, "GET", "/hello/{name}", hello, NULL)) == 0)
        rc = coir_serve_http("127.0.0.1:8081", router);
    coir_router_free(router);
    return rc;
}

int main(void)
{
    return coir_main(start, NULL);
}
