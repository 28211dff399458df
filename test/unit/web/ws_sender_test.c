/* The sending half of a connection: it is there while something is sent, whoever sends. */
#include "web/ws.h"

#include "socket.h"

static int serve(void *arg)
{
    (void)arg;
    static const struct route routes[] = {{"GET", "/ws", handle}, {0}};
    return serve_routes(routes, NULL);
}

/* ---- one task ---- */

static int send_now_and_then(coir_ws *ws)
{
    CHECK(!ws->sender);
    CHECK_EQ(coir_ws_flush(ws), 0); /* nothing is to be written */
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(coir_ws_send_text(ws, "a"), 0);
        const struct ci_ws_sender *sender = ws->sender;
        CHECK(sender && !ci_ws_sender_rest(ws)); /* it is not written */
        CHECK_EQ(coir_ws_flush(ws), 0);
        coir_sleep_for(COIR_MS);
        CHECK_EQ(coir_ws_send_text(ws, "b"), 0);
        CHECK_EQ(coir_ws_flush(ws), 0);
        CHECK(!ci_ws_sender_rest(ws)); /* it was used since the last look */
        CHECK(ws->sender == sender);
        ws->senders++; /* another worker's task is about to use it */
        CHECK(!ci_ws_sender_rest(ws) && ws->sender == sender);
        ws->senders--;
        CHECK(ci_ws_sender_rest(ws) && !ws->sender);
        CHECK_EQ(coir_ws_flush(ws), 0);
    }
    CHECK_EQ(coir_ws_send_part(ws, COIR_WS_TEXT, "b", 1, false), 0);
    CHECK_EQ(coir_ws_flush(ws), 0);
    for (int i = 0; i < 3; i++)
        CHECK(!ci_ws_sender_rest(ws)); /* the task has the turn */
    CHECK_EQ(coir_ws_send_part(ws, COIR_WS_TEXT, "", 0, true), 0);
    CHECK_EQ(coir_ws_flush(ws), 0);
    CHECK(!ci_ws_sender_rest(ws));
    CHECK(ci_ws_sender_rest(ws));
    return 0;
}

TEST_SERVER(it_is_made_by_a_send_and_freed_when_it_is_not_used)
{
    serve_socket = send_now_and_then;
    coir_stream *stream = dial_ws(WS_REQUEST);
    for (int i = 0; i < 6; i++) {
        CHECK_EQ(read_frame(stream), WIRE_FIN | TEXT);
        CHECK(strcmp(came.payload, i % 2 ? "b" : "a") == 0);
    }
    CHECK_EQ(read_frame(stream), TEXT);
    CHECK_EQ(read_frame(stream), WIRE_FIN | CONT);
    coir_close(stream);
}

static int receive_end(coir_ws *ws)
{
    coir_ws_message *message;
    CHECK_EQ(coir_ws_recv(ws, &message), -COIR_EEND);
    CHECK_EQ(coir_ws_send_text(ws, "late"), -EPIPE);
    CHECK_EQ(coir_ws_ping(ws), -EPIPE);
    CHECK_EQ(coir_ws_flush(ws), 0);
    return 1;
}

TEST_SERVER(one_that_has_ended_without_it_gets_none)
{
    serve_socket = receive_end;
    coir_close(dial_ws(WS_REQUEST));
    coir_sleep_for(COIR_S);
    CHECK_EQ(result, 1);
}

/* ---- several workers ---- */

enum { SENDERS = 4, SENDS = 100 };

struct sender {
    coir_ws *ws;
    int number;
};

static int sending, freed; /* freed: while tasks sent */
static bool only_flush;

static int send_many(void *arg)
{
    struct sender *sender = arg;
    uint64_t random = (uint64_t)sender->number;
    for (int i = 0; i < SENDS; i++) {
        char text[30];
        snprintf(text, sizeof text, "%d %d", sender->number, i);
        if (!only_flush || sender->number == 0)
            CHECK_EQ(coir_ws_send_text(sender->ws, text), 0);
        if (test_random(&random) % 2)
            CHECK_EQ(coir_ws_flush(sender->ws), 0);
        if (test_random(&random) % 2)
            coir_sleep_for((coir_time)(test_random(&random) % 50) * COIR_US);
    }
    __atomic_fetch_sub(&sending, 1, __ATOMIC_SEQ_CST);
    return 0;
}

/* The owner frees it whenever it can. */
static int send_from_all(coir_ws *ws)
{
    struct sender senders[SENDERS];
    COIR_SCOPE(scope);
    int workers = (int)coir_worker_count(coir_runtime_current());
    __atomic_store_n(&sending, SENDERS, __ATOMIC_SEQ_CST);
    for (int i = 0; i < SENDERS; i++) {
        coir_go_options go = COIR_GO_OPTIONS;
        senders[i] = (struct sender){ws, i};
        go.place = COIR_ON_WORKER(i % workers);
        CHECK_EQ(coir_go_with(scope, &go, send_many, &senders[i]), 0);
    }
    for (bool had = false; __atomic_load_n(&sending, __ATOMIC_SEQ_CST);) {
        bool has = !ci_ws_sender_rest(ws);
        freed += had && !has;
        had = has;
        coir_sleep_for(COIR_US);
    }
    return coir_scope_wait(scope);
}

static void many_senders(void)
{
    int next[SENDERS] = {0}, number, i;
    coir_stream *stream = dial_ws(WS_REQUEST);
    for (int messages = 0; messages < (only_flush ? 1 : SENDERS) * SENDS; messages++) {
        CHECK_EQ(read_frame(stream), WIRE_FIN | TEXT);
        CHECK_EQ(sscanf(came.payload, "%d %d", &number, &i), 2);
        CHECK_EQ(i, next[number]);
        next[number]++;
    }
    CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE); /* none is doubled */
    coir_close(stream);
}

static void beside_server(void)
{
    serve_socket = send_from_all; /* before there are other threads */
    CHECK_EQ(with_server(serve, many_senders), 0);
}

static void on_all(void)
{
    for (uint64_t seed = 1; seed <= 20; seed++)
        test_in_sim(beside_server, 3, seed);
    CHECK(freed > 0);
    for (int i = 0; i < 2; i++)
        test_in_runtime(beside_server, 3);
}

TEST(tasks_of_other_workers_send_while_it_is_freed)
{
    on_all();
}

TEST(tasks_of_other_workers_flush_while_it_is_freed)
{
    only_flush = true;
    on_all();
}
