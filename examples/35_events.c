/* Server-sent events: every client gets the same news, each at its own pace. What a client does not
 * read in time it loses (COIR_OVERFLOW_DROP_OLDEST); nobody waits for it.
 *   35_events 127.0.0.1:8080    and then    curl -N http://127.0.0.1:8080/events */
#include <coir.h>
#include <coir/sse.h>
#include <errno.h>
#include <stdio.h>

struct news {
    unsigned number;
    char text[50];
};

static coir_topic *topic;

static int follow(coir_request *req, coir_response *res, coir_channel *channel)
{
    struct news news;
    char id[20];
    coir_sse_event event = {.size = sizeof event, .id = id, .data = news.text};
    int rc = coir_sse_begin(req, res);
    while (rc == 0) {
        coir_case waits[] = {coir_case_recv(channel, &news), coir_case_after(15 * COIR_S),
                             coir_case_drain(req)};
        switch (coir_select(waits, 3)) {
        case 0:
            if (waits[0].result < 0)
                return 0; /* the subscription is closed */
            snprintf(id, sizeof id, "%u", news.number);
            rc = coir_sse_send(res, &event);
            break;
        case 1: rc = coir_sse_comment(res, ""); break; /* the connection is alive */
        case 2: return 0;                              /* the server stops */
        default: return -ECANCELED;                    /* the client has left */
        }
    }
    return rc;
}

static int events(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_channel *channel;
    int rc = coir_subscribe(topic, 16, COIR_OVERFLOW_DROP_OLDEST, &channel);
    if (rc < 0)
        return rc;
    rc = follow(req, res, channel);
    coir_channel_free(channel);
    return rc;
}

static int tick(void *arg)
{
    (void)arg;
    for (struct news news = {0}; coir_sleep_for(100 * COIR_MS) == 0; coir_try_publish(topic, &news))
        snprintf(news.text, sizeof news.text, "tick %u", ++news.number);
    return 0;
}

static int start(void *address)
{
    coir_router *router;
    int rc = coir_topic_new(sizeof(struct news), &topic);
    if (rc == 0 && (rc = coir_router_new(&router)) == 0) {
        COIR_SCOPE(scope);
        if ((rc = coir_route(router, "GET", "/events", events, NULL)) == 0 &&
            (rc = coir_go(scope, tick, NULL)) == 0)
            rc = coir_serve_http(address, router);
        coir_scope_cancel(scope);
        coir_scope_wait(scope);
        coir_router_free(router);
    }
    coir_topic_free(topic);
    return rc;
}

int main(int argc, char **argv)
{
    return coir_main(start, argc > 1 ? argv[1] : "127.0.0.1:8080");
}
