/* Peers that keep no rule of TLS: what they send is refused with an error and an alert, and nothing
 * of it is taken for data. */
#include <coir.h>
#include <coir/sim.h>
#include <coir/tls.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pair.h"
#include "pki.h"
#include "records.h"
#include "tls/tls.h"

/* ---- ClientHellos ---- */

/* What is built up, with lengths that are filled in at the end. */
struct bytes {
    unsigned char data[2048];
    size_t len;
};

static void put(struct bytes *bytes, const void *data, size_t len)
{
    CHECK(bytes->len + len <= sizeof bytes->data);
    memcpy(bytes->data + bytes->len, data, len);
    bytes->len += len;
}

static void put_16(struct bytes *bytes, size_t number)
{
    put(bytes, (unsigned char[]){(unsigned char)(number >> 8), (unsigned char)number}, 2);
}

static void put_extension(struct bytes *to, int type, const void *data, size_t len)
{
    put_16(to, (size_t)type);
    put_16(to, len);
    put(to, data, len);
}

#define EXTENSION(to, type, ...) \
    put_extension(to, type, (unsigned char[]){__VA_ARGS__}, sizeof((unsigned char[]){__VA_ARGS__}))

/* One that a server answers by asking for a key share, with `more` extensions. */
static struct bytes make_hello(const struct bytes *more)
{
    struct bytes all = {.len = 0}, body = {.len = 0}, extensions = {.len = 0};
    EXTENSION(&extensions, 43, 2, 3, 4);     /* supported_versions: 1.3 */
    EXTENSION(&extensions, 13, 0, 2, 4, 3);  /* ecdsa_secp256r1_sha256 */
    EXTENSION(&extensions, 10, 0, 2, 0, 23); /* secp256r1 */
    EXTENSION(&extensions, 51, 0, 0);        /* key_share: none */
    put(&extensions, more->data, more->len);
    put(&body, (unsigned char[34]){3, 3}, 34);                /* version, random */
    put(&body, (unsigned char[]){0, 0, 2, 0x13, 1, 1, 0}, 7); /* session, ciphers, compression */
    put_16(&body, extensions.len);
    put(&body, extensions.data, extensions.len);
    put(&all, (unsigned char[]){22, 3, 1}, 3);
    put_16(&all, body.len + 4);
    put(&all, (unsigned char[]){1, 0}, 2);
    put_16(&all, body.len);
    put(&all, body.data, body.len);
    return all;
}

static coir_tls *server;

/* What a server says that is sent this and no more, and whether it has sent an alert. */
static int say_it(const struct bytes *hello, bool *ret_alert)
{
    coir_stream *transport, *peer, *made = NULL;
    unsigned char first;
    CHECK_EQ(coir_duplex(0, &peer, &transport), 0);
    CHECK_EQ(coir_write_all(peer, hello->data, hello->len), 0);
    CHECK_EQ(coir_shutdown_write(peer), 0);
    int rc = coir_tls_accept(server, transport, &made);
    CHECK(!made);
    *ret_alert = coir_try_read(peer, &first, 1) == 1 && first == SSL3_RT_ALERT;
    coir_close(transport);
    coir_close(peer);
    return rc;
}

static int say(const struct bytes *hello)
{
    bool alert;
    int rc = say_it(hello, &alert);
    CHECK_EQ(alert, rc != -COIR_ETLS_TRUNCATED);
    return rc;
}

static int say_extension(int type, const void *data, size_t len)
{
    struct bytes more = {.len = 0};
    put_extension(&more, type, data, len);
    struct bytes hello = make_hello(&more);
    return say(&hello);
}

#define SAY(type, ...) \
    say_extension(type, (unsigned char[]){__VA_ARGS__}, sizeof((unsigned char[]){__VA_ARGS__}))

/* A hello that is right: the server goes on, and waits for what never comes. */
enum { GOES_ON = -COIR_ETLS_TRUNCATED };

static int say_name(const char *name, size_t len)
{
    struct bytes list = {.len = 0};
    put_16(&list, len + 3);
    put(&list, "", 1);
    put_16(&list, len);
    put(&list, name, len);
    return say_extension(0, list.data, list.len);
}

TEST_REAL(names_that_are_malformed_are_refused)
{
    char longest[256];
    memset(longest, 'a', sizeof longest);
    server = server_of((coir_tls_options)COIR_TLS_OPTIONS);
    CHECK_EQ(say_name("example.org", 11), GOES_ON);
    CHECK_EQ(say_name(longest, 255), GOES_ON);
    CHECK_EQ(say_name(longest, 256), -COIR_ETLS);
    CHECK_EQ(say_name("", 0), -COIR_ETLS);
    CHECK_EQ(say_name("example.org\0.evil", 17), -COIR_ETLS);
    CHECK_EQ(SAY(0, 0), -COIR_ETLS);
    CHECK_EQ(SAY(0, 0, 0), -COIR_ETLS);
    CHECK_EQ(SAY(0, 0, 4, 0, 0, 2, 'a'), -COIR_ETLS);    /* the name is longer than the list */
    CHECK_EQ(SAY(0, 0, 9, 0, 0, 1, 'a'), -COIR_ETLS);    /* the list than the extension */
    CHECK_EQ(SAY(0, 0, 4, 0, 0, 1, 'a', 0), -COIR_ETLS); /* the extension than the list */
    CHECK_EQ(SAY(0, 0, 4, 1, 0, 1, 'a'), -COIR_ETLS);    /* not a host name */
    CHECK_EQ(SAY(0, 0, 8, 0, 0, 1, 'a', 0, 0, 1, 'b'), -COIR_ETLS); /* two */
    struct bytes twice = {.len = 0};
    for (int i = 0; i < 2; i++)
        EXTENSION(&twice, 0, 0, 4, 0, 0, 1, 'a');
    struct bytes hello = make_hello(&twice);
    CHECK_EQ(say(&hello), -COIR_ETLS);
    coir_tls_unref(server);
}

TEST_REAL(protocols_that_are_malformed_are_refused)
{
    coir_tls_options options = COIR_TLS_OPTIONS;
    options.alpn = "h2";
    server = server_of(options);
    CHECK_EQ(SAY(16, 0, 3, 2, 'h', '2'), GOES_ON);
    CHECK_EQ(SAY(16, 0, 5, 1, 'x', 2, 'h', '2'), GOES_ON);
    CHECK_EQ(SAY(16, 0, 2, 1, 'x'), -COIR_ETLS); /* no_application_protocol */
    CHECK_EQ(SAY(16, 0, 0), -COIR_ETLS);
    CHECK_EQ(SAY(16, 0, 1, 0), -COIR_ETLS); /* an empty name */
    CHECK_EQ(SAY(16, 0, 3, 3, 'h', '2'), -COIR_ETLS);
    CHECK_EQ(SAY(16, 0, 9, 2, 'h', '2'), -COIR_ETLS);
    CHECK_EQ(SAY(16, 0, 3, 2, 'h', '2', 0), -COIR_ETLS);
    CHECK_EQ(SAY(16, 0), -COIR_ETLS);
    coir_tls_unref(server);
}

/* Each byte of it, with a number of values: refused, or taken for a hello that goes on. What is no
 * record of TLS at all gets no alert. */
TEST_REAL(a_hello_with_any_byte_changed_does_no_harm)
{
    static const unsigned char changes[] = {1, 0x10, 0x80, 0xff};
    struct bytes more = {.len = 0};
    EXTENSION(&more, 0, 0, 4, 0, 0, 1, 'a');
    EXTENSION(&more, 16, 0, 3, 2, 'h', '2');
    EXTENSION(&more, 35, 1, 2, 3, 4); /* a ticket of another server */
    struct bytes hello = make_hello(&more);
    int refused = 0, went_on = 0;
    bool alert;
    server = server_of((coir_tls_options)COIR_TLS_OPTIONS);
    CHECK_EQ(say(&hello), GOES_ON);
    for (size_t i = 0; i < hello.len; i++)
        for (size_t k = 0; k < sizeof changes; k++) {
            struct bytes changed = hello;
            changed.data[i] ^= changes[k];
            int rc = say_it(&changed, &alert);
            CHECK(rc == -COIR_ETLS || rc == GOES_ON);
            refused += rc == -COIR_ETLS;
            went_on += rc == GOES_ON;
        }
    printf("%d refused, %d not\n", refused, went_on);
    CHECK(refused > 100);
    CHECK(went_on > 100);
    coir_tls_unref(server);
}

/* ---- records after the handshake ---- */

static coir_tls *client;

static void make_sides(void)
{
    client = client_of((coir_tls_options)COIR_TLS_OPTIONS);
    server = server_of((coir_tls_options)COIR_TLS_OPTIONS);
}

static void drop_sides(void)
{
    coir_tls_unref(client);
    coir_tls_unref(server);
}

/* What the server reads when it was sent one record. */
static ssize_t sent(int type, const void *data, size_t len)
{
    char buf[16];
    struct forger forger = forger_open(client, server);
    forger_send(&forger, type, data, len);
    ssize_t n = coir_try_read(forger.pair.tls_b, buf, sizeof buf);
    if (n < 0 && n != -EAGAIN) /* and it lasts */
        CHECK_EQ(coir_try_read(forger.pair.tls_b, buf, sizeof buf), n);
    forger_close(&forger);
    return n;
}

#define SENT(type, ...) \
    sent(type, (unsigned char[]){__VA_ARGS__}, sizeof((unsigned char[]){__VA_ARGS__}))

TEST_REAL(empty_records_are_bounded)
{
    char buf[16];
    make_sides();
    for (int count = 32; count <= 33; count++) {
        struct forger forger = forger_open(client, server);
        for (int i = 0; i < count; i++)
            forger_send(&forger, SSL3_RT_APPLICATION_DATA, "", 0);
        forger_send(&forger, SSL3_RT_APPLICATION_DATA, "x", 1);
        CHECK_EQ(coir_try_read(forger.pair.tls_b, buf, sizeof buf), count == 32 ? 1 : -COIR_ETLS);
        forger_close(&forger);
    }
    drop_sides();
}

TEST_REAL(data_after_a_declared_end_is_not_read)
{
    char buf[16];
    make_sides();
    struct forger forger = forger_open(client, server);
    forger_send(&forger, SSL3_RT_APPLICATION_DATA, "x", 1);
    forger_send(&forger, SSL3_RT_ALERT, "\1\0", 2);
    forger_send(&forger, SSL3_RT_APPLICATION_DATA, "y", 1);
    CHECK_EQ(coir_try_read(forger.pair.tls_b, buf, sizeof buf), 1);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(coir_try_read(forger.pair.tls_b, buf, sizeof buf), 0);
    CHECK_EQ(coir_write(forger.pair.tls_b, "z", 1), 1); /* the other direction goes on */
    CHECK_EQ(coir_read(forger.pair.tls_a, buf, sizeof buf), 1);
    forger_close(&forger);
    drop_sides();
}

TEST_REAL(every_alert_ends_the_stream_with_an_error)
{
    make_sides();
    for (int level = 1; level <= 2; level++)
        for (int what = 0; what < 256; what++) {
            ssize_t n = SENT(SSL3_RT_ALERT, (unsigned char)level, (unsigned char)what);
            if (what == SSL3_AD_CLOSE_NOTIFY)
                CHECK_EQ(n, 0);
            else if (what == SSL_AD_USER_CANCELLED) /* without a close_notify, it says nothing */
                CHECK_EQ(n, -EAGAIN);
            else
                CHECK(n == -COIR_ETLS || n == -COIR_ETLS_REFUSED);
        }
    CHECK_EQ(SENT(SSL3_RT_ALERT, 1, SSL3_AD_CLOSE_NOTIFY), 0);
    CHECK_EQ(SENT(SSL3_RT_ALERT, 2, SSL_AD_BAD_CERTIFICATE), -COIR_ETLS_REFUSED);
    CHECK_EQ(SENT(SSL3_RT_ALERT, 2), -COIR_ETLS);
    CHECK_EQ(SENT(SSL3_RT_ALERT, 1, 0, 1, 0), -COIR_ETLS);
    drop_sides();
}

TEST_REAL(messages_out_of_place_are_refused)
{
    make_sides();
    for (int type = 0; type < 256; type++)
        CHECK_EQ(SENT(SSL3_RT_HANDSHAKE, (unsigned char)type, 0, 0, 0), -COIR_ETLS);
    CHECK_EQ(SENT(SSL3_RT_HANDSHAKE, SSL3_MT_KEY_UPDATE, 0, 0, 1, 0), -EAGAIN);
    CHECK_EQ(SENT(SSL3_RT_HANDSHAKE, SSL3_MT_KEY_UPDATE, 0, 0, 1, 2), -COIR_ETLS);
    CHECK_EQ(SENT(SSL3_RT_HANDSHAKE, SSL3_MT_KEY_UPDATE, 0, 0, 2, 0, 0), -COIR_ETLS);
    struct bytes none = {.len = 0}, hello = make_hello(&none);
    CHECK_EQ(sent(SSL3_RT_HANDSHAKE, hello.data + 5, hello.len - 5), -COIR_ETLS);
    drop_sides();
}

TEST_REAL(records_of_other_kinds_are_refused)
{
    static unsigned char large[16385];
    char buf[16];
    make_sides();
    for (int type = 0; type < 256; type++)
        if (type < SSL3_RT_ALERT || type > SSL3_RT_APPLICATION_DATA)
            CHECK_EQ(SENT(type, 1), -COIR_ETLS);
    CHECK_EQ(SENT(SSL3_RT_CHANGE_CIPHER_SPEC, 1), -COIR_ETLS);
    CHECK_EQ(sent(SSL3_RT_APPLICATION_DATA, large, sizeof large - 1), sizeof buf);
    CHECK_EQ(sent(SSL3_RT_APPLICATION_DATA, large, sizeof large), -COIR_ETLS);
    static const unsigned char plain[][6] = {{23, 3, 3, 0, 1, 'x'}, {20, 3, 3, 0, 1, 1},
                                             {22, 3, 3, 0, 1, 0},   {21, 3, 3, 0, 1, 0},
                                             {99, 3, 3, 0, 1, 0},   {23, 9, 9, 0, 1, 0}};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        struct forger forger = forger_open(client, server);
        CHECK_EQ(coir_write_all(forger.pair.a, plain[i], 6), 0);
        CHECK_EQ(coir_try_read(forger.pair.tls_b, buf, sizeof buf), -COIR_ETLS);
        forger_close(&forger);
    }
    struct forger forger = forger_open(client, server);
    forger.number++; /* so the tag is wrong */
    forger_send(&forger, SSL3_RT_APPLICATION_DATA, "x", 1);
    CHECK_EQ(coir_try_read(forger.pair.tls_b, buf, sizeof buf), -COIR_ETLS);
    forger_close(&forger);
    drop_sides();
}

/* ---- what is switched off ---- */

static struct ci_tls_stream *inside(const coir_stream *stream)
{
    return coir_filter_arg(stream, &ci_tls_filter);
}

TEST_REAL(a_request_to_renegotiate_is_declined)
{
    char buf[16];
    make_sides();
    SSL_CTX_set_max_proto_version(client->hosts->context, TLS1_2_VERSION);
    for (int i = 0; i < 2; i++) {
        struct pair pair = {.client = client, .server = server};
        connect_pair(&pair);
        CHECK_EQ(pair.client_rc, 0);
        coir_stream *other = i ? pair.tls_a : pair.tls_b;
        struct ci_tls_stream *asker = inside(i ? pair.tls_b : pair.tls_a);
        SSL_clear_options(asker->ssl, SSL_OP_NO_RENEGOTIATION);
        CHECK_EQ(SSL_renegotiate(asker->ssl), 1);
        SSL_do_handshake(asker->ssl);
        CHECK_EQ(ci_bio_flush(asker), 0);
        CHECK(inside(other)->messages < 32);
        CHECK_EQ(coir_try_read(other, buf, sizeof buf), -EAGAIN); /* and a warning is sent */
        CHECK_EQ(coir_try_read(i ? pair.tls_b : pair.tls_a, buf, sizeof buf), -COIR_ETLS);
        CHECK_EQ(SSL_num_renegotiations(inside(other)->ssl), 0);
        CHECK_EQ(coir_write(other, "x", 1), 1);
        close_pair(&(struct pair){.tls_a = pair.tls_a, .tls_b = pair.tls_b});
    }
    drop_sides();
}

/* Moves what an SSL has written to the transport, and back: until it has no more to say. */
static void pump(SSL *ssl, coir_stream *transport)
{
    char buf[4096];
    for (int n; (n = BIO_read(SSL_get_wbio(ssl), buf, sizeof buf)) > 0;)
        CHECK_EQ(coir_write_all(transport, buf, (size_t)n), 0);
    for (int i = 0; i < 20; i++)
        CHECK_EQ(coir_yield(), 0);
    for (ssize_t n; (n = coir_try_read(transport, buf, sizeof buf)) > 0;)
        CHECK_EQ(BIO_write(SSL_get_rbio(ssl), buf, (int)n), n);
}

/* A client that sends data with its ClientHello, though no ticket allows it. */
TEST_REAL(early_data_is_not_read)
{
    char buf[16];
    size_t n;
    make_sides();
    struct pair pair = {.client = client, .server = server};
    CHECK(!resumes(&pair));
    close_pair(&(struct pair){.tls_a = pair.tls_a, .tls_b = pair.tls_b});
    SSL_SESSION *session = client->sessions->session;
    CHECK_EQ(SSL_SESSION_get_max_early_data(session), 0);
    SSL_SESSION_set_max_early_data(session, 1000);
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *ssl = SSL_new(context);
    SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    unsigned id_len;
    const unsigned char *id = SSL_SESSION_get0_id_context(session, &id_len);
    SSL_set_session_id_context(ssl, id, id_len);
    SSL_set_session(ssl, session);
    SSL_set_tlsext_host_name(ssl, "example.org");
    SSL_set_connect_state(ssl);
    CHECK_EQ(coir_duplex(0, &pair.a, &pair.b), 0);
    pair.tls_b = NULL;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, accept_it, &pair), 0);
    CHECK_EQ(SSL_write_early_data(ssl, "early", 5, &n), 1);
    pump(ssl, pair.a);
    CHECK_EQ(SSL_do_handshake(ssl), 1);
    CHECK_EQ(SSL_get_early_data_status(ssl), SSL_EARLY_DATA_REJECTED);
    CHECK(SSL_session_reused(ssl));
    CHECK_EQ(SSL_write(ssl, "late", 4), 4);
    pump(ssl, pair.a);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(pair.server_rc, 0);
    CHECK_EQ(coir_try_read(pair.tls_b, buf, sizeof buf), 4);
    CHECK(memcmp(buf, "late", 4) == 0);
    SSL_free(ssl);
    SSL_CTX_free(context);
    coir_close(pair.tls_b);
    coir_close(pair.a);
    drop_sides();
}

/* ---- certificates of clients ---- */

/* What a server says to a client that sends its certificate so often. */
static int send_chain(struct identity *root, struct identity *mine, int times)
{
    size_t len = strlen(mine->certificate_text);
    char *chain = malloc(len * (size_t)times + 1);
    for (int i = 0; i < times; i++)
        strcpy(chain + len * (size_t)i, mine->certificate_text);
    coir_tls_options strict = COIR_TLS_OPTIONS, with = COIR_TLS_OPTIONS;
    strict.ca = root->certificate_text;
    strict.client_certificates = COIR_TLS_REQUIRED_CLIENT_CERTIFICATES;
    with.certificate = chain;
    with.key = mine->key_text;
    int rc;
    connect_with(strict, with, "example.org", &rc);
    free(chain);
    return rc;
}

TEST_REAL(the_length_of_a_chain_is_bounded)
{
    struct identity root = pki_make((struct wish){.name = "root", .ca = true});
    struct identity mine =
        pki_make((struct wish){.name = "client", .issuer = &root, .purpose = "clientAuth"});
    CHECK_EQ(send_chain(&root, &mine, 1), 0);
    CHECK_EQ(send_chain(&root, &mine, 100), 0);
    CHECK_EQ(send_chain(&root, &mine, 400), -COIR_ETLS); /* more than 100 KiB */
    pki_free(&mine);
    pki_free(&root);
}

/* ---- half a message ---- */

static int turns;

static void count_turn(const SSL *ssl, int where, int result)
{
    (void)ssl, (void)where, (void)result;
    turns++;
}

static int write_hello(void *arg)
{
    return coir_write_all(arg, "hello", 5);
}

/* The header of a KeyUpdate has arrived, its last byte has not: OpenSSL writes nothing before it.
 */
TEST_REAL(half_a_message_makes_the_writer_wait)
{
    static const unsigned char update[] = {24, 0, 0, 1, 0};
    char got[5];
    make_sides();
    struct forger forger = forger_open(client, server);
    coir_stream *conn = forger.pair.tls_b;
    struct ci_tls_stream *stream = coir_filter_arg(conn, &ci_tls_filter);
    forger_send(&forger, SSL3_RT_HANDSHAKE, update, 4);
    CHECK_EQ(coir_try_read(conn, got, 1), -EAGAIN);
    CHECK_EQ(coir_try_write(conn, "x", 1), -EAGAIN);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_stream_wait(conn, COIR_WRITE), -ETIME);
    }
    SSL_set_info_callback(stream->ssl, count_turn);
    turns = 0;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, write_hello, conn), 0);
    for (int i = 0; i < 100; i++) /* a turn of the loop each */
        CHECK_EQ(coir_sleep_for(COIR_US), 0);
    CHECK(turns < 20); /* it waits for input, and does not try again and again */
    forger_send(&forger, SSL3_RT_HANDSHAKE, update + 4, 1);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_read_full(forger.pair.tls_a, got, 5, NULL), 5);
    CHECK(memcmp(got, "hello", 5) == 0);
    forger_close(&forger);
    drop_sides();
}

TEST_REAL(an_end_waits_for_the_rest_of_a_message)
{
    static const unsigned char update[] = {24, 0, 0, 1, 0};
    char byte;
    make_sides();
    struct forger forger = forger_open(client, server);
    coir_stream *conn = forger.pair.tls_b;
    forger_send(&forger, SSL3_RT_HANDSHAKE, update, 4);
    CHECK_EQ(coir_try_read(conn, &byte, 1), -EAGAIN);
    CHECK_EQ(coir_shutdown_write(conn), 0);
    CHECK_EQ(coir_write(conn, "x", 1), -EPIPE);
    CHECK_EQ(coir_stream_wait(conn, COIR_WRITE), COIR_WRITE);
    CHECK_EQ(coir_try_read(forger.pair.tls_a, &byte, 1), -EAGAIN);
    forger_send(&forger, SSL3_RT_HANDSHAKE, update + 4, 1);
    CHECK_EQ(coir_try_read(conn, &byte, 1), -EAGAIN);
    CHECK_EQ(coir_try_read(forger.pair.tls_a, &byte, 1), 0);
    forger_close(&forger);
    drop_sides();
}
