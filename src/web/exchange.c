/* Requests and answers on one connection, in a fiber: from the bytes that woke the connection until
 * no bytes are left. */
#include "web/exchange.h"

#include <errno.h>
#include <string.h>

#include "coir/fiber.h"
#include "task/recorder.h"
#include "web/body.h"
#include "web/head.h"
#include "web/report.h"
#include "web/response.h"
#include "web/ws.h"

/* Bytes that the system can send without waiting for acknowledgements: TCP begins with about ten
 * segments (RFC 6928). What is still in the socket's buffer is lost when unread bytes turn a close
 * into a reset. */
enum { SENT_AT_ONCE = 8 * 1024 };

/* ---- while a handler waits ---- */

/* Before the fiber parks in a handler: sends the gathered output as far as possible without
 * waiting, and starts the watch for a hang-up. A fiber that yields because its budget is spent is
 * runnable: its output keeps gathering. */
static void before_park(void *arg)
{
    struct ci_exchange *exchange = arg;
    bool budget_spent = ci_budget_is_spent(ci_worker_current);
    if (ci_unlikely(exchange->socket))
        return;
    if (ci_likely(!budget_spent))
        ci_http_output_try_flush(&exchange->out);
    ci_hangup_start(&exchange->hangup);
}

static void watch_client(struct ci_exchange *exchange)
{
    struct ci_fiber *fiber = ci_worker_current->fiber;
    exchange->hangup.end_cancels = exchange->server->options->end_cancels;
    fiber->before_park = before_park;
    fiber->before_park_arg = exchange;
}

static void unwatch_client(struct ci_exchange *exchange)
{
    struct ci_fiber *fiber = ci_worker_current->fiber;
    ci_check(fiber->before_park_arg == exchange, "exchange.h 1");
    fiber->before_park = NULL;
    ci_hangup_stop(&exchange->hangup);
}

/* ---- one request ---- */

/* Those of RFC 9110, 9.3 and RFC 5789 that servers implement. */
static bool known_method(const char *method, size_t len)
{
    static const char *const methods[] = {"GET",    "HEAD",  "POST",   "PUT",
                                          "DELETE", "PATCH", "OPTIONS"};
    for (size_t i = 0; i < ci_countof(methods); i++)
        if (strlen(methods[i]) == len && memcmp(methods[i], method, len) == 0)
            return true;
    return false;
}

/* No route matches: 501 for an unknown method, 404 for an unknown path; else the path has other
 * methods, which OPTIONS asks for and 405 must name. */
static int answer_without_route(struct ci_exchange *exchange, coir_response *response)
{
    const char *bytes = ci_http_input_request(&exchange->in),
               *method = bytes + exchange->head.method.at;
    size_t method_len = exchange->head.method.len;
    char allow[256];
    bool every = exchange->head.form == CI_TARGET_ASTERISK;
    if (!known_method(method, method_len))
        return coir_respond_text(response, 501, "501 Not Implemented\n");
    if (!exchange->match.path_known && !every)
        return coir_respond_text(response, 404, "404 Not Found\n");
    ci_router_allow(exchange->server->router, exchange->target.path, exchange->target.path_len,
                    allow, sizeof allow);
    /* RFC 9110, 15.5.6: a 405 must have the field */
    int rc = coir_response_add_header(response, "Allow", allow);
    if (rc < 0)
        return rc;
    if (method_len == 7 && memcmp(method, "OPTIONS", 7) == 0)
        return ci_response_start(response, 204, NULL, 0);
    return coir_respond_text(response, 405, "405 Method Not Allowed\n");
}

static void find_route(struct ci_exchange *exchange)
{
    const struct ci_http1_head *head = &exchange->head;
    const char *bytes = ci_http_input_request(&exchange->in);
    exchange->target = (struct ci_http_target){bytes + head->path.at, bytes + head->query.at,
                                               head->path.len, head->query.len, false};
    if (ci_unlikely(head->path.len == 0)) { /* "http://host" means "/" (RFC 9112, 3.2.2) */
        exchange->target.path = "/";
        exchange->target.path_len = 1;
    }
    ci_router_match(exchange->server->router, bytes + head->method.at, head->method.len,
                    exchange->target.path, exchange->target.path_len, &exchange->match);
}

/* What the handler returned. */
static int call_handler(struct ci_exchange *exchange, coir_request *req, coir_response *res)
{
    const struct ci_route *route = exchange->match.route;
    watch_client(exchange);
    uint64_t began = ci_recorder_begin(ci_worker_current);
    int rc = route ? route->handler(req, res, route->arg) : answer_without_route(exchange, res);
    if (ci_forked()) /* in a child, which must not answer instead of its parent */
        ci_exit_child(rc);
    ci_recorder_end(ci_worker_current, began);
    if (exchange->socket)
        ci_ws_handler_ended(exchange, rc);
    unwatch_client(exchange);
    return rc;
}

/* The handler has returned `rc`: ends its answer, or answers in its place. False: the connection
 * closes. */
CI_INLINE bool end_answer(struct ci_exchange *exchange, coir_request *req, coir_response *res,
                          int rc)
{
    if (ci_likely(rc == 0 && res->begun && res->remaining == 0))
        return !exchange->out.error;
    int ended = rc >= 0 && res->begun ? ci_response_end(res) : 0;
    if (rc != 0 || ended < 0 || !res->begun)
        ci_request_report(req, rc, ended);
    if (!res->begun && !exchange->out.error && !coir_task_interrupted()) {
        ci_respond_error(exchange, req->body_error     ? req->body_error
                                   : exchange->starved ? 503
                                                       : 500);
        return false;
    }
    return rc >= 0 && ended >= 0 && !exchange->out.error;
}

/* Frees what the handler was given. */
CI_INLINE void empty_arena(struct ci_exchange *exchange)
{
    if (ci_likely(!ci_arena_is_used(&exchange->arena)))
        return;
    if (exchange->region)
        ci_arena_init_at(&exchange->arena, exchange->region, exchange->server->options->arena_max);
    else
        ci_arena_reset(&exchange->arena);
}

/* The head stays where it is while a handler runs. Where more of the body is to come, the head is
 * moved to the front of the buffer first, so that the room is behind it. */
static void make_room_for_body(struct ci_exchange *exchange)
{
    const struct ci_http1_head *head = &exchange->head;
    size_t there = exchange->in.end - exchange->in.start - head->line;
    if (exchange->in.start && (head->chunked || head->content_length > (int64_t)there))
        ci_http_input_move(&exchange->in, 0, &exchange->in.start);
    exchange->in.body_at = exchange->in.start;
    ci_http_input_take(&exchange->in, head->line);
}

/* The request has a body, or says that one may follow. False: it is refused. */
static CI_NOINLINE bool begin_body(struct ci_exchange *exchange)
{
    const struct ci_http1_head *head = &exchange->head;
    make_room_for_body(exchange);
    ci_http1_body_init(&exchange->body, head);
    exchange->continue_due = head->expects_continue && exchange->in.end == exchange->in.body_at;
    if (head->content_length <= 0 ||
        (uint64_t)head->content_length <= exchange->server->options->body_max)
        return true;
    exchange->unread = true;
    ci_respond_error(exchange, 413);
    return false;
}

/* Routes and answers the request whose head is complete. False: the connection closes. */
CI_INLINE bool answer(struct ci_exchange *exchange)
{
    const struct ci_http1_head *head = &exchange->head;
    coir_response response = {.exchange = exchange};
    coir_request request = {.exchange = exchange, .response = &response};
    exchange->unread = exchange->continue_due = exchange->body_begun = exchange->starved = false;
    ci_bump(&exchange->server->http->requests);
    exchange->body = (struct ci_http1_body){.state = CI_BODY_DONE};
    if (ci_unlikely(ci_http1_has_body(head) || head->expects_continue) && !begin_body(exchange))
        return false;
    find_route(exchange);
    int rc = call_handler(exchange, &request, &response);
    bool go_on = end_answer(exchange, &request, &response, rc) && !response.close;
    empty_arena(exchange);
    ci_spend(ci_worker_current); /* bounds pipelined requests and handlers that never suspend */
    if (ci_likely(go_on))
        exchange->unread = !ci_body_discard(&request);
    else
        exchange->unread = exchange->body.state != CI_BODY_DONE;
    return go_on && !exchange->unread;
}

/* ---- the connection's turn ---- */

/* Whether closing at once could reset the connection before the client has the answer (RFC
 * 9112, 9.6). A client that wanted to keep it learns of the end only from the answer, and may have
 * sent more by then. */
static bool may_lose_answer(const struct ci_exchange *exchange)
{
    return exchange->unread || exchange->in.end > exchange->in.body_at ||
           exchange->head.keep_alive || exchange->out.sent > SENT_AT_ONCE;
}

/* Gets and answers one request. CI_HTTP_NEXT_HEAD: the next one may follow. */
CI_INLINE enum ci_http_next serve_one(struct ci_exchange *exchange)
{
    enum ci_http_next next = ci_http_next_head(exchange);
    if (next != CI_HTTP_NEXT_HEAD)
        return next;
    exchange->connection->served = true;
    exchange->in.body_at = exchange->in.start;
    ci_http_input_take(&exchange->in, exchange->head.line);
    if (!answer(exchange))
        return CI_HTTP_NEXT_CLOSED;
    exchange->in.start = exchange->in.body_at;
    return next;
}

static enum ci_http_verdict serve(struct ci_exchange *exchange)
{
    enum ci_http_next next;
    if (!exchange->connection->partial) {
        ssize_t n = coir_try_read(exchange->in.stream, exchange->in.bytes, CI_HTTP_BUFFER);
        if (n <= 0)
            return n == -EAGAIN ? CI_HTTP_KEEP : CI_HTTP_CLOSE; /* a spurious wake-up, or the end */
        exchange->in.end = (size_t)n;
        exchange->connection->called = true;
    }
    do
        next = serve_one(exchange);
    while (next == CI_HTTP_NEXT_HEAD && exchange->in.start < exchange->in.end);
    if (exchange->socket)
        return CI_HTTP_UPGRADE;
    if (next != CI_HTTP_NEXT_CLOSED && !exchange->out.error)
        return CI_HTTP_KEEP; /* the connection sends what has gathered */
    if (ci_http_output_flush(&exchange->out) < 0 || coir_task_interrupted() ||
        !may_lose_answer(exchange))
        return CI_HTTP_CLOSE;
    return CI_HTTP_LINGER;
}

/* In fixed memory, each turn has a region for its arena (fixed.h 1). */
static void init_arena(struct ci_exchange *exchange)
{
    struct ci_http_server *server = exchange->server;
    size_t max = server->options->arena_max;
    exchange->region = server->fixed.on ? ci_pool_take(&server->fixed.arenas) : NULL;
    ci_check(exchange->region || !server->fixed.on, "web/fixed.h 1");
    if (exchange->region)
        ci_arena_init_at(&exchange->arena, exchange->region, max);
    else
        ci_arena_init(&exchange->arena, &server->http->blocks, max);
}

static void init(struct ci_exchange *exchange, struct ci_http_connection *connection, char *in,
                 char *out)
{
    coir_stream *stream = connection->stream;
    exchange->connection = connection;
    exchange->server = connection->server;
    ci_http_output_init(&exchange->out, stream, connection->server->options, out);
    ci_http_input_init(&exchange->in, stream, &exchange->out, in);
    exchange->unread = exchange->continue_due = exchange->body_begun = false;
    exchange->socket = NULL;
    ci_hangup_init(&exchange->hangup, stream, &connection->task->runnable);
    exchange->body.state = CI_BODY_DONE; /* a head that is refused has none */
    init_arena(exchange);
}

int ci_serve_requests(void *arg)
{
    struct ci_http_connection *connection = arg;
    struct ci_pool *buffers = &connection->server->http->buffers;
    struct ci_exchange exchange;
    char *in = ci_pool_take(buffers), *out = ci_pool_take(buffers);
    connection->served = false;
    connection->verdict = CI_HTTP_CLOSE;
    if (in && out) {
        init(&exchange, connection, in, out);
        connection->verdict = serve(&exchange);
        if (exchange.region)
            ci_pool_give(&connection->server->fixed.arenas, exchange.region);
    } else {
        ci_warn(ci_worker_current, "a connection is closed: no memory for its buffers");
    }
    if (connection->verdict == CI_HTTP_UPGRADE)
        connection->socket = exchange.socket;
    if (connection->verdict == CI_HTTP_KEEP && exchange.out.len) {
        connection->out = out;
        connection->out_at = 0;
        connection->out_len = (uint32_t)exchange.out.len;
    } else if (out) {
        ci_pool_give(buffers, out);
    }
    if (in)
        ci_pool_give(buffers, in);
    return 0;
}
