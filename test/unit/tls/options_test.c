/* What is refused when it is configured. */
#include <coir.h>
#include <coir/sim.h>
#include <coir/tls.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pair.h"
#include "pki.h"

TEST(what_cannot_be_used_is_refused_when_it_is_configured)
{
    make_once();
    char *other, *other_key;
    CHECK_EQ(coir_tls_make_certificate("127.0.0.1", &other, &other_key), 0);
    coir_tls_options options = COIR_TLS_OPTIONS;
    coir_tls *tls;
    CHECK_EQ(coir_tls_server_new(&options, &tls), -EINVAL);
    options.certificate = own_certificate;
    CHECK_EQ(coir_tls_server_new(&options, &tls), -EINVAL);
    options.key = other_key;
    CHECK_EQ(coir_tls_server_new(&options, &tls), -COIR_ETLS_KEY);
    options.key = "/nowhere/key.pem";
    CHECK_EQ(coir_tls_server_new(&options, &tls), -ENOENT);
    options.key = own_certificate;
    CHECK_EQ(coir_tls_server_new(&options, &tls), -COIR_ETLS_KEY);
    options.key = own_key;
    options.certificate = own_key;
    CHECK_EQ(coir_tls_server_new(&options, &tls), -COIR_ECERT);
    options.certificate = own_certificate;
    options.client_certificates = COIR_TLS_REQUIRED_CLIENT_CERTIFICATES;
    CHECK_EQ(coir_tls_server_new(&options, &tls), -EINVAL);
    options.client_certificates = COIR_TLS_NO_CLIENT_CERTIFICATES;
    options.insecure = COIR_TLS_INSECURE_NO_VERIFICATION;
    CHECK_EQ(coir_tls_server_new(&options, &tls), -EINVAL);
    options.insecure = 1;
    CHECK_EQ(coir_tls_client_new(&options, &tls), -EINVAL);
    options.insecure = 0;
    options.ca = own_certificate;
    options.client_certificates = (enum coir_tls_client_certificates)99;
    CHECK_EQ(coir_tls_server_new(&options, &tls), -EINVAL);
    free(other);
    free(other_key);
}

/* `first`, then all of `second` but its last 40 bytes. */
static const char *cut(const char *first, const char *second)
{
    static char text[16384];
    int len = snprintf(text, sizeof text, "%s%s", first, second);
    CHECK(len > 40 && len < (int)sizeof text);
    text[len - 40] = '\0';
    return text;
}

TEST(a_list_of_which_a_part_is_missing_is_refused)
{
    struct identity ca = pki_make((struct wish){.name = "ca", .ca = true});
    struct identity leaf = pki_make((struct wish){.name = "leaf", .issuer = &ca});
    char *before = pki_revoke(&ca, NULL), *now = pki_revoke(&ca, &leaf);
    coir_tls_options client = COIR_TLS_OPTIONS, server = COIR_TLS_OPTIONS;
    coir_tls *tls;
    client.ca = cut(ca.certificate_text, ca.certificate_text);
    CHECK_EQ(coir_tls_client_new(&client, &tls), -COIR_ECERT);
    client.ca = ca.certificate_text;
    client.crl = cut(before, now);
    CHECK_EQ(coir_tls_client_new(&client, &tls), -COIR_ECERT);
    server.certificate = cut(leaf.certificate_text, ca.certificate_text);
    server.key = leaf.key_text;
    CHECK_EQ(coir_tls_server_new(&server, &tls), -COIR_ECERT);
    client = (coir_tls_options)COIR_TLS_OPTIONS;
    client.ca = "/"; /* opens, but no read of it succeeds */
    CHECK_EQ(coir_tls_client_new(&client, &tls), -EIO);
    server.certificate = "/";
    CHECK_EQ(coir_tls_server_new(&server, &tls), -EIO);
    server.certificate = leaf.certificate_text;
    server.key = "/";
    CHECK_EQ(coir_tls_server_new(&server, &tls), -EIO);
    free(before);
    free(now);
    pki_free(&ca);
    pki_free(&leaf);
}
