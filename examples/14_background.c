/* Jobs that outlive their request: answered at once, done later, in the background scope. One that
 * fails is logged, and nothing else ends; when the server is stopped (Ctrl-C), those under way are
 * finished first. Try: curl -X POST http://127.0.0.1:8082/orders/7 */
#include <coir.h>
#include <coir/web.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* The request is gone by then: what the job needs was copied when it was spawned. */
static int ship(void *arg)
{
    int number = *(const int *)arg;
    coir_sleep_for(500 * COIR_MS);
    if (number == 0)
        return -EINVAL;
    printf("order %d has been shipped\n", number);
    fflush(stdout);
    return 0;
}

static int order(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    int number = atoi(coir_request_param(req, "number"));
    coir_go_options options = COIR_GO_OPTIONS;
    options.name = "ship an order";
    options.copy_size = sizeof number;
    int rc = coir_go_with(NULL, &options, ship, &number);
    if (rc < 0)
        return coir_respond_text(res, 503, "not now: %s\n", coir_strerror(rc));
    return coir_respond_text(res, 202, "order %d is accepted\n", number);
}

static int start(void *address)
{
    coir_router *router = NULL;
    int rc = coir_router_new(&router);
    if (rc == 0 && (rc = coir_route(router, "POST", "/orders/{number}", order, NULL)) == 0)
        rc = coir_serve_http(address, router);
    coir_router_free(router);
    return rc;
}

int main(int argc, char **argv)
{
    return coir_main(start, argc > 1 ? argv[1] : "127.0.0.1:8082");
}
