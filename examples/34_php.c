/* Pages answered by PHP: an HTTP server in front of php-fpm (FastCGI).
 * Usage: 34_php ADDRESS-OF-PHP-FPM DIRECTORY [PORT], such as
 *   34_php unix:/run/php/php8.2-fpm.sock /srv/www
 * and then http://127.0.0.1:8080/ is answered by /srv/www/index.php. */
#include <coir.h>
#include <coir/fastcgi.h>
#include <stdio.h>

static const char *peer, *root, *port;

/* What needs no script is answered here: the first route that matches wins. */
static int health(coir_request *req, coir_response *res, void *arg)
{
    (void)req;
    (void)arg;
    return coir_respond_text(res, 200, "well\n");
}

static int serve(coir_router *router)
{
    char address[64];
    coir_listener *listener;
    snprintf(address, sizeof address, "127.0.0.1:%s", port);
    int rc = coir_tcp_listen(address, &listener);
    if (rc < 0)
        return rc;
    coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
    options.listener = listener;
    coir_listener_local(listener, address, sizeof address);
    printf("serving on http://%s\n", address);
    fflush(stdout);
    rc = coir_serve_http_with(&options, router);
    coir_listener_close(listener);
    return rc;
}

static int start(void *arg)
{
    (void)arg;
    coir_fastcgi *php;
    coir_router *router = NULL;
    int rc = coir_fastcgi_new(peer, &php);
    if (rc < 0)
        return rc;
    if ((rc = coir_router_new(&router)) == 0 &&
        (rc = coir_route(router, "GET", "/health", health, NULL)) == 0 &&
        (rc = coir_route_fastcgi(router, "/{path...}", php, root)) == 0)
        rc = serve(router);
    coir_router_free(router);
    coir_fastcgi_free(php);
    return rc;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: %s ADDRESS-OF-PHP-FPM DIRECTORY [PORT]\n", argv[0]);
        return 2;
    }
    peer = argv[1];
    root = argv[2];
    port = argc > 3 ? argv[3] : "8080";
    return coir_main(start, NULL);
}
