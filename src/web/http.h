/* What the parts of the HTTP server share.
 *
 * 1. A connection without a request in progress is a stackless task: it waits for its stream and
 * owns no buffer and no parser.
 * 2. When bytes come, it calls serve_requests on a stack: that takes the buffers, answers what has
 * come, and gives everything back. A part of a head is kept in memory of its size meanwhile
 * (partial.c).
 * 3. Answers gather in the output buffer while more requests are waiting in the input; they are
 * sent in one write, or before the fiber waits for anything at all.
 * 4. While a handler waits, the connection is watched: a reset or a hang-up cancels the task.
 */
#ifndef CI_WEB_HTTP_H
#define CI_WEB_HTTP_H

#include "base/arena.h"
#include "base/time.h"
#include "coir/web.h"
#include "io/hangup.h"
#include "io/serve.h"
#include "proto/http1.h"
#include "task/timer.h"

enum {
    CI_HTTP_BUFFER = 16 * 1024,
    CI_HTTP_HEAD_MOST = 12 * 1024,
    CI_HTTP_PARAMS = 8,
    CI_HTTP_EXTRA_MOST = 8 * 1024,
    CI_HTTP_RATE_MOST = 1 << 30
};

/* ---- routes ---- */

struct ci_route {
    const char *method, *pattern;
    size_t method_len, pattern_len;
    bool has_params, has_escapes;
    coir_handler_fn *handler;
    void *arg;
};

struct coir_router {
    struct ci_route *routes;
    size_t count, capacity;
    coir_allocator allocator;
};

struct ci_param {
    struct ci_span name;  /* in the pattern */
    struct ci_span value; /* in the path */
};

struct ci_match {
    const struct ci_route *route; /* NULL: none for this method */
    bool path_known, path_has_escapes;
    struct ci_param params[CI_HTTP_PARAMS];
    int param_count;
};

void ci_router_match(const coir_router *router, const char *method, size_t method_len,
                     const char *path, size_t path_len, struct ci_match *ret_match);

/* "GET, HEAD, POST": what the path may be asked for; `*` stands for every path. Returns the length.
 */
size_t ci_router_allow(const coir_router *router, const char *path, size_t path_len, char *text,
                       size_t size);

/* Decodes %XX (and + where it stands for a space) into `to`, which has room for `len` bytes and a
 * NUL. False: a bad escape or a NUL. */
bool ci_url_decode(char *to, const char *from, size_t len, bool plus);

/* ---- a worker's share of a server ---- */

struct ci_http_worker {
    struct ci_worker_extension extension;
    struct ci_worker *worker;
    struct ci_pool connections, buffers, blocks;
    uint64_t accepted, live, requests, errors_sent;
    char date[48]; /* the Date field's value */
    int64_t date_second;
};

struct ci_http_worker *ci_http_worker_of(struct ci_worker *worker);
const char *ci_http_date(struct ci_http_worker *http);

/* One acceptor's server: on one worker, for one listener. */
struct ci_http_server {
    struct ci_serving_here here;
    const coir_router *router;
    const coir_serve_http_options *options;
    struct ci_http_worker *http;
    struct ci_list idle; /* connections that wait for a request */
    bool draining;
};

/* What a connection does when its requests have been served. Lingering: the answers are sent, the
 * client is told that there will be no more, and what it sends is discarded until it closes. */
enum ci_http_verdict { CI_HTTP_CLOSE, CI_HTTP_LINGER, CI_HTTP_KEEP };

struct ci_http_connection {
    coir_future future; /* the task's root */
    coir_stream *stream;
    struct ci_http_server *server;
    struct ci_task *task;
    struct ci_timer timer;        /* the idle timeout, postponed at each request */
    enum ci_http_verdict verdict; /* what serve_requests decided */
    bool served;                  /* whether it had a request */
    bool called;                  /* it has sent something */
    /* it had an answer shortly before the drain, and may be reading it still */
    bool served_lately;
    struct ci_http_partial *partial; /* what has come of a head that is not complete; or NULL */
    union {
        struct ci_list idle; /* while it waits for a request */
        struct {             /* while the end of an answer is sent */
            char *out;       /* CI_HTTP_BUFFER bytes; NULL: nothing is left to send */
            uint32_t out_at, out_len;
        };
        struct { /* while it lingers */
            coir_time linger_end;
            size_t discarded;
        };
    };
    union { /* what it awaits */
        coir_io_op io;
        struct ci_call call;
    };
};

int ci_http_connection_start(struct ci_http_server *server, coir_stream *stream);

/* The server is draining, and the connection waits for a request: what has come already is
 * answered, and then it ends. One that has sent nothing yet is given a moment. */
void ci_http_connection_drain(struct ci_http_connection *connection);

/* ---- the pace of a client ---- */

/* How far a client is behind rate_min. Waiting for it adds to `behind`, each byte subtracts from
 * it, and it never drops below 0: a fast start does not pay for slowness later. */
struct ci_pace {
    coir_time behind;
};

/* How long to wait for the client now, at most. */
static inline coir_time ci_pace_left(const struct ci_pace *pace, coir_time timeout)
{
    return pace->behind < timeout ? timeout - pace->behind : 0;
}

static inline void ci_pace_add(struct ci_pace *pace, size_t rate_min, coir_time waited,
                               size_t bytes)
{
    pace->behind += waited;
    size_t seconds = bytes / rate_min;
    coir_time paid = seconds < 1000000
                         ? (coir_time)seconds * COIR_S +
                               (coir_time)(bytes % rate_min) * COIR_S / (coir_time)rate_min
                         : COIR_NEVER;
    pace->behind = rate_min == COIR_UNLIMITED || paid > pace->behind ? 0 : pace->behind - paid;
}

/* ---- a request in progress: on its fiber's stack ---- */

struct ci_exchange {
    struct ci_http_connection *connection;
    struct ci_http_server *server;
    coir_stream *stream;

    char *in;                /* CI_HTTP_BUFFER bytes: the head, what was read behind it */
    size_t in_start, in_len; /* where the request begins; the end of what was read */
    size_t body_at;          /* where unread body bytes, or the next request, begin */
    char *out;               /* CI_HTTP_BUFFER bytes of answers not sent yet */
    size_t out_len;
    int error; /* of the stream: nothing more can be sent */
    struct ci_pace taking;
    size_t sent;       /* bytes of answers */
    bool unread;       /* bytes that the client sent or will send are not read */
    bool continue_due; /* the client waits for leave to send the body */
    bool body_begun;   /* the handler has read some of the body */

    struct ci_hangup hangup; /* started while a handler waits */

    struct ci_http1_head head;
    struct ci_http1_body body;
    struct ci_match match;
    struct ci_arena arena;
};

struct coir_response {
    struct ci_exchange *exchange;
    char *extra; /* fields added by the handler, in the arena */
    size_t extra_len, extra_capacity;
    /* of the announced length; -1: chunked, or until the end of the connection */
    int64_t remaining;
    bool begun, chunked, no_body, close, has_type;
};

struct coir_request {
    struct ci_exchange *exchange;
    uint64_t body_read;
    coir_time body_waited; /* for bytes of the body */
    struct ci_pace sending;
    int body_error; /* the status that it calls for */
    coir_response *response;
};

int ci_serve_requests(void *connection);

/* Puts what has come of a head aside, to be waited for without a stack; false: there is no memory.
 * Gets it back: the time by which the head is to be complete. */
bool ci_http_partial_save(struct ci_exchange *exchange, coir_time deadline);
coir_time ci_http_partial_restore(struct ci_exchange *exchange);
coir_time ci_http_partial_deadline(const struct ci_http_connection *connection);
void ci_http_partial_drop(struct ci_http_connection *connection);

/* Sends everything that has gathered. */
int ci_exchange_flush(struct ci_exchange *exchange);
/* Sends `len` bytes, behind what has gathered; small pieces gather. */
int ci_exchange_send(struct ci_exchange *exchange, const void *data, size_t len);
/* Room for `len` bytes at the end of what has gathered, or NULL when the stream has failed; to be
 * claimed by adding to out_len. */
char *ci_exchange_room(struct ci_exchange *exchange, size_t len);
/* Reads more of a body into the input buffer: the count, 0 at the end. Adds the time spent waiting
 * to *waited. */
ssize_t ci_exchange_fill(struct ci_exchange *exchange, coir_time timeout, coir_time *waited);
/* The same, of what has arrived: -EAGAIN if nothing has. The input buffer must have room. */
ssize_t ci_exchange_try_fill(struct ci_exchange *exchange);

/* Begins a response with a known or unknown length; ends one. */
int ci_response_start(coir_response *res, int status, const char *type, int64_t length);
int ci_response_end(coir_response *res);
/* A whole answer about an error, after which the connection closes. */
void ci_respond_error(struct ci_exchange *exchange, int status);

/* Warns of a handler that failed, or that misused the interface. rc: what it returned; ended: what
 * ci_response_end returned. */
CI_COLD void ci_request_report(const coir_request *req, int rc, int ended);

/* Whether the rest of the body is short enough, and certain enough to arrive, to be discarded. A
 * client that expects a 100 is certain to send the body once it has begun to: looks for its bytes.
 */
bool ci_body_end_is_near(struct ci_exchange *exchange);

/* Throws away what the handler left of the body. False: the connection cannot go on. */
bool ci_request_discard(coir_request *req);

#endif
