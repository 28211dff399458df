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

static void init(coir_ws *ws, coir_stream *stream, const coir_ws_options *options,
                 const struct ci_ws_deflate *deflate)
{
    ws->stream = stream;
    ws->frames.masked = !ws->client;
    ws->frames.deflates = deflate->on;
    ws->deflate = *deflate;
    ws->items_max = options->items_max;
    ws->bytes_max = options->bytes_max;
    ws->overflow = (uint8_t)options->overflow;
    ws->drops_frames =
        options->overflow != COIR_OVERFLOW_WAIT && options->overflow != COIR_OVERFLOW_CLOSE;
    ws->ping_interval = options->ping_interval;
    ws->ping_timeout = options->ping_timeout;
    ws->close_timeout = options->close_timeout;
    ws->message_max = options->message_max;
    ws->result = -EINPROGRESS;
    ws->heard_at = ci_worker_now(ws->http->worker);
    ws->pinged_at = -1;
    ws->close_by = COIR_NEVER;
    ci_timer_init(&ws->timer, ci_ws_on_silence);
    ci_list_init(&ws->link);
}

/* What has come already, and the protocol's name. */
static int take_over(coir_ws *ws, const char *protocol, size_t protocol_len, const char *input,
                     size_t len)
{
    ci_check(len <= CI_HTTP_BUFFER, "web/ws.h 2");
    ws->protocol = "";
    if (protocol_len) {
        char *copy = ci_alloc(&ws->http->messages.allocator, protocol_len + 1);
        if (!copy)
            return -ENOMEM;
        ((char *)memcpy(copy, protocol, protocol_len))[protocol_len] = '\0';
        ws->protocol = copy;
    }
    if (!len)
        return 0;
    if (!(ws->in = ci_pool_take(&ws->http->buffers)))
        return -ENOMEM;
    memcpy(ws->in, input, len);
    ws->in_end = (uint32_t)len;
    return 0;
}

int ci_ws_new(struct ci_http_worker *http, coir_stream *stream, bool client,
              const coir_ws_options *options, const struct ci_ws_deflate *deflate,
              const char *protocol, size_t protocol_len, const char *input, size_t len,
              coir_ws **ret_ws)
{
    coir_ws *ws = ci_pool_take(&http->sockets);
    if (!ws)
        return -ENOMEM;
    memset(ws, 0, sizeof *ws);
    ws->http = http;
    ws->client = client;
    init(ws, stream, options, deflate);
    int rc = take_over(ws, protocol, protocol_len, input, len);
    if (rc < 0)
        ci_ws_free(ws);
    else
        *ret_ws = ws;
    return rc;
}

void ci_ws_free(coir_ws *ws)
{
    struct ci_http_worker *http = ws->http;
    coir_ws_message *const messages[] = {ws->message, ws->control, ws->ready, ws->farewell};
    ci_check(!ws->receiving, "web/ws.h 1");
    ci_worker_cancel_timer(http->worker, &ws->timer);
    ci_list_remove(&ws->link);
    if (ws->parts_by)
        coir_mutex_unlock(&ws->turn);
    ci_ws_queue_free(ws);
    for (size_t i = 0; i < ci_countof(messages); i++)
        coir_ws_message_unref(messages[i]);
    ci_ws_deflate_free(ws);
    if (ws->in)
        ci_pool_give(&http->buffers, ws->in);
    if (ws->protocol && *ws->protocol)
        ci_free(&http->messages.allocator, (void *)(uintptr_t)ws->protocol,
                strlen(ws->protocol) + 1);
    ci_pool_give(&http->sockets, ws);
}

void coir_ws_free(coir_ws *ws)
{
    if (!ws || ci_forked() || CI_ELSEWHERE(ws->http->worker) ||
        CI_REFUSED(!ws->client, "a server's connection ends with its handler") ||
        CI_REFUSED_AS(-EBUSY, ws->receiving, "a task receives; cancel it first"))
        return;
    coir_stream *stream = ws->stream;
    ci_ws_free(ws);
    coir_close(stream);
}

/* ---- what is known of it ---- */

const char *coir_ws_protocol(const coir_ws *ws)
{
    return CI_REFUSED(!ws, "ws is NULL") ? "" : ws->protocol;
}

int coir_ws_close_code(const coir_ws *ws)
{
    return CI_REFUSED(!ws, "ws is NULL") ? 0 : ws->close_code;
}

const char *coir_ws_close_reason(const coir_ws *ws)
{
    if (CI_REFUSED(!ws, "ws is NULL") || !ws->farewell || ws->farewell->len < 2)
        return "";
    return ci_ws_message_payload(ws->farewell) + 2;
}

int coir_ws_result(const coir_ws *ws)
{
    return CI_REFUSED(!ws, "ws is NULL") ? -EINVAL : ws->result;
}
