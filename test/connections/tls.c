/* The server of the fuzzer over TLS: it serves HTTP on a listener of its own, and the clients, who
 * know nothing of TLS, talk to relays in the same process, which are TLS clients of it. So whatever
 * they do, halves of a close and resets included, meets both ends of a TLS connection. */
#include <coir.h>
#include <coir/tls.h>
#include <errno.h>
#include <stdlib.h>

#include "connections/fuzz.h"
#include "connections/secure.h"

/* libcrypto is built without ThreadSanitizer (no symbol of it is in the library), which therefore
 * sees its calls of malloc and free, but not the atomic counts of references that order them: of
 * two threads that each give back a reference to a BIO, the one that frees it is reported. What
 * coir itself does with memory of OpenSSL's is still looked at. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "called_from_lib:libcrypto.so\ncalled_from_lib:libssl.so\n";
}

const bool secure_is_there = true;

struct secure {
    coir_tls *client, *server;
    coir_serve_http_options http;
    coir_router *router;
    char address[64]; /* of the listener for TLS */
};

struct direction {
    coir_stream *from, *to;
};

/* Until the end of `from`, which becomes that of what is written to `to`. */
static int copy(void *arg)
{
    const struct direction *way = arg;
    char buf[5000];
    ssize_t n;
    while ((n = coir_read(way->from, buf, sizeof buf)) > 0) {
        int rc = coir_write_all(way->to, buf, (size_t)n);
        if (rc < 0)
            return rc;
    }
    return n < 0 ? (int)n : coir_shutdown_write(way->to);
}

static int copy_both(coir_stream *plain, coir_stream *secure)
{
    struct direction there = {plain, secure}, back = {secure, plain};
    COIR_SCOPE(scope);
    int rc = coir_go(scope, copy, &there);
    if (rc == 0)
        rc = coir_go(scope, copy, &back);
    return rc < 0 ? rc : coir_scope_wait(scope);
}

/* A task that fails would be logged: what a client does is no error here. */
static int relay(coir_stream *plain, void *arg)
{
    const struct secure *secure = arg;
    coir_stream *transport, *conn;
    if (coir_tcp_connect(secure->address, &transport) < 0)
        return 0;
    if (coir_tls_connect(secure->client, "localhost", transport, &conn) < 0) {
        coir_close(transport);
        return 0;
    }
    copy_both(plain, conn);
    coir_close(conn);
    return 0;
}

static int serve_tls(void *arg)
{
    struct secure *secure = arg;
    return coir_serve_http_with(&secure->http, secure->router);
}

static int make_sides(struct secure *secure)
{
    coir_tls_options server = COIR_TLS_OPTIONS, client = COIR_TLS_OPTIONS;
    char *certificate, *key;
    int rc = coir_tls_make_certificate("localhost", &certificate, &key);
    if (rc < 0)
        return rc;
    server.certificate = client.ca = certificate;
    server.key = key;
    rc = coir_tls_server_new(&server, &secure->server);
    if (rc == 0)
        rc = coir_tls_client_new(&client, &secure->client);
    free(certificate);
    free(key);
    return rc;
}

int secure_serve(coir_listener *listener, const coir_serve_http_options *options,
                 coir_router *router)
{
    struct secure secure = {.http = *options, .router = router};
    coir_serve_tcp_options relays = COIR_SERVE_TCP_OPTIONS;
    int rc = make_sides(&secure);
    if (rc == 0)
        rc = coir_tcp_listen("127.0.0.1:0", &secure.http.listener);
    if (rc == 0)
        rc = coir_listener_local(secure.http.listener, secure.address, sizeof secure.address);
    if (rc >= 0) {
        COIR_SCOPE(scope);
        relays.listener = listener;
        secure.http.layer = coir_tls_layer;
        secure.http.layer_arg = secure.server;
        rc = coir_go(scope, serve_tls, &secure);
        if (rc == 0)
            rc = coir_serve_tcp_with(&relays, relay, &secure);
        coir_scope_cancel(scope);
        coir_scope_wait(scope);
    }
    coir_listener_close(secure.http.listener);
    coir_tls_unref(secure.client);
    coir_tls_unref(secure.server);
    return rc;
}
