/* TLS over any stream, by OpenSSL 3. In a library of its own: link coir-tls beside coir.
 *
 *   coir_tls_options options = COIR_TLS_OPTIONS;
 *   coir_tls *client;
 *   int rc = coir_tls_client_new(&options, &client);            once
 *   rc = coir_tls_connect(client, "example.org", tcp, &conn);   conn is a stream like any other
 *
 * A client verifies the server's certificate and its host name unless it spells out that it does
 * not want to. TLS 1.2 is the oldest version; compression, renegotiation and early data are off.
 * Keys: prefer ECDSA (P-256). An RSA key signs for 1 to 3 ms in each full handshake, which a server
 * therefore does on a thread of the pool; a client that has one does it on its worker.
 *
 * A peer that closes the connection without saying so in TLS (close_notify) has truncated the
 * stream: reads return -COIR_ETLS_TRUNCATED then, and 0 only for an end that the peer declared.
 * After a write has failed, what the peer had sent before can still be read.
 *
 * What a write has taken arrives, also when coir_close comes right after it (coir/filter.h): the
 * connection may stay open for up to 5 s more, and counts at its listener as long.
 *
 * A peer may send 32 messages of the protocol (KeyUpdate, tickets) in a row without data being read
 * or written in between; one that sends more is refused: -COIR_ETLS. Of many handshakes that are
 * ready at the same time, a few make a step before the worker's other tasks run. */
#ifndef COIR_TLS_H
#define COIR_TLS_H

#include <coir/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One side's configuration: certificates, trust, sessions. Shared by all workers and connections,
 * and counted: each connection holds a reference. */
typedef struct coir_tls coir_tls;

/* Whether a server asks its clients for certificates. */
enum coir_tls_client_certificates {
    COIR_TLS_NO_CLIENT_CERTIFICATES = 0,
    COIR_TLS_OPTIONAL_CLIENT_CERTIFICATES, /* one that is sent is verified */
    COIR_TLS_REQUIRED_CLIENT_CERTIFICATES
};

/* What a client has to say to go without verification. */
#define COIR_TLS_INSECURE_NO_VERIFICATION 0x1235ec

/* Decides about the peer after coir has: `verdict` is 0, or the negative error that the handshake
 * would fail with, and what is returned takes its place: 0 or a negative error other than -EAGAIN
 * (any other value is misuse, -EINVAL). With `insecure` it is 0: this function alone decides.
 * `host` is the name that was asked for. The certificate is in DER. Must not suspend. */
typedef int coir_tls_verify_fn(int verdict, const char *host, const void *certificate, size_t len,
                               void *arg);

/* Files are PEM. A value that begins with "-----BEGIN" is the PEM text itself. */
typedef struct coir_tls_options {
    size_t size; /* sizeof(coir_tls_options), set by COIR_TLS_OPTIONS */
    /* [none: -EINVAL for a server] the chain, the own certificate first */
    const char *certificate;
    const char *key; /* [none] the certificate's private key, without a password */
    /* [clients: the system's store; servers: none] authorities whose certificates are trusted */
    const char *ca;
    const char *crl;  /* [none] revoked certificates: every certificate of a chain is looked up */
    const char *alpn; /* [none] "http/1.1,ftp": protocols that are spoken, the preferred first */
    enum coir_tls_client_certificates client_certificates; /* [none] servers only */
    /* [0] COIR_TLS_INSECURE_NO_VERIFICATION, or 0; clients only. The first connection logs it */
    int insecure;
    coir_time handshake_timeout; /* [10 s] for a whole handshake */
    coir_tls_verify_fn *verify;  /* [none] */
    void *verify_arg;
} coir_tls_options;

#define COIR_TLS_OPTIONS                                                                     \
    {                                                                                        \
        sizeof(coir_tls_options), 0, 0, 0, 0, 0, COIR_TLS_NO_CLIENT_CERTIFICATES, 0, 0, 0, 0 \
    }

/* Makes a client's configuration. Reads files: call it before the run, or by coir_offload.
 * Suspends: no.  Threads: any.  Owns: *ret_tls is the caller's to unref.
 * Errors: -ENOENT and others of open(2); -EIO a file cannot be read; -COIR_ECERT a file holds no
 * certificate or list that can be used, or one of several is damaged or cut off; -COIR_ETLS_KEY the
 * key's file holds none, or one that has a password or belongs to another certificate; -EINVAL a
 * certificate without a key or a key without one, `alpn` with a name of 0 or of more than 255
 * bytes, another value of `insecure` or of client_certificates, those of a client or without `ca`,
 * a negative time, or no ret_tls; -COIR_EUNSIZED; -COIR_ENEWER; -ENOMEM. */
COIR_API int coir_tls_client_new(const coir_tls_options *options, coir_tls **ret_tls);

/* Makes a server's configuration, for every name that has no host of its own. As
 * coir_tls_client_new.
 * Suspends: no.  Threads: any.  Owns: *ret_tls is the caller's to unref.
 * Errors: those of coir_tls_client_new; -EINVAL also for no certificate, and for `insecure`. */
COIR_API int coir_tls_server_new(const coir_tls_options *options, coir_tls **ret_tls);

/* Gives a name that clients ask for (SNI) a certificate, a trust and options of its own:
 * "example.org", or "*.example.org" for one label in front. Before the server is used.
 * Suspends: no.  Threads: any, before the first coir_tls_accept.
 * Errors: those of coir_tls_server_new; -EINVAL also for what is no name; -EEXIST the name has them
 * already; -EBUSY the server has been used. */
COIR_API int coir_tls_server_add_host(coir_tls *server, const char *host,
                                      const coir_tls_options *options);

/* Takes one more reference, and returns its argument.
 * Suspends: no.  Threads: any. */
COIR_API coir_tls *coir_tls_ref(coir_tls *tls);

/* Gives a reference back; the last one frees the configuration. Takes NULL.
 * Suspends: no.  Threads: any. */
COIR_API void coir_tls_unref(coir_tls *tls);

/* Reads all files again, on a thread of the pool. New connections use what they hold now, present
 * ones go on, and sessions of servers can still be resumed. If anything is wrong with the files,
 * everything stays as it is. Of several at once, the one that began last counts.
 * Suspends: yes.  Threads: worker.
 * Errors: those of coir_tls_client_new and coir_offload.
 * Cancel safety: an error means that nothing has changed. */
COIR_SUSPENDS int coir_tls_reload(coir_tls *tls);

/* Enough for what coir_tls_server_save_tickets gives. */
#define COIR_TLS_TICKETS_MAX 512

/* Copies the keys of a server's session tickets to `buf`, for a process that takes over from this
 * one: with them it resumes the sessions of this one's clients. Whoever has them can pass for any
 * client with a certificate, and read every connection of TLS 1.2 that was given a ticket: hand
 * them over in memory, to this machine alone (their ages are of its clock), and wipe `buf`.
 * Suspends: no.  Threads: any.  Returns: the length.
 * Errors: -EMSGSIZE `size` is too small; -EINVAL no server or no buf; -ENOMEM no randomness for a
 * key. */
COIR_API int coir_tls_server_save_tickets(coir_tls *server, void *buf, size_t size);

/* Takes over what coir_tls_server_save_tickets of another process gave. The newest of these keys
 * and the server's own is used for new tickets. A session resumes if the host and its trust are the
 * same as they were there.
 * Suspends: no.  Threads: any.
 * Errors: -EINVAL it is damaged, or no server or no buf; nothing has changed then. */
COIR_API int coir_tls_server_restore_tickets(coir_tls *server, const void *buf, size_t len);

/* Makes a TLS connection over `transport`, as the client: the handshake, and the verification of
 * the server for `host`, a name or an IP address. On success `transport` belongs to the new
 * stream; on an error it is the caller's to close. Sessions are kept by host and port (by host
 * alone, over a transport that has no port) and resumed where the server agrees, for two hours
 * after the handshake that verified the server and until its certificate expires: a handshake that
 * resumes sends and verifies no certificate.
 * Suspends: yes.  Threads: owner of the transport.  Owns: *ret_stream is the caller's to close.
 * Errors: -COIR_ECERT_HOST, -COIR_ECERT_EXPIRED, -COIR_ECERT_NOT_YET, -COIR_ECERT_UNTRUSTED,
 * -COIR_ECERT_SELF_SIGNED, -COIR_ECERT_PURPOSE, -COIR_ECERT_REVOKED, -COIR_ECERT: the server's
 * certificate is refused; -COIR_ETLS_REFUSED the server has refused; -COIR_ETLS another failure of
 * the protocol; -ETIMEDOUT handshake_timeout; -COIR_ETLS_TRUNCATED; those of coir_read and
 * coir_write; -EINVAL also for a host with a character that no host name has, and for one that
 * begins with a dot; -ENOMEM.
 * Cancel safety: an unknown part of the handshake has been sent: close the transport. */
COIR_SUSPENDS int coir_tls_connect(coir_tls *client, const char *host, coir_stream *transport,
                                   coir_stream **ret_stream);

/* Makes a TLS connection over `transport` as the server, as coir_tls_connect otherwise.
 * Suspends: yes.  Threads: owner of the transport.  Owns: *ret_stream is the caller's to close.
 * Errors: those of coir_tls_connect; the certificate is then the client's.
 * Cancel safety: an unknown part of the handshake has been sent: close the transport. */
COIR_SUSPENDS int coir_tls_accept(coir_tls *server, coir_stream *transport,
                                  coir_stream **ret_stream);

/* coir_tls_accept as the layer of a server: `server` is its coir_tls.
 *
 *   coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
 *   options.layer = coir_tls_layer;
 *   options.layer_arg = tls;
 *
 * Suspends: yes.  Threads: owner of the transport.  Owns: *ret_stream is the caller's to close.
 * Errors: those of coir_tls_accept.
 * Cancel safety: an unknown part of the handshake has been sent: close the transport. */
COIR_SUSPENDS int coir_tls_layer(coir_stream *transport, coir_stream **ret_stream, void *server);

/* What was agreed on. Texts are the stream's: they are valid until it is closed. */
typedef struct coir_tls_info {
    size_t size;             /* sizeof(coir_tls_info), set by COIR_TLS_INFO */
    const char *version;     /* "TLSv1.3" */
    const char *cipher;      /* "TLS_AES_256_GCM_SHA384" */
    const char *alpn;        /* the protocol, or "" */
    const char *server_name; /* what the client asked for, or "" */
    const char *subject;     /* of the peer's certificate: "CN=jane,O=Example" (RFC 2253), or "" */
    bool resumed;            /* of a session of before */
    bool verified;           /* the peer has a certificate, and it was verified; not if insecure */
} coir_tls_info;

#define COIR_TLS_INFO                              \
    {                                              \
        sizeof(coir_tls_info), 0, 0, 0, 0, 0, 0, 0 \
    }

/* Tells what was agreed on.
 * Suspends: no.  Threads: owner.
 * Errors: -EOPNOTSUPP not a TLS stream; -COIR_EUNSIZED; -EINVAL no stream or no ret_info;
 * -ENOMEM. */
COIR_API int coir_tls_describe(const coir_stream *stream, coir_tls_info *ret_info);

/* Makes a certificate for `host` that signs itself, valid for 90 days, with an ECDSA key: for
 * tests and for programs that are tried out. Both are PEM texts, to be given to free().
 * Suspends: no.  Threads: any.  Owns: both texts are the caller's.
 * Errors: -EINVAL; -ENOMEM. */
COIR_API int coir_tls_make_certificate(const char *host, char **ret_certificate, char **ret_key);

#ifdef __cplusplus
}
#endif

#endif
