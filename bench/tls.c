/* coir as the server of the TLS benchmarks (tls.h): bench_tls CERTIFICATE KEY PORT */
#include "tls.h"

#include <coir.h>
#include <coir/tls.h>
#include <stdio.h>

static int serve(coir_stream *conn, void *arg)
{
    static const char zeros[RECORD];
    char in[4096];
    ssize_t n;
    int rc = 0;
    (void)arg;
    while (rc == 0 && (n = coir_read(conn, in, sizeof in - 1)) > 0) {
        in[n] = '\0';
        long records = records_wanted(in);
        if (!records)
            rc = coir_write_all(conn, page, sizeof page - 1);
        for (; rc == 0 && records; records--)
            rc = coir_write_all(conn, zeros, sizeof zeros);
    }
    return 0;
}

static char address[32];

static int start(void *tls)
{
    coir_serve_tcp_options options = COIR_SERVE_TCP_OPTIONS;
    options.address = address;
    options.layer = coir_tls_layer;
    options.layer_arg = tls;
    return coir_serve_tcp_with(&options, serve, NULL);
}

int main(int argc, char **argv)
{
    coir_tls_options options = COIR_TLS_OPTIONS;
    coir_tls *tls;
    if (argc < 4)
        return 2;
    options.certificate = argv[1];
    options.key = argv[2];
    snprintf(address, sizeof address, "127.0.0.1:%s", argv[3]);
    int rc = coir_tls_server_new(&options, &tls);
    if (rc < 0) {
        fprintf(stderr, "%s\n", coir_strerror(rc));
        return 1;
    }
    rc = coir_main(start, tls);
    coir_tls_unref(tls);
    return rc;
}
