/* What connections share for which the same was agreed on. */
#include "web/ws.h"

#include "wire.h"

static coir_ws_options options = COIR_WS_OPTIONS;
static struct ci_http_worker *http;
static coir_ws *newest;

static int on_message(coir_ws *ws, coir_ws_message *message, void *arg)
{
    (void)arg;
    return message ? coir_ws_send_text(ws, coir_ws_protocol(ws)) : 0;
}

static int on_other(coir_ws *ws, coir_ws_message *message, void *arg)
{
    return on_message(ws, message, arg);
}

static coir_ws_message_fn *fn = on_message;

static int handle(coir_request *req, coir_response *res, void *arg)
{
    http = ci_http_worker_of(ci_worker_current);
    return coir_ws_handle_with(req, res, &options, fn, arg, &newest);
}

static int serve(void *arg)
{
    (void)arg;
    static const struct route routes[] = {{"GET", "/ws", handle}, {0}};
    return serve_routes(routes, NULL);
}

static int count_terms(void)
{
    int count = 0;
    ci_list_for_each (node, &http->terms)
        count++;
    return count;
}

#define REQUEST_FOR(name) WS_REQUEST_WITH("Sec-WebSocket-Protocol: " name "\r\n")

TEST_SERVER(equal_connections_share_them)
{
    enum { MANY = 20 };
    coir_stream *streams[MANY];
    const struct ci_ws_terms *terms = NULL;
    for (int i = 0; i < MANY; i++) {
        streams[i] = dial_ws(WS_REQUEST);
        CHECK(!terms || newest->terms == terms);
        terms = newest->terms;
    }
    CHECK_EQ(terms->users, MANY);
    CHECK_EQ(count_terms(), 1);
    for (int i = 0; i < MANY; i++)
        coir_close(streams[i]);
    coir_sleep_for(20 * COIR_S);
    CHECK_EQ(terms->users, 0);
    CHECK_EQ(count_terms(), 1); /* the newest stay */
    coir_close(dial_ws(WS_REQUEST));
    CHECK(newest->terms == terms);
}

/* Each step changes one thing. */
static void differ(int step)
{
    switch (step) {
    case 0: break;
    case 1: options.items_max = 7; break;
    case 2: options.bytes_max = 100000; break;
    case 3: options.message_max = 10000; break;
    case 4: options.overflow = COIR_OVERFLOW_CLOSE; break;
    case 5: options.ping_interval = 40 * COIR_S; break;
    case 6: options.ping_timeout = 41 * COIR_S; break;
    case 7: options.close_timeout = 42 * COIR_S; break;
    default: fn = on_other; break;
    }
}

TEST_SERVER(different_ones_do_not)
{
    enum { STEPS = 9 };
    coir_stream *streams[STEPS];
    const struct ci_ws_terms *terms[STEPS];
    for (int i = 0; i < STEPS; i++) {
        differ(i);
        streams[i] = dial_ws(WS_REQUEST);
        terms[i] = newest->terms;
        for (int other = 0; other < i; other++)
            CHECK(terms[other] != terms[i]);
    }
    CHECK_EQ(count_terms(), STEPS);
    for (int i = 0; i < STEPS; i++)
        coir_close(streams[i]);
    coir_sleep_for(20 * COIR_S);
    CHECK_EQ(count_terms(), 1);
}

TEST_SERVER(the_subprotocol_is_one_of_them)
{
    static const char *const names[] = {"chat", "chat2", "cha"};
    static const char *const requests[] = {REQUEST_FOR("chat"), REQUEST_FOR("chat2"),
                                           REQUEST_FOR("cha")};
    options.protocols = "chat, chat2, cha";
    for (int i = 0; i < 6; i++) {
        coir_stream *stream = dial_ws(requests[i % 3]);
        put_text(WIRE_FIN | TEXT, "who?");
        send_wire(stream);
        CHECK_EQ(read_frame(stream), WIRE_FIN | TEXT);
        CHECK(strcmp(came.payload, names[i % 3]) == 0);
        coir_close(stream);
    }
}
