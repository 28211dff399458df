/* A client and a server of coir's close at the same time, or one of them while it sends. */
#include "wire.h"

static int both(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_ws *ws;
    int rc = coir_ws_accept(req, res, &ws);
    if (rc < 0)
        return rc;
    CHECK_EQ(coir_ws_close(ws, 4001, "server"), 0);
    CHECK_EQ(coir_ws_close(ws, 4001, "again"), 0);
    CHECK(coir_ws_close_code(ws) == 4002 || coir_ws_close_code(ws) == 4001);
    return 0;
}

/* The peer's close is received by one task while another one closes. */
static int receive(void *ws)
{
    coir_ws_message *message;
    return coir_ws_recv(ws, &message);
}

static int beside(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_ws *ws;
    int rc = coir_ws_accept(req, res, &ws);
    if (rc < 0)
        return rc;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, receive, ws), 0);
    coir_sleep_for(COIR_MS);
    CHECK_EQ(coir_ws_close(ws, 4003, NULL), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_ws_close_code(ws), 4003);
    return 0;
}

/* The peer never answers the close frame. */
static int in_vain(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_ws *ws;
    coir_ws_options options = COIR_WS_OPTIONS;
    options.close_timeout = COIR_S;
    int rc = coir_ws_accept_with(req, res, &options, &ws);
    if (rc < 0)
        return rc;
    CHECK_EQ(coir_ws_close(ws, 1000, NULL), -ETIMEDOUT);
    CHECK_EQ(coir_ws_close_code(ws), 1006);
    CHECK_EQ(receive(ws), -ETIMEDOUT);
    CHECK_EQ(coir_ws_close(ws, 1000, NULL), -ETIMEDOUT);
    return 0;
}

static bool was_full;

/* The peer takes nothing, either. */
static int in_vain_and_full(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    static char block[100000];
    coir_ws *ws;
    coir_ws_options options = COIR_WS_OPTIONS;
    options.close_timeout = COIR_S;
    int rc = coir_ws_accept_with(req, res, &options, &ws);
    for (int i = 0; rc == 0 && i < 5; i++)
        rc = coir_ws_send_binary(ws, block, sizeof block);
    if (rc < 0)
        return rc;
    CHECK_EQ(coir_ws_close(ws, 1000, NULL), -ETIMEDOUT);
    coir_time start = coir_now();
    CHECK_EQ(coir_ws_close(ws, 1000, NULL), -ETIMEDOUT); /* as the server does, behind this */
    CHECK_EQ(coir_ws_flush(ws), -ECANCELED);
    CHECK_EQ(coir_now() - start, 0);
    was_full = true;
    return 0;
}

static int serve(void *arg)
{
    (void)arg;
    static const struct route routes[] = {{"GET", "/both", both},
                                          {"GET", "/beside", beside},
                                          {"GET", "/ws", in_vain},
                                          {"GET", "/full", in_vain_and_full},
                                          {0}};
    return serve_routes(routes, NULL);
}

static coir_ws *connect_to(const char *path)
{
    char url[100];
    coir_ws *ws;
    snprintf(url, sizeof url, "ws://%s%s", server_address, path);
    CHECK_EQ(coir_ws_connect(url, &ws), 0);
    return ws;
}

TEST_SERVER(both_sides_close)
{
    for (int i = 0; i < 20; i++) {
        coir_ws *ws = connect_to("/both");
        coir_sleep_for(i * 100 * COIR_US);
        CHECK_EQ(coir_ws_close(ws, 4002, "client"), 0);
        CHECK(coir_ws_close_code(ws) == 4001 || coir_ws_close_code(ws) == 4002);
        if (coir_ws_close_code(ws) == 4001)
            CHECK(strcmp(coir_ws_close_reason(ws), "server") == 0);
        coir_ws_free(ws);
    }
}

TEST_SERVER(a_close_beside_a_receive)
{
    coir_ws *ws = connect_to("/beside");
    coir_ws_message *message;
    CHECK_EQ(coir_ws_recv(ws, &message), 0);
    CHECK_EQ(coir_ws_close_code(ws), 4003);
    CHECK_EQ(coir_ws_close(ws, 1000, NULL), 0);
    coir_ws_free(ws);
}

TEST_SERVER(a_close_that_is_not_answered_in_time_ends_the_connection)
{
    coir_stream *stream = dial_ws(WS_REQUEST);
    coir_time start = coir_now();
    CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
    CHECK_EQ(read_frame(stream), -1);
    CHECK(coir_now() - start < 2 * COIR_S); /* close_timeout is 1 s */
    coir_close(stream);
}

TEST_SERVER(nor_does_it_wait_for_what_the_peer_does_not_take)
{
    coir_stream *stream =
        dial_ws("GET /full HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n");
    coir_sleep_for(5 * COIR_S);
    CHECK(was_full);
    coir_close(stream);
}
