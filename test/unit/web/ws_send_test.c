/* Sending: from many tasks, on several workers, in parts, and when the peer takes nothing. */
#include "socket.h"

static int serve(void *arg)
{
    (void)arg;
    static const struct route routes[] = {{"GET", "/ws", handle}, {0}};
    return serve_routes(routes, NULL);
}

/* ---- many senders ---- */

enum { SENDERS = 5, SENDS = 40 };

struct sender {
    coir_ws *ws;
    int number;
};

/* Whole messages, and messages in parts, whose parts nothing may stand between. */
static int send_many(void *arg)
{
    struct sender *sender = arg;
    for (int i = 0; i < SENDS; i++) {
        char text[30];
        snprintf(text, sizeof text, "%d %d", sender->number, i);
        if (i % 3) { /* whole */
            CHECK_EQ(coir_ws_send_text(sender->ws, text), 0);
            continue;
        }
        for (size_t at = 0; text[at]; at++) {
            CHECK_EQ(coir_ws_send_part(sender->ws, COIR_WS_TEXT, text + at, 1, !text[at + 1]), 0);
            coir_yield();
        }
    }
    return 0;
}

/* On all workers. */
static void start_senders(coir_scope *scope, struct sender *senders, coir_ws *ws, coir_task_fn *fn)
{
    int workers = (int)coir_worker_count(coir_runtime_current());
    for (int i = 0; i < SENDERS; i++) {
        coir_go_options go = COIR_GO_OPTIONS;
        senders[i] = (struct sender){ws, i};
        go.place = COIR_ON_WORKER(i % workers);
        CHECK_EQ(coir_go_with(scope, &go, fn, &senders[i]), 0);
    }
}

static int send_from_many_tasks(coir_ws *ws)
{
    struct sender senders[SENDERS];
    COIR_SCOPE(scope);
    start_senders(scope, senders, ws, send_many);
    return coir_scope_wait(scope);
}

/* Puts messages together; each sender's come in order. */
static void check_order(coir_stream *stream)
{
    int next[SENDERS] = {0}, messages = 0;
    char text[100] = "";
    while (messages < SENDERS * SENDS) {
        int first = read_frame(stream), number, i;
        CHECK((first & 15) == (*text ? CONT : TEXT));
        strcat(text, came.payload);
        if (!(first & WIRE_FIN))
            continue;
        CHECK_EQ(sscanf(text, "%d %d", &number, &i), 2);
        CHECK_EQ(i, next[number]);
        next[number]++;
        *text = '\0';
        messages++;
    }
}

static void many_senders(void)
{
    coir_stream *stream = dial_ws(WS_REQUEST);
    check_order(stream);
    coir_close(stream);
}

/* What the handler reads is set before there is a server, which may call it on another thread. */
static void beside_server(void)
{
    serve_socket = send_from_many_tasks;
    options.items_max = 4;
    CHECK_EQ(with_server(serve, many_senders), 0);
}

TEST(many_tasks_send_on_one_worker)
{
    for (uint64_t seed = 1; seed <= 20; seed++)
        test_in_sim(beside_server, 1, seed);
}

TEST(many_tasks_send_on_several_workers)
{
    for (uint64_t seed = 1; seed <= 20; seed++)
        test_in_sim(beside_server, 3, seed);
    test_in_runtime(beside_server, 3);
}

/* ---- one message for many connections, and an echo, without a copy ---- */

static int send_one_twice(coir_ws *ws)
{
    coir_ws_message *message;
    CHECK_EQ(coir_ws_message_new(COIR_WS_TEXT, "shared", 6, &message), 0);
    CHECK_EQ(coir_ws_send(ws, message), 0);
    CHECK_EQ(coir_ws_try_send(ws, message), 0);
    CHECK_EQ(coir_ws_flush(ws), 0);
    CHECK_EQ(coir_ws_message_len(message), 6);
    coir_ws_message_unref(message);
    return 0;
}

TEST_SERVER(one_message_is_sent_twice)
{
    serve_socket = send_one_twice;
    coir_stream *stream = dial_ws(WS_REQUEST);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(read_frame(stream), WIRE_FIN | TEXT);
        CHECK(strcmp(came.payload, "shared") == 0);
    }
    coir_close(stream);
}

/* ---- a peer that takes nothing ---- */

static char data[100000];

static int fill_the_queue(coir_ws *ws)
{
    int rc = coir_sleep_for(COIR_S); /* the client has the handshake: a reset would take it */
    for (int i = 0; i < 1000 && rc == 0; i++) {
        COIR_DEADLINE(coir_in(COIR_S));
        rc = coir_ws_send_binary(ws, data, sizeof data);
    }
    return rc;
}

static int with_policy(enum coir_overflow overflow)
{
    options = (coir_ws_options)COIR_WS_OPTIONS;
    options.overflow = overflow;
    options.bytes_max = 300000;
    serve_socket = fill_the_queue;
    result = 1;
    coir_stream *stream = dial_ws(WS_REQUEST);
    coir_sleep_for(30 * COIR_S);
    coir_close(stream);
    coir_sleep_for(10 * COIR_S);
    return result;
}

TEST_SERVER(policies_for_a_slow_peer)
{
    CHECK_EQ(with_policy(COIR_OVERFLOW_WAIT), -ETIME);
    CHECK_EQ(with_policy(COIR_OVERFLOW_CLOSE), -EPIPE);
    CHECK_EQ(with_policy(COIR_OVERFLOW_DROP_OLDEST), 0);
    CHECK_EQ(with_policy(COIR_OVERFLOW_DROP_NEWEST), 0);
}

static int refuse_what_does_not_go(coir_ws *ws)
{
    CHECK_EQ(coir_ws_send_binary(ws, data, sizeof data), -COIR_ETOOLARGE);
    CHECK_EQ(coir_ws_send_text(ws, "\xff"), -EILSEQ);
    if (options.overflow != COIR_OVERFLOW_WAIT) {
        CHECK_EQ(coir_ws_send_part(ws, COIR_WS_TEXT, "a", 1, true), -EOPNOTSUPP);
        return 0;
    }
    CHECK_EQ(coir_ws_send_part(ws, COIR_WS_TEXT, "a", 1, false), 0);
    CHECK_EQ(coir_ws_send_text(ws, "b"), -EBUSY); /* it would wait for itself */
    CHECK_EQ(coir_ws_send_part(ws, COIR_WS_TEXT, "c", 1, true), 0);
    return 0;
}

TEST_SERVER(what_cannot_be_sent)
{
    options.bytes_max = 1000;
    serve_socket = refuse_what_does_not_go;
    coir_stream *stream = dial_ws(WS_REQUEST);
    CHECK_EQ(read_frame(stream), TEXT);
    CHECK_EQ(read_frame(stream), WIRE_FIN | CONT);
    coir_close(stream);
    options.overflow = COIR_OVERFLOW_DROP_OLDEST;
    result = 1;
    stream = dial_ws(WS_REQUEST);
    coir_sleep_for(COIR_S);
    CHECK_EQ(result, 0);
    coir_close(stream);
}

/* ---- control frames and a full queue ---- */

static int sent, sends_max;

static int send_numbers_and_receive(coir_ws *ws)
{
    int rc = coir_sleep_for(COIR_MS);
    for (sent = 0; sent < sends_max && rc == 0; sent += rc == 0) {
        coir_ws_message *message;
        data[0] = (char)(sent + 1);
        CHECK_EQ(coir_ws_message_new(COIR_WS_BINARY, data, sizeof data, &message), 0);
        rc = coir_ws_try_send(ws, message);
        coir_ws_message_unref(message);
        coir_sleep_for(COIR_MS);
    }
    rc = coir_ws_ping(ws);
    CHECK(rc == -EAGAIN);
    return receive_all_messages(ws);
}

/* The number of the last message that a peer gets which pings, and reads late. */
static int last_of(enum coir_overflow overflow, int most)
{
    int last = 0;
    options.overflow = overflow;
    sends_max = most;
    coir_stream *stream = dial_ws(WS_REQUEST);
    coir_sleep_for(COIR_S);
    put_text(WIRE_FIN | PING, "there?");
    send_wire(stream);
    coir_sleep_for(COIR_S);
    put_close(1000, "");
    send_wire(stream);
    while (read_frame(stream) == (WIRE_FIN | BINARY))
        last = came.payload[0];
    CHECK_EQ(came_code(), 1000);
    coir_close(stream);
    return last;
}

TEST_SERVER(control_frames_displace_no_message)
{
    serve_socket = send_numbers_and_receive;
    options.items_max = 1;
    CHECK(last_of(COIR_OVERFLOW_WAIT, 100) == sent && sent > 1);
    CHECK_EQ(last_of(COIR_OVERFLOW_CLOSE, sent), sent);
    CHECK_EQ(last_of(COIR_OVERFLOW_DROP_OLDEST, 100), 100);
    CHECK_EQ(last_of(COIR_OVERFLOW_KEEP_LATEST, 100), 100);
}

/* ---- a message in parts that is not ended ---- */

static int waits_result;

static int wait_for_turn(void *ws)
{
    waits_result = coir_ws_send_text(ws, "behind the parts");
    return 0;
}

/* The connection ends; `closes`: by the task that has the turn. */
static int begin_parts(coir_ws *ws, bool closes)
{
    COIR_SCOPE(scope);
    CHECK_EQ(coir_ws_send_part(ws, COIR_WS_TEXT, "a", 1, false), 0);
    CHECK_EQ(coir_go(scope, wait_for_turn, ws), 0);
    coir_sleep_for(COIR_MS);
    CHECK_EQ(closes ? coir_ws_close(ws, 1000, NULL) : receive_all_messages(ws), 0);
    {
        COIR_DEADLINE(coir_in(COIR_S));
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    CHECK_EQ(waits_result, -EPIPE);
    CHECK_EQ(coir_ws_send_part(ws, COIR_WS_TEXT, "b", 1, true), -EPIPE);
    return 0;
}

static int begin_parts_and_close(coir_ws *ws)
{
    return begin_parts(ws, true);
}

static int begin_parts_and_receive(coir_ws *ws)
{
    return begin_parts(ws, false);
}

TEST_SERVER(the_end_wakes_who_waits_for_the_last_part)
{
    for (int i = 0; i < 2; i++) {
        serve_socket = i ? begin_parts_and_receive : begin_parts_and_close;
        result = waits_result = 1;
        coir_stream *stream = dial_ws(WS_REQUEST);
        CHECK_EQ(read_frame(stream), TEXT);
        coir_sleep_for(COIR_S);
        put_close(1000, "");
        send_wire(stream);
        CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
        CHECK_EQ(read_frame(stream), -1);
        coir_close(stream);
        CHECK_EQ(result, 0);
    }
}

/* Parts on several workers, while the peer closes. Half of the tasks stop within a message. */
static int send_parts_to_the_end(void *arg)
{
    const struct sender *sender = arg;
    int rc = 0;
    for (int i = 0; rc == 0 && (sender->number % 2 || i < 10 * sender->number + 2); i++) {
        rc = coir_ws_send_part(sender->ws, COIR_WS_TEXT, "part", 4, i % 3 == 2);
        coir_yield();
    }
    return 0;
}

static int send_parts_and_receive(coir_ws *ws)
{
    struct sender senders[SENDERS];
    COIR_SCOPE(scope);
    start_senders(scope, senders, ws, send_parts_to_the_end);
    int rc = receive_all_messages(ws);
    COIR_DEADLINE(coir_in(10 * COIR_S));
    CHECK_EQ(coir_scope_wait(scope), 0);
    return rc;
}

static void close_soon(void)
{
    coir_stream *stream = dial_ws(WS_REQUEST);
    CHECK_EQ(read_frame(stream), TEXT);
    put_close(1000, "");
    send_wire(stream);
    while (read_frame(stream) != (WIRE_FIN | CLOSE))
        CHECK((came.first & 15) <= TEXT);
    CHECK_EQ(read_frame(stream), -1);
    coir_close(stream);
}

static void close_beside_server(void)
{
    serve_socket = send_parts_and_receive;
    options.items_max = 4;
    CHECK_EQ(with_server(serve, close_soon), 0);
}

TEST(the_end_wakes_who_waits_on_several_workers)
{
    for (uint64_t seed = 1; seed <= 20; seed++)
        test_in_sim(close_beside_server, 3, seed);
    test_in_runtime(close_beside_server, 3);
}
