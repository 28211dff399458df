/* Certificates that a client must refuse, each with an error that says why. */
#include <coir.h>
#include <coir/tls.h>
#include <errno.h>

#include "pair.h"
#include "pki.h"
#include "said.h"
#include "sys/misuse.h"

struct ends {
    coir_tls *server;
    coir_stream *transport;
    int rc;
};

static int be_server(void *arg)
{
    struct ends *ends = arg;
    coir_stream *conn = NULL;
    ends->rc = coir_tls_accept(ends->server, ends->transport, &conn);
    coir_close(ends->rc == 0 ? conn : ends->transport);
    return 0;
}

/* What a client that trusts `ca` says of a server with this certificate. */
static int meet_with(const char *ca, const char *crl, const char *certificate, const char *key,
                     const char *host)
{
    coir_tls_options client_options = COIR_TLS_OPTIONS, server_options = COIR_TLS_OPTIONS;
    client_options.ca = ca;
    client_options.crl = crl;
    server_options.certificate = certificate;
    server_options.key = key;
    coir_tls *client;
    struct ends ends = {0};
    coir_stream *transport, *conn = NULL;
    CHECK_EQ(coir_tls_client_new(&client_options, &client), 0);
    CHECK_EQ(coir_tls_server_new(&server_options, &ends.server), 0);
    CHECK_EQ(coir_duplex(0, &transport, &ends.transport), 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, be_server, &ends), 0);
    int rc = coir_tls_connect(client, host, transport, &conn);
    coir_close(rc == 0 ? conn : transport);
    coir_scope_wait(scope);
    if (rc < 0)
        CHECK(ends.rc < 0);
    coir_tls_unref(client);
    coir_tls_unref(ends.server);
    return rc;
}

static struct identity root, other_root;

static int meet(struct wish wish, const char *host)
{
    if (!wish.name)
        wish.name = "server";
    struct identity server = pki_make(wish);
    int rc = meet_with(root.certificate_text, NULL, server.certificate_text, server.key_text, host);
    pki_free(&server);
    return rc;
}

static void make_roots(void)
{
    root = pki_make((struct wish){.name = "root", .ca = true});
    other_root = pki_make((struct wish){.name = "other root", .ca = true});
}

#define ISSUED_BY(its_issuer, ...)                                    \
    (struct wish)                                                     \
    {                                                                 \
        .issuer = its_issuer, .names = "DNS:example.org", __VA_ARGS__ \
    }
#define ISSUED(...) ISSUED_BY(&root, __VA_ARGS__)

TEST_REAL(names_are_compared_as_rfc_6125_says)
{
    make_roots();
    CHECK_EQ(meet(ISSUED(.ca = false), "example.org"), 0);
    CHECK_EQ(meet(ISSUED(.rsa = true), "example.org"), 0);
    CHECK_EQ(meet(ISSUED(.ca = false), "example.com"), -COIR_ECERT_HOST);
    CHECK_EQ(meet(ISSUED(.ca = false), "sub.example.org"), -COIR_ECERT_HOST);
    CHECK_EQ(meet((struct wish){.issuer = &root, .names = "DNS:*.example.org"}, "www.example.org"),
             0);
    CHECK_EQ(meet((struct wish){.issuer = &root, .names = "DNS:*.example.org"}, "a.b.example.org"),
             -COIR_ECERT_HOST);
    CHECK_EQ(meet((struct wish){.issuer = &root, .names = "DNS:*.example.org"}, "example.org"),
             -COIR_ECERT_HOST);
    CHECK_EQ(meet((struct wish){.issuer = &root, .names = "DNS:w*.example.org"}, "www.example.org"),
             -COIR_ECERT_HOST);
    CHECK_EQ(meet((struct wish){.issuer = &root, .names = "DNS:www.*.org"}, "www.example.org"),
             -COIR_ECERT_HOST);
    CHECK_EQ(meet((struct wish){.issuer = &root, .names = "DNS:*"}, "example"), -COIR_ECERT_HOST);
    /* a common name is not a host name */
    CHECK_EQ(meet((struct wish){.issuer = &root, .name = "example.org"}, "example.org"),
             -COIR_ECERT_HOST);
}

TEST_REAL(what_is_no_host_name_is_refused)
{
    make_roots();
    static const char *const hosts[] = {".example.org", ".org",           ".",     "*.example.org",
                                        "example.org/", "example.org:80", "[::1]", "exämple.org"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        CHECK_EQ(meet((struct wish){.issuer = &root, .names = "DNS:evil.example.org"}, hosts[i]),
                 -EINVAL);
    CHECK_EQ(meet((struct wish){.issuer = &root, .names = "DNS:a_1-b.example"}, "a_1-b.example"),
             0);
}

/* A certificate for "example.org", NUL, ".evil.example": an authority that looks at the end of the
 * name signs it, and a client that looks at the beginning would take it. */
TEST_REAL(a_name_with_a_nul_in_it_is_no_name)
{
    static const char name[] = "example.org\0.evil.example";
    make_roots();
    struct identity server = pki_make((struct wish){.issuer = &root, .name = "server"});
    GENERAL_NAMES *names = GENERAL_NAMES_new();
    GENERAL_NAME *one = GENERAL_NAME_new();
    ASN1_IA5STRING *text = ASN1_IA5STRING_new();
    ASN1_STRING_set(text, name, sizeof name - 1);
    GENERAL_NAME_set0_value(one, GEN_DNS, text);
    sk_GENERAL_NAME_push(names, one);
    CHECK_EQ(X509_add1_ext_i2d(server.certificate, NID_subject_alt_name, names, 0, 0), 1);
    CHECK(X509_sign(server.certificate, root.key, EVP_sha256()) > 0);
    free(server.certificate_text);
    BIO *bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(bio, server.certificate);
    server.certificate_text = pki_text(bio);
    GENERAL_NAMES_free(names);
    CHECK_EQ(meet_with(root.certificate_text, NULL, server.certificate_text, server.key_text,
                       "example.org"),
             -COIR_ECERT_HOST);
    pki_free(&server);
}

TEST_REAL(addresses_are_compared_with_addresses)
{
    make_roots();
    CHECK_EQ(meet((struct wish){.issuer = &root, .names = "IP:127.0.0.1"}, "127.0.0.1"), 0);
    CHECK_EQ(meet((struct wish){.issuer = &root, .names = "IP:::1"}, "::1"), 0);
    CHECK_EQ(meet((struct wish){.issuer = &root, .names = "DNS:127.0.0.1"}, "127.0.0.1"),
             -COIR_ECERT_HOST);
    CHECK_EQ(meet((struct wish){.issuer = &root, .names = "IP:127.0.0.2"}, "127.0.0.1"),
             -COIR_ECERT_HOST);
    CHECK_EQ(meet((struct wish){.issuer = &root, .names = "IP:127.0.0.1"}, "example.org"),
             -COIR_ECERT_HOST);
}

TEST_REAL(times_purpose_and_issuer_are_checked)
{
    make_roots();
    CHECK_EQ(meet(ISSUED(.from = -7200, .until = -3600), "example.org"), -COIR_ECERT_EXPIRED);
    CHECK_EQ(meet(ISSUED(.from = 3600, .until = 7200), "example.org"), -COIR_ECERT_NOT_YET);
    CHECK_EQ(meet(ISSUED(.purpose = "clientAuth"), "example.org"), -COIR_ECERT_PURPOSE);
    CHECK_EQ(meet(ISSUED_BY(&other_root, .ca = false), "example.org"), -COIR_ECERT_UNTRUSTED);
    CHECK_EQ(meet(ISSUED_BY(NULL, .ca = false), "example.org"), -COIR_ECERT_SELF_SIGNED);
    struct identity leaf = pki_make(ISSUED(.name = "leaf"));
    CHECK(meet(ISSUED_BY(&leaf, .ca = false), "example.org") < 0); /* a leaf must not sign */
    pki_free(&leaf);
}

TEST_REAL(a_chain_is_sent_and_followed)
{
    make_roots();
    struct identity middle = pki_make((struct wish){.name = "middle", .ca = true, .issuer = &root});
    struct identity server = pki_make(ISSUED_BY(&middle, .name = "server"));
    char *chain;
    CHECK(asprintf(&chain, "%s%s", server.certificate_text, middle.certificate_text) > 0);
    CHECK_EQ(meet_with(root.certificate_text, NULL, chain, server.key_text, "example.org"), 0);
    CHECK_EQ(meet_with(root.certificate_text, NULL, server.certificate_text, server.key_text,
                       "example.org"),
             -COIR_ECERT_UNTRUSTED);
    free(chain);
    pki_free(&middle);
    pki_free(&server);
}

TEST_REAL(what_was_revoked_is_refused_where_a_list_is_given)
{
    make_roots();
    struct identity good = pki_make(ISSUED(.name = "good")), bad = pki_make(ISSUED(.name = "bad"));
    char *list = pki_revoke(&root, &bad), *foreign = pki_revoke(&other_root, NULL);
    CHECK_EQ(
        meet_with(root.certificate_text, list, good.certificate_text, good.key_text, "example.org"),
        0);
    CHECK_EQ(
        meet_with(root.certificate_text, list, bad.certificate_text, bad.key_text, "example.org"),
        -COIR_ECERT_REVOKED);
    CHECK_EQ(
        meet_with(root.certificate_text, NULL, bad.certificate_text, bad.key_text, "example.org"),
        0);
    /* the issuer has no list: it is unknown whether the certificate is revoked */
    CHECK_EQ(meet_with(root.certificate_text, foreign, good.certificate_text, good.key_text,
                       "example.org"),
             -COIR_ECERT);
    free(list);
    free(foreign);
    pki_free(&good);
    pki_free(&bad);
}

TEST_REAL(the_systems_store_does_not_know_our_root)
{
    make_roots();
    struct identity server = pki_make(ISSUED(.name = "server"));
    CHECK_EQ(meet_with(NULL, NULL, server.certificate_text, server.key_text, "example.org"),
             -COIR_ECERT_UNTRUSTED);
    pki_free(&server);
}

static int overrule(int verdict, const char *host, const void *der, size_t len, void *arg)
{
    CHECK(der && len > 100);
    CHECK(strcmp(host, "example.org") == 0);
    *(int *)arg = verdict;
    return verdict == -COIR_ECERT_SELF_SIGNED ? 0 : -EACCES;
}

TEST_REAL(the_program_may_have_the_last_word)
{
    coir_tls_options plain = COIR_TLS_OPTIONS, hooked = COIR_TLS_OPTIONS;
    char *foreign, *foreign_key;
    int verdict = 1;
    CHECK_EQ(coir_tls_make_certificate("example.org", &foreign, &foreign_key), 0);
    hooked.ca = foreign;
    hooked.verify = overrule;
    hooked.verify_arg = &verdict;
    CHECK_EQ(connect_with(plain, hooked, "example.org", NULL), 0);
    CHECK_EQ(verdict, -COIR_ECERT_SELF_SIGNED);
    hooked.ca = own_certificate;
    CHECK_EQ(connect_with(plain, hooked, "example.org", NULL), -EACCES);
    free(foreign);
    free(foreign_key);
}

static int pin(int verdict, const char *host, const void *der, size_t len, void *arg)
{
    CHECK_EQ(verdict, 0);
    CHECK(strcmp(host, "example.org") == 0 && der && len > 100);
    return *(int *)arg;
}

TEST_REAL(the_program_alone_may_verify)
{
    coir_tls_options server = COIR_TLS_OPTIONS, client = COIR_TLS_OPTIONS;
    int answer = -COIR_ECERT, server_rc;
    client.insecure = COIR_TLS_INSECURE_NO_VERIFICATION;
    client.verify = pin;
    client.verify_arg = &answer;
    CHECK_EQ(connect_with(server, client, NULL, &server_rc), -COIR_ECERT);
    CHECK(server_rc < 0);
    answer = 0;
    struct pair pair = {.client = client_of(client), .server = server_of(server)};
    coir_tls_info info = COIR_TLS_INFO;
    connect_pair(&pair);
    CHECK_EQ(pair.client_rc, 0);
    CHECK_EQ(coir_tls_describe(pair.tls_a, &info), 0);
    CHECK(!info.verified);
    close_pair(&pair);
}

/* ---- answers that are none ---- */

static int answer_with_number(int verdict, const char *host, const void *certificate, size_t len,
                              void *arg)
{
    (void)verdict, (void)host, (void)certificate, (void)len;
    return *(int *)arg;
}

static int answer_wrongly(void *arg)
{
    static const int numbers[] = {1, -EAGAIN};
    (void)arg;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        coir_tls_options client = COIR_TLS_OPTIONS, server = COIR_TLS_OPTIONS;
        client.verify = answer_with_number;
        client.verify_arg = (void *)(uintptr_t)&numbers[i];
        CHECK_EQ(connect_with(server, client, NULL, NULL), -EINVAL);
        if (i == 0) /* the next is not said again */
            expect_named("coir_tls_options.verify");
    }
    return 0;
}

TEST(what_the_program_answers_is_0_or_an_error)
{
    ci_misuse_aborts = false;
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.log = take_line;
    CHECK_EQ(test_run(&config, answer_wrongly, NULL), 0);
}
