/* The server's side of the opening handshake (RFC 6455, 4.2): a request becomes a WebSocket
 * connection. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "coir/fiber.h"
#include "proto/websocket_handshake.h"
#include "task/warn.h"
#include "web/refusal.h"
#include "web/response.h"
#include "web/ws.h"
#include "web/ws_deflate.h"

enum {
    ANSWER_ROOM = 512,
    BAD_REQUEST = 400,
    FORBIDDEN = 403,
    UPGRADE_REQUIRED = 426,
    UNAVAILABLE = 503
};

/* What was agreed on. */
struct agreement {
    struct ci_span key, protocol;
    struct ci_ws_deflate deflate;
};

/* What is to become of the request. */
struct wanted {
    const coir_ws_options *options; /* NULL: the defaults */
    coir_ws_message_fn *fn;         /* NULL: the handler receives */
    void *arg;
};

static const char *bytes_of(const struct ci_exchange *exchange)
{
    return ci_http_input_request(&exchange->in);
}

/* ---- refusing ---- */

/* What the client did wrong is not logged (report.h): body_error says so. */
static int refuse(coir_request *req, coir_response *res, int status)
{
    int rc = 0;
    req->body_error = status;
    if (status == UPGRADE_REQUIRED) { /* RFC 9110, 15.5.22; RFC 6455, 4.4 */
        rc = ci_response_put_header(res, "Upgrade", "websocket");
        if (rc == 0)
            rc = ci_response_put_header(res, "Connection", "Upgrade");
        if (rc == 0)
            rc = ci_response_put_header(res, "Sec-WebSocket-Version", "13");
    }
    if (rc == 0)
        rc = coir_respond_text(res, status, "%d %s\n", status,
                               status == FORBIDDEN ? "Forbidden: Origin"
                               : status == UPGRADE_REQUIRED
                                   ? "Upgrade Required: WebSocket, version 13"
                                   : "Bad Request: WebSocket");
    return rc < 0 ? rc : -COIR_EPROTOCOL;
}

static void tell_once(struct ci_http_server *server)
{
    if (server->told || server->options->websockets_max)
        return;
    server->told = true;
    ci_warn(ci_worker_current, "WebSocket connections are refused: fixed_memory has room for "
                               "coir_serve_http_options.websockets_max of them, which is 0");
}

/* There are websockets_max connections: the client may come back later. */
static int refuse_beyond(coir_request *req, coir_response *res)
{
    struct ci_http_server *server = req->exchange->server;
    char seconds[24];
    snprintf(seconds, sizeof seconds, "%" PRId64, ci_http_retry_seconds(server->options));
    tell_once(server);
    ci_http_count_refused(server, true);
    req->body_error = UNAVAILABLE;
    int rc = coir_response_add_header(res, "Retry-After", seconds);
    if (rc == 0)
        rc = coir_respond_text(res, UNAVAILABLE, "503 Service Unavailable\n");
    return rc < 0 ? rc : -EAGAIN;
}

/* ---- agreeing ---- */

static bool origin_is_allowed(const struct ci_exchange *exchange, const char *origins)
{
    const char *bytes = bytes_of(exchange);
    const struct ci_http1_field *field = ci_http1_find(&exchange->head, bytes, "origin", 6);
    return !origins || !field || ci_ws_list_has(origins, bytes + field->value.at, field->value.len);
}

/* A queue that drops frames would break what later ones refer to. */
static struct ci_ws_deflate our_deflate(const coir_ws_options *options)
{
    bool alone = options->compression == COIR_WS_COMPRESS_MESSAGES;
    bool drops =
        options->overflow != COIR_OVERFLOW_WAIT && options->overflow != COIR_OVERFLOW_CLOSE;
    int bits = options->window_bits == CI_WS_BITS_MAX ? 0 : options->window_bits;
    return (struct ci_ws_deflate){
        .on = options->compression != COIR_WS_NO_COMPRESSION && ci_ws_can_deflate,
        .server_resets = alone || drops,
        .client_resets = alone,
        .server_bits = (uint8_t)bits,
        .client_bits = (uint8_t)bits,
    };
}

/* Fixed memory has windows of one size: a client that asks for a smaller one is sent messages as
 * they are. */
static void decline_small_window(const struct ci_http_server *server, struct ci_ws_deflate *deflate)
{
    bool full = deflate->server_bits == 0 || deflate->server_bits == CI_WS_BITS_MAX;
    if (server->fixed.on && !full)
        *deflate = (struct ci_ws_deflate){.on = false};
}

/* 0, or the status to refuse the request with. */
static int agree(const struct ci_exchange *exchange, const coir_ws_options *options,
                 struct agreement *agreement)
{
    const struct ci_http1_head *head = &exchange->head;
    const char *bytes = bytes_of(exchange);
    struct ci_ws_deflate ours = our_deflate(options);
    int status = ci_ws_check_request(head, bytes, &agreement->key);
    if (status == 0 && !origin_is_allowed(exchange, options->origins))
        status = FORBIDDEN;
    if (status == 0)
        status = ci_ws_choose_deflate(head, bytes, &ours, &agreement->deflate);
    decline_small_window(exchange->server, &agreement->deflate);
    if (status == 0)
        agreement->protocol = ci_ws_choose_protocol(head, bytes, options->protocols);
    return status;
}

/* ---- answering ---- */

static int answer(coir_response *res, const struct agreement *agreement)
{
    struct ci_exchange *exchange = res->exchange;
    const char *bytes = bytes_of(exchange);
    char accept[CI_WS_ACCEPT_LEN + 1], extension[CI_WS_DEFLATE_TEXT];
    size_t room = ANSWER_ROOM + agreement->protocol.len + res->extra_len;
    char *at = ci_http_output_room(&exchange->out, room);
    if (!at)
        return exchange->out.error;
    ci_ws_accept_for(bytes + agreement->key.at, accept);
    int len = snprintf(at, room,
                       "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                       "Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n",
                       accept);
    if (agreement->protocol.len)
        len += snprintf(at + len, room - (size_t)len, "Sec-WebSocket-Protocol: %.*s\r\n",
                        (int)agreement->protocol.len, bytes + agreement->protocol.at);
    if (agreement->deflate.on) {
        ci_ws_write_deflate(&agreement->deflate, true, extension);
        len +=
            snprintf(at + len, room - (size_t)len, "Sec-WebSocket-Extensions: %s\r\n", extension);
    }
    len += snprintf(at + len, room - (size_t)len, "%.*s\r\n", (int)res->extra_len,
                    res->extra ? res->extra : "");
    ci_http_output_claim(&exchange->out, (size_t)len);
    res->begun = res->no_body = res->close = true;
    return ci_http_output_flush(&exchange->out);
}

/* From here on the stream is the WebSocket connection's. */
static int become(struct ci_exchange *exchange, const struct ci_ws_agreed *agreed, coir_ws **ret_ws)
{
    struct ci_http_input *in = &exchange->in;
    coir_ws *ws;
    ci_hangup_stop(&exchange->hangup);
    int rc = ci_ws_new(in->stream, agreed, in->bytes + in->body_at, in->end - in->body_at, &ws);
    if (rc < 0)
        return rc;
    in->end = in->body_at;
    ws->receiving = agreed->fn != NULL; /* also until its session begins */
    exchange->socket = ws;
    ci_list_push(&exchange->server->sockets, &ws->link);
    if (exchange->server->draining)
        ci_ws_drain(ws);
    *ret_ws = ws;
    return 0;
}

/* What the handler leaves open is as in the server's options. */
static int read_options(const struct ci_http_server *server, const coir_ws_options *given,
                        coir_ws_options *ret_options)
{
    const coir_ws_options *ours = server->options->websocket_options;
    coir_ws_options options = COIR_WS_OPTIONS;
    if (!given) {
        *ret_options = *ours;
        return 0;
    }
    int rc = ci_options_read(&options, sizeof options, given);
    if (rc < 0)
        return rc;
    options.message_max = options.message_max ? options.message_max : ours->message_max;
    options.items_max = options.items_max ? options.items_max : ours->items_max;
    options.bytes_max = options.bytes_max ? options.bytes_max : ours->bytes_max;
    if ((rc = ci_ws_options_read(ret_options, &options)) < 0 || !server->fixed.on ||
        !server->options->websockets_max || ci_ws_is_reserved_for(ret_options, ours))
        return rc;
    ci_warn(ci_worker_current, "a WebSocket connection needs more than fixed memory has for each: "
                               "raise message_max, items_max or compression of "
                               "coir_serve_http_options.websocket_options");
    return -EINVAL;
}

static int accept_as(coir_request *req, coir_response *res, const struct wanted *wanted,
                     coir_ws **ret_ws)
{
    struct ci_exchange *exchange = req->exchange;
    struct ci_http_server *server = exchange->server;
    coir_ws_options options;
    struct agreement agreement = {{0, 0}, {0, 0}, {0}};
    int rc = read_options(server, wanted->options, &options);
    if (rc < 0)
        return rc;
    if (res->begun)
        return -EALREADY;
    int status = agree(exchange, &options, &agreement);
    if (status)
        return refuse(req, res, status);
    if (server->places >= server->options->websockets_max)
        return refuse_beyond(req, res);
    const struct ci_ws_agreed agreed = {
        .http = server->http,
        .options = &options,
        .deflate = agreement.deflate,
        .protocol = bytes_of(exchange) + agreement.protocol.at,
        .protocol_len = agreement.protocol.len,
        .fn = wanted->fn,
        .arg = wanted->arg,
        .scope = wanted->fn ? server->here.connections : NULL,
        .places = &server->places,
    };
    server->places++; /* the answer may wait to be sent */
    if ((rc = answer(res, &agreement)) == 0)
        rc = become(exchange, &agreed, ret_ws);
    server->places--; /* it has one of its own now */
    return rc;
}

static int check(coir_request *req, coir_response *res, bool complete, const char *missing,
                 const char *call, const void *place)
{
    int rc = 0;
    if (!ci_fiber_enter_in(&rc, call, place))
        return rc;
    if (!complete)
        return ci_misused(-EINVAL, missing, call, place);
    rc = ci_exchange_refused(&req->exchange, "req is NULL", call, place);
    if (rc == 0 && res->exchange != req->exchange)
        rc = ci_misused(-EINVAL, "res is the response of another request", call, place);
    return rc;
}

static const char accept_misses[] = "req, res or ret_ws is NULL";

int coir_ws_accept_with(coir_request *req, coir_response *res, const coir_ws_options *options,
                        coir_ws **ret_ws)
{
    int rc = check(req, res, req && res && ret_ws, accept_misses, CI_CALL, CI_PLACE);
    return rc < 0 ? rc : accept_as(req, res, &(struct wanted){.options = options}, ret_ws);
}

int coir_ws_accept(coir_request *req, coir_response *res, coir_ws **ret_ws)
{
    int rc = check(req, res, req && res && ret_ws, accept_misses, CI_CALL, CI_PLACE);
    return rc < 0 ? rc : accept_as(req, res, &(struct wanted){NULL, NULL, NULL}, ret_ws);
}

int coir_ws_handle(coir_request *req, coir_response *res, coir_ws_message_fn *fn, void *arg)
{
    coir_ws *ws;
    int rc = check(req, res, req && res && fn, "req, res or fn is NULL", CI_CALL, CI_PLACE);
    return rc < 0 ? rc : accept_as(req, res, &(struct wanted){NULL, fn, arg}, &ws);
}

int coir_ws_handle_with(coir_request *req, coir_response *res, const coir_ws_options *options,
                        coir_ws_message_fn *fn, void *arg, coir_ws **ret_ws)
{
    int rc = check(req, res, req && res && fn && ret_ws, "req, res, fn or ret_ws is NULL", CI_CALL,
                   CI_PLACE);
    return rc < 0 ? rc : accept_as(req, res, &(struct wanted){options, fn, arg}, ret_ws);
}

/* ---- the end ---- */

void ci_ws_handler_ended(struct ci_exchange *exchange, int rc)
{
    coir_ws *ws = exchange->socket;
    if (ws->terms->fn && rc >= 0)
        return; /* it goes on without the handler */
    if (ws->terms->fn)
        ws->receiving = false;
    ci_ws_finish(ws, rc < 0 ? CI_WS_FAILED : CI_WS_NORMAL);
    exchange->socket = NULL;
    ci_ws_free(ws);
}
