/* Certificates that coir makes. */
#include <arpa/inet.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include "pair.h"

static X509 *read_certificate(const char *text)
{
    BIO *bio = BIO_new_mem_buf(text, -1);
    X509 *certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    BIO_free(bio);
    CHECK(certificate);
    return certificate;
}

TEST(a_certificate_is_for_its_name_alone)
{
    make_once();
    X509 *made = read_certificate(own_certificate);
    CHECK_EQ(X509_check_host(made, "example.org", 0, 0, NULL), 1);
    CHECK_EQ(X509_check_host(made, "www.example.org", 0, 0, NULL), 0);
    CHECK_EQ(X509_check_ip_asc(made, "127.0.0.1", 0), 0);
    CHECK_EQ(X509_check_ca(made), 0);
    CHECK_EQ(EVP_PKEY_get_bits(X509_get0_pubkey(made)), 256);
    CHECK(X509_cmp_current_time(X509_get0_notBefore(made)) < 0);
    time_t in_89_days = time(NULL) + 89L * 24 * 3600, in_91_days = time(NULL) + 91L * 24 * 3600;
    CHECK(X509_cmp_time(X509_get0_notAfter(made), &in_89_days) > 0);
    CHECK(X509_cmp_time(X509_get0_notAfter(made), &in_91_days) < 0);
    X509_free(made);
}

TEST(a_certificate_of_an_address_is_one)
{
    const char *addresses[] = {"127.0.0.1", "::1", "2001:db8::17"};
    for (int i = 0; i < 3; i++) {
        char *text, *its_key;
        CHECK_EQ(coir_tls_make_certificate(addresses[i], &text, &its_key), 0);
        X509 *made = read_certificate(text);
        CHECK_EQ(X509_check_ip_asc(made, addresses[i], 0), 1);
        CHECK_EQ(X509_check_host(made, addresses[i], 0, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL),
                 0);
        X509_free(made);
        free(text);
        free(its_key);
    }
}

TEST(two_certificates_differ)
{
    char *text, *its_key;
    make_once();
    CHECK_EQ(coir_tls_make_certificate("example.org", &text, &its_key), 0);
    CHECK(strcmp(text, own_certificate) != 0);
    CHECK(strcmp(its_key, own_key) != 0);
    free(text);
    free(its_key);
}

/* A name that would add another one to the certificate, or to its encoding. */
TEST(what_is_no_name_is_refused)
{
    char *text = NULL, *its_key = NULL, longer[66];
    memset(longer, 'a', 65);
    longer[65] = '\0';
    const char *wrong[] = {NULL,     "",     "a,DNS:b", "a:b", "a b",   "a\nb", "*",
                           "*.org*", longer, "a\\b",    "a#b", "1:2:3", "[::1]"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_EQ(coir_tls_make_certificate(wrong[i], &text, &its_key), -EINVAL);
    CHECK_EQ(coir_tls_make_certificate("a", NULL, &its_key), -EINVAL);
    CHECK_EQ(coir_tls_make_certificate("a", &text, NULL), -EINVAL);
    CHECK(!text && !its_key);
}
