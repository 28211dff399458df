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
 * 3. Deadlines are kept: who stalls in a head or in a body gets 408, and an idle connection its
 *    end, when the time has passed, not before it and not much later.
 * 4. Who is connected when a drain begins is not reset, a request that was there before has its
 *    answer, and the server has ended soon after drain_timeout. */
#include <coir/web.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "connections/fuzz.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { BUFFER_LEAST = 2048 /* of a socket: what is longer may still lie with the client */ };
enum { CLIENTS_MOST = 4, VISITS_MOST = 8, BATCHES_MOST = 6 };

struct visitor {
    int number;
    struct ci_random random;
    struct dialog dialog;
    coir_stream *stream;            /* NULL: it has closed it */
    coir_event changed;             /* by the writer, for the reader, and the other way */
    coir_time moved_at, drained_at; /* when the first drain since it connected began; 0: none did */
    coir_time sent_at[PIPELINE_MOST]; /* when the last byte of a request was taken */
    coir_time answered_at;            /* when the last answer before this one was complete; or 0 */
    size_t read_max;
    int reads_slowly, error; /* of the connection */
    bool strict;             /* nothing may go wrong from its begin on */
    char bytes[16384];
};

static struct chaos chaos;
static struct {
    coir_sim *sim;
    struct visitor visitors[CLIENTS_MOST];
    int clients, left;
    coir_link link;
    coir_serve_http_options options;
    coir_time patience;
    bool violent;

    coir_handle server; /* its task, and what becomes of it */
    coir_time serves_from, drains_from, rests_from;
    bool hunts;       /* the server asks for a moment to be drained at */
    coir_time moment; /* when a client will send; 0: none has said so */
    bool over;
} w;

static uint64_t sim_below(uint64_t bound)
{
    return coir_sim_random(w.sim) % bound;
}

/* ---- the server ---- */

static int serve_once(void *arg)
{
    (void)arg;
    coir_router *router;
    int rc = coir_router_new(&router);
    if (rc < 0)
        return rc;
    if ((rc = handlers_route(router)) == 0)
        rc = coir_serve_http_with(&w.options, router);
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

enum { LOOK = 50 }; /* ms: how often the server looks whether a client has named a moment */

/* For any time; or until a client sends, and then as long as what it sends may be under way. */
static void serve_for_a_while(bool drains)
{
    coir_time end = coir_in((coir_time)sim_below(8 * COIR_S));
    w.moment = 0;
    w.hunts = drains && sim_below(2);
    while (!w.over && !w.moment && (!drains || coir_now() < end))
        coir_sleep_for(LOOK * COIR_MS);
    w.hunts = false;
    if (w.moment)
        coir_sleep_until(w.moment + (coir_time)sim_below(
                                        (uint64_t)(2 * w.link.latency + w.link.jitter + COIR_MS)));
}

static void note_drain(void)
{
    w.drains_from = coir_now();
    for (int i = 0; i < w.clients; i++)
        if (!w.visitors[i].drained_at)
            w.visitors[i].drained_at = w.drains_from;
}

/* Serves for a while and is drained, again and again. */
static int serve_and_drain(void *arg)
{
    (void)arg;
    bool drains = sim_below(2);
    while (!w.over) {
        COIR_SCOPE(scope);
        coir_go_options options = COIR_GO_OPTIONS;
        options.handle = &w.server;
        w.serves_from = coir_now();
        MUST_BE(coir_go_with(scope, &options, serve_once, NULL), 0);
        serve_for_a_while(drains);
        note_drain();
        coir_cancel(&w.server);
        MUST_BE(coir_join(&w.server), -ECANCELED);
        w.rests_from = coir_now();
        MUST(w.rests_from - w.drains_from <= w.options.drain_timeout + 5 * COIR_S);
        coir_scope_close(scope);
        coir_handle_done(&w.server);
        coir_sleep_for((coir_time)sim_below(COIR_S));
    }
    return 0;
}

/* ---- a client: sending ---- */

/* Closes in the middle of what its other fiber does. */
static void leave(struct visitor *visitor, bool reset)
{
    coir_stream *stream = visitor->stream;
    visitor->stream = NULL;
    visitor->dialog.active = false;
    if (reset && stream)
        coir_tcp_set_option(stream, COIR_TCP_RESET_ON_CLOSE, 1);
    coir_close(stream);
    coir_event_set(&visitor->changed);
}

static int act(struct visitor *visitor, const struct action *action)
{
    switch (action->kind) {
    case PAUSE: return coir_sleep_for((coir_time)action->ms * COIR_MS);
    case WAIT_CONTINUE: break;
    case HALF_CLOSE: coir_shutdown_write(visitor->stream); break;
    case CLOSE: leave(visitor, false); break;
    case RESET: leave(visitor, true); break;
    }
    return 0;
}

/* Names the moment at which it will send, so early that the server has seen it by then: hosts share
 * memory here, but none may call into another's runtime. */
static int name_moment(struct visitor *visitor)
{
    w.hunts = false;
    w.moment = coir_in(2 * LOOK * COIR_MS);
    int rc = coir_sleep_until(w.moment);
    return visitor->stream ? rc : -ECANCELED;
}

static int send_piece(struct visitor *visitor, const char *bytes, size_t len)
{
    struct dialog *dialog = &visitor->dialog;
    if (w.hunts && one_in(&visitor->random, 8) && name_moment(visitor) < 0)
        return -ECANCELED;
    ssize_t n = coir_write(visitor->stream, bytes, len);
    if (!visitor->stream || n == -ECANCELED || n == -ETIME)
        return -ECANCELED;
    if (n == -EPIPE || n == -ECONNRESET) {
        dialog_cannot_send(dialog);
        return 0;
    }
    if (n < 0) { /* this machine's: the rest will never come */
        visitor->error = (int)n;
        leave(visitor, true);
        return 0;
    }
    visitor->moved_at = coir_now();
    dialog_sent(dialog, (size_t)n);
    for (int i = 0; i < dialog->batch.count; i++)
        if (!visitor->sent_at[i] && dialog->sent >= dialog->batch.requests[i].to)
            visitor->sent_at[i] = visitor->moved_at;
    return 0;
}

static int send_batch(void *arg)
{
    struct visitor *visitor = arg;
    struct dialog *dialog = &visitor->dialog;
    int rc = 0;
    while (rc == 0 && visitor->stream && dialog->active) {
        if (dialog->waiting >= 0) {
            rc = coir_event_wait(&visitor->changed);
            if (dialog->waiting >= 0)
                coir_event_reset(&visitor->changed);
            continue;
        }
        if (!dialog_can_send(dialog))
            break;
        const char *bytes;
        size_t len;
        const struct action *action = dialog_next(dialog, &bytes, &len);
        rc = action ? act(visitor, action) : send_piece(visitor, bytes, len);
    }
    coir_event_set(&visitor->changed);
    return 0;
}

/* ---- a client: receiving ---- */

/* A request that had arrived before the drain is answered, if nothing is before it. Over a
 * simulated kernel a server sees late what has arrived: calls take time, and its threads are woken
 * late. */
static void check_drain(const struct visitor *visitor)
{
    const struct dialog *dialog = &visitor->dialog;
    coir_time sent = dialog->active && !dialog->end_due ? visitor->sent_at[dialog->answering] : 0;
    coir_time under_way =
        10 * COIR_MS + w.link.latency + w.link.jitter + (w.link.loss > 0 ? 200 * COIR_MS : 0);
    coir_time turn = sent > visitor->answered_at ? sent : visitor->answered_at;
    bool sure = sent && turn + under_way < visitor->drained_at && !w.link.bandwidth && !w.violent &&
                dialog->batch.len <= BUFFER_LEAST;
    MUST(!sure || dialog->answering == dialog->batch.count ||
         dialog->batch.requests[dialog->answering].expect.loose);
}

static void hear_end(struct visitor *visitor, ssize_t n)
{
    struct dialog *dialog = &visitor->dialog;
    if (n < 0 && n != -ECONNRESET && n != -EPIPE)
        visitor->error = (int)n;
    if (dialog->draining && !dialog->answer.head_len)
        check_drain(visitor);
    dialog_end(dialog, n < 0);
    leave(visitor, false);
}

static void hear(struct visitor *visitor, const char *bytes, ssize_t n)
{
    struct dialog *dialog = &visitor->dialog;
    visitor->moved_at = coir_now();
    dialog->draining |= visitor->drained_at != 0;
    if (n <= 0) {
        hear_end(visitor, n);
        return;
    }
    int answering = dialog->answering;
    dialog_take(dialog, bytes, (size_t)n);
    if (dialog->answering > answering)
        visitor->answered_at = visitor->moved_at;
    if (dialog->half_close_due)
        coir_shutdown_write(visitor->stream);
    dialog->half_close_due = false;
    coir_event_set(&visitor->changed);
    if (dialog->active && dialog->batch.reset_after &&
        dialog->received >= dialog->batch.reset_after)
        leave(visitor, true);
}

/* Reads, until something else has changed: -EAGAIN. A read that has got something has got it,
 * though the event may have been first. */
static ssize_t read_or_change(struct visitor *visitor, char *bytes, size_t len)
{
    coir_io_op read;
    coir_wait_op change;
    coir_branch branches[] = {COIR_BRANCH(coir_read_op(&read, visitor->stream, bytes, len)),
                              COIR_BRANCH(coir_event_wait_op(&change, &visitor->changed))};
    int rc = coir_any(branches, 2);
    if (!visitor->stream || rc < 0)
        return visitor->stream ? rc : -EAGAIN;
    bool done = coir_branch_is_complete(&branches[0]) && read.future.result != -ECANCELED;
    return done ? read.future.result : -EAGAIN; /* a loser may be told late that it was cancelled */
}

/* A socket may be reported readable and have nothing: -EAGAIN, and the event is looked at again. */
static ssize_t select_and_read(struct visitor *visitor, char *bytes, size_t len)
{
    coir_case cases[] = {coir_case_stream(visitor->stream, COIR_READ),
                         coir_case_event(&visitor->changed)};
    int rc = coir_select(cases, 2);
    if (!visitor->stream || rc != 0)
        return rc < 0 && visitor->stream ? rc : -EAGAIN;
    return cases[0].result < 0 ? cases[0].result : coir_try_read(visitor->stream, bytes, len);
}

static void look_for_silence(struct visitor *visitor)
{
    if (coir_now() - visitor->moved_at < w.patience)
        return;
    if (visitor->strict) {
        dialog_fail(&visitor->dialog, "silent: %s", dialog_due(&visitor->dialog));
    } else {
        visitor->error = -ETIME;
        leave(visitor, true);
    }
}

static void hear_batch(struct visitor *visitor)
{
    struct dialog *dialog = &visitor->dialog;
    while (visitor->stream && dialog->active && !*dialog->failure) {
        char *bytes = visitor->bytes;
        ssize_t n;
        {
            COIR_DEADLINE(coir_in(w.patience));
            n = one_in(&visitor->random, 2) ? read_or_change(visitor, bytes, visitor->read_max)
                                            : select_and_read(visitor, bytes, visitor->read_max);
        }
        if (!visitor->stream)
            return;
        if (dialog->waiting < 0)
            coir_event_reset(&visitor->changed);
        if (n == -ETIME)
            look_for_silence(visitor);
        else if (n != -EAGAIN)
            hear(visitor, bytes, n);
        if (visitor->reads_slowly && visitor->reads_slowly--)
            coir_sleep_for((coir_time)(1 + below(&visitor->random, 20)) * COIR_MS);
    }
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
    visitor->strict = !w.violent || chaos.over;
    visitor->drained_at = w.drains_from > w.serves_from ? w.drains_from : 0;
    int rc = coir_tcp_connect("server:80", &visitor->stream);
    visitor->moved_at = coir_now();
    dialog_connected(&visitor->dialog);
    visitor->dialog.draining =
        visitor->drained_at || !visitor->strict; /* without memory a server ends */
    if (rc == 0)
        return 0;
    visitor->stream = NULL;
    bool served = w.serves_from && w.serves_from < begin && w.drains_from < w.serves_from;
    MUST(w.violent || !served || w.link.no_answer > 0);
    return rc;
}

static void converse(struct visitor *visitor)
{
    COIR_SCOPE(scope);
    dialog_begin(&visitor->dialog);
    visitor->moved_at = coir_now();
    visitor->answered_at = 0;
    memset(visitor->sent_at, 0, sizeof visitor->sent_at);
    coir_event_reset(&visitor->changed);
    int rc = coir_go(scope, send_batch, visitor);
    if (rc < 0) { /* no memory */
        visitor->error = rc;
        leave(visitor, true);
        return;
    }
    if (one_in(&visitor->random, 4))
        coir_sleep_for((coir_time)(1 + below(&visitor->random, 30)) * COIR_MS);
    hear_batch(visitor);
    coir_scope_cancel(scope);
    coir_scope_wait(scope);
}

/* Reads until the end: the status of the answer that came before it, or 0; -ETIME: no end. */
static int read_to_end(struct visitor *visitor)
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

static coir_time timeout_after(size_t sent, size_t head)
{
    return !sent         ? w.options.idle_timeout
           : sent < head ? w.options.header_timeout
                         : w.options.body_timeout;
}

/* Stops in the middle of a request, or before it, and waits for what the server says. */
static int stall(struct visitor *visitor)
{
    static const char head[] = "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n",
                      request[] =
                          "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n12345678";
    size_t sent = below(&visitor->random, sizeof request);
    coir_time begin = coir_now(), limit = timeout_after(sent, sizeof head - 1);
    int rc = coir_write_all(visitor->stream, request, sent);
    int status = rc < 0 ? rc : read_to_end(visitor);
    coir_time took = coir_now() - begin;
    bool drained = visitor->dialog.draining || visitor->drained_at;
    coir_close(visitor->stream);
    visitor->stream = NULL;
    if (!visitor->strict || drained)
        return rc;
    MUST_BE(status, sent ? 408 : 0);
    coir_time early =
        sent ? 0 : w.link.latency + w.link.jitter + COIR_S; /* the server begins to wait first */
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

/* What violence explains: an end, or a server that could not. A wrong answer it does not. */
static bool explained(const struct visitor *visitor)
{
    const struct dialog *dialog = &visitor->dialog;
    bool ended = !visitor->stream, unable = dialog->answer.status >= 500;
    return !visitor->strict && (ended || unable || dialog->answer.status == 408);
}

static int visit_as(struct visitor *visitor)
{
    struct dialog *dialog = &visitor->dialog;
    int rc = connect_it(visitor);
    if (rc < 0)
        return rc;
    choose_reading(visitor);
    if (one_in(&visitor->random, 10))
        return stall(visitor);
    visitor->error = 0;
    *dialog->failure = '\0';
    for (size_t i = 1 + below(&visitor->random, BATCHES_MOST); i && visitor->stream; i--) {
        converse(visitor);
        if (*dialog->failure && !explained(visitor)) {
            report(visitor);
            MUST(false);
        }
        if (*dialog->failure || visitor->error)
            break;
        if (one_in(&visitor->random, 3)) /* shorter than idle_timeout */
            coir_sleep_for((coir_time)below(&visitor->random, (size_t)w.options.idle_timeout / 2));
    }
    bool failed = *dialog->failure;
    if (visitor->stream)
        leave(visitor, one_in(&visitor->random, 3));
    return visitor->error ? visitor->error : failed ? -ECONNRESET : 0;
}

static int visit(int number)
{
    struct visitor *visitor = &w.visitors[number];
    char *bytes = visitor->dialog.batch.bytes;
    size_t capacity = visitor->dialog.batch.capacity;
    *visitor = (struct visitor){.number = number, .random.state = coir_sim_random(w.sim)};
    visitor->dialog.random = &visitor->random;
    visitor->dialog.batch.bytes = bytes;
    visitor->dialog.batch.capacity = capacity;
    return visit_as(visitor);
}

static int be_a_client(void *arg)
{
    int number = (int)((struct visitor *)arg - w.visitors);
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
        for (int i = 0; i < w.clients; i++)
            MUST_BE(coir_go(scope, be_a_client, &w.visitors[i]), 0);
        MUST_BE(coir_scope_wait(scope), 0);
    }
    w.over = true;
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
    w.link = (coir_link){
        .latency = times[sim_below(5)],
        .jitter = times[sim_below(5)],
        .bandwidth = sim_below(4) ? 0 : 300000 + sim_below(2000000),
        .loss = some(0.1),
        .short_io = some(0.6),
        .no_answer = some(0.2),
    };
    coir_sim_link(w.sim, NULL, NULL, w.link);
    coir_sim_faults(w.sim, NULL, (coir_faults){.late = some(0.5)});
    w.patience = w.link.bandwidth ? 60 * COIR_S : 6 * COIR_S;
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
    w.options = (coir_serve_http_options)COIR_SERVE_HTTP_OPTIONS;
    w.options.address = "0.0.0.0:80";
    w.options.line_max = limits.line_max;
    w.options.head_max = limits.head_max;
    w.options.body_max = limits.body_max;
    w.options.header_timeout = (coir_time)(5 + sim_below(10)) * COIR_S;
    w.options.body_timeout = (coir_time)(5 + sim_below(10)) * COIR_S;
    w.options.idle_timeout = (coir_time)(2 + sim_below(60)) * COIR_S;
    w.options.drain_timeout = 10 * COIR_S;
}

int scenario(coir_sim *sim)
{
    struct visitor *visitors = w.visitors;
    for (int i = 0; i < CLIENTS_MOST; i++)
        free(visitors[i].dialog.batch.bytes);
    memset(&w, 0, sizeof w);
    w.sim = sim;
    w.clients = 1 + (int)sim_below(CLIENTS_MOST);
    w.violent = sim_below(4) == 0;
    MUST_BE(chaos_configure(sim), 0);
    draw_limits();
    draw_world();
    if (w.violent) {
        w.patience = 60 * COIR_S;
        chaos = (struct chaos){.restart = restart};
        return chaos_run(&chaos, sim, visit, w.clients);
    }
    if (!coir_sim_host(sim, "server", serve_and_drain, NULL))
        return -ENOMEM;
    return coir_sim_host_main(sim, "clients", be_everybody, NULL);
}
