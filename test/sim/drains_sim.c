/* Servers of raw connections that are stopped while clients come, in a world in which nothing is
 * lost: by a cancel, with and without a layer over each connection, and with few tasks. Functions
 * of connections fail often.
 *
 * What must hold:
 * 1. A client whose connect succeeded is served to the end, however late it came.
 * 2. None is refused before the server is stopped; it ends when its last connection has.
 * 3. Whom the layer refuses is not served; the others are.
 * 4. Each function that fails is logged once, with its error, or counted among those that are too
 *    many for a second. */
#include <coir.h>
#include <coir/sim.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/chance.h"
#include "sim/chaos.h"
#include "sim/must.h"
#include "sim/scenario.h"

enum { CLIENTS = 8, VISITS = 5, FEW_TASKS = 2, HELLO = 'h', UNWANTED = 'u' };
static const coir_time patience = 100 * COIR_S, drain_time = 50 * COIR_S;

static struct {
    coir_sim *sim;
    coir_host *server;
    bool layered, listens, stops;
    bool few_tasks; /* there is no room for every connection at once */
    int serving, failed, logged;
    uint8_t served[CLIENTS * VISITS];
    coir_time span; /* in which visits are spread */
} w;

static void rest(coir_time most)
{
    MUST_BE(coir_sleep_for((coir_time)below((uint64_t)most >> below(8))), 0);
}

/* ---- the server ---- */

static int put_layer(coir_stream *transport, coir_stream **ret_stream, void *arg)
{
    char byte = 0;
    (void)arg;
    MUST_BE(coir_read(transport, &byte, 1), 1);
    if (byte != HELLO)
        return -EPROTO;
    *ret_stream = transport;
    return 0;
}

static int serve_one(coir_stream *stream, void *arg)
{
    unsigned char number;
    (void)arg;
    w.serving++;
    MUST_BE(coir_read(stream, &number, 1), 1);
    MUST_BE(++w.served[number], 1);
    rest(w.few_tasks ? 200 * COIR_MS : 20 * COIR_MS);
    MUST_BE(coir_write_all(stream, &number, 1), 0);
    MUST_BE(coir_task_interrupted(), 0);
    w.serving--;
    if (below(3) == 0)
        return 0;
    w.failed++;
    return -EPROTO;
}

static int serve(void *arg)
{
    coir_serve_tcp_options options = COIR_SERVE_TCP_OPTIONS;
    options.listener = arg;
    options.drain_timeout = drain_time;
    if (w.layered)
        options.layer = put_layer;
    int rc = coir_serve_tcp_with(&options, serve_one, NULL);
    MUST(rc == 0 || rc == -ECANCELED);
    MUST_BE(w.serving, 0);
    return 0;
}

static int run_server(void *arg)
{
    coir_go_options options = COIR_GO_OPTIONS;
    coir_handle serving = {0};
    coir_listener *listener;
    (void)arg;
    MUST_BE(coir_tcp_listen("0.0.0.0:80", &listener), 0);
    {
        COIR_SCOPE(scope);
        options.handle = &serving;
        MUST_BE(coir_go_with(scope, &options, serve, listener), 0);
        w.listens = true;
        rest(2 * w.span);
        w.stops = true;
        coir_cancel(&serving);
        COIR_DEADLINE(coir_in(drain_time));
        MUST_BE(coir_scope_wait(scope), 0);
    }
    coir_listener_close(listener);
    return coir_sleep_for(2 * COIR_S); /* what was suppressed is logged */
}

/* Of the server: the clients log nothing. */
static void count_warning(enum coir_log_level level, const char *line, void *arg)
{
    const char *more = strstr(line, " more warnings suppressed");
    (void)arg;
    if (level != COIR_LOG_WARNING)
        return;
    if (more) {
        w.logged += atoi(strchr(line, ':') + 1);
        return;
    }
    if (strncmp(line, "connection from ", strlen("connection from ")) == 0) {
        MUST(strstr(line, coir_strerror(-EPROTO)));
        w.logged++;
    }
}

/* ---- clients ---- */

static void visit(unsigned char number)
{
    coir_stream *stream;
    char bytes[2], hello = w.layered && below(6) == 0 ? UNWANTED : HELLO;
    int rc = coir_tcp_connect("server:80", &stream);
    if (rc < 0) {
        MUST_BE(rc, -ECONNREFUSED);
        MUST(w.stops);
        return;
    }
    if (below(2))
        rest(20 * COIR_MS);
    if (w.layered)
        MUST_BE(coir_write_all(stream, &hello, 1), 0);
    if (w.layered && hello == UNWANTED) {
        MUST_BE(coir_read(stream, bytes, sizeof bytes), 0); /* 3 */
        MUST(!w.served[number]);
    } else {
        MUST_BE(coir_write_all(stream, &number, 1), 0);
        MUST_BE(coir_read(stream, bytes, sizeof bytes), 1);
        MUST_BE((unsigned char)bytes[0], number);
        MUST_BE(coir_read(stream, bytes, sizeof bytes), 0);
    }
    coir_close(stream);
}

static int be_a_client(void *arg)
{
    int client = (int)(intptr_t)arg;
    COIR_DEADLINE(coir_in(patience));
    for (int i = 0; i < VISITS; i++) {
        rest(w.span);
        visit((unsigned char)(client * VISITS + i));
    }
    return 0;
}

static int be_everybody(void *arg)
{
    (void)arg;
    while (!w.listens)
        MUST_BE(coir_sleep_for(COIR_MS), 0);
    {
        COIR_SCOPE(scope);
        for (intptr_t i = 0; i < CLIENTS; i++)
            MUST_BE(coir_go(scope, be_a_client, (void *)i), 0);
        MUST_BE(coir_scope_wait(scope), 0);
    }
    chaos_await_end(w.server, 2 * patience);
    MUST_BE(w.logged, w.failed); /* 4 */
    return 0;
}

int scenario(coir_sim *sim)
{
    coir_config config = COIR_CONFIG;
    memset(&w, 0, sizeof w);
    w.sim = sim;
    w.layered = below(3) == 0;
    w.span = below(2) ? 20 * COIR_MS : 300 * COIR_MS;
    config.log = count_warning;
    w.few_tasks = !w.layered && below(2);
    if (w.few_tasks) /* the server's own, too; no client has as many */
        config.tasks_max = CLIENTS + FEW_TASKS;
    MUST_BE(coir_sim_configure(sim, &config), 0);
    if (!(w.server = coir_sim_host(sim, "server", run_server, NULL)))
        return -ENOMEM;
    coir_sim_link(sim, NULL, NULL,
                  (coir_link){.latency = (coir_time)below(500 * COIR_US), .short_io = some(0.5)});
    return coir_sim_host_main(sim, "clients", be_everybody, NULL);
}
