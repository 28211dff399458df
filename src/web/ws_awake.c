/* What a connection has only while it is awake (ws.h 5), how it begins to wait, and how it is
 * freed. */
#include "web/ws.h"
#include "web/ws_deflate.h"

bool ci_ws_wake(coir_ws *ws)
{
    struct ci_ws_awake *awake = ci_pool_take(&ci_ws_http(ws)->awakes);
    if (!awake)
        return false;
    *awake = (struct ci_ws_awake){.ws = ws, .result = -EINPROGRESS};
    awake->frames.masked = !ws->terms->client;
    awake->frames.deflates = ws->terms->deflate.on;
    ws->awake = awake;
    return true;
}

void ci_ws_lull(coir_ws *ws)
{
    ci_pool_give(&ci_ws_http(ws)->awakes, ws->awake);
    ws->awake = NULL;
}

/* ---- waiting ---- */

coir_time ci_ws_silence_ends(const coir_ws *ws)
{
    const struct ci_ws_terms *terms = ws->terms;
    coir_time when =
        ci_time_after(ws->since, ws->pinged ? terms->ping_timeout : terms->ping_interval);
    return when < ws->close_by ? when : ws->close_by;
}

static void give_input_back(struct ci_ws_awake *awake, struct ci_http_worker *http)
{
    if (!awake->in || awake->in_at < awake->in_end)
        return;
    ci_pool_give(&http->buffers, awake->in);
    awake->in = NULL;
    awake->in_at = awake->in_end = 0;
}

void ci_ws_begin_wait(coir_ws *ws)
{
    coir_time when = ci_ws_silence_ends(ws);
    if (ws->awake && ws->awake->task) {
        coir_time rests = ci_time_after(ci_ws_now(ws), CI_WS_REST_DELAY);
        when = when < rests ? when : rests;
    }
    if (ws->awake)
        give_input_back(ws->awake, ci_ws_http(ws));
    ws->waiting = true;
    if (when != COIR_NEVER)
        ci_worker_set_timer(ci_ws_http(ws)->worker, &ws->timer, when);
}

/* ---- freeing ---- */

static void free_awake(coir_ws *ws)
{
    struct ci_http_worker *http = ci_ws_http(ws);
    struct ci_ws_awake *awake = ws->awake;
    coir_ws_message *const messages[] = {awake->message, awake->control, awake->ready,
                                         awake->farewell};
    for (size_t i = 0; i < ci_countof(messages); i++)
        coir_ws_message_unref(messages[i]);
    ci_ws_inflater_free(http, awake->inflater);
    ci_ws_sender_free(http, awake->ended);
    if (awake->in)
        ci_pool_give(&http->buffers, awake->in);
    ci_ws_lull(ws);
}

void ci_ws_free(coir_ws *ws)
{
    struct ci_http_worker *http = ci_ws_http(ws);
    ci_check(!ws->receiving, "web/ws.h 1");
    ci_worker_cancel_timer(http->worker, &ws->timer);
    ci_list_remove(&ws->link);
    if (ws->awake) {
        ci_ws_sender_end(ws);
        free_awake(ws);
    }
    if (ws->terms->places)
        --*ws->terms->places;
    ci_ws_terms_give(ws->terms);
    ci_pool_give(&http->sockets, ws);
}
