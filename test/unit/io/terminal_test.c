/* Terminals: keys, screens, sizes; and how programs with a terminal end. */
#include <coir.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/compiler.h"
#include "open_files.h"
#include "terminal.h"

static struct test_terminal t;

static const struct winsize sizes[] = {{.ws_row = 10, .ws_col = 20}, {.ws_row = 30, .ws_col = 40}};

static void set_size(int which)
{
    CHECK_EQ(ci_sys_terminal_set_size(t.pty, &sizes[which]), 0);
}

static void check_size(const struct winsize *size, int which)
{
    CHECK_EQ(size->ws_row, sizes[which].ws_row);
    CHECK_EQ(size->ws_col, sizes[which].ws_col);
}

/* What is on the screen, at most; a terminal in a cooked mode writes a carriage return too. */
static void check_screen(const char *want)
{
    char got[64];
    ssize_t len = read(t.pty, got, sizeof got - 1);
    CHECK(len > 0);
    got[len] = '\0';
    if (strcmp(got, want) != 0)
        test_fail(__FILE__, __LINE__, "\"%s\" is not \"%s\"", got, want);
}

static void type(const char *keys)
{
    CHECK_EQ(write(t.pty, keys, strlen(keys)), strlen(keys));
}

static int type_soon(void *arg)
{
    type(arg);
    return 0;
}

TEST_REAL(keys_and_a_screen)
{
    char keys[8];
    open_test_terminal(&t);
    int before = open_files();
    {
        COIR_TERMINAL(terminal);
        COIR_SCOPE(scope);
        CHECK_EQ(coir_terminal_open(terminal, t.fd), 0);
        CHECK(!(fcntl(t.fd, F_GETFL) & O_NONBLOCK)); /* others go on as they did */
        coir_stream *stream = coir_terminal_stream(terminal);
        CHECK_EQ(coir_go(scope, type_soon, "ab\n"), 0);
        CHECK_EQ(coir_read(stream, keys, sizeof keys), 3); /* a line */
        check_screen("ab\r\n");
        CHECK_EQ(coir_terminal_set_mode(terminal, COIR_TERMINAL_RAW), 0);
        CHECK_EQ(coir_go(scope, type_soon, "\3"), 0);
        CHECK_EQ(coir_read(stream, keys, sizeof keys), 1);
        CHECK_EQ(keys[0], 3);
        CHECK_EQ(coir_try_read(stream, keys, sizeof keys), -EAGAIN);
        CHECK_EQ(coir_write_all(stream, "x\n", 2), 0);
        check_screen("x\n");
        CHECK_EQ(coir_shutdown_write(stream), -EOPNOTSUPP);
        CHECK_EQ(coir_stream_detach(stream), -EOPNOTSUPP);
        CHECK_EQ(mode_of(t.pty), CI_TERMINAL_RAW);
    }
    CHECK_EQ(mode_of(t.pty), CI_TERMINAL_FOUND);
    CHECK_EQ(open_files(), before);
    close_test_terminal(&t);
}

static int write_much(void *stream)
{
    static char much[256 * 1024];
    return coir_write_all(stream, much, sizeof much);
}

/* One task reads and another one writes. */
TEST_REAL(both_directions_wait_at_once)
{
    char byte, screen[4096];
    open_test_terminal(&t);
    CHECK(fcntl(t.pty, F_SETFL, O_NONBLOCK) == 0);
    COIR_TERMINAL(terminal);
    COIR_SCOPE(scope);
    coir_handle writer = {{0}};
    coir_go_options options = COIR_GO_OPTIONS;
    options.handle = &writer;
    CHECK_EQ(coir_terminal_open(terminal, t.fd), 0);
    coir_stream *stream = coir_terminal_stream(terminal);
    CHECK_EQ(coir_terminal_set_mode(terminal, COIR_TERMINAL_RAW), 0);
    CHECK_EQ(coir_go_with(scope, &options, write_much, stream), 0);
    coir_yield(); /* it waits for room */
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_read(stream, &byte, 1), -ETIME);
    }
    CHECK_EQ(coir_go(scope, type_soon, "k"), 0);
    CHECK_EQ(coir_read(stream, &byte, 1), 1);
    CHECK_EQ(byte, 'k');
    for (size_t left = 256 * 1024; left;) {
        ssize_t n = coir_fd_read(t.pty, screen, sizeof screen);
        CHECK(n > 0 && (size_t)n <= left);
        left -= (size_t)n;
    }
    CHECK_EQ(coir_join(&writer), 0);
    coir_terminal_close(terminal);
    close_test_terminal(&t);
}

TEST_REAL(what_is_typed_before_a_mode_is_not_lost)
{
    char keys[8];
    open_test_terminal(&t);
    COIR_TERMINAL(terminal);
    CHECK_EQ(coir_terminal_open(terminal, t.fd), 0);
    type("ab"); /* no line yet */
    CHECK_EQ(coir_try_read(coir_terminal_stream(terminal), keys, sizeof keys), -EAGAIN);
    CHECK_EQ(coir_terminal_set_mode(terminal, COIR_TERMINAL_CBREAK), 0);
    CHECK_EQ(coir_read(coir_terminal_stream(terminal), keys, sizeof keys), 2);
    coir_terminal_close(terminal);
    coir_terminal_close(terminal); /* it is closed */
    close_test_terminal(&t);
}

TEST_REAL(what_is_no_terminal_is_refused)
{
    struct winsize size;
    coir_terminal_op op;
    COIR_TERMINAL(terminal);
    COIR_TERMINAL(other);
    open_test_terminal(&t);
    int file = open("/dev/null", O_RDWR);
    CHECK_EQ(coir_terminal_open(terminal, file), -ENOTTY);
    close(file);
    CHECK_EQ(coir_terminal_open(terminal, file), -EBADF);
    CHECK_EQ(coir_terminal_open(NULL, t.fd), -EINVAL);
    CHECK(!coir_terminal_stream(terminal) && !coir_terminal_stream(NULL));
    CHECK_EQ(coir_terminal_set_mode(terminal, COIR_TERMINAL_RAW), -EBADF);
    CHECK_EQ(coir_terminal_size(terminal, &size), -EBADF);
    CHECK_EQ(coir_terminal_resized(terminal, &size), -EBADF);
    CHECK_EQ(coir_terminal_resized(terminal, NULL), -EINVAL);
    CHECK_EQ(coir_await(coir_terminal_resized_op(&op, terminal, &size)), -EBADF);
    CHECK_EQ(coir_await(coir_terminal_resized_op(&op, NULL, &size)), -EINVAL);
    CHECK_EQ(coir_terminal_open(terminal, t.fd), 0);
    CHECK_EQ(coir_terminal_open(terminal, t.fd), -EBUSY);
    CHECK_EQ(coir_terminal_set_mode(terminal, (enum coir_terminal_mode)3), -EINVAL);
    CHECK_EQ(coir_terminal_set_mode(NULL, COIR_TERMINAL_RAW), -EINVAL);
    CHECK_EQ(coir_terminal_size(terminal, NULL), -EINVAL);
    CHECK_EQ(coir_terminal_open(other, t.fd), 0);
    CHECK_EQ(coir_terminal_set_mode(terminal, COIR_TERMINAL_RAW), 0);
    CHECK_EQ(coir_terminal_set_mode(other, COIR_TERMINAL_RAW), -EBUSY);
    coir_terminal_close(other);
    CHECK_EQ(mode_of(t.pty), CI_TERMINAL_RAW);
    coir_terminal_restore();
    CHECK_EQ(mode_of(t.pty), CI_TERMINAL_FOUND);
    raise(SIGCONT);
    CHECK_EQ(mode_of(t.pty), CI_TERMINAL_RAW);
    coir_terminal_close(terminal);
    coir_terminal_close(NULL);
    close_test_terminal(&t);
}

TEST_REAL(a_terminal_that_goes_ends_its_stream)
{
    char byte;
    struct winsize size;
    open_test_terminal(&t);
    COIR_TERMINAL(terminal);
    CHECK_EQ(coir_terminal_open(terminal, t.fd), 0);
    CHECK_EQ(coir_terminal_set_mode(terminal, COIR_TERMINAL_RAW), 0);
    close_test_terminal(&t);
    CHECK_EQ(coir_read(coir_terminal_stream(terminal), &byte, 1), 0);
    CHECK_EQ(coir_write(coir_terminal_stream(terminal), "x", 1), -EIO);
    CHECK_EQ(coir_terminal_size(terminal, &size), -EIO);
    CHECK_EQ(coir_terminal_set_mode(terminal, COIR_TERMINAL_CBREAK), -EIO);
    coir_close(coir_terminal_stream(terminal));
    CHECK(!coir_terminal_stream(terminal));
}

/* ---- sizes ---- */

/* Makes it the terminal of this process, which outlives it. */
static void take_control(void)
{
    signal(SIGHUP, SIG_IGN);
    control(t.fd);
}

static int resize_soon(void *which)
{
    set_size((int)(intptr_t)which);
    return 0;
}

TEST_REAL(a_resize_wakes_who_waits_for_it)
{
    struct winsize size = {0};
    open_test_terminal(&t);
    take_control();
    int before = open_files();
    set_size(0);
    {
        COIR_TERMINAL(terminal);
        COIR_SCOPE(scope);
        CHECK_EQ(coir_terminal_open(terminal, t.fd), 0);
        CHECK_EQ(coir_terminal_size(terminal, &size), 0);
        check_size(&size, 0);
        CHECK_EQ(coir_go(scope, resize_soon, (void *)1), 0);
        CHECK_EQ(coir_terminal_resized(terminal, &size), 0);
        check_size(&size, 1);
        set_size(0); /* before the wait */
        CHECK_EQ(coir_terminal_resized(terminal, &size), 0);
        check_size(&size, 0);
        set_size(1);
        set_size(0); /* as it was */
        {
            COIR_DEADLINE(coir_in(COIR_MS));
            CHECK_EQ(coir_terminal_resized(terminal, &size), -ETIME);
        }
        set_size(1);
        CHECK_EQ(coir_terminal_size(terminal, &size), 0); /* tells it, too */
        {
            COIR_DEADLINE(coir_in(COIR_MS));
            CHECK_EQ(coir_terminal_resized(terminal, &size), -ETIME);
        }
    }
    CHECK_EQ(open_files(), before);
    close_test_terminal(&t);
}

/* Both wake the select, which takes one. */
static int resize_and_raise(void *which)
{
    set_size((int)(intptr_t)which);
    return raise(SIGUSR1);
}

TEST_REAL(a_case_that_loses_tells_the_size_later)
{
    static const int number = SIGUSR1;
    struct winsize size = {0};
    coir_signals *signals;
    open_test_terminal(&t);
    take_control();
    COIR_TERMINAL(terminal);
    set_size(0);
    CHECK_EQ(coir_signals_open(&number, 1, &signals), 0);
    CHECK_EQ(coir_terminal_open(terminal, t.fd), 0);
    for (int i = 0; i < 20; i++) {
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go(scope, resize_and_raise, (void *)(intptr_t) !(i % 2)), 0);
        coir_case waits[] = {coir_case_resize(terminal, &size), coir_case_signal(signals)};
        int which = coir_select(waits, 2);
        CHECK(which >= 0 && waits[which].result >= 0);
        CHECK(which == 0 || coir_terminal_resized(terminal, &size) == 0);
        CHECK(which == 1 || coir_signals_wait(signals) == SIGUSR1);
        check_size(&size, !(i % 2));
    }
    coir_signals_close(signals);
    coir_terminal_close(terminal);
    close_test_terminal(&t);
}

static coir_terminal *waited_for;

static int wait_for_size(void *size)
{
    return coir_terminal_resized(waited_for, size);
}

TEST_REAL(one_task_waits_for_the_size)
{
    struct winsize size = {0};
    open_test_terminal(&t);
    take_control();
    set_size(0);
    COIR_TERMINAL(terminal);
    COIR_SCOPE(scope);
    waited_for = terminal;
    CHECK_EQ(coir_terminal_open(terminal, t.fd), 0);
    CHECK_EQ(coir_go(scope, wait_for_size, &size), 0);
    coir_yield();
    CHECK_EQ(coir_terminal_resized(terminal, &(struct winsize){0}), -EBUSY);
    set_size(1);
    CHECK_EQ(coir_scope_wait(scope), 0);
    check_size(&size, 1);
    coir_terminal_close(terminal);
    close_test_terminal(&t);
}

/* ---- ends of programs ---- */

static int said[2];

static int sleep_stubbornly(void *arg)
{
    COIR_SHIELD;
    (void)arg;
    return coir_sleep_for(100 * COIR_S);
}

/* Its terminal is raw until the block is left. */
static int use_terminal(void *how)
{
    COIR_TERMINAL(terminal);
    int rc = coir_terminal_open(terminal, t.fd);
    if (rc == 0)
        rc = coir_terminal_set_mode(terminal, COIR_TERMINAL_RAW);
    if (rc < 0 || write(said[1], "", 1) != 1)
        return rc;
    return how ? ((coir_task_fn *)how)(terminal) : coir_sleep_for(100 * COIR_S);
}

static pid_t start_program(coir_task_fn *how)
{
    char byte;
    open_test_terminal(&t);
    CHECK_EQ(pipe(said), 0);
    pid_t child = fork_child();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* sanitizers have handlers */
        setenv("COIR_LOG", "none", 1);
        control(t.fd);
        _exit(coir_main(use_terminal, (void *)(uintptr_t)how));
    }
    CHECK_EQ(read(said[0], &byte, 1), 1);
    return child;
}

TEST(a_program_that_is_told_to_stop_leaves_its_blocks)
{
    pid_t child = start_program(NULL);
    CHECK_EQ(mode_of(t.pty), CI_TERMINAL_RAW);
    kill(child, SIGTERM);
    CHECK_EQ(wait_for(child, 0), 0);
    CHECK_EQ(mode_of(t.pty), CI_TERMINAL_FOUND);
    close_test_terminal(&t);
}

/* The first one asks; it may be merged with the second one, so there are as many as it takes. */
TEST(a_program_that_does_not_stop_is_ended_by_the_second_signal)
{
    pid_t child = start_program(sleep_stubbornly);
    int status;
    while (kill(child, SIGINT) == 0 && waitpid(child, &status, WNOHANG) == 0)
        CHECK(usleep(1000) == 0);
    CHECK_EQ(WTERMSIG(status), SIGINT);
    CHECK_EQ(mode_of(t.pty), CI_TERMINAL_FOUND);
    close_test_terminal(&t);
}

static int exit_at_once(void *arg)
{
    (void)arg;
    exit(7);
}

static int crash(void *arg)
{
    volatile char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)arg;
    return *page;
}

static int is_sent_a_fault(void *arg)
{
    (void)arg;
    return raise(SIGSEGV);
}

static CI_NOINLINE int recurse(int depth)
{
    volatile char frame[1024];
    frame[0] = (char)depth;
    return depth ? recurse(depth - 1) + frame[0] : 0;
}

static int overflow(void *arg)
{
    (void)arg;
    return recurse(1000000);
}

TEST(a_program_that_ends_in_a_task_leaves_the_terminal_in_order)
{
    CHECK_EQ(WEXITSTATUS(wait_for(start_program(exit_at_once), 0)), 7);
    CHECK_EQ(mode_of(t.pty), CI_TERMINAL_FOUND);
    CHECK_EQ(WTERMSIG(wait_for(start_program(crash), 0)), SIGSEGV);
    CHECK_EQ(mode_of(t.pty), CI_TERMINAL_FOUND);
    CHECK_EQ(WTERMSIG(wait_for(start_program(is_sent_a_fault), 0)), SIGSEGV);
    CHECK_EQ(mode_of(t.pty), CI_TERMINAL_FOUND);
    if (CI_ASAN || CI_TSAN) /* which report overflows themselves */
        return;
    CHECK_EQ(WTERMSIG(wait_for(start_program(overflow), 0)), SIGABRT);
    CHECK_EQ(mode_of(t.pty), CI_TERMINAL_FOUND);
}

TEST_SIM(there_are_no_terminals_in_the_simulator)
{
    COIR_TERMINAL(terminal);
    COIR_PTY(pty);
    CHECK_EQ(coir_terminal_open(terminal, 0), -ENOTSUP);
    CHECK_EQ(coir_pty_open(pty, NULL), -ENOTSUP);
}
