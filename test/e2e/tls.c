/* Ends of TLS connections for test/e2e/tls, which say what was agreed on and how it ended.
 *   probe_tls server DIR   echoes: DIR/server.pem, and DIR/other.pem for other.example; asks for
 *                          certificates of DIR/root.pem
 *   probe_tls client DIR ADDRESS COUNT [NAME]   COUNT connections, as DIR/NAME.pem; one alone waits
 *                          for its end */
#include <coir.h>
#include <coir/tls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char files[6][500]; /* root.pem, and pairs of a certificate and its key */

static const char *file(int which, const char *dir, const char *name)
{
    snprintf(files[which], sizeof files[which], "%s/%s", dir, name);
    return files[which];
}

static void tell(const coir_stream *conn, const char *who)
{
    coir_tls_info info = COIR_TLS_INFO;
    int rc = coir_tls_describe(conn, &info);
    printf("%s: %s, subject '%s', name '%s', alpn '%s'%s%s\n", who,
           rc < 0 ? coir_strerror(rc) : info.version, info.subject, info.server_name, info.alpn,
           info.verified ? ", verified" : "", info.resumed ? ", resumed" : "");
    fflush(stdout);
}

static void tell_end(ssize_t n)
{
    printf("ended: %s\n", n < 0 ? coir_strerror((int)n) : "declared");
    fflush(stdout);
}

/* ---- the server ---- */

static int echo(coir_stream *conn, void *arg)
{
    char buf[4096];
    ssize_t n;
    (void)arg;
    tell(conn, "client");
    while ((n = coir_read(conn, buf, sizeof buf)) > 0 && coir_write_all(conn, buf, (size_t)n) == 0)
        continue;
    tell_end(n);
    return 0;
}

static int serve(void *tls)
{
    coir_serve_tcp_options options = COIR_SERVE_TCP_OPTIONS;
    char address[64];
    int rc = coir_tcp_listen("127.0.0.1:0", &options.listener);
    if (rc < 0)
        return rc;
    coir_listener_local(options.listener, address, sizeof address);
    printf("serving on %s\n", address);
    fflush(stdout);
    options.layer = coir_tls_layer;
    options.layer_arg = tls;
    rc = coir_serve_tcp_with(&options, echo, NULL);
    coir_listener_close(options.listener);
    return rc;
}

static int be_server(const char *dir)
{
    coir_tls_options options = COIR_TLS_OPTIONS;
    coir_tls *tls;
    options.ca = file(0, dir, "root.pem");
    options.client_certificates = COIR_TLS_OPTIONAL_CLIENT_CERTIFICATES;
    options.alpn = "coir,echo";
    options.certificate = file(1, dir, "server.pem");
    options.key = file(2, dir, "server.key");
    int rc = coir_tls_server_new(&options, &tls);
    if (rc < 0)
        return rc;
    options.certificate = file(3, dir, "other.pem");
    options.key = file(4, dir, "other.key");
    rc = coir_tls_server_add_host(tls, "other.example", &options);
    rc = rc < 0 ? rc : coir_main(serve, tls);
    coir_tls_unref(tls);
    return rc;
}

/* ---- the client ---- */

struct visits {
    coir_tls *tls;
    const char *address;
    int count;
};

static int visit(const struct visits *visits)
{
    coir_stream *transport, *conn;
    char buf[1000];
    ssize_t n;
    int rc = coir_tcp_connect(visits->address, &transport);
    if (rc < 0)
        return rc;
    if ((rc = coir_tls_connect(visits->tls, "localhost", transport, &conn)) < 0) {
        coir_close(transport);
        return rc;
    }
    rc = coir_write_all(conn, "hello\n", 6);
    n = rc < 0 ? rc : coir_read(conn, buf, sizeof buf);
    tell(conn, "server"); /* and its ticket has come */
    if (visits->count == 1) {
        while (n > 0)
            n = coir_read(conn, buf, sizeof buf);
        tell_end(n);
    }
    coir_close(conn);
    return 0;
}

static int visit_all(void *arg)
{
    const struct visits *visits = arg;
    int rc = 0;
    for (int i = 0; rc == 0 && i < visits->count; i++)
        rc = visit(visits);
    return rc;
}

static int be_client(const char *dir, const char *address, int count, const char *name)
{
    coir_tls_options options = COIR_TLS_OPTIONS;
    struct visits visits = {.address = address, .count = count};
    char own[200];
    options.ca = file(0, dir, "root.pem");
    options.alpn = "echo";
    if (name) {
        snprintf(own, sizeof own, "%s.pem", name);
        options.certificate = file(1, dir, own);
        snprintf(own, sizeof own, "%s.key", name);
        options.key = file(2, dir, own);
    }
    int rc = coir_tls_client_new(&options, &visits.tls);
    if (rc < 0)
        return rc;
    rc = coir_main(visit_all, &visits);
    coir_tls_unref(visits.tls);
    return rc;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "server") == 0)
        return be_server(argv[2]) != 0;
    if (argc >= 5 && strcmp(argv[1], "client") == 0)
        return be_client(argv[2], argv[3], atoi(argv[4]), argc > 5 ? argv[5] : NULL) != 0;
    fprintf(stderr, "usage: %s server DIR | client DIR ADDRESS COUNT [NAME]\n", argv[0]);
    return 2;
}
