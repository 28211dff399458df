/* WebSocket connections of a server with limits: beyond websockets_max a request gets 503, and the
 * next one is let in when one has gone; in fixed memory none takes more than was reserved. */
#include <coir/ws.h>

#include "web/ws.h"
#include "web/ws_deflate.h"

#include "wire.h"

enum { PLACES = 3, ITEMS = 4, LONGEST = 2000 };

static coir_ws_options websocket = COIR_WS_OPTIONS, own = COIR_WS_OPTIONS;
static coir_serve_http_options limits = COIR_SERVE_HTTP_OPTIONS;
static bool has_own, in_fiber, in_parts;
static size_t part_bytes;
static int accepted;
static coir_ws *newest;

static int on_message(coir_ws *ws, coir_ws_message *message, void *arg)
{
    (void)arg;
    return message ? coir_ws_send(ws, message) : 0;
}

static int receive(coir_ws *ws, coir_ws_message **ret_message)
{
    char text[20];
    bool last = false;
    if (!in_parts)
        return coir_ws_recv(ws, ret_message);
    int rc = coir_ws_recv_part(ws, ret_message, &last);
    if (rc <= 0)
        return rc;
    CHECK(coir_ws_message_len(*ret_message) <= ci_ws_memory_room(&ci_ws_http(ws)->messages));
    part_bytes += coir_ws_message_len(*ret_message);
    snprintf(text, sizeof text, "%zu", part_bytes);
    if (last)
        CHECK_EQ(coir_ws_send_text(ws, text), 0);
    return rc;
}

static int handle(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_ws_message *message;
    accepted = in_fiber  ? coir_ws_accept(req, res, &newest)
               : has_own ? coir_ws_handle_with(req, res, &own, on_message, NULL, &newest)
                         : coir_ws_handle(req, res, on_message, NULL);
    while (in_fiber && accepted == 0 && receive(newest, &message) > 0)
        coir_ws_message_unref(message);
    return accepted;
}

static int serve(void *arg)
{
    (void)arg;
    static const struct route routes[] = {{"GET", "/ws", handle}, {0}};
    limits.websocket_options = &websocket;
    limits.retry_after = 1500 * COIR_MS;
    return serve_routes(routes, &limits);
}

static void is_refused(void)
{
    coir_stream *stream = dial();
    coir_http_counters counters = COIR_HTTP_COUNTERS, before = COIR_HTTP_COUNTERS;
    coir_http_counters_get(&before);
    send_text(stream, WS_REQUEST);
    CHECK_EQ(read_head(stream), 503);
    CHECK(strstr(answer, "\r\nRetry-After: 2\r\n"));
    CHECK_EQ(accepted, -EAGAIN);
    coir_http_counters_get(&counters);
    CHECK_EQ(counters.refused, before.refused + 1);
    coir_close(stream);
}

static void leave(coir_stream *stream)
{
    put_close(1000, "");
    send_wire(stream);
    while (read_frame(stream) >= 0)
        ;
    coir_close(stream);
}

/* The places are taken, and one of them becomes free, time and again. */
static void take_all_places(void)
{
    coir_stream *streams[PLACES];
    for (int i = 0; i < PLACES; i++)
        streams[i] = dial_ws(WS_REQUEST);
    for (int i = 0; i < 2 * PLACES; i++) {
        is_refused();
        leave(streams[i % PLACES]);
        coir_sleep_for(COIR_S); /* the server has seen the end */
        streams[i % PLACES] = dial_ws(WS_REQUEST);
    }
    coir_sleep_for(3 * COIR_S); /* those that rest have their places */
    is_refused();
    for (int i = 0; i < PLACES; i++)
        leave(streams[i]);
}

static void begin(coir_scope *server)
{
    limits.websockets_max = PLACES;
    CHECK_EQ(coir_go(server, serve, NULL), 0);
    coir_sleep_for(COIR_MS);
}

static void begin_fixed(coir_scope *server)
{
    limits.fixed_memory = true;
    limits.connections_max = limits.requests_max = 2 * PLACES;
    begin(server);
}

TEST_SIM(beyond_the_limit_a_request_gets_503)
{
    COIR_SCOPE(server);
    begin(server);
    take_all_places();
    coir_scope_cancel(server);
}

TEST_SIM(so_does_one_whose_handler_goes_on)
{
    COIR_SCOPE(server);
    in_fiber = true;
    begin(server);
    take_all_places();
    coir_scope_cancel(server);
}

TEST_SIM(and_one_in_fixed_memory)
{
    COIR_SCOPE(server);
    begin_fixed(server);
    take_all_places();
    coir_scope_cancel(server);
}

TEST_SIM(without_a_limit_fixed_memory_has_no_place)
{
    COIR_SCOPE(server);
    limits.fixed_memory = true;
    limits.connections_max = limits.requests_max = 2 * PLACES;
    CHECK_EQ(coir_go(server, serve, NULL), 0);
    coir_sleep_for(COIR_MS);
    is_refused();
    is_refused();
    coir_scope_cancel(server);
}

/* ---- what a handler's own options may be ---- */

static struct ci_ws_terms terms; /* of the last connection */

static int upgrade(void)
{
    coir_stream *stream = dial();
    send_text(stream, WS_REQUEST);
    int got = read_head(stream);
    if (got == 101) {
        terms = *newest->terms;
        leave(stream);
    } else {
        coir_close(stream);
    }
    coir_sleep_for(COIR_S);
    return got;
}

TEST_SIM(in_fixed_memory_no_handler_asks_for_more)
{
    COIR_SCOPE(server);
    websocket.message_max = LONGEST;
    websocket.items_max = ITEMS;
    has_own = true;
    begin_fixed(server);
    CHECK_EQ(upgrade(), 101);
    CHECK_EQ(terms.message_max, LONGEST); /* what it leaves open is the server's */
    CHECK_EQ(terms.items_max, ITEMS);
    own.message_max = LONGEST - 1;
    own.items_max = ITEMS - 1;
    CHECK_EQ(upgrade(), 101);
    CHECK_EQ(terms.message_max, LONGEST - 1);
    own.message_max = LONGEST + 1;
    CHECK_EQ(upgrade(), 500);
    CHECK_EQ(accepted, -EINVAL);
    own.message_max = 0;
    own.items_max = ITEMS + 1;
    CHECK_EQ(upgrade(), 500);
    own.items_max = 0;
    own.compression = COIR_WS_COMPRESS_MESSAGES;
    CHECK_EQ(upgrade(), 500);
    coir_scope_cancel(server);
}

/* ---- nothing more is allocated ---- */

static void *no_memory_at_all(size_t size, void *arg)
{
    (void)size, (void)arg;
    return NULL;
}

static int send_all(void *stream)
{
    int rc = coir_write_all(stream, wire, wire_len);
    wire_len = 0;
    return rc;
}

/* Messages of every length, in fragments too, with pings between them; faster than they are read,
 * so that the queue of what comes back is full. */
static void exchange(coir_stream *stream)
{
    static char text[LONGEST];
    int count = 0;
    memset(text, 'a', sizeof text);
    for (size_t len = 0; len <= LONGEST; len += 50, count++) {
        put_frame(TEXT, text, len / 3);
        put_frame(WIRE_FIN | PING, text, len % 126);
        put_frame(WIRE_FIN | CONT, text, len - len / 3);
    }
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, send_all, stream), 0);
    coir_sleep_for(COIR_S);
    for (; count > 0; count -= came.first == (WIRE_FIN | TEXT))
        CHECK(read_frame(stream) >= 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
}

TEST_SIM(messages_are_of_what_was_reserved)
{
    COIR_SCOPE(server);
    websocket.message_max = LONGEST;
    websocket.items_max = ITEMS;
    limits.fixed_memory = true;
    limits.connections_max = limits.requests_max = 2;
    limits.websockets_max = 1;
    CHECK_EQ(coir_go(server, serve, NULL), 0);
    coir_sleep_for(COIR_MS);
    coir_allocator *allocator = &ci_http_worker_of(ci_worker_current)->messages.allocator,
                   before = *allocator;
    allocator->alloc = no_memory_at_all;
    for (int round = 0; round < 3; round++) {
        coir_stream *stream = dial_ws(WS_REQUEST);
        exchange(stream);
        coir_sleep_for(3 * COIR_S); /* it rests */
        exchange(stream);
        leave(stream);
        coir_sleep_for(3 * COIR_S);
    }
    *allocator = before;
    CHECK_EQ(ci_http_worker_of(ci_worker_current)->messages.live, 0);
    coir_scope_cancel(server);
}

/* They are as long as there is room for. */
TEST_SIM(so_are_parts)
{
    static char text[100000];
    COIR_SCOPE(server);
    in_fiber = in_parts = true;
    websocket.message_max = LONGEST;
    begin_fixed(server);
    coir_allocator *allocator = &ci_http_worker_of(ci_worker_current)->messages.allocator,
                   before = *allocator;
    memset(text, 'p', sizeof text);
    coir_stream *stream = dial_ws(WS_REQUEST);
    allocator->alloc = no_memory_at_all;
    put_frame(BINARY, text, 50000);
    put_frame(CONT, text, 10);
    put_frame(WIRE_FIN | CONT, text, sizeof text);
    send_wire(stream);
    CHECK_EQ(read_frame(stream), WIRE_FIN | TEXT);
    CHECK(strcmp(came.payload, "150010") == 0);
    leave(stream);
    *allocator = before;
    coir_scope_cancel(server);
}

#define DEFLATE(more) WS_REQUEST_WITH("Sec-WebSocket-Extensions: permessage-deflate" more "\r\n")

TEST_SIM(a_small_window_is_declined)
{
    if (!ci_ws_can_deflate)
        return;
    COIR_SCOPE(server);
    websocket.compression = COIR_WS_COMPRESS_MESSAGES;
    begin_fixed(server);
    coir_stream *stream = dial_ws(DEFLATE(""));
    CHECK(strstr(answer, "permessage-deflate"));
    leave(stream);
    stream = dial_ws(DEFLATE("; server_max_window_bits=10"));
    CHECK(!strstr(answer, "permessage-deflate"));
    leave(stream);
    coir_scope_cancel(server);
}
