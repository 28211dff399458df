/* An HTTP server of two workers under load, traced. Usage: traced FILE: where the trace goes */
#include <coir.h>
#include <coir/web.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CLIENTS = 50, REQUESTS = 40 };

static char address[64] = "127.0.0.1:0";
static coir_listener *listener;

static coir_mutex mutex = COIR_MUTEX_INIT;

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

/* Some of them offload a call while they have the mutex. */
static int hello(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    static int count;
    int rc = coir_mutex_lock(&mutex);
    if (rc < 0)
        return rc;
    if (count++ % 100 == 0)
        rc = coir_offload(nothing, NULL);
    coir_mutex_unlock(&mutex);
    coir_yield();
    if (rc < 0)
        return rc;
    return coir_respond_text(res, 200, "Hello, %s!\n", coir_request_param(req, "name"));
}

static int serve(void *router)
{
    coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
    options.listener = listener;
    return coir_serve_http_with(&options, router);
}

static int be_a_client(void *arg)
{
    static const char request[] = "GET /hello/you HTTP/1.1\r\nHost: a\r\n\r\n";
    (void)arg;
    coir_stream *stream;
    int rc = coir_tcp_connect(address, &stream);
    if (rc < 0)
        return rc;
    for (int i = 0; rc >= 0 && i < REQUESTS; i++) {
        char answer[1000];
        size_t len = 0;
        ssize_t n = 1;
        rc = coir_write_all(stream, request, sizeof request - 1);
        while (rc >= 0 && n > 0 &&
               !(len > 0 && answer[len - 1] == '\n' && memchr(answer, '!', len))) {
            n = coir_read(stream, answer + len, sizeof answer - len);
            len += n > 0 ? (size_t)n : 0;
        }
        rc = n > 0 ? rc : -ENODATA;
    }
    coir_close(stream);
    return rc;
}

static int load(void)
{
    COIR_SCOPE(clients);
    for (int i = 0; i < CLIENTS; i++)
        coir_go_on(clients, i % (int)coir_worker_count(coir_runtime_current()), be_a_client, NULL);
    return coir_scope_wait(clients);
}

static int start(void *path)
{
    coir_router *router;
    int rc = coir_router_new(&router);
    if (rc < 0 || (rc = coir_route(router, "GET", "/hello/{name}", hello, NULL)) < 0 ||
        (rc = coir_tcp_listen(address, &listener)) < 0)
        return rc;
    coir_listener_local(listener, address, sizeof address);
    if ((rc = coir_trace_start(1 << 18)) < 0)
        return rc;
    COIR_SCOPE(scope);
    coir_go(scope, serve, router);
    rc = load();
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
    if (rc == 0)
        rc = coir_trace_write(fd);
    close(fd);
    coir_scope_cancel(scope);
    int ended = coir_scope_wait(scope);
    coir_router_free(router);
    return rc < 0 ? rc : ended == -ECANCELED ? 0 : ended;
}

int main(int argc, char **argv)
{
    return argc == 2 ? coir_main(start, argv[1]) : 2;
}
