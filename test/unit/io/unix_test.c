/* Unix sockets: names and their files, descriptors that travel, credentials; on every driver, and
 * what the simulated world has of it. */
#include <coir.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "driver/unix.h"
#include "harness.h"
#include "io/io.h"
#include "open_files.h"
#include "seccomp.h"

static char directory[] = "/tmp/coir-unix-XXXXXX", path[64], address[80];

static void make_directory(void)
{
    CHECK(mkdtemp(directory) != NULL);
    snprintf(path, sizeof path, "%s/socket", directory);
    snprintf(address, sizeof address, "unix:%s", path);
}

static void remove_directory(void)
{
    unlink(path);
    CHECK_EQ(rmdir(directory), 0); /* nothing else is in it */
}

static bool exists(void)
{
    struct stat what;
    return lstat(path, &what) == 0;
}

struct pair {
    coir_listener *listener;
    coir_stream *client, *server;
};

static int connect_there(void *arg)
{
    char name[128];
    struct pair *pair = arg;
    CHECK(coir_listener_local(pair->listener, name, sizeof name) > 0);
    return coir_tcp_connect(name, &pair->client);
}

static struct pair make_pair(const char *name)
{
    struct pair pair = {0};
    COIR_SCOPE(scope);
    CHECK_EQ(coir_tcp_listen(name, &pair.listener), 0);
    CHECK_EQ(coir_go(scope, connect_there, &pair), 0);
    CHECK_EQ(coir_accept(pair.listener, &pair.server), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    return pair;
}

static void close_pair(struct pair *pair)
{
    coir_close(pair->client);
    coir_close(pair->server);
    coir_listener_close(pair->listener);
}

/* ---- bytes ---- */

static void talk(const char *name, const char *shown)
{
    struct pair pair = make_pair(name);
    char buf[128];
    CHECK(coir_listener_local(pair.listener, buf, sizeof buf) > 0);
    CHECK(shown ? strcmp(buf, shown) == 0
                : strncmp(buf, name, strlen(name)) == 0 && strlen(buf) > strlen(name));
    /* it has no name */
    CHECK(coir_stream_peer(pair.server, buf, sizeof buf) == 5 && strcmp(buf, "unix:") == 0);
    CHECK_EQ(coir_write_all(pair.client, "hello", 5), 0);
    CHECK_EQ(coir_read_full(pair.server, buf, 5, NULL), 5);
    CHECK_EQ(coir_write_all(pair.server, "and back", 8), 0);
    CHECK_EQ(coir_read_full(pair.client, buf, 8, NULL), 8);
    CHECK_EQ(coir_shutdown_write(pair.client), 0);
    CHECK_EQ(coir_read(pair.server, buf, 1), 0);
    CHECK_EQ(coir_tcp_connect("unix:/nobody/is/here", &pair.client), -ENOENT);
    CHECK_EQ(coir_tcp_connect("unix:@nobody is here", &pair.client), -ECONNREFUSED);
    close_pair(&pair);
    if (shown)
        CHECK_EQ(coir_tcp_connect(name, &pair.client), name[5] == '@' ? -ECONNREFUSED : -ENOENT);
}

static void talk_by_every_name(void)
{
    char name[160] = "unix:/";
    talk(address, address);
    talk("unix:@coir test", "unix:@coir test");
    talk("unix:@", NULL);
    memset(name + 6, 'x', 106);
    coir_stream *stream;
    CHECK_EQ(coir_tcp_connect(name, &stream), -ENOENT); /* 107 bytes and a NUL */
    name[112] = 'x';
    CHECK_EQ(coir_tcp_connect(name, &stream), -COIR_EPATH);
    CHECK_EQ(coir_tcp_connect("unix:", &stream), -COIR_EPATH);
}

TEST(unix_streams_carry_bytes)
{
    make_directory();
    test_in_runtime(talk_by_every_name, 1);
    for (uint64_t seed = 1; seed <= 50; seed++)
        test_in_sim(talk_by_every_name, 1, seed);
    remove_directory();
}

/* ---- files ---- */

static void leave_a_file(int type)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    strcpy(name.sun_path, path);
    int fd = socket(AF_UNIX, type, 0);
    CHECK_EQ(bind(fd, (struct sockaddr *)&name, sizeof name), 0);
    close(fd);
}

static void replace_files(void)
{
    coir_listener *first, *second;
    struct stat what;
    leave_a_file(SOCK_STREAM);
    CHECK_EQ(coir_tcp_listen(address, &first), 0); /* the file was stale */
    CHECK_EQ(coir_tcp_listen(address, &second), -EADDRINUSE);
    struct pair pair = {.listener = first};
    CHECK_EQ(connect_there(&pair), 0); /* and still is the first one's */
    CHECK_EQ(coir_write(pair.client, "1", 1), 1);
    CHECK_EQ(coir_accept(first, &pair.server), 0);
    char byte = 0;
    CHECK(coir_read(pair.server, &byte, 1) == 1 && byte == '1'); /* which has had no other client */
    close_pair(&pair);
    CHECK(!exists());
    leave_a_file(SOCK_DGRAM);
    coir_listen_options options = COIR_LISTEN_OPTIONS;
    options.unix_mode = 0620;
    options.unix_owner = geteuid() == 0 ? 65534 : 0;
    CHECK_EQ(coir_tcp_listen_with(address, &options, &first), 0);
    CHECK(lstat(path, &what) == 0 && (what.st_mode & 0777) == 0620 &&
          what.st_uid == (geteuid() == 0 ? 65534 : geteuid()));
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(coir_tcp_listen(address, &second), 0);
    coir_listener_close(first);
    CHECK(exists()); /* the second one's */
    coir_listener_close(second);
    CHECK(!exists());
    fclose(fopen(path, "w"));
    CHECK_EQ(coir_tcp_listen(address, &first), -EEXIST);
    CHECK(lstat(path, &what) == 0 && S_ISREG(what.st_mode));
}

TEST(a_file_is_replaced_when_nobody_listens_on_it)
{
    make_directory();
    test_in_runtime(replace_files, 1);
    remove_directory();
}

/* A socket that is bound and then cannot be opened in full takes its file with it. */
static void fail_after_the_bind(void)
{
    char nobody[80];
    coir_listener *listener;
    coir_udp *udp;
    snprintf(nobody, sizeof nobody, "unix:%s/nobody", directory);
    CHECK_EQ(coir_udp_open(address, nobody, &udp), -ENOENT);
    CHECK(!exists());
    refuse_calls(SYS_listen, SYS_listen, ENOBUFS);
    CHECK_EQ(coir_tcp_listen(address, &listener), -ENOBUFS);
    CHECK(!exists());
    leave_a_file(SOCK_STREAM);
    CHECK_EQ(coir_tcp_listen(address, &listener), -ENOBUFS);
    CHECK(!exists());
}

TEST(what_fails_after_the_bind_leaves_no_file)
{
    make_directory();
    test_in_runtime(fail_after_the_bind, 1);
    remove_directory();
}

static void listen_in_a_locked_directory(void)
{
    coir_listener *listener;
    int locked = open(directory, O_RDONLY | O_CLOEXEC);
    CHECK_EQ(flock(locked, LOCK_EX), 0);
    CHECK_EQ(coir_tcp_listen(address, &listener), 0);
    coir_listener_close(listener);
    CHECK(exists());
    CHECK_EQ(coir_tcp_listen(address, &listener), -EWOULDBLOCK);
    close(locked);
    CHECK_EQ(coir_tcp_listen(address, &listener), 0);
    coir_listener_close(listener);
    CHECK(!exists());
}

TEST(who_locks_the_directory_keeps_no_listener_from_a_free_path)
{
    make_directory();
    test_in_runtime(listen_in_a_locked_directory, 1);
    remove_directory();
}

static void ask_for_modes(void)
{
    static const char *const without_file[] = {"127.0.0.1:0", "unix:@", "unix:@coir mode", "fd:0"};
    coir_listener *listener;
    for (size_t i = 0; i < 3 * sizeof without_file / sizeof *without_file; i++) {
        coir_listen_options options = COIR_LISTEN_OPTIONS;
        *(i % 3 == 0   ? &options.unix_mode
          : i % 3 == 1 ? &options.unix_owner
                       : &options.unix_group) = 1;
        CHECK_EQ(coir_tcp_listen_with(without_file[i / 3], &options, &listener), -EINVAL);
    }
}

TEST(a_mode_and_an_owner_are_of_a_file)
{
    test_in_runtime(ask_for_modes, 1);
}

enum { RACERS = 4, ROUNDS = 200 };
static pthread_barrier_t start_line, finish_line;

/* One of several processes that compete for the name: how often it got it. */
static void *race(void *arg)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    strcpy(name.sun_path, path);
    struct ci_listen listen = {
        .address = (struct sockaddr *)&name, .address_len = sizeof name, .backlog = 1};
    int *won = arg;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&start_line);
        int fd = ci_unix_listen(&listen);
        CHECK(fd >= 0 || fd == -EADDRINUSE || fd == -EWOULDBLOCK);
        *won += fd >= 0;
        pthread_barrier_wait(&finish_line);
        if (fd >= 0)
            close(fd); /* the file stays, and is stale */
    }
    return NULL;
}

TEST(of_those_who_replace_a_file_together_one_gets_it)
{
    pthread_t threads[RACERS];
    int won[RACERS] = {0}, all = 0;
    make_directory();
    leave_a_file(SOCK_STREAM);
    pthread_barrier_init(&start_line, NULL, RACERS);
    pthread_barrier_init(&finish_line, NULL, RACERS);
    for (int i = 0; i < RACERS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, race, &won[i]), 0);
    for (int i = 0; i < RACERS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
        all += won[i];
    }
    CHECK_EQ(all, ROUNDS);
    remove_directory();
}

/* ---- descriptors ---- */

/* Whether the descriptor is the reading end of the pipe. */
static bool reads_from(int fd, int writing_end)
{
    char byte = 0;
    return write(writing_end, "p", 1) == 1 && read(fd, &byte, 1) == 1 && byte == 'p';
}

static void pass_some(struct pair *pair, const int *ends)
{
    char buf[16];
    coir_fd sent[3] = {ends[0], ends[0], ends[0]}, got[3] = {-1, -1, -1};
    size_t count = 99;
    CHECK_EQ(coir_write_all(pair->client, "ab", 2), 0);
    /* an ordinary read takes nothing that is behind its bytes */
    CHECK_EQ(coir_read(pair->server, buf, 1), 1);
    CHECK_EQ(coir_unix_send_fds(pair->client, "c", 1, sent, 3), 1);
    CHECK_EQ(coir_write_all(pair->client, "d", 1), 0);
    ssize_t n = coir_unix_recv_fds(pair->server, buf + 1, 10, got, 3, &count);
    if (n == 1) { /* the bytes before may come alone */
        CHECK_EQ(count, 0);
        n += coir_unix_recv_fds(pair->server, buf + 2, 9, got, 3, &count);
    }
    CHECK(n == 2 && memcmp(buf, "abc", 3) == 0);
    CHECK_EQ(count, 3);
    for (int i = 0; i < 3; i++) {
        CHECK(reads_from(got[i], ends[1]));
        CHECK(fcntl(got[i], F_GETFD) & FD_CLOEXEC);
        close(got[i]);
    }
    CHECK_EQ(coir_unix_recv_fds(pair->server, buf, 10, got, 3, &count), 1);
    CHECK(count == 0 && buf[0] == 'd');
}

static void pass_too_many(struct pair *pair, const int *ends)
{
    char buf[16];
    size_t count;
    static coir_fd many[COIR_UNIX_FDS_MAX + 1], got[COIR_UNIX_FDS_MAX];
    for (int i = 0; i <= COIR_UNIX_FDS_MAX; i++)
        many[i] = ends[0];
    int before = open_files();
    CHECK_EQ(coir_unix_send_fds(pair->client, "x", 1, many, COIR_UNIX_FDS_MAX + 1), -EINVAL);
    CHECK_EQ(coir_unix_send_fds(pair->client, "x", 0, many, 1), -EINVAL);
    CHECK_EQ(coir_unix_send_fds(pair->client, "x", 1, (coir_fd[]){-1}, 1), -EBADF);
    CHECK_EQ(coir_unix_send_fds(pair->client, "x", 1, many, COIR_UNIX_FDS_MAX), 1);
    CHECK_EQ(coir_unix_recv_fds(pair->server, buf, 16, got, COIR_UNIX_FDS_MAX, &count), 1);
    CHECK_EQ(count, COIR_UNIX_FDS_MAX);
    for (size_t i = 0; i < count; i++)
        close(got[i]);
    CHECK_EQ(coir_unix_send_fds(pair->client, "x", 1, many, 3), 1);
    CHECK_EQ(coir_unix_recv_fds(pair->server, buf, 16, got, 2, &count), -EMSGSIZE);
    CHECK_EQ(coir_unix_send_fds(pair->client, "x", 1, many, 3), 1);
    CHECK_EQ(coir_read(pair->server, buf, 16), 1); /* closes what it is not asked for */
    CHECK_EQ(open_files(), before);
    struct rlimit was, low;
    getrlimit(RLIMIT_NOFILE, &was);
    int lowest_free = dup(0);
    close(lowest_free);
    low = (struct rlimit){(rlim_t)lowest_free + 1, was.rlim_max};
    CHECK_EQ(coir_unix_send_fds(pair->client, "x", 1, many, 3), 1);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    ssize_t n = coir_unix_recv_fds(pair->server, buf, 16, got, 3, &count);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
    CHECK_EQ(n, -EMFILE);
    CHECK_EQ(open_files(), before);
}

static void pass_fds(void)
{
    struct pair pair = make_pair("unix:@");
    int ends[2];
    char byte;
    coir_fd fd;
    size_t count = 99;
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    pass_some(&pair, ends);
    pass_too_many(&pair, ends);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_unix_recv_fds(pair.server, &byte, 1, &fd, 1, &count), -ETIME);
    }
    /* nothing was lost by that */
    CHECK_EQ(coir_unix_send_fds(pair.client, "y", 1, &ends[0], 1), 1);
    CHECK_EQ(coir_unix_recv_fds(pair.server, &byte, 1, &fd, 1, &count), 1);
    CHECK(count == 1 && reads_from(fd, ends[1]));
    close(fd);
    coir_close(pair.client);
    pair.client = NULL;
    CHECK_EQ(coir_unix_recv_fds(pair.server, &byte, 1, &fd, 1, &count), 0);
    CHECK_EQ(count, 0);
    close_pair(&pair);
    close(ends[0]);
    close(ends[1]);
}

TEST_REAL(descriptors_travel_with_bytes)
{
    pass_fds();
}

/* Options of a socket that another program has made: what they tell comes before the descriptors,
 * and one of them (6.5 of Linux) makes a descriptor by itself. */
static void pass_beside_credentials(void)
{
    enum { TURNS = 5, PASS_PIDFD = 76, MANY = COIR_UNIX_FDS_MAX };
    struct pair pair = make_pair("unix:@");
    int ends[2], on = 1, fd = pair.server->fd;
    char byte;
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
    CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_PASSSEC, &on, sizeof on), 0);
    (void)setsockopt(fd, SOL_SOCKET, PASS_PIDFD, &on, sizeof on);
    int before = open_files();
    for (int i = 0; i < TURNS; i++) {
        coir_fd out[MANY], in[MANY];
        size_t room = i % 2 ? MANY : 1, passed = i == 0 ? MANY : room, count = 77;
        for (int j = 0; j < MANY; j++)
            out[j] = ends[0];
        CHECK_EQ(coir_unix_send_fds(pair.client, "x", 1, out, passed), 1);
        CHECK_EQ(coir_unix_recv_fds(pair.server, &byte, 1, in, room, &count),
                 passed > room ? -EMSGSIZE : 1);
        CHECK_EQ(count, passed > room ? 0 : passed);
        for (size_t j = 0; j < count; j++)
            close(in[j]);
        CHECK_EQ(open_files(), before);
    }
    close_pair(&pair);
    close(ends[0]);
    close(ends[1]);
}

TEST_REAL(descriptors_travel_beside_credentials)
{
    pass_beside_credentials();
}

static int count_given(void *arg)
{
    coir_unix_op op;
    struct pair *pair = arg;
    char buf[4];
    coir_fd fd = -1;
    size_t count = 0;
    CHECK_EQ(coir_await(coir_unix_recv_fds_op(&op, pair->server, buf, 4, &fd, 1, &count)), 2);
    CHECK_EQ(count, 1);
    close(fd);
    return 0;
}

static void pass_to_one_who_waits(void)
{
    struct pair pair = make_pair("unix:@");
    int ends[2];
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, count_given, &pair), 0);
    coir_yield();
    CHECK_EQ(coir_unix_send_fds(pair.client, "ok", 2, &ends[0], 1), 2);
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_unix_op op;
    CHECK_EQ(coir_await(coir_unix_send_fds_op(&op, pair.server, "y", 1, &ends[0], 1)), 1);
    char byte;
    coir_fd fd = -1;
    size_t count = 0;
    CHECK_EQ(coir_unix_recv_fds(pair.client, &byte, 1, &fd, 1, &count), 1);
    CHECK(byte == 'y' && count == 1 && reads_from(fd, ends[1]));
    close(fd);
    close_pair(&pair);
    close(ends[0]);
    close(ends[1]);
}

TEST_REAL(descriptors_come_to_one_who_waits)
{
    pass_to_one_who_waits();
}

/* By reads that have room for more. */
static void expect_bytes(coir_stream *stream, const char *bytes)
{
    char in[8];
    ssize_t len = (ssize_t)strlen(bytes), got = 0;
    while (got < len) {
        ssize_t n = coir_read(stream, in + got, sizeof in - (size_t)got);
        CHECK(n > 0);
        got += n;
    }
    CHECK(got == len && memcmp(in, bytes, (size_t)len) == 0);
}

static int read_two(void *stream)
{
    expect_bytes(stream, "ab");
    return 0;
}

static int read_four(void *stream)
{
    expect_bytes(stream, "abcd");
    return 0;
}

/* The system ends a receive at the descriptors: that it was short does not say that it was all. */
static void read_past_descriptors(bool came_unread)
{
    struct pair pair = make_pair("unix:@");
    COIR_DEADLINE(coir_in(10 * COIR_S));
    COIR_SCOPE(scope);
    if (came_unread) { /* bytes once, when no read waited */
        CHECK_EQ(coir_go(scope, read_two, pair.server), 0);
        coir_yield();
        CHECK_EQ(coir_write_all(pair.client, "ab", 2), 0);
        while (pair.server->reader)
            coir_yield();
        CHECK_EQ(coir_write_all(pair.client, "ab", 2), 0);
        CHECK_EQ(coir_sleep_for(COIR_MS), 0);
        read_two(pair.server);
    }
    CHECK_EQ(coir_go(scope, read_four, pair.server), 0);
    coir_yield();
    CHECK_EQ(coir_unix_send_fds(pair.client, "a", 1, &(coir_fd){0}, 1), 1);
    CHECK_EQ(coir_write_all(pair.client, "bcd", 3), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    close_pair(&pair);
}

TEST_REAL(bytes_after_descriptors_that_nobody_takes_are_read)
{
    read_past_descriptors(false);
    read_past_descriptors(true);
}

/* How many turns the loop makes while all that runs here sleeps. */
static uint64_t turns_of_a_sleep(void)
{
    coir_loop_counters before = COIR_LOOP_COUNTERS, after = COIR_LOOP_COUNTERS;
    CHECK_EQ(coir_loop_counters_get(coir_worker_loop(), &before), 0);
    CHECK_EQ(coir_sleep_for(20 * COIR_MS), 0);
    CHECK_EQ(coir_loop_counters_get(coir_worker_loop(), &after), 0);
    return after.turns - before.turns;
}

enum { FEW_TURNS = 20 };

/* A stream that has been waited for has bytes, and then its end, and nobody reads; then it is
 * closed, while its socket is open elsewhere. */
static void leave_unread(void)
{
    struct pair pair = make_pair("unix:@");
    char byte;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, read_two, pair.server), 0);
    coir_yield();
    CHECK_EQ(coir_write_all(pair.client, "ab", 2), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(coir_write_all(pair.client, "cd", 2), 0);
    CHECK(turns_of_a_sleep() < FEW_TURNS);
    CHECK_EQ(coir_shutdown_write(pair.client), 0);
    CHECK(turns_of_a_sleep() < FEW_TURNS);
    expect_bytes(pair.server, "cd");
    CHECK_EQ(coir_read(pair.server, &byte, 1), 0);
    close_pair(&pair);
}

static void close_what_is_open_elsewhere(void)
{
    struct pair pair = make_pair("unix:@");
    COIR_SCOPE(scope);
    int elsewhere = dup(pair.server->fd);
    CHECK_EQ(coir_go(scope, read_two, pair.server), 0);
    coir_yield();
    CHECK_EQ(coir_write_all(pair.client, "ab", 2), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    coir_close(pair.server);
    pair.server = NULL;
    CHECK_EQ(coir_write_all(pair.client, "cd", 2), 0);
    CHECK(turns_of_a_sleep() < FEW_TURNS);
    close(elsewhere);
    close_pair(&pair);
}

TEST_REAL(bytes_that_nobody_reads_cost_no_turns)
{
    leave_unread();
    close_what_is_open_elsewhere();
}

static void ask_for_nonsense(void)
{
    struct pair pair = make_pair("unix:@");
    coir_credentials peer = COIR_CREDENTIALS;
    coir_unix_op op;
    char byte;
    coir_fd fd;
    size_t count;
    CHECK_EQ(coir_unix_send_fds(NULL, "x", 1, NULL, 0), -EINVAL);
    CHECK_EQ(coir_unix_send_fds(pair.client, NULL, 1, NULL, 0), -EINVAL);
    CHECK_EQ(coir_unix_send_fds(pair.client, "x", 1, NULL, 1), -EINVAL);
    CHECK_EQ(coir_unix_recv_fds(NULL, &byte, 1, &fd, 1, &count), -EINVAL);
    CHECK_EQ(coir_unix_recv_fds(pair.server, NULL, 1, &fd, 1, &count), -EINVAL);
    CHECK_EQ(coir_unix_recv_fds(pair.server, &byte, 1, NULL, 1, &count), -EINVAL);
    CHECK_EQ(coir_unix_recv_fds(pair.server, &byte, 1, &fd, 1, NULL), -EINVAL);
    CHECK_EQ(coir_await(coir_unix_send_fds_op(&op, NULL, "x", 1, NULL, 0)), -EINVAL);
    CHECK_EQ(coir_await(coir_unix_recv_fds_op(&op, NULL, &byte, 1, &fd, 1, &count)), -EINVAL);
    CHECK_EQ(coir_unix_peer(NULL, &peer), -EINVAL);
    CHECK_EQ(coir_unix_peer(pair.server, NULL), -EINVAL);
    close_pair(&pair);
}

TEST_REAL(wrong_arguments_are_refused)
{
    ask_for_nonsense();
}

/* ---- what has none of it ---- */

static void know_the_peer(void)
{
    struct pair pair = make_pair("unix:@");
    coir_credentials peer = COIR_CREDENTIALS;
    CHECK_EQ(coir_unix_peer(pair.server, &peer), 0);
    CHECK(peer.pid == getpid() && peer.uid == geteuid() && peer.gid == getegid());
    CHECK_EQ(coir_unix_peer(pair.server, &(coir_credentials){0}), -COIR_EUNSIZED);
    close_pair(&pair);
}

TEST_REAL(the_peer_of_a_unix_socket_is_known)
{
    know_the_peer();
}

static void refuse_others(void)
{
    struct pair pair = make_pair("127.0.0.1:0");
    coir_credentials peer = COIR_CREDENTIALS;
    coir_stream *a, *b;
    char byte;
    coir_fd fd;
    size_t count;
    CHECK_EQ(coir_duplex(0, &a, &b), 0);
    CHECK_EQ(coir_unix_peer(pair.server, &peer), -EOPNOTSUPP);
    CHECK_EQ(coir_unix_send_fds(pair.server, "x", 1, NULL, 0), -EOPNOTSUPP);
    CHECK_EQ(coir_unix_recv_fds(pair.server, &byte, 1, &fd, 1, &count), -EOPNOTSUPP);
    CHECK_EQ(coir_unix_recv_fds(a, &byte, 1, &fd, 1, &count), -EOPNOTSUPP);
    coir_close(a);
    coir_close(b);
    close_pair(&pair);
}

TEST_REAL(other_streams_say_so)
{
    refuse_others();
}

static void messages_in_the_simulation(void)
{
    struct pair pair = make_pair("unix:@");
    coir_credentials peer = COIR_CREDENTIALS;
    char buf[4];
    size_t count = 99;
    coir_fd fd = 0;
    CHECK_EQ(coir_unix_send_fds(pair.client, "x", 1, &fd, 1), -EOPNOTSUPP);
    CHECK_EQ(coir_unix_send_fds(pair.client, "x", 1, NULL, 0), 1);
    CHECK_EQ(coir_unix_recv_fds(pair.server, buf, 4, &fd, 1, &count), 1);
    CHECK_EQ(count, 0);
    CHECK_EQ(coir_unix_peer(pair.server, &peer), 0);
    close_pair(&pair);
}

TEST(in_the_simulation_no_descriptor_travels)
{
    for (uint64_t seed = 1; seed <= 20; seed++)
        test_in_sim(messages_in_the_simulation, 1, seed);
}

/* ---- datagrams ---- */

enum { DATAGRAMS = 1000 };

static int send_all(void *arg)
{
    coir_address to;
    coir_udp *udp = arg;
    CHECK_EQ(coir_address_parse(address, &to), 0);
    for (int i = 0; i < DATAGRAMS; i++)
        CHECK_EQ(coir_udp_send_to(udp, &i, sizeof i, &to), (ssize_t)sizeof i);
    return 0;
}

static int send_all_to_peer(void *arg)
{
    for (int i = 0; i < DATAGRAMS; i++)
        CHECK_EQ(coir_udp_send(arg, &i, sizeof i), (ssize_t)sizeof i);
    return 0;
}

/* More than the queue of a socket holds, and none is lost. */
static void receive_all(coir_udp *server, coir_task_fn *sender, coir_udp *client)
{
    char name[128], shown[128];
    coir_address from;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, sender, client), 0);
    coir_yield();
    CHECK(coir_udp_local(client, name, sizeof name) > 0);
    for (int i = 0, number; i < DATAGRAMS; i++) {
        CHECK_EQ(coir_udp_recv(server, &number, sizeof number, &from), (ssize_t)sizeof number);
        CHECK_EQ(number, i);
        CHECK(coir_address_format(&from, shown, sizeof shown) > 0 && strcmp(name, shown) == 0);
    }
    CHECK_EQ(coir_scope_wait(scope), 0);
}

static int send_last(void *arg)
{
    coir_address to;
    CHECK_EQ(coir_address_parse(address, &to), 0);
    return (int)coir_udp_send_to(arg, "last", 4, &to) - 4;
}

/* The queue is full of what others have sent: the system does not tell a sender of another one when
 * there is room. */
static void make_room(coir_udp *server, coir_udp *client)
{
    char buf[8];
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, send_last, client), 0);
    coir_yield();
    while (coir_udp_recv(server, buf, sizeof buf, NULL) != 4)
        continue;
    CHECK_EQ(coir_scope_wait(scope), 0);
}

static void exchange_datagrams(void)
{
    coir_udp *server, *client, *other;
    coir_address from;
    char buf[16];
    leave_a_file(SOCK_DGRAM);
    CHECK_EQ(coir_udp_open(address, NULL, &server), 0);
    CHECK_EQ(coir_udp_open(address, NULL, &other), -EADDRINUSE);
    CHECK_EQ(coir_udp_open("unix:@", NULL, &client), 0);
    CHECK_EQ(coir_udp_open("unix:@", address, &other), 0);
    receive_all(server, send_all, client);
    receive_all(server, send_all_to_peer, other);
    CHECK_EQ(coir_udp_send(other, "hello", 5), 5);
    CHECK_EQ(coir_udp_recv(server, buf, sizeof buf, &from), 5);
    CHECK_EQ(coir_udp_send_to(server, "answer", 6, &from), 6);
    CHECK_EQ(coir_udp_recv(other, buf, sizeof buf, NULL), 6);
    for (int i = 0, rc = 0; rc != -ETIME; i++) { /* a full queue, and a deadline */
        COIR_DEADLINE(coir_in(5 * COIR_MS));
        CHECK(i < 100000 && ((rc = (int)coir_udp_send(other, "x", 1)) == 1 || rc == -ETIME));
    }
    CHECK_EQ(coir_address_parse(address, &from), 0);
    {
        COIR_DEADLINE(coir_in(5 * COIR_MS));
        CHECK_EQ(coir_udp_send_to(client, "x", 1, &from), -ETIME);
    }
    make_room(server, client);
    coir_udp_close(server);
    CHECK(!exists());
    CHECK_EQ(coir_udp_send_to(client, "x", 1, &from), -ENOENT);
    CHECK_EQ(coir_udp_send(other, "x", 1), -ECONNREFUSED);
    coir_udp_close(client);
    coir_udp_close(other);
}

TEST(unix_datagrams_are_never_lost)
{
    make_directory();
    test_in_runtime(exchange_datagrams, 1);
    remove_directory();
}

static void open_no_datagrams(void)
{
    coir_udp *udp;
    CHECK_EQ(coir_udp_open("unix:@", NULL, &udp), -EOPNOTSUPP);
}

TEST_SIM(the_simulation_has_no_unix_datagrams)
{
    open_no_datagrams();
}
