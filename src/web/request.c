/* What a handler sees of a request, and the reading of its body. */
#include <errno.h>
#include <string.h>

#include "web/http.h"

enum { DISCARD_MOST = 64 * 1024 };

static const char *bytes_of(const struct ci_exchange *exchange)
{
    return exchange->in + exchange->in_start;
}

/* A span of the head as a string of its own. */
static const char *text(const coir_request *req, struct ci_span span)
{
    const char *copy =
        ci_arena_copy(&req->exchange->arena, bytes_of(req->exchange) + span.at, span.len);
    return copy ? copy : "";
}

const char *coir_request_method(const coir_request *req)
{
    return text(req, req->exchange->head.method);
}

const char *coir_request_path(const coir_request *req)
{
    return text(req, req->exchange->head.path);
}

const char *coir_request_query(const coir_request *req)
{
    return text(req, req->exchange->head.query);
}

const char *coir_request_host(const coir_request *req)
{
    return text(req, req->exchange->head.host);
}

void *coir_request_context(const coir_request *req)
{
    return req->exchange->server->options->context;
}

const char *coir_request_header(const coir_request *req, const char *name)
{
    const struct ci_http1_field *field =
        ci_http1_find(&req->exchange->head, bytes_of(req->exchange), name, strlen(name));
    return field ? text(req, field->value) : NULL;
}

static const char *decoded(const coir_request *req, const char *from, size_t len, bool plus)
{
    char *value = ci_arena_alloc(&req->exchange->arena, len + 1);
    return value && ci_url_decode(value, from, len, plus) ? value : NULL;
}

const char *coir_request_param(const coir_request *req, const char *name)
{
    const struct ci_match *match = &req->exchange->match;
    size_t len = strlen(name);
    const char *path = bytes_of(req->exchange) + req->exchange->head.path.at;
    for (int i = 0; i < match->param_count; i++) {
        const struct ci_param *param = &match->params[i];
        if (param->name.len == len &&
            memcmp(match->route->pattern + param->name.at, name, len) == 0)
            return decoded(req, path + param->value.at, param->value.len, false);
    }
    return NULL;
}

const char *coir_request_query_value(const coir_request *req, const char *name)
{
    const char *at = bytes_of(req->exchange) + req->exchange->head.query.at,
               *end = at + req->exchange->head.query.len;
    size_t len = strlen(name);
    while (at < end) {
        const char *stop = memchr(at, '&', (size_t)(end - at));
        if (!stop)
            stop = end;
        const char *equals = memchr(at, '=', (size_t)(stop - at)),
                   *key_end = equals ? equals : stop;
        if ((size_t)(key_end - at) == len && memcmp(at, name, len) == 0)
            return decoded(req, equals ? equals + 1 : stop,
                           equals ? (size_t)(stop - equals - 1) : 0, true);
        at = stop + 1;
    }
    return NULL;
}

void *coir_request_alloc(coir_request *req, size_t size)
{
    return ci_arena_alloc(&req->exchange->arena, size);
}

int64_t coir_request_length(const coir_request *req)
{
    const struct ci_http1_head *head = &req->exchange->head;
    return head->chunked ? -1 : head->content_length > 0 ? head->content_length : 0;
}

/* ---- the body ---- */

static int fail(coir_request *req, int status, int error)
{
    req->body_error = status;
    return error;
}

static int send_continue(coir_request *req)
{
    static const char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
    req->exchange->continue_due = false;
    if (req->response->begun)
        return 0; /* the final answer has been seen */
    int rc = ci_exchange_send(req->exchange, line, sizeof line - 1);
    return rc < 0 ? rc : ci_exchange_flush(req->exchange);
}

/* Waits for more of the body, within body_timeout, rate_min and body_total_timeout. */
static ssize_t receive(coir_request *req)
{
    const coir_serve_http_options *options = req->exchange->server->options;
    coir_time left = ci_pace_left(&req->sending, options->body_timeout),
              total = options->body_total_timeout - req->body_waited, waited = 0;
    if (left <= 0 || total <= 0)
        return -ETIME;
    ssize_t n = ci_exchange_fill(req->exchange, left < total ? left : total, &waited);
    req->body_waited += waited;
    ci_pace_add(&req->sending, options->rate_min, waited, n > 0 ? (size_t)n : 0);
    return n;
}

/* Eats framing until body bytes are there (1) or the body ends (0). */
static int find_data(coir_request *req, size_t *ret_data)
{
    struct ci_exchange *exchange = req->exchange;
    for (;;) {
        int64_t ate = ci_http1_body_frame(&exchange->body, exchange->in + exchange->body_at,
                                          exchange->in_len - exchange->body_at, ret_data);
        if (ate < 0)
            return fail(req, (int)-ate, -COIR_EPROTOCOL);
        exchange->body_at += (size_t)ate;
        if (exchange->body.state == CI_BODY_DONE)
            return 0;
        if (*ret_data)
            return 1;
        int rc = req->exchange->continue_due ? send_continue(req) : 0;
        if (rc < 0)
            return rc;
        ssize_t n = receive(req);
        if (n < 0 && coir_task_interrupted())
            return (int)n; /* the caller's matter: the body is unharmed */
        if (n == -ETIME)
            return fail(req, 408, -ETIME);
        if (n == -ENOMEM || n == -ENOBUFS)
            return (int)n; /* this machine's matter, not the client's: nothing was read */
        if (n <= 0)
            return fail(req, 400, n < 0 ? (int)n : -COIR_EEND);
    }
}

static ssize_t read_body(coir_request *req, void *buf, size_t len)
{
    struct ci_exchange *exchange = req->exchange;
    size_t data = 0;
    if (len == 0 || exchange->body.state == CI_BODY_DONE)
        return 0;
    if (req->body_error)
        return -COIR_EPROTOCOL;
    int rc = find_data(req, &data);
    if (rc <= 0)
        return rc;
    if (data > len)
        data = len;
    exchange->body_begun = true;
    if ((req->body_read += data) > exchange->server->options->body_max)
        return fail(req, 413, -COIR_ETOOLARGE);
    memcpy(buf, exchange->in + exchange->body_at, data);
    exchange->body_at += data;
    ci_http1_body_took(&exchange->body, data);
    return (ssize_t)data;
}

/* Spends budget in every case, also at the end of the body and on errors. */
ssize_t coir_request_read(coir_request *req, void *buf, size_t len)
{
    int rc = 0;
    if (!ci_fiber_enter(&rc))
        return rc;
    ssize_t n = read_body(req, buf, len);
    ci_spend(ci_worker_current);
    return n;
}

/* ---- the whole body ---- */

enum { BODY_ROOM = 4096 };

/* A declared length plus a NUL; for chunks, twice as much each time. At most one byte more than
 * `max`, to see that there is more, and a NUL. */
static size_t room_for_body(const coir_request *req, size_t max, size_t room)
{
    const struct ci_http1_body *body = &req->exchange->body;
    size_t most = max + 2;
    size_t want = room ? 2 * room : body->chunked ? BODY_ROOM : (size_t)body->remaining + 1;
    return want < most ? want : most;
}

ssize_t coir_request_body(coir_request *req, size_t max, const char **ret_body)
{
    struct ci_exchange *exchange = req->exchange;
    const struct ci_http1_body *body = &exchange->body;
    size_t len = 0, room = 0;
    char *text = NULL;
    ssize_t n = 1;
    if (max > SIZE_MAX / 4)
        max = SIZE_MAX / 4;
    if (!body->chunked && body->remaining > max)
        return fail(req, 413, -COIR_ETOOLARGE);
    while (n > 0) {
        if (len + 1 >= room) {
            size_t wider = room_for_body(req, max, room);
            char *grown = ci_arena_alloc(&exchange->arena, wider);
            if (!grown)
                return -ENOMEM;
            if (len)
                memcpy(grown, text, len);
            text = grown;
            room = wider;
        }
        if ((n = coir_request_read(req, text + len, room - 1 - len)) < 0)
            return n;
        if ((len += (size_t)n) > max)
            return fail(req, 413, -COIR_ETOOLARGE);
        if (!body->chunked && body->state == CI_BODY_DONE)
            break;
    }
    text[len] = '\0';
    *ret_body = text;
    return (ssize_t)len;
}

/* ---- the rest of it ---- */

/* The length of a chunked body is unknown: true if its end is in the input buffer. */
static bool chunks_are_here(const struct ci_exchange *exchange)
{
    struct ci_http1_body body = exchange->body;
    size_t at = exchange->body_at, data = 0;
    while (body.state != CI_BODY_DONE && at < exchange->in_len) {
        int64_t ate = ci_http1_body_frame(&body, exchange->in + at, exchange->in_len - at, &data);
        if (ate < 0)
            return false;
        at += (size_t)ate + data;
        if (data)
            ci_http1_body_took(&body, data);
    }
    return body.state == CI_BODY_DONE;
}

bool ci_body_end_is_near(struct ci_exchange *exchange)
{
    const struct ci_http1_body *body = &exchange->body;
    if (body->state == CI_BODY_DONE)
        return true;
    if (exchange->continue_due && ci_exchange_try_fill(exchange) > 0)
        exchange->continue_due = false; /* it did not wait: the body is on its way */
    if (exchange->continue_due)
        return false;
    return body->chunked ? chunks_are_here(exchange) : body->remaining <= DISCARD_MOST;
}

bool ci_request_discard(coir_request *req)
{
    struct ci_exchange *exchange = req->exchange;
    if (req->body_error)
        return false;
    if (exchange->body.state == CI_BODY_DONE)
        return true;
    if (req->exchange->continue_due)
        return false; /* the client waits for leave to send: whether a body follows is unknown */
    if (!exchange->body.chunked && exchange->body.remaining > DISCARD_MOST)
        return false; /* the answer began while the handler was reading, and it stopped */
    for (size_t thrown = 0; thrown <= DISCARD_MOST;) {
        size_t data = 0;
        int rc = find_data(req, &data);
        if (rc <= 0)
            return rc == 0;
        exchange->body_at += data;
        ci_http1_body_took(&exchange->body, data);
        thrown += data;
    }
    return false;
}
