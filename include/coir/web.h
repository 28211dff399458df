/* HTTP/1.1 servers (RFC 9110, RFC 9112). A handler reads like a script: it runs in a fiber of its own, may suspend anywhere, and is
 * cancelled when its client resets or hangs up.
 *
 *   static int hello(coir_request *req, coir_response *res)
 *   {
 *       return coir_respond_text(res, 200, "Hello, %s!", coir_param(req, "name"));
 *   }
 *   coir_route(router, "GET", "/hello/{name}", hello);
 */
#ifndef COIR_WEB_H
#define COIR_WEB_H

#include <coir/tcp.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coir_request coir_request;
typedef struct coir_response coir_response;
typedef struct coir_router coir_router;

/* 0, or a negative error: then the client gets 500, if nothing was answered yet, or a connection that ends too early. */
typedef int coir_handler_fn(coir_request *req, coir_response *res);

/* ---- routes ---- */

/* Makes and frees a table of routes.
 * Suspends: no.  Threads: any.  Owns: *ret_router is the caller's; it must outlive the servers that use it.  Errors: -ENOMEM. */
COIR_API int coir_router_new(coir_router **ret_router);
COIR_API void coir_router_free(coir_router *router);

/* Answers `method` on paths that match `pattern`: "/", "/a/b", or with segments that may be anything, "/a/{name}". Path and pattern are
 * compared decoded: "/caf%C3%A9" is "/café", but "%2F" is no separator. A pattern has no '*', '?' or '#' (write a literal star as "%2A").
 * The first route that matches wins. HEAD is answered by GET's handler, without the body, unless it has a route. Not while a server uses
 * the router.
 * Suspends: no.  Threads: any.
 * Errors: -EINVAL bad pattern; -EEXIST an earlier route of this method takes all that this one could match; -ENOMEM. */
COIR_API int coir_route(coir_router *router, const char *method, const char *pattern, coir_handler_fn *handler);

/* What handlers get from coir_request_context.
 * Suspends: no.  Threads: any. */
COIR_API void coir_router_set_context(coir_router *router, void *context);

/* ---- serving ---- */

typedef struct coir_http_options {
    size_t size;              /* sizeof(coir_http_options), set by COIR_HTTP_OPTIONS */
    coir_time header_timeout; /* [10 s; COIR_NEVER: none] from the first byte of a request to the end of its head: then 408 */
    coir_time idle_timeout;   /* [60 s; COIR_NEVER: none] between requests: then the connection is closed */
    coir_time body_timeout;   /* [30 s; COIR_NEVER: none] without a byte of a body that a handler reads: then 408 */
    coir_time write_timeout;  /* [60 s; COIR_NEVER: none] without the client taking a byte: then the connection is dropped */
    coir_time drain_timeout;  /* [10 s; COIR_NEVER: none] for requests in progress when the server is asked to stop */
    size_t line_max;          /* [8000] bytes of a request line: past it 414 */
    size_t head_max;          /* [8192, at most 12288] bytes of a head: past it 431 */
    uint64_t body_max;        /* [1 GiB] bytes of a body: past it 413 */
    size_t connections_max;   /* [0: no limit] per worker; past it, connections wait in the backlog */
    size_t arena_max;         /* [1 MiB] memory that one request may take from its arena */

    /* Clients that are slow but never silent. Only time counts in which the server waits for the client. */
    coir_time body_total_timeout; /* [1 h] for the whole of a body: then 408 */
    size_t rate_min; /* [100] bytes a second of a body, and of an answer. Who is behind it by body_timeout gets 408; who takes an
                      * answer too slowly, by write_timeout, is dropped. A head has header_timeout as a whole. */

    /* After an answer that ends the connection before its request was read: what the client still sends is thrown away, so that it
     * gets to see the answer. Two seconds of silence end that too. */
    coir_time linger_timeout; /* [30 s] for how long */
    size_t linger_max;        /* [64 MiB] how much */
} coir_http_options;

/* As rate_min: as slowly as it likes, while it is never silent for body_timeout or write_timeout. */
#define COIR_ANY_RATE SIZE_MAX

#define COIR_HTTP_OPTIONS                                                   \
    {                                                                       \
        sizeof(coir_http_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
    }

/* Serves until cancelled: every worker accepts and answers. Cancelled, it stops accepting, closes idle connections, lets requests in
 * progress finish until drain_timeout, and cancels what is left. `options` may be NULL.
 * Suspends: yes.  Threads: worker.  Errors: those of coir_tcp_listen; -EINVAL bad options; -ECANCELED.
 * Cancel safety: that is how it is stopped. */
COIR_SUSPENDS int coir_serve_http(const char *address, coir_router *router, const coir_http_options *options);

/* The same on a listener of the caller's. */
COIR_SUSPENDS int coir_serve_http_on(coir_listener *listener, coir_router *router, const coir_http_options *options);

/* ---- requests: all strings live as long as the request ---- */

/* What a request says.
 * Suspends: no.  Threads: owner. */
COIR_API const char *coir_request_method(coir_request *req);
COIR_API const char *coir_request_path(coir_request *req);  /* as sent, without the query */
COIR_API const char *coir_request_query(coir_request *req); /* as sent; "" without one */
COIR_API const char *coir_request_host(coir_request *req);  /* "" without one */
COIR_API void *coir_request_context(coir_request *req);

/* A header field's value (the first, if there are more), or NULL. */
COIR_API const char *coir_header(coir_request *req, const char *name);

/* What stood in the place of {name} in the route's pattern, decoded; or NULL. */
COIR_API const char *coir_param(coir_request *req, const char *name);

/* A parameter of the query, decoded; or NULL. */
COIR_API const char *coir_query(coir_request *req, const char *name);

/* Memory that goes when the request ends, or NULL at arena_max. */
COIR_API void *coir_request_alloc(coir_request *req, size_t size);

/* The body's declared length, or -1 when it comes in chunks. */
COIR_API int64_t coir_request_length(coir_request *req);

/* Reads some of the body: the count, 0 at its end. What a handler leaves unread is thrown away. An answer that begins while more of the
 * body is to come than will be thrown away (64 KiB, or chunks that have not come) says "Connection: close".
 * Suspends: yes.  Threads: owner.
 * Errors: -COIR_EPROTOCOL bad chunks; -COIR_ETOOLARGE past body_max; -COIR_EEND the client went away; -ETIME body_timeout,
 * body_total_timeout or rate_min.
 * Cancel safety: nothing is lost. */
COIR_SUSPENDS ssize_t coir_request_read(coir_request *req, void *buf, size_t len);

/* Reads all that is left of the body, `max` bytes at most, into memory that goes with the request: its length, and *ret_body with a NUL
 * behind it. A handler that returns -COIR_ETOOLARGE has its client answered 413.
 * Suspends: yes.  Threads: owner.
 * Errors: those of coir_request_read; -COIR_ETOOLARGE it is longer than `max`; -ENOMEM at arena_max.
 * Cancel safety: an unknown part has been read, and is lost. */
COIR_SUSPENDS ssize_t coir_request_body(coir_request *req, size_t max, const char **ret_body);

/* ---- responses: one a request ---- */

/* Adds a header field to a response that has not begun. Content-Length, Transfer-Encoding, Connection and Date are the server's.
 * Suspends: no.  Threads: owner.
 * Errors: -EINVAL a name or a value that HTTP forbids; -EALREADY it has begun; -COIR_ETOOLARGE the fields, with the content type, would
 * pass 8192 bytes; -ENOMEM. */
COIR_API int coir_response_header(coir_response *res, const char *name, const char *value);

/* Answers with a whole body.
 * Suspends: yes.  Threads: owner.
 * Errors: -EALREADY; -EINVAL a status or type that HTTP forbids; -COIR_ETOOLARGE the type is too long; those of coir_write.
 * Cancel safety: an unknown part has been sent; the connection ends after the handler. */
COIR_SUSPENDS int coir_respond(coir_response *res, int status, const char *content_type, const void *body, size_t len);
COIR_SUSPENDS int coir_respond_text(coir_response *res, int status, const char *format, ...) COIR_PRINTF(3, 4);

/* Begins a body of `length` bytes (-1: unknown, sent in chunks), to be written piece by piece; it ends when the handler returns. A body
 * that turns out too short ends the connection.
 * Suspends: yes.  Threads: owner.  Errors: those of coir_respond.
 * Cancel safety: an unknown part has been sent; the connection ends after the handler. */
COIR_SUSPENDS int coir_response_begin(coir_response *res, int status, const char *content_type, int64_t length);

/* Writes a piece of the body.
 * Suspends: yes, while the client does not take what was written.  Threads: owner.
 * Errors: -EINVAL not begun, or more than was announced; those of coir_write; -ETIME write_timeout or rate_min.
 * Cancel safety: an unknown part has been sent; the connection ends after the handler. */
COIR_SUSPENDS int coir_response_write(coir_response *res, const void *data, size_t len);

/* Sends what was written so far on its way.
 * Suspends: yes.  Threads: owner.  Errors: those of coir_response_write.
 * Cancel safety: an unknown part has been sent; the connection ends after the handler. */
COIR_SUSPENDS int coir_response_flush(coir_response *res);

/* ---- counters of the servers of the calling worker's runtime, summed over its workers ---- */

typedef struct coir_http_counters {
    uint64_t connections, connections_live, requests, errors_sent;
} coir_http_counters;

/* Reads them; approximate while the workers run.
 * Suspends: no.  Threads: worker. */
COIR_API void coir_http_counters_get(coir_http_counters *ret_counters);

#ifdef __cplusplus
}
#endif

#endif
