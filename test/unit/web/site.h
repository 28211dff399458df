/* The server that most tests of the web layer talk to, in the simulated world: handlers of every
 * kind, and the options that a test may change before it starts. */
#ifndef TEST_WEB_SITE_H
#define TEST_WEB_SITE_H

#include <stdio.h>

#include "client.h"

enum { BODY_MAX = 3000, ARENA_MAX = 16000, BUFFER = 16384 };

static int handlers_cancelled, handlers_running;

static inline int hello(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    const char *name = coir_request_param(req, "name");
    return coir_respond_text(res, 200, "Hello, %s!", name ? name : "World");
}

static inline int echo(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char buf[3000];
    ssize_t n = 1, len = 0;
    while (n > 0 && len < (ssize_t)sizeof buf) {
        /* a small body is there before the answer begins */
        if ((n = coir_request_read(req, buf + len, sizeof buf - (size_t)len)) < 0)
            return (int)n;
        len += n;
    }
    n = len;
    int rc = coir_response_begin(res, 200, "text/plain", coir_request_length(req));
    while (rc == 0 && n > 0)
        if ((rc = coir_response_write(res, buf, (size_t)n)) == 0 &&
            (n = coir_request_read(req, buf, sizeof buf)) < 0)
            rc = (int)n;
    return rc;
}

static inline int nap(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    handlers_running++;
    int rc = coir_sleep_for(atoi(coir_request_param(req, "ms")) * COIR_MS);
    handlers_running--;
    if (rc < 0) {
        handlers_cancelled++;
        return rc;
    }
    return coir_respond_text(res, 200, "slept");
}

static inline int big(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    static char piece[10000];
    int64_t left = atoll(coir_request_param(req, "bytes"));
    int rc = coir_response_begin(res, 200, "application/octet-stream", left);
    memset(piece, 'b', sizeof piece);
    while (rc == 0 && left > 0) {
        size_t n = left < (int64_t)sizeof piece ? (size_t)left : sizeof piece;
        rc = coir_response_write(res, piece, n);
        left -= (int64_t)n;
    }
    return rc;
}

static inline int broken(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    (void)res;
    return -EBADMSG;
}

static inline int says_nothing(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    (void)res;
    return 0;
}

static inline int too_short(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    coir_response_begin(res, 200, "text/plain", 100);
    return coir_response_write(res, "short", 5);
}

static inline int fields(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    CHECK_EQ(coir_response_add_header(res, "X-Bad", "a\r\nSet-Cookie: b"), -EINVAL);
    CHECK_EQ(coir_response_add_header(res, "Bad Name", "a"), -EINVAL);
    CHECK_EQ(coir_response_add_header(res, "Content-Length", "5"), -EINVAL);
    CHECK_EQ(coir_response_add_header(res, "X-Good", coir_request_query_value(req, "v")), 0);
    CHECK_EQ(coir_response_begin(res, 200, NULL, -2), -EINVAL);
    CHECK_EQ(coir_response_begin(res, 200, NULL, INT64_MIN), -EINVAL);
    int rc = coir_respond(res, 200, NULL, NULL, 0);
    CHECK_EQ(coir_respond_text(res, 200, "again"), -EALREADY);
    CHECK_EQ(coir_response_add_header(res, "X-Late", "x"), -EALREADY);
    return rc;
}

/* A Content-Type of its own, and another one as an argument. */
static inline int typed(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    CHECK_EQ(coir_response_add_header(res, "content-type", "a/b"), 0);
    return coir_respond(res, 200, "c/d", "it", 2);
}

static inline int chunks(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    int rc = coir_response_begin(res, 200, "text/plain", -1);
    if (rc == 0)
        rc = coir_response_write(res, "one", 3);
    if (rc == 0)
        rc = coir_sleep_for(COIR_S);
    return rc < 0 ? rc : coir_response_write(res, "two", 3);
}

static inline int slash(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    return coir_respond_text(res, 200, "slash");
}

static inline int star(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    return coir_respond_text(res, 200, "star");
}

/* A Content-Type of so many bytes, beside another field. */
static inline int long_type(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char type[10000];
    int len = snprintf(type, sizeof type, "a/%0*d", atoi(coir_request_param(req, "bytes")) - 2, 0);
    CHECK_EQ(coir_response_add_header(res, "X", "y"), 0); /* 6 bytes */
    int rc = coir_respond(res, 200, type, "it", 2);
    if (rc < 0)
        rc = coir_respond_text(res, 200, "%d: %s", len, coir_strerror(rc));
    return rc;
}

static inline int as(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    return coir_respond(res, atoi(coir_request_param(req, "status")),
                        coir_request_param(req, "type"), "it", 2);
}

static inline int nap_if_there(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_request_set_end_cancels(req, coir_request_query_value(req, "late") == NULL);
    int rc = coir_sleep_for(COIR_S);
    coir_request_set_end_cancels(req, coir_request_query_value(req, "never") == NULL);
    if (rc == 0)
        rc = coir_sleep_for(4 * COIR_S);
    handlers_cancelled += rc == -ECANCELED;
    return rc < 0 ? rc : coir_respond_text(res, 200, "slept");
}

/* A body of so many bytes, in one write. */
static inline int bytes(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    static char body[3 * BUFFER];
    size_t len = (size_t)atol(coir_request_param(req, "bytes"));
    for (size_t i = 0; i < len; i++)
        body[i] = (char)('a' + i % 26);
    return coir_respond(res, 200, "text/plain", body, len);
}

/* Lengths that no Content-Length can have, -1 and less as an int64_t, are refused, and nothing of
 * the answer is begun. */
static inline int too_long(coir_request *req, coir_response *res, void *arg)
{
    (void)req, (void)arg;
    if (coir_respond(res, 200, "text/plain", "", SIZE_MAX) != -EINVAL ||
        coir_respond(res, 200, "text/plain", "", (size_t)INT64_MAX + 1) != -EINVAL)
        return -EIO;
    return coir_respond_text(res, 200, "refused");
}

/* Letters, behind so many bytes that are gathered already, in chunks. */
static inline int chunk(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    static char body[3 * BUFFER];
    size_t len = (size_t)atol(coir_request_param(req, "bytes"));
    memset(body, 'x', sizeof body);
    int rc = coir_response_begin(res, 200, "text/plain", -1);
    rc = rc < 0 ? rc : coir_response_write(res, "first", 5);
    rc = rc < 0 ? rc : coir_response_write(res, body, len);
    return rc < 0 ? rc : coir_response_write(res, "last", 4);
}

static inline int query(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    const char *value = coir_request_query_value(req, "v");
    return coir_respond_text(res, 200, "%s", value ? value : "NULL");
}

static inline int arena(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char *all = coir_request_alloc(req, ARENA_MAX), *more = coir_request_alloc(req, 1),
         *none = coir_request_alloc(req, SIZE_MAX);
    if (all)
        memset(all, 1, ARENA_MAX);
    return coir_respond_text(res, 200, "%d %d %d", all != NULL, more != NULL, none != NULL);
}

static inline int arena_at_once(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    return coir_respond_text(res, 200, "%d", coir_request_alloc(req, ARENA_MAX + 1) != NULL);
}

static inline int linger_over(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    (void)req;
    int rc = coir_response_begin(res, 200, "text/plain", 2);
    rc = rc < 0 ? rc : coir_sleep_for(COIR_S);
    return rc < 0 ? rc : coir_response_write(res, "ok", 2);
}

/* As many fields as there may be. */
static inline int long_head(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    char type[8193];
    memset(type, 'x', sizeof type - 1);
    type[sizeof type - 1] = '\0';
    (void)req;
    return coir_respond(res, 200, type, "it", 2);
}

static inline int params(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    return coir_respond_text(res, 200, "%s %s", coir_request_param(req, "a"),
                             coir_request_param(req, "h"));
}

static coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;

static const struct route routes[] = {
    {"GET", "/hello", hello},
    {"GET", "/hello/{name}", hello},
    {"POST", "/echo", echo},
    {"GET", "/nap/{ms}", nap},
    {"GET", "/big/{bytes}", big},
    {"GET", "/broken", broken},
    {"GET", "/nothing", says_nothing},
    {"GET", "/short", too_short},
    {"GET", "/fields", fields},
    {"GET", "/typed", typed},
    {"GET", "/chunks", chunks},
    {"GET", "/a%2Fb", slash},
    {"HEAD", "/a%2Fb", star},
    {"GET", "/caf\xc3\xa9/%2A", star},
    {"GET", "/type/{bytes}", long_type},
    {"GET", "/as/{status}/{type}", as},
    {"GET", "/there", nap_if_there},
    {"GET", "/bytes/{bytes}", bytes},
    {"GET", "/too-long", too_long},
    {"GET", "/chunk/{bytes}", chunk},
    {"POST", "/take", count_body},
    {"GET", "/query", query},
    {"GET", "/arena", arena},
    {"GET", "/arena/at/once", arena_at_once},
    {"GET", "/linger", linger_over},
    {"GET", "/long/head", long_head},
    {"GET", "/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}", params},
    {0},
};

static inline int serve(void *arg)
{
    (void)arg;
    coir_router *router = make_router(routes);
    options.address = server_address;
    int rc = coir_serve_http_with(&options, router);
    coir_router_free(router);
    return rc;
}

#endif
