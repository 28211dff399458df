/* Reading the body of a request: by its handler, and what the handler left of it. */
#include "web/body.h"

#include <errno.h>
#include <string.h>

#include "coir/fiber.h"
#include "task/runtime.h"

/* A rest of a body up to this long is read and discarded to keep the connection. */
enum { DISCARD_MAX = 64 * 1024 };

/* ---- a piece of it ---- */

/* The body cannot be read to its end: every read returns the error from now on, and `status` is
 * what the client is told if the handler returns it without an answer. */
static int fail(coir_request *req, int status, int error)
{
    req->body_error = status;
    req->body_failure = error;
    return error;
}

/* The client waits for this before it sends the body (RFC 9110, 10.1.1). */
static int send_continue(coir_request *req)
{
    static const char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
    req->exchange->continue_due = false;
    if (req->response->begun)
        return 0; /* the client has the final answer, which stands for a 100 */
    int rc = ci_http_output_send(&req->exchange->out, line, sizeof line - 1);
    return rc < 0 ? rc : ci_http_output_flush_to_wait(&req->exchange->out);
}

coir_time ci_body_time_left(const coir_request *req)
{
    const coir_serve_http_options *options = req->exchange->server->options;
    coir_time left = ci_pace_left(&req->sending, options->body_timeout),
              total = options->body_total_timeout - req->body_waited;
    return left < total ? left : total;
}

void ci_body_waited(coir_request *req, coir_time waited, size_t bytes)
{
    req->body_waited += waited;
    ci_pace_add(&req->sending, req->exchange->server->options->rate_min, waited, bytes);
}

/* Waits for more of the body, within body_timeout, rate_min and body_total_timeout; or looks for
 * it. */
static ssize_t receive(coir_request *req, bool wait)
{
    struct ci_exchange *exchange = req->exchange;
    size_t head_end = exchange->in.start + exchange->head.line;
    coir_time left = ci_body_time_left(req), waited = 0;
    if (left <= 0)
        return -ETIME;
    ssize_t n = wait ? ci_http_input_read_body(&exchange->in, head_end, left, &waited)
                     : ci_http_input_try_read_body(&exchange->in, head_end);
    ci_body_waited(req, waited, n > 0 ? (size_t)n : 0);
    return n;
}

/* Parses framing until body bytes are there (1) or the body ends (0); without `wait` also until
 * nothing has come (-EAGAIN). */
static int find_data(coir_request *req, size_t *ret_data, bool wait)
{
    struct ci_exchange *exchange = req->exchange;
    for (;;) {
        int64_t ate =
            ci_http1_body_frame(&exchange->body, exchange->in.bytes + exchange->in.body_at,
                                exchange->in.end - exchange->in.body_at, ret_data);
        if (ate < 0)
            return fail(req, (int)-ate, -COIR_EPROTOCOL);
        ci_http_input_take(&exchange->in, (size_t)ate);
        if (exchange->body.state == CI_BODY_DONE)
            return 0;
        if (*ret_data)
            return 1;
        int rc = req->exchange->continue_due ? send_continue(req) : 0;
        if (rc < 0)
            return rc;
        ssize_t n = receive(req, wait);
        if (n == -EAGAIN && !wait)
            return -EAGAIN;
        if (n < 0 && coir_task_interrupted())
            return (int)n; /* the task was cancelled, or its deadline has passed: nothing is lost */
        if (n == -ETIME)
            return fail(req, 408, -ETIME);
        if (ci_lacks_memory(n))
            return (int)n; /* this machine lacks it, not by the client's fault: nothing is lost */
        if (n <= 0)
            return fail(req, 400, n < 0 ? (int)n : -COIR_EEND);
    }
}

static ssize_t read_body(coir_request *req, void *buf, size_t len, bool wait)
{
    struct ci_exchange *exchange = req->exchange;
    size_t data = 0;
    if (len == 0 || exchange->body.state == CI_BODY_DONE)
        return 0;
    if (req->body_error)
        return req->body_failure ? req->body_failure : -COIR_EPROTOCOL;
    int rc = find_data(req, &data, wait);
    if (rc <= 0)
        return rc;
    if (data > len)
        data = len;
    exchange->body_begun = true;
    if ((req->body_read += data) > exchange->server->options->body_max)
        return fail(req, 413, -COIR_ETOOLARGE);
    memcpy(buf, exchange->in.bytes + exchange->in.body_at, data);
    ci_http_input_take(&exchange->in, data);
    ci_http1_body_took(&exchange->body, data);
    return (ssize_t)data;
}

/* Spends budget in every case, also at the end of the body and on errors. */
ssize_t coir_request_read(coir_request *req, void *buf, size_t len)
{
    int rc = 0;
    if (!ci_fiber_enter(&rc))
        return rc;
    if (ci_unlikely(!buf && len))
        return CI_MISUSE(-EINVAL, "buf is NULL");
    if ((rc = CI_EXCHANGE_REFUSED(req)) < 0)
        return rc;
    ssize_t n = read_body(req, buf, len, true);
    ci_spend(ci_worker_current);
    return n;
}

ssize_t ci_body_try_read(coir_request *req, void *buf, size_t len)
{
    return read_body(req, buf, len, false);
}

/* ---- the whole body ---- */

enum { BODY_ROOM = 4096 }; /* the first piece of memory for a body in chunks */

/* How much memory to take next, of which there is `room`: the declared length and a NUL; for
 * chunks, twice as much each time, but no more than `max`, one byte that shows that there is more,
 * and a NUL. */
static size_t room_for_body(const coir_request *req, size_t max, size_t room)
{
    const struct ci_http1_body *body = &req->exchange->body;
    size_t most = max + 2;
    size_t want = room ? 2 * room : body->chunked ? BODY_ROOM : (size_t)body->remaining + 1;
    return want < most ? want : most;
}

static ssize_t read_whole_body(coir_request *req, size_t max, const char **ret_body)
{
    struct ci_exchange *exchange = req->exchange;
    const struct ci_http1_body *body = &exchange->body;
    size_t len = 0, room = 0;
    char *text = NULL;
    ssize_t n = 1;
    if (max > SIZE_MAX / 4)
        max = SIZE_MAX / 4; /* so that room_for_body does not overflow */
    if (!req->body_error && !body->chunked && body->remaining > max)
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

ssize_t coir_request_body(coir_request *req, size_t max, const char **ret_body)
{
    int rc = 0;
    if (!ci_fiber_enter(&rc))
        return rc;
    if (!ret_body)
        return CI_MISUSE(-EINVAL, "ret_body is NULL");
    if ((rc = CI_EXCHANGE_REFUSED(req)) < 0)
        return rc;
    return read_whole_body(req, max, ret_body);
}

/* ---- the rest of it ---- */

/* The length of a chunked body is unknown: whether its end is in the input buffer already. */
static bool chunks_are_here(const struct ci_exchange *exchange)
{
    struct ci_http1_body body = exchange->body;
    size_t at = exchange->in.body_at, data = 0;
    while (body.state != CI_BODY_DONE && at < exchange->in.end) {
        int64_t ate =
            ci_http1_body_frame(&body, exchange->in.bytes + at, exchange->in.end - at, &data);
        if (ate < 0)
            return false;
        at += (size_t)ate + data;
        if (data)
            ci_http1_body_took(&body, data);
    }
    return body.state == CI_BODY_DONE;
}

bool ci_body_rest_is_near(struct ci_exchange *exchange)
{
    const struct ci_http1_body *body = &exchange->body;
    if (exchange->continue_due && ci_http_input_try_read(&exchange->in) > 0)
        exchange->continue_due = false; /* the client did not wait: the body is on its way */
    if (exchange->continue_due)
        return false;
    return body->chunked ? chunks_are_here(exchange) : body->remaining <= DISCARD_MAX;
}

bool ci_body_discard_rest(coir_request *req)
{
    struct ci_exchange *exchange = req->exchange;
    if (req->exchange->continue_due)
        return false; /* the client waits for a 100: whether a body follows is unknown */
    if (!exchange->body.chunked && exchange->body.remaining > DISCARD_MAX)
        return false; /* the answer began while the handler was reading, and it stopped */
    for (size_t discarded = 0; discarded <= DISCARD_MAX;) {
        size_t data = 0;
        int rc = find_data(req, &data, true);
        if (rc <= 0)
            return rc == 0;
        ci_http_input_take(&exchange->in, data);
        ci_http1_body_took(&exchange->body, data);
        discarded += data;
    }
    return false;
}
