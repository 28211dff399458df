/* Calls of streams, listeners, files, signals and datagrams with NULL where there must be
 * something: an error; a debug build names the call. */
#include "misuse.h"

static coir_stream *stream, *peer;
static coir_listener *listener;
static coir_io_op io_op;
static coir_io_all_op all_op;
static coir_open_op open_op;
static coir_file_op file_op;
static coir_udp_op udp_op;
static coir_signals_op signals_op;
static coir_watcher_op watcher_op;
static coir_change change = COIR_CHANGE;
static coir_address address;
static coir_datagram datagram = COIR_DATAGRAM;
static const coir_udp_options udp_options = COIR_UDP_OPTIONS;
static char bytes[256];
static struct iovec piece = {bytes, 1};

/* Within a runtime; the calls that a debug build names are made in a plain thread, below, as a
 * child of a runtime's process may make none. */
#define IS_REFUSED(call, arguments) CHECK_EQ(call arguments, -EINVAL)
#define FAILS(call, arguments) CHECK_EQ(coir_await(call arguments), -EINVAL)
#define IS_REFUSED_IN_DEBUG(call, arguments) \
    do {                                     \
        if (CI_DEBUG)                        \
            IS_REFUSED(call, arguments);     \
    } while (0)
#define FAILS_IN_DEBUG(call, arguments) \
    do {                                \
        if (CI_DEBUG)                   \
            FAILS(call, arguments);     \
    } while (0)

TEST_REAL(streams_look_at_their_arguments)
{
    CHECK_EQ(coir_duplex(0, &stream, &peer), 0);
    IS_REFUSED(coir_duplex, (0, NULL, &peer));
    IS_REFUSED(coir_duplex, (0, &stream, NULL));
    IS_REFUSED_IN_DEBUG(coir_read, (NULL, bytes, 1));
    IS_REFUSED_IN_DEBUG(coir_read, (stream, NULL, 1));
    IS_REFUSED_IN_DEBUG(coir_write, (NULL, bytes, 1));
    IS_REFUSED_IN_DEBUG(coir_write, (stream, NULL, 1));
    IS_REFUSED_IN_DEBUG(coir_readv, (NULL, &piece, 1));
    IS_REFUSED_IN_DEBUG(coir_readv, (stream, NULL, 1));
    IS_REFUSED_IN_DEBUG(coir_writev, (NULL, &piece, 1));
    IS_REFUSED_IN_DEBUG(coir_writev, (stream, NULL, 1));
    IS_REFUSED_IN_DEBUG(coir_read_full, (NULL, bytes, 1, NULL));
    IS_REFUSED_IN_DEBUG(coir_write_all, (NULL, bytes, 1));
    IS_REFUSED_IN_DEBUG(coir_writev_all, (stream, NULL, 1));
    IS_REFUSED_IN_DEBUG(coir_try_read, (stream, NULL, 1));
    IS_REFUSED_IN_DEBUG(coir_try_write, (NULL, bytes, 1));
    IS_REFUSED_IN_DEBUG(coir_stream_wait, (NULL, COIR_READ));
    IS_REFUSED(coir_stream_wait, (stream, COIR_READ | 16)); /* a bit of the drivers' */
    FAILS(coir_stream_wait_op, (&io_op, stream, 256));
    IS_REFUSED(coir_fd_wait, (0, 16));
    FAILS(coir_fd_wait_op, (&io_op, 0, COIR_READ | 256));
    coir_case unknown[] = {coir_case_stream(stream, 256), coir_case_fd(0, 16)};
    CHECK_EQ(coir_select(&unknown[0], 1), 0);
    CHECK_EQ(unknown[0].result, -EINVAL);
    CHECK_EQ(coir_select(&unknown[1], 1), 0);
    CHECK_EQ(unknown[1].result, -EINVAL);
    FAILS_IN_DEBUG(coir_read_op, (&io_op, NULL, bytes, 1));
    FAILS_IN_DEBUG(coir_write_op, (&io_op, stream, NULL, 1));
    FAILS_IN_DEBUG(coir_readv_op, (&io_op, stream, NULL, 1));
    FAILS_IN_DEBUG(coir_writev_op, (&io_op, NULL, &piece, 1));
    FAILS_IN_DEBUG(coir_stream_wait_op, (&io_op, NULL, COIR_READ));
    FAILS_IN_DEBUG(coir_read_full_op, (&all_op, NULL, bytes, 1, NULL));
    FAILS_IN_DEBUG(coir_write_all_op, (&all_op, stream, NULL, 1));
    FAILS_IN_DEBUG(coir_writev_all_op, (&all_op, stream, NULL, 1));
    IS_REFUSED(coir_shutdown_write, (NULL));
    IS_REFUSED(coir_stream_detach, (NULL));
    IS_REFUSED(coir_stream_peer, (NULL, bytes, sizeof bytes));
    IS_REFUSED(coir_stream_local, (stream, NULL, sizeof bytes));
    IS_REFUSED(coir_tcp_set_option, (NULL, COIR_TCP_NODELAY, 1));
    coir_close(stream);
    coir_close(peer);
}

TEST_REAL(listeners_and_connects_look_at_their_arguments)
{
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    IS_REFUSED(coir_tcp_listen_with, (NULL, NULL, &listener));
    IS_REFUSED(coir_tcp_listen_with, ("127.0.0.1:0", NULL, NULL));
    IS_REFUSED(coir_tcp_connect, (NULL, &stream));
    IS_REFUSED(coir_tcp_connect, ("127.0.0.1:1", NULL));
    FAILS(coir_tcp_connect_op, (&open_op, NULL, &stream));
    IS_REFUSED(coir_accept, (NULL, &stream));
    IS_REFUSED(coir_accept, (listener, NULL));
    FAILS(coir_accept_op, (&open_op, NULL, &stream));
    IS_REFUSED(coir_listener_local, (NULL, bytes, sizeof bytes));
    IS_REFUSED(coir_listener_pause, (NULL));
    IS_REFUSED(coir_listener_resume, (NULL));
    IS_REFUSED(coir_listener_share, (NULL));
    coir_case cases[] = {coir_case_accept(NULL, &stream)};
    CHECK_EQ(coir_select(cases, 1), 0);
    CHECK_EQ(cases[0].result, -EINVAL);
    coir_listener_close(listener);
}

TEST_REAL(files_signals_watchers_and_datagrams_look_at_their_arguments)
{
    coir_file *file;
    coir_signals *signals;
    coir_watcher *watcher;
    coir_udp *udp;
    int64_t size;
    int number = SIGUSR1;
    IS_REFUSED(coir_file_open, (NULL, 0, 0, &file));
    IS_REFUSED(coir_file_open, ("/dev/null", 0, 0, NULL));
    IS_REFUSED(coir_file_read, (NULL, bytes, 1, 0));
    IS_REFUSED(coir_file_write, (NULL, bytes, 1, 0));
    IS_REFUSED(coir_file_sync, (NULL));
    IS_REFUSED(coir_file_size, (NULL, &size));
    FAILS(coir_file_read_op, (&file_op, NULL, bytes, 1, 0));
    FAILS(coir_file_write_op, (&file_op, NULL, bytes, 1, 0));
    FAILS(coir_file_sync_op, (&file_op, NULL));
    IS_REFUSED(coir_signals_open, (NULL, 1, &signals));
    IS_REFUSED(coir_signals_open, (&number, 1, NULL));
    IS_REFUSED(coir_signals_wait, (NULL));
    FAILS(coir_signals_wait_op, (&signals_op, NULL));
    IS_REFUSED(coir_watcher_open, (NULL));
    CHECK_EQ(coir_watcher_open(&watcher), 0);
    IS_REFUSED(coir_watcher_add, (NULL, "/", 0));
    IS_REFUSED(coir_watcher_add, (watcher, NULL, 0));
    IS_REFUSED(coir_watcher_add, (watcher, "/", 1024));
    IS_REFUSED(coir_watcher_add_at, (NULL, NULL, "/", 0));
    IS_REFUSED(coir_watcher_add_at, (watcher, NULL, NULL, 0));
    IS_REFUSED(coir_watcher_add_at, (watcher, NULL, "/", 1024));
    IS_REFUSED(coir_watcher_remove, (NULL, 1));
    IS_REFUSED(coir_watcher_next, (watcher, NULL));
    FAILS(coir_watcher_next_op, (&watcher_op, NULL, &change));
    coir_watcher_close(watcher);
    IS_REFUSED(coir_udp_open, (NULL, NULL, &udp));
    IS_REFUSED(coir_udp_open, ("127.0.0.1:0", NULL, NULL));
    IS_REFUSED(coir_udp_local, (NULL, bytes, sizeof bytes));
    IS_REFUSED(coir_udp_send, (NULL, bytes, 1));
    IS_REFUSED(coir_udp_send_to, (NULL, bytes, 1, &address));
    IS_REFUSED(coir_udp_recv, (NULL, bytes, 1, NULL));
    FAILS(coir_udp_send_op, (&udp_op, NULL, bytes, 1));
    FAILS(coir_udp_send_to_op, (&udp_op, NULL, bytes, 1, &address));
    FAILS(coir_udp_recv_op, (&udp_op, NULL, bytes, 1, NULL));
    IS_REFUSED(coir_udp_open_with, (&udp_options, &udp));
    IS_REFUSED(coir_udp_send_many, (NULL, &datagram, 1));
    IS_REFUSED(coir_udp_recv_many, (NULL, &datagram, 1));
    FAILS(coir_udp_send_many_op, (&udp_op, NULL, &datagram, 1));
    FAILS(coir_udp_recv_many_op, (&udp_op, NULL, &datagram, 1));
    IS_REFUSED(coir_udp_join, (NULL, &address, NULL));
    IS_REFUSED(coir_udp_leave, (NULL, &address, NULL));
    coir_case cases[] = {coir_case_udp(NULL, COIR_READ)};
    CHECK_EQ(coir_select(cases, 1), 0);
    CHECK_EQ(cases[0].result, -EINVAL);
    IS_REFUSED(coir_address_parse, (NULL, &address));
    IS_REFUSED(coir_address_format, (NULL, bytes, sizeof bytes));
}

TEST_REAL(processes_look_at_their_arguments)
{
    static const char *const command[] = {"/bin/sleep", "1000", NULL}, *const none[] = {NULL};
    static coir_process_op op;
    coir_process process = {{0}};
    IS_REFUSED(coir_process_spawn, (NULL, command));
    IS_REFUSED(coir_process_spawn, (&process, NULL));
    IS_REFUSED(coir_process_spawn, (&process, none));
    IS_REFUSED(coir_process_spawn_with, (&process, none, NULL));
    IS_REFUSED(coir_process_wait, (NULL));
    IS_REFUSED(coir_process_signal, (NULL, SIGTERM));
    IS_REFUSED(coir_process_kill, (NULL));
    IS_REFUSED(coir_process_pid, (NULL));
    FAILS(coir_process_wait_op, (&op, NULL));
    CHECK(!coir_process_stdin(NULL) && !coir_process_stdout(NULL) && !coir_process_stderr(NULL));
    CHECK_EQ(coir_process_wait(&process), -EBADF);
    CHECK_EQ(coir_process_signal(&process, SIGTERM), -EBADF);
    CHECK_EQ(coir_process_kill(&process), -EBADF);
    CHECK_EQ(coir_process_pid(&process), -EBADF);
    coir_process_close(&process); /* it is not open */
    coir_process_close(NULL);
    CHECK_EQ(coir_process_spawn(&process, command), 0);
    CHECK_EQ(coir_process_spawn(&process, command), -EBUSY);
    coir_process_close(&process);
}

TEST(what_is_closed_in_a_plain_thread_is_left_open)
{
    static _Alignas(64) char of_no_worker[4096];
    listener = (coir_listener *)(void *)of_no_worker;
    NOTHING(coir_listener_close, (listener));
}

TEST(a_debug_build_names_the_call)
{
    if (!CI_DEBUG)
        return;
    NAMED(coir_read, (NULL, bytes, 1));
    NAMED(coir_writev_all, (NULL, &piece, 1));
    NAMED(coir_write_op, (&io_op, NULL, bytes, 1));
    NAMED(coir_read_full_op, (&all_op, NULL, bytes, 1, NULL));
    NAMED(coir_accept, (NULL, &stream));
    NAMED(coir_tcp_connect, (NULL, &stream));
    NAMED(coir_file_read, (NULL, bytes, 1, 0));
    NAMED(coir_signals_wait, (NULL));
    static coir_process process;
    NAMED(coir_process_wait, (NULL));
    NAMED(coir_process_pid, (&process));
    NAMED(coir_process_spawn, (&process, NULL));
    NAMED(coir_udp_send, (NULL, bytes, 1));
    NAMED(coir_address_parse, (NULL, &address));
    NAMED(coir_shutdown_write, (NULL));
    stream = (coir_stream *)(void *)bytes; /* not looked at: there is no fiber */
    memset(bytes, 0, sizeof bytes);
    NAMED(coir_write, (stream, bytes, 1));
}
