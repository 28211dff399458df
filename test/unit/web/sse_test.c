/* Server-sent events, read by a client that is written from the HTML standard; slow clients,
 * clients that leave, and servers that stop. */
#include <coir/sse.h>
#include <stdio.h>

#include "client.h"
#include "sys/misuse.h"

/* ---- a client: the interpretation of a stream (9.2.6) ---- */

static struct {
    char data[100000], id[1000], name[1000], last_data[100000], last_name[1000];
    int retry, events, comments;
} heard;

static void dispatch(void)
{
    if (*heard.data) {
        size_t len = strlen(heard.data);
        heard.data[len - 1] = '\0'; /* the last line feed */
        strcpy(heard.last_data, heard.data);
        strcpy(heard.last_name, *heard.name ? heard.name : "message");
        heard.events++;
    }
    *heard.data = *heard.name = '\0';
}

static void take_line(char *line)
{
    if (!*line) {
        dispatch();
        return;
    }
    char *colon = strchr(line, ':'), *value = colon ? colon + 1 : line + strlen(line);
    if (colon)
        *colon = '\0';
    value += *value == ' ';
    if (!*line)
        heard.comments++;
    else if (strcmp(line, "data") == 0)
        strcat(strcat(heard.data, value), "\n");
    else if (strcmp(line, "event") == 0)
        strcpy(heard.name, value);
    else if (strcmp(line, "id") == 0)
        strcpy(heard.id, value);
    else if (strcmp(line, "retry") == 0)
        heard.retry = atoi(value);
    else
        test_fail(__FILE__, __LINE__, "a field %s", line);
}

/* The stream of an answer of HTTP/1.0, which has no chunks. */
static void hear(const char *path)
{
    char request[300];
    memset(&heard, 0, sizeof heard);
    snprintf(request, sizeof request, "GET %s HTTP/1.0\r\nLast-Event-ID: seven\r\n\r\n", path);
    coir_stream *stream = dial();
    send_text(stream, request);
    receive_all(stream);
    coir_close(stream);
    CHECK(status(answer) == 200 && strstr(answer, "\r\nContent-Type: text/event-stream\r\n"));
    CHECK(strstr(answer, "\r\nCache-Control: no-cache\r\n") != NULL);
    char *at = strstr(answer, "\r\n\r\n") + 4;
    for (char *end; *at; at = end + 1) {
        CHECK((end = strchr(at, '\n')) != NULL);
        *end = '\0';
        CHECK(!strchr(at, '\r'));
        take_line(at);
    }
}

/* ---- what is sent ---- */

static char large[50000];

static int send_events(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_sse_event event = COIR_SSE_EVENT;
    CHECK_EQ(coir_sse_send(res, &event), -EINVAL); /* not begun */
    CHECK_EQ(coir_sse_comment(res, "early"), -EINVAL);
    CHECK_EQ(coir_sse_send_text(res, "early"), -EINVAL);
    CHECK(strcmp(coir_sse_last_id(req), "seven") == 0);
    CHECK_EQ(coir_sse_begin(req, res), 0);
    CHECK_EQ(coir_sse_begin(req, res), -EALREADY);
    event.name = "a\nb";
    CHECK_EQ(coir_sse_send(res, &event), -EINVAL);
    event.name = NULL;
    event.id = "a\rdata: b";
    CHECK_EQ(coir_sse_send(res, &event), -EINVAL);
    event.id = NULL;
    event.retry = -1;
    CHECK_EQ(coir_sse_send(res, &event), -EINVAL);
    event.size = 0;
    CHECK_EQ(coir_sse_send(res, &event), -COIR_EUNSIZED);
    CHECK_EQ(coir_sse_comment(res, "two\nlines"), 0);
    const char *which = coir_request_query(req);
    if (strcmp(which, "fields") == 0)
        event = (coir_sse_event){sizeof event, "tick", "41", "one\r\ntwo\n\nfour\r five: x",
                                 2500 * COIR_MS};
    else if (strcmp(which, "id") == 0)
        event = (coir_sse_event){sizeof event, NULL, "42", NULL, 0};
    else if (strcmp(which, "large") == 0)
        return coir_sse_send_text(res, large);
    else
        return coir_sse_send_text(res, "data: text");
    return coir_sse_send(res, &event);
}

static coir_topic *topic;
static int followers, received, last_number;
static coir_time ended;

/* Follows the topic, with a piece of text of some length. */
static int follow(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_channel *news;
    int rc = coir_subscribe(topic, 4, COIR_OVERFLOW_DROP_OLDEST, &news), number;
    followers++;
    rc = rc < 0 ? rc : coir_sse_begin(req, res);
    while (rc == 0) {
        char text[10000];
        coir_case waits[] = {coir_case_recv(news, &number), coir_case_after(15 * COIR_S),
                             coir_case_drain(req)};
        switch (coir_select(waits, 3)) {
        case 0:
            received++;
            last_number = number;
            snprintf(text, sizeof text, "%d %09000d", number, 0);
            rc = coir_sse_send_text(res, text);
            break;
        case 1: rc = coir_sse_comment(res, ""); break;
        case 2: rc = 1; break;
        default: rc = -ECANCELED;
        }
    }
    ended = coir_now();
    followers--;
    coir_channel_free(news);
    return rc > 0 ? 0 : rc;
}

static int serve(void *arg)
{
    (void)arg;
    static const struct route all[] = {
        {"GET", "/send", send_events}, {"GET", "/follow", follow}, {0}};
    coir_router *router = make_router(all);
    CHECK_EQ(coir_topic_new(sizeof(int), &topic), 0);
    coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
    options.address = server_address;
    int rc = coir_serve_http_with(&options, router);
    coir_topic_free(topic);
    coir_router_free(router);
    return rc;
}

TEST_SERVER(events_are_heard_as_they_were_sent)
{
    hear("/send?fields");
    CHECK(heard.events == 1 && heard.comments == 2 && heard.retry == 2500);
    CHECK(strcmp(heard.last_data, "one\ntwo\n\nfour\n five: x") == 0);
    CHECK(strcmp(heard.last_name, "tick") == 0 && strcmp(heard.id, "41") == 0);
    hear("/send?id");
    CHECK(heard.events == 0 && strcmp(heard.id, "42") == 0 && heard.retry == 0);
    hear("/send?text");
    CHECK(heard.events == 1 && strcmp(heard.last_data, "data: text") == 0);
    CHECK(strcmp(heard.last_name, "message") == 0 && !*heard.id);
    memset(large, 'x', sizeof large - 1);
    hear("/send?large");
    CHECK(heard.events == 1 && strcmp(heard.last_data, large) == 0);
}

static void publish(int number)
{
    CHECK(coir_publish(topic, &number) >= 0);
}

TEST_SERVER(a_slow_client_loses_what_its_policy_lets_go)
{
    coir_stream *stream = dial();
    send_text(stream, GET("/follow"));
    coir_sleep_for(COIR_S);
    CHECK_EQ(followers, 1);
    for (int i = 0; i < 1000; i++) { /* nobody waits for it */
        publish(i);
        coir_sleep_for(COIR_MS);
    }
    CHECK(followers == 1 && received > 0 && received < 900);
    {
        COIR_DEADLINE(coir_in(5 * COIR_S));
        size_t len = 0; /* the last piece of what comes */
        for (ssize_t n; (n = coir_read(stream, answer + len, sizeof answer / 2)) > 0;) {
            if ((len += (size_t)n) > sizeof answer / 2 - 1) {
                memmove(answer, answer + len - 100000, 100000);
                len = 100000;
            }
            answer[len] = '\0';
        }
    }
    CHECK(last_number == 999 && received < 1000);
    CHECK(strstr(answer, "999 0000") && strstr(strstr(answer, "999 0000"), "\n\n")); /* all of it */
    coir_close(stream);
    coir_sleep_for(COIR_S);
    CHECK_EQ(followers, 0);
}

/* However much fits into the connection: nothing is held back until the next event. */
TEST_SERVER(a_client_that_reads_late_has_the_latest)
{
    for (int count = 1; count < 50; count++) {
        coir_stream *stream = dial();
        char last[20];
        size_t len = 0;
        send_text(stream, GET("/follow"));
        coir_sleep_for(COIR_S);
        for (int i = 0; i < count; i++) {
            publish(i);
            coir_sleep_for(COIR_MS);
        }
        COIR_DEADLINE(coir_in(5 * COIR_S));
        for (ssize_t n; (n = coir_read(stream, answer + len, sizeof answer - 1 - len)) > 0;)
            len += (size_t)n;
        answer[len] = '\0';
        snprintf(last, sizeof last, "data: %d 0000", count - 1);
        const char *event = strstr(answer, last);
        CHECK(event && strstr(event, "\n\n"));
        coir_close(stream);
    }
}

TEST_SERVER(a_client_that_leaves_ends_its_handler)
{
    coir_stream *stream = dial();
    send_text(stream, GET("/follow"));
    coir_sleep_for(COIR_S);
    CHECK_EQ(followers, 1);
    coir_shutdown_write(stream); /* a FIN alone */
    coir_sleep_for(COIR_S);
    CHECK(followers == 0 && coir_topic_subscribers(topic) == 0);
    coir_close(stream);
}

TEST_SERVER(a_silent_stream_is_kept_alive)
{
    coir_stream *stream = dial();
    ssize_t n;
    send_text(stream, GET("/follow"));
    coir_sleep_for(COIR_S);
    CHECK((n = coir_read(stream, answer, 5000)) > 0); /* the head is not held back */
    coir_time start = coir_now();
    CHECK((n = coir_read(stream, answer, 5000)) > 0);
    answer[n] = '\0';
    CHECK(strstr(answer, "\r\n: \n\n\r\n") && coir_now() - start > 13 * COIR_S);
    coir_close(stream);
}

TEST_SIM(a_server_that_stops_ends_its_streams)
{
    COIR_SCOPE(server);
    coir_go(server, serve, NULL);
    coir_stream *stream = dial();
    send_text(stream, GET("/follow"));
    coir_sleep_for(COIR_S);
    coir_time start = coir_now();
    coir_scope_cancel(server);
    receive_all(stream);
    CHECK(strstr(answer, "\r\n0\r\n\r\n") !=
          NULL); /* whole, and at once: not after drain_timeout */
    CHECK(ended - start < 10 * COIR_MS);
    coir_close(stream);
    coir_scope_wait(server);
}

TEST_SIM(calls_without_their_arguments_are_refused)
{
    coir_sse_event event = COIR_SSE_EVENT;
    ci_misuse_aborts = false;
    CHECK_EQ(coir_sse_begin(NULL, NULL), -EINVAL);
    CHECK_EQ(coir_sse_send(NULL, &event), -EINVAL);
    CHECK_EQ(coir_sse_send_text(NULL, "a"), -EINVAL);
    CHECK_EQ(coir_sse_comment(NULL, "a"), -EINVAL);
    CHECK(!coir_sse_last_id(NULL));
    coir_case waits[] = {coir_case_drain(NULL)};
    CHECK(coir_select(waits, 1) == 0 && waits[0].result == -EINVAL);
}
