/* Server-sent events: an answer without an end, whose pieces are gathered on the stack, so that an
 * event of the usual size is one chunk. */
#include "coir/sse.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "proto/sse.h"
#include "web/exchange.h"

struct gathered {
    coir_response *res;
    size_t len;
    char bytes[1024];
};

static int send_gathered(struct gathered *out)
{
    int rc = out->len ? coir_response_write(out->res, out->bytes, out->len) : 0;
    out->len = 0;
    return rc;
}

/* Adds to what is gathered, after an earlier result. */
static int put(struct gathered *out, int rc, const char *text, size_t len)
{
    while (rc == 0 && len) {
        size_t n = sizeof out->bytes - out->len;
        if (n == 0) {
            rc = send_gathered(out);
            continue;
        }
        n = n < len ? n : len;
        memcpy(out->bytes + out->len, text, n);
        out->len += n;
        text += n;
        len -= n;
    }
    return rc;
}

static int put_line(struct gathered *out, int rc, const char *field, const char *value, size_t len)
{
    rc = put(out, rc, field, strlen(field));
    rc = put(out, rc, value, len);
    return put(out, rc, "\n", 1);
}

/* A field for each line of a text. */
static int put_lines(struct gathered *out, int rc, const char *field, const char *text)
{
    while (text && rc == 0) {
        const char *next;
        size_t len = ci_sse_line(text, &next);
        rc = put_line(out, rc, field, text, len);
        text = next;
    }
    return rc;
}

/* The empty line that ends an event, and all of it on its way. */
static int end_event(struct gathered *out, int rc)
{
    rc = put(out, rc, "\n", 1);
    rc = rc < 0 ? rc : send_gathered(out);
    return rc < 0 ? rc : coir_response_flush(out->res);
}

static int send_event(coir_response *res, const coir_sse_event *event)
{
    struct gathered out = {.res = res, .len = 0};
    char number[24];
    int rc = 0;
    if (event->name)
        rc = put_line(&out, rc, "event: ", event->name, strlen(event->name));
    if (event->id)
        rc = put_line(&out, rc, "id: ", event->id, strlen(event->id));
    if (event->retry) {
        int len = snprintf(number, sizeof number, "%" PRId64, event->retry / COIR_MS);
        rc = put_line(&out, rc, "retry: ", number, (size_t)len);
    }
    rc = put_lines(&out, rc, "data: ", event->data);
    return end_event(&out, rc);
}

/* 0, -EINVAL: it cannot be said in the format, or the answer has not begun. */
static int check(const coir_response *res, const coir_sse_event *event)
{
    bool lines =
        (!event->name || ci_sse_is_line(event->name)) && (!event->id || ci_sse_is_line(event->id));
    return res->begun && lines && event->retry >= 0 ? 0 : -EINVAL;
}

int coir_sse_begin(coir_request *req, coir_response *res)
{
    int rc = 0;
    if (!ci_fiber_enter(&rc))
        return rc;
    if (!req || !res)
        return CI_MISUSE(-EINVAL, "req or res is NULL");
    if ((rc = CI_EXCHANGE_REFUSED(req)) < 0)
        return rc;
    if ((rc = coir_response_add_header(res, "Cache-Control", "no-cache")) < 0 ||
        (rc = coir_response_add_header(res, "X-Accel-Buffering", "no")) < 0 || /* for nginx */
        (rc = coir_response_begin(res, 200, "text/event-stream", -1)) < 0)
        return rc;
    coir_request_set_end_cancels(req, true);
    return coir_response_flush(res);
}

int coir_sse_send(coir_response *res, const coir_sse_event *given)
{
    int rc = 0;
    if (!ci_fiber_enter(&rc))
        return rc;
    if (!given)
        return CI_MISUSE(-EINVAL, "event is NULL");
    if ((rc = CI_EXCHANGE_REFUSED(res)) < 0)
        return rc;
    coir_sse_event event = COIR_SSE_EVENT;
    rc = ci_options_read(&event, sizeof event, given);
    rc = rc < 0 ? rc : check(res, &event);
    return rc < 0 ? rc : send_event(res, &event);
}

int coir_sse_send_text(coir_response *res, const char *data)
{
    int rc = 0;
    if (!ci_fiber_enter(&rc))
        return rc;
    if (!data)
        return CI_MISUSE(-EINVAL, "data is NULL");
    if ((rc = CI_EXCHANGE_REFUSED(res)) < 0)
        return rc;
    coir_sse_event event = COIR_SSE_EVENT;
    event.data = data;
    rc = check(res, &event);
    return rc < 0 ? rc : send_event(res, &event);
}

int coir_sse_comment(coir_response *res, const char *text)
{
    int rc = 0;
    if (!ci_fiber_enter(&rc))
        return rc;
    if (!text)
        return CI_MISUSE(-EINVAL, "text is NULL");
    if ((rc = CI_EXCHANGE_REFUSED(res)) < 0)
        return rc;
    if (!res->begun)
        return -EINVAL;
    struct gathered out = {.res = res, .len = 0};
    return end_event(&out, put_lines(&out, 0, ": ", text));
}

const char *coir_sse_last_id(const coir_request *req)
{
    return CI_REFUSED(!req, "req is NULL") ? NULL : coir_request_header(req, "last-event-id");
}
