/* The hosts of a server: which of them a client gets by the name that it asks for. */
#include <coir.h>
#include <coir/tls.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pair.h"
#include "pki.h"
#include "tls/tls.h"

TEST_REAL(each_name_gets_its_own_certificate)
{
    char *texts[3], *keys[3];
    const char *names[] = {"a.example", "*.b.example", "c.b.example"};
    coir_tls_options client = COIR_TLS_OPTIONS;
    client.insecure = COIR_TLS_INSECURE_NO_VERIFICATION;
    struct pair pair = {.client = client_of(client),
                        .server = server_of((coir_tls_options)COIR_TLS_OPTIONS)};
    for (int i = 0; i < 3; i++) {
        coir_tls_options host = COIR_TLS_OPTIONS;
        CHECK_EQ(coir_tls_make_certificate(names[i], &texts[i], &keys[i]), 0);
        host.certificate = texts[i];
        host.key = keys[i];
        CHECK_EQ(coir_tls_server_add_host(pair.server, names[i], &host), 0);
    }
    const char *const asked[][2] = {
        {"a.example", "CN=a.example"},       {"A.EXAMPLE", "CN=a.example"},
        {"x.b.example", "CN=*.b.example"},   {"c.b.example", "CN=c.b.example"},
        {"y.x.b.example", "CN=example.org"}, {"b.example", "CN=example.org"},
        {"127.0.0.1", "CN=example.org"},     {"example.org", "CN=example.org"},
    };
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        pair.host = asked[i][0];
        CHECK(strcmp(met(&pair), asked[i][1]) == 0);
    }
    coir_tls_unref(coir_tls_ref(pair.server)); /* is still there */
    pair.host = "a.example";
    CHECK(strcmp(met(&pair), "CN=a.example") == 0);
    close_pair(&(struct pair){.client = pair.client, .server = pair.server});
    for (int i = 0; i < 3; i++) {
        free(texts[i]);
        free(keys[i]);
    }
}

TEST(a_host_is_a_servers)
{
    coir_tls *client = client_of((coir_tls_options)COIR_TLS_OPTIONS);
    coir_tls *server = server_of((coir_tls_options)COIR_TLS_OPTIONS);
    coir_tls_options options = COIR_TLS_OPTIONS;
    options.certificate = own_certificate;
    options.key = own_key;
    CHECK_EQ(coir_tls_server_add_host(client, "a.example", &options), -EINVAL);
    CHECK_EQ(coir_tls_server_add_host(server, NULL, &options), -EINVAL);
    CHECK_EQ(coir_tls_server_add_host(server, "", &options), -EINVAL);
    CHECK_EQ(coir_tls_server_add_host(NULL, "a.example", &options), -EINVAL);
    coir_tls_unref(client);
    coir_tls_unref(server);
    coir_tls_unref(NULL);
}

TEST_REAL(a_ticket_of_a_laxer_host_is_not_accepted)
{
    char *mine, *my_key;
    CHECK_EQ(coir_tls_make_certificate("client", &mine, &my_key), 0);
    coir_tls_options strict = COIR_TLS_OPTIONS, client = COIR_TLS_OPTIONS;
    make_once();
    strict.certificate = own_certificate;
    strict.key = own_key;
    strict.ca = mine;
    strict.client_certificates = COIR_TLS_REQUIRED_CLIENT_CERTIFICATES;
    client.insecure = COIR_TLS_INSECURE_NO_VERIFICATION;
    struct pair pair = {.client = client_of(client),
                        .server = server_of((coir_tls_options)COIR_TLS_OPTIONS),
                        .host = "lax.example"};
    CHECK_EQ(coir_tls_server_add_host(pair.server, "strict.example", &strict), 0);
    CHECK_EQ(coir_tls_server_add_host(pair.server, "STRICT.example", &strict), -EEXIST);
    char byte;
    connect_pair(&pair);
    CHECK_EQ(pair.server_rc, 0);
    CHECK_EQ(coir_write_all(pair.tls_b, "x", 1), 0);
    CHECK_EQ(coir_read(pair.tls_a, &byte, 1), 1); /* and the ticket */
    close_pair(&(struct pair){.tls_a = pair.tls_a, .tls_b = pair.tls_b});
    /* as a client that offers the ticket it has to another name of the server */
    pair.host = "strict.example";
    static const char destination[] = "strict.example "; /* session.c */
    struct ci_session *session = pair.client->sessions;
    CHECK(session);
    session = realloc(session, sizeof *session + sizeof destination);
    CHECK(session);
    strcpy(session->destination, destination);
    pair.client->sessions = session;
    connect_pair(&pair);
    CHECK_EQ(pair.client->session_count, 0); /* it was offered */
    CHECK_EQ(pair.server_rc, -COIR_ECERT);
    pair.tls_b = NULL;
    close_pair(&pair);
    free(mine);
    free(my_key);
}

/* What a server says to the client of the host example.org, whose default host has another list. */
static int ask_host(struct identity *ca, struct identity *peer, const char *default_crl,
                    const char *host_crl)
{
    make_once();
    coir_tls_options host = COIR_TLS_OPTIONS, client = COIR_TLS_OPTIONS;
    host.certificate = own_certificate;
    host.key = own_key;
    host.ca = ca->certificate_text;
    host.client_certificates = COIR_TLS_REQUIRED_CLIENT_CERTIFICATES;
    coir_tls_options other = host;
    other.crl = default_crl;
    host.crl = host_crl;
    client.certificate = peer->certificate_text;
    client.key = peer->key_text;
    struct pair pair = {.client = client_of(client), .server = server_of(other)};
    CHECK_EQ(coir_tls_server_add_host(pair.server, "example.org", &host), 0);
    connect_pair(&pair);
    close_pair(&pair);
    return pair.server_rc;
}

TEST_REAL(a_list_of_revoked_certificates_is_one_hosts)
{
    struct identity ca = pki_make((struct wish){.name = "ca", .ca = true});
    struct identity other = pki_make((struct wish){.name = "other", .ca = true});
    struct identity peer =
        pki_make((struct wish){.name = "peer", .purpose = "clientAuth", .issuer = &ca});
    char *foreign = pki_revoke(&other, NULL), *list = pki_revoke(&ca, &peer);
    CHECK_EQ(ask_host(&ca, &peer, NULL, NULL), 0);
    CHECK_EQ(ask_host(&ca, &peer, foreign, NULL), 0);
    CHECK_EQ(ask_host(&ca, &peer, list, NULL), 0);
    CHECK_EQ(ask_host(&ca, &peer, NULL, list), -COIR_ECERT_REVOKED);
    CHECK_EQ(ask_host(&ca, &peer, foreign, list), -COIR_ECERT_REVOKED);
    free(foreign);
    free(list);
    pki_free(&ca);
    pki_free(&other);
    pki_free(&peer);
}

static const char *asked_for(struct pair *pair, bool *ret_resumed)
{
    static char name[64];
    coir_tls_info info = COIR_TLS_INFO;
    connect_pair(pair);
    CHECK_EQ(pair->server_rc, 0);
    CHECK_EQ(coir_tls_describe(pair->tls_b, &info), 0);
    snprintf(name, sizeof name, "%s", info.server_name);
    *ret_resumed = info.resumed;
    char byte;
    CHECK_EQ(coir_write_all(pair->tls_b, "x", 1), 0);
    CHECK_EQ(coir_read(pair->tls_a, &byte, 1), 1); /* and the ticket has come */
    close_pair(&(struct pair){.tls_a = pair->tls_a, .tls_b = pair->tls_b});
    return name;
}

/* OpenSSL does not tell it where a session of TLS 1.2 is resumed. */
TEST_REAL(a_server_knows_the_name_that_was_asked_for_also_when_it_resumes)
{
    for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
        struct pair pair = {.client = client_of((coir_tls_options)COIR_TLS_OPTIONS),
                            .server = server_of((coir_tls_options)COIR_TLS_OPTIONS)};
        SSL_CTX_set_max_proto_version(pair.client->hosts->context, version);
        bool resumed;
        for (int i = 0; i < 3; i++) {
            CHECK(strcmp(asked_for(&pair, &resumed), "example.org") == 0);
            CHECK_EQ(resumed, i > 0);
        }
        close_pair(&(struct pair){.client = pair.client, .server = pair.server});
    }
}

/* RFC 6066, section 3: an address is no name. */
TEST_REAL(an_address_is_not_asked_for)
{
    coir_tls_options client = COIR_TLS_OPTIONS;
    client.insecure = COIR_TLS_INSECURE_NO_VERIFICATION;
    struct pair pair = {.client = client_of(client),
                        .server = server_of((coir_tls_options)COIR_TLS_OPTIONS)};
    const char *const hosts[][2] = {
        {"127.0.0.1", ""}, {"::1", ""}, {"127.0.0.1.example", "127.0.0.1.example"}};
    bool resumed;
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        pair.host = hosts[i][0];
        CHECK(strcmp(asked_for(&pair, &resumed), hosts[i][1]) == 0);
    }
    close_pair(&(struct pair){.client = pair.client, .server = pair.server});
}

TEST(a_name_that_no_client_asks_for_is_refused)
{
    coir_tls *server = server_of((coir_tls_options)COIR_TLS_OPTIONS);
    coir_tls_options options = COIR_TLS_OPTIONS;
    char longest[256];
    options.certificate = own_certificate;
    options.key = own_key;
    memset(longest, 'a', sizeof longest);
    longest[254] = '\0';
    const char *const wrong[] = {"*",  "*.",   "a.*.b", "*a.b", "**.b",
                                 ".a", "*..a", "a:443", longest};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_EQ(coir_tls_server_add_host(server, wrong[i], &options), -EINVAL);
    CHECK_EQ(coir_tls_server_add_host(server, longest + 1, &options), 0);
    CHECK_EQ(coir_tls_server_add_host(server, "*.a", &options), 0);
    CHECK_EQ(coir_tls_server_add_host(server, "under_score.a", &options), 0);
    coir_tls_unref(server);
}

/* ---- its limit of time ---- */

static void wait_for_a_client(coir_time of_default, coir_time of_host, bool asks,
                              coir_time expected)
{
    coir_tls_options server = COIR_TLS_OPTIONS, host = COIR_TLS_OPTIONS;
    unsigned char hello[4096];
    make_once();
    host.certificate = own_certificate;
    host.key = own_key;
    host.handshake_timeout = of_host;
    server.handshake_timeout = of_default;
    struct pair pair = {.server = server_of(server)};
    CHECK_EQ(coir_tls_server_add_host(pair.server, "example.org", &host), 0);
    CHECK_EQ(coir_duplex(0, &pair.a, &pair.b), 0);
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *ssl = SSL_new(context);
    BIO *out = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl, BIO_new(BIO_s_mem()), out);
    SSL_set_tlsext_host_name(ssl, "example.org");
    CHECK(SSL_connect(ssl) < 0);
    int len = BIO_read(out, hello, sizeof hello);
    CHECK(len > 100);
    coir_time begun = coir_now();
    if (asks)
        CHECK_EQ(coir_write_all(pair.a, hello, (size_t)len), 0);
    CHECK_EQ(coir_tls_accept(pair.server, pair.b, &pair.tls_b), -ETIMEDOUT);
    CHECK(coir_now() - begun >= expected && coir_now() - begun < 2 * expected);
    SSL_free(ssl);
    SSL_CTX_free(context);
    coir_close(pair.a);
    coir_close(pair.b);
    coir_tls_unref(pair.server);
}

TEST_SIM(the_time_for_a_handshake_is_the_hosts)
{
    wait_for_a_client(3 * COIR_S, COIR_S, true, COIR_S);
    wait_for_a_client(COIR_S, 3 * COIR_S, true, 3 * COIR_S);
    wait_for_a_client(3 * COIR_S, COIR_S, false, 3 * COIR_S);
}
