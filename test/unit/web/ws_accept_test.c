/* The upgrade of a request: what is refused and how, what is agreed on, and what came behind it. */
#include "wire.h"

static coir_ws_options options = COIR_WS_OPTIONS;

/* Sends the subprotocol, then echoes. */
static int greet(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_ws *ws;
    coir_ws_message *message;
    CHECK_EQ(coir_response_add_header(res, "X-Own", "field"), 0);
    int rc = coir_ws_accept_with(req, res, &options, &ws);
    if (rc < 0)
        return rc;
    CHECK_EQ(coir_ws_accept(req, res, &ws), -EALREADY);
    CHECK_EQ(coir_ws_send_text(ws, coir_ws_protocol(ws)), 0);
    if ((rc = coir_ws_recv(ws, &message)) > 0) {
        CHECK_EQ(coir_ws_send(ws, message), 0);
        coir_ws_message_unref(message);
    }
    return rc < 0 ? rc : -(coir_request_query(req)[0] == 'f'); /* "?f": it fails */
}

static int serve(void *arg)
{
    (void)arg;
    static const struct route routes[] = {{"GET", "/ws", greet}, {"POST", "/ws", greet}, {0}};
    return serve_routes(routes, NULL);
}

static int answer_to(const char *request)
{
    coir_stream *stream = dial();
    send_text(stream, request);
    int got = read_head(stream);
    coir_close(stream);
    return got;
}

TEST_SERVER(requests_that_are_refused)
{
    CHECK_EQ(answer_to(GET("/ws")), 426);
    CHECK(strstr(answer, "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                         "Sec-WebSocket-Version: 13\r\n"));
    CHECK_EQ(
        answer_to("GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                  "Sec-WebSocket-Version: 14\r\n\r\n"),
        426);
    CHECK(strstr(answer, "\r\nSec-WebSocket-Version: 13\r\n"));
    CHECK_EQ(
        answer_to("GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                  "Sec-WebSocket-Key: short\r\nSec-WebSocket-Version: 13\r\n\r\n"),
        400);
    CHECK_EQ(answer_to(WS_REQUEST_WITH("Sec-WebSocket-Extensions: a;;b\r\n")), 400);
    CHECK(!strstr(answer, "101"));
}

TEST_SERVER(the_answer)
{
    CHECK_EQ(answer_to(WS_REQUEST), 101);
    CHECK(strstr(answer, "\r\nUpgrade: websocket\r\n") && strstr(answer, "\r\nX-Own: field\r\n"));
    CHECK(strstr(answer, "\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
    CHECK(!strstr(answer, "Sec-WebSocket-Protocol") && !strstr(answer, "Extensions"));
}

TEST_SERVER(origins)
{
    CHECK_EQ(answer_to(WS_REQUEST_WITH("Origin: https://evil.example\r\n")), 101);
    options.origins = "https://a.example, https://b.example";
    CHECK_EQ(answer_to(WS_REQUEST_WITH("Origin: https://evil.example\r\n")), 403);
    CHECK_EQ(answer_to(WS_REQUEST_WITH("Origin: https://a.example.evil\r\n")), 403);
    CHECK_EQ(answer_to(WS_REQUEST_WITH("Origin: null\r\n")), 403);
    CHECK_EQ(answer_to(WS_REQUEST_WITH("Origin: https://b.example\r\n")), 101);
    CHECK_EQ(answer_to(WS_REQUEST), 101); /* no browser */
}

TEST_SERVER(subprotocols)
{
    options.protocols = "chat, superchat";
    coir_stream *stream = dial_ws(WS_REQUEST_WITH("Sec-WebSocket-Protocol: x, superchat\r\n"));
    CHECK(strstr(answer, "\r\nSec-WebSocket-Protocol: superchat\r\n"));
    CHECK_EQ(read_frame(stream), WIRE_FIN | TEXT);
    CHECK(strcmp(came.payload, "superchat") == 0);
    coir_close(stream);
    stream = dial_ws(WS_REQUEST_WITH("Sec-WebSocket-Protocol: x\r\n"));
    CHECK_EQ(read_frame(stream), WIRE_FIN | TEXT);
    CHECK_EQ(came.len, 0);
    coir_close(stream);
}

/* A frame in the same segment as the request. */
TEST_SERVER(frames_behind_the_request)
{
    coir_stream *stream = dial();
    put_text(WIRE_FIN | TEXT, "early");
    char text[1000];
    int len = snprintf(text, sizeof text, "%s", WS_REQUEST);
    memcpy(text + len, wire, wire_len);
    send_bytes(stream, text, (size_t)len + wire_len);
    wire_len = 0;
    CHECK_EQ(read_head(stream), 101);
    CHECK_EQ(read_frame(stream), WIRE_FIN | TEXT);
    CHECK_EQ(read_frame(stream), WIRE_FIN | TEXT);
    CHECK(strcmp(came.payload, "early") == 0);
    CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE); /* the handler has returned */
    CHECK_EQ(came_code(), 1000);
    put_close(1000, "");
    send_wire(stream);
    CHECK_EQ(read_frame(stream), -1);
    coir_close(stream);
}

TEST_SERVER(a_handler_that_fails_closes_with_1011)
{
    coir_stream *stream = dial();
    send_text(stream,
              "GET /ws?f HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
              "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
              "Sec-WebSocket-Version: 13\r\n\r\n");
    CHECK_EQ(read_head(stream), 101);
    CHECK_EQ(read_frame(stream), WIRE_FIN | TEXT);
    put_text(WIRE_FIN | BINARY, "x");
    send_wire(stream);
    CHECK_EQ(read_frame(stream), WIRE_FIN | BINARY);
    CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
    CHECK_EQ(came_code(), 1011);
    coir_time start = coir_now();
    CHECK_EQ(read_frame(stream), -1); /* close_timeout, as the client says nothing */
    CHECK(coir_now() - start >= 5 * COIR_S && coir_now() - start < 8 * COIR_S);
    coir_close(stream);
}

/* Asked to stop, the server closes with 1001, and a client that answers has a whole end. */
TEST_SIM(a_server_that_drains_closes_with_1001)
{
    COIR_SCOPE(server);
    coir_go(server, serve, NULL);
    coir_stream *stream = dial_ws(WS_REQUEST);
    CHECK_EQ(read_frame(stream), WIRE_FIN | TEXT);
    coir_time start = coir_now();
    coir_scope_cancel(server);
    CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
    CHECK_EQ(came_code(), 1001);
    put_close(1001, "");
    send_wire(stream);
    CHECK_EQ(read_frame(stream), -1);
    coir_close(stream);
    coir_scope_wait(server);
    CHECK(coir_now() - start < 3 * COIR_S);
}
