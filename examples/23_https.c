/* An HTTPS server that reads its certificate again on SIGHUP: 23_https CERTIFICATE KEY [PORT].
 * Connections go on; a file that cannot be used is refused, and what was there stays. */
#include <coir.h>
#include <coir/tls.h>
#include <coir/web.h>
#include <signal.h>
#include <stdio.h>

static int hello(coir_request *req, coir_response *res, void *arg)
{
    (void)req, (void)arg;
    return coir_respond_text(res, 200, "Hello over TLS!\n");
}

static int reload_on_hangup(void *tls)
{
    coir_signals *signals;
    int rc = coir_signals_open((int[]){SIGHUP}, 1, &signals);
    if (rc < 0)
        return rc;
    while ((rc = coir_signals_wait(signals)) > 0) {
        rc = coir_tls_reload(tls);
        printf("reload: %s\n", rc < 0 ? coir_strerror(rc) : "done");
        fflush(stdout);
    }
    coir_signals_close(signals);
    return rc;
}

static char address[32] = "127.0.0.1:8443";

static int start(void *tls)
{
    coir_router *router = NULL;
    coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
    COIR_SCOPE(scope); /* the task in it ends with the server */
    int rc = coir_router_new(&router);
    if (rc == 0)
        rc = coir_route(router, "GET", "/", hello, NULL);
    if (rc == 0)
        rc = coir_go(scope, reload_on_hangup, tls);
    if (rc == 0)
        rc = coir_tcp_listen(address, &options.listener);
    if (rc == 0) {
        coir_listener_local(options.listener, address, sizeof address);
        printf("serving on %s\n", address);
        fflush(stdout);
        options.layer = coir_tls_layer;
        options.layer_arg = tls;
        rc = coir_serve_http_with(&options, router);
    }
    coir_listener_close(options.listener);
    coir_router_free(router);
    return rc;
}

int main(int argc, char **argv)
{
    coir_tls_options options = COIR_TLS_OPTIONS;
    coir_tls *tls;
    options.certificate = argc > 2 ? argv[1] : "certificate.pem";
    options.key = argc > 2 ? argv[2] : "key.pem";
    options.alpn = "http/1.1";
    if (argc > 3)
        snprintf(address, sizeof address, "127.0.0.1:%s", argv[3]);
    int rc = coir_tls_server_new(&options, &tls);
    if (rc < 0) {
        fprintf(stderr, "%s: %s\n", options.certificate, coir_strerror(rc));
        return 1;
    }
    rc = coir_main(start, tls);
    coir_tls_unref(tls);
    return rc;
}
