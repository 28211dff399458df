/* Two ends of coir that meet over a transport in memory. */
#ifndef TEST_UNIT_TLS_PAIR_H
#define TEST_UNIT_TLS_PAIR_H

#include <coir.h>
#include <coir/tls.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"

/* What a pair of ends is made of. */
struct pair {
    coir_tls *client, *server;
    coir_stream *a, *b; /* the transport's ends: a is the client's */
    coir_stream *tls_a, *tls_b;
    int client_rc, server_rc;
    const char *host;
    size_t capacity;
};

/* Of example.org, after make_once. */
static char *own_certificate, *own_key;

static inline void make_once(void)
{
    if (!own_certificate)
        CHECK_EQ(coir_tls_make_certificate("example.org", &own_certificate, &own_key), 0);
}

static inline coir_tls *server_of(coir_tls_options options)
{
    make_once();
    coir_tls *tls = NULL;
    if (!options.certificate) {
        options.certificate = own_certificate;
        options.key = own_key;
    }
    CHECK_EQ(coir_tls_server_new(&options, &tls), 0);
    return tls;
}

static inline coir_tls *client_of(coir_tls_options options)
{
    make_once();
    coir_tls *tls = NULL;
    if (!options.ca && !options.insecure)
        options.ca = own_certificate;
    CHECK_EQ(coir_tls_client_new(&options, &tls), 0);
    return tls;
}

static inline int accept_it(void *arg)
{
    struct pair *pair = arg;
    pair->server_rc = coir_tls_accept(pair->server, pair->b, &pair->tls_b);
    if (pair->server_rc < 0) {
        coir_close(pair->b);
        pair->b = NULL;
    }
    return 0;
}

/* Connects the ends of a transport that there is. */
static inline void connect_ends(struct pair *pair)
{
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, accept_it, pair), 0);
    pair->client_rc = coir_tls_connect(pair->client, pair->host ? pair->host : "example.org",
                                       pair->a, &pair->tls_a);
    if (pair->client_rc < 0) {
        coir_close(pair->a);
        pair->a = NULL;
    }
    coir_scope_wait(scope);
}

static inline void connect_pair(struct pair *pair)
{
    CHECK_EQ(coir_duplex(pair->capacity, &pair->a, &pair->b), 0);
    connect_ends(pair);
}

static inline void close_pair(struct pair *pair)
{
    coir_close(pair->tls_a);
    coir_close(pair->tls_b);
    coir_tls_unref(pair->client);
    coir_tls_unref(pair->server);
}

/* Connects, and closes again: the subject of the certificate that the server showed. */
static inline const char *met(struct pair *pair)
{
    static char name[64];
    coir_tls_info info = COIR_TLS_INFO;
    connect_pair(pair);
    CHECK_EQ(pair->client_rc, 0);
    CHECK_EQ(coir_tls_describe(pair->tls_a, &info), 0);
    snprintf(name, sizeof name, "%s", info.subject);
    close_pair(&(struct pair){.tls_a = pair->tls_a, .tls_b = pair->tls_b});
    return name;
}

static inline struct pair plain_pair(size_t capacity)
{
    struct pair pair = {.client = client_of((coir_tls_options)COIR_TLS_OPTIONS),
                        .server = server_of((coir_tls_options)COIR_TLS_OPTIONS),
                        .capacity = capacity};
    connect_pair(&pair);
    CHECK_EQ(pair.client_rc, 0);
    CHECK_EQ(pair.server_rc, 0);
    return pair;
}

/* Connected over TCP. */
static inline struct pair tcp_pair(void)
{
    coir_listener *listener;
    char where[64];
    struct pair pair = {.client = client_of((coir_tls_options)COIR_TLS_OPTIONS),
                        .server = server_of((coir_tls_options)COIR_TLS_OPTIONS)};
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    CHECK(coir_listener_local(listener, where, sizeof where) > 0);
    CHECK_EQ(coir_tcp_connect(where, &pair.a), 0);
    CHECK_EQ(coir_accept(listener, &pair.b), 0);
    coir_listener_close(listener);
    connect_ends(&pair);
    CHECK_EQ(pair.client_rc, 0);
    CHECK_EQ(pair.server_rc, 0);
    return pair;
}

/* Connects anew, as both sides are: what a client and a server say to these options. */
static inline int connect_with(coir_tls_options server, coir_tls_options client, const char *host,
                               int *ret_server)
{
    struct pair pair = {.client = client_of(client), .server = server_of(server), .host = host};
    connect_pair(&pair);
    if (ret_server)
        *ret_server = pair.server_rc;
    close_pair(&pair);
    return pair.client_rc;
}

/* Connects anew with the same two sides: whether the session was resumed. */
static inline bool resumes(struct pair *pair)
{
    coir_close(pair->tls_a);
    coir_close(pair->tls_b);
    pair->tls_a = pair->tls_b = NULL;
    connect_pair(pair);
    CHECK_EQ(pair->client_rc, 0);
    CHECK_EQ(pair->server_rc, 0);
    char byte;
    coir_tls_info info = COIR_TLS_INFO;
    CHECK_EQ(coir_write_all(pair->tls_b, "x", 1), 0);
    CHECK_EQ(coir_read(pair->tls_a, &byte, 1), 1); /* and the ticket has come */
    CHECK_EQ(coir_tls_describe(pair->tls_a, &info), 0);
    CHECK(info.verified);
    return info.resumed;
}

#endif
