/* Clients: URLs, what a server may answer, and a client beside a server of coir's. */
#include <coir/deadline.h>

#include "wire.h"

static coir_ws_options options = COIR_WS_OPTIONS;

/* Echoes, and answers "?path" with what the request said. */
static int handle(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_ws *ws;
    coir_ws_message *message;
    coir_ws_options with = COIR_WS_OPTIONS;
    const char *origin = coir_request_header(req, "origin");
    with.protocols = "b, c";
    int rc = coir_ws_accept_with(req, res, &with, &ws);
    char text[300];
    snprintf(text, sizeof text, "%s %s?%s %s", coir_request_host(req), coir_request_path(req),
             coir_request_query(req), origin ? origin : "-");
    if (rc < 0 || (rc = coir_ws_send_text(ws, text)) < 0)
        return rc;
    while ((rc = coir_ws_recv(ws, &message)) > 0) {
        rc = coir_ws_send(ws, message);
        coir_ws_message_unref(message);
    }
    return 0;
}

static int serve(void *arg)
{
    (void)arg;
    static const struct route routes[] = {{"GET", "/", handle}, {"GET", "/ws", handle}, {0}};
    return serve_routes(routes, NULL);
}

static void expect_text(coir_ws *ws, const char *want)
{
    coir_ws_message *message;
    CHECK_EQ(coir_ws_recv(ws, &message), 1);
    CHECK_EQ(coir_ws_message_len(message), strlen(want));
    CHECK(memcmp(coir_ws_message_data(message), want, strlen(want)) == 0);
    coir_ws_message_unref(message);
}

static coir_ws *connect_to(const char *scheme, const char *target)
{
    char url[200];
    coir_ws *ws;
    int rc;
    snprintf(url, sizeof url, "%s%s%s", scheme, server_address, target);
    while ((rc = coir_ws_connect_with(url, &options, &ws)) == -ECONNREFUSED)
        coir_sleep_for(COIR_MS);
    CHECK_EQ(rc, 0);
    return ws;
}

TEST_SERVER(what_a_client_asks_for)
{
    static const char *const cases[][2] = {
        {"", "/?"}, {"/ws", "/ws?"}, {"/ws?a=1&b", "/ws?a=1&b"}, {"?q", "/?q"}, {"/ws?", "/ws?"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char want[200];
        coir_ws *ws = connect_to(i % 2 ? "ws://" : "WS://", cases[i][0]);
        snprintf(want, sizeof want, "%s %s -", server_address, cases[i][1]);
        expect_text(ws, want);
        CHECK(strcmp(coir_ws_protocol(ws), "") == 0);
        CHECK_EQ(coir_ws_close(ws, 1000, NULL), 0);
        CHECK_EQ(coir_ws_close_code(ws), 1000);
        coir_ws_free(ws);
    }
    options.origin = "https://a.example";
    options.protocols = "a, b";
    coir_ws *ws = connect_to("ws://", "/ws");
    CHECK(strcmp(coir_ws_protocol(ws), "b") == 0);
    coir_ws_message *message;
    CHECK_EQ(coir_ws_recv(ws, &message), 1);
    CHECK(memmem(coir_ws_message_data(message), coir_ws_message_len(message), "https://a.example",
                 17));
    coir_ws_message_unref(message);
    coir_ws_free(ws);
    coir_ws_free(NULL);
}

TEST_SERVER(a_client_sends_and_receives)
{
    static char data[200000];
    coir_ws *ws = connect_to("ws://", "/ws");
    coir_ws_message *message;
    CHECK_EQ(coir_ws_recv(ws, &message), 1);
    coir_ws_message_unref(message);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 7);
    for (size_t len = 0; len < sizeof data; len = len * 3 + 1) {
        CHECK_EQ(coir_ws_send_binary(ws, data, len), 0);
        CHECK_EQ(coir_ws_recv(ws, &message), 1);
        CHECK_EQ(coir_ws_message_len(message), len);
        CHECK(memcmp(coir_ws_message_data(message), data, len) == 0);
        CHECK_EQ(coir_ws_message_type(message), COIR_WS_BINARY);
        coir_ws_message_unref(message);
    }
    for (size_t at = 0; at < 1000; at += 100)
        CHECK_EQ(coir_ws_send_part(ws, COIR_WS_BINARY, data + at, 100, at == 900), 0);
    CHECK_EQ(coir_ws_recv(ws, &message), 1);
    CHECK(coir_ws_message_len(message) == 1000 &&
          memcmp(coir_ws_message_data(message), data, 1000) == 0);
    coir_ws_message_unref(message);
    CHECK_EQ(coir_ws_ping(ws), 0);
    CHECK_EQ(coir_ws_close(ws, 4000, "bye"), 0);
    CHECK_EQ(coir_ws_close_code(ws), 4000);
    CHECK_EQ(coir_ws_send_text(ws, "late"), -EPIPE);
    CHECK_EQ(coir_ws_ping(ws), -EPIPE);
    coir_ws_free(ws);
}

TEST_SIM(urls_that_are_none)
{
    static const struct {
        const char *url;
        int want;
    } cases[] = {
        {"", -COIR_EADDRESS},
        {"ws:", -COIR_EADDRESS},
        {"ws://", -COIR_EADDRESS},
        {"http://a/", -COIR_EADDRESS},
        {"ws:///path", -COIR_EADDRESS},
        {"ws://:80/", -COIR_EADDRESS},
        {"ws://a:/", -COIR_EADDRESS},
        {"ws://a b/", -COIR_EADDRESS},
        {"ws://user@a/", -COIR_EADDRESS},
        {"ws://a/#part", -COIR_EADDRESS},
        {"ws://a/\r\nX: y", -COIR_EADDRESS},
        {"ws://a/ b", -COIR_EADDRESS},
        {"ws://[::1/", -COIR_EADDRESS},
        {"wss://a/", -EPROTONOSUPPORT},
        {"ws://127.0.0.1:9/", -ECONNREFUSED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        coir_ws *ws;
        int got = coir_ws_connect(cases[i].url, &ws);
        if (got != cases[i].want)
            test_fail(__FILE__, __LINE__, "%s: %d, not %d", cases[i].url, got, cases[i].want);
    }
}

/* ---- a server of bytes ---- */

static const char *reply;
static bool hangs;

static int answer_bytes(coir_stream *stream, void *arg)
{
    (void)arg;
    char request[2000];
    ssize_t n = coir_read(stream, request, sizeof request);
    CHECK(n > 0 && memmem(request, (size_t)n, "\r\n\r\n", 4));
    CHECK_EQ(coir_write_all(stream, reply, strlen(reply)), 0);
    if (hangs)
        while (coir_read(stream, request, sizeof request) > 0)
            ;
    return 0;
}

static int serve_bytes(void *arg)
{
    (void)arg;
    return coir_serve_tcp("127.0.0.1:80", answer_bytes, NULL);
}

static void answers_that_are_refused(void)
{
    static const struct {
        const char *reply;
        int want;
    } cases[] = {
        {"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", -ECONNREFUSED},
        {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
         "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
         -COIR_EPROTOCOL},
        {"SSH-2.0-OpenSSH_9.2\r\n", -COIR_EPROTOCOL},
        {"HTTP/1.1 101 Switch", -COIR_EEND},
    };
    coir_ws *ws;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        reply = cases[i].reply;
        CHECK_EQ(coir_ws_connect("ws://127.0.0.1:80", &ws), cases[i].want);
    }
    hangs = true;
    reply = "HTTP/1.1 101 Switch";
    options.connect_timeout = 3 * COIR_S;
    coir_time start = coir_now();
    CHECK_EQ(coir_ws_connect_with("ws://127.0.0.1:80", &options, &ws), -ETIMEDOUT);
    CHECK(coir_now() - start >= 3 * COIR_S && coir_now() - start < 4 * COIR_S);
    COIR_DEADLINE(coir_in(COIR_S));
    CHECK_EQ(coir_ws_connect_with("ws://127.0.0.1:80", &options, &ws), -ETIME);
}

TEST_SIM(answers)
{
    CHECK_EQ(with_server(serve_bytes, answers_that_are_refused), 0);
}

/* ---- a server that is there, and refuses: the log says so, -ECONNREFUSED alone does not ---- */

static char line[600]; /* of the log */

static void take_line(enum coir_log_level level, const char *text, void *arg)
{
    (void)arg;
    if (level == COIR_LOG_INFO && strstr(text, "WebSocket"))
        snprintf(line, sizeof line, "%s", text);
}

static int answer_once(void *listener)
{
    coir_stream *stream;
    CHECK_EQ(coir_accept(listener, &stream), 0);
    reply = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    answer_bytes(stream, NULL);
    coir_close(stream);
    return 0;
}

static int connect_by_a_wrong_path(void *arg)
{
    (void)arg;
    char address[64], url[100], want[200];
    coir_listener *listener;
    coir_ws *ws;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, answer_once, listener), 0);
    CHECK(coir_listener_local(listener, address, sizeof address) > 0);
    snprintf(url, sizeof url, "ws://%s/none?token=secret", address);
    CHECK_EQ(coir_ws_connect(url, &ws), -ECONNREFUSED);
    snprintf(want, sizeof want, "the server at %s refuses a WebSocket connection: it answers 404",
             address);
    CHECK(strncmp(line, want, strlen(want)) == 0);
    CHECK(!strstr(line, "secret"));
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_listener_close(listener);
    return 0;
}

TEST(the_log_says_how_a_server_refuses)
{
    coir_config config = COIR_CONFIG;
    config.log = take_line;
    config.workers = 1;
    CHECK_EQ(test_run(&config, connect_by_a_wrong_path, NULL), 0);
}
