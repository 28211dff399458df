/* Options, and the end of a connection by either side: codes, reasons, time limits. */
#include <coir/deadline.h>

#include <sys/wait.h>
#include <unistd.h>

#include "sys/misuse.h"
#include "wire.h"

static coir_ws_options options = COIR_WS_OPTIONS;

static int refuse_options(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_ws *ws;
    const struct {
        coir_ws_options options;
        int want;
    } cases[] = {
        {{.size = sizeof options, .ping_interval = -1}, -EINVAL},
        {{.size = sizeof options, .close_timeout = -1}, -EINVAL},
        {{.size = sizeof options, .overflow = (enum coir_overflow)9}, -EINVAL},
        {{.size = sizeof options, .compression = (enum coir_ws_compression)3}, -EINVAL},
        {{.size = sizeof options, .window_bits = 8}, -EINVAL},
        {{.size = sizeof options, .window_bits = 16}, -EINVAL},
        {{.size = 0}, -COIR_EUNSIZED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK_EQ(coir_ws_accept_with(req, res, &cases[i].options, &ws), cases[i].want);
    return coir_respond_text(res, 200, "refused\n");
}

/* Closes as the path says. */
static int result, code;

static int close_it(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_ws *ws;
    int rc = coir_ws_accept_with(req, res, &options, &ws);
    if (rc < 0)
        return rc;
    CHECK_EQ(coir_ws_close_code(ws), 0);
    CHECK_EQ(coir_ws_send_text(ws, "last"), 0);
    result = coir_ws_close(ws, 4005, "enough");
    code = coir_ws_close_code(ws);
    CHECK_EQ(coir_ws_send_text(ws, "late"), -EPIPE);
    CHECK_EQ(coir_ws_ping(ws), -EPIPE);
    return 0;
}

static int misuse_it(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_ws *ws;
    char longest[125];
    int rc = coir_ws_accept_with(req, res, &options, &ws);
    if (rc < 0)
        return rc;
    ci_misuse_aborts = false;
    memset(longest, 'r', sizeof longest - 1);
    longest[124] = '\0';
    CHECK_EQ(coir_ws_close(ws, 1005, NULL), -EINVAL);
    CHECK_EQ(coir_ws_close(ws, 1000, longest), -EINVAL);
    CHECK_EQ(coir_ws_close(ws, 1000, "\xff"), -EINVAL);
    return 0;
}

/* In a child after fork() nothing can be done with it. */
static int fork_it(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_ws *ws;
    coir_ws_message *message, *got;
    bool last;
    int rc = coir_ws_accept_with(req, res, &options, &ws), left;
    if (rc < 0)
        return rc;
    CHECK_EQ(coir_ws_message_new(COIR_WS_TEXT, "a", 1, &message), 0);
    pid_t child = fork();
    if (child == 0) {
        alarm(5);
        CHECK_EQ(coir_ws_recv(ws, &got), -COIR_EFORKED);
        CHECK_EQ(coir_ws_recv_part(ws, &got, &last), -COIR_EFORKED);
        CHECK_EQ(coir_ws_send(ws, message), -COIR_EFORKED);
        CHECK_EQ(coir_ws_try_send(ws, message), -COIR_EFORKED);
        CHECK_EQ(coir_ws_send_text(ws, "a"), -COIR_EFORKED);
        CHECK_EQ(coir_ws_send_binary(ws, "a", 1), -COIR_EFORKED);
        CHECK_EQ(coir_ws_send_part(ws, COIR_WS_TEXT, "a", 1, true), -COIR_EFORKED);
        CHECK_EQ(coir_ws_ping(ws), -COIR_EFORKED);
        CHECK_EQ(coir_ws_flush(ws), -COIR_EFORKED);
        CHECK_EQ(coir_ws_close(ws, 1000, NULL), -COIR_EFORKED);
        coir_ws_free(ws);
        coir_ws_message_unref(message);
        _exit(7);
    }
    CHECK(waitpid(child, &left, 0) == child && WIFEXITED(left) && WEXITSTATUS(left) == 7);
    coir_ws_message_unref(message);
    return coir_ws_send_text(ws, "forked");
}

static int serve(void *arg)
{
    (void)arg;
    static const struct route routes[] = {{"GET", "/options", refuse_options},
                                          {"GET", "/ws", close_it},
                                          {"GET", "/misuse", misuse_it},
                                          {"GET", "/fork", fork_it},
                                          {0}};
    return serve_routes(routes, NULL);
}

static void fork_in_a_handler(void)
{
    coir_stream *stream = dial();
    send_text(stream, "GET /fork HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n"
                      "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                      "Sec-WebSocket-Version: 13\r\n\r\n");
    CHECK_EQ(read_head(stream), 101);
    CHECK_EQ(read_frame(stream), WIRE_FIN | TEXT);
    CHECK(strcmp(came.payload, "forked") == 0);
    CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
    coir_close(stream);
}

TEST_SERVER(options_that_cannot_be)
{
    CHECK_EQ(status(ask(GET("/options"))), 200);
}

TEST_SERVER(the_server_closes)
{
    coir_stream *stream = dial_ws(WS_REQUEST);
    CHECK_EQ(read_frame(stream), WIRE_FIN | TEXT);
    CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
    CHECK_EQ(came_code(), 4005);
    CHECK(strcmp(came.payload + 2, "enough") == 0);
    put_text(WIRE_FIN | TEXT, "this was under way");
    put_close(4005, "");
    send_wire(stream);
    CHECK_EQ(read_frame(stream), -1);
    coir_close(stream);
    coir_sleep_for(COIR_S);
    CHECK_EQ(result, 0);
    CHECK_EQ(code, 4005);
}

TEST_SERVER(a_peer_that_does_not_close)
{
    options.close_timeout = 3 * COIR_S;
    coir_stream *stream = dial_ws(WS_REQUEST);
    coir_time start = coir_now();
    CHECK_EQ(read_frame(stream), WIRE_FIN | TEXT);
    CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
    CHECK_EQ(read_frame(stream), -1);
    CHECK(coir_now() - start >= 3 * COIR_S && coir_now() - start < 7 * COIR_S);
    CHECK_EQ(result, -ETIMEDOUT);
    coir_close(stream);
}

TEST_SERVER(closes_that_cannot_be)
{
    coir_stream *stream = dial();
    send_text(stream, "GET /misuse HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n"
                      "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                      "Sec-WebSocket-Version: 13\r\n\r\n");
    CHECK_EQ(read_head(stream), 101);
    CHECK_EQ(read_frame(stream), WIRE_FIN | CLOSE);
    CHECK_EQ(came_code(), 1000);
    coir_close(stream);
}

static void fork_beside_server(void)
{
    CHECK_EQ(with_server(serve, fork_in_a_handler), 0);
}

TEST(a_child_of_a_handler_does_nothing)
{
    test_in_runtime(fork_beside_server, 1);
}
