/* Copies: every byte once, in order, from and to sockets, memory and files; with bytes that were
 * read ahead, both ways at once, cut short, interrupted. */
#include <coir.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "pair.h"

enum { MUCH = 3000000 };

static struct {
    coir_stream *source[2], *sink[2]; /* [0] the proxy's end */
    char in[MUCH];
    size_t total;
} t;

static char byte_at(size_t at)
{
    return (char)(at * 7 + (at >> 8) + (at >> 16));
}

static void open_all(size_t total)
{
    connect_pair(&t.source[1], &t.source[0]);
    connect_pair(&t.sink[1], &t.sink[0]);
    t.total = total;
}

static void close_all(void)
{
    for (int i = 0; i < 2; i++) {
        coir_close(t.source[i]);
        coir_close(t.sink[i]);
    }
}

static int feed(void *arg)
{
    char bytes[10000];
    coir_stream *to = arg;
    for (size_t at = 0; at < t.total;) {
        size_t n = t.total - at < sizeof bytes ? t.total - at : sizeof bytes;
        for (size_t i = 0; i < n; i++)
            bytes[i] = byte_at(at + i);
        int rc = coir_write_all(to, bytes, n);
        if (rc < 0)
            return rc;
        at += n;
    }
    return coir_shutdown_write(to);
}

static int drain(void *arg)
{
    CHECK_EQ(coir_read_full(arg, t.in, t.total, NULL), (ssize_t)t.total);
    for (size_t i = 0; i < t.total; i++)
        CHECK(t.in[i] == byte_at(i));
    return 0;
}

static void copy_all(void)
{
    char first[10];
    size_t done;
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, feed, t.source[1]), 0);
    /* some are read before, and more are read ahead, by io_uring */
    CHECK_EQ(coir_read_full(t.source[0], first, sizeof first, NULL), sizeof first);
    CHECK_EQ(coir_sleep_for(2 * COIR_MS), 0);
    CHECK_EQ(coir_write_all(t.sink[0], first, sizeof first), 0);
    CHECK_EQ(coir_go(scope, drain, t.sink[1]), 0);
    size_t third = t.total / 3;
    CHECK_EQ(coir_stream_copy(t.sink[0], t.source[0], third, &done), (ssize_t)third);
    CHECK_EQ(done, third);
    CHECK_EQ(coir_read_full(t.source[0], first, sizeof first, NULL), sizeof first);
    CHECK_EQ(coir_write_all(t.sink[0], first, sizeof first), 0);
    CHECK_EQ(coir_stream_copy(t.sink[0], t.source[0], COIR_UNLIMITED, NULL),
             (ssize_t)(t.total - third - 20));
    CHECK_EQ(coir_stream_copy(t.sink[0], t.source[0], COIR_UNLIMITED, NULL), 0); /* the end */
    CHECK_EQ(coir_scope_wait(scope), 0);
}

TEST_REAL(all_that_comes_is_copied_in_order)
{
    open_all(MUCH);
    copy_all();
    close_all();
}

TEST_SIM(so_it_is_in_the_simulated_world)
{
    open_all(200000);
    copy_all();
    close_all();
}

TEST_REAL(a_stream_in_memory_is_copied_through_a_buffer)
{
    CHECK_EQ(coir_duplex(0, &t.source[0], &t.source[1]), 0);
    connect_pair(&t.sink[1], &t.sink[0]);
    t.total = 500000;
    copy_all();
    close_all();
}

/* ---- both ways ---- */

static int copy_back(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_stream_copy(t.source[0], t.sink[0], COIR_UNLIMITED, NULL), (ssize_t)t.total);
    return coir_shutdown_write(t.source[0]);
}

/* The far end sends back what it gets. */
static int echo(void *arg)
{
    CHECK_EQ(coir_stream_copy(arg, arg, COIR_UNLIMITED, NULL), (ssize_t)t.total);
    return coir_shutdown_write(arg);
}

/* As echo, of t.total bytes. */
static int echo_some(void *arg)
{
    CHECK_EQ(coir_stream_copy(arg, arg, t.total, NULL), (ssize_t)t.total);
    return 0;
}

TEST_REAL(both_directions_of_a_proxy_are_copied_at_once)
{
    open_all(MUCH);
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, feed, t.source[1]), 0);
    CHECK_EQ(coir_go(scope, echo, t.sink[1]), 0);
    CHECK_EQ(coir_go(scope, copy_back, NULL), 0);
    CHECK_EQ(coir_go(scope, drain, t.source[1]), 0);
    CHECK_EQ(coir_stream_copy(t.sink[0], t.source[0], COIR_UNLIMITED, NULL), MUCH);
    CHECK_EQ(coir_shutdown_write(t.sink[0]), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    close_all();
}

TEST_REAL(a_copy_is_interrupted_while_it_waits_and_says_how_far_it_has_come)
{
    size_t done = 99;
    open_all(MUCH);
    CHECK_EQ(coir_write_all(t.source[1], "abc", 3), 0);
    {
        COIR_DEADLINE(coir_in(5 * COIR_MS));
        CHECK_EQ(coir_stream_copy(t.sink[0], t.source[0], COIR_UNLIMITED, &done), -ETIME);
    }
    CHECK_EQ(done, 3);
    CHECK_EQ(coir_read_full(t.sink[1], t.in, 3, NULL), 3);
    CHECK_EQ(coir_write_all(t.source[1], "d", 1), 0);
    CHECK_EQ(coir_read(t.source[0], t.in, 10), 1); /* the stream reads on */
    CHECK_EQ(coir_tcp_set_option(t.sink[1], COIR_TCP_RESET_ON_CLOSE, 1), 0);
    coir_close(t.sink[1]);
    t.sink[1] = NULL;
    COIR_SERVING_SCOPE(scope);
    CHECK_EQ(coir_go(scope, feed, t.source[1]), 0);
    ssize_t n = coir_stream_copy(t.sink[0], t.source[0], COIR_UNLIMITED, NULL);
    CHECK(n == -ECONNRESET || n == -EPIPE);
    coir_scope_cancel(scope);
    CHECK_EQ(coir_scope_wait(scope), 0);
    close_all();
}

/* Without a task for each. */
static void copy_both_ways(void)
{
    coir_copy_op out, back;
    coir_branch both[] = {
        COIR_BRANCH(coir_stream_copy_op(&out, t.sink[0], t.source[0], COIR_UNLIMITED, NULL)),
        COIR_BRANCH(coir_stream_copy_op(&back, t.source[0], t.sink[0], t.total, NULL)),
    };
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, feed, t.source[1]), 0);
    CHECK_EQ(coir_go(scope, drain, t.source[1]), 0);
    CHECK_EQ(coir_go(scope, echo_some, t.sink[1]), 0);
    CHECK_EQ(coir_join_all(both, 2, 0), 0);
    CHECK_EQ(out.future.result, (int64_t)t.total);
    CHECK_EQ(back.future.result, (int64_t)t.total);
    CHECK_EQ(coir_scope_wait(scope), 0);
}

TEST_REAL(one_task_copies_both_directions_of_a_proxy)
{
    open_all(MUCH);
    copy_both_ways();
    close_all();
}

TEST_SIM(one_task_does_so_in_the_simulated_world)
{
    open_all(200000);
    copy_both_ways();
    close_all();
}

/* ---- one of several ---- */

static void leave_copies(void)
{
    size_t done = 99;
    coir_copy_op copy;
    coir_sleep_op sleep;
    coir_branch one[] = {
        COIR_BRANCH(coir_stream_copy_op(&copy, t.sink[0], t.source[0], COIR_UNLIMITED, &done)),
        COIR_BRANCH(coir_sleep_for_op(&sleep, 20 * COIR_MS)),
    };
    CHECK_EQ(coir_write_all(t.source[1], "abc", 3), 0);
    CHECK_EQ(coir_any(one, 2), 1);
    CHECK_EQ(copy.future.result, -ECANCELED);
    CHECK_EQ(done, 3);
    CHECK_EQ(coir_read_full(t.sink[1], t.in, 3, NULL), 3);
    /* both streams go on, and a copy that ends wins */
    CHECK_EQ(coir_write_all(t.source[1], "de", 2), 0);
    one[0] = (coir_branch)COIR_BRANCH(coir_stream_copy_op(&copy, t.sink[0], t.source[0], 2, &done));
    one[1] = (coir_branch)COIR_BRANCH(coir_sleep_for_op(&sleep, 30 * COIR_S));
    CHECK_EQ(coir_any(one, 2), 0);
    CHECK_EQ(copy.future.result, 2);
    CHECK_EQ(coir_read_full(t.sink[1], t.in, 2, NULL), 2);
    CHECK(memcmp(t.in, "de", 2) == 0);
}

TEST_REAL(a_copy_is_left_for_what_was_quicker)
{
    open_all(0);
    leave_copies();
    close_all();
}

TEST_SIM(so_is_one_of_the_simulated_world)
{
    open_all(0);
    leave_copies();
    close_all();
}

/* A copy times out when a peer neither reads nor sends. */
static void limit_copies(void)
{
    COIR_SERVING_SCOPE(scope);
    CHECK_EQ(coir_stream_set_timeout(t.source[0], COIR_READ, 50 * COIR_MS, 0), 0);
    CHECK_EQ(coir_stream_copy(t.sink[0], t.source[0], 5, NULL), -ETIMEDOUT);
    CHECK_EQ(coir_stream_set_timeout(t.source[0], COIR_READ, 50 * COIR_MS, 0), 0);
    CHECK_EQ(coir_write_all(t.source[1], "abc", 3), 0);
    CHECK_EQ(coir_stream_copy(t.sink[0], t.source[0], 3, NULL), 3);
    CHECK_EQ(coir_stream_copy(t.sink[0], t.source[0], 3, NULL), -ETIMEDOUT);
    CHECK_EQ(coir_stream_set_timeout(t.source[0], COIR_READ, COIR_NEVER, 0), 0);
    CHECK_EQ(coir_stream_set_timeout(t.sink[0], COIR_WRITE, 50 * COIR_MS, 0), 0);
    CHECK_EQ(coir_go(scope, feed, t.source[1]), 0);
    CHECK_EQ(coir_stream_copy(t.sink[0], t.source[0], COIR_UNLIMITED, NULL), -ETIMEDOUT);
    coir_scope_cancel(scope);
    CHECK_EQ(coir_scope_wait(scope), 0);
}

TEST_REAL(a_copy_is_under_the_timeouts_of_its_streams)
{
    open_all(MUCH * 4); /* more than the buffers hold */
    limit_copies();
    close_all();
}

TEST_SIM(so_it_is_in_the_simulated_world_too)
{
    open_all(MUCH);
    limit_copies();
    close_all();
}

/* ---- errors ---- */

/* Each step spends the whole budget, also the one that fails. */
static int copy_what_is_reset(void *arg)
{
    (void)arg;
    open_all(0);
    CHECK_EQ(coir_write_all(t.source[1], "abc", 3), 0);
    CHECK_EQ(coir_tcp_set_option(t.source[1], COIR_TCP_RESET_ON_CLOSE, 1), 0);
    coir_close(t.source[1]);
    t.source[1] = NULL;
    size_t done;
    CHECK_EQ(coir_stream_copy(t.sink[0], t.source[0], COIR_UNLIMITED, &done), -ECONNRESET);
    CHECK_EQ(done, 3);
    close_all();
    return 0;
}

TEST(an_error_on_the_last_of_the_budget_is_returned)
{
    coir_config config = COIR_CONFIG;
    config.budget = 1;
    CHECK_EQ(test_run(&config, copy_what_is_reset, NULL), 0);
}

/* ---- files ---- */

static int receive_file(void *arg)
{
    CHECK_EQ(coir_file_copy_from(arg, 5, COIR_UNLIMITED, t.sink[1], NULL), (ssize_t)t.total - 7);
    return 0;
}

static void copy_files(const char *path)
{
    coir_file *from, *to;
    CHECK_EQ(coir_file_open(path, O_RDWR | O_CREAT | O_TRUNC, 0600, &from), 0);
    CHECK_EQ(coir_file_open("copied", O_RDWR | O_CREAT | O_TRUNC, 0600, &to), 0);
    open_all(300000);
    for (size_t i = 0; i < t.total; i++)
        t.in[i] = byte_at(i);
    CHECK_EQ(coir_file_write(from, t.in, t.total, 0), (ssize_t)t.total);
    {
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go(scope, receive_file, to), 0);
        CHECK_EQ(coir_file_copy_to(from, -1, 3, t.sink[0], NULL), -EINVAL);
        CHECK_EQ(coir_file_copy_to(from, 7, 100, t.sink[0], NULL), 100);
        CHECK_EQ(coir_file_copy_to(from, 107, COIR_UNLIMITED, t.sink[0], NULL),
                 (ssize_t)t.total - 107);
        CHECK_EQ(coir_file_copy_to(from, 1000000, 10, t.sink[0], NULL), 0);
        CHECK_EQ(coir_shutdown_write(t.sink[0]), 0);
        CHECK_EQ(coir_scope_wait(scope), 0);
    }
    memset(t.in, 0, t.total);
    CHECK_EQ(coir_file_read(to, t.in, t.total, 5), (ssize_t)t.total - 7);
    for (size_t i = 7; i < t.total; i++)
        CHECK(t.in[i - 7] == byte_at(i));
    coir_file_close(from);
    coir_file_close(to);
    close_all();
}

TEST_REAL(files_are_sent_and_received)
{
    char directory[] = "/tmp/coir-copy-XXXXXX";
    CHECK(mkdtemp(directory) && chdir(directory) == 0);
    copy_files("original");
    unlink("original"); /* over a simulated kernel they are not here */
    unlink("copied");
    CHECK(rmdir(directory) == 0);
}

TEST_SIM(files_of_the_simulated_world_are_too)
{
    copy_files("original");
}
