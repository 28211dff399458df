/* Requests at a limit of the server's, which are answered, and one beside it, which are refused. */
#include <string.h>

#include "connections/fuzz.h"

enum { FIELDS_MAX = 64 }; /* proto/http1.h */

static void expect_one(struct expect *expect)
{
    expect->status = 200;
    expect->body = BODY_TEXT;
    expect->len = 1;
    strcpy(expect->text, "1");
}

static void refuse(struct expect *expect, int status)
{
    *expect = (struct expect){.status = status, .body = BODY_ANY, .says_close = true};
}

static void fill(struct batch *batch, size_t count)
{
    for (; count; count--)
        batch_put(batch, "x", 1);
}

/* Bytes of the line without its end. */
static void make_line(struct batch *batch, size_t len)
{
    static const char start[] = "GET /n/1?", end[] = " HTTP/1.1";
    batch_text(batch, "%s", start);
    fill(batch, len - (sizeof start - 1) - (sizeof end - 1));
    batch_text(batch, "%s\r\nHost: a\r\n\r\n", end);
}

/* Bytes of the whole head. */
static void make_head(struct batch *batch, size_t len)
{
    static const char start[] = "GET /n/1 HTTP/1.1\r\nHost: a\r\nA: ", end[] = "\r\n\r\n";
    batch_text(batch, "%s", start);
    fill(batch, len - (sizeof start - 1) - (sizeof end - 1));
    batch_text(batch, "%s", end);
}

static void make_fields(struct batch *batch, size_t count)
{
    batch_text(batch, "GET /n/1 HTTP/1.1\r\nHost: a\r\n");
    for (size_t i = 1; i < count; i++)
        batch_text(batch, "A: b\r\n");
    batch_text(batch, "\r\n");
}

/* A body that the handler reads: of the one that is too long it has read a part. */
static void make_body(struct batch *batch, struct request *request, size_t len, bool chunked)
{
    static const char bytes[1000];
    uint64_t hash = HASH_BEGIN;
    batch_text(batch, "POST /body HTTP/1.1\r\nHost: a\r\n");
    batch_text(batch,
               chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "Content-Length: %zu\r\n\r\n", len);
    request->head_end = batch->len;
    for (size_t at = 0, n; at < len; at += n) {
        n = len - at < sizeof bytes ? len - at : sizeof bytes;
        if (chunked)
            batch_text(batch, "%zx\r\n", n);
        batch_put(batch, bytes, n);
        if (chunked)
            batch_text(batch, "\r\n");
        hash = hash_more(hash, bytes, n);
    }
    if (chunked)
        batch_text(batch, "0\r\n\r\n");
    struct expect *expect = &request->expect;
    expect->len = (size_t)snprintf(expect->text, sizeof expect->text, "%zu %016llx", len,
                                   (unsigned long long)hash);
}

void edge_make(struct batch *batch, struct request *request, struct ci_random *random)
{
    struct expect *expect = &request->expect;
    bool beside = one_in(random, 2), chunked = one_in(random, 2);
    expect_one(expect);
    switch (below(random, limits.body_max > 100000 ? 3 : 4)) {
    case 0:
        make_line(batch, limits.line_max + beside);
        if (beside)
            refuse(expect, 414);
        break;
    case 1:
        make_head(batch, limits.head_max + beside);
        if (beside)
            refuse(expect, 431);
        break;
    case 2:
        make_fields(batch, FIELDS_MAX + beside);
        if (beside)
            refuse(expect, 431);
        break;
    default:
        make_body(batch, request, limits.body_max + beside, chunked);
        if (beside)
            refuse(expect, 413);
    }
}
