/* Certificates of every kind, for tests of their verification. */
#ifndef TEST_UNIT_TLS_PKI_H
#define TEST_UNIT_TLS_PKI_H

#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

struct identity {
    X509 *certificate;
    EVP_PKEY *key;
    char *certificate_text, *key_text; /* PEM */
};

struct wish {
    const char *name;        /* the subject's common name */
    const char *domain;      /* [none] and what stands before that */
    const char *names;       /* subjectAltName: "DNS:example.org"; NULL: none */
    const char *purpose;     /* [serverAuth] extendedKeyUsage */
    long from, until;        /* [an hour ago, in an hour] seconds from now */
    bool ca;                 /* may sign others */
    bool rsa, pss;           /* an RSA or an RSA-PSS key of 2048 bits instead of P-256 */
    struct identity *issuer; /* [itself] */
};

static inline void pki_add(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    CHECK(extension && X509_add_ext(certificate, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

static inline char *pki_text(BIO *bio)
{
    char *data;
    long len = BIO_get_mem_data(bio, &data);
    char *text = strndup(data, (size_t)len);
    BIO_free(bio);
    return text;
}

static inline EVP_PKEY *pki_pss_key(void)
{
    EVP_PKEY *key = NULL;
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "RSA-PSS", NULL);
    CHECK_EQ(EVP_PKEY_keygen_init(context), 1);
    CHECK_EQ(EVP_PKEY_CTX_set_rsa_keygen_bits(context, 2048), 1);
    CHECK_EQ(EVP_PKEY_generate(context, &key), 1);
    EVP_PKEY_CTX_free(context);
    return key;
}

static inline struct identity pki_make(struct wish wish)
{
    static long serial = 1;
    struct identity made = {.certificate = X509_new(),
                            .key = wish.rsa   ? EVP_RSA_gen(2048)
                                   : wish.pss ? pki_pss_key()
                                              : EVP_EC_gen("P-256")};
    X509 *issuer = wish.issuer ? wish.issuer->certificate : made.certificate;
    CHECK(made.certificate && made.key);
    X509_set_version(made.certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(made.certificate), serial++);
    X509_gmtime_adj(X509_getm_notBefore(made.certificate), wish.from ? wish.from : -3600);
    X509_gmtime_adj(X509_getm_notAfter(made.certificate), wish.until ? wish.until : 3600);
    if (wish.domain)
        CHECK_EQ(X509_NAME_add_entry_by_NID(X509_get_subject_name(made.certificate),
                                            NID_domainComponent, MBSTRING_ASC,
                                            (const unsigned char *)wish.domain, -1, -1, 0),
                 1);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(made.certificate), "CN", MBSTRING_UTF8,
                               (const unsigned char *)wish.name, -1, -1, 0);
    X509_set_issuer_name(made.certificate, X509_get_subject_name(issuer));
    X509_set_pubkey(made.certificate, made.key);
    pki_add(made.certificate, issuer, NID_basic_constraints,
            wish.ca ? "critical,CA:TRUE" : "critical,CA:FALSE");
    pki_add(made.certificate, issuer, NID_key_usage,
            wish.ca ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature");
    if (!wish.ca)
        pki_add(made.certificate, issuer, NID_ext_key_usage,
                wish.purpose ? wish.purpose : "serverAuth");
    if (wish.names)
        pki_add(made.certificate, issuer, NID_subject_alt_name, wish.names);
    CHECK(X509_sign(made.certificate, wish.issuer ? wish.issuer->key : made.key, EVP_sha256()) > 0);
    BIO *bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(bio, made.certificate);
    made.certificate_text = pki_text(bio);
    bio = BIO_new(BIO_s_mem());
    PEM_write_bio_PrivateKey(bio, made.key, NULL, NULL, 0, NULL, NULL);
    made.key_text = pki_text(bio);
    return made;
}

static inline void pki_free(struct identity *identity)
{
    X509_free(identity->certificate);
    EVP_PKEY_free(identity->key);
    free(identity->certificate_text);
    free(identity->key_text);
}

/* A list of the issuer's in which `revoked` (NULL: nothing) stands. */
static inline char *pki_revoke(struct identity *issuer, struct identity *revoked)
{
    X509_CRL *crl = X509_CRL_new();
    ASN1_TIME *now = X509_gmtime_adj(NULL, -60), *later = X509_gmtime_adj(NULL, 3600);
    X509_CRL_set_version(crl, 1);
    X509_CRL_set_issuer_name(crl, X509_get_subject_name(issuer->certificate));
    X509_CRL_set1_lastUpdate(crl, now);
    X509_CRL_set1_nextUpdate(crl, later);
    if (revoked) {
        X509_REVOKED *entry = X509_REVOKED_new();
        X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(revoked->certificate));
        X509_REVOKED_set_revocationDate(entry, now);
        X509_CRL_add0_revoked(crl, entry);
    }
    X509_CRL_sort(crl);
    CHECK(X509_CRL_sign(crl, issuer->key, EVP_sha256()) > 0);
    BIO *bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509_CRL(bio, crl);
    ASN1_TIME_free(now);
    ASN1_TIME_free(later);
    X509_CRL_free(crl);
    return pki_text(bio);
}

#endif
