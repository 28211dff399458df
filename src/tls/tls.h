/* TLS: what the files of this layer share. Only public functions of coir are used below it.
 *
 * 1. A configuration is freed when the program has given back its last reference, and the last
 * connection or reload is gone: `refs` and `connections`.
 * 2. Among the hosts of a configuration the last one, and only that, has no name: the default.
 * 3. While a handshake runs on a thread of the pool, the transport is not touched.
 * 4. What is kept to be sent lies inside of `out`: out_start + out_len <= out_size.
 * 5. `session_count` is the length of the list of sessions, which is bounded.
 *
 *   misuse.c     where misuse is logged
 *   config.c     coir_tls: references, reload
 *   host.c       its hosts: by name, by ClientHello
 *   options.c    files and options -> SSL_CTX
 *   ticket.c     keys of session tickets
 *   session.c    a client's sessions
 *   verify.c     the verdict about a certificate, as an error
 *   bio.c        bytes between OpenSSL and the transport
 *   stream.c     the filter: reads and writes
 *   handshake.c  connect and accept
 */
#ifndef CI_TLS_TLS_H
#define CI_TLS_TLS_H

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>

#include "base/check.h"
#include "coir/filter.h"
#include "coir/semaphore.h"
#include "coir/tls.h"
#include "sys/misuse.h"

/* ---- configuration ---- */

/* What coir_tls_options said, kept for reloads. */
struct ci_tls_settings {
    char *certificate, *key, *ca, *crl;
    unsigned char *alpn; /* in the form of the protocol: each name after its length */
    unsigned alpn_len;
    enum coir_tls_client_certificates client_certificates;
    bool server, insecure;
    coir_time handshake_timeout;
    coir_tls_verify_fn *verify;
    void *verify_arg;
};

int ci_tls_settings_read(struct ci_tls_settings *settings, const coir_tls_options *given,
                         bool server);
void ci_tls_settings_free(struct ci_tls_settings *settings);

/* An SSL_CTX of what the files hold now. `name` is part of what keeps sessions of different hosts
 * apart. */
int ci_tls_context_new(const struct ci_tls_settings *settings, const char *name, SSL_CTX **ret);

struct ci_tls_host {
    struct ci_tls_host *next;
    char *name; /* lower case; NULL: the default, the last in the list */
    struct ci_tls_settings settings;
    SSL_CTX *context; /* guarded by the configuration's lock; each user takes a reference */
};

enum { CI_TICKET_KEYS = 3 };

struct ci_ticket_key {
    unsigned char name[16], cipher[32], mac[32];
    coir_time made;
};

struct ci_session {
    struct ci_session *next;
    SSL_SESSION *session;
    coir_time verified; /* when the handshake was that verified the peer */
    char destination[];
};

/* Steps of handshakes that a worker makes before its other tasks run, and those of one worker that
 * threads of the pool make at a time: handshake.c. */
enum { CI_STEPS_A_ROUND = 4, CI_SIGNERS = 2, CI_PACES = 16 };

struct coir_tls {
    bool server;
    bool warned; /* that nothing is verified */
    bool used;   /* by a connection or a reload; guarded by the lock: hosts stay as they are */
    pthread_mutex_t lock; /* held for a few stores, never across a call that blocks */
    int refs;             /* the program's; guarded by the lock, as the next */
    int connections;      /* streams, handshakes and reloads in progress */
    struct ci_tls_host *hosts;
    struct ci_ticket_key tickets[CI_TICKET_KEYS]; /* the newest first; guarded by the lock */
    int ticket_count;
    struct ci_session *sessions; /* the newest first; guarded by the lock */
    int session_count;
    unsigned long reloads;  /* that have begun; guarded by the lock */
    unsigned long reloaded; /* the number of the one whose contexts are in use */
    /* of both a worker uses that of its index, modulo their number */
    coir_semaphore paces[CI_PACES], signers[CI_PACES];
};

/* A reference of a connection's; the last one of both kinds frees the configuration. */
void ci_tls_hold(coir_tls *tls);
void ci_tls_release(coir_tls *tls);

int ci_tls_host_new(const char *name, const coir_tls_options *options, bool server,
                    struct ci_tls_host **ret_host);
void ci_tls_host_free(struct ci_tls_host *host);

/* Its context, of what its files hold now. */
int ci_tls_host_load(const struct ci_tls_host *host, SSL_CTX **ret_context);

/* The host that `name` (NULL: none was asked for) leads to. */
struct ci_tls_host *ci_tls_find_host(const coir_tls *tls, const char *name);

/* Its context, with a reference for the caller. */
SSL_CTX *ci_tls_host_context(coir_tls *tls, struct ci_tls_host *host);

/* Has a server's context issue and accept tickets. */
void ci_ticket_install(SSL_CTX *context);
void ci_tls_wipe_tickets(coir_tls *tls);

/* What a client's sessions with `host` over `transport` are kept by, for free(). */
char *ci_session_destination(const char *host, const coir_stream *transport);

/* Whether a session whose peer was verified then may still be resumed. */
bool ci_session_is_fresh(const SSL_SESSION *session, coir_time verified);

/* A session with a destination, from the store, with a reference for the caller; or NULL. */
SSL_SESSION *ci_session_take(coir_tls *tls, const char *destination, coir_time *ret_verified);

/* OpenSSL's callback for new sessions: puts one into the store. */
int ci_session_callback(SSL *ssl, SSL_SESSION *session);

/* Empties the store. */
void ci_sessions_drop(coir_tls *tls);

/* The two halves of ci_sessions_drop; the first with the lock held. */
struct ci_session *ci_sessions_take_all(coir_tls *tls);
void ci_sessions_free(struct ci_session *all);

/* ---- connections ---- */

struct ci_tls_texts {
    char *subject; /* NULL: the peer has no certificate */
    char alpn[256];
};

struct ci_tls_stream {
    SSL *ssl;
    coir_tls *tls;
    coir_stream *transport;
    char *host;        /* what the client asked for; of a server "" where it asked for none */
    char *destination; /* a client's: session.c's */
    struct ci_tls_host *config;
    coir_time began;    /* the handshake */
    coir_time verified; /* a client's: the handshake of the session that it offers */

    /* output of OpenSSL that the transport had no room for */
    char *out;
    size_t out_start, out_len, out_size;

    size_t taken;    /* from the transport since the call of OpenSSL began: bio.c */
    int messages;    /* of handshakes, received since the last data was read or written */
    int read_error;  /* why the transport has failed for reading, or 0 */
    int write_error; /* and for writing: what every later write returns */
    int error;       /* why TLS has failed: what every later call returns */
    int verdict;     /* about the peer's certificate */
    bool transport_ended;
    bool held;    /* `out` is a ticket, which is sent with the next record: bio.c */
    bool ending;  /* close_notify was sent, or is to be */
    bool on_pool; /* a thread of the pool runs the handshake: the transport is not touched */
    bool to_pool; /* the ClientHello has arrived, and the answer needs an RSA signature */
    struct ci_tls_texts *texts; /* of coir_tls_describe, once it was called */
};

void ci_tls_stream_free(void *arg);

extern const coir_filter_kind ci_tls_filter;

/* The BIO between an SSL and its stream; NULL when memory is out. */
BIO *ci_bio_new(struct ci_tls_stream *stream);

/* OpenSSL's callback for messages: counts what is received for a handshake. */
void ci_bio_count_message(int written, int version, int type, const void *data, size_t len,
                          SSL *ssl, void *stream);

/* The stream of an SSL, once it has its BIO. */
struct ci_tls_stream *ci_tls_stream_of(const SSL *ssl);

/* Hands what was written to the transport: 0, -EAGAIN, or why that has failed. */
int ci_bio_flush(struct ci_tls_stream *stream);

/* Empties the thread's queue of errors. ERR_clear_error walks all of it, also when it is empty. */
static inline void ci_tls_clear_errors(void)
{
    if (ERR_peek_error())
        ERR_clear_error();
}

/* Why a call of OpenSSL has failed: -ENOMEM if the queue of errors says so, else `error`. Empties
 * the queue. */
static inline int ci_tls_error(int error)
{
    unsigned long one;
    bool shortage = false;
    while ((one = ERR_get_error()))
        shortage |= ERR_GET_REASON(one) == ERR_R_MALLOC_FAILURE;
    return shortage ? -ENOMEM : error;
}

/* Before each call of OpenSSL that moves bytes. */
void ci_tls_begin(struct ci_tls_stream *stream);

/* Why the last call of OpenSSL, which returned `rc`, has failed: -EAGAIN if it needs the transport,
 * 0 if the peer has sent close_notify, else a negative error, which every later call returns. */
int ci_tls_failure(struct ci_tls_stream *stream, int rc);

/* Whether only characters of host names are in it, at most 253 (RFC 1035, section 2.3.4). One that
 * begins with a dot would stand for every name below (X509_check_host), which no certificate may
 * choose. */
bool ci_tls_is_host_name(const char *host);

/* Makes verify.c verify every certificate chain of the context. */
void ci_verify_install(SSL_CTX *context);

/* Sets the name or address that the server's certificate must have: stream->host. */
int ci_verify_expect_host(struct ci_tls_stream *stream);

#endif
