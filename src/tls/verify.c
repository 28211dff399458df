/* The verdict about a peer's certificate. OpenSSL checks chain, times, purpose, host and revocation
 * (RFC 5280, RFC 6125); here its result becomes an error, which a callback of the program may
 * change.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#include "tls/tls.h"

static int error_of(long result)
{
    switch (result) {
    case X509_V_OK: return 0;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH: return -COIR_ECERT_HOST;
    case X509_V_ERR_CERT_HAS_EXPIRED: return -COIR_ECERT_EXPIRED;
    case X509_V_ERR_CERT_NOT_YET_VALID: return -COIR_ECERT_NOT_YET;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT: return -COIR_ECERT_SELF_SIGNED;
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_UNTRUSTED: return -COIR_ECERT_UNTRUSTED;
    case X509_V_ERR_INVALID_PURPOSE:
    case X509_V_ERR_CERT_REJECTED: return -COIR_ECERT_PURPOSE;
    case X509_V_ERR_CERT_REVOKED: return -COIR_ECERT_REVOKED;
    case X509_V_ERR_OUT_OF_MEM: return -ENOMEM;
    default: return -COIR_ECERT;
    }
}

static int ask_program(const struct ci_tls_stream *stream, const void *certificate, size_t len)
{
    const struct ci_tls_settings *settings = &stream->config->settings;
    int verdict =
        settings->verify(stream->verdict, stream->host, certificate, len, settings->verify_arg);
    if (verdict > 0 || verdict == -EAGAIN) /* -EAGAIN would be taken for a wait */
        return ci_misused(-EINVAL, "it returned neither 0 nor an error", "coir_tls_options.verify",
                          NULL);
    return verdict;
}

/* Called in place of X509_verify_cert: verifies the chain, then asks the program's callback. */
static int verify_chain(X509_STORE_CTX *store, void *unused)
{
    (void)unused;
    const SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct ci_tls_stream *stream = ci_tls_stream_of(ssl);
    const struct ci_tls_settings *settings = &stream->config->settings;
    int ok = X509_verify_cert(store);
    stream->verdict = ok > 0 ? 0 : ci_tls_error(error_of(X509_STORE_CTX_get_error(store)));
    if (ok <= 0 && stream->verdict == 0)
        stream->verdict = -COIR_ECERT;
    if (settings->insecure)
        stream->verdict = 0;
    if (settings->verify) {
        unsigned char *der = NULL;
        X509 *certificate = X509_STORE_CTX_get0_cert(store);
        int len = certificate ? i2d_X509(certificate, &der) : -1;
        stream->verdict = len < 0 ? -ENOMEM : ask_program(stream, der, (size_t)len);
        OPENSSL_free(der);
    }
    if (stream->verdict == 0)
        X509_STORE_CTX_set_error(store, X509_V_OK);
    else if (X509_STORE_CTX_get_error(store) == X509_V_OK)
        X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
    return stream->verdict == 0;
}

bool ci_tls_is_host_name(const char *host)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    size_t len = strspn(host, allowed);
    return *host && *host != '.' && !host[len] && len <= 253;
}

int ci_verify_expect_host(struct ci_tls_stream *stream)
{
    X509_VERIFY_PARAM *expected = SSL_get0_param(stream->ssl);
    unsigned char address[16];
    if (inet_pton(AF_INET, stream->host, address) == 1 ||
        inet_pton(AF_INET6, stream->host, address) == 1) /* without SNI: RFC 6066, section 3 */
        return X509_VERIFY_PARAM_set1_ip_asc(expected, stream->host) ? 0 : -ENOMEM;
    if (!ci_tls_is_host_name(stream->host))
        return -EINVAL;
    X509_VERIFY_PARAM_set_hostflags(expected, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                                                  X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    if (!X509_VERIFY_PARAM_set1_host(expected, stream->host, 0) ||
        !SSL_set_tlsext_host_name(stream->ssl, stream->host))
        return -ENOMEM;
    return 0;
}

void ci_verify_install(SSL_CTX *context)
{
    SSL_CTX_set_cert_verify_callback(context, verify_chain, NULL);
}
