/* The filter: reads and writes of a stream by SSL_read and SSL_write, which never wait here.
 *
 * OpenSSL's queue of errors belongs to the thread, so it is emptied before each call and read right
 * after it; nothing suspends in between. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "tls/tls.h"

/* Reading stops while more than this is unsent, such as answers to KeyUpdate: a peer that does not
 * read cannot make the buffer grow. */
enum { UNSENT_MOST = 64 * 1024 };

/* ---- what has failed ---- */

/* Reasons above are OpenSSL's common ones, such as that memory is out. */
static bool is_alert_of_peer(int reason)
{
    return reason >= SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256;
}

static int protocol_failure(const struct ci_tls_stream *stream)
{
    unsigned long error = ERR_peek_error();
    int reason = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
    if (stream->verdict < 0)
        return stream->verdict;
    if (reason == SSL_R_UNEXPECTED_EOF_WHILE_READING)
        return -COIR_ETLS_TRUNCATED;
    if (is_alert_of_peer(reason))
        return -COIR_ETLS_REFUSED;
    if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
        return -COIR_ECERT;
    return ci_tls_error(-COIR_ETLS);
}

void ci_tls_begin(struct ci_tls_stream *stream)
{
    ci_tls_clear_errors();
    stream->taken = 0;
}

int ci_tls_failure(struct ci_tls_stream *stream, int rc)
{
    int why = SSL_get_error(stream->ssl, rc);
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_CLIENT_HELLO_CB)
        return -EAGAIN;
    if (why == SSL_ERROR_ZERO_RETURN)
        return 0;
    if (stream->transport_ended && stream->verdict == 0)
        stream->error = -COIR_ETLS_TRUNCATED; /* also if writing the alert about it failed */
    else if (stream->read_error)
        stream->error = stream->read_error;
    else
        stream->error = protocol_failure(stream);
    ci_tls_clear_errors(); /* the program may use OpenSSL on this thread, too */
    return stream->error;
}

/* ---- OpenSSL's buffers ---- */

/* Frees the buffers (17 KB each way) where nothing is in them: the next record makes them anew.
 * OpenSSL before 3.0.14 frees also what holds the header of a record whose body is awaited, "RB"
 * (CVE-2024-4741). */
static void free_buffers(struct ci_tls_stream *stream)
{
    if (!SSL_has_pending(stream->ssl) && strcmp(SSL_rstate_string(stream->ssl), "RB") != 0)
        SSL_free_buffers(stream->ssl);
}

/* After a record, of which the program has had or given `len` bytes: behind a full one there is
 * probably another, and the buffers are kept for it. */
static void settle(struct ci_tls_stream *stream, size_t len)
{
    if (len < SSL3_RT_MAX_PLAIN_LENGTH)
        free_buffers(stream);
}

/* ---- the filter ---- */

static ssize_t tls_read(void *buf, size_t len, int *events, void *arg)
{
    struct ci_tls_stream *stream = arg;
    size_t n;
    if (stream->error)
        return stream->error;
    if (stream->out_len > UNSENT_MOST) {
        *events = COIR_WRITE;
        return -EAGAIN;
    }
    ci_tls_begin(stream);
    int rc = SSL_read_ex(stream->ssl, buf, len, &n);
    if (rc == 1) {
        stream->messages = 0;
        settle(stream, n);
        return (ssize_t)n;
    }
    int error = ci_tls_failure(stream, rc);
    if (error == -EAGAIN)
        free_buffers(stream);
    return error;
}

static ssize_t tls_write(const void *buf, size_t len, int *events, void *arg)
{
    struct ci_tls_stream *stream = arg;
    size_t done = 0, n;
    if (stream->error)
        return stream->error;
    if (stream->write_error)
        return stream->write_error;
    if (stream->ending)
        return -EPIPE;
    ci_tls_begin(stream);
    do { /* a record at a time, as long as the transport takes them whole */
        int rc = SSL_write_ex(stream->ssl, (const char *)buf + done, len - done, &n);
        if (rc != 1) {
            int error = ci_tls_failure(stream, rc);
            if (error == -EAGAIN)
                *events = COIR_READ; /* the rest of a handshake message */
            return done ? (ssize_t)done : error == 0 ? -EPIPE : error;
        }
        done += n;
        stream->messages = 0;
    } while (done < len && !stream->out_len && !stream->write_error);
    settle(stream, n);
    return stream->write_error ? stream->write_error : (ssize_t)done;
}

/* Sends close_notify, as soon as OpenSSL can: while a handshake message is incomplete it cannot. */
static int send_end(struct ci_tls_stream *stream)
{
    if (stream->error || SSL_in_init(stream->ssl) ||
        SSL_get_shutdown(stream->ssl) & SSL_SENT_SHUTDOWN)
        return stream->error;
    ci_tls_clear_errors();
    int rc = SSL_shutdown(stream->ssl); /* 0: the peer's is still to come */
    if (rc < 0)
        ci_tls_failure(stream, rc);
    ci_tls_clear_errors();
    return stream->error;
}

static int tls_flush(void *arg)
{
    struct ci_tls_stream *stream = arg;
    if (stream->ending)
        send_end(stream);
    return ci_bio_flush(stream);
}

static bool tls_readable(int *events, void *arg)
{
    struct ci_tls_stream *stream = arg;
    char one;
    size_t n;
    if (stream->error || SSL_pending(stream->ssl) > 0)
        return true;
    if (stream->out_len > UNSENT_MOST) {
        *events = COIR_WRITE;
        return false;
    }
    ci_tls_begin(stream);
    int rc = SSL_peek_ex(stream->ssl, &one, 1, &n);
    if (rc == 1 || ci_tls_failure(stream, rc) != -EAGAIN)
        return true;
    free_buffers(stream);
    return false;
}

/* OpenSSL writes nothing while a handshake message is incomplete, such as half a KeyUpdate. */
static bool tls_writable(int *events, void *arg)
{
    struct ci_tls_stream *stream = arg;
    if (!SSL_in_init(stream->ssl) || stream->ending)
        return true;
    tls_readable(events, stream); /* takes what has arrived */
    *events = COIR_READ;
    return stream->error || stream->write_error || !SSL_in_init(stream->ssl);
}

static int tls_end(void *arg)
{
    struct ci_tls_stream *stream = arg;
    stream->ending = true;
    int rc = send_end(stream);
    return rc < 0 ? rc : stream->write_error;
}

void ci_tls_stream_free(void *arg)
{
    struct ci_tls_stream *stream = arg;
    if (stream->ssl) {
        if (!stream->error) /* else OpenSSL would not let the session be resumed */
            SSL_set_shutdown(stream->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
        SSL_free(stream->ssl);
    }
    ci_tls_release(stream->tls);
    free(stream->out);
    free(stream->host);
    free(stream->destination);
    if (stream->texts)
        free(stream->texts->subject);
    free(stream->texts);
    free(stream);
}

const coir_filter_kind ci_tls_filter = {
    .size = sizeof(coir_filter_kind),
    .read = tls_read,
    .write = tls_write,
    .flush = tls_flush,
    .readable = tls_readable,
    .end = tls_end,
    .free = ci_tls_stream_free,
    .writable = tls_writable,
};

/* ---- about a stream ---- */

/* As RFC 2253 writes it: whole, and two names never read the same. NULL: out of memory. */
static char *subject_of(const X509 *certificate)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *data, *text = NULL;
    if (bio &&
        X509_NAME_print_ex(bio, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253) >= 0) {
        long len = BIO_get_mem_data(bio, &data);
        text = strndup(len > 0 ? data : "", (size_t)len);
    }
    BIO_free(bio);
    ci_tls_clear_errors();
    return text;
}

static struct ci_tls_texts *make_texts(const SSL *ssl)
{
    struct ci_tls_texts *texts = calloc(1, sizeof *texts);
    const X509 *peer = SSL_get0_peer_certificate(ssl);
    const unsigned char *alpn;
    unsigned alpn_len;
    if (!texts)
        return NULL;
    if (peer && !(texts->subject = subject_of(peer))) {
        free(texts);
        return NULL;
    }
    SSL_get0_alpn_selected(ssl, &alpn, &alpn_len);
    if (alpn_len)
        memcpy(texts->alpn, alpn, alpn_len);
    return texts;
}

int coir_tls_describe(const coir_stream *conn, coir_tls_info *ret_info)
{
    if (!conn || !ret_info)
        return CI_MISUSE(-EINVAL, "stream or ret_info is NULL");
    struct ci_tls_stream *stream = coir_filter_arg(conn, &ci_tls_filter);
    if (!stream)
        return -EOPNOTSUPP;
    SSL *ssl = stream->ssl;
    if (!stream->texts && !(stream->texts = make_texts(ssl)))
        return -ENOMEM;
    /* of a server OpenSSL would not tell it where a session of TLS 1.2 is resumed */
    const char *name =
        stream->tls->server ? stream->host : SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    bool has_certificate = SSL_get0_peer_certificate(ssl) != NULL;
    coir_tls_info info = {
        .version = SSL_get_version(ssl),
        .cipher = SSL_get_cipher_name(ssl),
        .alpn = stream->texts->alpn,
        .server_name = name ? name : "",
        .subject = stream->texts->subject ? stream->texts->subject : "",
        .resumed = SSL_session_reused(ssl),
        .verified = has_certificate && !stream->config->settings.insecure &&
                    SSL_get_verify_mode(ssl) & SSL_VERIFY_PEER &&
                    SSL_get_verify_result(ssl) == X509_V_OK,
    };
    return ci_result_write(ret_info, &info, sizeof info);
}
