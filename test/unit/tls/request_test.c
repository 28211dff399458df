/* What the handler of a request learns of its TLS connection. */
#include <coir/web.h>

#include "pair.h"
#include "pki.h"

static struct identity root, jane;
static char address[64];

static int who(coir_request *req, coir_response *res, void *arg)
{
    coir_tls_info info = COIR_TLS_INFO;
    char peer[64];
    (void)arg;
    CHECK_EQ(coir_tls_describe(coir_request_stream(req), &info), 0);
    CHECK(coir_stream_peer(coir_request_stream(req), peer, sizeof peer) > 0);
    CHECK(strncmp(peer, "127.0.0.1:", 10) == 0);
    return coir_respond_text(res, 200, "%s asks %s%s", info.subject, info.server_name,
                             info.verified ? ", verified" : "");
}

static int serve(void *tls)
{
    coir_router *router;
    coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
    CHECK_EQ(coir_router_new(&router), 0);
    CHECK_EQ(coir_route(router, "GET", "/", who, NULL), 0);
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &options.listener), 0);
    CHECK(coir_listener_local(options.listener, address, sizeof address) > 0);
    options.layer = coir_tls_layer;
    options.layer_arg = tls;
    int rc = coir_serve_http_with(&options, router);
    coir_listener_close(options.listener);
    coir_router_free(router);
    return rc;
}

static const char *answer_to(coir_tls *client)
{
    static const char request[] =
        "GET / HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n";
    static char answer[1000];
    coir_stream *tcp, *conn;
    size_t len = 0;
    CHECK_EQ(coir_tcp_connect(address, &tcp), 0);
    CHECK_EQ(coir_tls_connect(client, "example.org", tcp, &conn), 0);
    CHECK_EQ(coir_write_all(conn, request, sizeof request - 1), 0);
    for (ssize_t n; (n = coir_read(conn, answer + len, sizeof answer - 1 - len)) > 0;)
        len += (size_t)n;
    coir_close(conn);
    answer[len] = '\0';
    const char *body = strstr(answer, "\r\n\r\n");
    return body ? body + 4 : answer;
}

TEST_REAL(a_handler_learns_who_asks_it)
{
    root = pki_make((struct wish){.name = "root", .ca = true});
    jane = pki_make((struct wish){.name = "jane", .issuer = &root, .purpose = "clientAuth"});
    coir_tls_options options = COIR_TLS_OPTIONS, known = COIR_TLS_OPTIONS;
    options.client_certificates = COIR_TLS_OPTIONAL_CLIENT_CERTIFICATES;
    options.ca = root.certificate_text;
    known.certificate = jane.certificate_text;
    known.key = jane.key_text;
    coir_tls *server = server_of(options), *unknown = client_of((coir_tls_options)COIR_TLS_OPTIONS),
             *client = client_of(known);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, serve, server), 0);
    while (!*address)
        coir_yield();
    CHECK(strcmp(answer_to(client), "CN=jane asks example.org, verified") == 0);
    CHECK(strcmp(answer_to(unknown), " asks example.org") == 0);
    coir_scope_cancel(scope);
    coir_scope_wait(scope);
    coir_tls_unref(client);
    coir_tls_unref(unknown);
    coir_tls_unref(server);
    pki_free(&jane);
    pki_free(&root);
}
