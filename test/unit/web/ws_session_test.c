/* Connections without a fiber: order, the end, and what idle ones hold. */
#include "wire.h"

static coir_ws_options options = COIR_WS_OPTIONS;
static int ended, result, code;
static bool closes, fails;
static coir_ws *newest;

static int on_message(coir_ws *ws, coir_ws_message *message, void *arg)
{
    CHECK(arg == &ended);
    if (!message) {
        ended++;
        result = coir_ws_result(ws);
        code = coir_ws_close_code(ws);
        return 0;
    }
    coir_yield(); /* it is a fiber */
    if (closes)
        return coir_ws_close(ws, 4001, "enough");
    return fails ? -EIO : coir_ws_send(ws, message);
}

static int handle(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    return coir_ws_handle_with(req, res, &options, on_message, &ended, &newest);
}

/* Fails behind the handshake: nothing is handled. */
static int handle_badly(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    int rc = coir_ws_handle(req, res, on_message, &ended);
    return rc < 0 ? rc : -EIO;
}

static int received;

static int receive_beside(void *ws)
{
    coir_ws_message *message;
    received = coir_ws_recv(ws, &message);
    return 0;
}

/* Its task receives before the function is called; it may not. */
static int handle_and_receive(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    int rc = coir_ws_handle_with(req, res, &options, on_message, &ended, &newest);
    received = 1;
    CHECK_EQ(coir_go(NULL, receive_beside, newest), 0);
    coir_sleep_for(COIR_MS);
    return rc;
}

/* The close frame goes out, and the function hears of the end. */
static int handle_and_close(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    int rc = coir_ws_handle_with(req, res, &options, on_message, &ended, &newest);
    received = 1;
    return rc < 0 ? rc : (received = coir_ws_close(newest, 4002, "at once"));
}

static int serve(void *arg)
{
    (void)arg;
    static const struct route routes[] = {{"GET", "/ws", handle},
                                          {"GET", "/bad", handle_badly},
                                          {"GET", "/receive", handle_and_receive},
                                          {"GET", "/close", handle_and_close},
                                          {0}};
    return serve_routes(routes, NULL);
}

static coir_counters count(void)
{
    coir_counters counters = COIR_COUNTERS;
    CHECK_EQ(coir_counters_get(coir_runtime_current(), &counters), 0);
    return counters;
}

static void echo_once(coir_stream *stream, const char *text)
{
    put_text(WIRE_FIN | TEXT, text);
    send_wire(stream);
    CHECK_EQ(read_frame(stream), WIRE_FIN | TEXT);
    CHECK(strcmp(came.payload, text) == 0);
}

TEST_SERVER(messages_in_order_then_the_end_once)
{
    coir_stream *stream = dial_ws(WS_REQUEST);
    for (int i = 0; i < 100; i++) {
        char text[20];
        snprintf(text, sizeof text, "number %d", i);
        put_text(WIRE_FIN | TEXT, text);
    }
    send_wire(stream);
    for (int i = 0; i < 100; i++) {
        char text[20];
        snprintf(text, sizeof text, "number %d", i);
        CHECK_EQ(read_frame(stream), WIRE_FIN | TEXT);
        CHECK(strcmp(came.payload, text) == 0);
    }
    CHECK_EQ(ended, 0);
    put_close(1000, "");
    send_wire(stream);
    CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
    CHECK_EQ(read_frame(stream), -1);
    coir_close(stream);
    coir_sleep_for(COIR_S);
    CHECK_EQ(ended, 1);
    CHECK_EQ(result, 0);
    CHECK_EQ(code, 1000);
}

TEST_SERVER(ends_of_every_kind)
{
    coir_stream *stream = dial_ws(WS_REQUEST);
    coir_close(stream);
    coir_sleep_for(20 * COIR_S);
    CHECK(ended == 1 && result == -COIR_EEND);
    stream = dial_ws(WS_REQUEST);
    put_text(WIRE_FIN | 3, "");
    send_wire(stream);
    CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
    CHECK_EQ(came_code(), 1002);
    CHECK_EQ(read_frame(stream), -1);
    coir_close(stream);
    coir_sleep_for(20 * COIR_S);
    CHECK(ended == 2 && result == -COIR_EPROTOCOL && code == 1002);
    closes = true;
    stream = dial_ws(WS_REQUEST);
    put_text(WIRE_FIN | TEXT, "");
    send_wire(stream);
    CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
    CHECK_EQ(came_code(), 4001);
    put_close(4001, "");
    send_wire(stream);
    CHECK_EQ(read_frame(stream), -1);
    coir_close(stream);
    coir_sleep_for(20 * COIR_S);
    CHECK(ended == 3 && result == 0);
    closes = false;
    fails = true;
    stream = dial_ws(WS_REQUEST);
    put_text(WIRE_FIN | TEXT, "");
    send_wire(stream);
    CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
    CHECK_EQ(came_code(), 1011);
    coir_close(stream);
    coir_sleep_for(20 * COIR_S);
    CHECK_EQ(ended, 4);
    stream = dial();
    send_text(stream,
              "GET /bad HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
              "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
              "Sec-WebSocket-Version: 13\r\n\r\n");
    CHECK_EQ(read_head(stream), 101);
    CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
    CHECK_EQ(came_code(), 1011);
    coir_close(stream);
    coir_sleep_for(20 * COIR_S);
    CHECK_EQ(ended, 4);
}

enum { IDLERS = 2000 };

/* Messages go to idle connections from a task of its own; only that takes memory, for a while. */
TEST_SERVER(idle_connections_hold_no_stack)
{
    static coir_stream *idlers[IDLERS];
    coir_http_counters http = COIR_HTTP_COUNTERS;
    options.ping_interval = 50 * COIR_S;
    for (int i = 0; i < IDLERS; i++) {
        idlers[i] = dial_ws(WS_REQUEST);
        if (i % 2)
            echo_once(idlers[i], "hello");
    }
    CHECK(count().stacks_live < 10);
    coir_ws_message *message;
    CHECK_EQ(coir_ws_message_new(COIR_WS_TEXT, "all", 3, &message), 0);
    CHECK_EQ(coir_ws_send(newest, message), 0);
    coir_ws_message_unref(message);
    CHECK_EQ(read_frame(idlers[IDLERS - 1]), WIRE_FIN | TEXT);
    coir_http_counters_get(&http);
    CHECK_EQ(http.connections_live, IDLERS);
    coir_sleep_for(80 * COIR_S); /* they are pinged, and answer nothing */
    coir_http_counters_get(&http);
    CHECK_EQ(http.connections_live, 0);
    CHECK(ended == IDLERS && result == -ETIMEDOUT);
    for (int i = 0; i < IDLERS; i++)
        coir_close(idlers[i]);
}

TEST_SIM(a_server_that_drains_closes_idle_connections)
{
    COIR_SCOPE(server);
    coir_go(server, serve, NULL);
    coir_stream *stream = dial_ws(WS_REQUEST), *mute = dial_ws(WS_REQUEST);
    coir_time start = coir_now();
    coir_scope_cancel(server);
    CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
    CHECK_EQ(came_code(), 1001);
    put_close(1001, "");
    send_wire(stream);
    CHECK_EQ(read_frame(stream), -1);
    coir_close(stream);
    coir_scope_wait(server); /* until drain_timeout, because of the one that says nothing */
    CHECK(coir_now() - start >= 10 * COIR_S && coir_now() - start < 12 * COIR_S);
    CHECK_EQ(ended, 2);
    CHECK_EQ(result, -ETIME);
    coir_close(mute);
}

#define REQUEST(path)                                                                   \
    "GET " path " HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"

TEST_SERVER(nobody_else_receives_before_the_function_does)
{
    coir_stream *stream = dial_ws(REQUEST("/receive"));
    echo_once(stream, "hello");
    CHECK_EQ(received, -EBUSY);
    put_close(1000, "");
    send_wire(stream);
    CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
    CHECK_EQ(read_frame(stream), -1);
    CHECK(ended == 1 && result == 0);
    coir_close(stream);
}

TEST_SERVER(a_handler_that_closes_does_not_wait_for_the_peer)
{
    coir_stream *stream = dial_ws(REQUEST("/close"));
    CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
    CHECK_EQ(came_code(), 4002);
    coir_sleep_for(COIR_MS);
    CHECK(received == 0 && ended == 0);
    put_close(4002, "");
    send_wire(stream);
    CHECK_EQ(read_frame(stream), -1);
    CHECK(ended == 1 && result == 0 && code == 4002);
    coir_close(stream);
}
