/* An echo server over TLS. Without files it makes itself a certificate:
 * 21_tls_echo [CERTIFICATE KEY [PORT]]. Try: openssl s_client -connect 127.0.0.1:7443 -quiet */
#include <coir.h>
#include <coir/tls.h>
#include <stdio.h>
#include <stdlib.h>

static int echo(coir_stream *conn, void *arg)
{
    (void)arg;
    char buf[4096];
    ssize_t n;
    while ((n = coir_read(conn, buf, sizeof buf)) > 0) {
        int rc = coir_write_all(conn, buf, (size_t)n);
        if (rc < 0)
            return rc;
    }
    return n == -COIR_ETLS_TRUNCATED ? 0 : (int)n; /* who hangs up has nothing to say */
}

static char address[32] = "127.0.0.1:7443";

static int start(void *tls)
{
    coir_serve_tcp_options options = COIR_SERVE_TCP_OPTIONS;
    int rc = coir_tcp_listen(address, &options.listener);
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

int main(int argc, char **argv)
{
    coir_tls_options options = COIR_TLS_OPTIONS;
    char *certificate = NULL, *key = NULL;
    coir_tls *tls;
    if (argc > 3)
        snprintf(address, sizeof address, "127.0.0.1:%s", argv[3]);
    int rc = argc > 2 ? 0 : coir_tls_make_certificate("localhost", &certificate, &key);
    options.certificate = argc > 2 ? argv[1] : certificate;
    options.key = argc > 2 ? argv[2] : key;
    if (rc < 0 || (rc = coir_tls_server_new(&options, &tls)) < 0) {
        fprintf(stderr, "no certificate: %s\n", coir_strerror(rc));
        return 1;
    }
    rc = coir_main(start, tls);
    coir_tls_unref(tls);
    free(certificate);
    free(key);
    return rc;
}
