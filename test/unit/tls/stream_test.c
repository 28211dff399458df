/* Data and ends of TLS streams. */
#include <coir.h>
#include <coir/sim.h>
#include <coir/tls.h>
#include <errno.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>

#include "fill.h"
#include "pair.h"
#include "pattern.h"
#include "pki.h"

enum { LEN = 300000 };

static int write_all(void *arg)
{
    return write_pattern(arg, LEN);
}

static void carry(size_t capacity)
{
    struct pair pair = plain_pair(capacity);
    COIR_SCOPE(scope);
    coir_go(scope, write_all, pair.tls_a);
    read_pattern(pair.tls_b, LEN);
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_go(scope, write_all, pair.tls_b);
    read_pattern(pair.tls_a, LEN);
    CHECK_EQ(coir_scope_wait(scope), 0);
    close_pair(&pair);
}

TEST_REAL(bytes_go_both_ways_through_a_large_transport)
{
    carry(0);
}

TEST_REAL(bytes_go_both_ways_through_a_transport_of_a_byte)
{
    carry(1);
}

TEST_REAL(what_was_agreed_on_is_told)
{
    coir_tls_options options = COIR_TLS_OPTIONS;
    options.alpn = "h2,http/1.1";
    coir_tls_options client = options;
    client.alpn = "http/1.1";
    struct pair pair = {.client = client_of(client), .server = server_of(options)};
    connect_pair(&pair);
    coir_tls_info info = COIR_TLS_INFO;
    CHECK_EQ(coir_tls_describe(pair.tls_a, &info), 0);
    CHECK(strcmp(info.version, "TLSv1.3") == 0);
    CHECK(strcmp(info.alpn, "http/1.1") == 0);
    CHECK(strcmp(info.subject, "CN=example.org") == 0);
    CHECK(info.verified && !info.resumed);
    CHECK_EQ(coir_tls_describe(pair.tls_b, &info), 0);
    CHECK(strcmp(info.server_name, "example.org") == 0);
    CHECK(!info.verified);
    close_pair(&pair);
}

/* What a client with this certificate is called by the server, for free(). */
static char *called(const struct identity *root, const struct identity *peer)
{
    coir_tls_options server = COIR_TLS_OPTIONS, client = COIR_TLS_OPTIONS;
    coir_tls_info info = COIR_TLS_INFO;
    server.client_certificates = COIR_TLS_REQUIRED_CLIENT_CERTIFICATES;
    server.ca = root->certificate_text;
    client.certificate = peer->certificate_text;
    client.key = peer->key_text;
    struct pair pair = {.client = client_of(client), .server = server_of(server)};
    connect_pair(&pair);
    CHECK_EQ(pair.server_rc, 0);
    CHECK_EQ(coir_tls_describe(pair.tls_b, &info), 0);
    CHECK(info.verified);
    char *subject = strdup(info.subject);
    close_pair(&pair);
    return subject;
}

/* Programs decide by it who may do what. */
TEST_REAL(no_subject_reads_like_another)
{
    static char long_name[300];
    memset(long_name, 'x', sizeof long_name - 1);
    struct identity root = pki_make((struct wish){.name = "root", .ca = true});
    struct wish wishes[] = {{.name = "jane"},
                            {.name = "jane", .domain = "admin"},
                            {.name = "jane/DC=admin"},
                            {.name = "jane,DC=admin"},
                            {.name = "jane+DC=admin"},
                            {.name = "jane\nDC=admin"},
                            {.name = "jane", .domain = long_name},
                            {.name = "joan", .domain = long_name}};
    enum { WISHES = sizeof wishes / sizeof *wishes };
    char *subjects[WISHES];
    for (int i = 0; i < WISHES; i++) {
        wishes[i].issuer = &root;
        wishes[i].purpose = "clientAuth";
        struct identity peer = pki_make(wishes[i]);
        subjects[i] = called(&root, &peer);
        CHECK(!strchr(subjects[i], '\n'));
        for (int k = 0; k < i; k++)
            CHECK(strcmp(subjects[i], subjects[k]) != 0);
        pki_free(&peer);
    }
    CHECK(strcmp(subjects[0], "CN=jane") == 0);
    CHECK(strcmp(subjects[1], "CN=jane,DC=admin") == 0);
    CHECK(strcmp(subjects[3], "CN=jane\\,DC=admin") == 0);
    for (int i = 0; i < WISHES; i++)
        free(subjects[i]);
    pki_free(&root);
}

TEST_REAL(an_end_that_was_not_declared_is_an_error)
{
    struct pair pair = plain_pair(0);
    char byte;
    CHECK_EQ(coir_shutdown_write(pair.a), 0); /* under TLS: as an attacker would */
    CHECK_EQ(coir_read(pair.tls_b, &byte, 1), -COIR_ETLS_TRUNCATED);
    CHECK_EQ(coir_read(pair.tls_b, &byte, 1), -COIR_ETLS_TRUNCATED);
    close_pair(&pair);
}

TEST_REAL(a_failure_leaves_nothing_in_the_queue_of_errors)
{
    struct pair pair = plain_pair(0);
    char byte;
    CHECK_EQ(coir_write_all(pair.a, "no record", 9), 0);
    CHECK_EQ(coir_read(pair.tls_b, &byte, 1), -COIR_ETLS);
    CHECK_EQ(ERR_peek_error(), 0);
    CHECK(coir_read(pair.tls_a, &byte, 1) < 0); /* the alert */
    CHECK_EQ(ERR_peek_error(), 0);
    close_pair(&pair);
}

TEST_REAL(an_end_that_was_not_declared_is_told_without_verification_too)
{
    coir_tls_options client = COIR_TLS_OPTIONS;
    client.insecure = COIR_TLS_INSECURE_NO_VERIFICATION;
    struct pair pair = {.client = client_of(client),
                        .server = server_of((coir_tls_options)COIR_TLS_OPTIONS)};
    char byte;
    connect_pair(&pair);
    CHECK_EQ(pair.client_rc, 0);
    CHECK_EQ(coir_shutdown_write(pair.b), 0);
    CHECK_EQ(coir_read(pair.tls_a, &byte, 1), -COIR_ETLS_TRUNCATED);
    close_pair(&pair);
}

TEST_REAL(a_declared_end_is_one)
{
    struct pair pair = plain_pair(0);
    char byte;
    CHECK_EQ(coir_write_all(pair.tls_a, "x", 1), 0);
    CHECK_EQ(coir_shutdown_write(pair.tls_a), 0);
    CHECK_EQ(coir_write(pair.tls_a, "x", 1), -EPIPE);
    CHECK_EQ(coir_read(pair.tls_b, &byte, 1), 1);
    CHECK_EQ(coir_read(pair.tls_b, &byte, 1), 0);
    CHECK_EQ(coir_write_all(pair.tls_b, "y", 1), 0); /* the other direction goes on */
    CHECK_EQ(coir_read(pair.tls_a, &byte, 1), 1);
    close_pair(&pair);
}

TEST_REAL(what_is_written_before_a_close_arrives)
{
    struct pair pair = plain_pair(7);
    static char sent[16000], got[16000];
    memset(sent, 'z', sizeof sent);
    ssize_t n = coir_write(pair.tls_a, sent, sizeof sent);
    CHECK_EQ(n, sizeof sent);
    coir_close(pair.tls_a);
    pair.tls_a = NULL;
    CHECK_EQ(coir_read_full(pair.tls_b, got, sizeof got, NULL), sizeof got);
    CHECK(memcmp(sent, got, sizeof got) == 0);
    CHECK_EQ(coir_read(pair.tls_b, got, 1), 0);
    close_pair(&pair);
}

TEST_REAL(a_cancelled_read_loses_nothing_and_a_cancelled_write_has_written_nothing)
{
    struct pair pair = plain_pair(5000);
    char got[16];
    for (int i = 0; i < 50; i++) {
        {
            COIR_DEADLINE(coir_in(1 * COIR_MS));
            CHECK_EQ(coir_read(pair.tls_b, got, sizeof got), -ETIME);
        }
        CHECK_EQ(coir_write_all(pair.tls_a, "abcd", 4), 0);
        CHECK_EQ(coir_read(pair.tls_b, got, sizeof got), 4);
    }
    static char many[10000], read[10000];
    size_t written = 0, seen = 0;
    for (;;) { /* until the transport is full */
        COIR_DEADLINE(coir_in(5 * COIR_MS));
        ssize_t n = coir_write(pair.tls_a, many, sizeof many);
        if (n < 0) {
            CHECK_EQ(n, -ETIME);
            break;
        }
        written += (size_t)n;
    }
    CHECK_EQ(coir_shutdown_write(pair.tls_a), 0);
    ssize_t n;
    while ((n = coir_read(pair.tls_b, read, sizeof read)) > 0)
        seen += (size_t)n;
    CHECK_EQ(n, 0);
    CHECK_EQ(seen, written);
    close_pair(&pair);
}

TEST_REAL(select_and_futures_work_on_a_tls_stream)
{
    struct pair pair = plain_pair(0);
    coir_case cases[] = {coir_case_stream(pair.tls_b, COIR_READ), coir_case_after(5 * COIR_MS)};
    CHECK_EQ(coir_select(cases, 2), 1);
    CHECK_EQ(coir_write_all(pair.tls_a, "hello", 5), 0);
    coir_case again[] = {coir_case_stream(pair.tls_b, COIR_READ), coir_case_after(10 * COIR_S)};
    CHECK_EQ(coir_select(again, 2), 0);
    char got[5];
    coir_io_all_op op;
    CHECK_EQ(coir_await(coir_read_full_op(&op, pair.tls_b, got, 5, NULL)), 5);
    CHECK_EQ(coir_try_read(pair.tls_b, got, 5), -EAGAIN);
    CHECK_EQ(coir_stream_wait(pair.tls_b, COIR_WRITE), COIR_WRITE);
    close_pair(&pair);
}

/* ---- over TLS ---- */

static void carry_inside(struct pair outer)
{
    struct pair inner = plain_pair(0);
    coir_close(inner.tls_a);
    coir_close(inner.tls_b);
    inner.a = outer.tls_a;
    inner.b = outer.tls_b;
    connect_ends(&inner);
    CHECK_EQ(inner.client_rc, 0);
    CHECK_EQ(inner.server_rc, 0);
    COIR_SCOPE(scope);
    coir_go(scope, write_all, inner.tls_a);
    read_pattern(inner.tls_b, LEN);
    CHECK_EQ(coir_scope_wait(scope), 0);
    {
        char byte;
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_read(inner.tls_a, &byte, 1), -ETIME);
    }
    coir_go(scope, write_all, inner.tls_b);
    read_pattern(inner.tls_a, LEN);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_shutdown_write(inner.tls_a), 0);
    CHECK_EQ(read_to_the_end(inner.tls_b), 0);
    close_pair(&inner); /* and the outer streams */
    coir_tls_unref(outer.client);
    coir_tls_unref(outer.server);
}

TEST_REAL(tls_is_carried_by_tls)
{
    carry_inside(plain_pair(0));
    carry_inside(plain_pair(100));
}

/* ---- over TCP, where a close with something unread loses what was written ---- */

/* The server's ticket is never read. */
TEST_REAL(a_client_that_writes_and_closes_is_heard_to_the_end)
{
    struct pair pair = tcp_pair();
    size_t unread = fill_system(pair.tls_a, pair.tls_b);
    coir_close(pair.tls_a);
    pair.tls_a = NULL;
    CHECK_EQ(read_to_the_end(pair.tls_b), unread);
    close_pair(&pair);
}

/* The client's close_notify is never read. */
TEST_REAL(an_answer_to_a_client_that_has_ended_arrives)
{
    struct pair pair = tcp_pair();
    char byte;
    CHECK_EQ(coir_write_all(pair.tls_a, "?", 1), 0);
    CHECK_EQ(coir_read(pair.tls_b, &byte, 1), 1);
    CHECK_EQ(coir_shutdown_write(pair.tls_a), 0);
    CHECK_EQ(coir_stream_wait(pair.b, COIR_READ), COIR_READ);
    size_t unread = fill_system(pair.tls_b, pair.tls_a);
    coir_close(pair.tls_b);
    pair.tls_b = NULL;
    CHECK_EQ(read_to_the_end(pair.tls_a), unread);
    close_pair(&pair);
}
