/* Uses every struct of coir/tls.h that begins with its size, as sized.c does those of the others.
 */
#include <coir.h>
#include <coir/tls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRY(call)                                                                                \
    do {                                                                                         \
        int error_ = (call);                                                                     \
        if (error_ < 0) {                                                                        \
            fprintf(stderr, "sized_tls.c:%d: %s: %s\n", __LINE__, #call, coir_strerror(error_)); \
            exit(1);                                                                             \
        }                                                                                        \
    } while (0)

struct end {
    coir_tls *tls;
    coir_stream *transport, *conn;
};

static int accept_it(void *arg)
{
    struct end *end = arg;
    return coir_tls_accept(end->tls, end->transport, &end->conn);
}

static int meet(void *arg)
{
    struct end *ends = arg;
    char word[5];
    struct {
        coir_tls_info info;
        size_t behind;
    } got = {COIR_TLS_INFO, 1};
    TRY(coir_duplex(0, &ends[0].transport, &ends[1].transport));
    COIR_SCOPE(scope);
    TRY(coir_go(scope, accept_it, &ends[1]));
    TRY(coir_tls_connect(ends[0].tls, "localhost", ends[0].transport, &ends[0].conn));
    TRY(coir_scope_wait(scope));
    TRY(coir_tls_describe(ends[0].conn, &got.info));
    TRY(got.behind == 1 && got.info.verified && strcmp(got.info.alpn, "word") == 0 ? 0 : -1);
    TRY(coir_write_all(ends[0].conn, "hello", 5));
    TRY(coir_read_full(ends[1].conn, word, 5, NULL) == 5 ? 0 : -1);
    coir_close(ends[0].conn);
    coir_close(ends[1].conn);
    return memcmp(word, "hello", 5) == 0 ? 0 : -1;
}

int main(void)
{
    coir_tls_options server = COIR_TLS_OPTIONS, client = COIR_TLS_OPTIONS;
    char *certificate, *key;
    struct end ends[2];
    TRY(coir_tls_make_certificate("localhost", &certificate, &key));
    server.certificate = client.ca = certificate;
    server.key = key;
    server.alpn = client.alpn = "word";
    TRY(coir_tls_client_new(&client, &ends[0].tls));
    TRY(coir_tls_server_new(&server, &ends[1].tls));
    int status = coir_main(meet, ends);
    coir_tls_unref(ends[0].tls);
    coir_tls_unref(ends[1].tls);
    free(certificate);
    free(key);
    return status;
}
