/* For test/e2e/allocation: a server and its clients in one process, on one worker. After a warm-up
 * it counts every call of the C library's allocator, by its own malloc, while N requests or
 * messages go to and fro. A getppid marks the begin and the end of that in a trace of system calls.
 * Usage: allocation http | echo | broadcast | fastcgi N [spoil] */
#include <coir.h>
#include <coir/fastcgi.h>
#include <coir/ws.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../counted_malloc.h"
#include "../fastcgi_peer.h"

/* ---- what is asked for ---- */

enum { CLIENTS = 4, LENGTH = 32, ANSWER_MAX = 4096 };

struct client {
    coir_stream *stream; /* of HTTP and FastCGI */
    coir_ws *ws;
    long rounds;
    size_t answer_len;
    bool publishes;
};

static char address[64];
static coir_topic *room;
static const char *request;

/* The first answer's length is that of all of them. */
static int ask(struct client *client)
{
    char answer[ANSWER_MAX + 1];
    size_t got = 0;
    int rc = coir_write_all(client->stream, request, strlen(request));
    while (rc == 0 && (!client->answer_len || got < client->answer_len)) {
        ssize_t n = coir_read(client->stream, answer + got, ANSWER_MAX - got);
        if (n <= 0)
            return n < 0 ? (int)n : -COIR_EEND;
        got += (size_t)n;
        answer[got] = '\0';
        char *end = client->answer_len ? NULL : strstr(answer, "well\n");
        if (end)
            client->answer_len = got;
    }
    return rc < 0 || memcmp(answer, "HTTP/1.1 200", 12) != 0 ? rc < 0 ? rc : -EIO : 0;
}

static int say(struct client *client)
{
    char text[LENGTH] = {0};
    coir_ws_message *message;
    int rc = client->publishes ? coir_ws_send_binary(client->ws, text, sizeof text) : 0;
    if (rc == 0 && (rc = coir_ws_recv(client->ws, &message)) > 0) {
        coir_ws_message_unref(message);
        return 0;
    }
    return rc < 0 ? rc : -COIR_EEND;
}

static int converse(void *arg)
{
    struct client *client = arg;
    int rc = 0;
    for (long i = 0; i < client->rounds && rc == 0; i++)
        rc = client->ws ? say(client) : ask(client);
    return rc;
}

static int at_once(struct client *clients, long rounds)
{
    COIR_SCOPE(scope);
    int rc = 0;
    for (int i = 0; i < CLIENTS && rc == 0; i++) {
        clients[i].rounds = rounds;
        rc = coir_go(scope, converse, &clients[i]);
    }
    int ended = coir_scope_wait(scope);
    return rc < 0 ? rc : ended;
}

/* ---- the server ---- */

static int hello(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    const char *agent = coir_request_header(req, "User-Agent");
    return coir_respond_text(res, 200, "%s is well\n", agent ? agent : "all");
}

static int echo(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_ws *ws;
    coir_ws_message *message;
    int rc = coir_ws_accept(req, res, &ws);
    while (rc >= 0 && (rc = coir_ws_recv(ws, &message)) > 0) {
        rc = coir_ws_send(ws, message);
        coir_ws_message_unref(message);
    }
    return rc;
}

static int on_message(coir_ws *ws, coir_ws_message *message, void *arg)
{
    (void)arg;
    return message ? coir_ws_send(ws, message) : 0;
}

static int echo_without(coir_request *req, coir_response *res, void *arg)
{
    return coir_ws_handle(req, res, on_message, arg);
}

static void ref(void *message, void *arg)
{
    (void)arg;
    coir_ws_message_ref(*(coir_ws_message **)message);
}

static void unref(void *message, void *arg)
{
    (void)arg;
    coir_ws_message_unref(*(coir_ws_message **)message);
}

static int chat(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    coir_ws *ws;
    coir_channel *news;
    coir_ws_message *said, *heard;
    coir_ws_options options = COIR_WS_OPTIONS;
    options.ping_interval = 20 * COIR_MS; /* so that those who only listen are pinged */
    int rc = coir_ws_accept_with(req, res, &options, &ws);
    if (rc < 0 || (rc = coir_subscribe(room, 64, COIR_OVERFLOW_WAIT, &news)) < 0)
        return rc;
    while (rc >= 0) {
        coir_case waits[] = {coir_case_ws_recv(ws, &said), coir_case_recv(news, &heard),
                             coir_case_after(30 * COIR_S)};
        switch (coir_select(waits, 3)) {
        case 0:
            if ((rc = (int)waits[0].result) > 0) {
                rc = coir_publish(room, &said);
                coir_ws_message_unref(said);
            } else {
                rc = rc < 0 ? rc : -COIR_EEND;
            }
            break;
        case 1:
            rc = coir_ws_send(ws, heard);
            coir_ws_message_unref(heard);
            break;
        default: rc = coir_task_interrupted(); break;
        }
    }
    coir_channel_free(news);
    return rc == -COIR_EEND ? 0 : rc;
}

/* What the connections of the FastCGI application need: it is in this process, and shall not be
 * counted. */
static struct place {
    bool used;
    struct fcgi_request call;
} places[4 * CLIENTS];

static struct place *take_place(void)
{
    size_t i = 0;
    while (i < sizeof places / sizeof places[0] && places[i].used)
        i++;
    if (i == sizeof places / sizeof places[0])
        return NULL;
    places[i].used = true;
    return &places[i];
}

/* A FastCGI application. */
static int script(coir_stream *stream, void *arg)
{
    (void)arg;
    static const char text[] = "Content-Length: 5\r\n\r\nwell\n";
    unsigned char answer[128];
    size_t len = fcgi_record(answer, 6, 1, text, sizeof text - 1, 0);
    struct place *place = take_place();
    int rc = place ? 0 : -ENOMEM;
    len += fcgi_record(answer + len, 6, 1, NULL, 0, 0);
    len += fcgi_end(answer + len, 0, 0);
    while (rc == 0 && (rc = fcgi_accept(&place->call, stream)) == 0) {
        while (fcgi_read_body(&place->call) > 0)
            ;
        rc = coir_write_all(stream, answer, len);
    }
    if (place)
        place->used = false;
    return 0;
}

static int pass(coir_request *req, coir_response *res, void *arg)
{
    coir_fastcgi_script what = COIR_FASTCGI_SCRIPT;
    what.filename = what.name = "/a.php";
    return coir_fastcgi_pass(arg, req, res, &what);
}

static int serve(void *arg)
{
    coir_serve_http_options options = COIR_SERVE_HTTP_OPTIONS;
    coir_router *router;
    coir_fastcgi *client;
    coir_topic_options topic = COIR_TOPIC_OPTIONS;
    topic.item_size = sizeof(coir_ws_message *);
    topic.ref = ref;
    topic.unref = unref;
    int rc = coir_topic_new_with(&topic, &room);
    options.listener = ((coir_listener **)arg)[0];
    if (rc < 0 || (rc = coir_router_new(&router)) < 0 ||
        (rc = coir_fastcgi_new(((char **)arg)[1], &client)) < 0 ||
        (rc = coir_route(router, "GET", "/http", hello, NULL)) < 0 ||
        (rc = coir_route(router, "GET", "/echo", echo, NULL)) < 0 ||
        (rc = coir_route(router, "GET", "/without", echo_without, NULL)) < 0 ||
        (rc = coir_route(router, "GET", "/broadcast", chat, NULL)) < 0 ||
        (rc = coir_route(router, "GET", "/fastcgi", pass, client)) < 0)
        return rc;
    rc = coir_serve_http_with(&options, router);
    coir_router_free(router);
    coir_fastcgi_free(client);
    coir_topic_free(room);
    return rc;
}

static int serve_scripts(void *listener)
{
    coir_serve_tcp_options options = COIR_SERVE_TCP_OPTIONS;
    options.listener = listener;
    return coir_serve_tcp_with(&options, script, NULL);
}

/* ---- the run ---- */

static int connect_one(struct client *client, const char *what, int index)
{
    char url[128];
    bool broadcasts = strcmp(what, "broadcast") == 0;
    if (!broadcasts && strcmp(what, "echo") != 0)
        return coir_tcp_connect(address, &client->stream);
    client->publishes = !broadcasts || index == 0;
    snprintf(url, sizeof url, "ws://%s/%s", address, !broadcasts && index % 2 ? "without" : what);
    return coir_ws_connect(url, &client->ws);
}

static void disconnect(struct client *client)
{
    if (client->ws)
        coir_ws_close(client->ws, 1000, NULL);
    coir_ws_free(client->ws);
    coir_close(client->stream);
}

/* What comes seldom: pings, which make who never sends send, and many short messages at once. */
static int send_seldom(struct client *clients)
{
    enum { AT_ONCE = 64 };
    coir_ws_message *messages[AT_ONCE] = {NULL};
    int rc = 0;
    for (int i = 0; i < CLIENTS && rc == 0; i++)
        rc = clients[i].ws ? coir_ws_ping(clients[i].ws) : 0;
    for (int i = 0; i < AT_ONCE && rc == 0; i++)
        rc = coir_ws_message_new(COIR_WS_TEXT, "", 0, &messages[i]);
    for (int i = 0; i < AT_ONCE; i++)
        coir_ws_message_unref(messages[i]);
    return rc;
}

static void mark(bool begin)
{
    if (!begin)
        atomic_store(&counts, false);
    getppid();
    if (begin)
        atomic_store(&counts, true);
}

/* To see that it would be: one allocation while they are counted. */
static void spoil(void)
{
    void *volatile memory = malloc(1 << 20); /* by mmap */
    free(memory);
}

static int run_clients(const char *what, long count, bool spoils)
{
    static struct client clients[CLIENTS];
    static char text[128];
    long warm_up = count / 10 + 500;
    long rounds = strcmp(what, "broadcast") == 0 ? count : count / CLIENTS;
    int rc = 0;
    snprintf(text, sizeof text, "GET /%s HTTP/1.1\r\nHost: a\r\nUser-Agent: it\r\n\r\n", what);
    request = text;
    for (int i = 0; i < CLIENTS && rc == 0; i++)
        rc = connect_one(&clients[i], what, i);
    if (rc == 0)
        rc = send_seldom(clients);
    if (rc == 0)
        rc = at_once(clients, warm_up);
    mark(true);
    if (spoils)
        spoil();
    if (rc == 0)
        rc = at_once(clients, rounds);
    mark(false);
    if (rc == 0)
        printf("%s: %ld rounds of %d clients: %ld allocations\n", what, rounds, CLIENTS,
               atomic_load(&allocations));
    for (int i = 0; i < CLIENTS; i++)
        disconnect(&clients[i]);
    return rc < 0 ? rc : atomic_load(&allocations) ? -ENOMEM : 0;
}

static int start(void *arg)
{
    char **argv = arg, scripts[64];
    coir_listener *listeners[2];
    int rc = coir_tcp_listen("127.0.0.1:0", &listeners[0]);
    if (rc < 0 || (rc = coir_tcp_listen("127.0.0.1:0", &listeners[1])) < 0)
        return rc;
    coir_listener_local(listeners[0], address, sizeof address);
    coir_listener_local(listeners[1], scripts, sizeof scripts);
    void *server[] = {listeners[0], scripts};
    COIR_SCOPE(scope);
    if ((rc = coir_go(scope, serve, server)) == 0 &&
        (rc = coir_go(scope, serve_scripts, listeners[1])) == 0)
        rc = run_clients(argv[1], atol(argv[2]), argv[3] != NULL);
    coir_scope_cancel(scope);
    coir_scope_wait(scope);
    coir_listener_close(listeners[0]);
    coir_listener_close(listeners[1]);
    return rc;
}

int main(int argc, char **argv)
{
    setenv("COIR_WORKERS", "1", 1);
    if (argc < 3) {
        fprintf(stderr, "usage: %s http | echo | broadcast | fastcgi N\n", argv[0]);
        return 2;
    }
    return coir_main(start, argv);
}
