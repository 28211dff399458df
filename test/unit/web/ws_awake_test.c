/* Waiting for a peer that is silent: pings, their deadline, and the end. */
#include "coir/deadline.h"
#include "socket.h"

static int serve(void *arg)
{
    (void)arg;
    static const struct route routes[] = {{"GET", "/ws", handle}, {0}};
    return serve_routes(routes, NULL);
}

TEST_SERVER(a_silent_peer_is_pinged_and_given_up)
{
    serve_socket = receive_all_messages;
    options.ping_interval = 10 * COIR_S;
    options.ping_timeout = 4 * COIR_S;
    coir_stream *stream = dial_ws(WS_REQUEST);
    coir_time start = coir_now();
    for (int i = 1; i <= 3; i++) { /* it answers, in time */
        CHECK_EQ(read_frame(stream), WIRE_FIN | PING);
        coir_time took = coir_now() - start;
        CHECK(took >= 10 * COIR_S && took < 11 * COIR_S);
        coir_sleep_for(3 * COIR_S);
        start = coir_now();
        put_frame(WIRE_FIN | PONG, came.payload, came.len);
        send_wire(stream);
    }
    CHECK_EQ(read_frame(stream), WIRE_FIN | PING);
    start = coir_now();
    CHECK_EQ(read_frame(stream), -1);
    CHECK(coir_now() - start >= 4 * COIR_S && coir_now() - start < 5 * COIR_S);
    coir_close(stream);
    coir_sleep_for(COIR_S);
    CHECK_EQ(result, -ETIMEDOUT);
    CHECK_EQ(code, 1006);
}

TEST_SERVER(a_peer_that_talks_is_not_pinged)
{
    serve_socket = receive_all_messages;
    options.ping_interval = 10 * COIR_S;
    coir_stream *stream = dial_ws(WS_REQUEST);
    for (int i = 0; i < 10; i++) {
        coir_sleep_for(9 * COIR_S);
        put_text(WIRE_FIN | TEXT, "here");
        send_wire(stream);
    }
    put_close(1000, "");
    send_wire(stream);
    CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
    coir_close(stream);
}

/* ---- pings behind what the peer has not read yet ---- */

static char data[100000];

static int send_on(void *arg)
{
    while (coir_ws_send_binary(arg, data, sizeof data) == 0)
        ;
    return 0;
}

static int send_and_receive(coir_ws *ws)
{
    COIR_SCOPE(scope);
    coir_go(scope, send_on, ws);
    int rc = receive_all_messages(ws);
    coir_scope_wait(scope);
    return rc;
}

/* It reads a message a second, and answers when it comes to a ping. */
TEST_SERVER(a_peer_that_reads_slowly_is_not_given_up)
{
    serve_socket = send_and_receive;
    options.ping_interval = 10 * COIR_S;
    options.ping_timeout = 4 * COIR_S;
    options.items_max = 16;
    coir_stream *stream = dial_ws(WS_REQUEST);
    for (int i = 0; i < 100; i++) {
        CHECK(read_frame(stream) >= 0);
        if (came.first == (WIRE_FIN | PING))
            put_text(WIRE_FIN | PONG, "");
        send_wire(stream);
        coir_sleep_for(COIR_S);
    }
    coir_time start = coir_now(); /* from here on it takes nothing */
    result = 0;
    while (!result && coir_now() - start < 100 * COIR_S)
        coir_sleep_for(COIR_S);
    CHECK_EQ(result, -ETIMEDOUT);
    CHECK(coir_now() - start < 20 * COIR_S);
    coir_close(stream);
}

/* A ping of the program's has the same deadline. */
static int ping_and_receive(coir_ws *ws)
{
    CHECK_EQ(coir_ws_ping(ws), 0);
    return receive_all_messages(ws);
}

TEST_SERVER(a_ping_of_the_programs_has_a_deadline)
{
    serve_socket = ping_and_receive;
    options.ping_interval = COIR_NEVER;
    options.ping_timeout = 4 * COIR_S;
    coir_stream *stream = dial_ws(WS_REQUEST);
    coir_time start = coir_now();
    CHECK_EQ(read_frame(stream), WIRE_FIN | PING);
    CHECK_EQ(read_frame(stream), -1);
    CHECK(coir_now() - start >= 4 * COIR_S && coir_now() - start < 5 * COIR_S);
    coir_close(stream);
    coir_sleep_for(COIR_S);
    CHECK_EQ(result, -ETIMEDOUT);
}

static int ping_each_second(void *ws)
{
    int rc;
    while ((rc = coir_ws_ping(ws)) == 0 && coir_sleep_for(COIR_S) == 0)
        continue;
    return rc == -EPIPE ? 0 : rc;
}

static int ping_on_and_receive(coir_ws *ws)
{
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, ping_each_second, ws), 0);
    int rc = receive_all_messages(ws);
    coir_scope_cancel(scope);
    return rc;
}

TEST_SERVER(the_first_ping_without_an_answer_has_the_deadline)
{
    serve_socket = ping_on_and_receive;
    options.ping_timeout = 4 * COIR_S;
    coir_stream *stream = dial_ws(WS_REQUEST);
    coir_time start = coir_now();
    int frame;
    do
        frame = read_frame(stream);
    while (frame == (WIRE_FIN | PING) && coir_now() - start < 60 * COIR_S);
    CHECK_EQ(frame, -1);
    CHECK(coir_now() - start >= 4 * COIR_S && coir_now() - start < 5 * COIR_S);
    coir_close(stream);
    coir_sleep_for(COIR_S);
    CHECK_EQ(result, -ETIMEDOUT);
}

/* ---- what the peer reads meanwhile ---- */

static int send_some_and_receive(coir_ws *ws)
{
    coir_sleep_for(COIR_MS); /* the client has the handshake */
    for (int i = 0, rc = 0; i < 30 && rc == 0; i++) {
        COIR_DEADLINE(coir_in(COIR_MS));
        rc = coir_ws_send_binary(ws, data, sizeof data);
    }
    coir_sleep_for(COIR_S); /* the peer's system has what it takes */
    if (options.ping_interval == COIR_NEVER)
        CHECK_EQ(coir_ws_ping(ws), 0);
    return receive_all_messages(ws);
}

/* It has read all when the time of a ping is over that the full queue did not take. */
TEST_SERVER(a_peer_that_has_read_all_is_not_given_up)
{
    serve_socket = send_some_and_receive;
    options.ping_interval = 10 * COIR_S;
    options.ping_timeout = 4 * COIR_S;
    options.items_max = 3;
    coir_stream *stream = dial_ws(WS_REQUEST);
    coir_sleep_for(12 * COIR_S);
    for (int pings = 0; pings < 5; pings++) {
        while (read_frame(stream) == (WIRE_FIN | BINARY))
            continue;
        CHECK_EQ(came.first, WIRE_FIN | PING);
        put_text(WIRE_FIN | PONG, "");
        send_wire(stream);
    }
    coir_close(stream);
}

TEST_SERVER(what_was_read_before_a_ping_of_the_programs_does_not_count)
{
    serve_socket = send_some_and_receive;
    options.ping_interval = COIR_NEVER;
    options.ping_timeout = 4 * COIR_S;
    result = 0;
    coir_stream *stream = dial_ws(WS_REQUEST);
    coir_sleep_for(6 * COIR_S);
    CHECK_EQ(result, -ETIMEDOUT);
    coir_close(stream);
}
