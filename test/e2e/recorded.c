/* A program with a flight recorder that goes wrong. Usage: recorded DIR null|abort|overflow|request
 * It says "handled" where it has a handler of its own for the signal: HANDLER in the environment.
 */
#include <coir.h>
#include <coir/web.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[200];
static const char *how;

static void handle(int number)
{
    static const char text[] = "handled\n";
    ssize_t ignored = write(1, text, sizeof text - 1);
    (void)ignored;
    signal(number, SIG_DFL);
}

static int yields(void *arg)
{
    (void)arg;
    int rc = 0;
    for (int i = 0; rc == 0 && i < 1000; i++)
        rc = coir_yield();
    return rc;
}

static int deep(volatile char *above)
{
    volatile char here[2000];
    here[0] = above ? above[0] : 1;
    return here[0] ? deep(here) + here[0] : 0;
}

static int goes_wrong(void *arg)
{
    volatile int *volatile nothing = NULL;
    (void)arg;
    if (strcmp(how, "null") == 0)
        *nothing = 1;
    if (strcmp(how, "overflow") == 0)
        deep(NULL);
    if (strcmp(how, "abort") == 0)
        abort();
    return 0;
}

/* ---- a slow request ---- */

static char address[64] = "127.0.0.1:0";
static coir_listener *listener;

static int slow(coir_request *req, coir_response *res, void *arg)
{
    (void)req, (void)arg;
    int rc = coir_sleep_for(20 * COIR_MS);
    return rc < 0 ? rc : coir_respond_text(res, 200, "slow\n");
}

static int serve(void *router)
{
    coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
    options.listener = listener;
    return coir_serve_http_with(&options, router);
}

static int ask(void)
{
    static const char request[] = "GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    char answer[1000];
    coir_stream *stream;
    ssize_t n = coir_tcp_connect(address, &stream);
    if (n < 0)
        return (int)n;
    n = coir_write_all(stream, request, sizeof request - 1);
    while (n >= 0 && (n = coir_read(stream, answer, sizeof answer)) > 0)
        continue;
    coir_close(stream);
    return (int)n;
}

static int request(void)
{
    coir_router *router;
    int rc = coir_router_new(&router);
    if (rc < 0 || (rc = coir_route(router, "GET", "/slow", slow, NULL)) < 0 ||
        (rc = coir_tcp_listen(address, &listener)) < 0)
        return rc;
    coir_listener_local(listener, address, sizeof address);
    COIR_SCOPE(scope);
    coir_go(scope, serve, router);
    rc = ask();
    coir_scope_cancel(scope);
    coir_scope_wait(scope);
    coir_router_free(router);
    return rc;
}

static int start(void *arg)
{
    (void)arg;
    coir_recorder_options options = COIR_RECORDER_OPTIONS;
    options.path = path;
    options.crash = true;
    options.slow_request = 10 * COIR_MS;
    if (getenv("HANDLER") && signal(SIGSEGV, handle) == SIG_ERR)
        return -1;
    int rc = coir_recorder_start_with(&options);
    if (rc < 0)
        return rc;
    COIR_SCOPE(scope);
    coir_go_options named = COIR_GO_OPTIONS;
    named.name = "culprit";
    for (int i = 0; i < 4; i++)
        coir_go_on(scope, i % (int)coir_worker_count(coir_runtime_current()), yields, NULL);
    if ((rc = coir_scope_wait(scope)) < 0)
        return rc;
    if (strcmp(how, "request") == 0)
        return request();
    COIR_SCOPE(wrong);
    coir_go_with(wrong, &named, goes_wrong, NULL);
    return coir_scope_wait(wrong);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    snprintf(path, sizeof path, "%s/flight", argv[1]);
    how = argv[2];
    return coir_main(start, NULL);
}
