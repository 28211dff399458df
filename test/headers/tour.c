/* The programs that must stay this short, as users write them: compiled by tools/check-headers.
 * Whole programs around each of them are in examples/. */
#include <coir.h>
#include <coir/sim.h>
#include <coir/web.h>
#include <stdio.h>

/* 1. An echo server: one fiber a connection. */
static int echo(coir_stream *conn, void *arg)
{
    char buf[4096];
    ssize_t n;
    (void)arg;
    while ((n = coir_read(conn, buf, sizeof buf)) > 0) {
        int rc = coir_write_all(conn, buf, (size_t)n);
        if (rc < 0)
            return rc;
    }
    return (int)n;
}

static int start(void *arg)
{
    return coir_serve_tcp("127.0.0.1:7777", echo, arg);
}

/* 2. A deadline holds to the end of its block. */
static ssize_t read_in_time(coir_stream *conn, void *buf, size_t size)
{
    COIR_DEADLINE(coir_in(500 * COIR_MS));
    return coir_read(conn, buf, size);
}

/* 3. A scope: nothing outlives it. */
static int fetch(void *url)
{
    return printf("%s\n", (const char *)url) < 0 ? -1 : coir_sleep_for(COIR_MS);
}

static int fetch_both(char *left, char *right)
{
    COIR_SCOPE(scope);
    coir_go(scope, fetch, left);
    coir_go(scope, fetch, right);
    return coir_scope_wait(scope);
}

/* 4. The chat: socket, topic and time in one wait. */
static int chat_once(coir_stream *conn, coir_topic *room, coir_channel *news, char *line,
                     size_t size)
{
    char *said;
    coir_case waits[] = {coir_case_stream(conn, COIR_READ), coir_case_recv(news, &said),
                         coir_case_after(30 * COIR_S)};
    switch (coir_select(waits, 3)) {
    case 0: return coir_read(conn, line, size) > 0 ? coir_publish(room, &line) : -1;
    case 1: return coir_write_all(conn, said, 1);
    case 2: return coir_write_all(conn, "?\n", 2);
    default: return coir_task_interrupted();
    }
}

/* 5. Without a stack. */
struct beat {
    coir_future future;
    coir_udp *sock;
    coir_sleep_op pause;
    coir_udp_op ping;
    int sent;
};

static coir_future *beat_poll(coir_future *future)
{
    struct beat *self = coir_frame(future, struct beat);
    COIR_BEGIN(future);
    for (self->sent = 0; self->sent < 3; self->sent++) {
        COIR_AWAIT(future, coir_udp_send_op(&self->ping, self->sock, "ping", 4));
        COIR_AWAIT(future, coir_sleep_for_op(&self->pause, 100 * COIR_MS));
    }
    COIR_END(future);
}

static const coir_future_kind beat_kind = COIR_FUTURE_KIND("beat", beat_poll, NULL);

static int beat(coir_scope *scope, struct beat *beat)
{
    return coir_go_future(scope, coir_future_init(&beat->future, &beat_kind));
}

/* 6. Work that blocks or computes. */
static int hash_password(void *job)
{
    return *(const char *)job == '\0' ? -1 : 0;
}

static int log_in(char *password)
{
    return coir_offload(hash_password, password);
}

/* 7. A web handler. */
static int hello(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    return coir_respond_text(res, 200, "Hello, %s!", coir_request_param(req, "name"));
}

static int serve_hello(coir_router *router)
{
    int rc = coir_route(router, "GET", "/hello/{name}", hello, NULL);
    return rc < 0 ? rc : coir_serve_http("127.0.0.1:8081", router);
}

/* 8. The same server, in a world that fails. */
static int talk_to_it(void *arg)
{
    coir_stream *conn;
    (void)arg;
    int rc = coir_tcp_connect("server:7777", &conn);
    if (rc == 0)
        coir_close(conn);
    return rc;
}

static int scenario(coir_sim *sim, void *arg)
{
    (void)arg;
    coir_host *server = coir_sim_host(sim, "server", start, NULL);
    coir_sim_link(sim, server, NULL, (coir_link){.latency = 2 * COIR_MS, .loss = 0.05});
    return coir_sim_host_main(sim, "client", talk_to_it, NULL);
}

/* 9. Only the loop. */
static void on_readable(coir_loop *loop, coir_watch *watch, int events, void *arg)
{
    (void)events, (void)arg;
    coir_watch_stop(loop, watch);
}

static void on_timeout(coir_loop *loop, coir_timer *timer, void *arg)
{
    (void)timer, (void)arg;
    coir_loop_stop(loop);
}

static int only_the_loop(coir_fd fd)
{
    static coir_watch watch;
    static coir_timer timer;
    coir_loop *loop;
    int rc = coir_loop_new(&loop);
    if (rc < 0)
        return rc;
    coir_watch_start(loop, &watch, fd, COIR_READ, on_readable, NULL);
    coir_timer_start(loop, &timer, 5 * COIR_S, on_timeout, NULL);
    rc = coir_loop_run(loop);
    coir_loop_free(loop);
    return rc;
}

/* 10. Only the poller. */
static int only_the_poller(coir_poller *poller, coir_fd fd, uint64_t token,
                           coir_poller_event *events)
{
    coir_poller_add(poller, fd, token, COIR_READ | COIR_EDGE);
    return coir_poller_wait(poller, events, 64, coir_in(1 * COIR_S));
}

/* Uses every function, so that none is reported as unused. */
typedef void any_fn(void);
any_fn *const tour[] = {(any_fn *)read_in_time,  (any_fn *)fetch_both,      (any_fn *)chat_once,
                        (any_fn *)beat,          (any_fn *)log_in,          (any_fn *)serve_hello,
                        (any_fn *)only_the_loop, (any_fn *)only_the_poller, (any_fn *)scenario};

int main(void)
{
    return coir_main(start, NULL);
}
