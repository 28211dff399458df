/* Requests and answers on one connection, in a fiber: from the bytes that woke it to the moment
 * when there are none left. */
#include <errno.h>
#include <string.h>

#include "web/http.h"

/* Answers that are longer need the client's leave to be sent: TCP begins with about ten segments
 * (RFC 6928). What lies unsent in the system's buffer is lost when bytes that nobody reads turn a
 * close into a reset. */
enum { SENT_AT_ONCE = 8 * 1024 };

/* ---- sending ---- */

/* Waits until the client has read some. */
static ssize_t write_some(struct ci_exchange *exchange, const char *data, size_t len)
{
    const coir_serve_http_options *options = exchange->server->options;
    coir_time start = coir_now();
    COIR_DEADLINE(ci_time_after(start, ci_pace_left(&exchange->taking, options->write_timeout)));
    ssize_t n = coir_write(exchange->stream, data, len);
    ci_pace_add(&exchange->taking, options->rate_min, coir_now() - start, n > 0 ? (size_t)n : 0);
    return n;
}

/* Everything, as fast as the client takes it. */
static int send_all(struct ci_exchange *exchange, const char *data, size_t len)
{
    while (len && !exchange->error) {
        ssize_t n = coir_task_interrupted();
        if (n == 0) {
            n = coir_try_write(exchange->stream, data, len);
            ci_spend(ci_worker_current);
            if (ci_unlikely(exchange->taking.behind) && n > 0)
                ci_pace_add(&exchange->taking, exchange->server->options->rate_min, 0, (size_t)n);
        }
        if (n == -EAGAIN)
            n = write_some(exchange, data, len);
        if (n < 0) {
            exchange->error = (int)n;
            break;
        }
        data += n;
        len -= (size_t)n;
        exchange->sent += (size_t)n;
    }
    return exchange->error;
}

int ci_exchange_flush(struct ci_exchange *exchange)
{
    size_t len = exchange->out_len;
    exchange->out_len = 0;
    return send_all(exchange, exchange->out, len);
}

char *ci_exchange_room(struct ci_exchange *exchange, size_t len)
{
    if (len > CI_HTTP_BUFFER - exchange->out_len && ci_exchange_flush(exchange) < 0)
        return NULL;
    return exchange->out + exchange->out_len;
}

int ci_exchange_send(struct ci_exchange *exchange, const void *data, size_t len)
{
    if (len > CI_HTTP_BUFFER - exchange->out_len && ci_exchange_flush(exchange) < 0)
        return exchange->error;
    if (len > CI_HTTP_BUFFER)
        return send_all(exchange, data, len);
    memcpy(exchange->out + exchange->out_len, data, len);
    exchange->out_len += len;
    return exchange->error;
}

/* ---- receiving ---- */

/* Makes room at the end of the input: everything before the body's unread bytes may go, but not the
 * head in front of them. */
static void make_room(struct ci_exchange *exchange, size_t keep_from, size_t *at)
{
    size_t unread = exchange->in_len - *at;
    memmove(exchange->in + keep_from, exchange->in + *at, unread);
    *at = keep_from;
    exchange->in_len = keep_from + unread;
}

ssize_t ci_exchange_try_fill(struct ci_exchange *exchange)
{
    ssize_t n = coir_try_read(exchange->stream, exchange->in + exchange->in_len,
                              CI_HTTP_BUFFER - exchange->in_len);
    ci_spend(ci_worker_current);
    if (n > 0)
        exchange->in_len += (size_t)n;
    return n;
}

static ssize_t read_until(struct ci_exchange *exchange, coir_time deadline)
{
    /* the client may be waiting for the answers before it sends more */
    int rc = ci_exchange_flush(exchange);
    if (rc < 0)
        return rc;
    COIR_DEADLINE(deadline);
    ssize_t n = coir_read(exchange->stream, exchange->in + exchange->in_len,
                          CI_HTTP_BUFFER - exchange->in_len);
    if (n > 0)
        exchange->in_len += (size_t)n;
    return n;
}

ssize_t ci_exchange_fill(struct ci_exchange *exchange, coir_time timeout, coir_time *waited)
{
    size_t head_end = exchange->in_start + exchange->head.line;
    if (exchange->body_at > head_end)
        make_room(exchange, head_end, &exchange->body_at);
    ssize_t n = ci_exchange_try_fill(exchange);
    if (n != -EAGAIN)
        return n;
    coir_time start = coir_now();
    n = read_until(exchange, ci_time_after(start, timeout));
    *waited += coir_now() - start;
    return n;
}

/* ---- a client that goes away while a handler waits ---- */

/* Before the fiber parks in a handler: sends the gathered output as far as possible without
 * waiting, and starts the watch for a hang-up. A fiber that yields because its budget is spent is
 * ready to run: its output keeps gathering. */
static void before_park(void *arg)
{
    struct ci_exchange *exchange = arg;
    bool budget_spent = ci_worker_current->budget <= 0;
    if (exchange->out_len && !budget_spent) {
        ssize_t n = coir_try_write(exchange->stream, exchange->out, exchange->out_len);
        if (n > 0) {
            exchange->out_len -= (size_t)n;
            memmove(exchange->out, exchange->out + n, exchange->out_len);
        }
    }
    ci_hangup_start(&exchange->hangup);
}

static void watch_client(struct ci_exchange *exchange)
{
    struct ci_fiber *fiber = ci_worker_current->fiber;
    fiber->before_park = before_park;
    fiber->before_park_arg = exchange;
}

static void unwatch_client(struct ci_exchange *exchange)
{
    ci_worker_current->fiber->before_park = NULL;
    ci_hangup_stop(&exchange->hangup);
}

void coir_request_set_end_cancels(coir_request *req, bool cancels)
{
    ci_hangup_set_end_cancels(&req->exchange->hangup, cancels);
}

/* ---- one request ---- */

static bool known_method(const char *method, size_t len)
{
    static const char *const methods[] = {"GET",    "HEAD",  "POST",   "PUT",
                                          "DELETE", "PATCH", "OPTIONS"};
    for (size_t i = 0; i < ci_countof(methods); i++)
        if (strlen(methods[i]) == len && memcmp(methods[i], method, len) == 0)
            return true;
    return false;
}

static int answer_without_route(struct ci_exchange *exchange, coir_response *response)
{
    const char *bytes = exchange->in + exchange->in_start,
               *method = bytes + exchange->head.method.at;
    size_t method_len = exchange->head.method.len;
    char allow[256];
    bool every = exchange->head.form == CI_TARGET_ASTERISK;
    if (!known_method(method, method_len))
        return coir_respond_text(response, 501, "501 Not Implemented\n");
    if (!exchange->match.path_known && !every)
        return coir_respond_text(response, 404, "404 Not Found\n");
    ci_router_allow(exchange->server->router, bytes + exchange->head.path.at,
                    exchange->head.path.len, allow, sizeof allow);
    /* RFC 9110, 15.5.6: it must be there */
    int rc = coir_response_add_header(response, "Allow", allow);
    if (rc < 0)
        return rc;
    if (method_len == 7 && memcmp(method, "OPTIONS", 7) == 0)
        return ci_response_start(response, 204, NULL, 0);
    return coir_respond_text(response, 405, "405 Method Not Allowed\n");
}

/* Routes and answers the request whose head is complete. False: the connection closes. */
static bool answer(struct ci_exchange *exchange)
{
    const struct ci_http1_head *head = &exchange->head;
    const char *bytes = exchange->in + exchange->in_start;
    coir_response response = {.exchange = exchange};
    coir_request request = {.exchange = exchange, .response = &response};
    exchange->continue_due = head->expects_continue && exchange->in_len == exchange->body_at;
    exchange->body_begun = false;
    ci_bump(&exchange->server->http->requests);
    if (head->content_length > 0 &&
        (uint64_t)head->content_length > exchange->server->options->body_max) {
        exchange->unread = true;
        ci_respond_error(exchange, 413);
        return false;
    }
    const char *path = head->path.len ? bytes + head->path.at : "/";
    ci_router_match(exchange->server->router, bytes + head->method.at, head->method.len, path,
                    head->path.len ? head->path.len : 1, &exchange->match);
    ci_arena_init(&exchange->arena, &exchange->server->http->blocks,
                  exchange->server->options->arena_max);
    exchange->hangup.end_cancels = exchange->server->options->end_cancels;
    watch_client(exchange);
    int rc = exchange->match.route
                 ? exchange->match.route->handler(&request, &response, exchange->match.route->arg)
                 : answer_without_route(exchange, &response);
    if (ci_forked())
        ci_exit_child(rc);
    unwatch_client(exchange);
    int ended = rc >= 0 && response.begun ? ci_response_end(&response) : 0;
    if (ci_unlikely(rc != 0 || ended < 0 || !response.begun))
        ci_request_report(&request, rc, ended);
    bool go_on = rc >= 0 && ended >= 0 && !exchange->error;
    if (!response.begun && !exchange->error && !coir_task_interrupted()) {
        ci_respond_error(exchange, request.body_error ? request.body_error : 500);
        go_on = false;
    }
    ci_arena_reset(&exchange->arena);
    ci_spend(ci_worker_current); /* bounds pipelined requests and handlers that never suspend */
    if (!go_on || response.close) {
        exchange->unread = exchange->body.state != CI_BODY_DONE;
        return false;
    }
    exchange->unread = !ci_request_discard(&request);
    return !exchange->unread;
}

/* ---- the connection's turn ---- */

enum outcome { ANSWERED, NO_MORE, CLOSED };

/* More of a head. A client that takes its time is waited for without a stack: *ret_aside. */
static ssize_t read_head(struct ci_exchange *exchange, coir_time deadline, bool *ret_aside)
{
    ssize_t n = ci_exchange_try_fill(exchange);
    if (n != -EAGAIN)
        return n;
    if (coir_now() >= deadline)
        return -ETIME;
    *ret_aside = ci_http_partial_save(exchange, deadline);
    return *ret_aside ? n : read_until(exchange, deadline);
}

/* Whether all that has come is the beginning of an empty line, which is no request (RFC 9112, 2.2).
 */
static bool is_lone_cr(const struct ci_exchange *exchange)
{
    size_t len = exchange->in_len - exchange->in_start;
    return !exchange->head.has_request_line && len == exchange->head.line + 1 &&
           exchange->in[exchange->in_len - 1] == '\r';
}

/* When the client must have sent the rest. Only a request puts the idle timeout off. */
static coir_time head_deadline(const struct ci_exchange *exchange, bool lone_cr)
{
    const struct ci_http_connection *connection = exchange->connection;
    const coir_serve_http_options *options = exchange->server->options;
    if (!lone_cr)
        return coir_in(options->header_timeout);
    if (connection->served)
        return coir_in(options->idle_timeout);
    return ci_timer_started(&connection->timer) ? connection->timer.when : coir_now();
}

/* Gets the next request's head. */
static enum outcome next_head(struct ci_exchange *exchange)
{
    const coir_serve_http_options *options = exchange->server->options;
    struct ci_http1_limits limits = {(uint32_t)options->line_max, (uint32_t)options->head_max};
    coir_time deadline = COIR_NEVER;
    bool aside = false, lone_cr = false;
    if (exchange->connection->partial) {
        deadline = ci_http_partial_restore(exchange);
        lone_cr = is_lone_cr(exchange);
    } else {
        ci_http1_head_init(&exchange->head);
    }
    for (;;) {
        size_t len = exchange->in_len - exchange->in_start;
        int rc = ci_http1_parse(&exchange->head, &limits, exchange->in + exchange->in_start, len);
        if (ci_likely(rc > 0))
            return ANSWERED;
        if (rc < 0) {
            exchange->unread = true;
            ci_respond_error(exchange, -rc);
            return CLOSED;
        }
        bool begun = exchange->head.has_request_line || len > exchange->head.line,
             was_lone_cr = lone_cr;
        if (!begun)
            return NO_MORE; /* nothing, or empty lines */
        lone_cr = is_lone_cr(exchange);
        if (deadline == COIR_NEVER || lone_cr != was_lone_cr)
            deadline = head_deadline(exchange, lone_cr);
        if (exchange->in_start)
            make_room(exchange, 0, &exchange->in_start);
        ssize_t n = read_head(exchange, deadline, &aside);
        if (aside)
            return NO_MORE;
        exchange->unread = true;
        if (n == -ETIME && !coir_task_interrupted() && !lone_cr)
            ci_respond_error(exchange, 408);
        if (n <= 0)
            return CLOSED;
    }
}

/* Whether closing at once could reset the connection before the client has the answer (RFC
 * 9112, 9.6). A client that wanted to keep it learns of the end only from the answer, and may have
 * sent more by then. */
static bool may_lose_answer(const struct ci_exchange *exchange)
{
    return exchange->unread || exchange->in_len > exchange->body_at || exchange->head.keep_alive ||
           exchange->sent > SENT_AT_ONCE;
}

/* The head stays where it is while a handler runs: a body of which more is to come needs the room
 * behind it. */
static void make_room_for_body(struct ci_exchange *exchange)
{
    const struct ci_http1_head *head = &exchange->head;
    size_t there = exchange->in_len - exchange->in_start - head->line;
    if (exchange->in_start && (head->chunked || head->content_length > (int64_t)there))
        make_room(exchange, 0, &exchange->in_start);
}

static enum ci_http_verdict serve(struct ci_exchange *exchange)
{
    ssize_t n = exchange->connection->partial
                    ? 0
                    : coir_try_read(exchange->stream, exchange->in, CI_HTTP_BUFFER);
    if (n <= 0 && !exchange->connection->partial)
        return n == -EAGAIN ? CI_HTTP_KEEP : CI_HTTP_CLOSE; /* woken for nothing, or the end */
    exchange->in_len = (size_t)n;
    for (;;) {
        enum outcome outcome = next_head(exchange);
        if (outcome == ANSWERED) {
            exchange->connection->served = true;
            make_room_for_body(exchange);
            exchange->body_at = exchange->in_start + exchange->head.line;
            ci_http1_body_init(&exchange->body, &exchange->head);
            if (answer(exchange)) {
                exchange->in_start = exchange->body_at;
                continue;
            }
            outcome = CLOSED;
        }
        if (outcome == NO_MORE && !exchange->error)
            return CI_HTTP_KEEP; /* the connection sends what has gathered */
        if (ci_exchange_flush(exchange) < 0 || coir_task_interrupted() ||
            !may_lose_answer(exchange))
            return CI_HTTP_CLOSE;
        return CI_HTTP_LINGER;
    }
}

int ci_serve_requests(void *arg)
{
    struct ci_http_connection *connection = arg;
    struct ci_pool *buffers = &connection->server->http->buffers;
    struct ci_exchange exchange;
    connection->served = false;
    exchange.connection = connection;
    exchange.server = connection->server;
    exchange.stream = connection->stream;
    ci_hangup_init(&exchange.hangup, connection->stream, &connection->task->runnable);
    exchange.in_start = exchange.in_len = exchange.out_len = 0;
    exchange.error = 0;
    exchange.taking.behind = 0;
    exchange.sent = 0;
    exchange.unread = exchange.continue_due = exchange.body_begun = false;
    exchange.body.state = CI_BODY_DONE; /* a head that is refused has none */
    exchange.body_at = 0;
    exchange.in = ci_pool_take(buffers);
    exchange.out = ci_pool_take(buffers);
    if (!exchange.in || !exchange.out)
        ci_warn(ci_worker_current, "a connection is closed: no memory for its buffers");
    connection->verdict = exchange.in && exchange.out ? serve(&exchange) : CI_HTTP_CLOSE;
    if (connection->verdict == CI_HTTP_KEEP && exchange.out_len) {
        connection->out = exchange.out;
        connection->out_at = 0;
        connection->out_len = (uint32_t)exchange.out_len;
    } else if (exchange.out) {
        ci_pool_give(buffers, exchange.out);
    }
    if (exchange.in)
        ci_pool_give(buffers, exchange.in);
    return 0;
}
