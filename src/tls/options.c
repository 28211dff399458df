/* Makes an SSL_CTX of options and files. Everything wrong with them is found here, before any
 * connection. */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "tls/tls.h"

/* ---- options ---- */

static char *copy(const char *text, int *rc)
{
    char *own = text ? strdup(text) : NULL;
    if (text && !own)
        *rc = -ENOMEM;
    return own;
}

/* "h2,http/1.1" in the form of RFC 7301, section 3.1. */
static int read_alpn(struct ci_tls_settings *settings, const char *text)
{
    if (!text || !*text)
        return 0;
    size_t len = strlen(text);
    if (!(settings->alpn = malloc(len + 1)))
        return -ENOMEM;
    for (const char *name = text;;) {
        size_t n = strcspn(name, ",");
        if (n == 0 || n > 255)
            return -EINVAL;
        settings->alpn[settings->alpn_len++] = (unsigned char)n;
        memcpy(settings->alpn + settings->alpn_len, name, n);
        settings->alpn_len += (unsigned)n;
        if (!name[n])
            return 0;
        name += n + 1;
    }
}

int ci_tls_settings_read(struct ci_tls_settings *settings, const coir_tls_options *given,
                         bool server)
{
    coir_tls_options options = COIR_TLS_OPTIONS;
    *settings = (struct ci_tls_settings){.server = server};
    int rc = ci_options_read(&options, sizeof options, given);
    if (rc < 0)
        return rc;
    if (options.insecure && (server || options.insecure != COIR_TLS_INSECURE_NO_VERIFICATION))
        return -EINVAL;
    if ((server && !options.certificate) || !options.certificate != !options.key ||
        options.handshake_timeout < 0)
        return -EINVAL;
    if (options.client_certificates && (!server || !options.ca))
        return -EINVAL; /* no authority would be trusted */
    if (options.client_certificates < COIR_TLS_NO_CLIENT_CERTIFICATES ||
        options.client_certificates > COIR_TLS_REQUIRED_CLIENT_CERTIFICATES)
        return -EINVAL;
    settings->certificate = copy(options.certificate, &rc);
    settings->key = copy(options.key, &rc);
    settings->ca = copy(options.ca, &rc);
    settings->crl = copy(options.crl, &rc);
    settings->client_certificates = options.client_certificates;
    settings->insecure = options.insecure != 0;
    settings->handshake_timeout =
        options.handshake_timeout ? options.handshake_timeout : 10 * COIR_S;
    settings->verify = options.verify;
    settings->verify_arg = options.verify_arg;
    int alpn = read_alpn(settings, options.alpn);
    rc = rc < 0 ? rc : alpn;
    if (rc < 0)
        ci_tls_settings_free(settings);
    return rc;
}

void ci_tls_settings_free(struct ci_tls_settings *settings)
{
    if (settings->key)
        OPENSSL_cleanse(settings->key, strlen(settings->key));
    free(settings->certificate);
    free(settings->key);
    free(settings->ca);
    free(settings->crl);
    free(settings->alpn);
    *settings = (struct ci_tls_settings){0};
}

/* ---- files ---- */

static bool is_text(const char *source)
{
    return strncmp(source, "-----BEGIN", 10) == 0;
}

/* Opens a file, or PEM text in memory. 0 or a negative error. */
static int open_pem(const char *source, BIO **ret_bio)
{
    ERR_clear_error(); /* what is in the queue when a list has been read is its own */
    errno = 0;
    *ret_bio = is_text(source) ? BIO_new_mem_buf(source, -1) : BIO_new_file(source, "r");
    if (*ret_bio)
        return 0;
    return errno && !is_text(source) ? -errno : -ENOMEM;
}

/* OpenSSL takes a read that failed for the end of the file. */
static bool is_unreadable(BIO *bio)
{
    FILE *file = NULL;
    return BIO_method_type(bio) == BIO_TYPE_FILE && BIO_get_fp(bio, &file) == 1 && ferror(file);
}

/* Whether a list ends because there is no more of it. A list of which a part is missing is an
 * error: what it does not say, such as that a certificate is revoked, would not be known. */
static int check_end(BIO *bio)
{
    unsigned long error = ERR_peek_last_error();
    if (is_unreadable(bio))
        return -EIO;
    if (ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE)
        return -ENOMEM;
    return ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE
               ? 0
               : -COIR_ECERT;
}

/* A key with a password is refused: there is no terminal to ask for it. */
static int no_password(char *buf, int size, int writing, void *arg)
{
    (void)buf, (void)size, (void)writing, (void)arg;
    return -1;
}

/* The chain, the own certificate first. */
static int use_chain(SSL_CTX *context, const char *source)
{
    BIO *bio;
    int rc = open_pem(source, &bio);
    if (rc < 0)
        return rc;
    X509 *own = PEM_read_bio_X509_AUX(bio, NULL, no_password, NULL), *next;
    rc = own && SSL_CTX_use_certificate(context, own) == 1 ? 0 : ci_tls_error(-COIR_ECERT);
    if (!own && is_unreadable(bio))
        rc = -EIO;
    while (rc == 0 && (next = PEM_read_bio_X509(bio, NULL, no_password, NULL)))
        if (SSL_CTX_add0_chain_cert(context, next) != 1) {
            X509_free(next);
            rc = ci_tls_error(-COIR_ECERT);
        }
    if (rc == 0)
        rc = check_end(bio);
    X509_free(own);
    BIO_free(bio);
    return rc;
}

static int use_key(SSL_CTX *context, const char *source)
{
    BIO *bio;
    int rc = open_pem(source, &bio);
    if (rc < 0)
        return rc;
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL);
    rc = key && SSL_CTX_use_PrivateKey(context, key) == 1 && SSL_CTX_check_private_key(context) == 1
             ? 0
             : ci_tls_error(-COIR_ETLS_KEY);
    if (!key && is_unreadable(bio))
        rc = -EIO;
    EVP_PKEY_free(key);
    BIO_free(bio);
    return rc;
}

static int use_trusted(SSL_CTX *context, const char *source, bool server)
{
    BIO *bio;
    int rc = open_pem(source, &bio);
    if (rc < 0)
        return rc;
    X509_STORE *store = SSL_CTX_get_cert_store(context);
    X509 *ca;
    int found = 0;
    for (; (ca = PEM_read_bio_X509_AUX(bio, NULL, no_password, NULL)); found++) {
        bool ok = X509_STORE_add_cert(store, ca) == 1 &&
                  (!server || SSL_CTX_add_client_CA(context, ca) == 1);
        X509_free(ca);
        if (!ok)
            rc = ci_tls_error(-COIR_ECERT);
    }
    if (rc == 0)
        rc = check_end(bio);
    if (rc == 0 && !found)
        rc = -COIR_ECERT;
    BIO_free(bio);
    return rc;
}

static int use_revoked(SSL_CTX *context, const char *source)
{
    BIO *bio;
    int rc = open_pem(source, &bio);
    if (rc < 0)
        return rc;
    X509_STORE *store = SSL_CTX_get_cert_store(context);
    X509_CRL *crl;
    int found = 0;
    for (; (crl = PEM_read_bio_X509_CRL(bio, NULL, no_password, NULL)); found++) {
        if (X509_STORE_add_crl(store, crl) != 1)
            rc = ci_tls_error(-COIR_ECERT);
        X509_CRL_free(crl);
    }
    if (rc == 0)
        rc = check_end(bio);
    if (rc == 0 && !found)
        rc = -COIR_ECERT;
    BIO_free(bio);
    X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context),
                                X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
    return rc;
}

/* ---- the context ---- */

/* Sessions of hosts that trust differently must not be mixed: their identifier is a digest of all
 * that the trust depends on. */
static int set_session_identifier(SSL_CTX *context, const struct ci_tls_settings *settings,
                                  const char *name)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    bool ok = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) &&
              EVP_DigestUpdate(md, &settings->client_certificates,
                               sizeof settings->client_certificates) &&
              EVP_DigestUpdate(md, name ? name : "", name ? strlen(name) + 1 : 1);
    STACK_OF(X509_OBJECT) *trusted = X509_STORE_get0_objects(SSL_CTX_get_cert_store(context));
    for (int i = 0; ok && settings->client_certificates && i < sk_X509_OBJECT_num(trusted); i++) {
        X509_OBJECT *object = sk_X509_OBJECT_value(trusted, i);
        X509 *ca = X509_OBJECT_get0_X509(object);
        X509_CRL *crl = X509_OBJECT_get0_X509_CRL(object);
        unsigned char one[EVP_MAX_MD_SIZE];
        unsigned one_len = 0;
        ok = (!ca || X509_digest(ca, EVP_sha256(), one, &one_len)) &&
             (!crl || X509_CRL_digest(crl, EVP_sha256(), one, &one_len)) &&
             EVP_DigestUpdate(md, one, one_len);
    }
    ok = ok && EVP_DigestFinal_ex(md, digest, &len) &&
         SSL_CTX_set_session_id_context(context, digest, len) == 1;
    EVP_MD_CTX_free(md);
    return ok ? 0 : -ENOMEM;
}

static int select_alpn(SSL *ssl, const unsigned char **ret, unsigned char *ret_len,
                       const unsigned char *offered, unsigned offered_len, void *unused)
{
    (void)unused;
    const struct ci_tls_settings *settings = &ci_tls_stream_of(ssl)->config->settings;
    if (!settings->alpn_len)
        return SSL_TLSEXT_ERR_NOACK;
    unsigned char *chosen;
    if (SSL_select_next_proto(&chosen, ret_len, settings->alpn, settings->alpn_len, offered,
                              offered_len) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL; /* no_application_protocol: RFC 7301, section 3.2 */
    *ret = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static void set_up_server(SSL_CTX *context, const struct ci_tls_settings *settings)
{
    int verify = settings->client_certificates == COIR_TLS_REQUIRED_CLIENT_CERTIFICATES
                     ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT
                 : settings->client_certificates ? SSL_VERIFY_PEER
                                                 : SSL_VERIFY_NONE;
    SSL_CTX_set_verify(context, verify, NULL);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF); /* tickets only */
    ci_ticket_install(context);
    SSL_CTX_set_alpn_select_cb(context, select_alpn, NULL);
}

static int set_up_client(SSL_CTX *context, const struct ci_tls_settings *settings)
{
    /* with SSL_VERIFY_NONE OpenSSL ignores what the verification says, the program's too */
    bool verifies = !settings->insecure || settings->verify;
    SSL_CTX_set_verify(context, verifies ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context, ci_session_callback);
    if (settings->alpn_len &&
        SSL_CTX_set_alpn_protos(context, settings->alpn, settings->alpn_len) != 0)
        return -ENOMEM;
    return 0;
}

static int load(SSL_CTX *context, const struct ci_tls_settings *settings)
{
    int rc = 0;
    if (settings->certificate && (rc = use_chain(context, settings->certificate)) == 0)
        rc = use_key(context, settings->key);
    if (rc == 0 && settings->ca)
        rc = use_trusted(context, settings->ca, settings->server);
    else if (rc == 0 && !settings->server && SSL_CTX_set_default_verify_paths(context) != 1)
        rc = -ENOMEM;
    if (rc == 0 && settings->crl)
        rc = use_revoked(context, settings->crl);
    return rc;
}

int ci_tls_context_new(const struct ci_tls_settings *settings, const char *name, SSL_CTX **ret)
{
    ERR_clear_error();
    SSL_CTX *context = SSL_CTX_new(settings->server ? TLS_server_method() : TLS_client_method());
    if (!context)
        return -ENOMEM;
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                     SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(context, 1); /* a record's header and body by one read */
    SSL_CTX_set_default_passwd_cb(context, no_password);
    ci_verify_install(context);
    int rc = SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
                     SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1
                 ? 0
                 : -ENOMEM;
    if (rc == 0)
        rc = load(context, settings);
    if (rc == 0 && settings->server)
        set_up_server(context, settings);
    else if (rc == 0)
        rc = set_up_client(context, settings);
    if (rc == 0)
        rc = set_session_identifier(context, settings, name);
    ERR_clear_error();
    if (rc < 0)
        SSL_CTX_free(context);
    else
        *ret = context;
    return rc;
}
