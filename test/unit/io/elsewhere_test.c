/* Calls on an object of another worker: refused, and named in the log of the object's runtime. */
#include <coir.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"

enum { VOID = 1 /* a call without a result */ };

static struct {
    coir_stream *ends[2], *detached;
    coir_write_queue *queue;
    coir_udp *udp;
    coir_signals *signals;
    coir_watcher *watcher;
    coir_pty pty;
    coir_terminal terminal;
    coir_scope scope;
    coir_handle handle;
    coir_cancel_scope deadline;
    coir_set set;
    coir_branch member;
    coir_sleep_op pause;
    coir_parker parker;
    coir_generator *generator;
    coir_process process;
    coir_channel *start;
} own;
static char byte;
static coir_datagram datagram = COIR_DATAGRAM;
static coir_udp_op udp_op;

static int run_generator(coir_generator *generator, uint64_t first, void *arg)
{
    (void)first, (void)arg;
    return coir_generator_yield(generator, 1, NULL) == -ECANCELED ? 0 : -EBADMSG;
}

static int wait_for_end(void *arg)
{
    (void)arg;
    return coir_channel_recv(own.start, &byte) == -EPIPE ? 0 : -EBADMSG;
}

#define CALL(name, ...)                       \
    {                                         \
#name, name##_elsewhere, -EXDEV, true \
    }
#define SUSPENDING(name)                       \
    {                                          \
#name, name##_elsewhere, -EXDEV, false \
    }
#define NO_RESULT(name)                     \
    {                                       \
#name, name##_elsewhere, VOID, true \
    }
#define DEFINE(name, expression)           \
    static long name##_elsewhere(void)     \
    {                                      \
        long rc = (long)(expression);      \
        __asm__ volatile("" ::: "memory"); \
        return rc;                         \
    }

DEFINE(coir_read, coir_read(own.ends[0], &byte, 1))
DEFINE(coir_write, coir_write(own.ends[0], &byte, 1))
DEFINE(coir_try_read, coir_try_read(own.ends[0], &byte, 1))
DEFINE(coir_try_write, coir_try_write(own.ends[0], &byte, 1))
DEFINE(coir_shutdown_write, coir_shutdown_write(own.ends[0]))
DEFINE(coir_stream_detach, coir_stream_detach(own.ends[0]))
DEFINE(coir_stream_release, coir_stream_release(own.ends[0], NULL, 0, &(size_t){0}, &(coir_fd){0}))
DEFINE(coir_close, (coir_close(own.ends[0]), VOID))
DEFINE(coir_stream_peer, coir_stream_peer(own.ends[0], &byte, 1))
DEFINE(coir_stream_local, coir_stream_local(own.ends[0], &byte, 1))
DEFINE(coir_stream_set_timeout, coir_stream_set_timeout(own.ends[0], COIR_READ, COIR_S, 0))
DEFINE(coir_stream_wait, coir_stream_wait(own.ends[0], COIR_READ))
DEFINE(coir_peek, coir_peek(own.ends[0], &byte, 1))
DEFINE(coir_read_full, coir_read_full(own.ends[0], &byte, 1, &(size_t){0}))
DEFINE(coir_write_all, coir_write_all(own.ends[0], &byte, 1))
DEFINE(coir_tcp_set_option, coir_tcp_set_option(own.ends[0], COIR_TCP_NODELAY, 1))
DEFINE(coir_tcp_get_option, coir_tcp_get_option(own.ends[0], COIR_TCP_NODELAY))
DEFINE(coir_tcp_info_get, coir_tcp_info_get(own.ends[0], &(coir_tcp_info)COIR_TCP_INFO))
DEFINE(coir_unix_peer, coir_unix_peer(own.ends[0], &(coir_credentials)COIR_CREDENTIALS))
DEFINE(coir_write_queue_new, coir_write_queue_new(own.ends[0], &(coir_write_queue *){NULL}))
DEFINE(coir_write_queue_free, (coir_write_queue_free(own.queue), VOID))
DEFINE(coir_udp_send, coir_udp_send(own.udp, &byte, 1))
DEFINE(coir_udp_recv, coir_udp_recv(own.udp, &byte, 1, NULL))
DEFINE(coir_udp_send_op, coir_await(coir_udp_send_op(&udp_op, own.udp, &byte, 1)))
DEFINE(coir_udp_recv_op, coir_await(coir_udp_recv_op(&udp_op, own.udp, &byte, 1, NULL)))
DEFINE(coir_udp_recv_many, coir_udp_recv_many(own.udp, &datagram, 1))
DEFINE(coir_udp_local, coir_udp_local(own.udp, &byte, 1))
DEFINE(coir_udp_join, coir_udp_join(own.udp, &(coir_address){{0}}, NULL))
DEFINE(coir_udp_leave, coir_udp_leave(own.udp, &(coir_address){{0}}, NULL))
DEFINE(coir_udp_send_to, coir_udp_send_to(own.udp, &byte, 1, &(coir_address){{0}}))
DEFINE(coir_udp_send_many, coir_udp_send_many(own.udp, &datagram, 1))
DEFINE(coir_udp_close, (coir_udp_close(own.udp), VOID))
DEFINE(coir_signals_close, (coir_signals_close(own.signals), VOID))
DEFINE(coir_watcher_add, coir_watcher_add(own.watcher, "/", 0))
DEFINE(coir_watcher_add_at, coir_watcher_add_at(own.watcher, NULL, "/", 0))
DEFINE(coir_watcher_remove, coir_watcher_remove(own.watcher, 1))
DEFINE(coir_watcher_next, coir_watcher_next(own.watcher, &(coir_change)COIR_CHANGE))
DEFINE(coir_watcher_close, (coir_watcher_close(own.watcher), VOID))
DEFINE(coir_pty_set_size, coir_pty_set_size(&own.pty, &(struct winsize){.ws_row = 1}))
DEFINE(coir_pty_open_terminal, coir_pty_open_terminal(&own.pty))
DEFINE(coir_pty_close, (coir_pty_close(&own.pty), VOID))
DEFINE(coir_terminal_set_mode, coir_terminal_set_mode(&own.terminal, COIR_TERMINAL_RAW))
DEFINE(coir_terminal_size, coir_terminal_size(&own.terminal, &(struct winsize){.ws_row = 1}))
DEFINE(coir_terminal_resized, coir_terminal_resized(&own.terminal, &(struct winsize){.ws_row = 1}))
DEFINE(coir_terminal_close, (coir_terminal_close(&own.terminal), VOID))
DEFINE(coir_scope_wait, coir_scope_wait(&own.scope))
DEFINE(coir_scope_cancel, (coir_scope_cancel(&own.scope), VOID))
DEFINE(coir_scope_close, (coir_scope_close(&own.scope), VOID))
DEFINE(coir_join, coir_join(&own.handle))
DEFINE(coir_join_op, coir_join_op(&own.handle) ? -EBADMSG : VOID)
DEFINE(coir_case_join, coir_case_join(&own.handle).number)
DEFINE(coir_cancel, (coir_cancel(&own.handle), VOID))
DEFINE(coir_handle_has_ended, coir_handle_has_ended(&own.handle) ? -EBADMSG : VOID)
DEFINE(coir_handle_done, (coir_handle_done(&own.handle), VOID))
DEFINE(coir_deadline_move, (coir_deadline_move(&own.deadline, 1), VOID))
DEFINE(coir_cancel_scope_leave, (coir_cancel_scope_leave(&own.deadline), VOID))
DEFINE(coir_set_next, coir_set_next(&own.set, &(coir_branch *){NULL}))
DEFINE(coir_set_next_op, coir_set_next_op(&own.set, &(coir_branch *){NULL}) ? -EBADMSG : VOID)
DEFINE(coir_set_cancel, (coir_set_cancel(&own.set), VOID))
DEFINE(coir_set_done, (coir_set_done(&own.set), VOID))
DEFINE(coir_parker_wait, coir_parker_wait(&own.parker))
DEFINE(coir_generator_next, coir_generator_next(own.generator, 0, &(uint64_t){0}))
DEFINE(coir_generator_free, (coir_generator_free(own.generator), VOID))
DEFINE(coir_process_signal, coir_process_signal(&own.process, SIGTERM))
DEFINE(coir_process_kill, coir_process_kill(&own.process))
DEFINE(coir_process_wait, coir_process_wait(&own.process))
DEFINE(coir_process_close, (coir_process_close(&own.process), VOID))

static const struct call {
    const char *name;
    long (*make)(void);
    int error;
    bool is_named_outside; /* on a plain thread; others are told there that they need a fiber */
} calls[] = {
    SUSPENDING(coir_read),
    SUSPENDING(coir_write),
    SUSPENDING(coir_try_read),
    SUSPENDING(coir_try_write),
    CALL(coir_shutdown_write),
    SUSPENDING(coir_stream_detach),
    SUSPENDING(coir_stream_release),
    NO_RESULT(coir_close),
    CALL(coir_stream_peer),
    CALL(coir_stream_local),
    CALL(coir_stream_set_timeout),
    SUSPENDING(coir_stream_wait),
    SUSPENDING(coir_peek),
    SUSPENDING(coir_read_full),
    SUSPENDING(coir_write_all),
    CALL(coir_tcp_set_option),
    CALL(coir_tcp_get_option),
    CALL(coir_tcp_info_get),
    CALL(coir_unix_peer),
    SUSPENDING(coir_write_queue_new),
    NO_RESULT(coir_write_queue_free),
    SUSPENDING(coir_udp_send),
    SUSPENDING(coir_udp_recv),
    SUSPENDING(coir_udp_send_op),
    SUSPENDING(coir_udp_recv_op),
    SUSPENDING(coir_udp_recv_many),
    CALL(coir_udp_local),
    SUSPENDING(coir_udp_join),
    SUSPENDING(coir_udp_leave),
    SUSPENDING(coir_udp_send_to),
    SUSPENDING(coir_udp_send_many),
    NO_RESULT(coir_udp_close),
    NO_RESULT(coir_signals_close),
    CALL(coir_watcher_add),
    CALL(coir_watcher_add_at),
    CALL(coir_watcher_remove),
    CALL(coir_watcher_next),
    NO_RESULT(coir_watcher_close),
    SUSPENDING(coir_pty_set_size),
    SUSPENDING(coir_pty_open_terminal),
    NO_RESULT(coir_pty_close),
    SUSPENDING(coir_terminal_set_mode),
    SUSPENDING(coir_terminal_size),
    SUSPENDING(coir_terminal_resized),
    NO_RESULT(coir_terminal_close),
    SUSPENDING(coir_scope_wait),
    NO_RESULT(coir_scope_cancel),
    NO_RESULT(coir_scope_close),
    SUSPENDING(coir_join),
    NO_RESULT(coir_join_op),
    CALL(coir_case_join),
    NO_RESULT(coir_cancel),
    NO_RESULT(coir_handle_has_ended),
    NO_RESULT(coir_handle_done),
    NO_RESULT(coir_deadline_move),
    NO_RESULT(coir_cancel_scope_leave),
    CALL(coir_set_next),
    NO_RESULT(coir_set_next_op),
    NO_RESULT(coir_set_cancel),
    NO_RESULT(coir_set_done),
    SUSPENDING(coir_parker_wait),
    SUSPENDING(coir_generator_next),
    NO_RESULT(coir_generator_free),
    SUSPENDING(coir_process_signal),
    SUSPENDING(coir_process_kill),
    SUSPENDING(coir_process_wait),
    NO_RESULT(coir_process_close),
};

/* ---- what is said ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char said[600];

static void take_line(enum coir_log_level level, const char *line, void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    if (level == COIR_LOG_ERROR)
        snprintf(said, sizeof said, "%s", line);
    pthread_mutex_unlock(&lock);
}

static void expect_named(const struct call *call, const char *where)
{
    char start[200];
    snprintf(start, sizeof start, "misuse: %s: it belongs to worker 0, and this is %s; make the ",
             call->name, where);
    if (strncmp(said, start, strlen(start)) != 0)
        test_fail(__FILE__, __LINE__, "%s is not named: %s", call->name, said);
}

static void make_calls(const char *where, int error, bool in_fiber)
{
    for (const struct call *call = calls; call < calls + sizeof calls / sizeof *calls; call++) {
        said[0] = '\0';
        long rc = call->make();
        if (rc != (call->error == VOID ? VOID : error))
            test_fail(__FILE__, __LINE__, "%s returns %ld", call->name, rc);
        if ((in_fiber || call->is_named_outside) && strcmp(call->name, "coir_parker_wait") != 0)
            expect_named(call, where);
    }
}

static int on_another_worker(void *arg)
{
    (void)arg;
    make_calls("worker 1", -EXDEV, true);
    return 0;
}

static int on_a_plain_thread(void *arg)
{
    (void)arg;
    make_calls("a thread that is no worker", -ESRCH, false);
    return 0;
}

/* ---- the owner ---- */

static void make_objects(void)
{
    static const char *const command[] = {"/bin/sleep", "1000", NULL};
    static coir_go_options options = COIR_GO_OPTIONS;
    int number = SIGUSR1;
    options.handle = &own.handle;
    CHECK_EQ(coir_channel_new(1, 1, &own.start), 0);
    CHECK_EQ(coir_duplex(0, &own.ends[0], &own.ends[1]), 0);
    CHECK_EQ(coir_write_queue_new(own.ends[1], &own.queue), 0);
    CHECK_EQ(coir_udp_open("127.0.0.1:0", NULL, &own.udp), 0);
    CHECK_EQ(coir_signals_open(&number, 1, &own.signals), 0);
    CHECK_EQ(coir_watcher_open(&own.watcher), 0);
    CHECK_EQ(coir_pty_open(&own.pty, NULL), 0);
    coir_fd fd = coir_pty_open_terminal(&own.pty);
    CHECK_EQ(coir_terminal_open(&own.terminal, fd), 0);
    close(fd);
    CHECK_EQ(coir_go_with(coir_scope_open(&own.scope), &options, wait_for_end, NULL), 0);
    coir_deadline_enter(&own.deadline, COIR_NEVER);
    coir_set_init(&own.set);
    own.member.future = coir_sleep_for_op(&own.pause, 1 * COIR_MS);
    CHECK_EQ(coir_set_add(&own.set, &own.member), 0);
    CHECK_EQ(coir_parker_init(&own.parker), 0);
    CHECK_EQ(coir_generator_new(run_generator, NULL, &own.generator), 0);
    CHECK_EQ(coir_generator_next(own.generator, 0, &(uint64_t){0}), 1);
    CHECK_EQ(coir_process_spawn(&own.process, command), 0);
}

/* Nothing has happened to them. */
static void use_objects(void)
{
    coir_branch *found;
    CHECK_EQ(coir_write(own.ends[0], "x", 1), 1);
    CHECK_EQ(coir_read(own.ends[1], &byte, 1), 1);
    coir_write_queue_free(own.queue);
    coir_close(own.ends[0]);
    coir_close(own.ends[1]);
    CHECK(coir_udp_local(own.udp, (char[64]){0}, 64) > 0);
    coir_udp_close(own.udp);
    coir_signals_close(own.signals);
    CHECK_EQ(coir_watcher_add(own.watcher, "/", 0), 1);
    coir_watcher_close(own.watcher);
    struct winsize size;
    CHECK(coir_terminal_size(&own.terminal, &size) == 0 && size.ws_row == 24);
    coir_terminal_close(&own.terminal);
    coir_pty_close(&own.pty);
    CHECK_EQ(coir_set_next(&own.set, &found), 1);
    coir_parker_done(&own.parker);
    coir_generator_free(own.generator);
    CHECK_EQ(coir_process_kill(&own.process), 0);
    coir_process_close(&own.process);
    coir_cancel_scope_leave(&own.deadline);
    CHECK(!coir_handle_has_ended(&own.handle));
    coir_channel_close(own.start);
    CHECK_EQ(coir_join(&own.handle), 0);
    coir_scope_close(&own.scope);
    coir_channel_free(own.start);
}

static int misuse_on_another_worker(void *arg)
{
    (void)arg;
    make_objects();
    CHECK_EQ(coir_call_on(1, on_another_worker, NULL), 0);
    use_objects();
    return 0;
}

static int misuse_on_a_plain_thread(void *arg)
{
    (void)arg;
    make_objects();
    CHECK_EQ(coir_offload(on_a_plain_thread, NULL), 0);
    use_objects();
    return 0;
}

static void run_on_two_workers(coir_task_fn *fn)
{
    coir_config config = COIR_CONFIG;
    config.workers = 2;
    config.log = take_line;
    CHECK_EQ(test_run(&config, fn, NULL), 0);
}

/* In processes of their own, as each place is named once. */
TEST(an_object_is_its_workers)
{
    run_on_two_workers(misuse_on_another_worker);
}

TEST(an_object_is_of_no_plain_thread)
{
    run_on_two_workers(misuse_on_a_plain_thread);
}

/* ---- any worker's, or nobody's ---- */

static int close_listener(void *listener)
{
    static const struct call call = {"coir_listener_close", NULL, VOID, true};
    coir_listener_close(listener);
    expect_named(&call, "a thread that is no worker");
    return 0;
}

static int misuse_listener(void *arg)
{
    coir_listener *listener;
    char address[64];
    (void)arg;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    CHECK_EQ(coir_offload(close_listener, listener), 0);
    CHECK(coir_listener_local(listener, address, sizeof address) > 0);
    coir_listener_close(listener);
    return 0;
}

TEST(a_listener_is_closed_on_a_worker)
{
    run_on_two_workers(misuse_listener);
}

static int close_nobodys(void *arg)
{
    (void)arg;
    coir_close(own.detached);
    CHECK_EQ(coir_shutdown_write(own.detached), -ESRCH);
    CHECK_EQ(coir_try_read(own.detached, &byte, 1), -ESRCH);
    CHECK_EQ(coir_try_write(own.detached, &byte, 1), -ESRCH);
    CHECK_EQ(coir_stream_peer(own.detached, &byte, 1), -ESRCH);
    CHECK_EQ(coir_tcp_set_option(own.detached, COIR_TCP_NODELAY, 1), -ESRCH);
    CHECK_EQ(coir_tcp_get_option(own.detached, COIR_TCP_NODELAY), -ESRCH);
    CHECK_EQ(coir_tcp_info_get(own.detached, &(coir_tcp_info)COIR_TCP_INFO), -ESRCH);
    return 0;
}

TEST_REAL(a_stream_that_is_detached_is_closed_on_a_worker)
{
    coir_listener *listener;
    char address[64];
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    CHECK(coir_listener_local(listener, address, sizeof address) > 0);
    CHECK_EQ(coir_tcp_connect(address, &own.detached), 0);
    CHECK_EQ(coir_stream_detach(own.detached), 0);
    CHECK_EQ(coir_offload(close_nobodys, NULL), 0);
    coir_close(own.detached);
    coir_listener_close(listener);
}
