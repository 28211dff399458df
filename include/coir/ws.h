/* WebSocket (RFC 6455), with compression (RFC 7692): servers by upgrade in a handler of coir/web.h,
 * and clients.
 *
 *   static int echo(coir_request *req, coir_response *res, void *arg)
 *   {
 *       coir_ws *ws;
 *       coir_ws_message *message;
 *       int rc = coir_ws_accept(req, res, &ws);
 *       while (rc == 0 && (rc = coir_ws_recv(ws, &message)) > 0) {
 *           rc = coir_ws_send(ws, message);
 *           coir_ws_message_unref(message);
 *       }
 *       return rc;                                        the connection is closed
 *   }
 *
 * A connection belongs to the worker of its stream, where one task at a time receives. Any number
 * of tasks send, on any worker, through the connection's queue (coir/write_queue.h). While a task
 * receives, or waits to, coir answers pings and the peer's close frame, and watches whether the
 * peer is there (ping_interval); so keep a receive waiting.
 *
 * A server keeps a connection alive as long as its handler runs, with its stack.
 * coir_ws_handle keeps connections that hold neither a stack nor a buffer while they are idle.
 */
#ifndef COIR_WS_H
#define COIR_WS_H

#include <coir/web.h>
#include <coir/write_queue.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A WebSocket connection. */
typedef struct coir_ws coir_ws;

/* What a message is: text is UTF-8. */
enum coir_ws_type { COIR_WS_TEXT = 1, COIR_WS_BINARY = 2 };

/* ---- messages ---- */

/* A message: immutable bytes with a reference count. One that was received can be sent as it is,
 * and one message to any number of connections: it is encoded, and compressed, once. */
typedef struct coir_ws_message coir_ws_message;

/* Makes a message that holds a copy of `len` bytes.
 * Suspends: no.  Threads: any.  Owns: *ret_message is a reference of the caller's. It must be
 * dropped before the runtime of the calling worker is freed.
 * Errors: -EILSEQ a text that is not UTF-8; -ENOMEM; -EINVAL no such type, data is NULL and has a
 * length, or no ret_message. */
COIR_API int coir_ws_message_new(enum coir_ws_type type, const void *data, size_t len,
                                 coir_ws_message **ret_message);

/* Takes another reference to a message, and returns it.
 * Suspends: no.  Threads: any.  Owns: the result is a reference of the caller's. */
COIR_API coir_ws_message *coir_ws_message_ref(coir_ws_message *message);

/* Drops a reference to a message, which the caller must not use again. The last one frees it.
 * Takes NULL.
 * Suspends: no.  Threads: any. */
COIR_API void coir_ws_message_unref(coir_ws_message *message);

/* Whether a message is text or binary.
 * Suspends: no.  Threads: any. */
COIR_API enum coir_ws_type coir_ws_message_type(const coir_ws_message *message);

/* The bytes of a message, which no NUL ends.
 * Suspends: no.  Threads: any. */
COIR_API const char *coir_ws_message_data(const coir_ws_message *message);

/* The number of bytes of a message.
 * Suspends: no.  Threads: any. */
COIR_API size_t coir_ws_message_len(const coir_ws_message *message);

/* ---- connections ---- */

/* Which messages are compressed, where the peer can do so too. */
enum coir_ws_compression {
    COIR_WS_NO_COMPRESSION = 0,
    /* each message by itself: an idle connection holds no memory for it, and a message for many
     * connections is compressed once */
    COIR_WS_COMPRESS_MESSAGES,
    /* each message with what was sent before it in view: shorter, and about 300 KiB for each
     * connection */
    COIR_WS_COMPRESS_STREAM
};

/* Options of a WebSocket connection, of a server or a client. */
typedef struct coir_ws_options {
    size_t size; /* sizeof(coir_ws_options), set by COIR_WS_OPTIONS */
    /* [none] subprotocols, separated by commas: those that a server knows, or a client asks for */
    const char *protocols;
    /* [any] of a server: what browsers may send as Origin, separated by commas. Others get 403;
     * clients that send none are not browsers, and are let in */
    const char *origins;
    const char *origin; /* [none] of a client: what to send as Origin */
    /* the sizes of a server's connections: [those of coir_serve_http_options.websocket_options] */
    size_t message_max; /* [1 MiB; COIR_UNLIMITED] bytes of a message that is received whole */
    size_t items_max;   /* [1024] frames in the queue of what is sent */
    size_t bytes_max;   /* [4 MiB] bytes in those frames, each with its head of up to 14 bytes: no
                         * frame may be longer */
    enum coir_overflow overflow; /* [COIR_OVERFLOW_WAIT] what a send does when the queue is full */
    coir_time ping_interval;     /* [30 s; COIR_NEVER: none] of silence, until a ping is sent */
    coir_time ping_timeout;      /* [20 s; COIR_NEVER: none] of silence behind a ping, in which the
                                  * peer reads nothing of what is queued either: the connection has
                                  * failed with -ETIMEDOUT then */
    coir_time close_timeout;     /* [5 s; COIR_NEVER: none] for the peer's part of closing */
    coir_time connect_timeout;   /* [10 s; COIR_NEVER: none] of a client: until it is connected */
    enum coir_ws_compression compression; /* [COIR_WS_NO_COMPRESSION] */
    int window_bits; /* [15] 9 to 15: compression looks back 2^window_bits bytes */
    /* [none] of a client, for wss: addresses: makes the stream over the connection, with
     * `layer_arg`, by coir_tls_connect, say */
    int (*layer)(coir_stream *transport, const char *host, coir_stream **ret_stream, void *arg);
    void *layer_arg;
} coir_ws_options;

#define COIR_WS_OPTIONS                                                            \
    {                                                                              \
        sizeof(coir_ws_options), 0, 0, 0, 0, 0, 0, COIR_OVERFLOW_WAIT, 0, 0, 0, 0, \
            COIR_WS_NO_COMPRESSION, 0, 0, 0                                        \
    }

/* Makes a WebSocket connection of a request, in its handler, which must not answer otherwise. The
 * connection is closed when the handler returns: with the code 1000, or 1011 where it returns an
 * error. From here on the client's end does not cancel the handler: receives and sends say so.
 *
 * A request that cannot be accepted is answered here: 426 it asks for no WebSocket, or for another
 * version; 403 its Origin is not allowed; 400 it is wrong otherwise; 503, with Retry-After, there
 * are websockets_max (coir_serve_http_options). The handler then returns what
 * this call has returned.
 * Suspends: yes.  Threads: owner.  Owns: *ret_ws is the server's, valid until the handler returns.
 * Errors: -COIR_EPROTOCOL the request was refused; -EAGAIN the server has websockets_max
 * connections; -EALREADY it was answered; -ENOMEM; -EINVAL no request, response or ret_ws; those of
 * coir_write.
 * Cancel safety: an unknown part of the answer has been sent; the connection ends after the
 * handler. */
COIR_SUSPENDS int coir_ws_accept(coir_request *req, coir_response *res, coir_ws **ret_ws);

/* Makes a WebSocket connection of a request, with options. As coir_ws_accept.
 * Errors also: -EINVAL a negative time, unknown values, or more than fixed memory has for each
 * connection (coir_serve_http_options.websocket_options), which is logged; -COIR_EUNSIZED;
 * -COIR_ENEWER. */
COIR_SUSPENDS int coir_ws_accept_with(coir_request *req, coir_response *res,
                                      const coir_ws_options *options, coir_ws **ret_ws);

/* A handler of messages. It is called in a fiber for each message of a connection, in their order;
 * and with NULL once, as the last call, when the connection has ended: coir_ws_result says why. The
 * message is borrowed. An error that it returns closes the connection, with the code 1011. */
typedef int coir_ws_message_fn(coir_ws *ws, coir_ws_message *message, void *arg);

/* Makes a WebSocket connection of a request, which outlives the handler: the handler returns, and
 * `fn` is called for each message. In between, the connection holds neither a stack nor a buffer.
 * As coir_ws_accept.
 * Suspends: yes.  Threads: owner.  Owns: `arg` is borrowed until `fn` was called with NULL. `fn` is
 * not called before the handler has returned, and not at all if that returns an error.
 * Errors: those of coir_ws_accept; -EINVAL no fn. */
COIR_SUSPENDS int coir_ws_handle(coir_request *req, coir_response *res, coir_ws_message_fn *fn,
                                 void *arg);

/* Makes a WebSocket connection that outlives the handler, with options. As coir_ws_handle.
 * Suspends: yes.  Threads: owner.  Owns: *ret_ws is the connection's own, valid until `fn` was
 * called with NULL, for sends of other tasks.
 * Errors also: those of coir_ws_accept_with. */
COIR_SUSPENDS int coir_ws_handle_with(coir_request *req, coir_response *res,
                                      const coir_ws_options *options, coir_ws_message_fn *fn,
                                      void *arg, coir_ws **ret_ws);

/* Connects to a WebSocket server: "ws://host:port/path?query", or with "wss:" over TLS, for which
 * coir_ws_connect_with has a layer.
 * Suspends: yes.  Threads: worker.  Owns: *ret_ws is the caller's to free.
 * Errors: -COIR_EADDRESS no such URL; -EPROTONOSUPPORT wss: without a layer; -ECONNREFUSED also
 * when the server answers otherwise than by 101, which the log says (COIR_LOG_INFO), with the
 * status; -COIR_EPROTOCOL its answer is wrong; -COIR_EEND it has ended the connection before;
 * -ETIMEDOUT connect_timeout; those of coir_tcp_connect, coir_read and the layer; -ENOMEM; -EINVAL
 * no url or ret_ws, or more than 8 KiB of URL, origin and protocols.
 * Cancel safety: there is no connection. */
COIR_SUSPENDS int coir_ws_connect(const char *url, coir_ws **ret_ws);

/* Connects to a WebSocket server, with options. As coir_ws_connect.
 * Errors also: -EINVAL a negative time, unknown values, or a character that no header may have;
 * -COIR_EUNSIZED; -COIR_ENEWER. */
COIR_SUSPENDS int coir_ws_connect_with(const char *url, const coir_ws_options *options,
                                       coir_ws **ret_ws);

/* Frees a client's connection, which no task uses. It ends at once: call coir_ws_close first. Takes
 * NULL.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_ws_free(coir_ws *ws);

/* The subprotocol that was agreed on; "" without one.
 * Suspends: no.  Threads: any. */
COIR_API const char *coir_ws_protocol(const coir_ws *ws);

/* ---- receiving ---- */

/* Receives a message: 1, and the message; or 0 when the peer has closed the connection in due form:
 * coir_ws_close_code says with which code.
 * Suspends: yes.  Threads: owner.  Owns: *ret_message is a reference of the caller's.
 * Errors: -COIR_EPROTOCOL the peer broke the protocol; -COIR_ETOOLARGE past message_max; -COIR_EEND
 * the connection ended without a close frame; -ETIMEDOUT ping_timeout; -EBUSY another task
 * receives, or coir_ws_handle does; those of coir_read; -ENOMEM; -EXDEV; -EINVAL no ws or
 * ret_message.
 * Cancel safety: an error means that nothing was taken: the next receive gets the message. */
COIR_SUSPENDS int coir_ws_recv(coir_ws *ws, coir_ws_message **ret_message);

/* Storage for the future of a receive. */
typedef struct coir_ws_op {
    coir_future future;
    uint64_t opaque[20];
} coir_ws_op;
COIR_API coir_future *coir_ws_recv_op(coir_ws_op *op, coir_ws *ws, coir_ws_message **ret_message);

/* A receive, as a case of coir_select: a case that loses leaves its message to the next receive. As
 * coir_ws_recv. */
COIR_API coir_case coir_case_ws_recv(coir_ws *ws, coir_ws_message **ret_message);

/* Receives the next part of a message, as it comes: of any length, without regard to message_max. A
 * part of text may end within a character. *ret_last is true for the last part, which may be
 * empty.
 * Suspends: yes.  Threads: owner.  Owns: *ret_part is a reference of the caller's.
 * Errors: those of coir_ws_recv; -EINVAL also no ret_last.
 * Cancel safety: an error means that nothing was taken. */
COIR_SUSPENDS int coir_ws_recv_part(coir_ws *ws, coir_ws_message **ret_part, bool *ret_last);

/* ---- sending ---- */

/* Sends a message: it is queued, and written by the connection's worker. Suspends while the queue
 * is full, and while another task sends a message in parts.
 * Suspends: yes.  Threads: worker.  Owns: the message is borrowed; the queue has references of its
 * own.
 * Errors: -EPIPE the connection was closed, or has failed; -COIR_ETOOLARGE its frame is longer than
 * bytes_max; -EBUSY the calling task sends a message in parts, and has not ended it; -ENOMEM;
 * -EINVAL ws or message is NULL.
 * Cancel safety: an error means that the message was not sent. */
COIR_SUSPENDS int coir_ws_send(coir_ws *ws, coir_ws_message *message);

/* Sends a message, and never waits. As coir_ws_send.
 * Suspends: no.  Threads: worker.
 * Errors also: -EAGAIN it would have to wait; -ESRCH not on a worker. */
COIR_API int coir_ws_try_send(coir_ws *ws, coir_ws_message *message);

/* Sends a text. As coir_ws_send.
 * Errors also: -EILSEQ it is not UTF-8; -EINVAL text is NULL. */
COIR_SUSPENDS int coir_ws_send_text(coir_ws *ws, const char *text);

/* Sends bytes as a binary message. As coir_ws_send.
 * Errors also: -EINVAL data is NULL and has a length. */
COIR_SUSPENDS int coir_ws_send_binary(coir_ws *ws, const void *data, size_t len);

/* Sends a part of a message; `last` ends the message. The parts have one type. Between the first
 * and the last, other tasks that send wait; the end of the connection ends that, too. Not with a
 * policy that drops frames.
 * Suspends: yes.  Threads: worker.
 * Errors: those of coir_ws_send; -EINVAL also no such type; -EOPNOTSUPP the queue drops frames.
 * Cancel safety: an error means that the part was not sent. */
COIR_SUSPENDS int coir_ws_send_part(coir_ws *ws, enum coir_ws_type type, const void *data,
                                    size_t len, bool last);

/* Sends a ping. If nothing comes from the peer within ping_timeout, while a task receives, the
 * connection has failed.
 * Suspends: no.  Threads: owner.
 * Errors: -EPIPE the connection was closed, or has failed; -EAGAIN the queue is full; -EXDEV;
 * -ENOMEM; -EINVAL no ws. */
COIR_API int coir_ws_ping(coir_ws *ws);

/* Waits until everything that was sent before has been written.
 * Suspends: yes.  Threads: worker.
 * Errors: those of coir_write_queue_flush.
 * Cancel safety: nothing is lost. */
COIR_SUSPENDS int coir_ws_flush(coir_ws *ws);

/* ---- the end ---- */

/* Closes a connection: sends what is queued and a close frame with `code` and `reason` (NULL:
 * none), and waits for the peer's, within close_timeout; messages that come meanwhile are dropped.
 * If another task receives, or the connection is one of coir_ws_handle, the end is got there: with
 * -ETIMEDOUT after close_timeout; and this call returns when the close frame was written. Nothing
 * can be sent afterwards.
 * Suspends: yes.  Threads: owner.
 * Errors: those of coir_ws_recv; -ETIMEDOUT close_timeout, and what is still queued is dropped;
 * -EINVAL no ws, a code that must not be sent, or a reason that is longer than 123 bytes or not
 * UTF-8.
 * Cancel safety: the close frame may have been sent. */
COIR_SUSPENDS int coir_ws_close(coir_ws *ws, int code, const char *reason);

/* The code with which the connection was closed: the peer's, or 1005 where its close frame had
 * none; where coir has ended the connection, its own; 1006 the connection ended without a close
 * frame; 0 it has not ended.
 * Suspends: no.  Threads: owner.
 * Errors: none. */
COIR_API int coir_ws_close_code(const coir_ws *ws);

/* The reason in the peer's close frame; "" without one.
 * Suspends: no.  Threads: owner. */
COIR_API const char *coir_ws_close_reason(const coir_ws *ws);

/* What the next receive would return, if the connection has ended: 0, or a negative error;
 * -EINPROGRESS it has not ended.
 * Suspends: no.  Threads: owner.
 * Errors: those of coir_ws_recv; -EINVAL no ws. */
COIR_API int coir_ws_result(const coir_ws *ws);

#ifdef __cplusplus
}
#endif

#endif
