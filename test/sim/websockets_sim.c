/* WebSocket servers and clients of coir's in a world that fails: echoes of numbered messages,
 * whole, in parts and compressed, with pings between, selects and deadlines that lose, connections
 * without a fiber beside those in a handler, slow networks, short reads, resets and closes at any
 * moment. Some servers have fixed memory, and places for few connections; some clients shake hands
 * wrongly.
 *
 * What must hold:
 * 1. A client gets back what it has sent: each message once, in order, byte for byte. At the end of
 *    a connection that was closed in due form, all of them.
 * 2. Nothing falls silent: while something is due, it comes, or the connection ends, within
 *    `patience`.
 * 3. Each connection without a fiber is told its end exactly once, and every task ends.
 * 4. A client is refused only where places are few, and there are never more connections than
 *    places. Who shakes hands wrongly hears what is wrong.
 * 5. Both sides agree on the subprotocol, and the server is told with which code and reason the
 *    client closed.
 * 6. A message that is longer than the server allows is refused, also when its parts are not.
 * 7. A close ends soon after close_timeout, although the peer sends on and does not close, and a
 *    message in parts is not gone on with; and so does what others wait for. The connection has
 *    ended then.
 * 8. A connection whose peer is silent ends when ping_interval and ping_timeout have passed, once
 *    more where it has read something behind the first ping.
 * 9. Nobody else receives from a connection without a fiber; who else waits for it is told before
 *    its function hears of the end.
 * 10. Where only the latest message is kept, that one comes, whatever is pinged meanwhile.
 * 11. A ping is answered, though nothing comes behind it. */
#include <coir.h>
#include <coir/sim.h>
#include <coir/ws.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/bytes.h"
#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { CLIENTS = 4, LEN_MOST = 40000, FEW_LEN_MOST = 2000, ITEMS_MOST = 8 };
enum { LATEST = 8, PINGS_MOST = 20 };
static const coir_time patience = 100 * COIR_S, ping_interval = 5 * COIR_S,
                       ping_timeout = 20 * COIR_S;

static struct {
    coir_sim *sim;
    coir_host *server;
    coir_topic *news;
    int begun, ended; /* connections without a fiber */
    int open;
    bool listens; /* has been seen to */
    coir_serve_http_options options;
    coir_ws_options most; /* of a connection in fixed memory */
    bool over, harm;      /* harm: connections are reset */
    enum coir_ws_compression compression;
    size_t len_most, period; /* period: a message repeats itself after so many bytes */
    uint64_t messages_most;  /* of a visit */
} w;

static size_t length_of(int client, int number)
{
    static const size_t lengths[] = {2, 125, 126, 127, 300, 4095, 16384, 39999};
    size_t len = lengths[(client * 5 + number * 3) % 8];
    return (len < w.len_most ? len : w.len_most) + (size_t)(number % 2);
}

static void fill(unsigned char *bytes, int client, int number)
{
    size_t len = length_of(client, number);
    bytes[0] = (unsigned char)client;
    bytes[1] = (unsigned char)number;
    for (size_t at = 2; at < len; at += w.period)
        bytes_make(bytes + at, (unsigned)number, 0, len - at < w.period ? len - at : w.period);
}

static coir_ws_options options(void)
{
    coir_ws_options options = COIR_WS_OPTIONS;
    options.ping_interval = ping_interval;
    options.ping_timeout = ping_timeout;
    options.compression = w.compression;
    options.items_max = 1 + below(ITEMS_MOST);
    options.message_max = w.len_most + 1;
    options.window_bits = w.options.fixed_memory || below(8) ? 0 : 9 + (int)below(7);
    options.protocols = "echo";
    options.origins = "http://good";
    return options;
}

/* ---- the server ---- */

/* Now and then it gives up for a while; a message that has begun goes on where it was. */
static int send_part(coir_ws *ws, enum coir_ws_type type, const char *data, size_t len, bool last)
{
    int rc = -ETIME;
    for (bool passed = true; rc == -ETIME && passed;) {
        COIR_DEADLINE_AS(limit, below(3) ? COIR_NEVER : coir_in((coir_time)below(2000) * COIR_US));
        rc = coir_ws_send_part(ws, type, data, len, last);
        passed = coir_deadline_passed(limit);
    }
    return rc;
}

/* Back as it came, or in parts. */
static int answer(coir_ws *ws, coir_ws_message *message)
{
    const char *data = coir_ws_message_data(message);
    size_t len = coir_ws_message_len(message), parts = below(3) ? 1 : 1 + below(4);
    int rc = 0;
    if (parts == 1) {
        rc = below(2) ? coir_ws_try_send(ws, message) : -EAGAIN;
        return rc == -EAGAIN ? coir_ws_send(ws, message) : rc;
    }
    for (size_t i = 0; i < parts && rc == 0; i++) {
        size_t from = len * i / parts, to = len * (i + 1) / parts;
        rc = send_part(ws, coir_ws_message_type(message), data + from, to - from, i + 1 == parts);
        if (below(3) == 0)
            coir_ws_ping(ws);
    }
    return rc;
}

/* news: of what comes on other connections; NULL: no matter. */
static int receive(coir_ws *ws, coir_ws_message **message, coir_channel *news)
{
    while (below(3)) {
        int last;
        coir_case waits[] = {coir_case_ws_recv(ws, message),
                             coir_case_after((coir_time)below(5000) * COIR_US),
                             news ? coir_case_recv(news, &last) : coir_case_after(COIR_S)};
        int which = coir_select(waits, 3);
        if (which <= 0)
            return which < 0 ? which : (int)waits[0].result;
        if (below(4) == 0)
            coir_ws_ping(ws);
    }
    return coir_ws_recv(ws, message);
}

/* Back in the parts in which it comes; 1: all of it has. */
static int answer_in_parts(coir_ws *ws)
{
    bool last = false;
    int rc = 1;
    while (rc > 0 && !last) {
        coir_ws_message *part;
        rc = coir_ws_recv_part(ws, &part, &last);
        if (rc <= 0)
            break;
        int sent = send_part(ws, coir_ws_message_type(part), coir_ws_message_data(part),
                             coir_ws_message_len(part), last);
        rc = sent < 0 ? sent : rc;
        coir_ws_message_unref(part);
    }
    return rc;
}

static void begin(coir_ws *ws)
{
    MUST_BE(strcmp(coir_ws_protocol(ws), "echo"), 0); /* 5 */
    size_t places = w.options.websockets_max * coir_worker_count(coir_runtime_current());
    w.listens = true;
    w.open++;
    MUST(!places || (size_t)w.open <= places); /* 4 */
}

/* rc: of the last receive. */
static void end(coir_ws *ws, int rc)
{
    int code = coir_ws_close_code(ws);
    w.open--;
    if (rc != 0)
        return;
    MUST_BE(code, 1000); /* 5 */
    MUST_BE(strcmp(coir_ws_close_reason(ws), "done"), 0);
}

static int serve_in_handler(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_ws *ws;
    coir_ws_message *message;
    coir_ws_options with = options();
    int rc = coir_ws_accept_with(req, res, &with, &ws);
    if (rc < 0)
        return rc;
    coir_channel *news;
    begin(ws);
    MUST_BE(coir_subscribe(w.news, 1, COIR_OVERFLOW_DROP_OLDEST, &news), 0);
    for (rc = 1; rc > 0;) {
        if (below(4) == 0) {
            rc = answer_in_parts(ws);
        } else if ((rc = receive(ws, &message, news)) > 0) {
            int sent = coir_publish(w.news, &rc);
            sent = sent < 0 ? sent : answer(ws, message);
            rc = sent < 0 ? sent : rc;
            coir_ws_message_unref(message);
        }
    }
    end(ws, rc);
    coir_channel_free(news);
    return 0;
}

static int receive_all(void *ws)
{
    coir_ws_message *message;
    int rc;
    while ((rc = coir_ws_recv(ws, &message)) > 0)
        coir_ws_message_unref(message);
    MUST(rc != -EXDEV);
    return 0;
}

/* Until it is told that the connection is closed. */
static int send_on(void *ws)
{
    int rc;
    while ((rc = coir_ws_send_text(ws, "still here")) == 0)
        if (coir_sleep_for((coir_time)below(200) * COIR_MS) < 0)
            return 0;
    MUST(rc < 0 && rc != -EXDEV);
    return 0;
}

struct half {
    coir_ws *ws;
    coir_event closed;
};

/* Others have no turn to send any more. */
static int begin_message(void *arg)
{
    struct half *half = arg;
    coir_ws_send_part(half->ws, COIR_WS_TEXT, "half", 4, false);
    coir_event_wait(&half->closed);
    return 0;
}

/* Behind its end. */
static void must_have_ended(coir_ws *ws)
{
    coir_ws_message *message;
    MUST(coir_ws_recv(ws, &message) <= 0);
    MUST(coir_ws_close_code(ws) || coir_task_interrupted());
}

/* Closes in time, although the client does not, while other tasks receive and send or none does. */
static int close_alone(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_ws *ws;
    coir_ws_options with = options();
    with.close_timeout = COIR_S;
    int rc = coir_ws_accept_with(req, res, &with, &ws);
    if (rc < 0)
        return rc;
    struct half half = {.ws = ws};
    COIR_SCOPE(scope);
    if (below(2))
        MUST_BE(coir_go(scope, begin_message, &half), 0);
    if (below(2))
        MUST_BE(coir_go(scope, receive_all, ws), 0);
    if (below(2))
        MUST_BE(coir_go(scope, send_on, ws), 0);
    coir_sleep_for((coir_time)below(2000) * COIR_MS);
    coir_time begun = coir_now();
    coir_ws_close(ws, 1000, "done");
    coir_event_set(&half.closed);
    coir_scope_wait(scope);
    must_have_ended(ws);
    MUST(coir_now() - begun <= with.close_timeout + 2 * COIR_S); /* 7 */
    return 0;
}

/* More messages than the network takes at once, of which the last is the one that counts. */
static int push_latest(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_ws *ws;
    coir_ws_options with = options();
    with.overflow = COIR_OVERFLOW_DROP_OLDEST;
    with.items_max = 1;
    with.compression = COIR_WS_NO_COMPRESSION;
    int rc = coir_ws_accept_with(req, res, &with, &ws);
    if (rc < 0)
        return rc;
    COIR_SCOPE(scope);
    MUST_BE(coir_go(scope, receive_all, ws), 0); /* and answers pings */
    char *bytes = calloc(1, w.len_most);
    MUST(bytes);
    for (int i = 1; i <= LATEST && rc == 0; i++) {
        bytes[0] = (char)i;
        rc = coir_ws_send_binary(ws, bytes, w.len_most);
        coir_sleep_for(COIR_MS); /* it goes, if there is room */
    }
    free(bytes);
    coir_sleep_for((coir_time)below(100) * COIR_MS);
    coir_ws_close(ws, 1000, "done");
    coir_scope_wait(scope);
    return 0;
}

/* A connection without a fiber, and a task that uses it, too, until its function was told the end.
 */
struct session {
    coir_ws *ws;
    bool is_used, over;
    coir_event left;
};

static int use_session(void *arg)
{
    struct session *session = arg;
    coir_ws_message *message;
    int rc = coir_ws_recv(session->ws, &message);
    MUST(rc == -EBUSY || (rc <= 0 && coir_ws_close_code(session->ws))); /* 9 */
    for (coir_time pause = COIR_MS; coir_ws_flush(session->ws) == 0 && !session->over; pause *= 2)
        if (coir_sleep_for(pause) < 0)
            break;
    coir_event_set(&session->left);
    return 0;
}

static void end_session(struct session *session)
{
    COIR_SHIELD;
    if (session->is_used)
        MUST_BE(coir_event_wait(&session->left), 0);
    free(session);
}

static int on_message(coir_ws *ws, coir_ws_message *message, void *arg)
{
    struct session *session = arg;
    if (!message) {
        w.ended++;
        w.open--;
        session->over = true;
        end_session(session);
        return 0;
    }
    COIR_DEADLINE(coir_in(patience / 2)); /* the client may take nothing */
    if (below(4) == 0)
        coir_sleep_for((coir_time)below(3000) * COIR_US);
    return answer(ws, message);
}

static int serve_without(coir_request *req, coir_response *res, void *arg)
{
    struct session *session = calloc(1, sizeof *session);
    coir_ws_options with = options();
    (void)arg;
    MUST(session);
    int rc = coir_ws_handle_with(req, res, &with, on_message, session, &session->ws);
    if (rc < 0) {
        free(session);
        return rc;
    }
    w.begun++;
    begin(session->ws);
    if (below(6) == 0) {
        session->is_used = coir_go(NULL, use_session, session) == 0;
        coir_sleep_for((coir_time)below(3) * COIR_MS);
    }
    return 0;
}

static int serve_here(void *router)
{
    w.options.address = "0.0.0.0:80";
    w.options.websocket_options = &w.most;
    int rc = coir_serve_http_with(&w.options, router);
    return rc == -ECANCELED ? 0 : rc;
}

static int serve(void *arg)
{
    coir_router *router;
    coir_topic_options of_news = COIR_TOPIC_OPTIONS;
    (void)arg;
    of_news.item_size = sizeof(int);
    MUST_BE(coir_topic_new_with(&of_news, &w.news), 0);
    MUST_BE(coir_router_new(&router), 0);
    MUST_BE(coir_route(router, "GET", "/handler", serve_in_handler, NULL), 0);
    MUST_BE(coir_route(router, "GET", "/without", serve_without, NULL), 0);
    MUST_BE(coir_route(router, "GET", "/alone", close_alone, NULL), 0);
    MUST_BE(coir_route(router, "GET", "/latest", push_latest, NULL), 0);
    {
        COIR_SCOPE(scope);
        MUST_BE(coir_go(scope, serve_here, router), 0);
        coir_time pause = 0;
        COIR_DEADLINE(coir_in(20 * patience));
        while (!w.over)
            MUST_BE(chaos_pause(&pause), 0);
        coir_scope_cancel(scope);
        coir_scope_wait(scope);
    }
    coir_router_free(router);
    coir_topic_free(w.news);
    MUST_BE(w.begun, w.ended);
    return 0;
}

/* ---- clients ---- */

struct client {
    int number, messages, sent, received;
    bool broken; /* the network has ended the connection */
    coir_ws *ws;
    unsigned char bytes[LEN_MOST], want[LEN_MOST];
};

static int send_all(void *arg)
{
    struct client *client = arg;
    bool rested = false;
    for (; client->sent < client->messages && !client->broken; client->sent++) {
        fill(client->bytes, client->number, client->sent);
        if (coir_ws_send_binary(client->ws, client->bytes,
                                length_of(client->number, client->sent)) < 0)
            break;
        if (below(3) == 0)
            coir_sleep_for((coir_time)below(20000) * COIR_US);
        if (!rested && (rested = below(30) == 0))
            coir_sleep_for((coir_time)below(40) * COIR_S); /* several pings long */
    }
    return 0;
}

/* 1: what came is the next message. */
static int receive_one(struct client *client)
{
    coir_ws_message *message;
    int rc = receive(client->ws, &message, NULL);
    if (rc <= 0)
        return rc;
    size_t len = length_of(client->number, client->received);
    fill(client->want, client->number, client->received);
    MUST_BE(coir_ws_message_len(message), len);
    MUST(memcmp(coir_ws_message_data(message), client->want, len) == 0);
    MUST_BE(coir_ws_message_type(message), COIR_WS_BINARY);
    MUST(client->received <= client->sent);
    client->received++;
    coir_ws_message_unref(message);
    return 1;
}

static void converse(struct client *client)
{
    int rc = 1;
    COIR_DEADLINE_AS(limit, coir_in(patience));
    {
        COIR_SCOPE(scope);
        MUST_BE(coir_go(scope, send_all, client), 0);
        while (client->received < client->messages && rc > 0)
            rc = receive_one(client);
        client->broken = rc <= 0;
        coir_scope_cancel(scope);
        coir_scope_wait(scope);
    }
    if (!client->broken)
        rc = coir_ws_close(client->ws, 1000, "done");
    MUST(!coir_deadline_passed(limit)); /* nothing falls silent */
    MUST(rc != -COIR_EPROTOCOL && rc != -COIR_ETOOLARGE);
    MUST(client->broken ? w.harm : client->received == client->messages);
}

/* Sends a message in two parts, of which each may be so long, but not both: it does not come back.
 */
static void exceed(struct client *client)
{
    coir_ws_message *message;
    COIR_DEADLINE_AS(limit, coir_in(patience));
    memset(client->bytes, 'x', w.len_most);
    int rc = coir_ws_send_part(client->ws, COIR_WS_BINARY, client->bytes, w.len_most, false);
    if (rc >= 0)
        coir_ws_send_part(client->ws, COIR_WS_BINARY, client->bytes, 2, true);
    rc = coir_ws_recv(client->ws, &message);
    MUST(!coir_deadline_passed(limit));
    MUST(rc <= 0); /* 6 */
    MUST(rc < 0 || coir_ws_close_code(client->ws) == 1009);
}

/* Pings while it does not read. */
static void await_latest(void)
{
    coir_ws_options with = options();
    coir_ws_message *message;
    coir_ws *ws;
    int latest = 0;
    if (coir_ws_connect_with("ws://server/latest", &with, &ws) < 0)
        return;
    COIR_DEADLINE_AS(limit, coir_in(patience));
    for (uint64_t pings = below(PINGS_MOST); pings; pings--) {
        coir_ws_ping(ws);
        coir_sleep_for((coir_time)below(10) * COIR_MS);
    }
    int rc;
    while ((rc = coir_ws_recv(ws, &message)) > 0) {
        int number = *(const char *)coir_ws_message_data(message);
        MUST(number > latest && number <= LATEST);
        latest = number;
        coir_ws_message_unref(message);
    }
    MUST(!coir_deadline_passed(limit));
    MUST(rc < 0 ? w.harm : latest == LATEST); /* 10 */
    coir_ws_free(ws);
}

#define ASKS                                                          \
    " HTTP/1.1\r\nHost: server\r\nUpgrade: websocket\r\nConnection: " \
    "Upgrade\r\nSec-WebSocket-Key: "

/* Hears nothing of a close, and sends pings and messages until the connection has ended. */
static void go_on(void)
{
    static const char asks[] =
        "GET /alone" ASKS "dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
                      ping[] = "\x89\x80\0\0\0", message[] = "\x82\x81\0\0\0\0";
    coir_stream *stream;
    if (coir_tcp_connect("server:80", &stream) < 0)
        return;
    COIR_DEADLINE(coir_in(patience));
    int rc = coir_write_all(stream, asks, sizeof asks - 1);
    while (rc == 0 && (rc = below(2) ? coir_write_all(stream, ping, sizeof ping)
                                     : coir_write_all(stream, message, sizeof message)) == 0)
        rc = coir_sleep_for((coir_time)below(1000) * COIR_MS);
    MUST(rc != -ETIME); /* 7 */
    coir_close(stream);
}

/* Shakes hands, asks for a pong, reads on, and says nothing more. */
static void fall_silent(void)
{
    static const char asks[] =
        "GET /handler" ASKS "dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: echo\r\n"
        "Sec-WebSocket-Version: 13\r\n\r\n\x89\x80\0\0\0";
    coir_stream *stream;
    char text[500];
    size_t len = 0;
    if (coir_tcp_connect("server:80", &stream) < 0)
        return;
    COIR_DEADLINE_AS(limit, coir_in(ping_interval + 2 * ping_timeout + 10 * COIR_S));
    ssize_t n = coir_write_all(stream, asks, sizeof asks);
    if (n == 0)
        n = coir_read_full(stream, text, sizeof text, &len);
    MUST(!coir_deadline_passed(limit)); /* 8 */
    bool answered = memmem(text, len, "\x8a\0", 2), hears = memmem(text, len, " 101 ", 5);
    MUST(answered || !hears || w.harm); /* 11 */
    coir_close(stream);
}

/* Sends messages that come back, and closes, but reads nothing until the server gives up. */
static void take_nothing(void)
{
    static const char asks[] =
        "GET /without" ASKS "dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: echo\r\n"
        "Sec-WebSocket-Version: 13\r\n\r\n",
                      head[] = "\x82\xfe\x7d\x00\0\0\0\0", closes[] = "\x88\x82\0\0\0\0\x03\xe8";
    static const char body[0x7d00];
    coir_stream *stream;
    if (coir_tcp_connect("server:80", &stream) < 0)
        return;
    COIR_DEADLINE_AS(limit, coir_in(patience));
    int rc = coir_write_all(stream, asks, sizeof asks - 1);
    for (uint64_t messages = 1 + below(ITEMS_MOST); rc == 0 && messages; messages--)
        if ((rc = coir_write_all(stream, head, sizeof head - 1)) == 0)
            rc = coir_write_all(stream, body, sizeof body);
    rc = rc < 0 ? rc : coir_write_all(stream, closes, sizeof closes - 1);
    while (rc >= 0 || rc == -EAGAIN) /* what comes behind the end resets the connection */
        if ((rc = coir_sleep_for(COIR_S)) == 0)
            rc = (int)coir_try_write(stream, "", 1);
    MUST(!coir_deadline_passed(limit)); /* 2 */
    coir_close(stream);
}

/* Wrongly, and hears so. */
static void knock(void)
{
    static const char key[] = "dGhlIHNhbXBsZSBub25jZQ==";
    static const struct {
        const char *key, *more, *status;
    } wrong[] = {{key, "8\r\n", "426"},
                 {"short", "13\r\n", "400"},
                 {key, "13\r\nOrigin: http://evil\r\n", "403"}};
    size_t which = below(3), len = 0;
    coir_stream *stream;
    char text[300];
    int rc = coir_tcp_connect("server:80", &stream);
    if (rc < 0) {
        MUST(w.harm || rc == -ECONNREFUSED);
        return;
    }
    snprintf(text, sizeof text, "GET /without" ASKS "%s\r\nSec-WebSocket-Version: %s\r\n",
             wrong[which].key, wrong[which].more);
    ssize_t n = coir_write_all(stream, text, strlen(text));
    if (n == 0)
        n = coir_read_full(stream, text, strlen("HTTP/1.1 426"), &len);
    MUST(n >= 0 || w.harm);
    if (n >= 0)
        MUST(memcmp(text + strlen("HTTP/1.1 "), wrong[which].status, 3) == 0); /* 4 */
    coir_close(stream);
}

static int visit(void *arg)
{
    struct client *client = arg;
    coir_ws_options with = options();
    for (uint64_t visits = 1 + below(3); visits; visits--) {
        client->sent = client->received = 0;
        client->messages = 1 + (int)below(w.messages_most);
        client->broken = false;
        coir_sleep_for((coir_time)below(20000) * COIR_US);
        if (below(4) == 0)
            knock();
        if (below(8) == 0)
            go_on();
        if (below(8) == 0)
            fall_silent();
        if (below(50) == 0)
            take_nothing();
        if (below(120) == 0)
            await_latest();
        bool exceeds = below(8) == 0; /* a handler that receives parts has no limit */
        int rc = coir_ws_connect_with(!exceeds && below(2) ? "ws://server/handler"
                                                           : "ws://server/without",
                                      &with, &client->ws);
        if (rc < 0) {
            MUST(w.harm || rc == -ECONNREFUSED);
            MUST(w.harm || !w.listens || w.options.websockets_max); /* 4 */
            continue;
        }
        MUST_BE(strcmp(coir_ws_protocol(client->ws), "echo"), 0);
        if (exceeds)
            exceed(client);
        else
            converse(client);
        coir_ws_free(client->ws);
    }
    return 0;
}

static int be_everybody(void *arg)
{
    static struct client clients[CLIENTS];
    (void)arg;
    {
        COIR_SCOPE(scope);
        for (int i = 0; i < CLIENTS; i++) {
            clients[i].number = i;
            MUST_BE(coir_go(scope, visit, &clients[i]), 0);
        }
        MUST_BE(coir_scope_wait(scope), 0);
    }
    w.over = true;
    chaos_await_end(w.server, 4 * patience);
    return 0;
}

/* Most of what is compressed is short or repeats itself: zlib would take most of a campaign's time
 * for long messages of random bytes, of which there are few. */
static void draw_messages(void)
{
    bool compressed = w.compression != COIR_WS_NO_COMPRESSION;
    w.period = compressed && below(8) ? 1 + (below(500) >> below(6)) : LEN_MOST;
    w.len_most = compressed && below(8) ? 130 + below(2000) : LEN_MOST;
    bool dear = compressed && w.len_most == LEN_MOST;
    w.messages_most = !dear ? 20 : w.period == LEN_MOST ? 4 : 8;
}

/* Of the server: in fixed memory a connection has room for what these say. */
static void limit(void)
{
    w.options = (coir_serve_http_options)COIR_SERVE_HTTP_OPTIONS;
    w.most = (coir_ws_options)COIR_WS_OPTIONS;
    w.options.websockets_max = below(2) ? 0 : 1 + below(CLIENTS);
    if (!w.options.websockets_max || below(2))
        return;
    w.options.fixed_memory = true;
    w.options.connections_max = w.options.requests_max = 4 * CLIENTS;
    if (w.compression == COIR_WS_COMPRESS_STREAM)
        w.compression = COIR_WS_COMPRESS_MESSAGES;
    if (w.len_most > FEW_LEN_MOST)
        w.len_most = FEW_LEN_MOST;
    w.most.message_max = w.len_most + 1;
    w.most.items_max = ITEMS_MOST;
    w.most.compression = w.compression;
}

int scenario(coir_sim *sim)
{
    memset(&w, 0, sizeof w);
    w.sim = sim;
    MUST_BE(chaos_configure(sim), 0);
    w.compression = (enum coir_ws_compression)below(3);
    w.harm = below(2);
    draw_messages();
    limit();
    if (!(w.server = coir_sim_host(sim, "server", serve, NULL)))
        return -ENOMEM;
    coir_sim_link(sim, NULL, NULL,
                  (coir_link){.latency = (coir_time)below(2000) * COIR_US,
                              .jitter = (coir_time)below(2000) * COIR_US,
                              .bandwidth = below(2) ? 0 : 200000 + below(10000000),
                              .loss = some(0.05),
                              .reset = w.harm ? some(0.01) : 0,
                              .short_io = some(0.7)});
    coir_sim_faults(sim, NULL, (coir_faults){.late = some(0.5)});
    return coir_sim_host_main(sim, "clients", be_everybody, NULL);
}
