/* What a batch sends, and what the server must answer: RFC 9110, RFC 9112, and coir/web.h. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "connections/fuzz.h"

struct limits limits = {
    .line_max = 8000, .head_max = 8192, .body_max = 600 * 1000, .download_max = 3000 * 1000};

/* A request, before it is written. */
struct shape {
    const char *method;
    char path[64];
    bool old; /* HTTP/1.0 */
    bool close, keep, expects;
    bool has_body, chunked;
    unsigned seed; /* of the body */
    size_t len;
};

/* ---- bytes ---- */

void batch_put(struct batch *batch, const char *bytes, size_t len)
{
    if (batch->len + len > batch->capacity) {
        batch->capacity = 2 * (batch->len + len) + 4096;
        batch->bytes = realloc(batch->bytes, batch->capacity);
        if (!batch->bytes)
            abort();
    }
    memcpy(batch->bytes + batch->len, bytes, len);
    batch->len += len;
}

void batch_text(struct batch *batch, const char *format, ...)
{
    char text[1000];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    batch_put(batch, text, (size_t)len);
}

static void put_pattern(struct batch *batch, unsigned seed, size_t from, size_t len)
{
    char bytes[1024];
    for (size_t at = 0; at < len;) {
        size_t n = len - at < sizeof bytes ? len - at : sizeof bytes;
        for (size_t i = 0; i < n; i++)
            bytes[i] = pattern(seed, from + at + i);
        batch_put(batch, bytes, n);
        at += n;
    }
}

/* Lengths around the sizes of the server's and the drivers' buffers. */
static size_t any_edge(struct ci_random *random, size_t max)
{
    static const size_t edges[] = {1, 512, 4096, 8000, 8192, 12288, 16384, 24576, 32768, 65536};
    size_t edge = edges[below(random, sizeof edges / sizeof *edges)];
    if (one_in(random, 30))
        return below(random, max + 1);
    switch (below(random, 5)) {
    case 0: return edge;
    case 1: return edge - 1 + below(random, 3);
    case 2: return edge - below(random, edge < 300 ? edge : 300); /* with the head, around it */
    case 3: return below(random, 20000);
    default: return below(random, 200);
    }
}

static size_t any_length(struct ci_random *random, size_t max)
{
    size_t len = any_edge(random, max);
    return len < max ? len : max;
}

/* ---- writing a request ---- */

static const char *spelled(struct ci_random *random, const char *const spellings[3])
{
    return spellings[one_in(random, 4) ? 1 + below(random, 2) : 0];
}

static void put_padding(struct batch *batch, struct ci_random *random)
{
    size_t room = limits.head_max - 900, most = room < 5000 ? room : 5000;
    size_t count = one_in(random, 10) ? below(random, most) : below(random, 60);
    batch_text(batch, "X-Padding: ");
    put_pattern(batch, 0, 0, count);
    batch_text(batch, "\r\n");
}

static void put_chunks(struct batch *batch, struct ci_random *random, const struct shape *shape)
{
    size_t most = one_in(random, 3) ? 20 : one_in(random, 2) ? 5000 : 100000;
    if (shape->len / most > 2000)
        most = shape->len;
    for (size_t at = 0; at < shape->len;) {
        size_t left = shape->len - at, n = 1 + below(random, left < most ? left : most);
        batch_text(batch, one_in(random, 8) ? "%04zX" : "%zx", n);
        batch_text(batch, one_in(random, 8) ? ";name=value\r\n" : "\r\n");
        put_pattern(batch, shape->seed, at, n);
        batch_text(batch, "\r\n");
        at += n;
    }
    batch_text(batch, one_in(random, 8) ? "000\r\n" : "0\r\n");
    batch_text(batch, one_in(random, 8) ? "X-Trailer: a\r\n\r\n" : "\r\n");
}

static void put_fields(struct batch *batch, struct ci_random *random, const struct shape *shape)
{
    static const char *const length[] = {"Content-Length: %zu\r\n", "content-length:%zu\r\n",
                                         "CONTENT-LENGTH: \t%zu \t\r\n"};
    static const char *const chunked[] = {"Transfer-Encoding: chunked\r\n",
                                          "transfer-encoding:CHUNKED\r\n",
                                          "TRANSFER-ENCODING: Chunked \r\n"};
    static const char *const hosts[] = {"Host: a\r\n", "host:127.0.0.1:80\r\n",
                                        "HOST: [::1]:80\r\n"};
    static const char *const close[] = {"Connection: close\r\n", "connection:Close\r\n",
                                        "CONNECTION: other, close\r\n"};
    if (!shape->old || one_in(random, 2))
        batch_text(batch, "%s", spelled(random, hosts));
    if (one_in(random, 6))
        put_padding(batch, random);
    if (shape->has_body && !shape->chunked) {
        char line[60];
        snprintf(line, sizeof line, "%s", spelled(random, length));
        char *place = strstr(line, "%zu"), number[24];
        batch_put(batch, line, (size_t)(place - line));
        batch_put(batch, number, (size_t)snprintf(number, sizeof number, "%zu", shape->len));
        batch_text(batch, "%s", place + 3);
    }
    if (shape->chunked)
        batch_text(batch, "%s", spelled(random, chunked));
    if (shape->close)
        batch_text(batch, "%s", spelled(random, close));
    if (shape->keep)
        batch_text(batch, "Connection: keep-alive\r\n");
    if (shape->expects)
        batch_text(batch, "Expect: 100-continue\r\n");
}

static void put_request(struct batch *batch, struct ci_random *random, const struct shape *shape,
                        struct request *request)
{
    if (one_in(random, 16))
        batch_text(batch, one_in(random, 2) ? "\r\n" : "\r\n\r\n"); /* RFC 9112, 2.2 */
    batch_text(batch, "%s %s%s HTTP/1.%d\r\n", shape->method,
               one_in(random, 12) ? "http://some.where" : "", shape->path, shape->old ? 0 : 1);
    put_fields(batch, random, shape);
    batch_text(batch, "\r\n");
    request->head_end = batch->len;
    if (shape->chunked)
        put_chunks(batch, random, shape);
    else if (shape->has_body)
        put_pattern(batch, shape->seed, 0, shape->len);
}

/* ---- kinds of requests ---- */

static void expect_text(struct expect *expect, const char *format, unsigned number)
{
    expect->body = BODY_TEXT;
    expect->len = (size_t)snprintf(expect->text, sizeof expect->text, format, number);
}

static void choose_number(struct shape *shape, struct expect *expect, struct ci_random *random)
{
    bool late = one_in(random, 4);
    unsigned number = (unsigned)below(random, late ? 20 : 1000000);
    snprintf(shape->path, sizeof shape->path, "/%s/%u", late ? "late" : "n", number);
    expect_text(expect, "%u", number);
}

static void choose_download(struct shape *shape, struct expect *expect, struct ci_random *random)
{
    bool unknown = one_in(random, 3), half = one_in(random, 20), large = one_in(random, 24);
    expect->body = BODY_PATTERN;
    expect->seed = (unsigned)below(random, 1000);
    size_t max = limits.download_max;
    expect->len = large && max > 3000000 - 997 ? 2700000 + 997 * below(random, 300)
                                               : any_length(random, max < 600000 ? max : 600000);
    if (half)
        expect->len += 2;
    expect->framing = half || !unknown ? BY_LENGTH : shape->old ? BY_CLOSE : BY_CHUNKS;
    snprintf(shape->path, sizeof shape->path, "/%s/%zu/%u",
             half      ? "half"
             : unknown ? "unknown"
                       : "known",
             expect->len, expect->seed);
    expect->cut = half;
}

static void choose_upload(struct shape *shape, struct expect *expect, struct ci_random *random)
{
    shape->method = "POST";
    shape->has_body = !one_in(random, 12);
    shape->chunked = shape->has_body && !shape->old && one_in(random, 3);
    shape->seed = (unsigned)below(random, 1000);
    shape->len = shape->has_body ? any_length(random, limits.body_max) : 0;
    shape->expects = shape->has_body && shape->len && one_in(random, 8);
    expect->continue_may = shape->expects && !shape->old;
}

/* A body, that the handler reads to its end: this never ends the connection. */
static void choose_post(struct shape *shape, struct expect *expect, struct ci_random *random)
{
    choose_upload(shape, expect, random);
    if (one_in(random, 2)) {
        strcpy(shape->path, "/echo"); /* its answer begins before the body has come (web.h) */
        expect->body = BODY_PATTERN;
        expect->seed = shape->seed;
        expect->len = shape->len;
        expect->framing = !shape->chunked ? BY_LENGTH : shape->old ? BY_CLOSE : BY_CHUNKS;
        return;
    }
    uint64_t hash = HASH_BEGIN;
    for (size_t at = 0; at < shape->len; at++)
        hash = hash_more(hash, (char[]){pattern(shape->seed, at)}, 1);
    strcpy(shape->path, "/body");
    expect->body = BODY_TEXT;
    expect->len = (size_t)snprintf(expect->text, sizeof expect->text, "%zu %016llx", shape->len,
                                   (unsigned long long)hash);
}

/* A body that the handler does not read: the server discards it, or closes the connection and says
 * so in the answer. Where the client has asked for the end, the rest of the body is all that keeps
 * the server from closing at once. */
static void choose_unread(struct shape *shape, struct expect *expect, struct ci_random *random,
                          bool last)
{
    choose_upload(shape, expect, random);
    if (last && one_in(random, 2)) {
        shape->close = true;
        shape->keep = false;
    }
    expect->may_close = shape->has_body; /* chunks: even without a byte in them */
    unsigned number = (unsigned)below(random, 1000000);
    expect->body = BODY_ANY;
    switch (below(random, 4)) {
    case 0:
        strcpy(shape->path, "/none");
        expect->status = 404;
        break;
    case 1:
        strcpy(shape->path, "/n/1");
        expect->status = 405;
        expect->allow = true;
        break;
    default:
        snprintf(shape->path, sizeof shape->path, "/ignore/%u", number);
        expect_text(expect, "%u", number);
    }
}

static void choose_other(struct shape *shape, struct expect *expect, struct ci_random *random)
{
    static const struct {
        const char *method, *path;
        int status;
        bool allow;
    } others[] = {
        {"GET", "/none", 404, false},     {"GET", "/body", 405, true},
        {"DELETE", "/n/1", 405, true},    {"BREW", "/n/1", 501, false},
        {"OPTIONS", "/n/1", 204, true},   {"OPTIONS", "/none", 404, false},
        {"GET", "/n/", 404, false},       {"GET", "/nothing", 204, false},
        {"HEAD", "/nothing", 204, false}, {"HEAD", "/none", 404, false},
        {"HEAD", "/echo", 405, true},     {"GET", "/fail", 500, false},
    };
    size_t choice = below(random, sizeof others / sizeof *others);
    shape->method = others[choice].method;
    strcpy(shape->path, others[choice].path);
    expect->status = others[choice].status;
    expect->allow = others[choice].allow;
    expect->body = expect->status == 204 ? BODY_NONE : BODY_ANY;
    expect->head = strcmp(shape->method, "HEAD") == 0;
    expect->may_close = expect->status == 500;
}

/* ---- a request ---- */

/* Whether the connection goes on, as version and fields say. */
static void choose_persistence(struct shape *shape, struct ci_random *random, bool last)
{
    shape->old = last && one_in(random, 6);
    shape->close = last && one_in(random, 8);
    shape->keep = !shape->close && one_in(random, shape->old ? 2 : 12);
}

static void finish_expect(const struct shape *shape, struct expect *expect)
{
    if (shape->close || (shape->old && !shape->keep) || expect->framing == BY_CLOSE)
        expect->says_close = true;
    else if (shape->old)
        expect->says_keep = !expect->says_close;
    if (expect->cut && expect->head) { /* the handler fails after a whole answer */
        expect->cut = false;
        expect->may_end = true;
    }
}

static void make_valid(struct batch *batch, struct ci_random *random, bool last,
                       struct request *request)
{
    struct shape shape = {.method = "GET"};
    struct expect *expect = &request->expect;
    expect->status = 200;
    choose_persistence(&shape, random, last);
    size_t kind = below(random, 10);
    if (kind < 3)
        choose_number(&shape, expect, random);
    else if (kind < 5)
        choose_download(&shape, expect, random);
    else if (kind < 8)
        choose_post(&shape, expect, random);
    else if (kind < 9)
        choose_unread(&shape, expect, random, last);
    else
        choose_other(&shape, expect, random);
    if (kind < 5 && one_in(random, 5)) {
        shape.method = "HEAD";
        expect->head = true;
    }
    finish_expect(&shape, expect);
    put_request(batch, random, &shape, request);
    request->waits = expect->continue_may && one_in(random, 2);
}

/* ---- a batch ---- */

static void add_action(struct batch *batch, size_t at, enum action_kind kind, int ms, int request)
{
    if (batch->action_count == ACTIONS_MOST)
        return;
    int i = batch->action_count++;
    for (; i > 0 && batch->actions[i - 1].at > at; i--)
        batch->actions[i] = batch->actions[i - 1];
    batch->actions[i] = (struct action){at, kind, ms, request};
}

/* Anywhere, but most often where something begins or ends. */
static size_t any_place(const struct batch *batch, struct ci_random *random)
{
    if (batch->count == 0 || one_in(random, 3))
        return below(random, batch->len + 1);
    const struct request *request = &batch->requests[below(random, (size_t)batch->count)];
    switch (below(random, 4)) {
    case 0: return request->head_end;
    case 1: return request->head_end + below(random, request->to - request->head_end + 1);
    case 2: return request->to;
    default: return request->from + below(random, request->head_end - request->from + 1);
    }
}

/* The batch is not sent to its end. What is cut off may be answered or not. */
static void cut_off(struct batch *batch, size_t at)
{
    int i = 0;
    while (i < batch->count && batch->requests[i].to <= at)
        i++;
    if (i < batch->count) {
        batch->requests[i].expect.loose = true;
        batch->count = i + 1;
    }
    batch->closed = true;
}

static void choose_end(struct batch *batch, struct ci_random *random)
{
    size_t at = any_place(batch, random);
    int ms = (int)below(random, 12);
    switch (below(random, 12)) {
    case 0:
        cut_off(batch, at);
        add_action(batch, at, HALF_CLOSE, 0, 0);
        return;
    case 1:
        batch->closed = true;
        add_action(batch, batch->len, HALF_CLOSE, 0, 0);
        return;
    case 2:
    case 3:
        add_action(batch, at, PAUSE, ms, 0);
        add_action(batch, at, RESET, 0, 0);
        return;
    case 4: add_action(batch, at, CLOSE, 0, 0); return;
    case 5: batch->reset_after = 1 + below(random, 20000); return;
    default: return;
    }
}

static void choose_sending(struct batch *batch, struct ci_random *random)
{
    static const size_t pieces[] = {100, 1000, 4096, 16384};
    batch->piece_max = one_in(random, 2) ? SIZE_MAX : pieces[below(random, 4)];
    if (batch->len < 1000 && one_in(random, 4))
        batch->piece_max = 1 + below(random, 8);
    choose_end(batch, random);
    for (size_t i = one_in(random, 3) ? 1 + below(random, 4) : 0; i; i--)
        add_action(batch, any_place(batch, random), PAUSE,
                   (int)(1 + below(random, one_in(random, 8) ? 50 : 6)), 0);
    for (int i = 0; i < batch->count; i++)
        if (batch->requests[i].waits)
            add_action(batch, batch->requests[i].head_end, WAIT_CONTINUE, 0, i);
}

void batch_make(struct batch *batch, struct ci_random *random)
{
    char *bytes = batch->bytes;
    *batch = (struct batch){.bytes = bytes, .capacity = batch->capacity};
    int most = one_in(random, 2) ? 1 : 1 + (int)below(random, PIPELINE_MOST);
    while (batch->count < most && !batch->closed) {
        struct request *request = &batch->requests[batch->count++];
        *request = (struct request){.from = batch->len};
        bool last = batch->count == most || one_in(random, 10);
        request->broken = last && one_in(random, 8);
        if (request->broken)
            broken_make(batch, request, random);
        else if (last && one_in(random, 16))
            edge_make(batch, request, random);
        else
            make_valid(batch, random, last, request);
        request->to = batch->len;
        if (request->head_end == 0)
            request->head_end = batch->len;
        batch->closed = request->expect.says_close || request->expect.cut;
        if (batch->len > limits.body_max)
            break;
    }
    const struct request *end = &batch->requests[batch->count - 1];
    if (end->broken && one_in(random, 3))
        batch_text(batch, "GET /n/1 HTTP/1.1\r\nHost: a\r\n\r\n"); /* not to be answered */
    choose_sending(batch, random);
}
