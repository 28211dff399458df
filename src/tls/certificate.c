/* A certificate that signs itself, for tests and for trying out. */
#include <arpa/inet.h>
#include <errno.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coir/tls.h"
#include "sys/misuse.h"

static const long valid_for = 90L * 24 * 3600;

static bool add_extension(X509 *certificate, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, certificate, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    bool ok = extension && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return ok;
}

static bool is_address(const char *host)
{
    unsigned char address[16];
    return inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
}

/* An IP address, or a host name, which may begin with "*.": at most 64 letters, digits, hyphens,
 * underscores and dots. 64 is the longest common name; other characters have a meaning in OpenSSL's
 * syntax of extensions. */
static bool is_name(const char *host)
{
    if (is_address(host))
        return true;
    const char *rest = strncmp(host, "*.", 2) == 0 ? host + 2 : host;
    size_t len = strspn(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");
    return len > 0 && !rest[len] && strlen(host) <= 64;
}

static bool name_it(X509 *certificate, const char *host)
{
    bool ip = is_address(host);
    char names[300];
    snprintf(names, sizeof names, "%s:%s", ip ? "IP" : "DNS", host);
    X509_NAME *subject = X509_get_subject_name(certificate);
    return X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const unsigned char *)host, -1,
                                      -1, 0) == 1 &&
           X509_set_issuer_name(certificate, subject) == 1 &&
           add_extension(certificate, NID_basic_constraints, "critical,CA:FALSE") &&
           add_extension(certificate, NID_key_usage, "critical,digitalSignature") &&
           add_extension(certificate, NID_ext_key_usage, "serverAuth,clientAuth") &&
           add_extension(certificate, NID_subject_alt_name, names);
}

static X509 *make(const char *host, EVP_PKEY *key)
{
    X509 *certificate = X509_new();
    uint64_t serial;
    if (certificate && RAND_bytes((unsigned char *)&serial, sizeof serial) == 1 &&
        X509_set_version(certificate, 2) == 1 &&
        ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial >> 1) == 1 &&
        X509_gmtime_adj(X509_getm_notBefore(certificate), -3600) &&
        X509_gmtime_adj(X509_getm_notAfter(certificate), valid_for) &&
        X509_set_pubkey(certificate, key) == 1 && name_it(certificate, host) &&
        X509_sign(certificate, key, EVP_sha256()) > 0)
        return certificate;
    X509_free(certificate);
    return NULL;
}

static char *text_of(BIO *bio)
{
    char *data;
    long len = bio ? BIO_get_mem_data(bio, &data) : 0;
    return len > 0 ? strndup(data, (size_t)len) : NULL;
}

int coir_tls_make_certificate(const char *host, char **ret_certificate, char **ret_key)
{
    if (!host || !ret_certificate || !ret_key)
        return CI_MISUSE(-EINVAL, "host, ret_certificate or ret_key is NULL");
    if (!is_name(host))
        return -EINVAL;
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = key ? make(host, key) : NULL;
    BIO *public = BIO_new(BIO_s_mem()), *private = BIO_new(BIO_s_mem());
    char *certificate_text = NULL, *key_text = NULL;
    if (certificate && public && private && PEM_write_bio_X509(public, certificate) == 1 &&
        PEM_write_bio_PrivateKey(private, key, NULL, NULL, 0, NULL, NULL) == 1) {
        certificate_text = text_of(public);
        key_text = text_of(private);
    }
    BIO_free(public);
    BIO_free(private);
    X509_free(certificate);
    EVP_PKEY_free(key);
    if (!certificate_text || !key_text) {
        free(certificate_text);
        free(key_text);
        return -ENOMEM;
    }
    *ret_certificate = certificate_text;
    *ret_key = key_text;
    return 0;
}
