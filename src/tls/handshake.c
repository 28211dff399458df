/* The handshake, as the client and as the server. It runs in the caller's fiber: OpenSSL works
 * until it wants bytes, then the fiber waits for the transport. The one step that takes
 * milliseconds, a server's signature with an RSA key, runs on a thread of the pool: OpenSSL pauses
 * when the ClientHello has come, and what it does next reads nothing and writes into memory. */
#include <errno.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>

#include "coir/deadline.h"
#include "coir/offload.h"
#include "coir/runtime.h"
#include "tls/tls.h"

static int stream_index = -1;
static pthread_once_t index_once = PTHREAD_ONCE_INIT;

static void make_index(void)
{
    stream_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
}

struct ci_tls_stream *ci_tls_stream_of(const SSL *ssl)
{
    return SSL_get_ex_data(ssl, stream_index);
}

/* ---- which host a client wants ---- */

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
    /* also takes over the identifier of sessions, as the SSL has that of its present context */
    bool ok = SSL_set_SSL_CTX(stream->ssl, context) != NULL;
    SSL_set_verify(stream->ssl, SSL_CTX_get_verify_mode(context), NULL);
    X509_VERIFY_PARAM_set1(SSL_get0_param(stream->ssl), SSL_CTX_get0_param(context));
    SSL_set_client_CA_list(stream->ssl, SSL_dup_CA_list(SSL_CTX_get_client_CA_list(context)));
    SSL_CTX_free(context);
    stream->config = host;
    return ok ? 0 : -ENOMEM;
}

/* Called when a ClientHello has come, before anything in it counts: sessions, versions and
 * certificates are those of the host that it names. */
int ci_client_hello_callback(SSL *ssl, int *alert, void *unused)
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
    if (use_host(stream, ci_tls_find_host(stream->tls, *name ? name : NULL)) < 0) {
        *alert = SSL_AD_INTERNAL_ERROR;
        return SSL_CLIENT_HELLO_ERROR;
    }
    EVP_PKEY *key = SSL_get_privatekey(ssl);
    stream->to_pool = key && EVP_PKEY_is_a(key, "RSA");
    return stream->to_pool ? SSL_CLIENT_HELLO_RETRY : SSL_CLIENT_HELLO_SUCCESS;
}

/* ---- the handshake ---- */

static int step(struct ci_tls_stream *stream)
{
    ci_tls_begin(stream);
    int rc = SSL_do_handshake(stream->ssl);
    int result = rc == 1 ? 1 : ci_tls_failure(stream, rc);
    ERR_clear_error();
    return result == 0 ? -COIR_ETLS : result; /* a close_notify ends no handshake */
}

static int step_on_pool(void *arg)
{
    return step(arg);
}

static int do_step(struct ci_tls_stream *stream)
{
    if (!stream->to_pool)
        return step(stream);
    stream->to_pool = false;
    stream->on_pool = true;
    int result = coir_offload(step_on_pool, stream);
    stream->on_pool = false;
    return result;
}

/* Sends everything that is kept. */
static int flush(struct ci_tls_stream *stream)
{
    int rc;
    while ((rc = ci_bio_flush(stream)) == -EAGAIN) {
        int events = coir_stream_wait(stream->transport, COIR_WRITE);
        if (events < 0)
            return events;
    }
    return rc;
}

static int shake_hands(struct ci_tls_stream *stream)
{
    for (;;) {
        int result = do_step(stream);
        if (result == 1)
            return 0; /* what is left to send is the filter's: the peer may read it later */
        int rc = flush(stream); /* also the alert that tells the peer why not */
        if (result != -EAGAIN)
            return result;
        if (rc < 0)
            return rc;
        if (stream->to_pool)
            continue;
        if ((rc = coir_stream_wait(stream->transport, COIR_READ)) < 0)
            return rc;
    }
}

static int shake_hands_in_time(struct ci_tls_stream *stream)
{
    coir_cancel_scope limit;
    coir_deadline_enter(&limit, coir_in(stream->config->settings.handshake_timeout));
    int rc = shake_hands(stream);
    coir_cancel_scope_leave(&limit);
    return rc == -ETIME && coir_deadline_passed(&limit) ? -ETIMEDOUT : rc;
}

/* ---- connections ---- */

static void warn_if_insecure(const struct ci_tls_stream *stream)
{
    if (stream->config->settings.insecure &&
        !__atomic_exchange_n(&stream->tls->warned, true, __ATOMIC_RELAXED))
        coir_log(COIR_LOG_WARNING,
                 "TLS to %s is not verified, as COIR_TLS_INSECURE_NO_VERIFICATION asks: whoever "
                 "is on the way can read and change it (logged once)",
                 stream->host);
}

static int prepare_client(struct ci_tls_stream *stream, const char *host)
{
    if (!(stream->host = strdup(host)))
        return -ENOMEM;
    SSL_SESSION *session = ci_session_take(stream->tls, host);
    if (session) {
        SSL_set_session(stream->ssl, session);
        SSL_SESSION_free(session);
    }
    SSL_set_connect_state(stream->ssl);
    warn_if_insecure(stream);
    return ci_verify_setup(stream);
}

/* Everything that a connection needs, before its first byte. */
static int prepare(struct ci_tls_stream *stream, const char *host)
{
    stream->config = ci_tls_find_host(stream->tls, NULL);
    SSL_CTX *context = ci_tls_host_context(stream->tls, stream->config);
    stream->ssl = SSL_new(context);
    SSL_CTX_free(context);
    BIO *bio = stream->ssl ? ci_bio_new(stream) : NULL;
    if (!bio)
        return -ENOMEM;
    SSL_set_bio(stream->ssl, bio, bio);
    if (!SSL_set_ex_data(stream->ssl, stream_index, stream))
        return -ENOMEM;
    if (host)
        return prepare_client(stream, host);
    SSL_set_accept_state(stream->ssl);
    return 0;
}

static int open_stream(coir_tls *tls, const char *host, coir_stream *transport,
                       coir_stream **ret_stream)
{
    int rc = coir_write_all(transport, "", 0); /* what every call on it would be refused for */
    if (rc < 0)
        return rc;
    pthread_once(&index_once, make_index);
    struct ci_tls_stream *stream = calloc(1, sizeof *stream);
    if (!stream || stream_index < 0) {
        free(stream);
        return -ENOMEM;
    }
    stream->tls = coir_tls_ref(tls);
    stream->transport = transport;
    rc = prepare(stream, host);
    ERR_clear_error();
    if (rc == 0)
        rc = shake_hands_in_time(stream);
    if (rc >= 0)
        rc = coir_filter_new(&ci_tls_filter, stream, transport, ret_stream);
    if (rc < 0)
        ci_tls_stream_free(stream);
    return rc;
}

int coir_tls_connect(coir_tls *client, const char *host, coir_stream *transport,
                     coir_stream **ret_stream)
{
    if (!client || client->server || !host || !*host || !transport || !ret_stream)
        return -EINVAL;
    return open_stream(client, host, transport, ret_stream);
}

int coir_tls_accept(coir_tls *server, coir_stream *transport, coir_stream **ret_stream)
{
    if (!server || !server->server || !transport || !ret_stream)
        return -EINVAL;
    return open_stream(server, NULL, transport, ret_stream);
}

int coir_tls_layer(coir_stream *transport, coir_stream **ret_stream, void *server)
{
    return coir_tls_accept(server, transport, ret_stream);
}
