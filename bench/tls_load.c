/* Load for the TLS benchmarks, from one thread over blocking sockets: bench_tls_load PORT WHAT N
 *   full, resumed  N connections, each with a handshake and one request
 *   big            one connection, which is sent N records of 16 KiB
 *   idle           N connections that were served once, held open until the standard input ends */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { PATIENCE_S = 30 }; /* for what a server has to send next */

static SSL_CTX *context;
static SSL_SESSION *session;

static int keep_session(SSL *ssl, SSL_SESSION *fresh)
{
    (void)ssl;
    SSL_SESSION_free(session);
    session = fresh;
    return 1;
}

static SSL *open_one(int port, SSL_SESSION *resumed)
{
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = PATIENCE_S};
    SSL *ssl = SSL_new(context);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    SSL_set_fd(ssl, fd);
    if (resumed)
        SSL_set_session(ssl, resumed);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0 || SSL_connect(ssl) != 1 ||
        !SSL_session_reused(ssl) != !resumed) {
        fprintf(stderr, "no connection, or not as it was to be\n");
        exit(1);
    }
    return ssl;
}

/* Reads at least `bytes`: how many it were. A shorter answer is an error. */
static long ask(SSL *ssl, const char *request, long bytes)
{
    static char in[1 << 16];
    long sum = 0;
    int n;
    SSL_write(ssl, request, (int)strlen(request));
    while (sum < bytes && (n = SSL_read(ssl, in, sizeof in)) > 0)
        sum += n;
    if (sum < bytes) {
        fprintf(stderr, "an answer of %ld bytes, not %ld; or none for %d s\n", sum, bytes,
                PATIENCE_S);
        exit(1);
    }
    return sum;
}

static void close_one(SSL *ssl)
{
    int fd = SSL_get_fd(ssl);
    SSL_shutdown(ssl);
    SSL_free(ssl);
    close(fd);
}

int main(int argc, char **argv)
{
    const char *hello = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", *what = argc > 3 ? argv[2] : "";
    int port = argc > 3 ? atoi(argv[1]) : 0;
    long count = argc > 3 ? atol(argv[3]) : 0;
    context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context, keep_session);
    if (strcmp(what, "big") == 0) {
        char request[64];
        SSL *ssl = open_one(port, NULL);
        snprintf(request, sizeof request, "GET /big/%ld HTTP/1.1\r\nHost: a\r\n\r\n", count);
        printf("%ld\n", ask(ssl, request, count * 16384));
        close_one(ssl);
        return 0;
    }
    if (strcmp(what, "resumed") == 0) {
        SSL *ssl = open_one(port, NULL);
        ask(ssl, hello, 1);
        close_one(ssl);
    }
    for (long i = 0; i < count; i++) {
        SSL *ssl = open_one(port, strcmp(what, "resumed") == 0 ? session : NULL);
        ask(ssl, hello, 1);
        if (strcmp(what, "idle") != 0)
            close_one(ssl);
    }
    printf("%ld\n", count);
    fflush(stdout);
    if (strcmp(what, "idle") == 0)
        while (getchar() != EOF)
            ;
    return 0;
}
