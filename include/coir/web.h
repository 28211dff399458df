/* HTTP/1.1 servers (RFC 9110, RFC 9112). A handler reads like a script: it runs in a fiber of its
 * own, may suspend anywhere, and is cancelled when its client resets or hangs up; a half-close
 * alone does not cancel it, except where asked (end_cancels).
 *
 *   static int hello(coir_request *req, coir_response *res, void *arg)
 *   {
 *       return coir_respond_text(res, 200, "Hello, %s!", coir_request_param(req, "name"));
 *   }
 *   coir_route(router, "GET", "/hello/{name}", hello, NULL); */
#ifndef COIR_WEB_H
#define COIR_WEB_H

#include <coir/tcp.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A request, as its handler gets it. Strings of it live as long as the request. */
typedef struct coir_request coir_request;

/* The response to a request: there is one. */
typedef struct coir_response coir_response;

/* A table of routes. It is made by coir_router_new. */
typedef struct coir_router coir_router;

/* A handler of requests: returns 0 or a negative error. After an error the client gets 500, if
 * nothing was answered yet, or a connection that ends too early. */
typedef int coir_handler_fn(coir_request *req, coir_response *res, void *arg);

/* ---- routes ---- */

/* Options of a table of routes. */
typedef struct coir_router_options {
    size_t size;                     /* sizeof(coir_router_options), set by COIR_ROUTER_OPTIONS */
    const coir_allocator *allocator; /* [malloc] copied */
} coir_router_options;

#define COIR_ROUTER_OPTIONS            \
    {                                  \
        sizeof(coir_router_options), 0 \
    }

/* Makes an empty table of routes.
 * Suspends: no.  Threads: any.  Owns: *ret_router is the caller's; it must outlive the servers
 * that use it.
 * Errors: -EINVAL no ret_router; -ENOMEM. */
COIR_API int coir_router_new(coir_router **ret_router);

/* Makes an empty table of routes, with options. As coir_router_new.
 * Errors also: -COIR_EUNSIZED; -COIR_ENEWER. */
COIR_API int coir_router_new_with(const coir_router_options *options, coir_router **ret_router);

/* Frees a table of routes that no server uses. Takes NULL.
 * Suspends: no.  Threads: any. */
COIR_API void coir_router_free(coir_router *router);

/* Adds a route: `handler` is called with `arg` for `method` on paths that match `pattern`. That is
 * "/", "/a/b", "/a/{name}", where {name} matches any one segment, or "/a/{name...}", where
 * {name...} matches the rest of the path, also none: "/a/", "/a/b/c", but not "/a". Path and
 * pattern are percent-decoded before they are compared: "/caf%C3%A9" matches "/café". "%2F" does
 * not separate segments. There are no other wildcards: '*', '?' and '#' are refused (write a
 * literal star as "%2A").
 * The first route that matches wins. A HEAD request is answered by a HEAD route if there is one,
 * else by the handler of GET, without the body. Must not be called while a server uses the router.
 * Suspends: no.  Threads: any.  Owns: method and pattern are copied; `arg` is borrowed as long as
 * the router is used.
 * Errors: -EINVAL no router, method or handler, a bad pattern, one with more than 8 parameters, or
 * two of them have one name; -EEXIST an earlier route of the same method matches every path that
 * this one matches; -ENOMEM. */
COIR_API int coir_route(coir_router *router, const char *method, const char *pattern,
                        coir_handler_fn *handler, void *arg);

/* ---- serving ---- */

/* Options of an HTTP server. */
typedef struct coir_serve_http_options {
    size_t size;         /* sizeof(coir_serve_http_options), set by COIR_SERVE_HTTP_OPTIONS */
    const char *address; /* where to listen; or */
    /* what to accept from: it listens no more afterwards, and is the caller's to close */
    coir_listener *listener;
    /* [NULL] the server's: what coir_request_context gives its handlers */
    void *context;
    /* [10 s; COIR_NEVER: none] from the first byte of a request to the end of its head: then 408 */
    coir_time header_timeout;
    /* [60 s; COIR_NEVER: none] between requests: then the connection is closed */
    coir_time idle_timeout;
    /* [30 s; COIR_NEVER: none] without a byte of a body that a handler reads: then 408 */
    coir_time body_timeout;
    /* [60 s; COIR_NEVER: none] without the client taking a byte: then the connection is dropped.
     * For what is left of an answer when its handler has returned, 16 KiB at most, it is a time in
     * all, and longer by what that takes at rate_min */
    coir_time write_timeout;
    /* [10 s; COIR_NEVER: none] for requests in progress when the server is asked to stop */
    coir_time drain_timeout;
    /* [8000; COIR_UNLIMITED: as head_max] bytes of a request line: past it 414 */
    size_t line_max;
    /* [8192; COIR_UNLIMITED: 12288, the most] bytes of a head: past it 431 */
    size_t head_max;
    uint64_t body_max;      /* [1 GiB; COIR_UNLIMITED: any] bytes of a body: past it 413 */
    size_t connections_max; /* [COIR_UNLIMITED] per worker; past it, see at_limit */
    /* [1 MiB; COIR_UNLIMITED: any] memory that one request may take from its arena */
    size_t arena_max;

    /* Limits for clients that are slow but never silent. Only time spent waiting for the client
     * counts. The head of a request has header_timeout in total. */
    coir_time body_total_timeout; /* [1 h; COIR_NEVER: none] for a whole body: then 408 */
    size_t rate_min; /* [100; COIR_UNLIMITED: no rate is asked for] bytes a second of a body that is
                      * sent, or of an answer that is read. A client that falls behind by
                      * body_timeout gets 408; by write_timeout, it is dropped. */

    /* When the server ends a connection by its own decision, it goes on reading and discarding: the
     * rest of the request, and requests behind it. Without that, they would reset the connection,
     * and the client could lose the answer. It stops after 2 s of silence. */
    coir_time linger_timeout; /* [30 s; COIR_NEVER: none] at most */
    size_t linger_max;        /* [64 MiB; COIR_UNLIMITED: any] bytes at most */

    /* [false] a half-close cancels the handler: see coir_request_set_end_cancels */
    bool end_cancels;

    coir_layer_fn *layer; /* [none] put over each connection, with `layer_arg`: coir_tls_layer */
    void *layer_arg;

    /* [COIR_UNLIMITED] per worker: requests that are being served or whose answers are being sent.
     * Those of WebSocket connections count while their handler runs. */
    size_t requests_max;
    /* [COIR_LIMIT_WAITS] what happens to more than connections_max or requests_max. Requests wait
     * where they are, at most idle_timeout: then they are answered by 503. To answer connections by
     * 503, as many as a sixteenth of connections_max, and 8, are accepted beyond it. */
    enum coir_at_limit at_limit;
    coir_time retry_after; /* [1 s] what 503 tells such a client to wait, in whole seconds */

    /* [false] what serving needs is allocated before the first connection is accepted, with all of
     * its pages, and no more later: connections_max and requests_max must be set, and each request
     * has arena_max bytes then, by default 16 KiB; for WebSocket also websockets_max. FastCGI is
     * part of it where its clients are made before. Layers (TLS) and what handlers allocate
     * themselves are not. */
    bool fixed_memory;
    bool lock_memory; /* [false] and what the process has by then is locked: see mlockall(2) */

    /* [COIR_UNLIMITED; with fixed_memory none] per worker: WebSocket connections. A request for
     * another one is answered by 503. */
    size_t websockets_max;
    /* [the defaults; with fixed_memory a message_max of 4 KiB, and an items_max of 16] of WebSocket
     * connections: what a handler gives no options for, or leaves 0 in message_max, items_max and
     * bytes_max. In fixed memory each connection has room for items_max + 6 messages of message_max
     * bytes, and none may have more; compression is by COIR_WS_COMPRESS_MESSAGES. Copied, but for
     * its strings. */
    const struct coir_ws_options *websocket_options;
} coir_serve_http_options;

#define COIR_SERVE_HTTP_OPTIONS                                                                    \
    {                                                                                              \
        sizeof(coir_serve_http_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, false, \
            0, 0, 0, COIR_LIMIT_WAITS, 0, false, false, 0, 0                                       \
    }

/* Serves HTTP until cancelled. Every worker accepts and answers. Cancelled, it takes what the
 * backlog holds and closes the listener's descriptor, closes idle connections, lets requests in
 * progress finish until drain_timeout, and cancels what is left.
 * Suspends: yes.  Threads: worker.
 * Errors: those of coir_tcp_listen; -EINVAL no address, no router, or bad options (both of address
 * and listener, or neither), of which a log line names a negative time; -ECANCELED.
 * Cancel safety: that is how it is stopped. */
COIR_SUSPENDS int coir_serve_http(const char *address, coir_router *router);

/* Serves HTTP as the options say, until cancelled. As coir_serve_http.
 * Errors also: -COIR_EUNSIZED; -COIR_ENEWER. */
COIR_SUSPENDS int coir_serve_http_with(const coir_serve_http_options *options, coir_router *router);

/* ---- requests: all strings live as long as the request. A call without a request, or without a
 * name, is misuse, and answers as for what is not there. One for whose string there is no memory
 * (arena_max) returns "", or NULL for what it would have to decode: then no answer of the handler's
 * can begin any more (-ENOMEM), and the client gets 503 ---- */

/* The method of a request, as it was sent.
 * Suspends: no.  Threads: owner. */
COIR_API const char *coir_request_method(const coir_request *req);

/* The path of a request, as it was sent, without the query; "/" if there is none, as in
 * "http://host?query".
 * Suspends: no.  Threads: owner. */
COIR_API const char *coir_request_path(const coir_request *req);

/* The query of a request, as it was sent, without the question mark; "" without one.
 * Suspends: no.  Threads: owner. */
COIR_API const char *coir_request_query(const coir_request *req);

/* The host that a request is for; "" without one.
 * Suspends: no.  Threads: owner. */
COIR_API const char *coir_request_host(const coir_request *req);

/* The server's own pointer: `context` of coir_serve_http_options.
 * Suspends: no.  Threads: owner. */
COIR_API void *coir_request_context(const coir_request *req);

/* The connection of a request. coir_stream_peer tells who is at its other end, coir_tls_describe
 * what TLS has agreed on. What is read from it or written to it is the server's business.
 * Suspends: no.  Threads: owner.  Owns: the server, until the request ends. */
COIR_API const coir_stream *coir_request_stream(const coir_request *req);

/* The value of a header field, or NULL; the first, if there are more. Case does not matter in
 * names.
 * Suspends: no.  Threads: owner. */
COIR_API const char *coir_request_header(const coir_request *req, const char *name);

/* What stood in the place of {name} or {name...} in the route's pattern, decoded; or NULL.
 * Suspends: no.  Threads: owner. */
COIR_API const char *coir_request_param(const coir_request *req, const char *name);

/* A parameter of the query, decoded; or NULL.
 * Suspends: no.  Threads: owner. */
COIR_API const char *coir_request_query_value(const coir_request *req, const char *name);

/* Memory that goes when the request ends, or NULL at arena_max.
 * Suspends: no.  Threads: owner.  Owns: the memory is the request's. */
COIR_API void *coir_request_alloc(coir_request *req, size_t size);

/* The declared length of a request's body, or -1 when it comes in chunks.
 * Suspends: no.  Threads: owner.
 * Errors: -EINVAL there is no request. */
COIR_API int64_t coir_request_length(const coir_request *req);

/* Sets whether a client that closes its direction (a FIN) cancels this handler. Without this call
 * the server's end_cancels says so. The default is no: a client may send its request, close its
 * direction and wait for the answer; HTTP allows it, and scripts do it. Yes is for handlers that
 * wait long for something else, such as events: most clients that leave close orderly, and the
 * handler would not notice before it writes. A reset or a hang-up cancels in any case.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_request_set_end_cancels(coir_request *req, bool cancels);

/* The server of a request being asked to stop, as a case of coir_select: for handlers that answer
 * for as long as their client stays. They have drain_timeout to end. As coir_event_wait. */
COIR_API coir_case coir_case_drain(coir_request *req);

/* Reads some of a request's body, and returns the count; 0 is its end. The server discards what a
 * handler leaves unread, up to 64 KiB. If more than that is still to come when the answer begins,
 * or chunks that have not been received, the answer says "Connection: close". One exception: a
 * handler that has read some of the body before coir_response_begin is expected to read the rest
 * while it answers (an echo, a conversion); the connection ends behind that answer only if the
 * handler did not.
 * Suspends: yes.  Threads: owner.
 * Errors: -COIR_EPROTOCOL bad chunks; -COIR_ETOOLARGE past body_max; -COIR_EEND the client went
 * away; -ETIME body_timeout, body_total_timeout or rate_min (each of these from then on);
 * -EINVAL no request or no buffer; -EXDEV on another worker.
 * Cancel safety: nothing is lost. */
COIR_SUSPENDS ssize_t coir_request_read(coir_request *req, void *buf, size_t len);

/* Reads the rest of a request's body, at most `max` bytes, into memory of the request. Returns its
 * length; *ret_body is followed by a NUL. A handler that returns -COIR_ETOOLARGE gets its client a
 * 413.
 * Suspends: yes.  Threads: owner.
 * Errors: those of coir_request_read; -COIR_ETOOLARGE longer than `max`; -ENOMEM at arena_max;
 * -EINVAL no ret_body.
 * Cancel safety: an unknown part has been read and is lost. */
COIR_SUSPENDS ssize_t coir_request_body(coir_request *req, size_t max, const char **ret_body);

/* ---- responses: one a request ---- */

/* Adds a header field to a response that has not begun. Content-Length, Transfer-Encoding,
 * Connection and Date are the server's.
 * Suspends: no.  Threads: owner.
 * Errors: -EINVAL no response, or a name or a value that HTTP forbids; -EALREADY it has begun;
 * -COIR_ETOOLARGE more than 8192 bytes of fields; -ENOMEM; -EXDEV on another worker. */
COIR_API int coir_response_add_header(coir_response *res, const char *name, const char *value);

/* Answers a request with a whole body.
 * Suspends: yes.  Threads: owner.
 * Errors: -EALREADY; -EINVAL no response, or a status or type that HTTP forbids; -COIR_ETOOLARGE
 * type and fields are longer than 8192 bytes; -EXDEV on another worker; -ENOMEM, also because there
 * was none for a string of the request; those of coir_write.
 * Cancel safety: an unknown part has been sent; the connection ends after the handler. */
COIR_SUSPENDS int coir_respond(coir_response *res, int status, const char *content_type,
                               const void *body, size_t len);

/* Answers a request with a text of type text/plain, formatted as by printf. As coir_respond. */
COIR_SUSPENDS int coir_respond_text(coir_response *res, int status, const char *format, ...)
    COIR_PRINTF(3, 4);

/* Begins a response whose body is written piece by piece. The body has `length` bytes (-1:
 * unknown, it is sent in chunks), and ends when the handler returns. A body that turns out too
 * short ends the connection.
 * Suspends: yes.  Threads: owner.
 * Errors: those of coir_respond; -EINVAL a length below -1.
 * Cancel safety: an unknown part has been sent; the connection ends after the handler. */
COIR_SUSPENDS int coir_response_begin(coir_response *res, int status, const char *content_type,
                                      int64_t length);

/* Writes a piece of a response's body.
 * Suspends: yes, while the client does not take what was written.  Threads: owner.
 * Errors: -EINVAL no response, not begun, or more than was announced; those of coir_write; -ETIME
 * write_timeout or rate_min; -EXDEV on another worker.
 * Cancel safety: an unknown part has been sent; the connection ends after the handler. */
COIR_SUSPENDS int coir_response_write(coir_response *res, const void *data, size_t len);

/* Sends what was written of a response so far on its way.
 * Suspends: yes.  Threads: owner.
 * Errors: those of coir_response_write.
 * Cancel safety: an unknown part has been sent; the connection ends after the handler. */
COIR_SUSPENDS int coir_response_flush(coir_response *res);

/* ---- counters of the servers of the calling worker's runtime, summed over its workers ---- */

/* What the servers of a runtime count; coir_http_counters_get fills it in. */
typedef struct coir_http_counters {
    size_t size; /* sizeof(coir_http_counters), set by COIR_HTTP_COUNTERS: so much is filled in */
    uint64_t connections;      /* that were accepted */
    uint64_t connections_live; /* that have not ended */
    uint64_t requests;         /* whose head was complete */
    uint64_t errors_sent;      /* answers 4xx and 5xx that the server gave by itself: to what is no
                                * request, is refused, or got no answer from its handler */
    uint64_t refused;          /* connections and requests beyond connections_max, requests_max and
                                * websockets_max that were answered by 503, or closed */
} coir_http_counters;

#define COIR_HTTP_COUNTERS                        \
    {                                             \
        sizeof(coir_http_counters), 0, 0, 0, 0, 0 \
    }

/* Reads the counters of the HTTP servers of the calling worker's runtime, summed over its workers.
 * They are approximate while the workers run.
 * Suspends: no.  Threads: worker.
 * Errors: -COIR_EUNSIZED; -EINVAL no ret_counters. */
COIR_API int coir_http_counters_get(coir_http_counters *ret_counters);

#ifdef __cplusplus
}
#endif

#endif
