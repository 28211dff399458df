/* The limit for a TLS server, to compare with: OpenSSL's own socket BIO in a level-triggered epoll
 * loop, with the buffers, tickets and ciphers that coir sets. bench_bare_tls CERTIFICATE KEY PORT
 */
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "listen.h"
#include "tls.h"

struct conn {
    SSL *ssl;
    int fd;
    long left; /* records to send */
};

static const char zeros[RECORD];

static SSL_CTX *make_context(char **argv)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(context, 1);
    SSL_CTX_set_read_ahead(context, 1);
    return SSL_CTX_use_certificate_chain_file(context, argv[1]) == 1 &&
                   SSL_CTX_use_PrivateKey_file(context, argv[2], SSL_FILETYPE_PEM) == 1
               ? context
               : NULL;
}

/* False: the connection has ended. */
static bool wants(int epoll, struct conn *conn, int rc)
{
    int why = SSL_get_error(conn->ssl, rc);
    struct epoll_event event = {.data.ptr = conn,
                                .events = why == SSL_ERROR_WANT_WRITE ? EPOLLOUT : EPOLLIN};
    if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
        return false;
    epoll_ctl(epoll, EPOLL_CTL_MOD, conn->fd, &event);
    return true;
}

static bool serve_one(int epoll, struct conn *conn)
{
    char in[4096];
    for (int rc;;) {
        for (; conn->left; conn->left--)
            if ((rc = SSL_write(conn->ssl, zeros, RECORD)) <= 0)
                return wants(epoll, conn, rc);
        if ((rc = SSL_read(conn->ssl, in, sizeof in - 1)) <= 0)
            return wants(epoll, conn, rc);
        in[rc] = '\0';
        conn->left = records_wanted(in);
        if (!conn->left && SSL_write(conn->ssl, page, sizeof page - 1) <= 0)
            return false;
    }
}

static void accept_one(int epoll, int listener, SSL_CTX *context)
{
    struct conn *conn = calloc(1, sizeof *conn);
    int on = 1;
    conn->fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    conn->ssl = SSL_new(context);
    SSL_set_fd(conn->ssl, conn->fd);
    SSL_set_accept_state(conn->ssl);
    epoll_ctl(epoll, EPOLL_CTL_ADD, conn->fd,
              &(struct epoll_event){.events = EPOLLIN, .data.ptr = conn});
}

static void end(struct conn *conn)
{
    SSL_shutdown(conn->ssl);
    SSL_free(conn->ssl);
    close(conn->fd);
    free(conn);
}

int main(int argc, char **argv)
{
    SSL_CTX *context = argc > 3 ? make_context(argv) : NULL;
    int listener = context ? listen_on(atoi(argv[3]), 0) : -1, epoll = epoll_create1(0);
    if (listener < 0)
        return 1;
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener,
              &(struct epoll_event){.events = EPOLLIN, .data.ptr = NULL});
    for (;;) {
        static struct epoll_event events[512];
        int count = epoll_wait(epoll, events, 512, -1);
        for (int i = 0; i < count; i++) {
            struct conn *conn = events[i].data.ptr;
            if (!conn)
                accept_one(epoll, listener, context);
            else if (!serve_one(epoll, conn))
                end(conn);
        }
    }
}
