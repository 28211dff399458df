/* A listener with a limit of connections, that is paused and resumed, from which the tasks of all
 * workers accept in every way: by calls that are given up, in a select, and where it is closed
 * while they wait. Clients come again and again, and hold their connections for a while.
 *
 * What must hold:
 * 1. No more connections than the limit are open.
 * 2. A visit is served once, by one task. It is closed unserved only by a listener that does so at
 *    its limit; no visit is refused while the listener is there.
 * 3. While it is paused nothing is accepted, but what was just being.
 * 4. What cannot be listened on is refused by the error that says why, and nothing is listened on.
 * 5. In the end every client has been served as often as it wanted, and every accept has ended.
 * 6. An accept ends when its listener is closed, whatever it does just then: it may have been
 *    waiting, or be about to wait for a listener that has been paused or resumed a moment ago. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { CLIENTS = 5, VISITS = 4, ACCEPTORS = 3, BRIEF_LISTENERS = 6, MOMENT = 60 * COIR_US };
static const coir_time patience = 100 * COIR_S, just = COIR_S; /* an accept may be under way */

static struct {
    coir_sim *sim;
    coir_host *server;
    coir_listener *listener;
    size_t limit, backlog; /* 0: none; the most there is */
    bool closes, listens, pauses;
    bool may_miss;         /* a connect may find no place in the backlog, or no answer */
    int open;              /* connections that the listener counts */
    int serving;           /* all of them */
    coir_time paused_from; /* 0: it is not paused */
    int clients_left;
    uint8_t served[CLIENTS][VISITS];
} w;

struct brief {
    coir_listener *listener;
    int begun; /* accepts */
};

static void rest(coir_time most)
{
    MUST_BE(coir_sleep_for((coir_time)below((uint64_t)most >> below(8))), 0);
}

/* ---- the server ---- */

/* Takes the number of a visit, says it back, and waits for the end. */
static int serve_one(coir_stream *stream)
{
    unsigned char number;
    ssize_t n = coir_read(stream, &number, 1);
    if (n != 1)
        return n < 0 ? (int)n : -COIR_EEND;
    MUST(number < CLIENTS * VISITS);
    MUST_BE(++w.served[number / VISITS][number % VISITS], 1);
    int rc = coir_write_all(stream, &number, 1);
    return rc < 0 ? rc : (int)coir_read(stream, &number, 1);
}

static int serve_elsewhere(void *arg)
{
    coir_stream *stream = arg;
    MUST_BE(serve_one(stream), 0);
    coir_close(stream);
    return 0;
}

/* Every other one is handed over to any worker: the listener counts it no more. */
static int serve(void *arg)
{
    coir_stream *stream = arg;
    if (below(2)) {
        COIR_SCOPE(scope);
        w.open--;
        MUST_BE(coir_stream_detach(stream), 0);
        MUST_BE(coir_go_anywhere(scope, serve_elsewhere, stream), 0);
        MUST_BE(coir_scope_wait(scope), 0);
    } else {
        MUST_BE(serve_one(stream), 0);
        w.open--;
        coir_close(stream);
    }
    w.serving--;
    return 0;
}

/* A deadline that is often too short. */
static int accept_somehow(coir_stream **ret_stream)
{
    coir_open_op op;
    COIR_DEADLINE(below(3) ? COIR_NEVER : coir_in((coir_time)below(below(2) ? COIR_MS : COIR_S)));
    switch (below(3)) {
    case 0: return coir_accept(w.listener, ret_stream);
    case 1: return (int)coir_await(coir_accept_op(&op, w.listener, ret_stream));
    default: {
        coir_case cases[] = {coir_case_accept(w.listener, ret_stream),
                             coir_case_after((coir_time)below(COIR_S))};
        int won = coir_select(cases, 2);
        return won < 0 ? won : won ? -ETIME : (int)cases[0].result;
    }
    }
}

/* No accept may begin any more. That is so, too, after one that was given up, or got its
 * connection, just before the listener was closed or the task was cancelled. */
static bool is_to_end(void)
{
    return !w.listens || coir_task_interrupted() == -ECANCELED;
}

static int accept_all(void *arg)
{
    coir_stream *stream;
    int rc;
    COIR_SCOPE(scope);
    do {
        if ((rc = accept_somehow(&stream)) < 0)
            continue;
        coir_time paused_from = w.paused_from;
        MUST(!paused_from || coir_now() < paused_from + just);
        MUST(++w.open <= (int)w.limit || !w.limit);
        w.serving++;
        MUST_BE(coir_go(scope, serve, stream), 0);
    } while ((rc == 0 || rc == -ETIME) && !is_to_end());
    MUST(rc == 0 || rc == -ETIME || rc == -ECANCELED);
    MUST(is_to_end());
    (void)arg;
    COIR_SHIELD;
    return coir_scope_wait(scope);
}

/* Pauses and resumes while clients are there. Where it does not, no resume wakes what waits for
 * a connection to end. */
static void run_listener(void)
{
    while (w.clients_left || w.serving) {
        rest(COIR_S);
        if (!w.pauses)
            continue;
        if (below(2))
            MUST_BE(coir_listener_resume(w.listener), 0);
        MUST_BE(coir_listener_pause(w.listener), 0);
        w.paused_from = coir_now();
        rest(3 * just);
        w.paused_from = 0;
        MUST_BE(coir_listener_resume(w.listener), 0);
    }
}

static void refuse_some(void)
{
    static const struct {
        const char *address;
        int error;
    } refused[] = {
        {"", -COIR_EADDRESS},   {"0.0.0.0:x", -COIR_EPORT}, {"[::1:80", -COIR_EHOST},
        {"unix:", -COIR_EPATH}, {"nobody:80", -COIR_ENAME},
    };
    coir_listener *listener = NULL;
    coir_listen_options options = COIR_LISTEN_OPTIONS;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (below(2))
            MUST_BE(coir_tcp_listen(refused[i].address, &listener), refused[i].error);
    options.unix_mode = 0600; /* of no file */
    MUST_BE(coir_tcp_listen_with("0.0.0.0:81", &options, &listener), -EINVAL);
    MUST(!listener);
}

static void refuse_what_is_in_use(void)
{
    coir_listener *listener = NULL;
    MUST_BE(coir_tcp_listen("0.0.0.0:80", &listener), -EADDRINUSE);
    MUST(!listener);
}

static void listen_here(void)
{
    coir_listen_options options = COIR_LISTEN_OPTIONS;
    char address[40];
    options.connections_max = w.limit ? w.limit : below(2) ? COIR_UNLIMITED : 0;
    options.at_limit = w.closes ? COIR_LIMIT_CLOSES : COIR_LIMIT_WAITS;
    options.backlog = w.backlog;
    MUST_BE(coir_tcp_listen_with(below(2) ? "0.0.0.0:80" : ":80", &options, &w.listener), 0);
    int len = coir_listener_local(w.listener, address, sizeof address);
    MUST(len > 3 && strcmp(address + len - 3, ":80") == 0);
    w.listens = true;
    if (below(4) == 0)
        refuse_what_is_in_use();
}

static int accept_nothing(void *arg)
{
    struct brief *brief = arg;
    coir_stream *stream;
    brief->begun++;
    MUST_BE(coir_accept(brief->listener, &stream), -ECANCELED);
    return 0;
}

static void pause_and_resume_quickly(coir_listener *listener)
{
    for (uint64_t i = 1 + below(4); i; i--) {
        int rc = below(3) ? coir_listener_pause(listener) : coir_listener_resume(listener);
        MUST_BE(rc, 0);
        MUST_BE(below(3) ? coir_sleep_for((coir_time)below((uint64_t)MOMENT >> below(6)))
                         : coir_yield(),
                0);
    }
}

/* Nobody connects to it. */
static void use_brief_listener(void)
{
    struct brief brief = {0};
    MUST_BE(coir_tcp_listen("0.0.0.0:81", &brief.listener), 0);
    COIR_SCOPE(scope);
    int acceptors = 1 + (int)below(ACCEPTORS);
    for (int i = 0; i < acceptors; i++)
        MUST_BE(coir_go(scope, accept_nothing, &brief), 0);
    while (brief.begun < acceptors)
        MUST_BE(coir_yield(), 0);
    pause_and_resume_quickly(brief.listener);
    coir_listener_close(brief.listener);
    COIR_DEADLINE(coir_in(patience));
    MUST_BE(coir_scope_wait(scope), 0); /* 6 */
}

/* The accepts of other workers end before it is closed; those of this one by that. */
static int run_server(void *arg)
{
    if (below(3) == 0)
        refuse_some();
    for (uint64_t i = below(BRIEF_LISTENERS); i; i--)
        use_brief_listener();
    listen_here();
    COIR_SCOPE(here);
    for (uint64_t i = below(ACCEPTORS); i; i--)
        MUST_BE(coir_go(here, accept_all, arg), 0);
    {
        COIR_SCOPE(anywhere);
        for (uint64_t i = 1 + below(ACCEPTORS); i; i--)
            MUST_BE(coir_go_anywhere(anywhere, accept_all, arg), 0);
        run_listener();
        coir_scope_cancel(anywhere);
        MUST(coir_scope_wait(anywhere) == 0);
    }
    if (below(2)) {
        MUST_BE(coir_listener_pause(w.listener), 0);
        rest(2 * COIR_S); /* so that accepts wait for the end of the pause */
    }
    w.listens = false;
    coir_listener_close(w.listener);
    COIR_DEADLINE(coir_in(patience));
    MUST_BE(coir_scope_wait(here), 0);
    MUST_BE(w.open, 0);
    return 0;
}

/* ---- clients ---- */

/* Both are refused by the simulated system only. */
static void ask_about(coir_stream *stream)
{
    coir_tcp_info info = COIR_TCP_INFO;
    int rc = coir_tcp_info_get(stream, &info);
    MUST(rc == 0 || rc == -EOPNOTSUPP);
    rc = coir_tcp_get_option(stream, COIR_TCP_SEND_BUFFER);
    MUST(rc >= 0 || rc == -EOPNOTSUPP);
}

static int connect_somehow(coir_stream **ret_stream)
{
    coir_open_op op;
    coir_tcp_connect_options options = COIR_TCP_CONNECT_OPTIONS;
    options.local = "0.0.0.0:0";
    switch (below(3)) {
    case 0: return coir_tcp_connect("server:80", ret_stream);
    case 1: return (int)coir_await(coir_tcp_connect_op(&op, "server:80", ret_stream));
    default: {
        int rc = coir_tcp_connect_with("server:80", &options, ret_stream);
        return rc == -EOPNOTSUPP ? coir_tcp_connect("server:80", ret_stream) : rc;
    }
    }
}

/* Whether it was served. */
static bool visit(unsigned char number)
{
    coir_stream *stream;
    unsigned char answer;
    int rc = connect_somehow(&stream);
    if (rc == 0) {
        ask_about(stream);
        rest(20 * COIR_MS);
        rc = coir_write_all(stream, &number, 1);
        if (rc == 0)
            rc = (int)coir_read(stream, &answer, 1);
        if (rc == 1)
            MUST_BE(answer, number);
        if (rc == 1)
            rest(COIR_S); /* holds it */
        coir_close(stream);
    }
    bool is_closed = rc == 0 || rc == -EPIPE || rc == -ECONNRESET;
    if (!(is_closed && w.limit && w.closes) && !(rc == -ETIMEDOUT && w.may_miss))
        MUST_BE(rc, 1);
    return rc == 1;
}

static int be_a_client(void *arg)
{
    int client = (int)(intptr_t)arg;
    COIR_DEADLINE(coir_in(patience));
    for (int i = 0; i < VISITS; i++) {
        rest(COIR_S);
        while (!visit((unsigned char)(client * VISITS + i)))
            rest(100 * COIR_MS);
        MUST_BE(w.served[client][i], 1);
    }
    w.clients_left--;
    return 0;
}

static int be_everybody(void *arg)
{
    (void)arg;
    while (!w.listens)
        MUST_BE(coir_sleep_for(COIR_MS), 0);
    COIR_SCOPE(scope);
    for (intptr_t i = 0; i < CLIENTS; i++)
        MUST_BE(coir_go(scope, be_a_client, (void *)i), 0);
    MUST_BE(coir_scope_wait(scope), 0);
    chaos_await_end(w.server, 2 * patience);
    return 0;
}

int scenario(coir_sim *sim)
{
    memset(&w, 0, sizeof w);
    w.sim = sim;
    w.clients_left = CLIENTS;
    w.limit = below(4) ? 1 + below(CLIENTS) : 0;
    w.closes = below(2);
    w.pauses = below(2);
    double no_answer = some(0.3);
    w.backlog = below(3) ? 0 : 1 + below(CLIENTS);
    w.may_miss = w.backlog || no_answer > 0;
    MUST_BE(chaos_configure(sim), 0);
    if (!(w.server = coir_sim_host(sim, "server", run_server, NULL)))
        return -ENOMEM;
    coir_sim_link(sim, NULL, NULL,
                  (coir_link){.latency = (coir_time)below(20 * COIR_MS),
                              .jitter = (coir_time)below(20 * COIR_MS),
                              .loss = some(0.1),
                              .no_answer = no_answer});
    coir_sim_faults(sim, NULL, (coir_faults){.late = some(0.5)});
    return coir_sim_host_main(sim, "clients", be_everybody, NULL);
}
