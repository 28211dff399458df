/* A client's sessions, by destination: the host and the port, since the same name on another port
 * may be another server. A ticket of TLS 1.3 is used once (RFC 8446, appendix C.4), so its session
 * is taken out when it is used and what the server sends then is put in; one of TLS 1.2 stays.
 *
 * A session is used only under the trust that it was verified with: the store belongs to one
 * configuration, a reload drops what is in it, and what arrives later on a connection from before
 * the reload is not kept.
 *
 * A handshake that resumes verifies no certificate, and gives new tickets. So that the peer is
 * verified again, a session ends with the peer's certificate, and two hours after the handshake
 * that has verified it, on both sides. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "tls/tls.h"

/* In all, and of one destination: connections at the same time take one each. */
enum { SESSIONS_MOST = 256, SESSIONS_OF_ONE_MOST = 4 };

static const coir_time life = 2 * 3600 * COIR_S;

bool ci_session_is_fresh(const SSL_SESSION *session, coir_time verified)
{
    const X509 *peer = SSL_SESSION_get0_peer((SSL_SESSION *)(uintptr_t)session);
    coir_time now = coir_now(); /* before `verified`: it is of another machine's clock */
    return now >= verified && now < ci_time_after(verified, life) &&
           (!peer || X509_cmp_current_time(X509_get0_notAfter(peer)) > 0);
}

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
    /* no host has a space: "::1" on port 443 is not "::1:443" over a transport without a port */
    return asprintf(&destination, "%s %s", host, port ? port : "") < 0 ? NULL : destination;
}

/* With the lock held. */
static struct ci_session *unlink_session(coir_tls *tls, struct ci_session **at)
{
    struct ci_session *session = *at;
    *at = session->next;
    tls->session_count--;
    return session;
}

SSL_SESSION *ci_session_take(coir_tls *tls, const char *destination, coir_time *ret_verified)
{
    struct ci_session *gone = NULL;
    SSL_SESSION *session = NULL;
    pthread_mutex_lock(&tls->lock);
    struct ci_session **at = &tls->sessions;
    while (*at && strcmp((*at)->destination, destination) != 0)
        at = &(*at)->next;
    if (*at) {
        const struct ci_session *found = *at;
        bool usable = SSL_SESSION_is_resumable(found->session) &&
                      ci_session_is_fresh(found->session, found->verified);
        if (usable) {
            session = found->session;
            SSL_SESSION_up_ref(session);
            *ret_verified = found->verified;
        }
        if (!usable || SSL_SESSION_get_protocol_version(session) >= TLS1_3_VERSION)
            gone = unlink_session(tls, at);
    }
    pthread_mutex_unlock(&tls->lock);
    if (gone)
        drop(gone);
    return session;
}

/* With the lock held, after a session was put in: removes one that is too many, or returns NULL. */
static struct ci_session *take_surplus(coir_tls *tls, const char *destination)
{
    int of_one = 0;
    for (struct ci_session **at = &tls->sessions; *at; at = &(*at)->next) {
        bool last = !(*at)->next;
        of_one += strcmp((*at)->destination, destination) == 0;
        if (of_one > SESSIONS_OF_ONE_MOST || (last && tls->session_count > SESSIONS_MOST))
            return unlink_session(tls, at);
    }
    return NULL;
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
    kept->verified = SSL_session_reused(ssl) ? stream->verified : stream->began;
    pthread_mutex_lock(&tls->lock);
    if (SSL_get_SSL_CTX(ssl) != stream->config->context) { /* from before a reload */
        gone = kept;
    } else {
        kept->next = tls->sessions;
        tls->sessions = kept;
        tls->session_count++;
        gone = take_surplus(tls, kept->destination);
        ci_check(tls->session_count <= SESSIONS_MOST, "tls.h 5");
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
