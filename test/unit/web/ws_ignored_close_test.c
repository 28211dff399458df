/* A connection that is closed while it is received from elsewhere, by a task or by the function of
 * coir_ws_handle; and peers that do not answer the close frame. */
#include "wire.h"

static coir_ws_options options = COIR_WS_OPTIONS;
static coir_ws *newest;
static int closed, result, code, ended, received;

static int on_message(coir_ws *ws, coir_ws_message *message, void *arg)
{
    (void)arg;
    if (!message) {
        ended++;
        result = coir_ws_result(ws);
        code = coir_ws_close_code(ws);
        return 0;
    }
    received++;
    if (coir_ws_message_len(message) == 5)
        closed = coir_ws_close(ws, 4001, "enough");
    return 0;
}

static int handle_messages(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    return coir_ws_handle_with(req, res, &options, on_message, NULL, &newest);
}

static int close_soon(void *ws)
{
    coir_sleep_for(COIR_S);
    closed = coir_ws_close(ws, 4001, NULL);
    return 0;
}

static int handle(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_ws_message *message;
    int rc = coir_ws_accept_with(req, res, &options, &newest);
    if (rc < 0)
        return rc;
    COIR_SCOPE(scope);
    coir_go(scope, close_soon, newest);
    for (; (rc = coir_ws_recv(newest, &message)) > 0; received++)
        coir_ws_message_unref(message);
    coir_scope_wait(scope);
    result = rc;
    ended++;
    return 0;
}

static int send_parts(void *ws)
{
    CHECK_EQ(coir_ws_send_part(ws, COIR_WS_TEXT, "a", 1, false), 0);
    return coir_sleep_for(30 * COIR_S);
}

static int handle_beside_parts(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_ws_message *message;
    int rc = coir_ws_accept_with(req, res, &options, &newest);
    if (rc < 0)
        return rc;
    COIR_SCOPE(scope);
    coir_go(scope, send_parts, newest);
    coir_go(scope, close_soon, newest);
    while ((rc = coir_ws_recv(newest, &message)) > 0)
        coir_ws_message_unref(message);
    result = rc;
    ended++;
    coir_scope_cancel(scope);
    return 0;
}

static int receive_late(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_ws_message *message;
    coir_ws_options patient = COIR_WS_OPTIONS;
    patient.ping_interval = COIR_NEVER;
    int rc = coir_ws_accept_with(req, res, &patient, &newest);
    if (rc < 0)
        return rc;
    COIR_SCOPE(scope);
    coir_go(scope, send_parts, newest);
    coir_go(scope, close_soon, newest);
    coir_sleep_for(2 * COIR_S); /* the close waits for the turn */
    while ((rc = coir_ws_recv(newest, &message)) > 0)
        coir_ws_message_unref(message);
    result = rc;
    ended++;
    coir_scope_cancel(scope);
    return 0;
}

static int serve(void *arg)
{
    (void)arg;
    static const struct route routes[] = {{"GET", "/ws", handle_messages},
                                          {"GET", "/task", handle},
                                          {"GET", "/parts", handle_beside_parts},
                                          {"GET", "/late", receive_late},
                                          {0}};
    return serve_routes(routes, NULL);
}

static coir_stream *start(const char *request)
{
    coir_stream *stream = dial_ws(request);
    coir_sleep_for(COIR_MS);
    ended = received = 0;
    closed = result = 1;
    return stream;
}

/* What the peer sends each second, until it hears of the end. How many seconds. */
static int go_on(coir_stream *stream, int first, const char *text)
{
    for (int s = 0; s < 100; s++) {
        put_text(first, text);
        int rc = coir_write_all(stream, wire, wire_len);
        wire_len = 0;
        if (rc < 0 || ended)
            return s;
        coir_sleep_for(COIR_S);
    }
    return 100;
}

TEST_SERVER(a_task_closes_a_connection_of_a_function)
{
    coir_stream *stream = start(WS_REQUEST);
    CHECK_EQ(coir_ws_close(newest, 4002, "by a task"), 0);
    CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
    CHECK_EQ(came_code(), 4002);
    put_close(4002, "");
    send_wire(stream);
    CHECK_EQ(read_frame(stream), -1);
    CHECK(ended == 1 && result == 0 && code == 4002);
    coir_close(stream);
    stream = start(WS_REQUEST); /* whose peer says nothing more */
    coir_ws_message *message;
    CHECK_EQ(coir_ws_recv(newest, &message), -EBUSY);
    CHECK_EQ(coir_ws_close(newest, 4002, "by a task"), 0);
    coir_sleep_for(20 * COIR_S);
    CHECK(ended == 1 && result == -ETIMEDOUT && code == 1006);
    coir_close(stream);
}

TEST_SERVER(a_function_closes_and_the_peer_goes_on)
{
    coir_stream *stream = start(WS_REQUEST);
    put_text(WIRE_FIN | TEXT, "close");
    send_wire(stream);
    CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
    CHECK(go_on(stream, WIRE_FIN | TEXT, "more") < 20);
    CHECK(ended == 1 && closed == 0 && result == -ETIMEDOUT);
    CHECK_EQ(received, 1); /* nothing behind the close frame */
    coir_close(stream);
}

TEST_SERVER(a_task_closes_beside_a_receive_and_the_peer_goes_on)
{
    static const char request[] =
        "GET /task HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
    coir_stream *stream = start(request);
    CHECK(go_on(stream, WIRE_FIN | PONG, "") < 20);
    CHECK(ended == 1 && closed == 0 && result == -ETIMEDOUT);
    coir_close(stream);
    stream = start(request);
    CHECK(go_on(stream, TEXT, "begun") < 20); /* which breaks the protocol */
    CHECK(ended == 1 && result == -COIR_EPROTOCOL);
    coir_close(stream);
    stream = start(request);
    CHECK(go_on(stream, WIRE_FIN | TEXT, "a message") < 20);
    CHECK(ended == 1 && closed == 0 && result == -ETIMEDOUT);
    CHECK(received <= 3);
    coir_close(stream);
}

TEST_SERVER(a_close_that_cannot_be_said_ends_a_receive)
{
    static const char request[] =
        "GET /parts HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
    coir_stream *stream = start(request);
    CHECK(go_on(stream, WIRE_FIN | PONG, "") < 20);
    CHECK(ended == 1 && closed == -ETIMEDOUT && result == -ETIMEDOUT);
    coir_close(stream);
}

TEST_SERVER(a_close_that_cannot_be_said_ends_a_receive_that_began_behind_it)
{
    coir_stream *stream =
        start("GET /late HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
              "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n");
    coir_sleep_for(20 * COIR_S);
    CHECK(ended == 1 && closed == -ETIMEDOUT && result == -ETIMEDOUT);
    coir_close(stream);
}
