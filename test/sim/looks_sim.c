/* The pages by which a person looks into a server (coir/debug.h), while it runs: clients on its own
 * host ask for the page, the metrics, their stream of events, the tasks and a trace, several at a
 * time, and leave in the middle; others ask by the host's address. Only over the simulated kernel,
 * where workers are halted for a dump; a dump is of the whole process, so there is one host.
 *
 * What must hold:
 * 1. Each request has its answer soon, with the right status: 403 for those who came by the
 *    host's address, for names that are no number and pages of others, but not for the metrics of
 * coir_route_metrics; 409 for a trace only while another one is made.
 * 2. Metrics and events are whole, and no counter of them goes back.
 * 3. The tasks that sleep all the time are in each dump, once, and in the text. The process that
 * it names is the simulated one: a real number would make dumps of one seed differ in length.
 * 4. A trace is whole.
 * 5. A server that drains ends soon, whoever follows its events.
 * 6. A connection that is idle for long is in each dump as a task at rest; the drain closes it. */
#include <coir.h>
#include <coir/debug.h>
#include <coir/sim.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { LOOKERS = 3, LOOKS_MOST = 5, SLEEPERS = 4, ROOM = 1 << 18 };
static const coir_time soon = 5 * COIR_S;
static const char page[] = "<p>a page of the program's";

static struct {
    coir_listener *listener;
    bool drains;
    coir_handle serving;
    coir_event over; /* for those who sleep */
    int tracing, traced;
    bool has_rest;            /* a connection has been idle for long */
    double requests[LOOKERS]; /* that each has seen counted */
} w;

static char answers[LOOKERS][ROOM]; /* not a part of w, which is cleared for each seed */

struct looker {
    int number;
    const char *address;
    bool is_here;
};

static coir_time moment(void)
{
    return (coir_time)below(20 * COIR_MS);
}

/* ---- asking ---- */

/* Until the end of the answer, or `enough` bytes of it. Returns the status; *ret_body is what
 * follows the head. */
static int ask(const struct looker *looker, const char *request, const char *headers, size_t enough,
               char **ret_body)
{
    char text[500], *answer = answers[looker->number];
    coir_stream *stream;
    size_t len = 0;
    ssize_t n = 1;
    int status = 0;
    COIR_DEADLINE(coir_in(soon));
    MUST_BE(coir_tcp_connect(looker->address, &stream), 0);
    snprintf(text, sizeof text, "%s HTTP/1.1\r\n%sConnection: close\r\n\r\n", request, headers);
    MUST_BE(coir_write_all(stream, text, strlen(text)), 0);
    while (len < enough && (n = coir_read(stream, answer + len, ROOM - 1 - len)) > 0)
        len += (size_t)n;
    MUST(n >= 0);
    answer[len] = '\0';
    coir_close(stream);
    MUST_BE(sscanf(answer, "HTTP/1.1 %d", &status), 1);
    MUST((*ret_body = strstr(answer, "\r\n\r\n")));
    *ret_body += 4;
    return status;
}

static const char *draw_host(bool *ret_is_number)
{
    static const char *const hosts[] = {"Host: 127.0.0.1:80\r\n", "Host: localhost\r\n",
                                        "Host: [::1]\r\n", "Host: elsewhere.example\r\n"};
    uint64_t which = below(4);
    *ret_is_number = which < 3;
    return hosts[which];
}

/* ---- looking ---- */

/* Since the last look of the same looker. */
static void check_metrics(const struct looker *looker, const char *text)
{
    const char *counted = strstr(text, "\ncoir_http_requests_total ");
    MUST(counted && strstr(text, "coir_tasks_live"));
    double requests = strtod(counted + strlen("\ncoir_http_requests_total "), NULL);
    MUST(requests > w.requests[looker->number]);
    w.requests[looker->number] = requests;
}

static void look_at_page(const struct looker *looker, const char *host, bool may)
{
    char *body;
    MUST_BE(ask(looker, "GET /debug/", host, ROOM - 1, &body), may ? 200 : 403);
    MUST(!may || strcmp(body, page) == 0);
}

static void look_at_metrics(const struct looker *looker, const char *host, bool may)
{
    char *body;
    bool to_all = below(2);
    int status = ask(looker, to_all ? "GET /metrics" : "GET /debug/metrics", host, ROOM - 1, &body);
    MUST_BE(status, to_all || may ? 200 : 403);
    if (status == 200) {
        MUST(body[0] && body[strlen(body) - 1] == '\n');
        check_metrics(looker, body);
    }
}

/* Some of them, or until the server drains. */
static void look_at_events(const struct looker *looker, const char *host, bool may)
{
    char *body;
    bool all = !may || w.drains;
    int status =
        ask(looker, "GET /debug/events", host, all ? ROOM - 1 : 1000 + below(20000), &body);
    MUST_BE(status, may ? 200 : 403);
    if (may && all)
        MUST(strstr(body, "\ndata: coir_http_requests_total ") &&
             strcmp(body + strlen(body) - 5, "0\r\n\r\n") == 0);
}

static void look_at_tasks(const struct looker *looker, const char *host, bool may)
{
    char *body;
    bool as_text = below(2);
    const char *at_rest = as_text ? "rest: they wait without a record" : "\"resting\"";
    int status = ask(looker, as_text ? "GET /debug/tasks?format=text" : "GET /debug/tasks", host,
                     ROOM - 1, &body);
    MUST_BE(status, may ? 200 : 403);
    MUST(!may || strstr(body, as_text ? ", process 1001: " : "\"processId\":1001,"));
    MUST(!may || (strstr(body, at_rest) != NULL) == w.has_rest); /* 6 */
    for (int i = 0; may && i < SLEEPERS; i++) {
        char name[30];
        snprintf(name, sizeof name, as_text ? "sleeper %d" : "\"sleeper %d\"", i);
        const char *found = strstr(body, name);
        MUST(found && !strstr(found + 1, name));
    }
}

static void look_at_trace(const struct looker *looker, const char *host, bool may)
{
    static const char *const asked[] = {"POST /debug/trace?ms=1", "POST /debug/trace?ms=30",
                                        "POST /debug/trace?ms=0"};
    char *body, headers[200];
    uint64_t which = below(3);
    bool foreign = below(5) == 0, others = w.tracing > 0;
    int before = ++w.traced;
    snprintf(headers, sizeof headers, "%s%s", host,
             foreign ? "Origin: http://elsewhere.example\r\n" : "");
    w.tracing++;
    int status = ask(looker, asked[which], headers, ROOM - 1, &body);
    w.tracing--;
    if (!may || foreign)
        MUST_BE(status, 403);
    else if (which == 2)
        MUST_BE(status, 400);
    else
        MUST(status == 200 || (status == 409 && (others || w.traced > before)));
    if (status == 200) {
        MUST(strncmp(body, "{\"displayTimeUnit\":\"ns\"", 23) == 0);
        MUST(strcmp(body + strlen(body) - 4, "\n]}\n") == 0);
    }
}

static int look(void *arg)
{
    static void (*const looks[])(const struct looker *, const char *, bool) = {
        look_at_page, look_at_metrics, look_at_events, look_at_tasks, look_at_trace};
    const struct looker *looker = arg;
    for (uint64_t count = 1 + below(LOOKS_MOST); count; count--) {
        bool is_number;
        const char *host = draw_host(&is_number);
        looks[below(5)](looker, host, looker->is_here && is_number);
        MUST_BE(coir_sleep_for(moment()), 0);
    }
    return 0;
}

/* ---- the server's host ---- */

static int be_asleep(void *arg)
{
    (void)arg;
    return coir_event_wait(&w.over);
}

static int serve(void *arg)
{
    coir_router *router = arg;
    coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
    options.listener = w.listener;
    int rc = coir_serve_http_with(&options, router);
    MUST(rc == 0 || rc == -ECANCELED);
    return 0;
}

/* Asks once, and is silent until the server closes the connection. */
static int be_idle(void *arg)
{
    static const char request[] = "GET /debug/ HTTP/1.1\r\nHost: localhost\r\n\r\n";
    char answer[2000];
    coir_stream *stream;
    size_t len = 0;
    ssize_t n;
    (void)arg;
    MUST_BE(coir_tcp_connect("127.0.0.1:80", &stream), 0);
    MUST_BE(coir_write_all(stream, request, sizeof request - 1), 0);
    while ((n = coir_read(stream, answer + len, sizeof answer - 1 - len)) > 0) {
        len += (size_t)n;
        answer[len] = '\0';
    }
    MUST_BE(n, 0);
    MUST(w.drains && strstr(answer, page)); /* 6 */
    coir_close(stream);
    return 0;
}

static void look_all(void)
{
    static struct looker lookers[LOOKERS];
    COIR_SCOPE(scope);
    for (int i = 0; i < LOOKERS; i++) {
        bool is_here = below(4) > 0;
        lookers[i] = (struct looker){i, is_here ? "127.0.0.1:80" : "host:80", is_here};
        MUST_BE(coir_go_anywhere(scope, look, &lookers[i]), 0);
    }
    MUST_BE(coir_scope_wait(scope), 0);
}

static int drain_soon(void *arg)
{
    (void)arg;
    MUST_BE(coir_sleep_for(20 * COIR_MS + 50 * moment()), 0);
    coir_cancel(&w.serving);
    return 0;
}

static void follow_to_the_end(void)
{
    static const struct looker last = {0, "127.0.0.1:80", true};
    COIR_SCOPE(scope);
    w.drains = true;
    MUST_BE(coir_go(scope, drain_soon, NULL), 0);
    look_at_events(&last, "Host: localhost\r\n", true);
    MUST_BE(coir_scope_wait(scope), 0);
    COIR_DEADLINE(coir_in(soon));
    MUST_BE(coir_join(&w.serving), 0); /* 5 */
}

static void sleep_beside(coir_scope *scope)
{
    static char names[SLEEPERS][20];
    coir_go_options options = COIR_GO_OPTIONS;
    options.place = COIR_ANYWHERE;
    for (int i = 0; i < SLEEPERS; i++) {
        snprintf(names[i], sizeof names[i], "sleeper %d", i);
        options.name = names[i];
        MUST_BE(coir_go_with(scope, &options, be_asleep, NULL), 0);
    }
}

static int play(void *arg)
{
    coir_router *router;
    coir_go_options options = COIR_GO_OPTIONS;
    (void)arg;
    MUST_BE(coir_router_new(&router), 0);
    MUST_BE(coir_route_debug(router, "/debug/", page, true), 0);
    MUST_BE(coir_route_metrics(router, "/metrics"), 0);
    MUST_BE(coir_tcp_listen("0.0.0.0:80", &w.listener), 0);
    COIR_SCOPE(scope);
    options.handle = &w.serving;
    MUST_BE(coir_go_with(scope, &options, serve, router), 0);
    sleep_beside(scope);
    if (below(2)) {
        MUST_BE(coir_go(scope, be_idle, NULL), 0);
        MUST_BE(coir_sleep_for(4 * COIR_S), 0);
        w.has_rest = true;
    }
    look_all();
    follow_to_the_end();
    coir_event_set(&w.over);
    MUST_BE(coir_scope_wait(scope), 0);
    coir_listener_close(w.listener);
    coir_router_free(router);
    return 0;
}

int scenario(coir_sim *sim)
{
    static const coir_event unset = COIR_EVENT_INIT;
    if (!posix_has_kernel())
        return -ENOTSUP;
    memset(&w, 0, sizeof w);
    w.over = unset;
    coir_sim_link(sim, NULL, NULL,
                  (coir_link){.latency = (coir_time)below(2000) * COIR_US, .short_io = some(0.7)});
    coir_sim_faults(sim, NULL, (coir_faults){.late = some(0.3)});
    return coir_sim_host_main(sim, "host", play, NULL);
}
