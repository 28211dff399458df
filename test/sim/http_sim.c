/* An HTTP server under every fault: an answer of a handler is the right one, whole and in its
 * place. When the faults are over every client is answered, and a connection that the client has
 * half-closed, or leaves idle, is closed by the server in time. Clients pause for so long that
 * their connections rest (task/rest.h), and the server drains now and then. */
#include <coir/web.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "chaos.h"
#include "scenario.h"
#include "sim/must.h"

enum {
    CLIENTS = 3,
    REQUESTS_MOST = 6,
    ROW_MOST = 200,
    HEAD_MOST = 200,
    BODY_MOST = 20000,
    SMALL_MOST = 700,
    FILE_SIZE = 5000
};

static struct chaos chaos;
static const coir_time idle_timeout = 5 * COIR_S, patience = 2 * COIR_S;
/* A connection rests after a second. This is less than idle_timeout, with what the network adds. */
static const coir_time pause_most = 4 * COIR_S;

/* ---- the server ---- */

/* The number in the path. False: there is no memory to say it in; that has been answered. */
static bool number_of(coir_request *req, coir_response *res, unsigned *ret_number)
{
    const char *text = coir_request_param(req, "number");
    if (!text)
        coir_respond_text(res, 503, "no memory");
    else
        *ret_number = (unsigned)atoi(text);
    return text != NULL;
}

static int say_number(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    unsigned number;
    return number_of(req, res, &number) ? coir_respond_text(res, 200, "%u", number) : 0;
}

/* Some of which have the same place in prefix.h. */
static int status_of(unsigned number)
{
    static const int statuses[] = {200, 403, 404, 201};
    return statuses[number % 4];
}

static int say_status(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    unsigned number;
    char bytes[SMALL_MOST];
    if (!number_of(req, res, &number))
        return 0;
    bytes_make(bytes, number, 0, number % SMALL_MOST);
    return coir_respond(res, status_of(number), "text/plain", bytes, number % SMALL_MOST);
}

/* What the head says; "" or NULL: there is no memory for it. */
static bool is_told(const char *got, const char *sent)
{
    return !got || !*got || strcmp(got, sent) == 0;
}

/* The number, if the whole head is what the client sent. */
static int look_at_head(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    unsigned number;
    char text[20], path[40], query[40];
    coir_http_counters counters = COIR_HTTP_COUNTERS;
    if (!number_of(req, res, &number))
        return 0;
    snprintf(text, sizeof text, "%u", number);
    snprintf(path, sizeof path, "/head/%u", number);
    snprintf(query, sizeof query, "other=&number=%u", number);
    if (!is_told(coir_request_method(req), "GET") || !is_told(coir_request_path(req), path) ||
        !is_told(coir_request_query(req), query) || !is_told(coir_request_host(req), "server") ||
        !is_told(coir_request_header(req, "x-number"), text) ||
        !is_told(coir_request_query_value(req, "number"), text) ||
        coir_request_query_value(req, "numbe") || coir_request_length(req) != 0 ||
        coir_request_context(req) != &chaos || coir_http_counters_get(&counters) != 0 ||
        !counters.connections_live || !counters.requests)
        __builtin_trap();
    coir_request_set_end_cancels(req, false);
    if (coir_response_add_header(res, "X-Number", text) < 0)
        return coir_respond_text(res, 503, "no memory");
    return coir_respond_text(res, 200, "%u", number);
}

static int be_slow(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    int rc = coir_sleep_for((coir_time)chaos_below(&chaos, COIR_S));
    return rc < 0 ? rc : say_number(req, res, arg);
}

/* As much as the path says, in pieces of any size. */
static int send_much(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    unsigned number;
    if (!number_of(req, res, &number))
        return 0;
    size_t len = number % BODY_MOST;
    char piece[700];
    int rc = coir_response_begin(res, 200, "text/plain", (int64_t)len);
    for (size_t at = 0; rc >= 0 && at < len;) {
        size_t n = 1 + chaos_below(&chaos, sizeof piece);
        if (n > len - at)
            n = len - at;
        bytes_make(piece, number, at, n);
        rc = coir_response_write(res, piece, n);
        if (rc >= 0 && chaos_below(&chaos, 8) == 0)
            rc = coir_response_flush(res);
        at += n;
    }
    return rc;
}

/* As take_body, but all of it in one call. */
static int take_whole_body(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    unsigned number;
    const char *body;
    if (!number_of(req, res, &number))
        return 0;
    ssize_t n = coir_request_body(req, BODY_MOST, &body);
    if (n == -ENOMEM)
        return coir_respond_text(res, 503, "no memory");
    if (n < 0)
        return (int)n;
    if ((size_t)n != number % BODY_MOST || !bytes_are(body, number, 0, (size_t)n) || body[n])
        __builtin_trap();
    return coir_respond_text(res, 200, "%u", number);
}

/* The body is five bytes in one chunk, which is more than may be read: the number. */
static int refuse_body(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    unsigned number;
    const char *body;
    if (!number_of(req, res, &number))
        return 0;
    ssize_t n = coir_request_body(req, number % 5, &body);
    if (n >= 0)
        __builtin_trap();
    if (n == -ENOMEM)
        return coir_respond_text(res, 503, "no memory");
    return n == -COIR_ETOOLARGE ? coir_respond_text(res, 200, "%u", number) : (int)n;
}

/* The number; the body is read when the answer has begun, which stands for a 100. */
static int answer_early(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    unsigned number;
    char text[20], body[8];
    if (!number_of(req, res, &number))
        return 0;
    int len = snprintf(text, sizeof text, "%u", number);
    ssize_t n = coir_response_begin(res, 200, "text/plain", len);
    while (n >= 0 && (n = coir_request_read(req, body, sizeof body)) > 0)
        continue;
    return n < 0 ? (int)n : coir_response_write(res, text, (size_t)len);
}

/* Now and then the handler gives up for a while: nothing of the body is lost by that. */
static ssize_t read_impatiently(coir_request *req, char *piece, size_t size)
{
    ssize_t n = -ETIME;
    coir_time begin = coir_now();
    for (bool passed = true; n == -ETIME && passed;) {
        bool gave_up = chaos_below(&chaos, 3) == 0;
        COIR_DEADLINE_AS(limit, gave_up ? coir_in((coir_time)chaos_below(&chaos, 5 * COIR_MS))
                                        : COIR_NEVER);
        n = coir_request_read(req, piece, size);
        passed = coir_deadline_passed(limit);
    }
    MUST(n != -COIR_EPROTOCOL || coir_now() - begin > COIR_S);
    return n;
}

/* The number, if the body is what it must be. */
static int take_body(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    unsigned number;
    if (!number_of(req, res, &number))
        return 0;
    char piece[900];
    size_t at = 0;
    ssize_t n;
    while ((n = read_impatiently(req, piece, sizeof piece)) > 0) {
        if (!bytes_are(piece, number, at, (size_t)n))
            __builtin_trap();
        at += (size_t)n;
    }
    if (n < 0)
        return (int)n;
    if (at != number % BODY_MOST)
        __builtin_trap();
    return coir_respond_text(res, 200, "%u", number);
}

static int read_file(coir_file *file, char *bytes)
{
    for (size_t at = 0; at < FILE_SIZE;) {
        ssize_t n = coir_file_read(file, bytes + at, FILE_SIZE - at, (int64_t)at);
        if (n <= 0)
            return n < 0 ? (int)n : -COIR_EEND;
        at += (size_t)n;
    }
    return 0;
}

static int send_file(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_file *file;
    char *bytes = coir_request_alloc(req, FILE_SIZE);
    if (!bytes)
        return coir_respond_text(res, 503, "no memory");
    int rc = coir_file_open("page", O_RDONLY, 0, &file);
    if (rc < 0)
        return coir_respond_text(res, 503, "%s", coir_strerror(rc));
    rc = read_file(file, bytes);
    coir_file_close(file);
    if (rc < 0)
        return coir_respond_text(res, 503, "%s", coir_strerror(rc));
    return coir_respond(res, 200, "text/plain", bytes, FILE_SIZE);
}

static int make_page(void)
{
    coir_file *file;
    char bytes[FILE_SIZE];
    bytes_make(bytes, 0, 0, FILE_SIZE);
    int rc = coir_file_open("page", O_RDWR | O_CREAT, 0600, &file);
    if (rc < 0)
        return rc;
    for (size_t at = 0; rc >= 0 && at < FILE_SIZE; at += (size_t)(rc > 0 ? rc : 0))
        rc = (int)coir_file_write(file, bytes + at, FILE_SIZE - at, (int64_t)at);
    if (rc >= 0)
        rc = coir_file_sync(file);
    coir_file_close(file);
    return rc;
}

static int route_all(coir_router *router)
{
    int rc = coir_route(router, "GET", "/number/{number}", say_number, NULL);
    rc = rc < 0 ? rc : coir_route(router, "GET", "/status/{number}", say_status, NULL);
    rc = rc < 0 ? rc : coir_route(router, "GET", "/slow/{number}", be_slow, NULL);
    rc = rc < 0 ? rc : coir_route(router, "GET", "/much/{number}", send_much, NULL);
    rc = rc < 0 ? rc : coir_route(router, "GET", "/file/{number}", send_file, NULL);
    rc = rc < 0 ? rc : coir_route(router, "GET", "/head/{number}", look_at_head, NULL);
    rc = rc < 0 ? rc : coir_route(router, "POST", "/whole/{number}", take_whole_body, NULL);
    rc = rc < 0 ? rc : coir_route(router, "POST", "/beyond/{number}", refuse_body, NULL);
    rc = rc < 0 ? rc : coir_route(router, "POST", "/early/{number}", answer_early, NULL);
    return rc < 0 ? rc : coir_route(router, "POST", "/body/{number}", take_body, NULL);
}

/* When it shall drain, so that it is served again: not any more when the faults are over. */
static coir_time end_of_serving(void)
{
    return chaos.recovers || chaos_below(&chaos, 2)
               ? COIR_NEVER
               : coir_in((coir_time)chaos_below(&chaos, 8 * COIR_S));
}

static int serve_once(void)
{
    coir_router *router;
    int rc = make_page();
    if (rc < 0 || (rc = coir_router_new(&router)) < 0)
        return rc;
    coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
    options.address = "0.0.0.0:80";
    options.idle_timeout = idle_timeout;
    options.drain_timeout = (coir_time)(1 + chaos_below(&chaos, 3 * COIR_S));
    options.context = &chaos;
    if ((rc = route_all(router)) == 0) {
        COIR_DEADLINE(end_of_serving());
        rc = coir_serve_http_with(&options, router);
    }
    coir_router_free(router);
    return rc;
}

static int serve(void *arg)
{
    (void)arg;
    return chaos_keep_serving(serve_once);
}

static coir_host *start_server(struct chaos *of)
{
    return coir_sim_host(of->sim, "server", serve, NULL);
}

/* ---- the clients ---- */

enum kind { NUMBER, STATUS, SLOW, MUCH, FILE_, HEAD, BODY, WHOLE, KINDS, BEYOND = KINDS, EARLY };
static const char *const names[] = {"number", "status", "slow",  "much",   "file",
                                    "head",   "body",   "whole", "beyond", "early"};

/* What the client does when it has sent its requests: closes the connection after the answers;
 * half-closes at once, which may share a segment with the last request; or stays. */
enum ending { CLOSE, HALF_CLOSE, STAY, ENDINGS };

struct visit {
    coir_stream *stream;
    enum ending ending;
    bool row;
    int count, pauses_before; /* this request, if there is one */
    coir_time pause, late;    /* late: it reads only after that */
    enum kind kinds[ROW_MOST];
    unsigned numbers[ROW_MOST];
};

/* Writes in pieces of any size, sometimes slowly. */
static int write_pieces(coir_stream *stream, const char *data, size_t len)
{
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < len;) {
        size_t n = 1 + chaos_below(&chaos, len);
        if (n > len - at)
            n = len - at;
        rc = coir_write_all(stream, data + at, n);
        at += n;
        if (rc == 0 && chaos_below(&chaos, 20) == 0)
            rc = coir_sleep_for((coir_time)chaos_below(&chaos, 100 * COIR_MS));
    }
    return rc;
}

static int write_chunks(coir_stream *stream, const char *data, size_t len)
{
    char line[40];
    int rc = 0;
    for (size_t at = 0, n; rc == 0 && at < len; at += n) {
        n = 1 + chaos_below(&chaos, len - at);
        int line_len = snprintf(line, sizeof line, "%s%zx\r\n", at ? "\r\n" : "", n);
        rc = coir_write_all(stream, line, (size_t)line_len);
        rc = rc < 0 ? rc : write_pieces(stream, data + at, n);
    }
    return rc < 0 ? rc : coir_write_all(stream, "\r\n0\r\n\r\n", 7);
}

/* Often so long that the connection rests. */
static int pause_once(const struct visit *visit, int request)
{
    return visit->pauses_before == request ? coir_sleep_for(visit->pause) : 0;
}

static size_t body_of(const struct visit *visit, int i)
{
    bool has_body = visit->kinds[i] == BODY || visit->kinds[i] == WHOLE;
    return has_body ? visit->numbers[i] % BODY_MOST : 0;
}

static bool is_chunked(const struct visit *visit, int i)
{
    return body_of(visit, i) && visit->numbers[i] / BODY_MOST % 2;
}

static size_t make_head(const struct visit *visit, int i, char *head)
{
    enum kind kind = visit->kinds[i];
    unsigned number = visit->numbers[i];
    if (kind >= KINDS)
        return (size_t)snprintf(head, HEAD_MOST, "POST /%s/%u HTTP/1.1\r\nHost: server\r\n%s",
                                names[kind], number,
                                kind == BEYOND ? "Transfer-Encoding: chunked\r\n\r\n"
                                                 "5\r\nabcde\r\n0\r\n\r\n"
                                               : "Expect: 100-continue\r\n"
                                                 "Content-Length: 5\r\n\r\nabcde");
    char framing[40] = "Transfer-Encoding: chunked";
    if (!is_chunked(visit, i))
        snprintf(framing, sizeof framing, "Content-Length: %zu", body_of(visit, i));
    return (size_t)snprintf(
        head, HEAD_MOST,
        "%s /%s/%u?other=&number=%u HTTP/1.1\r\nHost: server\r\nX-Number: %u\r\n%s\r\n\r\n",
        kind == BODY || kind == WHOLE ? "POST" : "GET", names[kind], number, number, number,
        framing);
}

static int ask_one(const struct visit *visit, int i)
{
    char head[HEAD_MOST];
    size_t len = body_of(visit, i);
    int rc = pause_once(visit, i);
    rc = rc < 0 ? rc : write_pieces(visit->stream, head, make_head(visit, i, head));
    if (rc < 0 || !len)
        return rc;
    char *body = malloc(len);
    if (!body)
        return -ENOMEM;
    bytes_make(body, visit->numbers[i], 0, len);
    rc = is_chunked(visit, i) ? write_chunks(visit->stream, body, len)
                              : write_pieces(visit->stream, body, len);
    free(body);
    return rc;
}

/* In one write: they reach the server together. */
static int ask_row(const struct visit *visit)
{
    char *heads = malloc((size_t)visit->count * HEAD_MOST);
    size_t len = 0;
    if (!heads)
        return -ENOMEM;
    for (int i = 0; i < visit->count; i++)
        len += make_head(visit, i, heads + len);
    int rc = coir_write_all(visit->stream, heads, len);
    free(heads);
    return rc;
}

static int ask(void *arg)
{
    const struct visit *visit = arg;
    int rc = visit->row ? ask_row(visit) : 0;
    for (int i = 0; !visit->row && rc == 0 && i < visit->count; i++)
        rc = ask_one(visit, i);
    return rc == 0 && visit->ending == HALF_CLOSE ? coir_shutdown_write(visit->stream) : rc;
}

struct reader {
    coir_stream *stream;
    char bytes[2000];
    size_t start, end;
};

static int fill(struct reader *reader)
{
    ssize_t n = coir_read(reader->stream, reader->bytes, sizeof reader->bytes);
    if (n <= 0)
        return n < 0 ? (int)n : -COIR_EEND;
    reader->start = 0;
    reader->end = (size_t)n;
    return 0;
}

static int read_byte(struct reader *reader)
{
    int rc = reader->start == reader->end ? fill(reader) : 0;
    return rc < 0 ? rc : (unsigned char)reader->bytes[reader->start++];
}

static int read_head(struct reader *reader, int *ret_status, size_t *ret_len)
{
    static const uint32_t end = 0x0d0a0d0a; /* "\r\n\r\n" */
    char head[1000];
    size_t n = 0;
    for (uint32_t last = 0; last != end;) {
        int c = n < sizeof head - 1 ? read_byte(reader) : -EMSGSIZE;
        if (c < 0)
            return c;
        head[n++] = (char)c;
        last = last << 8 | (unsigned char)c;
    }
    head[n] = '\0';
    const char *length = strstr(head, "Content-Length: ");
    if (sscanf(head, "HTTP/1.1 %d", ret_status) != 1 || !length)
        __builtin_trap();
    *ret_len = (size_t)atoll(length + 16);
    return 0;
}

/* The answer to one request: 0, or why there is none. One that has the right status is right; the
 * others are the server's own, and say that something is wrong. */
static int hear_answer(struct reader *reader, enum kind kind, unsigned number)
{
    int status, right_status = kind == STATUS ? status_of(number) : 200;
    size_t len;
    char text[20];
    int rc = read_head(reader, &status, &len), digits = snprintf(text, sizeof text, "%u", number);
    if (rc < 0)
        return rc;
    size_t expected = kind == MUCH     ? number % BODY_MOST
                      : kind == STATUS ? number % SMALL_MOST
                      : kind == FILE_  ? FILE_SIZE
                                       : (size_t)digits;
    bool answered = status == right_status;
    if (answered ? len != expected : status < 400 || status == 403 || status == 404)
        __builtin_trap();
    if (!answered)
        kind = MUCH; /* of any length, and not looked at */
    for (size_t at = 0, n; at < len; at += n, reader->start += n) {
        if (reader->start == reader->end && (rc = fill(reader)) < 0)
            return rc;
        n = reader->end - reader->start < len - at ? reader->end - reader->start : len - at;
        const char *bytes = reader->bytes + reader->start;
        bool right = kind == MUCH || kind == STATUS ? bytes_are(bytes, number, at, n)
                     : kind == FILE_                ? bytes_are(bytes, 0, at, n)
                                                    : memcmp(bytes, text + at, n) == 0;
        if (answered && !right)
            __builtin_trap();
    }
    return answered ? 0 : -EPROTO;
}

static int hear(void *arg)
{
    const struct visit *visit = arg;
    struct reader reader = {.stream = visit->stream};
    int rc = visit->late ? coir_sleep_for(visit->late) : 0;
    for (int i = 0; i < visit->count && (rc == 0 || rc == -EPROTO); i++)
        rc = hear_answer(&reader, visit->kinds[i], visit->numbers[i]);
    return rc;
}

/* The server closes the connection in time. */
static int hear_end(const struct visit *visit)
{
    char byte;
    COIR_DEADLINE(coir_in(patience + (visit->ending == STAY ? idle_timeout : 0)));
    ssize_t n = coir_read(visit->stream, &byte, 1);
    if (n > 0)
        __builtin_trap();
    return (int)n;
}

/* A few requests of any kind, or many small ones in a row, whose answers fill the output, and the
 * system's buffers if the client reads late. */
static int visit(int client)
{
    (void)client;
    bool row = chaos_below(&chaos, 5) == 0;
    struct visit now = {.row = row,
                        .count = 1 + (int)chaos_below(&chaos, row ? ROW_MOST : REQUESTS_MOST),
                        .pauses_before = (int)chaos_below(&chaos, REQUESTS_MOST),
                        .pause = (coir_time)chaos_below(&chaos, (uint64_t)pause_most),
                        .late = row ? (coir_time)chaos_below(&chaos, COIR_S) : 0,
                        .ending = (enum ending)chaos_below(&chaos, ENDINGS)};
    for (int i = 0; i < now.count; i++) {
        now.kinds[i] = row ? STATUS : (enum kind)chaos_below(&chaos, KINDS);
        now.numbers[i] = (unsigned)chaos_below(&chaos, 1000000);
    }
    if (!row && chaos_below(&chaos, 4) == 0) /* the last one: the server may close behind it */
        now.kinds[now.count - 1] = chaos_below(&chaos, 2) ? BEYOND : EARLY;
    COIR_DEADLINE(coir_in(20 * COIR_S));
    int rc = coir_tcp_connect("server:80", &now.stream);
    if (rc < 0)
        return rc;
    rc = chaos_both(ask, hear, &now);
    if (rc == 0 && now.ending != CLOSE)
        rc = hear_end(&now);
    coir_close(now.stream);
    return rc;
}

int scenario(coir_sim *sim)
{
    chaos = (struct chaos){.restart = start_server};
    return chaos_run(&chaos, sim, visit, CLIENTS);
}
