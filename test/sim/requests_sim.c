/* Clients of every kind and an HTTP server: the model of requests, answers and connections is that
 * of the fuzzer (test/connections), the network and the clock are simulated. Requests of every
 * framing, valid and broken, at each limit and one beside, pipelined, in pieces, with pauses;
 * uploads around the size of every buffer; HEAD; 100-continue; half-closes, closes and resets at
 * any place; slow readers; clients that stall; a server that is drained and serves again.
 *
 * What must hold:
 * 1. Every request has exactly one outcome, and it is the one that the model says, byte by byte. In
 *    seeds in which connections or machines fail, an answer may be missing or a 5xx; it is never
 *    wrong, and when the faults are over the above holds again.
 * 2. No connection falls silent: while something is due, something moves within `patience` of
 *    virtual time.
 * 3. Deadlines are kept: who stalls in a head (behind empty lines, too, which begin none) or in a
 *    body, or sends a body too slowly, gets 408, and an idle connection, or one whose client sends
 *    on, its end, when the time has passed, not before it and not much later. Who takes an answer
 *    slowly, or not at all, is not dropped before write_timeout, and the latter not much later.
 * 4. Who is connected when a drain begins is not reset, a request that was there before has its
 *    answer, and the server has ended soon after drain_timeout. */
#include "requests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/must.h"
#include "sim/scenario.h"

enum { ANSWERS_MOST = 80 }; /* of 4000 bytes, that the sockets have room for */

struct requests requests;

/* ---- the server ---- */

static int serve_once(void *arg)
{
    (void)arg;
    coir_router *router;
    int rc = coir_router_new(&router);
    if (rc < 0)
        return rc;
    if ((rc = handlers_route(router)) == 0)
        rc = coir_serve_http_with(&requests.options, router);
    coir_router_free(router);
    return rc;
}

static int serve_in_violence(void *arg)
{
    int rc;
    do
        rc = chaos_explains(serve_once(arg));
    while (rc != -ECANCELED && coir_sleep_for(100 * COIR_MS) == 0);
    return rc;
}

static coir_host *restart(struct chaos *of)
{
    return coir_sim_host(of->sim, "server", serve_in_violence, NULL);
}

/* For any time; or until a client sends, and then as long as what it sends may be under way. */
static void serve_for_a_while(bool drains)
{
    coir_time end = coir_in((coir_time)sim_below(8 * COIR_S));
    requests.moment = 0;
    requests.drains = drains;
    requests.hunts = drains && sim_below(2);
    while (!requests.over && !requests.moment && (!drains || coir_now() < end))
        coir_sleep_for(LOOK * COIR_MS);
    requests.hunts = false;
    if (requests.moment)
        coir_sleep_until(requests.moment +
                         (coir_time)sim_below((uint64_t)(2 * requests.link.latency +
                                                         requests.link.jitter + COIR_MS)));
}

static void note_drain(void)
{
    requests.drains_from = coir_now();
    for (int i = 0; i < requests.clients; i++)
        if (!requests.visitors[i].drained_at)
            requests.visitors[i].drained_at = requests.drains_from;
}

/* Serves for a while and is drained, again and again. */
static int serve_and_drain(void *arg)
{
    (void)arg;
    bool drains = sim_below(2);
    while (!requests.over) {
        COIR_SCOPE(scope);
        coir_go_options options = COIR_GO_OPTIONS;
        options.handle = &requests.server;
        requests.serves_from = coir_now();
        MUST_BE(coir_go_with(scope, &options, serve_once, NULL), 0);
        serve_for_a_while(drains);
        note_drain();
        coir_cancel(&requests.server);
        MUST_BE(coir_join(&requests.server), -ECANCELED);
        requests.rests_from = coir_now();
        MUST(requests.rests_from - requests.drains_from <=
             requests.options.drain_timeout + 5 * COIR_S);
        coir_scope_close(scope);
        coir_handle_done(&requests.server);
        coir_sleep_for((coir_time)sim_below(COIR_S));
    }
    return 0;
}

/* ---- a client: its visits ---- */

static void choose_reading(struct visitor *visitor)
{
    static const size_t reads[] = {100, 997, 4096, 16384};
    struct ci_random *random = &visitor->random;
    visitor->read_max = one_in(random, 3) ? reads[below(random, 4)] : 16384;
    visitor->reads_slowly = one_in(random, 4) ? (int)(1 + below(random, 10)) : 0;
}

/* No connection may be refused or lost while the server serves. */
static int connect_it(struct visitor *visitor)
{
    coir_time begin = coir_now();
    visitor->strict = !requests.violent || requests.chaos.over;
    visitor->drained_at = requests.drains_from > requests.serves_from ? requests.drains_from : 0;
    int rc = coir_tcp_connect("server:80", &visitor->stream);
    visitor->moved_at = coir_now();
    dialog_connected(&visitor->dialog);
    visitor->dialog.draining =
        visitor->drained_at || !visitor->strict; /* without memory a server ends */
    if (rc == 0)
        return 0;
    visitor->stream = NULL;
    bool served = requests.serves_from && requests.serves_from < begin &&
                  requests.drains_from < requests.serves_from;
    MUST(requests.violent || !served || requests.link.no_answer > 0);
    return rc;
}

/* Reads until the end: the status of the answer that came before it, or 0; -ETIME: no end. */
static int read_to_end(const struct visitor *visitor)
{
    char bytes[1000] = "", rest[1000];
    size_t len = 0;
    ssize_t n;
    int status = 0;
    COIR_DEADLINE(coir_in(100 * COIR_S));
    while ((n = coir_read(visitor->stream, len < 900 ? bytes + len : rest, 100)) > 0)
        len += (size_t)n;
    if (n < 0)
        return (int)n;
    sscanf(bytes, "HTTP/1.1 %d ", &status);
    return status;
}

/* Closes its connection. False: what it saw may be the work of violence, or of a drain. */
static bool end_strictly(struct visitor *visitor)
{
    bool drained = visitor->dialog.draining || visitor->drained_at;
    coir_close(visitor->stream);
    visitor->stream = NULL;
    return visitor->strict && !drained;
}

static coir_time timeout_after(size_t sent, size_t head)
{
    return !sent         ? requests.options.idle_timeout
           : sent < head ? requests.options.header_timeout
                         : requests.options.body_timeout;
}

/* Empty lines, the last of which may lack its LF, and a pause that is shorter than idle_timeout:
 * how much of them was sent, or an error. They are no request, and move no deadline. */
static int send_empty_lines(struct visitor *visitor)
{
    int len = (int)below(&visitor->random, 4);
    if (one_in(&visitor->random, 2))
        return 0;
    int rc = coir_write_all(visitor->stream, "\r\n\r", (size_t)len);
    coir_time pause = (coir_time)below(&visitor->random, (size_t)requests.options.idle_timeout / 2);
    rc = rc < 0 ? rc : coir_sleep_for(pause);
    return rc < 0 ? rc : len;
}

/* Stops in the middle of a request, or before it, and waits for what the server says. */
static int stall(struct visitor *visitor)
{
    static const char head[] = "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n",
                      request[] =
                          "\nPOST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n12345678";
    size_t sent = below(&visitor->random, sizeof request - 1);
    coir_time begin = coir_now(), limit = timeout_after(sent, sizeof head - 1);
    int empty = send_empty_lines(visitor), lf = empty & 1; /* behind a CR alone */
    begin = sent ? coir_now() : begin; /* the idle time, else, begins with the connection */
    int rc = empty < 0 ? empty : coir_write_all(visitor->stream, request + !lf, sent + (size_t)lf);
    int status = rc < 0 ? rc : read_to_end(visitor);
    coir_time took = coir_now() - begin;
    if (!end_strictly(visitor))
        return rc;
    MUST_BE(status, sent ? 408 : 0);
    coir_time early = sent ? 0
                           : requests.link.latency + requests.link.jitter +
                                 COIR_S; /* the server begins to wait first */
    MUST(took >= limit - early);
    MUST(took <= limit + 3 * COIR_S);
    return 0;
}

static void report(const struct visitor *visitor)
{
    const struct dialog *dialog = &visitor->dialog;
    fprintf(stderr, "client %d: %s (sent %zu of %zu, received %zu, answered %d of %d)\n",
            visitor->number, dialog->failure, dialog->sent, dialog->batch.len, dialog->received,
            dialog->answering, dialog->batch.count);
    for (int i = 0; i < dialog->batch.count; i++) {
        const struct request *request = &dialog->batch.requests[i];
        size_t len = request->head_end - request->from;
        fprintf(stderr, "  request %d (%zu, %zu, %zu), to be answered %d: %.*s\n", i, request->from,
                request->head_end, request->to, request->expect.status, len < 300 ? (int)len : 300,
                dialog->batch.bytes + request->from);
    }
    fprintf(stderr, "  what came of the answer: %.*s\n", (int)dialog->answer.head_len,
            dialog->answer.head);
}

/* Sends a body of 100 bytes, one a second, until the server says something: its status. */
static int send_slowly(struct visitor *visitor)
{
    static const char head[] = "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n";
    int rc = coir_write_all(visitor->stream, head, sizeof head - 1);
    for (int i = 0; rc == 0 && i < 100; i++) {
        COIR_DEADLINE(coir_in(COIR_S));
        rc = coir_write_all(visitor->stream, "x", 1);
        if (rc == 0 && coir_stream_wait(visitor->stream, COIR_READ) >= 0)
            break;
    }
    return rc < 0 ? rc : read_to_end(visitor);
}

/* Sends on, although it has its answer: until the server has closed. */
static int send_on(const struct visitor *visitor)
{
    int rc = 0;
    COIR_DEADLINE(coir_in(100 * COIR_S));
    while (rc == 0 && (rc = coir_write_all(visitor->stream, "x", 1)) == 0)
        rc = coir_sleep_for(COIR_S);
    return rc;
}

/* Always sends something, but too little. */
static int trickle(struct visitor *visitor)
{
    const coir_serve_http_options *options = &requests.options;
    coir_time begin = coir_now(), limit = options->body_total_timeout;
    if (options->rate_min != COIR_UNLIMITED && options->body_timeout < limit)
        limit = options->body_timeout;
    int status = send_slowly(visitor);
    coir_time told = coir_now();
    int rc = status < 0 ? status : send_on(visitor);
    coir_time ended = coir_now();
    if (!end_strictly(visitor))
        return rc;
    MUST_BE(status, 408);
    MUST(told - begin >= limit - COIR_S && told - begin <= limit + 3 * COIR_S);
    MUST(rc != -ETIME && ended - told <= options->linger_timeout + 5 * COIR_S);
    return 0;
}

/* Takes a long answer slowly, but never waits for long: it gets all of it. Over io_uring it may be
 * dropped, though not before write_timeout: where a thread of the kernel carries out a write, the
 * server does not see that some of it was sent. */
static int sip(struct visitor *visitor)
{
    static const char request[] = "GET /known/16000/0 HTTP/1.1\r\nHost: a\r\n\r\n";
    char bytes[1000];
    ssize_t n = 0;
    coir_time begin = coir_now();
    COIR_DEADLINE(coir_in(100 * COIR_S));
    int rc = coir_write_all(visitor->stream, request, sizeof request - 1);
    for (size_t got = 0, sip = 0; rc == 0 && got < 16000; got += (size_t)n, sip += (size_t)n) {
        if (sip >= sizeof bytes) {
            sip = 0;
            rc = coir_sleep_for(COIR_S);
        }
        if ((n = coir_read(visitor->stream, bytes, sizeof bytes - sip)) <= 0)
            rc = n < 0 ? (int)n : -COIR_EEND;
        n = n < 0 ? 0 : n;
    }
    bool may_drop = strcmp(scenario_driver, "io_uring") == 0 &&
                    coir_now() - begin >= requests.options.write_timeout;
    bool counts = end_strictly(visitor);
    MUST(rc == 0 || !counts || may_drop);
    return visitor->strict && may_drop ? 0 : rc;
}

/* Sends a body that nobody reads, and looks for the answer when all is sent: the server, which
 * closes, must not have reset the connection. */
static int send_in_vain(struct visitor *visitor)
{
    static const char head[] = "GET /known/10/0 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                               "Content-Length: 10\r\n\r\n0123456789";
    size_t sent = sizeof head - 11; /* none of the body */
    int rc = coir_write_all(visitor->stream, head, sent);
    for (; rc == 0 && sent < sizeof head - 1; sent++) {
        rc = coir_sleep_for((coir_time)below(&visitor->random, 200) * COIR_MS);
        rc = rc < 0 ? rc : coir_write_all(visitor->stream, head + sent, 1);
    }
    int status = rc < 0 ? rc : read_to_end(visitor);
    if (!end_strictly(visitor))
        return rc;
    MUST(status == 200 || status == 413);
    return 0;
}

/* Sends requests, one after the other, and reads no answer, until the server has dropped it. */
static int send_and_take_nothing(struct visitor *visitor)
{
    static const char request[] = "GET /known/4000/0 HTTP/1.1\r\nHost: a\r\n\r\n";
    int rc = 0;
    COIR_DEADLINE(coir_in(100 * COIR_S));
    for (int i = 0; rc == 0; i++) {
        rc = coir_write_all(visitor->stream, request, sizeof request - 1);
        size_t pause = i < ANSWERS_MOST ? 20 + below(&visitor->random, 80) : 1000;
        rc = rc < 0 ? rc : coir_sleep_for((coir_time)pause * COIR_MS);
    }
    return rc;
}

/* Before the server waits for it, the sockets take what they have room for. */
static int take_nothing(struct visitor *visitor)
{
    const coir_serve_http_options *options = &requests.options;
    coir_time begin = coir_now();
    int rc = send_and_take_nothing(visitor);
    coir_time took = coir_now() - begin;
    if (!end_strictly(visitor))
        return rc;
    MUST(took >= options->write_timeout);
    if (options->rate_min == COIR_UNLIMITED) /* else it is longer */
        MUST(rc != -ETIME && took <= options->write_timeout + 8 * COIR_S + requests.patience);
    return 0;
}

/* Sends more requests, in pieces, while its first one takes time and the server is drained: it has
 * the first answer whole, and then the end, not a reset. */
static int outstay(struct visitor *visitor)
{
    static const char more[] = "GET /n/1 HTTP/1.1\r\nHost: a\r\n\r\n";
    struct ci_random *random = &visitor->random;
    char request[64];
    int len = snprintf(request, sizeof request, "GET /late/%zu HTTP/1.1\r\nHost: a\r\n\r\n",
                       300 + below(random, 200));
    int rc = coir_write_all(visitor->stream, request, (size_t)len);
    coir_time arrived = coir_in(requests_under_way());
    if (requests.drains && !requests.moment)
        requests.moment = coir_in(300 * COIR_MS);
    for (size_t i = 1 + below(random, 8); rc == 0 && i; i--) {
        rc = coir_sleep_for((coir_time)below(random, 200) * COIR_MS);
        rc =
            rc < 0 ? rc : coir_write_all(visitor->stream, more, 1 + below(random, sizeof more - 1));
    }
    int status = rc < 0 ? rc : read_to_end(visitor);
    bool sure = !visitor->drained_at || arrived < visitor->drained_at;
    coir_close(visitor->stream);
    visitor->stream = NULL;
    if (!visitor->strict || !sure)
        return rc;
    MUST_BE(status, 200);
    return 0;
}

/* What violence explains: an end, or a server that could not. A wrong answer it does not. */
static bool explained(const struct visitor *visitor)
{
    const struct dialog *dialog = &visitor->dialog;
    bool ended = !visitor->stream, unable = dialog->answer.status >= 500;
    return !visitor->strict && (ended || unable || dialog->answer.status == 408);
}

static int be_slow(struct visitor *visitor)
{
    switch (below(&visitor->random, 10)) {
    case 0:
    case 1: return outstay(visitor);
    case 2:
    case 3:
    case 4: return take_nothing(visitor);
    case 5: return sip(visitor);
    case 6: return send_in_vain(visitor);
    }
    return limits.body_max >= 100 && one_in(&visitor->random, 3) ? trickle(visitor)
                                                                 : stall(visitor);
}

static int visit_as(struct visitor *visitor)
{
    struct dialog *dialog = &visitor->dialog;
    int rc = connect_it(visitor);
    if (rc < 0)
        return rc;
    choose_reading(visitor);
    if (one_in(&visitor->random, 8))
        return be_slow(visitor);
    visitor->error = 0;
    *dialog->failure = '\0';
    for (size_t i = 1 + below(&visitor->random, BATCHES_MOST); i && visitor->stream; i--) {
        requests_converse(visitor);
        if (*dialog->failure && !explained(visitor)) {
            report(visitor);
            MUST(false);
        }
        if (*dialog->failure || visitor->error)
            break;
        if (one_in(&visitor->random, 3)) /* shorter than idle_timeout */
            coir_sleep_for(
                (coir_time)below(&visitor->random, (size_t)requests.options.idle_timeout / 2));
    }
    bool failed = *dialog->failure;
    if (visitor->stream)
        requests_leave(visitor, one_in(&visitor->random, 3));
    return visitor->error ? visitor->error : failed ? -ECONNRESET : 0;
}

static int visit(int number)
{
    struct visitor *visitor = &requests.visitors[number];
    char *bytes = visitor->dialog.batch.bytes;
    size_t capacity = visitor->dialog.batch.capacity;
    *visitor = (struct visitor){.number = number, .random.state = coir_sim_random(requests.sim)};
    visitor->dialog.random = &visitor->random;
    visitor->dialog.batch.bytes = bytes;
    visitor->dialog.batch.capacity = capacity;
    return visit_as(visitor);
}

static int be_a_client(void *arg)
{
    int number = (int)((struct visitor *)arg - requests.visitors);
    coir_sleep_for((coir_time)sim_below(2 * COIR_S));
    for (uint64_t visits = 1 + sim_below(VISITS_MOST); visits; visits--) {
        visit(number);
        coir_sleep_for((coir_time)sim_below(sim_below(2) ? COIR_MS : 3 * COIR_S));
    }
    return 0;
}

static int be_everybody(void *arg)
{
    (void)arg;
    {
        COIR_SCOPE(scope);
        for (int i = 0; i < requests.clients; i++)
            MUST_BE(coir_go(scope, be_a_client, &requests.visitors[i]), 0);
        MUST_BE(coir_scope_wait(scope), 0);
    }
    requests.over = true;
    return 0;
}

/* ---- the world ---- */

static double some(double most)
{
    static const double parts[] = {0, 0, 0.1, 0.5, 1};
    return most * parts[sim_below(5)];
}

/* Slow and sparing, but nothing breaks. */
static void draw_world(void)
{
    static const coir_time times[] = {0, 0, 100 * COIR_US, COIR_MS, 20 * COIR_MS};
    requests.link = (coir_link){
        .latency = times[sim_below(5)],
        .jitter = times[sim_below(5)],
        .bandwidth = sim_below(4) ? 0 : 300000 + sim_below(2000000),
        .loss = some(0.1),
        .short_io = some(0.6),
        .no_answer = some(0.2),
    };
    coir_sim_link(requests.sim, NULL, NULL, requests.link);
    coir_sim_faults(requests.sim, NULL, (coir_faults){.late = some(0.5)});
    requests.patience = requests.link.bandwidth ? 60 * COIR_S : 6 * COIR_S;
}

static void draw_limits(void)
{
    static const size_t lines[] = {100, 700, 8000}, heads[] = {1000, 8192, 12288};
    static const size_t bodies[] = {16, 100, 8000, 8192, 20000, 70000};
    limits.line_max = lines[sim_below(3)];
    limits.head_max = heads[sim_below(3)];
    if (limits.head_max < limits.line_max + 1000)
        limits.head_max = limits.line_max + 1000;
    limits.body_max = bodies[sim_below(6)];
    limits.download_max = sim_below(8) ? 30000 : 300000;
    requests.options = (coir_serve_http_options)COIR_SERVE_HTTP_OPTIONS;
    requests.options.address = "0.0.0.0:80";
    requests.options.line_max = limits.line_max;
    requests.options.head_max = limits.head_max;
    requests.options.body_max = limits.body_max;
    requests.options.header_timeout = (coir_time)(5 + sim_below(10)) * COIR_S;
    requests.options.body_timeout = (coir_time)(5 + sim_below(10)) * COIR_S;
    requests.options.write_timeout = (coir_time)(5 + sim_below(10)) * COIR_S;
    requests.options.idle_timeout = (coir_time)(2 + sim_below(60)) * COIR_S;
    requests.options.drain_timeout = 10 * COIR_S;
    requests.options.body_total_timeout = 2 * requests.options.body_timeout;
    requests.options.rate_min = sim_below(2) ? COIR_UNLIMITED : 0;
    requests.options.linger_timeout = (coir_time)(5 + sim_below(10)) * COIR_S;
}

int scenario(coir_sim *sim)
{
    struct visitor *visitors = requests.visitors;
    for (int i = 0; i < CLIENTS_MOST; i++)
        free(visitors[i].dialog.batch.bytes);
    memset(&requests, 0, sizeof requests);
    requests.sim = sim;
    requests.clients = 1 + (int)sim_below(CLIENTS_MOST);
    requests.violent = sim_below(4) == 0;
    MUST_BE(chaos_configure(sim), 0);
    draw_limits();
    draw_world();
    if (requests.violent) {
        requests.patience = 60 * COIR_S;
        requests.chaos = (struct chaos){.restart = restart};
        return chaos_run(&requests.chaos, sim, visit, requests.clients);
    }
    if (!coir_sim_host(sim, "server", serve_and_drain, NULL))
        return -ENOMEM;
    return coir_sim_host_main(sim, "clients", be_everybody, NULL);
}
