/* A site whose pages are answered by a FastCGI application of the test's own, in the simulated
 * world: the test sets what that answers, and what the client is. */
#ifndef TEST_WEB_FASTCGI_H
#define TEST_WEB_FASTCGI_H

#include <coir/fastcgi.h>

#include "client.h"
#include "fastcgi_peer.h"

/* `ask` closes its direction, and waits for the answer. */
static coir_fastcgi_options fcgi_options = {.size = sizeof(coir_fastcgi_options),
                                            .ignore_end = true};
static coir_serve_http_options http_options = COIR_SERVE_HTTP_OPTIONS;
static coir_fastcgi_script fcgi_script = COIR_FASTCGI_SCRIPT;
static const char *own_field; /* [none] of the handler's own, in every answer */
static coir_fastcgi *fcgi;

/* What the application does with a request whose PARAMS have come: 0, or an error that ends the
 * connection. */
static int (*application)(struct fcgi_request *request);
static int applications, accepted, passed; /* requests in progress; connections; requests ever */
static int pass_result;                    /* of the last coir_fastcgi_pass */
static coir_time pass_limit = COIR_NEVER;  /* for it */
static struct fcgi_request last;

static inline int run_application(coir_stream *stream, void *arg)
{
    (void)arg;
    struct fcgi_request *request = malloc(sizeof *request);
    int rc;
    accepted++;
    while ((rc = fcgi_accept(request, stream)) == 0) {
        applications++;
        passed++;
        rc = application(request);
        applications--;
        last = *request;
        if (rc < 0 || !request->keeps)
            break;
    }
    free(request);
    return rc == -COIR_EPROTOCOL ? rc : 0; /* the client left */
}

static inline int serve_application(void *arg)
{
    (void)arg;
    return coir_serve_tcp(fcgi_options.address, run_application, NULL);
}

static inline int pass_on(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_fastcgi_script script = fcgi_script;
    script.filename = script.filename ? script.filename : "/srv/page.php";
    script.name = script.name ? script.name : "/page.php";
    if (own_field)
        CHECK_EQ(coir_response_add_header(res, own_field, "mine"), 0);
    COIR_DEADLINE(coir_in(pass_limit));
    return pass_result = coir_fastcgi_pass(fcgi, req, res, &script);
}

static inline int serve_pages(void *arg)
{
    (void)arg;
    static const struct route all[] = {{"GET", "/{path...}", pass_on},
                                       {"POST", "/{path...}", pass_on},
                                       {"PUT", "/{path...}", pass_on},
                                       {0}};
    coir_router *router = make_router(all);
    http_options.address = server_address;
    int rc = coir_serve_http_with(&http_options, router);
    coir_router_free(router);
    return rc;
}

/* Runs a test beside the server and the application, and frees the client: nothing may be left of
 * either. */
static inline void with_application(int (*app)(struct fcgi_request *request), void (*test)(void))
{
    application = app;
    if (!fcgi_options.address)
        fcgi_options.address = "127.0.0.1:9000";
    CHECK_EQ(coir_fastcgi_new_with(&fcgi_options, &fcgi), 0);
    {
        COIR_SCOPE(scope);
        coir_go(scope, serve_application, NULL);
        coir_go(scope, serve_pages, NULL);
        coir_sleep_for(COIR_MS);
        test();
        coir_scope_cancel(scope);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    CHECK_EQ(applications, 0);
    coir_fastcgi_free(fcgi);
}

/* Answers with a short page. */
static inline int say_hello(struct fcgi_request *request)
{
    while (fcgi_read_body(request) > 0)
        continue;
    int rc = fcgi_write_text(request, "Content-Type: text/plain\r\n\r\nhello");
    return rc < 0 ? rc : fcgi_finish(request);
}

#endif
