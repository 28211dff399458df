/* Server-sent events in a world that goes wrong: a publisher, and clients that connect again and
 * again, some of which are too slow.
 *
 * What must hold:
 * 1. What a client gets are whole events and comments, byte for byte what was sent.
 * 2. The ids of its events grow: none comes twice, and none behind a later one.
 * 3. The id that it says it had last is the one that the server is told.
 * 4. When the faults are over, every client gets its events, and nothing is left open (the audit).
 * 5. A client that sends its end is left soon, although the events go on; also one that sends it
 *    with its request.
 */
#include <coir/sse.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos.h"
#include "scenario.h"
#include "sim/must.h"

enum { CLIENTS = 4, WANTED = 5, EVENT_MOST = 4000, INPUT = 3 * EVENT_MOST, IDS = 100000 };

static struct chaos chaos;

/* ---- an event, by its id: as it is sent, and as it must arrive ---- */

static size_t line_length(unsigned id, unsigned line)
{
    return (id * 7 + line * 311) % (id % 9 ? 40 : 1200);
}

static unsigned lines_of(unsigned id)
{
    return 1 + id % 3;
}

/* Its data: lines with `prefix` before each. */
static size_t put_data(char *to, unsigned id, const char *prefix)
{
    char *at = to;
    for (unsigned line = 0; line < lines_of(id); line++) {
        at += sprintf(at, "%s", prefix);
        for (size_t len = line_length(id, line); len; len--) /* no part looks like another */
            *at++ = (char)('a' + (id + line + len) % 23);
        *at++ = '\n';
    }
    *at = '\0';
    return (size_t)(at - to);
}

static size_t render(char *to, unsigned id)
{
    char *at = to;
    if (id % 2)
        at += sprintf(at, "event: odd\n");
    at += sprintf(at, "id: %u\n", id);
    if (id % 5 == 0)
        at += sprintf(at, "retry: %u\n", id % 1000 + 1);
    at += put_data(at, id, "data: ");
    return (size_t)(at + sprintf(at, "\n") - to);
}

static int send_event(coir_response *res, unsigned id)
{
    char number[20], *text = malloc(EVENT_MOST); /* stacks are small */
    coir_sse_event event = COIR_SSE_EVENT;
    if (!text)
        return -ENOMEM;
    size_t len = put_data(text, id, "");
    text[len - 1] = '\0'; /* the last line ends the text */
    snprintf(number, sizeof number, "%u", id);
    event.name = id % 2 ? "odd" : NULL;
    event.id = number;
    event.data = text;
    event.retry = id % 5 ? 0 : (coir_time)(id % 1000 + 1) * COIR_MS;
    int rc = coir_sse_send(res, &event);
    free(text);
    return rc;
}

/* ---- the server ---- */

static int follow(coir_request *req, coir_response *res, coir_channel *ids)
{
    char said[40];
    unsigned id;
    const char *last = coir_sse_last_id(req);
    snprintf(said, sizeof said, "after %s", last ? last : "nothing");
    int rc = coir_sse_begin(req, res);
    rc = rc < 0 ? rc : coir_sse_comment(res, said);
    while (rc == 0) {
        coir_case waits[] = {coir_case_recv(ids, &id),
                             coir_case_after((coir_time)(1 + chaos_below(&chaos, 500)) * COIR_MS),
                             coir_case_drain(req)};
        switch (coir_select(waits, 3)) {
        case 0: rc = waits[0].result < 0 ? (int)waits[0].result : send_event(res, id); break;
        case 1: rc = coir_sse_comment(res, "quiet"); break;
        case 2: return 0;
        default: return -ECANCELED;
        }
    }
    return rc;
}

static int serve_events(coir_request *req, coir_response *res, void *arg)
{
    static const enum coir_overflow policies[] = {COIR_OVERFLOW_DROP_OLDEST,
                                                  COIR_OVERFLOW_DROP_NEWEST, COIR_OVERFLOW_CLOSE};
    coir_channel *ids;
    (void)arg;
    int rc =
        coir_subscribe(arg, 1 + chaos_below(&chaos, 10), policies[chaos_below(&chaos, 3)], &ids);
    if (rc < 0)
        return rc;
    rc = follow(req, res, ids);
    coir_channel_free(ids);
    return rc;
}

static int publish(void *topic)
{
    int rc = 0;
    for (unsigned id = 1; rc >= 0 && id < IDS; id++) {
        rc = coir_publish(topic, &id);
        if (rc >= 0)
            rc = coir_sleep_for((coir_time)chaos_below(&chaos, 300) * COIR_MS);
    }
    return rc;
}

static int serve_once(void)
{
    coir_topic_options options = COIR_TOPIC_OPTIONS;
    coir_topic *topic; /* of ids */
    coir_router *router = NULL;
    options.item_size = sizeof(unsigned);
    options.keep_last = chaos_below(&chaos, 2);
    int rc = coir_topic_new_with(&options, &topic);
    if (rc < 0)
        return rc;
    {
        COIR_SCOPE(scope);
        if ((rc = coir_router_new(&router)) == 0 &&
            (rc = coir_route(router, "GET", "/events", serve_events, topic)) == 0 &&
            (rc = coir_go(scope, publish, topic)) == 0)
            rc = coir_serve_http("0.0.0.0:80", router);
        coir_scope_cancel(scope);
        coir_scope_wait(scope);
    }
    coir_router_free(router);
    coir_topic_free(topic);
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

struct listener {
    coir_stream *stream;
    unsigned asked; /* the id that it says it had; 0: none */
    unsigned last, events;
    bool told; /* the comment that comes first */
    size_t len;
    char input[INPUT];
};

static void take_comment(struct listener *listener, const char *text, size_t len)
{
    char want[60];
    if (listener->told) {
        MUST(len == 9 && memcmp(text, ": quiet\n\n", 9) == 0);
        return;
    }
    int n = listener->asked ? snprintf(want, sizeof want, ": after %u\n\n", listener->asked)
                            : snprintf(want, sizeof want, ": after nothing\n\n");
    MUST(len == (size_t)n && memcmp(text, want, len) == 0); /* 3 */
    listener->told = true;
}

static void take_event(struct listener *listener, const char *text, size_t len)
{
    static char want[EVENT_MOST];
    const char *id = memmem(text, len, "id: ", 4);
    MUST(listener->told && id);
    unsigned number = (unsigned)atoi(id + 4);
    MUST(number > listener->last && number < IDS);                     /* 2 */
    MUST(render(want, number) == len && memcmp(text, want, len) == 0); /* 1 */
    listener->last = number;
    listener->events++;
}

/* What is whole of the input. */
static void take(struct listener *listener)
{
    char *end;
    while ((end = memmem(listener->input, listener->len, "\n\n", 2))) {
        size_t len = (size_t)(end + 2 - listener->input);
        if (listener->input[0] == ':')
            take_comment(listener, listener->input, len);
        else
            take_event(listener, listener->input, len);
        listener->len -= len;
        memmove(listener->input, end + 2, listener->len);
    }
    MUST(listener->len < INPUT); /* no event is so long */
}

static int read_more(struct listener *listener)
{
    if (!chaos.over && chaos_below(&chaos, 10) == 0)
        coir_sleep_for((coir_time)chaos_below(&chaos, 5 * COIR_S));
    ssize_t n = coir_read(listener->stream, listener->input + listener->len, INPUT - listener->len);
    if (n > 0)
        listener->len += (size_t)n;
    return n > 0 ? 0 : n == 0 ? -EPROTO : (int)n; /* it was too slow, or the server stops */
}

static int read_head(struct listener *listener)
{
    char *end;
    int rc = 0;
    while (!(end = memmem(listener->input, listener->len, "\r\n\r\n", 4)))
        if ((rc = read_more(listener)) < 0)
            return rc;
    int status = 0;
    *end = '\0';
    MUST(sscanf(listener->input, "HTTP/1.1 %d", &status) == 1);
    if (status != 200)
        return -EPROTO;
    MUST(strstr(listener->input, "text/event-stream"));
    listener->len -= (size_t)(end + 4 - listener->input);
    memmove(listener->input, end + 4, listener->len);
    return 0;
}

static int ask(const struct listener *listener)
{
    char head[200];
    int len = listener->asked
                  ? snprintf(head, sizeof head, "GET /events HTTP/1.0\r\nLast-Event-ID: %u\r\n\r\n",
                             listener->asked)
                  : snprintf(head, sizeof head, "GET /events HTTP/1.0\r\n\r\n");
    return coir_write_all(listener->stream, head, (size_t)len);
}

static int hear(struct listener *listener)
{
    int rc = read_head(listener);
    while (rc == 0) {
        take(listener);
        if (listener->events >= WANTED)
            return 0;
        rc = read_more(listener);
    }
    return rc;
}

/* Half-closes, and waits for the server's end. */
static int leave(coir_stream *stream)
{
    char bytes[500];
    bool well = chaos.over;
    int rc = coir_shutdown_write(stream);
    ssize_t n = 1;
    COIR_DEADLINE_AS(limit, coir_in(20 * COIR_S));
    while (rc == 0 && n > 0)
        n = coir_read(stream, bytes, sizeof bytes);
    MUST(!coir_deadline_passed(limit) || !well); /* 5 */
    return 0;                                    /* it has its events */
}

static int listen_once(void)
{
    struct listener *listener = calloc(1, sizeof *listener);
    if (!listener)
        return -ENOMEM;
    int rc = coir_tcp_connect("server:80", &listener->stream);
    if (rc == 0) {
        listener->asked = (unsigned)chaos_below(&chaos, 3);
        bool hears = chaos_below(&chaos, 4);
        rc = ask(listener);
        if (rc == 0 && hears)
            rc = hear(listener);
        if (rc == 0 && (!hears || chaos_below(&chaos, 2)))
            rc = leave(listener->stream);
        rc = rc == 0 && !hears ? -EPROTO : rc; /* it comes again */
        coir_close(listener->stream);
    }
    free(listener);
    return rc;
}

static int visit(int client)
{
    bool well = chaos.over;
    int rc;
    (void)client;
    COIR_DEADLINE(coir_in(60 * COIR_S));
    do
        rc = listen_once();
    while (well && rc == -EPROTO); /* some fall behind at once: their queue has one place */
    MUST(rc != -ETIME || !well);   /* 4 */
    return rc;
}

int scenario(coir_sim *sim)
{
    chaos = (struct chaos){.restart = start_server};
    return chaos_run(&chaos, sim, visit, CLIENTS);
}
