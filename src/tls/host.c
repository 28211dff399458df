/* The hosts of a configuration: what each serves or trusts, as an SSL_CTX that a reload replaces,
 * and which of them a client's ClientHello asks for. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascii.h"
#include "tls/tls.h"

/* ---- by name ---- */

/* In "*.example.org" the star matches exactly one label. */
static bool matches(const char *pattern, const char *name)
{
    if (strncmp(pattern, "*.", 2) != 0)
        return ci_ascii_same(pattern, name);
    const char *dot = strchr(name, '.');
    return dot && dot != name && ci_ascii_same(pattern + 1, dot);
}

struct ci_tls_host *ci_tls_find_host(const coir_tls *tls, const char *name)
{
    struct ci_tls_host *wild = NULL, *host = tls->hosts;
    for (; host->name; host = host->next) {
        if (!name || !matches(host->name, name))
            continue;
        if (*host->name != '*')
            return host;
        if (!wild)
            wild = host;
    }
    return wild ? wild : host;
}

SSL_CTX *ci_tls_host_context(coir_tls *tls, struct ci_tls_host *host)
{
    pthread_mutex_lock(&tls->lock);
    SSL_CTX *context = host->context;
    SSL_CTX_up_ref(context);
    pthread_mutex_unlock(&tls->lock);
    return context;
}

/* ---- by ClientHello ---- */

/* The name in a ClientHello (RFC 6066, section 3): copied to `name`, which is "" without one.
 * False: the extension is malformed. */
static bool read_server_name(SSL *ssl, char name[256])
{
    const unsigned char *data;
    size_t len;
    *name = '\0';
    if (!SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &data, &len))
        return true;
    if (len < 5 || (size_t)(data[0] << 8 | data[1]) != len - 2 ||
        data[2] != TLSEXT_NAMETYPE_host_name)
        return false;
    size_t name_len = (size_t)(data[3] << 8 | data[4]);
    if (name_len == 0 || name_len > len - 5 || name_len > 255 || memchr(data + 5, 0, name_len))
        return false;
    memcpy(name, data + 5, name_len);
    name[name_len] = '\0';
    return true;
}

static int use_host(struct ci_tls_stream *stream, struct ci_tls_host *host)
{
    SSL_CTX *context = ci_tls_host_context(stream->tls, host);
    if (context == SSL_get_SSL_CTX(stream->ssl)) {
        SSL_CTX_free(context);
        return 0; /* the SSL was made for this host */
    }
    X509_VERIFY_PARAM *expected = SSL_get0_param(stream->ssl);
    const STACK_OF(X509_NAME) *trusted = SSL_CTX_get_client_CA_list(context);
    STACK_OF(X509_NAME) *names = SSL_dup_CA_list(trusted);
    X509_VERIFY_PARAM_clear_flags(expected, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
    bool ok = (names || !trusted) &&
              /* adds its flags */
              X509_VERIFY_PARAM_set1(expected, SSL_CTX_get0_param(context)) == 1 &&
              /* and the session identifier: the SSL still has that of its previous context */
              SSL_set_SSL_CTX(stream->ssl, context) != NULL;
    SSL_set_verify(stream->ssl, SSL_CTX_get_verify_mode(context), NULL);
    SSL_set_client_CA_list(stream->ssl, names);
    SSL_CTX_free(context);
    stream->config = host;
    return ok ? 0 : -ENOMEM;
}

/* Called after a ClientHello has arrived, before OpenSSL acts on it, so that session, version and
 * certificate are chosen by the configuration of the host that it names. */
static int choose_host(SSL *ssl, int *alert, void *unused)
{
    struct ci_tls_stream *stream = ci_tls_stream_of(ssl);
    char name[256];
    (void)unused;
    if (stream->on_pool)
        return SSL_CLIENT_HELLO_SUCCESS;
    if (!read_server_name(ssl, name)) {
        *alert = SSL_AD_DECODE_ERROR;
        return SSL_CLIENT_HELLO_ERROR;
    }
    free(stream->host); /* of a ClientHello before a HelloRetryRequest */
    stream->host = strdup(name);
    if (!stream->host || use_host(stream, ci_tls_find_host(stream->tls, *name ? name : NULL)) < 0) {
        *alert = SSL_AD_INTERNAL_ERROR;
        return SSL_CLIENT_HELLO_ERROR;
    }
    stream->to_pool = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)) != NULL;
    return stream->to_pool ? SSL_CLIENT_HELLO_RETRY : SSL_CLIENT_HELLO_SUCCESS;
}

/* ---- from options and files ---- */

/* The application data of a context whose key signs on the pool. */
static char on_pool;

static bool signs_for_long(const SSL_CTX *context)
{
    const EVP_PKEY *key = SSL_CTX_get0_privatekey(context);
    return key && (EVP_PKEY_is_a(key, "RSA") || EVP_PKEY_is_a(key, "RSA-PSS"));
}

int ci_tls_host_load(const struct ci_tls_host *host, SSL_CTX **ret_context)
{
    SSL_CTX *context;
    int rc = ci_tls_context_new(&host->settings, host->name, &context);
    if (rc < 0)
        return rc;
    if (host->settings.server)
        SSL_CTX_set_client_hello_cb(context, choose_host, NULL);
    if (signs_for_long(context) && SSL_CTX_set_app_data(context, &on_pool) != 1) {
        SSL_CTX_free(context);
        return -ENOMEM;
    }
    *ret_context = context;
    return 0;
}

void ci_tls_host_free(struct ci_tls_host *host)
{
    SSL_CTX_free(host->context);
    ci_tls_settings_free(&host->settings);
    free(host->name);
    free(host);
}

int ci_tls_host_new(const char *name, const coir_tls_options *options, bool server,
                    struct ci_tls_host **ret_host)
{
    struct ci_tls_host *host = calloc(1, sizeof *host);
    if (!host)
        return -ENOMEM;
    int rc = name && !(host->name = strdup(name)) ? -ENOMEM : 0;
    for (char *c = host->name; c && *c; c++)
        *c = ci_ascii_lower(*c);
    if (rc == 0)
        rc = ci_tls_settings_read(&host->settings, options, server);
    if (rc == 0)
        rc = ci_tls_host_load(host, &host->context);
    if (rc < 0)
        ci_tls_host_free(host);
    else
        *ret_host = host;
    return rc;
}
