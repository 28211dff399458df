/* A client over TLS that says a line and prints the answer: 22_tls_client HOST ADDRESS [CA-FILE].
 * The server has to prove that it is HOST. */
#include <coir.h>
#include <coir/tls.h>
#include <stdio.h>

struct wish {
    const char *host, *address;
    coir_tls *tls;
};

static int talk(coir_stream *conn)
{
    char line[256];
    coir_tls_info info = COIR_TLS_INFO;
    coir_tls_describe(conn, &info);
    fprintf(stderr, "%s, %s, the server is %s\n", info.version, info.cipher, info.subject);
    int rc = coir_write_all(conn, "hello\n", 6);
    ssize_t n = rc < 0 ? rc : coir_read(conn, line, sizeof line);
    if (n > 0)
        printf("%.*s", (int)n, line);
    return n < 0 ? (int)n : 0;
}

static int start(void *arg)
{
    const struct wish *wish = arg;
    coir_stream *transport, *conn;
    COIR_DEADLINE(coir_in(5 * COIR_S));
    int rc = coir_tcp_connect(wish->address, &transport);
    if (rc < 0)
        return rc;
    if ((rc = coir_tls_connect(wish->tls, wish->host, transport, &conn)) < 0) {
        coir_close(transport);
        return rc;
    }
    rc = talk(conn);
    coir_close(conn);
    return rc;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: %s HOST ADDRESS [CA-FILE]\n", argv[0]);
        return 2;
    }
    struct wish wish = {argv[1], argv[2], NULL};
    coir_tls_options options = COIR_TLS_OPTIONS;
    options.ca = argc > 3 ? argv[3] : NULL;
    int rc = coir_tls_client_new(&options, &wish.tls);
    if (rc < 0) {
        fprintf(stderr, "%s: %s\n", argc > 3 ? argv[3] : "the system's certificates",
                coir_strerror(rc));
        return 1;
    }
    rc = coir_main(start, &wish);
    coir_tls_unref(wish.tls);
    return rc;
}
