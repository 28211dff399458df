/* HTTP and WebSocket connections that rest (task/rest.h), over what rest.h says. Clients are silent
 * until their connection has given its task back, or until just that moment. Then it is roused: by
 * bytes, whole or in part; by its client's end, half-close or reset; by its idle timeout, or a peer
 * that answers no ping; by messages that tasks of all workers send and flush; by a drain, or a stop
 * of the host. Often several of these come at once. In some seeds memory is out for a while.
 *
 * What must hold:
 * 1. A request, and a message, has its answer soon: the right one, once.
 * 2. What other tasks send arrives soon, in order, once.
 * 3. An idle HTTP connection ends when its idle timeout has passed, not before and soon after. A
 *    WebSocket connection ends when its peer answers no ping, and stays while it does.
 * 4. A connection without a fiber is told its end once, and soon after its client has gone.
 * 5. A server that drains closes what rests soon, and has ended soon after its drain timeout. A
 *    WebSocket connection of it, also one that it accepts meanwhile, is told before it ends.
 * In seeds in which memory is out, a connection may end at any time, and an answer be a 5xx. */
#include <coir/sim.h>
#include <coir/web.h>
#include <coir/ws.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/rest.h"
#include "sim/scenario.h"

enum { VISITORS = 3, PLACES = VISITORS * (VISITS_MOST + 1), PUSHES_MOST = 200 };
enum {
    LATE = -2,
    GONE = -1,
    CONTINUATION = 0,
    TEXT = 1,
    CLOSE = 8,
    PING = 9,
    PONG = 10,
    FIN = 128
};
static const coir_time rest_delay = COIR_S; /* of connections */
static const coir_time thought_most = 2 * COIR_S;

/* A WebSocket connection, at the server. */
struct place {
    coir_ws *ws;
    coir_mutex lock; /* no push is under way when it has ended */
    bool accepted, quiet;
    int told, result, pushed;
    coir_time answered_at, pushed_at[PUSHES_MOST];
};

struct visitor {
    int number, asked, answered, pushed;
    coir_stream *stream;
    struct place *place;         /* NULL: HTTP */
    coir_time answered_at;       /* by the server, over HTTP */
    int round_least, round_most; /* that may serve it: what a drain refuses is sent to the next */
    bool leaves;                 /* it has asked for the end */
    bool told;                   /* that the server closes */
    char bytes[2000];
    size_t start, end;
};

static struct {
    coir_sim *sim;
    coir_host *server;
    coir_serve_http_options options;
    coir_ws_options ws;
    coir_handle serving;
    coir_time latency, soon, serves_from, drained_at; /* serves_from: COIR_NEVER between rounds */
    int round, drains; /* round: the drains before the last server began; -1: none has */
    int settled;       /* visitors that wait for the server's end */
    coir_event all_settled;
    bool harm, over;
    int places_taken;
    struct place places[PLACES];
    struct visitor visitors[VISITORS];
} w;

/* ---- the server ---- */

static int say_number(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    const char *visitor = coir_request_param(req, "visitor"),
               *number = coir_request_param(req, "number");
    if (!visitor || !number)
        return 0; /* no memory: the client gets 503 */
    int rc = coir_respond_text(res, 200, "%s", number);
    w.visitors[atoi(visitor)].answered_at = coir_now();
    return rc;
}

static int hear_end(coir_ws *ws, struct place *place)
{
    COIR_SHIELD; /* no push is under way */
    MUST_BE(coir_mutex_lock(&place->lock), 0);
    MUST_BE(++place->told, 1);
    place->result = coir_ws_result(ws);
    place->ws = NULL;
    coir_mutex_unlock(&place->lock);
    return 0;
}

static int on_message(coir_ws *ws, coir_ws_message *message, void *arg)
{
    struct place *place = arg;
    if (!message)
        return hear_end(ws, place);
    MUST(!place->told);
    if (coir_ws_message_data(message)[0] == 'b') {
        int rc = coir_mutex_lock(&place->lock);
        if (rc < 0)
            return rc;
        place->quiet = true;
        coir_mutex_unlock(&place->lock);
    }
    int rc = coir_ws_send(ws, message);
    place->answered_at = coir_now();
    return rc;
}

/* For a while, or until the server drains: 0, or what has cancelled the handler. */
static int think(coir_request *req)
{
    coir_case cases[] = {coir_case_drain(req),
                         coir_case_at(coir_in((coir_time)below(thought_most)))};
    int which = coir_select(cases, 2);
    return which < 0 ? which : 0;
}

static int accept_ws(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    const char *number = coir_request_param(req, "place");
    if (!number)
        return 0;
    struct place *place = &w.places[atoi(number)];
    coir_ws *ws;
    int rc = below(3) ? 0 : think(req);
    if (rc < 0)
        return rc;
    rc = coir_ws_handle_with(req, res, &w.ws, on_message, place, &ws);
    if (rc < 0)
        return rc;
    place->accepted = true;
    place->answered_at = coir_now();
    place->ws = ws;
    return 0;
}

/* ---- tasks of all workers that send ---- */

/* Until about when a connection rests, or has rested for a while: the queue goes then. */
static int wait_for_rest(coir_time answered_at, coir_time before)
{
    coir_time around = (coir_time)(below(200 * COIR_US) >> below(10));
    coir_time when = answered_at + (coir_time)(2 + below(3)) * rest_delay / 2 - before;
    return coir_sleep_until(below(2) ? when + around : when - around);
}

static void push_to(struct place *place)
{
    coir_ws *ws = place->ws;
    char text[20];
    coir_ws_message *message;
    int rc = 0;
    uint64_t how = below(4);
    if (how == 0 || place->pushed == PUSHES_MOST) {
        rc = coir_ws_flush(ws);
        MUST(rc == 0 || chaos_explains(rc));
        return;
    }
    int len = snprintf(text, sizeof text, "p%d", place->pushed);
    if ((rc = coir_ws_message_new(COIR_WS_TEXT, text, (size_t)len, &message)) < 0) {
        MUST(w.harm);
        return;
    }
    place->pushed_at[place->pushed] = coir_now();
    rc = how == 1 ? coir_ws_try_send(ws, message) : coir_ws_send(ws, message);
    place->pushed += rc == 0;
    MUST(rc == 0 || rc == -EPIPE || rc == -EAGAIN || rc == -ECANCELED || (w.harm && rc == -ENOMEM));
    coir_ws_message_unref(message);
    if (how == 3)
        coir_ws_flush(ws); /* whatever it returns */
}

static int push(void *arg)
{
    (void)arg;
    while (coir_sleep_for((coir_time)below(below(3) ? 500 * COIR_MS : 3 * COIR_S)) == 0) {
        if (!w.places_taken)
            continue;
        struct place *place = &w.places[below((uint64_t)w.places_taken)];
        if (!place->ws || (below(4) && wait_for_rest(place->answered_at, 0) < 0))
            continue;
        if (coir_mutex_lock(&place->lock) < 0)
            break;
        if (place->ws && !place->quiet)
            push_to(place);
        coir_mutex_unlock(&place->lock);
    }
    return 0;
}

/* ---- serving, and draining ---- */

static int serve_once(void *router)
{
    return coir_serve_http_with(&w.options, router);
}

static const struct visitor *somebody(void)
{
    return &w.visitors[below(VISITORS)];
}

static void serve_for_a_while(void)
{
    coir_time pause = 0;
    {
        COIR_DEADLINE(below(2) ? coir_in((coir_time)below(12 * COIR_S)) : COIR_NEVER);
        while (!w.over && chaos_pause(&pause) == 0)
            continue;
    }
    if (!w.over && below(4))
        wait_for_rest(somebody()->answered_at, 0);
}

static void find_all_told(void)
{
    for (int i = 0; i < w.places_taken; i++)
        MUST_BE(w.places[i].told, w.places[i].accepted);
}

/* -ENOMEM: nothing was served. */
static int serve_and_drain(coir_router *router)
{
    int workers = (int)coir_worker_count(coir_runtime_current()), rc = 0;
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = &w.serving;
    COIR_SCOPE(scope);
    w.round = w.drains; /* before a client can connect to it */
    if ((rc = coir_go_with(scope, &options, serve_once, router)) < 0)
        return rc;
    w.serves_from = coir_now();
    {
        COIR_SCOPE(pushers);
        for (int i = 0; rc == 0 && i < workers; i++)
            rc = coir_go_on(pushers, i, push, NULL);
        MUST(rc == 0 || w.harm || rc == -ECANCELED);
        serve_for_a_while();
        coir_scope_cancel(pushers);
    }
    w.serves_from = COIR_NEVER;
    w.drained_at = coir_now();
    w.drains++;
    coir_cancel(&w.serving);
    rc = coir_join(&w.serving);
    MUST(rc == -ECANCELED || w.harm);
    coir_scope_close(scope);
    coir_handle_done(&w.serving);
    MUST(coir_now() - w.drained_at <= w.options.drain_timeout + w.soon);
    find_all_told();
    return 0;
}

static int serve(void *arg)
{
    coir_router *router;
    (void)arg;
    MUST_BE(coir_router_new(&router), 0);
    MUST_BE(coir_route(router, "GET", "/number/{visitor}/{number}", say_number, NULL), 0);
    MUST_BE(coir_route(router, "GET", "/ws/{place}", accept_ws, NULL), 0);
    while (!w.over) {
        int rc = serve_and_drain(router);
        MUST(rc == 0 || w.harm || rc == -ECANCELED);
        if (coir_sleep_for((coir_time)below(100 * COIR_MS)) < 0)
            break;
    }
    coir_router_free(router);
    return 0;
}

/* ---- a client's connection ---- */

static bool may_be_drained(const struct visitor *v)
{
    return w.drains > v->round_least;
}

static bool is_drained(const struct visitor *v)
{
    return w.drains > v->round_most;
}

static bool is_excused(const struct visitor *v)
{
    return v->leaves || w.harm || may_be_drained(v);
}

static int connect_it(struct visitor *v)
{
    *v = (struct visitor){.number = v->number, .round_least = w.round};
    coir_time begun = coir_now();
    COIR_DEADLINE(coir_in(w.soon));
    int rc = rest_connect(&v->stream);
    v->round_most = w.round;
    v->answered_at = coir_now();
    MUST(rc == 0 || is_excused(v) || w.serves_from == COIR_NEVER || begun < w.serves_from + w.soon);
    return rc;
}

static void leave(struct visitor *v, bool reset)
{
    v->leaves = true;
    if (reset)
        coir_tcp_set_option(v->stream, COIR_TCP_RESET_ON_CLOSE, 1);
    coir_close(v->stream);
    v->stream = NULL;
}

/* Has at least `len` bytes: 0, or GONE, or LATE. */
static int gather(struct visitor *v, size_t len, coir_time until)
{
    while (v->end - v->start < len) {
        memmove(v->bytes, v->bytes + v->start, v->end - v->start);
        v->end -= v->start;
        v->start = 0;
        MUST(len <= sizeof v->bytes);
        COIR_DEADLINE(until);
        ssize_t n = coir_read(v->stream, v->bytes + v->end, sizeof v->bytes - v->end);
        if (n == -ETIME)
            return LATE;
        MUST(n >= 0 || (rest_is_cut(n) && is_excused(v)));
        if (n <= 0)
            return GONE;
        v->end += (size_t)n;
    }
    return 0;
}

/* In one piece, or in two, the second about when a connection would rest. */
static void send_bytes(struct visitor *v, const char *bytes, size_t len)
{
    size_t first = below(4) ? len : 1 + below(len - 1);
    int rc = coir_write_all(v->stream, bytes, first);
    if (rc == 0 && first < len) {
        wait_for_rest(coir_now(), w.latency);
        rc = coir_write_all(v->stream, bytes + first, len - first);
    }
    MUST(rc == 0 || rest_is_cut(rc));
}

/* The visitor's last connection waits for the server's end, or there is none. */
static void settle(bool is_last)
{
    w.settled += is_last;
    if (w.settled == VISITORS)
        coir_event_set(&w.all_settled);
}

/* ---- HTTP ---- */

/* Up to the last byte of a head: 0, GONE or LATE. */
static int gather_head(struct visitor *v, size_t *ret_len, coir_time until)
{
    for (size_t len = 4;; len++) {
        int rc = gather(v, len, until);
        if (rc < 0)
            return rc;
        if (memcmp(v->bytes + v->start + len - 4, "\r\n\r\n", 4) == 0) {
            *ret_len = len;
            return 0;
        }
    }
}

/* The status of an answer, whose body is the number if that is 200; GONE or LATE. */
static int hear_answer(struct visitor *v, coir_time until)
{
    char head[500], body[20];
    size_t len = 0;
    int status, rc = gather_head(v, &len, until),
                size = snprintf(body, sizeof body, "%d", v->asked);
    if (rc < 0)
        return rc;
    MUST(len < sizeof head);
    memcpy(head, v->bytes + v->start, len);
    head[len] = '\0';
    v->start += len;
    MUST_BE(sscanf(head, "HTTP/1.1 %d", &status), 1);
    if (status != 200)
        return status;
    MUST(strstr(head, "Content-Length: ") && atoi(strstr(head, "Content-Length: ") + 16) == size);
    if ((rc = gather(v, (size_t)size, until)) < 0)
        return rc;
    MUST(memcmp(v->bytes + v->start, body, (size_t)size) == 0);
    v->start += (size_t)size;
    return status;
}

/* False: the connection has ended. */
static bool ask(struct visitor *v)
{
    char head[100];
    v->asked++;
    int len = snprintf(head, sizeof head, "GET /number/%d/%d HTTP/1.1\r\nHost: a\r\n\r\n",
                       v->number, v->asked);
    send_bytes(v, head, (size_t)len);
    int status = hear_answer(v, coir_in(w.soon));
    MUST(status != LATE);
    MUST(status == 200 || is_excused(v));
    return status == 200;
}

/* The connection, of which nothing is under way, ends at its idle timeout or soon after a drain. */
static void wait_for_idle_end(struct visitor *v)
{
    coir_time since = v->answered_at;
    int rc = gather(v, 1, since + w.options.idle_timeout + w.soon);
    MUST_BE(rc, GONE);
    /* io_uring's driver may tell of the answer's last write half a second late */
    coir_time late = coir_now() - (since + w.options.idle_timeout);
    bool at_timeout = late >= -10 * COIR_MS && late <= 700 * COIR_MS,
         at_drain = may_be_drained(v) && coir_now() <= w.drained_at + rest_delay + w.soon;
    MUST(at_timeout || at_drain || w.harm);
    MUST(at_drain || !is_drained(v));
}

/* Stops in a head. */
static void wait_for_refusal(struct visitor *v)
{
    MUST(coir_write_all(v->stream, "GET /num", 8) <= 0);
    int status = hear_answer(v, coir_in(w.options.header_timeout + w.soon));
    MUST(status != LATE);
    MUST(status == 408 || is_excused(v));
}

static void half_close(struct visitor *v)
{
    v->leaves = true;
    coir_shutdown_write(v->stream);
    MUST_BE(gather(v, 1, coir_in(w.soon)), GONE);
}

/* Shorter than the idle timeout; often about when it begins to rest. */
static void be_silent(const struct visitor *v)
{
    if (below(3))
        wait_for_rest(v->answered_at, w.latency);
    else
        coir_sleep_for((coir_time)below((uint64_t)(w.options.idle_timeout - COIR_S)));
}

static void visit_http(struct visitor *v, bool is_last)
{
    bool is_there = true;
    for (uint64_t requests = below(4); is_there && requests; requests--) {
        if (v->asked)
            be_silent(v);
        is_there = ask(v);
    }
    if (is_there && is_last) {
        settle(true);
        wait_for_idle_end(v);
    } else if (is_there) {
        bool idles = below(3) == 0;
        if (!idles && v->asked)
            be_silent(v);
        switch (idles ? 0 : 1 + below(4)) {
        case 0: wait_for_idle_end(v); break;
        case 1: half_close(v); break;
        case 2: wait_for_refusal(v); break;
        case 3: leave(v, true); break;
        case 4: leave(v, false); break;
        }
    }
    settle(is_last && !is_there);
}

/* ---- WebSocket: frames with a key of zeros ---- */

static size_t make_frame(char frame[40], int first, const char *data, size_t len)
{
    memset(frame, 0, 6);
    frame[0] = (char)first;
    frame[1] = (char)(0x80 | len);
    memcpy(frame + 6, data, len);
    return 6 + len;
}

/* In one frame; or in two, the second about when a connection would rest. */
static void send_text(struct visitor *v, const char *text, size_t len)
{
    char frame[40];
    size_t first = below(4) ? len : below(len);
    if (first == len) {
        send_bytes(v, frame, make_frame(frame, FIN | TEXT, text, len));
        return;
    }
    int rc = coir_write_all(v->stream, frame, make_frame(frame, TEXT, text, first));
    if (rc == 0) {
        wait_for_rest(coir_now(), w.latency);
        rc = coir_write_all(v->stream, frame,
                            make_frame(frame, FIN | CONTINUATION, text + first, len - first));
    }
    MUST(rc == 0 || rest_is_cut(rc));
}

/* Of control: whatever the write returns. */
static void send_control(struct visitor *v, int opcode, const char *data, size_t len)
{
    char frame[40];
    coir_write_all(v->stream, frame, make_frame(frame, FIN | opcode, data, len));
}

/* Its opcode; GONE or LATE. */
static int next_frame(struct visitor *v, char *text, coir_time until)
{
    int rc = gather(v, 2, until);
    if (rc < 0)
        return rc;
    int opcode = v->bytes[v->start] & 15;
    size_t len = (unsigned char)v->bytes[v->start + 1];
    MUST(len < 126);
    if ((rc = gather(v, 2 + len, until)) < 0)
        return rc;
    memcpy(text, v->bytes + v->start + 2, len);
    text[len] = '\0';
    v->start += 2 + len;
    return opcode;
}

static void take_text(struct visitor *v, const char *text)
{
    int number = atoi(text + 1);
    if (text[0] == 'p') {
        MUST_BE(number, v->pushed++);
        MUST(w.harm || coir_now() - v->place->pushed_at[number] <= w.soon);
    } else {
        MUST(text[0] == 'm' || text[0] == 'b');
        MUST_BE(number, ++v->answered);
        MUST(v->answered <= v->asked);
    }
}

/* Hears what comes until `until`, or until all is answered: 0. GONE; LATE: `until` has passed. */
static int listen_to(struct visitor *v, bool for_answer, coir_time until)
{
    char text[130];
    while (!for_answer || v->answered < v->asked) {
        int opcode = next_frame(v, text, until);
        if (opcode < 0) {
            MUST(opcode == LATE || is_excused(v));
            return opcode;
        }
        switch (opcode) {
        case TEXT: take_text(v, text); break;
        case PING: send_control(v, PONG, text, 0); break;
        case CLOSE:
            MUST(is_excused(v));
            v->told = true;
            send_control(v, CLOSE, text, 2);
            MUST_BE(gather(v, 1, coir_in(w.ws.close_timeout + w.soon)), GONE);
            return GONE;
        default: MUST(false);
        }
    }
    return 0;
}

static bool upgrade(struct visitor *v)
{
    char head[300];
    size_t size;
    int len =
        snprintf(head, sizeof head,
                 "GET /ws/%d HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
                 (int)(v->place - w.places));
    send_bytes(v, head, (size_t)len);
    int rc = gather_head(v, &size, coir_in(thought_most + w.soon));
    MUST(rc != LATE);
    bool done = rc == 0 && memcmp(v->bytes + v->start, "HTTP/1.1 101 ", 13) == 0;
    MUST(done || is_excused(v));
    v->start += rc == 0 ? size : 0;
    return done;
}

/* Answers pings until about when it rests, or for long. False: it has ended. */
static bool listen_in_silence(struct visitor *v)
{
    coir_time around = (coir_time)(below(200 * COIR_US) >> below(10));
    coir_time when = v->place->answered_at + (coir_time)(2 + below(3)) * rest_delay / 2 -
                     w.latency + (below(2) ? around : -around);
    coir_time later = coir_in((coir_time)below(below(2) ? 3 * COIR_S : 15 * COIR_S));
    return listen_to(v, false, below(3) ? when : later) == LATE;
}

/* False: it has ended. */
static bool converse(struct visitor *v, char kind)
{
    char text[20];
    int len = snprintf(text, sizeof text, "%c%d", kind, ++v->asked);
    send_text(v, text, (size_t)len);
    int rc = listen_to(v, true, coir_in(w.soon));
    MUST(rc != LATE);
    return rc == 0;
}

/* The server has told of the end, which is soon; `limit`: then. */
static void find_told(struct visitor *v, coir_time limit)
{
    coir_time pause = 0;
    COIR_DEADLINE(coir_in(limit));
    do /* the handler may not have returned yet */
        MUST_BE(chaos_pause(&pause), 0);
    while (v->place->accepted && !v->place->told);
}

static void close_it(struct visitor *v)
{
    if (!converse(v, 'b'))
        return;
    MUST(w.harm || v->pushed == v->place->pushed);
    v->leaves = true;
    send_control(v, CLOSE, "\x03\xe8", 2);
    listen_to(v, false, coir_in(w.ws.close_timeout + w.soon));
    find_told(v, w.soon);
    MUST(w.harm || may_be_drained(v) || v->place->result == 0);
}

static void answer_no_ping(struct visitor *v)
{
    coir_time silent = w.ws.ping_interval + 3 * w.ws.ping_timeout; /* a push may stand for a pong */
    v->leaves = true;
    find_told(v, silent + w.soon);
    MUST(w.harm || may_be_drained(v) || v->place->result == -ETIMEDOUT);
}

static void end_ws(struct visitor *v)
{
    switch (below(5)) {
    case 0: close_it(v); return;
    case 1: answer_no_ping(v); return;
    case 2:
        v->leaves = true;
        coir_shutdown_write(v->stream);
        break;
    case 3: leave(v, true); break;
    case 4: leave(v, false); break;
    }
    find_told(v, w.soon);
}

static void visit_ws(struct visitor *v, bool is_last)
{
    v->place = &w.places[w.places_taken++];
    bool is_there = upgrade(v);
    for (uint64_t messages = below(5); is_there && messages; messages--)
        is_there = listen_in_silence(v) && converse(v, 'm');
    settle(is_last);
    if (is_there && is_last) {
        MUST_BE(listen_to(v, false, COIR_NEVER), GONE);
        MUST(v->told || w.harm || w.options.drain_timeout <= w.soon);
    } else if (is_there && listen_in_silence(v)) {
        end_ws(v);
    }
}

/* ---- all visits ---- */

static void visit(struct visitor *v, bool is_last)
{
    if (connect_it(v) < 0) {
        settle(is_last);
        return;
    }
    if (below(2))
        visit_http(v, is_last);
    else
        visit_ws(v, is_last);
    if (v->stream)
        leave(v, false);
}

static int be_a_visitor(void *arg)
{
    struct visitor *v = arg;
    for (uint64_t visits = below(rest_visits); visits; visits--) {
        visit(v, false);
        coir_sleep_for((coir_time)below(2 * COIR_S));
    }
    visit(v, true);
    return 0;
}

static int take_memory(void *arg)
{
    (void)arg;
    while (coir_sleep_for((coir_time)below(6 * COIR_S)) == 0) {
        coir_sim_faults(w.sim, w.server, (coir_faults){.no_memory = below(2) ? 1 : 0.3});
        coir_sleep_for((coir_time)below(below(2) ? 10 * COIR_MS : 2 * COIR_S));
        coir_sim_faults(w.sim, w.server, (coir_faults){0});
    }
    return 0;
}

/* When every visitor waits for it: by a stop, or by the server itself. */
static void end_server(void)
{
    MUST_BE(coir_event_wait(&w.all_settled), 0);
    coir_sleep_for((coir_time)below(4 * COIR_S));
    w.over = true;
    if (below(2)) {
        w.serves_from = COIR_NEVER;
        w.drained_at = coir_now();
        w.drains++;
        coir_sim_stop(w.sim, w.server);
    }
}

static int be_everybody(void *arg)
{
    (void)arg;
    {
        COIR_SCOPE(scope);
        for (int i = 0; i < VISITORS; i++) {
            w.visitors[i].number = i;
            MUST_BE(coir_go(scope, be_a_visitor, &w.visitors[i]), 0);
        }
        {
            COIR_SCOPE(harm);
            if (w.harm)
                MUST_BE(coir_go(harm, take_memory, NULL), 0);
            end_server();
            coir_scope_cancel(harm);
        }
        MUST_BE(coir_scope_wait(scope), 0);
    }
    chaos_await_end(w.server, w.options.drain_timeout + 2 * w.soon);
    return 0;
}

static void draw_limits(void)
{
    w.options = (coir_serve_http_options)COIR_SERVE_HTTP_OPTIONS;
    w.options.idle_timeout = (coir_time)(3000 + below(5000)) * COIR_MS;
    w.options.header_timeout = (coir_time)(4 + below(4)) * COIR_S;
    w.options.drain_timeout = (coir_time)(1 + below((uint64_t)(5 * COIR_S)));
    w.ws = (coir_ws_options)COIR_WS_OPTIONS;
    w.ws.ping_interval = (coir_time)(500 + below(5000)) * COIR_MS;
    w.ws.ping_timeout = (coir_time)(2000 + below(4000)) * COIR_MS;
    w.ws.close_timeout = (coir_time)(1 + below(8)) * COIR_S;
}

int scenario(coir_sim *sim)
{
    memset(&w, 0, sizeof w);
    w.sim = sim;
    w.all_settled = (coir_event)COIR_EVENT_INIT;
    draw_limits();
    MUST_BE(rest_configure(sim, &w.options), 0);
    w.harm = below(4) == 0;
    w.soon = w.harm ? 60 * COIR_S : 3 * COIR_S;
    w.serves_from = COIR_NEVER;
    w.round = -1;
    w.latency = (coir_time)(below(2) ? 10 * COIR_US : 1 + (coir_time)below(COIR_MS));
    if (!(w.server = coir_sim_host(sim, "server", serve, NULL)))
        return -ENOMEM;
    coir_sim_link(sim, NULL, NULL, (coir_link){.latency = w.latency, .short_io = some(0.5)});
    coir_sim_faults(sim, NULL, (coir_faults){.late = some(0.5)});
    int rc = coir_sim_host_main(sim, "clients", be_everybody, NULL);
    rest_done();
    return rc;
}
