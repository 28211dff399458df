/* A client's sessions: a ticket of TLS 1.3 is used once (RFC 8446, appendix C.4), so a session is
 * taken out when it is used and what the server sends then is put in. They are of one
 * configuration, so a session was verified under the trust it is used with; a reload drops them. */
#include <stdlib.h>
#include <string.h>

#include "tls/tls.h"

enum { SESSIONS_MOST = 256 };

static void drop(struct ci_session *session)
{
    SSL_SESSION_free(session->session);
    free(session);
}

SSL_SESSION *ci_session_take(coir_tls *tls, const char *host)
{
    SSL_SESSION *found = NULL;
    pthread_mutex_lock(&tls->lock);
    for (struct ci_session **at = &tls->sessions; *at && !found;) {
        struct ci_session *session = *at;
        if (strcmp(session->host, host) != 0) {
            at = &session->next;
            continue;
        }
        *at = session->next;
        tls->session_count--;
        found = session->session;
        free(session);
    }
    pthread_mutex_unlock(&tls->lock);
    if (found && !SSL_SESSION_is_resumable(found)) {
        SSL_SESSION_free(found);
        found = NULL;
    }
    return found;
}

/* Under the lock: the oldest goes. */
static struct ci_session *take_oldest(coir_tls *tls)
{
    struct ci_session **at = &tls->sessions;
    while ((*at)->next)
        at = &(*at)->next;
    struct ci_session *oldest = *at;
    *at = NULL;
    tls->session_count--;
    return oldest;
}

/* OpenSSL has received a session of the client `ssl`. 1: the reference is ours now. */
int ci_session_callback(SSL *ssl, SSL_SESSION *session)
{
    const struct ci_tls_stream *stream = ci_tls_stream_of(ssl);
    if (!stream || !stream->host)
        return 0;
    coir_tls *tls = stream->tls;
    size_t len = strlen(stream->host) + 1;
    struct ci_session *kept = malloc(sizeof *kept + len), *gone = NULL;
    if (!kept)
        return 0;
    memcpy(kept->host, stream->host, len);
    kept->session = session;
    pthread_mutex_lock(&tls->lock);
    kept->next = tls->sessions;
    tls->sessions = kept;
    if (++tls->session_count > SESSIONS_MOST)
        gone = take_oldest(tls);
    pthread_mutex_unlock(&tls->lock);
    if (gone)
        drop(gone);
    return 1;
}

void ci_sessions_drop(coir_tls *tls)
{
    pthread_mutex_lock(&tls->lock);
    struct ci_session *next = tls->sessions;
    tls->sessions = NULL;
    tls->session_count = 0;
    pthread_mutex_unlock(&tls->lock);
    while (next) {
        struct ci_session *session = next;
        next = session->next;
        drop(session);
    }
}
