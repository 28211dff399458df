/* The handshake, as the client and as the server. It runs in the caller's fiber: OpenSSL works
 * until it needs input, then the fiber waits for the transport. The one step that takes
 * milliseconds, a server's signature with an RSA key, runs on a thread of the pool: OpenSSL pauses
 * after the ClientHello, and its next step reads no input and writes to memory.
 *
 * Any other step takes a fraction of a millisecond. Of a thousand handshakes that are ready at the
 * same time, CI_STEPS_A_ROUND make one before the worker's other tasks run. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "coir/deadline.h"
#include "coir/fiber.h"
#include "coir/offload.h"
#include "coir/runtime.h"
#include "tls/tls.h"

/* ---- the handshake ---- */

static int step(struct ci_tls_stream *stream)
{
    ci_tls_begin(stream);
    int rc = SSL_do_handshake(stream->ssl);
    int result = rc == 1 ? 1 : ci_tls_failure(stream, rc);
    ci_tls_clear_errors();
    if (result == -COIR_ETLS_TRUNCATED && stream->write_error)
        return stream->write_error;           /* it came first */
    return result == 0 ? -COIR_ETLS : result; /* a close_notify ends no handshake */
}

/* Keeps its unit until the worker's other tasks have run. */
static int step_in_turn(struct ci_tls_stream *stream)
{
    coir_semaphore *pace = &stream->tls->paces[coir_worker_index() % CI_PACES];
    int rc = coir_semaphore_acquire(pace, 1);
    int result = rc < 0 ? rc : step(stream);
    stream->on_pool = false; /* it was as if on the pool where that is full */
    if (rc < 0)
        return rc;
    if (!stream->to_pool) {
        ci_bio_flush(stream);
        rc = coir_yield();
    }
    coir_semaphore_release(pace, 1);
    return rc < 0 && result == -EAGAIN ? rc : result;
}

struct pool_step {
    struct ci_tls_stream *stream;
    int result; /* apart from coir_offload's: -EAGAIN means another thing there */
};

/* On a thread of the pool. */
static int run_step(void *arg)
{
    struct pool_step *call = arg;
    call->result = step(call->stream);
    return 0;
}

/* The pool has more threads than there are processors: a few of them sign at a time, so that the
 * workers run beside them. */
static int sign_on_pool(struct ci_tls_stream *stream)
{
    coir_semaphore *signers = &stream->tls->signers[coir_worker_index() % CI_PACES];
    struct pool_step call = {stream, 0};
    int rc = coir_semaphore_acquire(signers, 1);
    if (rc < 0)
        return rc;
    stream->to_pool = false;
    stream->on_pool = true;
    rc = coir_offload(run_step, &call);
    coir_semaphore_release(signers, 1);
    if (rc == -EAGAIN) /* its queue is full: the worker signs */
        return step_in_turn(stream);
    stream->on_pool = false;
    return rc < 0 ? rc : call.result;
}

static int do_step(struct ci_tls_stream *stream)
{
    return stream->to_pool ? sign_on_pool(stream) : step_in_turn(stream);
}

/* Writes all buffered output, waiting for room. */
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

/* `limit`: its deadline is that of the default host, until the client has asked for another. A
 * server's first step has nothing to do before the ClientHello. */
static int shake_hands(struct ci_tls_stream *stream, coir_cancel_scope *limit)
{
    int hello = stream->tls->server ? coir_stream_wait(stream->transport, COIR_READ) : 0;
    if (hello < 0)
        return hello;
    for (const struct ci_tls_host *host = stream->config;;) {
        int result = do_step(stream);
        if (stream->config != host) {
            host = stream->config;
            coir_deadline_move(limit,
                               ci_time_after(stream->began, host->settings.handshake_timeout));
        }
        if (result == 1) {
            stream->messages = 0; /* those of the handshake do not count */
            return 0; /* the filter sends the rest of the output: the peer may read it later */
        }
        int rc = flush(stream); /* after a failure: the alert that tells the peer why */
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
    coir_deadline_enter(&limit,
                        ci_time_after(stream->began, stream->config->settings.handshake_timeout));
    int rc = shake_hands(stream, &limit);
    coir_cancel_scope_leave(&limit);
    return rc == -ETIME && coir_deadline_passed(&limit) ? -ETIMEDOUT : rc;
}

/* ---- connections ---- */

static void warn_if_insecure(const struct ci_tls_stream *stream)
{
    const struct ci_tls_settings *settings = &stream->config->settings;
    if (settings->insecure && !settings->verify &&
        !__atomic_exchange_n(&stream->tls->warned, true, __ATOMIC_RELAXED))
        coir_log(COIR_LOG_WARNING,
                 "TLS to %s is not verified, as COIR_TLS_INSECURE_NO_VERIFICATION asks: whoever "
                 "is on the way can read and change it (logged once)",
                 stream->host);
}

static int prepare_client(struct ci_tls_stream *stream, const char *host)
{
    stream->host = strdup(host);
    stream->destination = ci_session_destination(host, stream->transport);
    if (!stream->host || !stream->destination)
        return -ENOMEM;
    SSL_SESSION *session = ci_session_take(stream->tls, stream->destination, &stream->verified);
    if (session) {
        SSL_set_session(stream->ssl, session);
        SSL_SESSION_free(session);
    }
    SSL_set_connect_state(stream->ssl);
    warn_if_insecure(stream);
    return ci_verify_expect_host(stream);
}

/* Makes the SSL of a connection, before any byte is exchanged. */
static int prepare(struct ci_tls_stream *stream, const char *host)
{
    stream->began = coir_now();
    stream->config = ci_tls_find_host(stream->tls, NULL);
    SSL_CTX *context = ci_tls_host_context(stream->tls, stream->config);
    stream->ssl = SSL_new(context);
    SSL_CTX_free(context);
    BIO *bio = stream->ssl ? ci_bio_new(stream) : NULL;
    if (!bio)
        return -ENOMEM;
    SSL_set_bio(stream->ssl, bio, bio);
    SSL_set_msg_callback(stream->ssl, ci_bio_count_message);
    SSL_set_msg_callback_arg(stream->ssl, stream);
    if (host)
        return prepare_client(stream, host);
    SSL_set_accept_state(stream->ssl);
    return 0;
}

static int open_stream(coir_tls *tls, const char *host, coir_stream *transport,
                       coir_stream **ret_stream)
{
    /* fails outside of a fiber, and in a task that is cancelled */
    int rc = coir_write_all(transport, "", 0);
    if (rc < 0)
        return rc;
    struct ci_tls_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return -ENOMEM;
    stream->tls = tls;
    ci_tls_hold(tls);
    stream->transport = transport;
    rc = prepare(stream, host);
    ci_tls_clear_errors();
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
        return CI_MISUSE(-EINVAL, "client is NULL or a server's, or host, transport or ret_stream "
                                  "is NULL or empty");
    return open_stream(client, host, transport, ret_stream);
}

int coir_tls_accept(coir_tls *server, coir_stream *transport, coir_stream **ret_stream)
{
    if (!server || !server->server || !transport || !ret_stream)
        return CI_MISUSE(-EINVAL,
                         "server is NULL or a client's, or transport or ret_stream is NULL");
    return open_stream(server, NULL, transport, ret_stream);
}

int coir_tls_layer(coir_stream *transport, coir_stream **ret_stream, void *server)
{
    if (!server || !transport || !ret_stream)
        return CI_MISUSE(-EINVAL, "server, transport or ret_stream is NULL");
    return coir_tls_accept(server, transport, ret_stream);
}
