/* Descriptors: operations that fail, lose a select or are closed early leave none open, and a child
 * process inherits none. */
#include <coir.h>
#include <coir/poller.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

/* Calls `fn` for each descriptor of the process: how many there are. */
static int each_descriptor(void (*fn)(int fd))
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    int count = 0;
    CHECK(dir != NULL);
    while ((entry = readdir(dir))) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || fd == dirfd(dir))
            continue;
        count++;
        if (fn)
            fn(fd);
    }
    closedir(dir);
    return count;
}

/* A descriptor may be closed by the kernel a little later (io_uring). */
static void back_to(int count)
{
    for (int i = 0; i < 1000 && each_descriptor(NULL) != count; i++)
        CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    CHECK_EQ(each_descriptor(NULL), count);
}

static char address[64];

static coir_listener *listen_here(void)
{
    coir_listener *listener;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    coir_listener_local(listener, address, sizeof address);
    return listener;
}

static void warm_up(void)
{
    coir_stream *a, *b;
    coir_listener *listener = listen_here();
    CHECK_EQ(coir_tcp_connect(address, &a), 0);
    CHECK_EQ(coir_accept(listener, &b), 0);
    coir_close(a);
    coir_close(b);
    coir_listener_close(listener);
    CHECK_EQ(coir_sleep_for(5 * COIR_MS), 0);
}

/* ---- connecting in vain ---- */

TEST_REAL(a_connect_that_fails_or_is_cancelled_leaves_nothing)
{
    warm_up();
    int before = each_descriptor(NULL);
    coir_stream *stream;
    coir_open_op op;
    coir_listener_close(listen_here()); /* nothing listens at `address` any more */
    for (int i = 0; i < 50; i++) {
        CHECK_EQ(coir_tcp_connect(address, &stream), -ECONNREFUSED);
        CHECK_EQ(coir_await(coir_tcp_connect_op(&op, address, &stream)), -ECONNREFUSED);
    }
    CHECK_EQ(coir_tcp_connect("not an address", &stream), -COIR_EPORT);
    back_to(before);
    coir_listener *full;
    coir_listen_options options = COIR_LISTEN_OPTIONS;
    options.backlog = 1;
    CHECK_EQ(coir_tcp_listen_with("127.0.0.1:0", &options, &full), 0);
    coir_listener_local(full, address, sizeof address);
    int waiting = 0;
    for (int i = 0; i < 8; i++) { /* once the backlog is full a connect waits */
        COIR_DEADLINE(coir_in(20 * COIR_MS));
        int rc = coir_tcp_connect(address, &stream);
        CHECK(rc == 0 || rc == -ETIME);
        waiting += rc < 0;
        if (rc == 0)
            coir_close(stream);
    }
    CHECK(waiting > 0);
    coir_listener_close(full);
    back_to(before);
}

/* ---- an accept that loses ---- */

/* The connection and the other case of the select are ready at the same time. Whichever wins, a
 * connection that was not taken is accepted next, and none is lost. */
TEST_REAL(a_connection_that_came_for_a_lost_select_is_the_next_accepts)
{
    warm_up();
    int before = each_descriptor(NULL), lost = 0;
    coir_listener *listener = listen_here();
    coir_channel *channel;
    int item = 1;
    CHECK_EQ(coir_channel_new(sizeof item, 1, &channel), 0);
    for (int i = 0; i < 200; i++) {
        coir_stream *client, *server = NULL;
        char byte;
        CHECK_EQ(coir_tcp_connect(address, &client), 0);
        if (i % 2)
            CHECK_EQ(coir_sleep_for(COIR_US), 0);
        CHECK_EQ(coir_channel_send(channel, &item), 0);
        coir_case cases[] = {coir_case_accept(listener, &server), coir_case_recv(channel, &item)};
        int first = coir_select(cases, 2);
        CHECK(first == 0 || first == 1);
        if (first == 1) {
            CHECK(!server);
            lost++;
            CHECK_EQ(coir_accept(listener, &server), 0);
        } else {
            CHECK_EQ(coir_channel_recv(channel, &item), 0);
        }
        CHECK_EQ(coir_write_all(client, "x", 1), 0);
        CHECK_EQ(coir_read(server, &byte, 1), 1);
        coir_close(client);
        coir_close(server);
    }
    CHECK(lost > 20);
    coir_listener_close(listener);
    /* a connection that is not accepted is closed with its listener */
    for (int i = 0; i < 60; i++) {
        coir_stream *client, *server = NULL;
        listener = listen_here();
        CHECK_EQ(coir_tcp_connect(address, &client), 0);
        CHECK_EQ(coir_channel_send(channel, &item), 0);
        coir_case cases[] = {coir_case_accept(listener, &server), coir_case_recv(channel, &item)};
        if (coir_select(cases, 2) == 0)
            CHECK_EQ(coir_channel_recv(channel, &item), 0);
        coir_close(server);
        coir_close(client);
        coir_listener_close(listener);
    }
    coir_channel_free(channel);
    back_to(before);
}

/* ---- a file that is closed under its operations ---- */

TEST_REAL(a_file_closed_under_its_operations_serves_them_first)
{
    enum { OPS = 20, LEN = 1000 };
    static char data[OPS * LEN], back[OPS][LEN];
    char path[] = "/tmp/coir-leak-XXXXXX";
    int fd = mkstemp(path);
    for (int i = 0; i < OPS * LEN; i++)
        data[i] = (char)(i * 13 + (i >> 9));
    CHECK(fd >= 0 && write(fd, data, sizeof data) == (ssize_t)sizeof data);
    close(fd);
    int before = each_descriptor(NULL), most = before;
    for (int round = 0; round < 10; round++) {
        coir_file *file;
        coir_file_op ops[OPS];
        coir_branch reads[OPS], *ended;
        coir_set set;
        memset(back, 0, sizeof back);
        CHECK_EQ(coir_file_open(path, O_RDONLY, 0, &file), 0);
        coir_set_init(&set);
        for (int i = 0; i < OPS; i++) {
            reads[i] =
                (coir_branch)COIR_BRANCH(coir_file_read_op(&ops[i], file, back[i], LEN, i * LEN));
            CHECK_EQ(coir_set_add(&set, &reads[i]), 0);
        }
        CHECK_EQ(coir_yield(), 0); /* they begin */
        coir_file_close(file);
        for (int i = 0; i < OPS; i++)
            CHECK_EQ(coir_set_next(&set, &ended), 1);
        for (int i = 0; i < OPS; i++) {
            CHECK_EQ(ops[i].future.result, LEN);
            CHECK(memcmp(back[i], data + i * LEN, LEN) == 0);
        }
        coir_set_done(&set);
        if (each_descriptor(NULL) > most)
            most = each_descriptor(NULL);
    }
    CHECK(most <= before + 2);
    back_to(before);
    unlink(path);
}

/* ---- what a child gets ---- */

static bool was_there[1024];

static void note(int fd)
{
    CHECK(fd < 1024);
    was_there[fd] = true;
}

static int made;

static void check_closed_on_exec(int fd)
{
    if (fd < 1024 && was_there[fd])
        return;
    made++;
    int flags = fcntl(fd, F_GETFD);
    if (!(flags & FD_CLOEXEC))
        test_fail(__FILE__, __LINE__, "descriptor %d is left open by exec", fd);
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int make_everything(void *arg)
{
    coir_listener *listener = listen_here();
    coir_stream *a, *b;
    coir_udp *udp, *connected;
    coir_file *file;
    coir_signals *signals;
    coir_watcher *watcher;
    coir_pty pty = {{0}};
    coir_terminal terminal = {{0}};
    coir_poller *pollers[3];
    static const char *const drivers[] = {"epoll", "poll", "io_uring"};
    (void)arg;
    CHECK_EQ(coir_tcp_connect(address, &a), 0);
    CHECK_EQ(coir_accept(listener, &b), 0);
    CHECK_EQ(coir_udp_open("127.0.0.1:0", NULL, &udp), 0);
    CHECK_EQ(coir_udp_open("127.0.0.1:0", "127.0.0.1:9", &connected), 0);
    CHECK_EQ(coir_file_open("/dev/null", O_RDONLY, 0, &file), 0);
    CHECK_EQ(coir_signals_open(&(int){SIGUSR1}, 1, &signals), 0);
    CHECK_EQ(coir_watcher_open(&watcher), 0);
    CHECK_EQ(coir_pty_open(&pty, NULL), 0);
    coir_fd fd = coir_pty_open_terminal(&pty);
    CHECK_EQ(coir_terminal_open(&terminal, fd), 0);
    close(fd);
    CHECK_EQ(coir_offload(nothing, NULL), 0);
    for (int i = 0; i < 3; i++)
        if (coir_poller_new_with(POLLER_ON(drivers[i]), &pollers[i]) < 0)
            pollers[i] = NULL;
    each_descriptor(check_closed_on_exec);
    CHECK(made >= 10);
    for (int i = 0; i < 3; i++)
        coir_poller_free(pollers[i]);
    coir_watcher_close(watcher);
    coir_terminal_close(&terminal);
    coir_pty_close(&pty);
    coir_signals_close(signals);
    coir_file_close(file);
    coir_udp_close(udp);
    coir_udp_close(connected);
    coir_close(a);
    coir_close(b);
    coir_listener_close(listener);
    return 0;
}

TEST(no_descriptor_is_left_to_a_child)
{
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    config.workers = 2;
    config.stop_signals = 1;
    each_descriptor(note);
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    CHECK_EQ(coir_runtime_run(runtime, make_everything, NULL), 0);
    coir_runtime_free(runtime);
}
