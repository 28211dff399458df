/* The hosts of a server: which of them a client gets by the name that it asks for. */
#include <coir.h>
#include <coir/tls.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pair.h"
#include "pki.h"

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
        {"a.example", "/CN=a.example"},       {"A.EXAMPLE", "/CN=a.example"},
        {"x.b.example", "/CN=*.b.example"},   {"c.b.example", "/CN=c.b.example"},
        {"y.x.b.example", "/CN=example.org"}, {"b.example", "/CN=example.org"},
        {"127.0.0.1", "/CN=example.org"},     {"example.org", "/CN=example.org"},
    };
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        pair.host = asked[i][0];
        CHECK(strcmp(met(&pair), asked[i][1]) == 0);
    }
    coir_tls_unref(coir_tls_ref(pair.server)); /* is still there */
    pair.host = "a.example";
    CHECK(strcmp(met(&pair), "/CN=a.example") == 0);
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
    connect_pair(&pair);
    CHECK_EQ(pair.server_rc, 0);
    close_pair(&(struct pair){.tls_a = pair.tls_a, .tls_b = pair.tls_b});
    /* the client offers the ticket it has to another name of the server */
    pair.host = "strict.example";
    connect_pair(&pair);
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
