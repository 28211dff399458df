/* Writing answers: the head, its fields, and the body in one of three framings (RFC 9112, 6.3): a
 * length, chunks, or the end of the connection. */
#include "web/response.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "base/bytes.h"
#include "proto/characters.h"
#include "proto/http1_status.h"
#include "web/body.h"

/* Bytes of a head without the handler's fields; of a chunk's size with its CRLF and a NUL. */
enum { HEAD_ROOM = 512, CHUNK_HEAD = 2 * sizeof(size_t) + 3 };

static const char text_plain[] = "text/plain; charset=utf-8";

/* ---- header fields of the handler's ---- */

/* Fields that the server writes itself: a second one would change the framing. */
static bool reserved(const char *name)
{
    static const char *const names[] = {"content-length", "transfer-encoding", "connection",
                                        "date"};
    for (size_t i = 0; i < ci_countof(names); i++)
        if (ci_ascii_same(name, names[i]))
            return true;
    return false;
}

/* Makes room for `want` bytes of fields, of which CI_HTTP_FIELDS_MAX are allowed. */
static int grow_extra(coir_response *res, size_t want)
{
    if (want > CI_HTTP_FIELDS_MAX)
        return -COIR_ETOOLARGE;
    if (want <= res->extra_capacity)
        return 0;
    size_t capacity = want < 256 ? 256 : want * 2;
    char *grown = ci_arena_alloc(&res->exchange->arena, capacity);
    if (!grown)
        return -ENOMEM;
    if (res->extra_len)
        memcpy(grown, res->extra, res->extra_len);
    res->extra = grown;
    res->extra_capacity = capacity;
    return 0;
}

int ci_response_put_header(coir_response *res, const char *name, const char *value)
{
    size_t name_len = strlen(name), value_len = strlen(value), len = name_len + value_len + 4;
    int rc = grow_extra(res, res->extra_len + len);
    if (rc < 0)
        return rc;
    char *at = res->extra + res->extra_len; /* "name: value\r\n" */
    memcpy(at, name, name_len);
    memcpy(at + name_len, ": ", 2);
    memcpy(at + name_len + 2, value, value_len);
    memcpy(at + name_len + 2 + value_len, "\r\n", 2);
    res->extra_len += len;
    res->has_type |= ci_ascii_same(name, "content-type");
    return 0;
}

int coir_response_add_header(coir_response *res, const char *name, const char *value)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!name || !value)
        return CI_MISUSE(-EINVAL, "name or value is NULL");
    int rc = CI_EXCHANGE_REFUSED(res);
    if (rc < 0)
        return rc;
    if (res->begun)
        return -EALREADY;
    if (!ci_http1_is_token(name, strlen(name)) || !ci_http1_is_value(value, strlen(value)) ||
        reserved(name))
        return -EINVAL;
    return ci_response_put_header(res, name, value);
}

/* ---- the head ---- */

/* These write to `at`, where there is room, and return what is behind. */
static char *put(char *at, const char *text, size_t len)
{
    memcpy(at, text, len);
    return at + len;
}

static char *put_text(char *at, const char *text)
{
    return put(at, text, strlen(text));
}

static CI_NOINLINE char *put_long_number(char *at, uint64_t number)
{
    char *end = at + 1;
    for (uint64_t rest = number; rest >= 10; rest /= 10)
        end++;
    at = end;
    do
        *--at = (char)('0' + number % 10);
    while (number /= 10);
    return end;
}

CI_INLINE char *put_number(char *at, uint64_t number)
{
    if (ci_unlikely(number >= 100))
        return put_long_number(at, number);
    uint32_t digits = (uint32_t)number, tens = digits / 10;
    *at = (char)('0' + tens);
    at += tens != 0;
    *at = (char)('0' + digits - 10 * tens);
    return at + 1;
}

#define PUT(at, literal) put(at, literal, sizeof literal - 1)

static CI_NOINLINE char *put_status(char *at, int status)
{
    at = PUT(put_number(PUT(at, "HTTP/1.1 "), (uint64_t)status), " ");
    return PUT(put_text(at, ci_http1_reason(status)), "\r\n");
}

/* RFC 9112, 6.3, rule 1. */
static bool without_body(int status)
{
    return ci_unlikely(status != 200) && (status < 200 || status == 204 || status == 304);
}

CI_INLINE char *put_length(char *at, uint64_t length)
{
    return PUT(put_number(PUT(at, "Content-Length: "), length), "\r\n");
}

/* A 304 may say the length of the body that a 200 would have (RFC 9110, 8.6); a 204 must not. */
CI_INLINE char *put_framing(coir_response *res, char *at, int status, int64_t length)
{
    const struct ci_http1_head *head = &res->exchange->head;
    if (without_body(status) && status != 304)
        return at;
    if (length >= 0)
        return put_length(at, (uint64_t)length);
    if (status == 304)
        return at;
    if (head->minor_version >= 1) {
        res->chunked = true;
        return PUT(at, "Transfer-Encoding: chunked\r\n");
    }
    res->close = true; /* HTTP/1.0: the end of the connection ends the body */
    return at;
}

/* Whether a status and a content type (NULL: none) may be written. */
static CI_NOINLINE bool may_begin(int status, const char *type, size_t type_len)
{
    return status >= 200 && status <= 999 && (!type || ci_http1_is_value(type, type_len));
}

/* The lines that prefix.h keeps. A type that the handler has set itself is not the server's. */
static CI_NOINLINE char *put_prefix(const coir_response *res, char *at, int status,
                                    const char *type, size_t type_len)
{
    struct ci_http_worker *http = res->exchange->server->http;
    char *start = at;
    at = status == 200 ? PUT(at, "HTTP/1.1 200 OK\r\n") : put_status(at, status);
    at = put(at, ci_http_date_now(&http->date, http->worker), CI_HTTP_DATE_LEN);
    if (!type || res->has_type)
        return at;
    at = PUT(put(PUT(at, "Content-Type: "), type, type_len), "\r\n");
    ci_http_prefix_keep(ci_http_prefix_at(http->prefixes, status, type_len),
                        ci_worker_now(http->worker), status, type, type_len, start,
                        (size_t)(at - start));
    return at;
}

/* Whether the head has no fields but the date, the type and a length. */
CI_INLINE bool is_plain(const coir_response *res)
{
    const struct ci_exchange *exchange = res->exchange;
    return !res->extra_len && !res->close && exchange->head.keep_alive &&
           exchange->head.minor_version >= 1 && !exchange->server->draining;
}

CI_INLINE bool is_head(const struct ci_exchange *exchange)
{
    const struct ci_span method = exchange->head.method;
    return method.len == 4 &&
           memcmp(ci_http_input_request(&exchange->in) + method.at, "HEAD", 4) == 0;
}

/* body_ends: the rest of the request's body will be read, so the connection can go on. */
CI_INLINE int begin_here(coir_response *res, int status, const char *type, size_t type_len,
                         int64_t length, bool body_ends)
{
    struct ci_exchange *exchange = res->exchange;
    const struct ci_http1_head *head = &exchange->head;
    struct ci_http_worker *http = exchange->server->http;
    if (res->begun)
        return -EALREADY;
    if (length < -1)
        return -EINVAL;
    if (type_len + res->extra_len > CI_HTTP_FIELDS_MAX)
        return -COIR_ETOOLARGE;
    if (ci_unlikely(exchange->starved))
        return -ENOMEM;
    char *start = ci_http_output_room(&exchange->out, HEAD_ROOM + type_len + res->extra_len),
         *at = start;
    if (!at)
        return exchange->out.error;
    /* only now: others may have answered, and the date changed, while it waited for room */
    const struct ci_http_prefix *prefix = ci_http_prefix_at(http->prefixes, status, type_len);
    bool known = ci_likely(type && !res->has_type) &&
                 ci_http_prefix_holds(prefix, ci_worker_now(http->worker), status, type, type_len);
    if (ci_unlikely(!known) && !may_begin(status, type, type_len))
        return -EINVAL;
    at = ci_likely(known) ? ci_http_prefix_put(prefix, at, prefix->len)
                          : put_prefix(res, at, status, type, type_len);
    at = put_framing(res, at, status, length);
    if (res->extra_len)
        at = put(at, res->extra, res->extra_len);
    res->close |= !head->keep_alive || exchange->server->draining || !body_ends;
    if (res->close)
        at = PUT(at, "Connection: close\r\n");
    else if (head->minor_version == 0)
        at = PUT(at, "Connection: keep-alive\r\n");
    at = PUT(at, "\r\n");
    ci_http_output_claim(&exchange->out, (size_t)(at - start));
    res->begun = true;
    res->no_body = without_body(status) || is_head(exchange);
    res->remaining = length;
    return 0;
}

static CI_NOINLINE int begin(coir_response *res, int status, const char *type, int64_t length,
                             bool body_ends)
{
    return begin_here(res, status, type, type ? strlen(type) : 0, length, body_ends);
}

int ci_response_start(coir_response *res, int status, const char *type, int64_t length)
{
    return begin(res, status, type, length, ci_body_end_is_near(res->exchange));
}

/* ---- the body ---- */

/* RFC 9112, 7.1. The three pieces gather; no piece is empty, which would end the body. */
static int write_chunk(coir_response *res, const void *data, size_t len)
{
    char head[CHUNK_HEAD];
    int head_len = snprintf(head, sizeof head, "%zx\r\n", len);
    int rc = ci_http_output_send(&res->exchange->out, head, (size_t)head_len);
    if (rc == 0)
        rc = ci_http_output_send(&res->exchange->out, data, len);
    return rc < 0 ? rc : ci_http_output_send(&res->exchange->out, "\r\n", 2);
}

/* What the client must not get (HEAD, 204, 304) is counted and dropped. */
CI_INLINE int write_body(coir_response *res, const void *data, size_t len)
{
    if (!res->begun)
        return -EINVAL;
    if (res->remaining >= 0) {
        if (len > (size_t)res->remaining)
            return -EINVAL;
        res->remaining -= (int64_t)len;
    }
    if (res->no_body || len == 0)
        return 0;
    return res->chunked ? write_chunk(res, data, len)
                        : ci_http_output_add(&res->exchange->out, data, len);
}

/* Spends budget in every case, also for HEAD, for errors and for pieces that only gather: a handler
 * that writes in a loop lets other tasks run. */
int coir_response_write(coir_response *res, const void *data, size_t len)
{
    int rc = 0;
    if (!ci_fiber_enter(&rc))
        return rc;
    if (ci_unlikely(!data && len))
        return CI_MISUSE(-EINVAL, "data is NULL");
    if ((rc = CI_EXCHANGE_REFUSED(res)) < 0)
        return rc;
    rc = write_body(res, data, len);
    ci_spend(ci_worker_current);
    return rc;
}

int coir_response_flush(coir_response *res)
{
    int rc = 0;
    if (!ci_fiber_enter(&rc) || (rc = CI_EXCHANGE_REFUSED(res)) < 0)
        return rc;
    return ci_http_output_flush(&res->exchange->out);
}

int coir_response_begin(coir_response *res, int status, const char *content_type, int64_t length)
{
    int rc = 0;
    if (!ci_fiber_enter(&rc) || (rc = CI_EXCHANGE_REFUSED(res)) < 0)
        return rc;
    struct ci_exchange *exchange = res->exchange;
    return begin(res, status, content_type, length,
                 exchange->body_begun || ci_body_end_is_near(exchange));
}

/* Puts a whole answer behind what has gathered, if the first lines of its head are kept, only its
 * length follows, and there is room. False: nothing is changed. */
CI_INLINE bool respond_plainly(coir_response *res, int status, const char *type, size_t type_len,
                               const void *body, size_t len)
{
    struct ci_exchange *exchange = res->exchange;
    struct ci_http_output *out = &exchange->out;
    struct ci_http_worker *http = exchange->server->http;
    struct ci_http_prefix *kept = ci_http_prefix_at(http->prefixes, status, type_len);
    if (ci_unlikely(
            !ci_http_prefix_holds(kept, ci_worker_now(http->worker), status, type, type_len)))
        return false;
    if (ci_unlikely(res->begun || exchange->starved || exchange->body.state != CI_BODY_DONE ||
                    !is_plain(res) || is_head(exchange) || without_body(status) ||
                    len > CI_HTTP_BUFFER || HEAD_ROOM + len > CI_HTTP_BUFFER - out->len))
        return false;
    char *start = out->bytes + out->len, *at;
    if (ci_likely(ci_http_prefix_has_head(kept, (int64_t)len))) {
        at = ci_http_prefix_put(kept, start, kept->head_len);
    } else {
        at = PUT(put_length(ci_http_prefix_put(kept, start, kept->len), len), "\r\n");
        ci_http_prefix_tell(kept, start, (size_t)(at - start), (int64_t)len);
    }
    at = ci_bytes_put(at, body, len);
    ci_http_output_claim(out, (size_t)(at - start));
    res->begun = true;
    res->remaining = 0;
    return true;
}

static CI_NOINLINE int respond(coir_response *res, int status, const char *type, size_t type_len,
                               const void *body, size_t len)
{
    if (len > INT64_MAX)
        return -EINVAL;
    int rc =
        begin_here(res, status, type, type_len, (int64_t)len, ci_body_end_is_near(res->exchange));
    return rc < 0 ? rc : write_body(res, body, len);
}

int coir_respond(coir_response *res, int status, const char *content_type, const void *body,
                 size_t len)
{
    int rc = 0;
    size_t type_len = content_type ? strlen(content_type) : 0; /* first: a call saves registers */
    if (!ci_fiber_enter(&rc))
        return rc;
    if (ci_unlikely(!body && len))
        return CI_MISUSE(-EINVAL, "body is NULL");
    if ((rc = CI_EXCHANGE_REFUSED(res)) < 0)
        return rc;
    return ci_likely(respond_plainly(res, status, content_type, type_len, body, len))
               ? res->exchange->out.error
               : respond(res, status, content_type, type_len, body, len);
}

/* Short texts are formatted on the stack, longer ones in the request's arena. */
int coir_respond_text(coir_response *res, int status, const char *format, ...)
{
    int rc = 0;
    if (!ci_fiber_enter(&rc))
        return rc;
    if (!format)
        return CI_MISUSE(-EINVAL, "format is NULL");
    if ((rc = CI_EXCHANGE_REFUSED(res)) < 0)
        return rc;
    char small[512], *text = small;
    va_list args;
    va_start(args, format);
    int len = vsnprintf(small, sizeof small, format, args);
    va_end(args);
    if (len < 0)
        return -EINVAL;
    if ((size_t)len >= sizeof small) {
        if (!(text = ci_arena_alloc(&res->exchange->arena, (size_t)len + 1)))
            return -ENOMEM;
        va_start(args, format);
        vsnprintf(text, (size_t)len + 1, format, args);
        va_end(args);
    }
    rc = ci_response_start(res, status, text_plain, len);
    return rc < 0 ? rc : write_body(res, text, (size_t)len);
}

/* The last chunk; a body that is too short cannot be ended. */
int ci_response_end_rest(coir_response *res)
{
    if (res->no_body)
        return 0;
    if (res->chunked)
        return ci_http_output_send(&res->exchange->out, "0\r\n\r\n", 5);
    return res->remaining > 0 ? -COIR_EEND /* only closing tells the client */ : 0;
}

void ci_respond_error(struct ci_exchange *exchange, int status)
{
    coir_response response = {.exchange = exchange, .close = true};
    char text[64];
    int len = snprintf(text, sizeof text, "%d %s\n", status, ci_http1_reason(status));
    exchange->starved = false; /* this answer says nothing that was asked for */
    ci_bump(&exchange->server->http->errors_sent);
    if (ci_response_start(&response, status, text_plain, len) == 0)
        write_body(&response, text, (size_t)len);
}
