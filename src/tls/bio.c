/* The BIO between an SSL and its transport. It takes everything that OpenSSL writes: what the
 * transport does not take is kept in `out`. So SSL_write never stops in the middle of a record,
 * and a write that was cancelled has written nothing. When the transport has failed for writing,
 * what OpenSSL writes is dropped and `write_error` says why: OpenSSL would read nothing more if it
 * were told, and what the peer has sent can still be read. What is read goes from the transport's
 * read-ahead into OpenSSL's buffer; nothing is kept here.
 *
 * A server's ticket of TLS 1.3 has no hurry: it is kept (`held`) and sent together with what the
 * server writes next, or with its close_notify.
 *
 * OpenSSL keeps reading while records without data (KeyUpdate, for example) arrive. So one call of
 * OpenSSL gets at most a record's length of input; then the filter returns -EAGAIN and is retried
 * after other tasks have run. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tls/tls.h"

/* The longest record: header, content, and the expansion that TLS 1.2 allows (RFC 5246, section
 * 6.2.3). */
enum { TAKEN_MOST = 5 + 16384 + 2048 };

/* A handshake has ten at most. OpenSSL's own limit for empty records is the same. */
enum { MESSAGES_MOST = 32 };

static int keep(struct ci_tls_stream *stream, const char *data, size_t len)
{
    if (stream->out_size - stream->out_start - stream->out_len < len) {
        size_t size = stream->out_size ? 2 * stream->out_size : len;
        if (size < stream->out_len + len)
            size = stream->out_len + len;
        char *out = malloc(size);
        if (!out)
            return -ENOMEM;
        if (stream->out_len)
            memcpy(out, stream->out + stream->out_start, stream->out_len);
        free(stream->out);
        stream->out = out;
        stream->out_size = size;
        stream->out_start = 0;
    }
    memcpy(stream->out + stream->out_start + stream->out_len, data, len);
    stream->out_len += len;
    ci_check(stream->out_start + stream->out_len <= stream->out_size, "tls.h 4");
    return 0;
}

int ci_bio_flush(struct ci_tls_stream *stream)
{
    ci_check(!stream->on_pool, "tls.h 3");
    if (stream->held)
        return 0;
    while (stream->out_len && !stream->write_error) {
        ssize_t n =
            coir_try_write(stream->transport, stream->out + stream->out_start, stream->out_len);
        if (n == -EAGAIN)
            return -EAGAIN;
        if (n < 0) {
            stream->write_error = (int)n;
            break;
        }
        stream->out_start += (size_t)n;
        stream->out_len -= (size_t)n;
        ci_check(stream->out_start + stream->out_len <= stream->out_size, "tls.h 4");
    }
    free(stream->out);
    stream->out = NULL;
    stream->out_start = stream->out_len = stream->out_size = 0;
    return stream->write_error;
}

static bool is_ticket(const struct ci_tls_stream *stream)
{
    return SSL_get_state(stream->ssl) == TLS_ST_SW_SESSION_TICKET &&
           SSL_version(stream->ssl) >= TLS1_3_VERSION; /* else it is part of the handshake */
}

/* Adds a record to the ticket that is held, and sends both. */
static void send_held(struct ci_tls_stream *stream, const char *data, size_t len)
{
    stream->held = false;
    stream->write_error = keep(stream, data, len);
    ci_bio_flush(stream);
}

static int bio_write(BIO *bio, const char *data, size_t len, size_t *ret_written)
{
    struct ci_tls_stream *stream = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    *ret_written = len;
    if (!stream->out_len && !stream->write_error && is_ticket(stream)) {
        stream->write_error = keep(stream, data, len);
        stream->held = stream->out_len > 0;
        return 1;
    }
    if (stream->held) {
        send_held(stream, data, len);
        return 1;
    }
    if (!stream->out_len && !stream->on_pool && !stream->write_error) {
        ssize_t n = coir_try_write(stream->transport, data, len);
        if (n < 0 && n != -EAGAIN)
            stream->write_error = (int)n;
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }
    if (len && !stream->write_error)
        stream->write_error = keep(stream, data, len);
    return 1;
}

static int bio_read(BIO *bio, char *data, size_t len, size_t *ret_read)
{
    struct ci_tls_stream *stream = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (stream->messages > MESSAGES_MOST)
        stream->read_error = -COIR_ETLS;
    if (stream->read_error || stream->transport_ended)
        return 0;
    if (len > TAKEN_MOST - stream->taken)
        len = TAKEN_MOST - stream->taken;
    ssize_t n = stream->on_pool || len == 0 ? -EAGAIN : coir_try_read(stream->transport, data, len);
    if (n == -EAGAIN) {
        BIO_set_retry_read(bio);
        return 0;
    }
    if (n <= 0) {
        stream->read_error = (int)n;
        stream->transport_ended = n == 0;
        return 0;
    }
    stream->taken += (size_t)n;
    *ret_read = (size_t)n;
    return 1;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)number, (void)pointer;
    switch (command) {
    case BIO_CTRL_FLUSH: return 1; /* the filter flushes after each call of OpenSSL */
    case BIO_CTRL_EOF: return ((const struct ci_tls_stream *)BIO_get_data(bio))->transport_ended;
    default: return 0;
    }
}

void ci_bio_count_message(int written, int version, int type, const void *data, size_t len,
                          SSL *ssl, void *stream)
{
    (void)version, (void)data, (void)len, (void)ssl;
    if (!written && type == SSL3_RT_HANDSHAKE)
        ((struct ci_tls_stream *)stream)->messages++;
}

static BIO_METHOD *method;
static pthread_once_t method_once = PTHREAD_ONCE_INIT;

static void make_method(void)
{
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "coir stream");
    if (method) {
        BIO_meth_set_write_ex(method, bio_write);
        BIO_meth_set_read_ex(method, bio_read);
        BIO_meth_set_ctrl(method, bio_control);
    }
}

BIO *ci_bio_new(struct ci_tls_stream *stream)
{
    pthread_once(&method_once, make_method);
    BIO *bio = method ? BIO_new(method) : NULL;
    if (!bio)
        return NULL;
    BIO_set_data(bio, stream);
    BIO_set_init(bio, 1);
    return bio;
}

struct ci_tls_stream *ci_tls_stream_of(const SSL *ssl)
{
    return BIO_get_data(SSL_get_rbio(ssl));
}
