/* Requests that are to be refused: the status, "Connection: close", and the end. */
#include <string.h>

#include "connections/fuzz.h"

struct broken {
    int status;
    const char *bytes;
    bool head; /* the method is known to be HEAD: the answer has no body */
};

#define GET "GET /n/1 HTTP/1.1\r\nHost: a\r\n"
#define POST "POST /body HTTP/1.1\r\nHost: a\r\n"
#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"

static const struct broken cases[] = {
    /* request lines (RFC 9112, 3) */
    {400, "HEAD\n", false},
    {400, "GET\r\n\r\n", false},
    {400, "\n", false},
    {400, "GET /n/1\r\n\r\n", false},
    {400, "GET /n/1 HTTP/1.1\nHost: a\n\n", false},
    {400, "GET /n/1 HTTP/1.1\rHost: a\r\r", false},
    {400, "GET  /n/1 HTTP/1.1\r\nHost: a\r\n\r\n", false},
    {400, "GET /n/1  HTTP/1.1\r\nHost: a\r\n\r\n", false},
    {400, " GET /n/1 HTTP/1.1\r\nHost: a\r\n\r\n", false},
    {400, "G(T /n/1 HTTP/1.1\r\nHost: a\r\n\r\n", false},
    {400, "GET n/1 HTTP/1.1\r\nHost: a\r\n\r\n", false},
    {400, "GET * HTTP/1.1\r\nHost: a\r\n\r\n", false},
    {400, "GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n", false},
    {400, "GET /n/1 http/1.1\r\nHost: a\r\n\r\n", false},
    {400, "GET /n/1 HTTP/1.12\r\nHost: a\r\n\r\n", false},
    {505, "GET /n/1 HTTP/2.0\r\nHost: a\r\n\r\n", false},
    /* fields (RFC 9112, 5; RFC 9110, 5.6.2) */
    {400, GET "A : b\r\n\r\n", false},
    {400, GET ": b\r\n\r\n", false},
    {400, GET "A\r\n\r\n", false},
    {400, GET "A: b\r\n c\r\n\r\n", false},
    {400, GET "A: b\n\r\n", false},
    {400, GET "A: \x01\r\n\r\n", false},
    {400, GET "A\x01: b\r\n\r\n", false},
    {400, "HEAD /n/1 HTTP/1.1\r\nHost: a\r\nA\r\n\r\n", true},
    {417, GET "Expect: something\r\n\r\n", false},
    /* the host (RFC 9112, 3.2) */
    {400, "GET /n/1 HTTP/1.1\r\n\r\n", false},
    {400, "HEAD /n/1 HTTP/1.1\r\n\r\n", true},
    {400, GET "Host: a\r\n\r\n", false},
    {400, "GET /n/1 HTTP/1.1\r\nHost: a b\r\n\r\n", false},
    {400, "GET /n/1 HTTP/1.1\r\nHost: a:b\r\n\r\n", false},
    {400, "GET /n/1 HTTP/1.1\r\nHost: [::1\r\n\r\n", false},
    /* framing (RFC 9112, 6) */
    {400, POST "Content-Length: x\r\n\r\n", false},
    {400, POST "Content-Length: -1\r\n\r\n", false},
    {400, POST "Content-Length: +1\r\n\r\nx", false},
    {400, POST "Content-Length:\r\n\r\n", false},
    {400, POST "Content-Length: 99999999999999999999\r\n\r\n", false},
    {400, POST "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx", false},
    {400, POST "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", false},
    {400, POST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false},
    {400, POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false},
    {400, POST "Transfer-Encoding: gzip\r\n\r\n", false},
    {400, POST "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", false},
    {501, POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", false},
    {400, "POST /body HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false},
    /* chunks (RFC 9112, 7.1) */
    {400, CHUNKED "g\r\n", false},
    {400, CHUNKED "\r\n", false},
    {400, CHUNKED "-1\r\n", false},
    {400, CHUNKED "5\nhello", false},
    {400, CHUNKED "5\r\nhelloX\r\n", false},
    {400, CHUNKED "5\r\nhello\r\nx", false},
    {400, CHUNKED "fffffffffffffffff\r\n", false},
    {400, CHUNKED "0\r\nA b\r\n\r\n", false},
    {400, CHUNKED "0\r\n A: b\r\n\r\n", false},
    /* issue 8, number 10 */
    {400, "GET /n/1 HTTP/1.1\r\nHost: a[b:80\r\n\r\n", false},
    {400, "GET /n/1 HTTP/1.1\r\nHost: a]\r\n\r\n", false},
    {400, "GET /n/1 HTTP/1.1\r\nHost: a]b:80\r\n\r\n", false},
    {400, "GET /n/1 HTTP/1.1\r\nHost: [a]b]\r\n\r\n", false},
    {400, "GET /n/1 HTTP/1.1\r\nHost: []\r\n\r\n", false},
    {400, "GET /n/1 HTTP/1.1\r\nHost: [zz]\r\n\r\n", false},
    {400, "GET /n/1 HTTP/1.1\r\nHost: a%zz\r\n\r\n", false},
    {400, "GET http://[zz]/ HTTP/1.1\r\nHost: a\r\n\r\n", false},
    {400, CHUNKED "5;\r\nhello\r\n0\r\n\r\n", false},
    {400, CHUNKED "5;=\r\nhello\r\n0\r\n\r\n", false},
    {400, CHUNKED "5;;;\r\nhello\r\n0\r\n\r\n", false},
    {400, CHUNKED "5;\"\r\nhello\r\n0\r\n\r\n", false},
};

static void fill(struct batch *batch, size_t count)
{
    char bytes[500];
    memset(bytes, 'x', sizeof bytes);
    for (size_t n; count; count -= n)
        batch_put(batch, bytes, n = count < sizeof bytes ? count : sizeof bytes);
}

/* Past a limit of the server's. The status. */
static int make_long(struct batch *batch, struct ci_random *random)
{
    switch (below(random, 4)) {
    case 0:
        batch_text(batch, "GET /");
        fill(batch, limits.line_max + below(random, 100));
        batch_text(batch, " HTTP/1.1\r\nHost: a\r\n\r\n");
        return 414;
    case 1:
        batch_text(batch, GET "A: ");
        fill(batch, limits.head_max + below(random, 20000));
        batch_text(batch, "\r\n\r\n");
        return 431;
    case 2:
        batch_text(batch, GET);
        for (int i = 0; i < 64; i++)
            batch_text(batch, "A%d: b\r\n", i);
        batch_text(batch, "\r\n");
        return 431;
    default:
        batch_text(batch, POST "Content-Length: %zu\r\n\r\n",
                   limits.body_max + 1 + below(random, 100000));
        fill(batch, below(random, 30000));
        return 413;
    }
}

void broken_make(struct batch *batch, struct request *request, struct ci_random *random)
{
    size_t count = sizeof cases / sizeof *cases, choice = below(random, count + 8);
    request->expect.body = BODY_ANY;
    request->expect.says_close = true;
    if (choice >= count) {
        request->expect.status = make_long(batch, random);
        return;
    }
    batch_text(batch, "%s", cases[choice].bytes);
    request->expect.status = cases[choice].status;
    request->expect.head = cases[choice].head;
}
