/* Ends of connections whose queue is full: the close frame goes out, nothing behind it, and who
 * waits to send hears of it. */
#include "socket.h"

static int send_result, ended;
static coir_ws *newest;
static char data[100000];

static coir_scope *senders;

/* A task that sends uses the connection until here. */
static int on_message(coir_ws *ws, coir_ws_message *message, void *arg)
{
    (void)ws, (void)arg;
    if (message)
        return 0;
    COIR_DEADLINE(coir_in(COIR_S));
    result = coir_scope_wait(senders);
    ended++;
    return 0;
}

static int handle_messages(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    return coir_ws_handle_with(req, res, &options, on_message, NULL, &newest);
}

static int serve(void *arg)
{
    (void)arg;
    static const struct route routes[] = {
        {"GET", "/ws", handle}, {"GET", "/messages", handle_messages}, {0}};
    return serve_routes(routes, NULL);
}

static int receive(coir_ws *ws)
{
    coir_ws_message *message;
    int rc;
    while ((rc = coir_ws_recv(ws, &message)) > 0)
        coir_ws_message_unref(message);
    return rc;
}

/* Reads data frames up to the end, or a close frame: how many. */
static int read_data(coir_stream *stream)
{
    int count = 0, first;
    while ((first = read_frame(stream)) >= 0 && first != (WIRE_FIN | CLOSE))
        count += (first & 15) <= BINARY;
    return count;
}

static int fill(coir_ws *ws)
{
    coir_ws_message *message;
    int rc = coir_sleep_for(COIR_MS); /* the client has the handshake */
    CHECK_EQ(coir_ws_message_new(COIR_WS_BINARY, data, sizeof data, &message), 0);
    for (int i = 0; i < 100 && rc == 0; i++) {
        rc = coir_ws_try_send(ws, message);
        coir_sleep_for(COIR_MS);
    }
    coir_ws_message_unref(message);
    return rc;
}

static int fill_and_receive(coir_ws *ws)
{
    CHECK_EQ(fill(ws), options.overflow == COIR_OVERFLOW_WAIT ? -EAGAIN : 0);
    return receive(ws);
}

static int fill_and_close(coir_ws *ws)
{
    fill(ws);
    return coir_ws_close(ws, 4001, "enough");
}

TEST_SERVER(a_close_frame_passes_a_full_queue)
{
    static const enum coir_overflow policies[] = {COIR_OVERFLOW_WAIT, COIR_OVERFLOW_DROP_OLDEST,
                                                  COIR_OVERFLOW_DROP_NEWEST,
                                                  COIR_OVERFLOW_KEEP_LATEST};
    options.items_max = 3;
    for (size_t i = 0; i < 2 * sizeof policies / sizeof policies[0]; i++) {
        bool peer_closes = i % 2;
        options.overflow = policies[i / 2];
        serve_socket = peer_closes ? fill_and_receive : fill_and_close;
        coir_stream *stream = dial_ws(WS_REQUEST);
        coir_sleep_for(COIR_S);
        if (peer_closes)
            put_close(4001, "");
        send_wire(stream);
        coir_sleep_for(COIR_MS);
        CHECK(read_data(stream) >= 2);
        CHECK_EQ(came_code(), 4001);
        if (!peer_closes)
            put_close(4001, "");
        send_wire(stream);
        CHECK_EQ(read_frame(stream), -1);
        coir_close(stream);
        CHECK_EQ(result, 0);
    }
}

/* ---- a task that waits to send ---- */

static int send_on(void *arg)
{
    while ((send_result = coir_ws_send_binary(arg, data, sizeof data)) == 0)
        ;
    return 0;
}

static int send_and_receive(coir_ws *ws)
{
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, send_on, ws), 0);
    CHECK_EQ(coir_go(scope, send_on, ws), 0);
    int rc = receive(ws);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_ws_send_text(ws, "more"), -EPIPE);
    return rc;
}

static coir_stream *dial_sender(void)
{
    options.items_max = 3;
    serve_socket = send_and_receive;
    coir_stream *stream = dial_ws(WS_REQUEST);
    coir_sleep_for(COIR_S);
    return stream;
}

TEST_SIM(a_drain_closes_though_the_queue_is_full)
{
    COIR_SCOPE(server);
    coir_go(server, serve, NULL);
    coir_stream *stream = dial_sender();
    coir_scope_cancel(server);
    coir_sleep_for(COIR_MS);
    CHECK(read_data(stream) >= 3);
    CHECK_EQ(came_code(), 1001);
    put_close(1001, "");
    send_wire(stream);
    CHECK_EQ(read_data(stream), 0);
    CHECK_EQ(came.first, -1);
    coir_close(stream);
    coir_scope_wait(server);
    CHECK(result == 0 && send_result == -EPIPE);
}

TEST_SERVER(an_error_is_said_though_the_queue_is_full)
{
    coir_stream *stream = dial_sender();
    put_text(WIRE_FIN | 3, "");
    send_wire(stream);
    coir_sleep_for(COIR_MS);
    CHECK(read_data(stream) >= 3);
    CHECK_EQ(came_code(), 1002);
    CHECK_EQ(read_data(stream), 0);
    coir_close(stream);
    CHECK(result == -COIR_EPROTOCOL && send_result == -EPIPE);
}

/* Without a close frame; the peer takes nothing. */
TEST_SERVER(a_peer_that_is_gone_ends_sends)
{
    result = 1;
    coir_stream *stream = dial_sender();
    coir_shutdown_write(stream);
    coir_sleep_for(COIR_MS);
    CHECK_EQ(send_result, -EPIPE);
    coir_sleep_for(20 * COIR_S);
    CHECK_EQ(result, -COIR_EEND);
    coir_close(stream);
}

static coir_stream *dial_for_messages(void)
{
    coir_stream *stream = dial();
    send_text(stream,
              "GET /messages HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
              "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
              "Sec-WebSocket-Version: 13\r\n\r\n");
    CHECK_EQ(read_head(stream), 101);
    coir_sleep_for(COIR_MS);
    return stream;
}

/* What the function waits for when the connection has ended, and the peer takes nothing. */
TEST_SERVER(sends_return_before_a_function_hears_of_the_end)
{
    COIR_SCOPE(scope);
    senders = scope;
    options.items_max = 3;
    result = 1;
    coir_stream *stream = dial_for_messages();
    CHECK_EQ(coir_go(scope, send_on, newest), 0);
    coir_sleep_for(COIR_S);
    put_close(1000, "");
    send_wire(stream);
    coir_sleep_for(20 * COIR_S);
    CHECK(ended == 1 && result == 0 && send_result == -EPIPE);
    coir_close(stream);
}

static int fill_and_flush(void *ws)
{
    fill(ws);
    send_result = coir_ws_flush(ws);
    return 0;
}

TEST_SERVER(a_flush_returns_before_a_function_hears_of_the_end)
{
    COIR_SCOPE(scope);
    senders = scope;
    options.items_max = 3;
    result = send_result = 1;
    coir_stream *stream = dial_for_messages();
    CHECK_EQ(coir_go(scope, fill_and_flush, newest), 0);
    coir_sleep_for(COIR_S);
    put_close(1000, "");
    send_wire(stream);
    coir_sleep_for(20 * COIR_S);
    CHECK(ended == 1 && result == 0 && send_result == -ECANCELED);
    coir_close(stream);
}
