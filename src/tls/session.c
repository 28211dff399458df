/* A client's sessions, by destination: the host and the port, since the same name on another port
 * may be another server. A ticket of TLS 1.3 is used once (RFC 8446, appendix C.4), so a session is
 * taken out when it is used and what the server sends then is put in.
 *
 * A session is used only under the trust that it was verified with: the store belongs to one
 * configuration, a reload drops what is in it, and what arrives later on a connection from before
 * the reload is not kept. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tls/tls.h"

enum { SESSIONS_MOST = 256 };

static void drop(struct ci_session *session)
{
    SSL_SESSION_free(session->session);
    free(session);
}

char *ci_session_destination(const char *host, const coir_stream *transport)
{
    char peer[128], *destination;
    int len = coir_stream_peer(transport, peer, sizeof peer);
    const char *port = len > 0 ? strrchr(peer, ':') : NULL;
    return asprintf(&destination, "%s%s", host, port ? port : "") < 0 ? NULL : destination;
}

SSL_SESSION *ci_session_take(coir_tls *tls, const char *destination)
{
    SSL_SESSION *found = NULL;
    pthread_mutex_lock(&tls->lock);
    for (struct ci_session **at = &tls->sessions; *at && !found;) {
        struct ci_session *session = *at;
        if (strcmp(session->destination, destination) != 0) {
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

/* With the lock held: removes the oldest session and returns it. */
static struct ci_session *take_oldest(coir_tls *tls)
{
    struct ci_session **at = &tls->sessions;
    while ((*at)->next)
        at = &(*at)->next;
    struct ci_session *oldest = *at;
    *at = NULL;
    tls->session_count--;
    ci_check(tls->session_count == SESSIONS_MOST, "tls.h 5");
    return oldest;
}

/* OpenSSL has received a session of the client `ssl`. 0: the reference stays OpenSSL's. */
int ci_session_callback(SSL *ssl, SSL_SESSION *session)
{
    const struct ci_tls_stream *stream = ci_tls_stream_of(ssl);
    if (!stream || !stream->destination)
        return 0;
    coir_tls *tls = stream->tls;
    size_t len = strlen(stream->destination) + 1;
    struct ci_session *kept = malloc(sizeof *kept + len), *gone;
    if (!kept)
        return 0;
    memcpy(kept->destination, stream->destination, len);
    SSL_SESSION_up_ref(session);
    kept->session = session;
    pthread_mutex_lock(&tls->lock);
    if (SSL_get_SSL_CTX(ssl) != stream->config->context) { /* from before a reload */
        gone = kept;
    } else {
        kept->next = tls->sessions;
        tls->sessions = kept;
        gone = ++tls->session_count > SESSIONS_MOST ? take_oldest(tls) : NULL;
    }
    pthread_mutex_unlock(&tls->lock);
    if (gone)
        drop(gone);
    return 0;
}

struct ci_session *ci_sessions_take_all(coir_tls *tls)
{
    struct ci_session *all = tls->sessions;
    tls->sessions = NULL;
    tls->session_count = 0;
    return all;
}

void ci_sessions_free(struct ci_session *all)
{
    while (all) {
        struct ci_session *session = all;
        all = session->next;
        drop(session);
    }
}

void ci_sessions_drop(coir_tls *tls)
{
    pthread_mutex_lock(&tls->lock);
    struct ci_session *all = ci_sessions_take_all(tls);
    pthread_mutex_unlock(&tls->lock);
    ci_sessions_free(all);
}
