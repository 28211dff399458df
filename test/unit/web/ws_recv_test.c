/* Receiving: in parts, in a select, cancelled, by two tasks. */
#include <coir/channel.h>

#include "coir/deadline.h"
#include "socket.h"

static int serve(void *arg)
{
    (void)arg;
    static const struct route routes[] = {{"GET", "/ws", handle}, {0}};
    return serve_routes(routes, NULL);
}

static void leave(coir_stream *stream)
{
    put_close(1000, "");
    send_wire(stream);
    while (read_frame(stream) > 0 && came.first != (WIRE_FIN | CLOSE))
        ;
    CHECK_EQ(came_code(), 1000);
    coir_close(stream);
    coir_sleep_for(COIR_S);
}

/* ---- parts ---- */

enum { STREAMED = 300000 };

/* Adds up a message that is longer than message_max; answers with its length and the parts. */
static int add_up(coir_ws *ws)
{
    coir_ws_message *part;
    bool last = false;
    size_t len = 0, parts = 0;
    int rc;
    while (!last && (rc = coir_ws_recv_part(ws, &part, &last)) > 0) {
        const char *data = coir_ws_message_data(part);
        for (size_t i = 0; i < coir_ws_message_len(part); i++)
            CHECK_EQ(data[i], (char)('a' + (len + i) % 7));
        len += coir_ws_message_len(part);
        CHECK_EQ(coir_ws_message_type(part), COIR_WS_BINARY);
        coir_ws_message_unref(part);
        parts++;
    }
    char text[60];
    snprintf(text, sizeof text, "%zu %d", len, parts > 1);
    CHECK_EQ(coir_ws_send_text(ws, text), 0);
    return coir_ws_recv(ws, &part);
}

static void sends_in_frames_of(size_t step)
{
    static char data[STREAMED];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)('a' + i % 7);
    serve_socket = add_up;
    options.message_max = 1000;
    coir_stream *stream = dial_ws(WS_REQUEST);
    for (size_t at = 0; at < sizeof data; at += step) {
        size_t len = sizeof data - at < step ? sizeof data - at : step;
        put_frame((at + len == sizeof data ? WIRE_FIN : 0) | (at ? CONT : BINARY), data + at, len);
    }
    send_wire(stream);
    CHECK_EQ(read_frame(stream), WIRE_FIN | TEXT);
    CHECK(strcmp(came.payload, "300000 1") == 0);
    leave(stream);
    CHECK_EQ(result, 0);
}

TEST_SERVER(a_message_in_parts)
{
    sends_in_frames_of(STREAMED);
    sends_in_frames_of(7000);
    sends_in_frames_of(100);
}

/* ---- select and cancellation: nothing is lost ---- */

/* Receives by selects of which most are lost to a channel or to the time. */
static int select_often(coir_ws *ws)
{
    coir_channel *channel;
    coir_ws_message *message = NULL;
    int item, rc = 0;
    CHECK_EQ(coir_channel_new(sizeof item, 4, &channel), 0);
    for (int i = 0; rc == 0; i++) {
        if (i % 3 == 0)
            coir_channel_try_send(channel, &i);
        coir_case waits[] = {coir_case_ws_recv(ws, &message), coir_case_recv(channel, &item),
                             coir_case_after((i % 5) * COIR_MS)};
        int which = coir_select(waits, 3);
        CHECK(which >= 0);
        if (which == 0 && waits[0].result > 0) {
            rc = coir_ws_send(ws, message);
            coir_ws_message_unref(message);
        } else if (which == 0) {
            rc = (int)waits[0].result - 1;
        }
    }
    coir_channel_free(channel);
    return rc + 1;
}

static int with_deadlines(coir_ws *ws)
{
    for (;;) {
        coir_ws_message *message;
        COIR_DEADLINE(coir_in(3 * COIR_MS));
        int rc = coir_ws_recv(ws, &message);
        if (rc == -ETIME)
            continue;
        if (rc <= 0)
            return rc;
        CHECK_EQ(coir_ws_try_send(ws, message), 0);
        coir_ws_message_unref(message);
    }
}

/* 300 numbered messages, in pieces of 13 bytes, come back in order. */
static void numbers_come_back(int (*how)(coir_ws *ws))
{
    serve_socket = how;
    coir_stream *stream = dial_ws(WS_REQUEST);
    for (int i = 0; i < 300; i++) {
        char text[20];
        snprintf(text, sizeof text, "number %d", i);
        put_text(WIRE_FIN | TEXT, text);
    }
    for (size_t at = 0; at < wire_len; at += 13) {
        send_bytes(stream, (const char *)wire + at, wire_len - at < 13 ? wire_len - at : 13);
        coir_sleep_for(COIR_MS);
    }
    wire_len = 0;
    for (int i = 0; i < 300; i++) {
        char text[20];
        snprintf(text, sizeof text, "number %d", i);
        CHECK_EQ(read_frame(stream), WIRE_FIN | TEXT);
        CHECK(strcmp(came.payload, text) == 0);
    }
    leave(stream);
    CHECK_EQ(result, 0);
}

TEST_SERVER(a_receive_that_loses_a_select_loses_nothing)
{
    numbers_come_back(select_often);
}

TEST_SERVER(a_receive_that_runs_into_a_deadline_loses_nothing)
{
    numbers_come_back(with_deadlines);
}

static int second(void *ws)
{
    coir_ws_message *message;
    return coir_ws_recv(ws, &message);
}

static int receive_twice(coir_ws *ws)
{
    COIR_SCOPE(scope);
    COIR_HANDLE(handle);
    coir_go_options go = COIR_GO_OPTIONS;
    go.handle = handle;
    CHECK_EQ(coir_go_with(scope, &go, second, ws), 0);
    coir_sleep_for(COIR_MS); /* it waits */
    CHECK_EQ(second(ws), -EBUSY);
    CHECK_EQ(coir_join(handle), 0);
    CHECK_EQ(coir_ws_result(ws), 0);
    return 0;
}

TEST_SERVER(one_task_receives)
{
    serve_socket = receive_twice;
    coir_stream *stream = dial_ws(WS_REQUEST);
    coir_sleep_for(COIR_S);
    leave(stream);
    CHECK_EQ(code, 1000);
}

/* ---- the end ---- */

TEST_SERVER(an_end_without_a_close)
{
    serve_socket = receive_all_messages;
    coir_stream *stream = dial_ws(WS_REQUEST);
    put_text(TEXT, "half");
    send_wire(stream);
    coir_close(stream);
    coir_sleep_for(COIR_S);
    CHECK_EQ(result, -COIR_EEND);
    CHECK_EQ(code, 1006);
    stream = dial_ws(WS_REQUEST);
    coir_tcp_set_option(stream, COIR_TCP_RESET_ON_CLOSE, 1);
    coir_close(stream);
    coir_sleep_for(COIR_S);
    CHECK_EQ(result, -ECONNRESET);
}

static int keep_reason(coir_ws *ws)
{
    int rc = receive_all_messages(ws);
    CHECK(strcmp(coir_ws_close_reason(ws), "enough") == 0);
    return rc;
}

TEST_SERVER(the_reason_of_a_close)
{
    serve_socket = keep_reason;
    coir_stream *stream = dial_ws(WS_REQUEST);
    put_close(4000, "enough");
    send_wire(stream);
    CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
    CHECK_EQ(came_code(), 4000);
    coir_close(stream);
    coir_sleep_for(COIR_S);
    CHECK_EQ(code, 4000);
    CHECK_EQ(result, 0);
}
