/* Pseudo-terminals, and children on them. */
#include <coir.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "mask.h"
#include "open_files.h"
#include "terminal.h"

#define SHELL(script) ((const char *const[]){"/bin/sh", "-c", script, NULL})

/* Reads to the end: what was printed. */
static const char *screen(const coir_pty *pty)
{
    static char text[4096];
    size_t len = 0;
    ssize_t n;
    while ((n = coir_read(coir_pty_stream(pty), text + len, sizeof text - 1 - len)) > 0)
        len += (size_t)n;
    CHECK_EQ(n, 0);
    text[len] = '\0';
    return text;
}

static void check_text(const char *got, const char *want)
{
    if (strcmp(got, want) != 0)
        test_fail(__FILE__, __LINE__, "\"%s\" is not \"%s\"", got, want);
}

/* Reads until the child has printed this. */
static void wait_for_text(const coir_pty *pty, const char *want)
{
    char got[256] = "";
    size_t len = 0;
    while (!strstr(got, want)) {
        ssize_t n = coir_read(coir_pty_stream(pty), got + len, sizeof got - 1 - len);
        CHECK(n > 0);
        got[len += (size_t)n] = '\0';
    }
}

static void spawn(coir_process *child, coir_pty *pty, const char *script)
{
    coir_process_options options = COIR_PROCESS_OPTIONS;
    options.terminal = pty;
    options.grace = COIR_NEVER; /* every child here ends when it is asked to */
    CHECK_EQ(coir_pty_open(pty, NULL), 0);
    CHECK_EQ(coir_process_spawn_with(child, SHELL(script), &options), 0);
}

static void check_child(const char *script, const char *want)
{
    COIR_PTY(pty);
    COIR_PROCESS(child);
    spawn(child, pty, script);
    check_text(screen(pty), want);
    CHECK_EQ(coir_process_wait(child), 0);
}

TEST_REAL(a_child_has_a_terminal_of_its_own)
{
    int before = open_files();
    check_child("test -t 0 && test -t 1 && test -t 2 && echo is one", "is one\r\n");
    check_child("echo controls >/dev/tty", "controls\r\n"); /* only the controlling one is that */
    check_child("stty size", "24 80\r\n");
    check_child(
        "ps -o pid=,sid=,tpgid= -p $$ | { read a b c; test $a = $b -a $b = $c && echo leads; }",
        "leads\r\n");
    check_child("ls /proc/self/fd | wc -l", "4\r\n"); /* the fourth one is the directory */
    CHECK_EQ(open_files(), before);
}

TEST_REAL(what_is_typed_is_read_or_is_a_signal)
{
    COIR_PTY(pty);
    COIR_PROCESS(child);
    spawn(child, pty, "read line; echo \"got $line\"; echo ready; exec sleep 100");
    CHECK_EQ(coir_write_all(coir_pty_stream(pty), "abc\n", 4), 0);
    wait_for_text(pty, "got abc\r\nready\r\n");
    CHECK_EQ(coir_write_all(coir_pty_stream(pty), "\3", 1), 0); /* ^C */
    CHECK_EQ(coir_process_wait(child), COIR_PROCESS_KILLED + SIGINT);
}

TEST_REAL(a_size_is_told_to_the_child)
{
    struct winsize size = {.ws_row = 33, .ws_col = 44};
    COIR_PTY(pty);
    COIR_PROCESS(child);
    spawn(child, pty, "trap 'stty size; exit 5' WINCH; echo ready; while :; do sleep 0.01; done");
    wait_for_text(pty, "ready");
    CHECK_EQ(coir_pty_set_size(pty, &size), 0);
    wait_for_text(pty, "33 44");
    CHECK_EQ(coir_process_wait(child), 5);
}

/* Standard streams that are something else stay that; the terminal is there all the same. */
TEST_REAL(a_terminal_and_pipes)
{
    char text[64];
    coir_process_options options = COIR_PROCESS_OPTIONS;
    COIR_PTY(pty);
    COIR_PROCESS(child);
    CHECK_EQ(coir_pty_open(pty, &(struct winsize){.ws_row = 1, .ws_col = 2}), 0);
    options.terminal = pty;
    options.out = COIR_STDIO_PIPE;
    options.err = COIR_STDIO_OUT;
    const char *script =
        "test -t 0 && ! test -t 1 && ! test -t 2 && stty size && echo hi >/dev/tty";
    CHECK_EQ(coir_process_spawn_with(child, SHELL(script), &options), 0);
    CHECK_EQ(coir_read_full(coir_process_stdout(child), text, 4, NULL), 4);
    CHECK(memcmp(text, "1 2\n", 4) == 0);
    check_text(screen(pty), "hi\r\n");
    CHECK_EQ(coir_process_wait(child), 0);
}

/* An interactive shell ignores SIGTERM, and ends with its terminal. */
TEST_REAL(a_shell_ends_when_it_is_closed)
{
    COIR_PTY(pty);
    {
        COIR_PROCESS(child);
        spawn(child, pty, "PS1='ready ' exec /bin/sh -i");
        wait_for_text(pty, "ready ");
    }
    COIR_PROCESS(other);
    coir_process_options options = COIR_PROCESS_OPTIONS;
    options.terminal = pty;
    CHECK_EQ(coir_process_spawn_with(
                 other, SHELL("trap 'exit 6' HUP; echo trapped; while :; do sleep 0.01; done"),
                 &options),
             0);
    wait_for_text(pty, "trapped");
    coir_pty_close(pty);
    CHECK_EQ(coir_process_wait(other), 6);
    CHECK(!coir_pty_stream(pty));
}

TEST_REAL(much_comes_through)
{
    static char part[64 * 1024];
    size_t total = 0;
    ssize_t n;
    COIR_PTY(pty);
    COIR_PROCESS(child);
    spawn(child, pty, "stty raw; head -c 3000000 /dev/zero");
    while ((n = coir_read(coir_pty_stream(pty), part, sizeof part)) > 0)
        total += (size_t)n;
    CHECK_EQ(n, 0);
    CHECK_EQ(total, 3000000);
    CHECK_EQ(coir_process_wait(child), 0);
}

TEST_REAL(the_end_is_that_of_the_last_program)
{
    static const char much[1 << 20];
    char byte;
    COIR_PTY(pty);
    CHECK_EQ(coir_pty_open(pty, NULL), 0);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(coir_read(coir_pty_stream(pty), &byte, 1), -ETIME);
    }
    coir_fd first = coir_pty_open_terminal(pty), second = coir_pty_open_terminal(pty);
    CHECK(first >= 0 && second >= 0);
    CHECK_EQ(write(first, "ab", 2), 2);
    close(first);
    CHECK_EQ(coir_read(coir_pty_stream(pty), &byte, 1), 1);
    close(second);
    CHECK_EQ(coir_read(coir_pty_stream(pty), &byte, 1), 1);
    CHECK_EQ(byte, 'b');
    CHECK_EQ(coir_read(coir_pty_stream(pty), &byte, 1), 0);
    CHECK_EQ(coir_shutdown_write(coir_pty_stream(pty)), -EOPNOTSUPP);
    first = coir_pty_open_terminal(pty); /* and goes on with the next one */
    CHECK_EQ(write(first, "c", 1), 1);
    CHECK_EQ(coir_read(coir_pty_stream(pty), &byte, 1), 1);
    close(first);
    CHECK_EQ(coir_write_all(coir_pty_stream(pty), much, sizeof much), -EIO); /* no room */
}

static coir_fd reopened = -1;

static void reopen(coir_loop *loop, coir_watch *watch, int events, void *pty)
{
    (void)events;
    coir_watch_stop(loop, watch);
    reopened = coir_pty_open_terminal(pty);
}

static int read_byte(void *pty)
{
    char byte;
    return (int)coir_read(coir_pty_stream(pty), &byte, 1);
}

/* The watch is told first, as its pipe was ready before the terminal was hung up: when the reader
 * hears of that, another program has the terminal open. */
TEST_REAL(a_terminal_that_is_opened_again_goes_on)
{
    int ends[2];
    coir_watch watch = {{0}};
    coir_go_options options = COIR_GO_OPTIONS;
    COIR_PTY(pty);
    COIR_HANDLE(reader);
    COIR_SCOPE(scope);
    options.handle = reader;
    CHECK_EQ(coir_pty_open(pty, NULL), 0);
    coir_fd first = coir_pty_open_terminal(pty);
    CHECK(first >= 0 && pipe(ends) == 0);
    CHECK_EQ(coir_watch_start(coir_worker_loop(), &watch, ends[0], COIR_READ, reopen, pty), 0);
    CHECK_EQ(coir_go_with(scope, &options, read_byte, pty), 0);
    coir_yield();
    CHECK_EQ(write(ends[1], "x", 1), 1);
    close(first);
    while (reopened < 0)
        coir_yield();
    CHECK_EQ(write(reopened, "y", 1), 1);
    CHECK_EQ(coir_join(reader), 1);
    close(reopened);
    close(ends[0]);
    close(ends[1]);
}

TEST_REAL(misuse_is_refused)
{
    static const struct winsize size;
    coir_process_options options = COIR_PROCESS_OPTIONS;
    COIR_PTY(pty);
    COIR_PROCESS(child);
    options.terminal = pty;
    CHECK_EQ(coir_process_spawn_with(child, SHELL("exit"), &options), -EBADF);
    CHECK_EQ(coir_pty_set_size(pty, &size), -EBADF);
    CHECK_EQ(coir_pty_open_terminal(pty), -EBADF);
    CHECK_EQ(coir_pty_open(NULL, NULL), -EINVAL);
    CHECK_EQ(coir_pty_set_size(NULL, &size), -EINVAL);
    CHECK_EQ(coir_pty_open_terminal(NULL), -EINVAL);
    CHECK(!coir_pty_stream(NULL) && !coir_pty_stream(pty));
    CHECK_EQ(coir_pty_open(pty, NULL), 0);
    CHECK_EQ(coir_pty_open(pty, NULL), -EBUSY);
    CHECK_EQ(coir_pty_set_size(pty, NULL), -EINVAL);
    options.share_group = true;
    CHECK_EQ(coir_process_spawn_with(child, SHELL("exit"), &options), -EINVAL);
    coir_close(coir_pty_stream(pty)); /* closes it */
    CHECK_EQ(coir_pty_set_size(pty, &size), -EBADF);
    coir_pty_close(pty);
    coir_pty_close(NULL);
}

TEST_REAL(a_filter_closes_what_it_stands_on)
{
    static const coir_filter_kind mask_kind =
        COIR_FILTER_KIND(mask_read, mask_write, mask_flush, mask_readable, mask_end, mask_free);
    coir_stream *over;
    int before = open_files();
    COIR_PTY(pty);
    CHECK_EQ(coir_pty_open(pty, NULL), 0);
    struct mask mask = {.transport = coir_pty_stream(pty), .ahead = -1};
    CHECK_EQ(coir_filter_new(&mask_kind, &mask, mask.transport, &over), 0);
    coir_pty_close(pty);
    CHECK(!coir_pty_stream(pty));
    CHECK_EQ(coir_write(over, "x", 1), 1);
    CHECK_EQ(coir_pty_open(pty, NULL), 0);
    coir_close(over);
    CHECK(coir_pty_stream(pty) != NULL); /* another one */
    coir_pty_close(pty);
    CHECK_EQ(open_files(), before);
}

TEST_REAL(without_descriptors_nothing_is_left)
{
    struct rlimit all, few;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &all), 0);
    int before = open_files();
    {
        coir_process_options options = COIR_PROCESS_OPTIONS;
        COIR_PTY(pty);
        COIR_PTY(second);
        COIR_PROCESS(child);
        CHECK_EQ(coir_pty_open(pty, NULL), 0);
        options.terminal = pty;
        few = (struct rlimit){0, all.rlim_max};
        CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
        CHECK_EQ(coir_pty_open(second, NULL), -EMFILE);
        CHECK_EQ(coir_pty_open_terminal(pty), -EMFILE);
        CHECK_EQ(coir_process_spawn_with(child, SHELL("exit"), &options), -EMFILE);
        CHECK_EQ(setrlimit(RLIMIT_NOFILE, &all), 0);
        CHECK_EQ(coir_process_spawn_with(child, SHELL("exit 3"), &options), 0);
        CHECK_EQ(coir_process_wait(child), 3);
    }
    CHECK_EQ(open_files(), before);
}
