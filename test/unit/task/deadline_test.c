/* One rule for every suspending call: in a cancel scope whose deadline has passed it says -ETIME,
 * in a task that was cancelled -ECANCELED; while it waits, and when it is made; and leaving the
 * cancel scope ends that. The table has every COIR_SUSPENDS of the headers
 * (tools/check-headers). */
#include <coir.h>
#include <coir/fastcgi.h>
#include <coir/sse.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "deadline_websocket.h"
#include "harness.h"

/* ---- objects on which every wait is for ever ---- */

static struct {
    coir_channel *channel, *subscription; /* without a peer; full */
    coir_topic *topic;
    coir_latest *latest;
    coir_event never;
    coir_mutex mutex, own; /* never unlocked again; the condition's */
    coir_shared_mutex shared;
    coir_condition condition;
    coir_semaphore semaphore;
    coir_signals *signals;
    coir_process process;
    coir_scope *scope; /* of the test, with a task that waits for ever */
    coir_handle *handle;
    coir_listener *listener;
    char address[64];
    coir_stream *silent, *full, *peer; /* the same end: its peer neither writes nor reads */
    coir_udp *udp;
    coir_stream *local[2]; /* of a Unix socket */
    coir_stream *narrow[2];
    coir_buffer *buffer;
    coir_write_queue *queue; /* full, as its stream is not read */
    coir_reader *reader;
    coir_file *file;
    coir_listing *listing;
    coir_watcher *watcher;
    int empty[2], stuffed[2]; /* pipes */
    coir_request *request;
    const char *body;
    coir_response *response;
    coir_fastcgi *fastcgi; /* whose application does not answer */
} t;

static char bytes[100000];
static const coir_sse_event sse_event = COIR_SSE_EVENT;
static const coir_fastcgi_script script = {sizeof script, "page.php", "/page.php", NULL, NULL};
static coir_datagram datagram = {.size = sizeof datagram, .data = bytes, .room = 10, .len = 1};

static int wait_never(void *arg)
{
    (void)arg;
    return coir_event_wait(&t.never);
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int serve_nobody(coir_stream *stream, void *arg)
{
    (void)stream;
    (void)arg;
    return 0;
}

/* ---- calls that need more than a line ---- */

static ssize_t condition_wait(void)
{
    CHECK_EQ(coir_mutex_try_lock(&t.own), 0);
    int rc = coir_condition_wait(&t.condition, &t.own);
    coir_mutex_unlock(&t.own);
    return rc;
}

static ssize_t group(coir_future *op(coir_group *group, coir_branch *branches, size_t count))
{
    coir_group all;
    coir_wait_op waits[2];
    coir_branch branches[2] = {COIR_BRANCH(coir_event_wait_op(&waits[0], &t.never)),
                               COIR_BRANCH(coir_event_wait_op(&waits[1], &t.never))};
    return coir_await(op(&all, branches, 2));
}

/* Awaits two waits together. */
#define GROUP(call)                                           \
    coir_wait_op waits[2];                                    \
    coir_branch branches[2] = {                               \
        COIR_BRANCH(coir_event_wait_op(&waits[0], &t.never)), \
        COIR_BRANCH(coir_event_wait_op(&waits[1], &t.never)), \
    };                                                        \
    return call

static ssize_t join_all(void)
{
    GROUP(coir_join_all(branches, 2, 0));
}

static ssize_t try_join(void)
{
    GROUP(coir_join_or_cancel(branches, 2, 0));
}

static ssize_t any(void)
{
    GROUP(coir_any(branches, 2));
}

static ssize_t any_in_order(void)
{
    GROUP(coir_any_in_order(branches, 2));
}

static ssize_t await(void)
{
    return group(coir_any_op);
}

static ssize_t set_next(void)
{
    coir_wait_op op;
    coir_branch member = COIR_BRANCH(coir_event_wait_op(&op, &t.never)), *done;
    coir_set set;
    coir_set_init(&set);
    CHECK_EQ(coir_set_add(&set, &member), 0);
    int rc = coir_set_next(&set, &done);
    coir_set_done(&set);
    return rc;
}

static ssize_t select_all(bool in_order)
{
    uint64_t item;
    coir_case cases[] = {coir_case_event(&t.never), coir_case_recv(t.channel, &item),
                         coir_case_stream(t.silent, COIR_READ), coir_case_after(1000 * COIR_S)};
    return in_order ? coir_select_in_order(cases, 4) : coir_select(cases, 4);
}

static int generate(coir_generator *generator, uint64_t first, void *arg)
{
    (void)first;
    (void)arg;
    coir_generator_yield(generator, 1, NULL); /* it has begun: from here on it waits */
    return wait_never(NULL);
}

static ssize_t generator_next(void)
{
    coir_generator *generator;
    uint64_t value;
    CHECK_EQ(coir_generator_new(generate, NULL, &generator), 0);
    ssize_t rc = coir_generator_next(generator, 0, &value);
    if (rc == 1 && !coir_task_interrupted())
        rc = coir_generator_next(generator, 0, &value);
    coir_generator_free(generator);
    return rc;
}

static ssize_t park(void)
{
    coir_parker parker;
    CHECK_EQ(coir_parker_init(&parker), 0);
    int rc = coir_parker_wait(&parker);
    coir_parker_done(&parker);
    return rc;
}

static ssize_t connect_to_listener(void)
{
    coir_stream *stream = NULL;
    int rc = coir_tcp_connect(t.address, &stream);
    coir_close(stream);
    return rc;
}

static ssize_t connect_with(void)
{
    coir_stream *stream = NULL;
    int rc = coir_tcp_connect_with(t.address, NULL, &stream);
    coir_close(stream);
    return rc;
}

static ssize_t listen_somewhere(bool with)
{
    coir_listener *listener = NULL;
    coir_listen_options options = COIR_LISTEN_OPTIONS;
    int rc = with ? coir_tcp_listen_with("127.0.0.1:0", &options, &listener)
                  : coir_tcp_listen("127.0.0.1:0", &listener);
    coir_listener_close(listener);
    return rc;
}

/* A server closes its listener's descriptor when it stops: each has one of its own. */
static ssize_t serve_on(int (*serve)(coir_listener *listener))
{
    coir_listener *listener = NULL;
    int rc = coir_tcp_listen("127.0.0.1:0", &listener);
    if (rc == 0)
        rc = serve(listener);
    coir_listener_close(listener);
    return rc;
}

static int serve_raw(coir_listener *listener)
{
    return coir_serve_tcp_with(TCP_ON(listener), serve_nobody, NULL);
}

static int serve_with(coir_listener *listener)
{
    coir_serve_tcp_options options = COIR_SERVE_TCP_OPTIONS;
    options.listener = listener;
    return coir_serve_tcp_with(&options, serve_nobody, NULL);
}

/* On an address where there is no listener. */
static int serve_http(coir_listener *listener)
{
    coir_router *router = NULL;
    CHECK_EQ(coir_router_new(&router), 0);
    int rc = listener ? coir_serve_http_with(HTTP_ON(listener), router)
                      : coir_serve_http("127.0.0.1:0", router);
    coir_router_free(router);
    return rc;
}

static const char *const command[] = {"/bin/sleep", "1000", NULL};
static coir_process unused;
static uint64_t item;
static struct stat what;
static coir_dir_entry entry = COIR_DIR_ENTRY;
static coir_change change = COIR_CHANGE;
static size_t done;
static coir_fd fds[2];
static char *piece;
static coir_stream *accepted;
static struct iovec vec[2] = {{bytes, sizeof bytes / 2},
                              {bytes + sizeof bytes / 2, sizeof bytes / 2}};

#include "deadline_files.h"

/* Until there is no room left. */
static ssize_t write_on(bool vectored)
{
    ssize_t n;
    do
        n = vectored ? coir_writev(t.full, vec, 2) : coir_write(t.full, bytes, sizeof bytes);
    while (n > 0);
    return n;
}

/* What the call does when nothing interrupts it: waits for ever, or ends by itself, so that it is
 * only asked when it is made. */
enum { WAITS, ENDS };

/* clang-format off */
#define ROWS(X)                                                                   \
    X(coir_channel_send, WAITS, coir_channel_send(t.channel, &item))              \
    X(coir_channel_recv, WAITS, coir_channel_recv(t.channel, &item))              \
    X(coir_channel_recv_many, WAITS, coir_channel_recv_many(t.channel, &item, 1)) \
    X(coir_publish, WAITS, coir_publish(t.topic, &item))                          \
    X(coir_latest_wait, WAITS, coir_latest_wait(t.latest, coir_latest_get(t.latest, &item))) \
    X(coir_event_wait, WAITS, coir_event_wait(&t.never))                          \
    X(coir_mutex_lock, WAITS, coir_mutex_lock(&t.mutex))                          \
    X(coir_shared_mutex_lock, WAITS, coir_shared_mutex_lock(&t.shared))           \
    X(coir_shared_mutex_share, WAITS, coir_shared_mutex_share(&t.shared))         \
    X(coir_condition_wait, WAITS, condition_wait())                               \
    X(coir_semaphore_acquire, WAITS, coir_semaphore_acquire(&t.semaphore, 1))     \
    X(coir_signals_wait, WAITS, coir_signals_wait(t.signals))                     \
    X(coir_process_wait, WAITS, coir_process_wait(&t.process))                    \
    X(coir_process_spawn, ENDS, coir_process_spawn(&unused, command))             \
    X(coir_process_spawn_with, ENDS, coir_process_spawn_with(&unused, command, NULL))\
    X(coir_parker_wait, WAITS, park())                                                   \
    X(coir_yield, ENDS, coir_yield())                                             \
    X(coir_sleep_until, WAITS, coir_sleep_until(COIR_NEVER - 1))                  \
    X(coir_sleep_for, WAITS, coir_sleep_for(1000 * COIR_S))                       \
    X(coir_await, WAITS, await())                                                 \
    X(coir_join_all, WAITS, join_all())                                           \
    X(coir_join_or_cancel, WAITS, try_join())                                           \
    X(coir_any, WAITS, any())                                                     \
    X(coir_any_in_order, WAITS, any_in_order())                                   \
    X(coir_set_next, WAITS, set_next())                                           \
    X(coir_select, WAITS, select_all(false))                                      \
    X(coir_select_in_order, WAITS, select_all(true))                              \
    X(coir_generator_next, WAITS, generator_next())                               \
    X(coir_call_on, WAITS, coir_call_on(0, wait_never, NULL))                     \
    X(coir_offload, ENDS, coir_offload(nothing, NULL))                            \
    X(coir_recorder_start, ENDS, coir_recorder_start())                           \
    X(coir_recorder_start_with, ENDS, coir_recorder_start_with(NULL))             \
    X(coir_recorder_stop, ENDS, coir_recorder_stop())                             \
    X(coir_trace_start, ENDS, coir_trace_start(0))                                \
    X(coir_trace_stop, ENDS, coir_trace_stop())                                   \
    X(coir_trace_write, ENDS, coir_trace_write(-1))                               \
    X(coir_scope_wait, WAITS, coir_scope_wait(t.scope))                           \
    X(coir_join, WAITS, coir_join(t.handle))                                      \
    X(coir_fd_wait, WAITS, coir_fd_wait(t.empty[0], COIR_READ))                   \
    X(coir_fd_read, WAITS, coir_fd_read(t.empty[0], bytes, 1))                    \
    X(coir_fd_write, WAITS, coir_fd_write(t.stuffed[1], bytes, 1))                \
    X(coir_read, WAITS, coir_read(t.silent, bytes, 10))                           \
    X(coir_stream_copy, WAITS, coir_stream_copy(t.narrow[1], t.silent, 10, NULL)) \
    X(coir_file_copy_to, ENDS, coir_file_copy_to(t.file, 0, 1, t.local[0], NULL)) \
    X(coir_file_copy_from, WAITS, coir_file_copy_from(t.file, 0, 10, t.silent, NULL)) \
    X(coir_peek, WAITS, coir_peek(t.silent, bytes, 10))                           \
    X(coir_readv, WAITS, coir_readv(t.silent, vec, 2))                            \
    X(coir_read_full, WAITS, coir_read_full(t.silent, bytes, 10, &done))          \
    X(coir_read_full_nothing, ENDS, coir_read_full(t.silent, bytes, 0, &done))    \
    X(coir_write_all_nothing, ENDS, coir_write_all(t.full, bytes, 0))             \
    X(coir_writev_all_nothing, ENDS, coir_writev_all(t.full, vec, 0))             \
    X(coir_read_nothing, ENDS, coir_read(t.silent, bytes, 0))                     \
    X(coir_call_on_no_worker, ENDS, coir_call_on(-1, wait_never, NULL))           \
    X(coir_go_on_no_worker, ENDS, coir_go_on(t.scope, -1, nothing, NULL))         \
    X(coir_write, WAITS, write_on(false))                                         \
    X(coir_writev, WAITS, write_on(true))                                        \
    X(coir_write_all, WAITS, coir_write_all(t.full, bytes, sizeof bytes))         \
    X(coir_writev_all, WAITS, coir_writev_all(t.full, vec, 2))                    \
    X(coir_stream_wait, WAITS, coir_stream_wait(t.silent, COIR_READ))             \
    X(coir_write_queue_push, WAITS, coir_write_queue_push(t.queue, t.buffer))     \
    X(coir_write_queue_flush, WAITS, coir_write_queue_flush(t.queue))             \
    X(coir_accept, WAITS, coir_accept(t.listener, &accepted))                     \
    X(coir_tcp_connect, ENDS, connect_to_listener())                              \
    X(coir_tcp_connect_with, ENDS, connect_with())                                \
    X(coir_tcp_listen, ENDS, listen_somewhere(false))                             \
    X(coir_tcp_listen_with, ENDS, listen_somewhere(true))                         \
    X(coir_serve_tcp_with_listener, WAITS, serve_on(serve_raw))                            \
    X(coir_serve_tcp_with, WAITS, serve_on(serve_with))                               \
    X(coir_serve_tcp, WAITS, coir_serve_tcp("127.0.0.1:0", serve_nobody, NULL))   \
    X(coir_serve_http, WAITS, serve_http(NULL))                                   \
    X(coir_serve_http_with, WAITS, serve_on(serve_http))                            \
    X(coir_resolve, ENDS, coir_resolve("127.0.0.1:1", NULL, 0))                   \
    X(coir_resolve_with, ENDS, coir_resolve_with("localhost:1", NULL, NULL, 0))   \
    X(coir_unix_send_fds, ENDS, coir_unix_send_fds(t.local[0], bytes, 1, t.empty, 1)) \
    X(coir_unix_recv_fds, WAITS, coir_unix_recv_fds(t.local[0], bytes, 1, fds, 2, &done)) \
    X(coir_reader_read_line, WAITS, coir_reader_read_line(t.reader, &piece, NULL)) \
    X(coir_reader_read_until, WAITS, coir_reader_read_until(t.reader, "x", &piece, NULL)) \
    X(coir_reader_read, WAITS, coir_reader_read(t.reader, bytes, 1)) \
    X(coir_udp_send, ENDS, coir_udp_send(t.udp, bytes, 1))                        \
    X(coir_udp_send_to, ENDS, coir_udp_send_to(t.udp, bytes, 1, NULL))            \
    X(coir_udp_recv, WAITS, coir_udp_recv(t.udp, bytes, 10, NULL))                \
    X(coir_udp_send_many, ENDS, coir_udp_send_many(t.udp, &datagram, 1))          \
    X(coir_udp_recv_many, WAITS, coir_udp_recv_many(t.udp, &datagram, 1))         \
    FILE_ROWS(X)

/* In a handler, whose client sends no body. */
#define WEB_ROWS(X)                                                                          \
    X(coir_request_read, WAITS, coir_request_read(t.request, bytes, 1))                      \
    X(coir_request_body, WAITS, coir_request_body(t.request, 10, &t.body))                   \
    X(coir_respond, ENDS, coir_respond(t.response, 500, "text/plain", "no", 2))              \
    X(coir_respond_text, ENDS, coir_respond_text(t.response, 500, "no"))                     \
    X(coir_response_begin, ENDS, coir_response_begin(t.response, 500, "text/plain", 2))      \
    X(coir_response_write, ENDS, coir_response_write(t.response, "no", 2))                   \
    X(coir_response_flush, ENDS, coir_response_flush(t.response))                            \
    X(coir_sse_begin, ENDS, coir_sse_begin(t.request, t.response))                           \
    X(coir_sse_send, ENDS, coir_sse_send(t.response, &sse_event))                            \
    X(coir_sse_send_text, ENDS, coir_sse_send_text(t.response, "no"))                        \
    X(coir_sse_comment, ENDS, coir_sse_comment(t.response, "no"))                            \
    X(coir_fastcgi_pass, WAITS, coir_fastcgi_pass(t.fastcgi, t.request, t.response, &script)) \
    WEBSOCKET_WEB_ROWS(X)

/* clang-format on */

/* They give back what their callers hold, and so cannot be refused:
 * X(coir_scope_close, X(coir_set_done, X(coir_generator_free, X(coir_process_close, */

struct row {
    const char *name;
    int ends;
    ssize_t (*call)(void);
};

#define CALL(name, how, expression)  \
    static ssize_t call_##name(void) \
    {                                \
        return expression;           \
    }
#define ROW(name, how, expression) {#name, how, call_##name},
ROWS(CALL)
WEB_ROWS(CALL)
static const struct row rows[] = {ROWS(ROW)}, web_rows[] = {WEB_ROWS(ROW)};

/* ---- the question to each ---- */

static void expect(const struct row *row, const char *when, ssize_t got, int want)
{
    if (got != want)
        test_fail(__FILE__, __LINE__, "%s, %s, says %zd (%s), not %s", row->name, when, got,
                  got < 0 ? coir_strerror((int)got) : "", coir_strerror(want));
}

static void check_deadline(const struct row *row)
{
    COIR_DEADLINE_AS(outer, coir_in(1000 * COIR_S));
    {
        COIR_DEADLINE_AS(late, coir_in(2 * COIR_MS));
        if (row->ends)
            coir_sleep_for(1000 * COIR_S);
        else
            expect(row, "waiting at its deadline", row->call(), -ETIME);
        expect(row, "made after the deadline", row->call(), -ETIME);
        CHECK_EQ(coir_go(t.scope, nothing, NULL), -ETIME);
        CHECK_EQ(coir_go(NULL, nothing, NULL), -ETIME);
        CHECK_EQ(coir_task_interrupted(), -ETIME);
        CHECK_EQ(coir_deadline_passed(late), 1);
        CHECK_EQ(coir_deadline_passed(outer), 0);
        {
            COIR_DEADLINE_AS(inner, coir_in(1000 * COIR_S));
            expect(row, "inside of another deadline", row->call(), -ETIME);
            CHECK_EQ(coir_deadline_passed(inner), 0); /* it was the one around */
        }
    }
    CHECK_EQ(coir_task_interrupted(), 0);
    CHECK_EQ(coir_yield(), 0);
}

struct question {
    const struct row *row;
    int want;
};

static int ask_as_child(void *arg)
{
    const struct question *question = arg;
    COIR_DEADLINE_AS(own, coir_in(1000 * COIR_S));
    if (!question->row->ends)
        expect(question->row, "waiting as its task is cancelled", question->row->call(),
               question->want);
    else
        coir_event_wait(&t.never);
    expect(question->row, "made in a cancelled task", question->row->call(), question->want);
    CHECK_EQ(coir_go(t.scope, nothing, NULL), question->want);
    CHECK_EQ(coir_task_interrupted(), question->want);
    CHECK_EQ(coir_deadline_passed(own), 0);
    return coir_task_interrupted();
}

static void check_cancel(const struct row *row)
{
    struct question question = {row, -ECANCELED};
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, ask_as_child, &question), 0);
    coir_sleep_for(COIR_MS);
    coir_scope_cancel(scope);
    CHECK_EQ(coir_scope_wait(scope), 0);
}

static void check_deadline_of_opener(const struct row *row)
{
    struct question question = {row, -ETIME};
    COIR_DEADLINE_AS(late, coir_in(2 * COIR_MS));
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, ask_as_child, &question), 0);
    CHECK_EQ(coir_scope_wait(scope), -ETIME);
    CHECK_EQ(coir_deadline_passed(late), 1);
}

static void ask_all(const struct row *table, size_t count)
{
    for (const struct row *row = table; row < table + count; row++) {
        check_deadline(row);
        check_cancel(row);
        check_deadline_of_opener(row);
    }
}

/* ---- making the objects ---- */

/* Writes until there is no room, and there will be none: the peer does not read. A socket that has
 * a little room does not say so. */
static void fill(coir_stream *stream)
{
    static char much[1 << 20];
    bool wrote = true;
    while (wrote) {
        COIR_DEADLINE(coir_in(50 * COIR_MS));
        wrote = coir_write(stream, much, sizeof much) > 0;
        while (coir_try_write(stream, much, sizeof much) > 0)
            wrote = true;
    }
}

static int connect_there(void *arg)
{
    return coir_tcp_connect(t.address, arg);
}

static void make_pair(void)
{
    coir_listener *listener;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    CHECK(coir_listener_local(listener, t.address, sizeof t.address) > 0);
    CHECK_EQ(coir_go(scope, connect_there, &t.full), 0);
    CHECK_EQ(coir_accept(listener, &t.peer), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_listener_close(listener);
    fill(t.full);
    t.silent = t.full;
}

static int connect_locally(void *arg)
{
    return coir_tcp_connect(arg, &t.local[0]);
}

static void make_local_pair(void)
{
    coir_listener *listener;
    char address[64];
    COIR_SCOPE(scope);
    CHECK_EQ(coir_tcp_listen("unix:@", &listener), 0);
    CHECK(coir_listener_local(listener, address, sizeof address) > 0);
    CHECK_EQ(coir_go(scope, connect_locally, address), 0);
    CHECK_EQ(coir_accept(listener, &t.local[1]), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_listener_close(listener);
    CHECK_EQ(coir_reader_new(t.local[0], 0, &t.reader), 0);
}

static void make_queue(void)
{
    coir_write_queue_options options = COIR_WRITE_QUEUE_OPTIONS;
    options.items_max = 1;
    CHECK_EQ(coir_duplex(1, &t.narrow[0], &t.narrow[1]), 0);
    CHECK_EQ(coir_buffer_new("abc", 3, &t.buffer), 0);
    CHECK_EQ(coir_write_queue_new_with(t.narrow[0], &options, &t.queue), 0);
    CHECK_EQ(coir_write_queue_push(t.queue, t.buffer), 0);
    CHECK_EQ(coir_write_queue_push(t.queue, t.buffer), 0); /* when the first has begun */
}

static void make_pipes(void)
{
    CHECK_EQ(pipe2(t.empty, O_NONBLOCK | O_CLOEXEC), 0);
    CHECK_EQ(pipe2(t.stuffed, O_NONBLOCK | O_CLOEXEC), 0);
    while (write(t.stuffed[1], bytes, sizeof bytes) > 0)
        continue;
}

static void make_objects(void)
{
    int signals[] = {SIGUSR2};
    t.own = (coir_mutex)COIR_MUTEX_INIT;
    CHECK_EQ(coir_channel_new(sizeof item, 0, &t.channel), 0);
    CHECK_EQ(coir_topic_new(sizeof item, &t.topic), 0);
    CHECK_EQ(coir_subscribe(t.topic, 1, COIR_OVERFLOW_WAIT, &t.subscription), 0);
    CHECK_EQ(coir_publish(t.topic, &item), 1);
    CHECK_EQ(coir_latest_new(sizeof item, &item, &t.latest), 0);
    CHECK_EQ(coir_mutex_try_lock(&t.mutex), 0);
    CHECK_EQ(coir_shared_mutex_try_lock(&t.shared), 0);
    CHECK_EQ(coir_signals_open(signals, 1, &t.signals), 0);
    CHECK_EQ(coir_process_spawn(&t.process, command), 0);
    make_pair();
    make_local_pair();
    make_pipes();
    make_queue();
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &t.listener), 0);
    CHECK(coir_listener_local(t.listener, t.address, sizeof t.address) > 0);
    CHECK_EQ(coir_udp_open("127.0.0.1:0", NULL, &t.udp), 0);
    CHECK_EQ(coir_file_open_temporary(NULL, 0600, &t.file), 0);
    CHECK_EQ(coir_listing_open(NULL, "/", &t.listing), 0);
    CHECK_EQ(coir_watcher_open(&t.watcher), 0);
    make_terminal();
}

static void free_objects(void)
{
    coir_channel_free(t.channel);
    coir_channel_free(t.subscription);
    coir_topic_free(t.topic);
    coir_latest_free(t.latest);
    coir_process_close(&t.process);
    coir_signals_close(t.signals);
    coir_reader_free(t.reader);
    coir_write_queue_free(t.queue);
    coir_buffer_unref(t.buffer);
    coir_close(t.narrow[0]);
    coir_close(t.narrow[1]);
    coir_close(t.full);
    coir_close(t.peer);
    coir_listener_close(t.listener);
    coir_udp_close(t.udp);
    coir_file_close(t.file);
    coir_listing_close(t.listing);
    coir_watcher_close(t.watcher);
    free_terminal();
    for (int i = 0; i < 2; i++) {
        close(t.empty[i]);
        close(t.stuffed[i]);
        coir_close(t.local[i]);
    }
}

/* ---- the test ---- */

static void ask_about_everything(void)
{
    COIR_SERVING_SCOPE(scope);
    COIR_HANDLE(handle);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = t.handle = handle;
    t.scope = scope;
    make_objects();
    CHECK_EQ(coir_go_with(scope, &options, wait_never, NULL), 0);
    ask_all(rows, sizeof rows / sizeof rows[0]);
    coir_scope_cancel(scope);
    CHECK_EQ(coir_scope_wait(scope), 0);
    free_objects();
}

static int ask_in_handler(coir_request *req, coir_response *res, void *arg)
{
    (void)arg;
    t.request = req;
    t.response = res;
    coir_listener *silent;
    char address[64];
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &silent), 0);
    CHECK(coir_listener_local(silent, address, sizeof address) > 0);
    CHECK_EQ(coir_fastcgi_new(address, &t.fastcgi), 0);
    ask_all(web_rows, sizeof web_rows / sizeof web_rows[0]);
    coir_fastcgi_free(t.fastcgi);
    coir_listener_close(silent);
    return coir_respond_text(res, 200, "nothing is harmed");
}

static int serve_questions(void *arg)
{
    coir_router *router = NULL;
    CHECK_EQ(coir_router_new(&router), 0);
    CHECK_EQ(coir_route(router, "POST", "/", ask_in_handler, NULL), 0);
    int rc = coir_serve_http_with(HTTP_ON(arg), router);
    coir_router_free(router);
    return rc;
}

static void ask_about_the_web(void)
{
    static const char request[] = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n",
                      body[] = "0123456789";
    char answer[1000] = "";
    size_t len = 0;
    coir_stream *stream;
    COIR_SERVING_SCOPE(scope);
    t.scope = scope;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &t.listener), 0);
    CHECK(coir_listener_local(t.listener, t.address, sizeof t.address) > 0);
    CHECK_EQ(coir_go(scope, serve_questions, t.listener), 0);
    CHECK_EQ(coir_tcp_connect(t.address, &stream), 0);
    CHECK_EQ(coir_write_all(stream, request, sizeof request - 1), 0);
    while (!strstr(answer, "harmed")) {
        ssize_t n = coir_read(stream, answer + len, sizeof answer - 1 - len);
        CHECK(n > 0);
        len += (size_t)n;
    }
    CHECK(strncmp(answer, "HTTP/1.1 200", 12) == 0);
    CHECK_EQ(coir_write_all(stream, body, sizeof body - 1), 0);
    coir_close(stream);
    coir_scope_cancel(scope);
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_listener_close(t.listener);
}

#include "deadline_websocket_rows.h"

/* On the driver, where it works here; COIR_DRIVER in the environment asks for one alone. */
static void on_driver(const char *driver, void (*body)(void))
{
    const char *wanted = getenv("COIR_DRIVER");
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    if (wanted && strcmp(wanted, driver) != 0)
        return;
    setenv("COIR_DRIVER", driver, 1);
    if (coir_runtime_new(&config, &runtime) < 0) {
        CHECK(strcmp(driver, "io_uring") == 0);
        return;
    }
    coir_runtime_free(runtime);
    test_in_runtime(body, 1);
}

#define ON(driver)                                          \
    TEST(every_call_keeps_the_rule_on_##driver)             \
    {                                                       \
        on_driver(#driver, ask_about_everything);           \
    }                                                       \
    TEST(every_call_of_a_handler_keeps_the_rule_##driver)   \
    {                                                       \
        on_driver(#driver, ask_about_the_web);              \
    }                                                       \
    TEST(every_call_of_a_websocket_keeps_the_rule_##driver) \
    {                                                       \
        on_driver(#driver, ask_about_sockets);              \
    }

ON(io_uring)
ON(epoll)
ON(poll)

/* ---- whose it was ---- */

static int fail_by_itself(void *arg)
{
    return (int)(intptr_t)arg;
}

/* The awaited call failed with an error of that name, but the task was not interrupted. */
static void tell_apart(int error)
{
    coir_call call;
    COIR_DEADLINE_AS(limit, coir_in(1000 * COIR_S));
    COIR_SERVING_SCOPE(scope);
    COIR_HANDLE(handle);
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = handle;
    CHECK_EQ(coir_go_with(scope, &options, fail_by_itself, (void *)(intptr_t)error), 0);
    CHECK_EQ(coir_join(handle), error);
    CHECK_EQ(coir_call_on(0, fail_by_itself, (void *)(intptr_t)error), error);
    CHECK_EQ(coir_offload(fail_by_itself, (void *)(intptr_t)error), error);
    CHECK_EQ(coir_await(coir_call_init(&call, fail_by_itself, (void *)(intptr_t)error)), error);
    {
        COIR_SCOPE(plain);
        CHECK_EQ(coir_go(plain, fail_by_itself, (void *)(intptr_t)error), 0);
        CHECK_EQ(coir_scope_wait(plain), error);
    }
    CHECK_EQ(coir_task_interrupted(), 0);
    CHECK_EQ(coir_deadline_passed(limit), 0);
    CHECK_EQ(coir_yield(), 0);
}

TEST_SIM(what_failed_by_itself_is_told_apart)
{
    tell_apart(-ETIME);
    tell_apart(-ECANCELED);
}

/* ---- waiting for a scope ---- */

static int sleep_then_say(void *arg)
{
    coir_time *woke = arg;
    int rc = coir_sleep_for(10 * COIR_S);
    *woke = coir_now();
    return rc;
}

/* A deadline inside of the scope ends the wait; one around it ends the tasks. */
TEST_SIM(a_deadline_inside_of_a_scope_ends_the_wait_and_not_the_tasks)
{
    coir_time woke = 0, start = coir_now();
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, sleep_then_say, &woke), 0);
    {
        COIR_DEADLINE(coir_in(COIR_S));
        CHECK_EQ(coir_scope_wait(scope), -ETIME);
        CHECK_EQ(coir_scope_wait(scope), -ETIME);
    }
    CHECK_EQ(woke, 0);
    CHECK_EQ(coir_scope_live(scope), 1);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK(woke - start >= 10 * COIR_S);
}

/* The deadline may go on, but not the scopes that it has ended. */
TEST_SIM(scopes_that_a_deadline_has_ended_stay_so_when_it_is_moved)
{
    COIR_DEADLINE_AS(limit, coir_in(COIR_MS));
    COIR_SCOPE(before);
    CHECK_EQ(coir_go(before, nothing, NULL), 0);
    CHECK_EQ(coir_sleep_for(COIR_S), -ETIME);
    COIR_SCOPE(after);
    CHECK_EQ(coir_go(after, nothing, NULL), -ETIME);
    coir_deadline_move(limit, coir_in(COIR_S));
    CHECK_EQ(coir_yield(), 0);
    CHECK_EQ(coir_go(before, nothing, NULL), -ETIME);
    CHECK_EQ(coir_go(after, nothing, NULL), -ETIME);
    COIR_SCOPE(new);
    CHECK_EQ(coir_go(new, nothing, NULL), 0);
    CHECK_EQ(coir_scope_wait(new), 0);
}

TEST_SIM(a_moved_deadline_has_not_passed)
{
    COIR_DEADLINE_AS(limit, coir_now());
    CHECK_EQ(coir_deadline_passed(limit), 1);
    CHECK_EQ(coir_yield(), -ETIME);
    coir_deadline_move(limit, coir_in(COIR_S));
    CHECK_EQ(coir_deadline_passed(limit), 0);
    CHECK_EQ(coir_yield(), 0);
}
