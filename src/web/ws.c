/* Making and freeing WebSocket connections, and their options. */
#include "web/ws.h"

#include <errno.h>
#include <string.h>

#include "base/options.h"
#include "web/ws_deflate.h"

/* ---- options ---- */

int ci_ws_options_read(coir_ws_options *options, const coir_ws_options *given)
{
    *options = (coir_ws_options)COIR_WS_OPTIONS;
    int rc = ci_options_read(options, sizeof *options, given);
    if (rc < 0)
        return rc;
    const coir_time times[] = {options->ping_interval, options->ping_timeout,
                               options->close_timeout, options->connect_timeout};
    for (size_t i = 0; i < ci_countof(times); i++)
        if (times[i] < 0)
            return -EINVAL;
#define DEFAULT(field, value) options->field = options->field ? options->field : (value)
    DEFAULT(message_max, 1 << 20);
    DEFAULT(items_max, 1024);
    DEFAULT(bytes_max, 4 << 20);
    DEFAULT(ping_interval, 30 * COIR_S);
    DEFAULT(ping_timeout, 20 * COIR_S);
    DEFAULT(close_timeout, 5 * COIR_S);
    DEFAULT(connect_timeout, 10 * COIR_S);
    DEFAULT(window_bits, CI_WS_BITS_MAX);
#undef DEFAULT
    bool known = (unsigned)options->overflow <= COIR_OVERFLOW_KEEP_LATEST &&
                 (unsigned)options->compression <= COIR_WS_COMPRESS_STREAM;
    return known && options->window_bits >= CI_WS_BITS_MADE_MIN &&
                   options->window_bits <= CI_WS_BITS_MAX
               ? 0
               : -EINVAL;
}

/* ---- making ---- */

/* A connection with what every one has, and no more; NULL: out of memory. */
static coir_ws *make(coir_stream *stream, const struct ci_ws_agreed *agreed)
{
    struct ci_http_worker *http = agreed->http;
    coir_ws *ws = ci_pool_take(&http->sockets);
    struct ci_ws_terms *terms = ws ? ci_ws_terms_take(agreed) : NULL;
    if (!terms) {
        if (ws)
            ci_pool_give(&http->sockets, ws);
        return NULL;
    }
    memset(ws, 0, sizeof *ws);
    if (terms->places)
        ++*terms->places;
    ws->stream = stream;
    ws->terms = terms;
    ws->arg = agreed->arg;
    ws->since = ci_ws_now(ws);
    ws->close_by = COIR_NEVER;
    ci_timer_init(&ws->timer, ci_ws_on_silence);
    ci_list_init(&ws->link);
    return ws;
}

/* What has come already. */
static int take_over(coir_ws *ws, const char *input, size_t len)
{
    struct ci_ws_awake *awake = ws->awake;
    ci_check(len <= CI_HTTP_BUFFER, "web/ws.h 2");
    if (!len)
        return 0;
    if (!(awake->in = ci_pool_take(&ci_ws_http(ws)->buffers)))
        return -ENOMEM;
    memcpy(awake->in, input, len);
    awake->in_end = (uint32_t)len;
    return 0;
}

int ci_ws_new(coir_stream *stream, const struct ci_ws_agreed *agreed, const char *input, size_t len,
              coir_ws **ret_ws)
{
    coir_ws *ws = make(stream, agreed);
    if (!ws)
        return -ENOMEM;
    int rc = ci_ws_wake(ws) ? take_over(ws, input, len) : -ENOMEM;
    if (rc < 0)
        ci_ws_free(ws);
    else
        *ret_ws = ws;
    return rc;
}

void coir_ws_free(coir_ws *ws)
{
    if (!ws || ci_forked() || CI_ELSEWHERE(ci_ws_http(ws)->worker) ||
        CI_REFUSED(!ws->terms->client, "a server's connection ends with its handler") ||
        CI_REFUSED_AS(-EBUSY, ws->receiving, "a task receives; cancel it first"))
        return;
    coir_stream *stream = ws->stream;
    ci_ws_free(ws);
    coir_close(stream);
}

/* ---- what is known of it; one that rests has not ended ---- */

const char *coir_ws_protocol(const coir_ws *ws)
{
    return CI_REFUSED(!ws, "ws is NULL") ? "" : ws->terms->protocol;
}

int coir_ws_close_code(const coir_ws *ws)
{
    return CI_REFUSED(!ws, "ws is NULL") || !ws->awake ? 0 : ws->awake->close_code;
}

const char *coir_ws_close_reason(const coir_ws *ws)
{
    if (CI_REFUSED(!ws, "ws is NULL") || !ws->awake)
        return "";
    coir_ws_message *farewell = ws->awake->farewell;
    return farewell && farewell->len >= 2 ? ci_ws_message_payload(farewell) + 2 : "";
}

int coir_ws_result(const coir_ws *ws)
{
    if (CI_REFUSED(!ws, "ws is NULL"))
        return -EINVAL;
    return ws->awake ? ws->awake->result : -EINPROGRESS;
}
