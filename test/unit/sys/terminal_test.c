/* Modes of terminals, and that they are restored however a process ends or stops. */
#include "sys/terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/compiler.h"
#include "sys/fork.h"
#include "terminal.h"

static struct test_terminal t;
static int said[2]; /* a pipe from children */

static void say(void)
{
    CHECK_EQ(write(said[1], "", 1), 1);
}

static void hear(void)
{
    char byte;
    CHECK_EQ(read(said[0], &byte, 1), 1);
}

static void set_mode(struct ci_terminal *terminal, enum ci_terminal_mode mode)
{
    CHECK_EQ(ci_sys_terminal_set_mode(terminal, mode), 0);
    CHECK_EQ(mode_of(t.pty), mode);
}

TEST(a_mode_is_set_and_restored)
{
    struct termios found, now;
    open_test_terminal(&t);
    struct ci_terminal terminal = {.fd = t.fd};
    CHECK_EQ(tcgetattr(t.fd, &found), 0);
    set_mode(&terminal, CI_TERMINAL_RAW);
    CHECK_EQ(tcgetattr(t.fd, &now), 0);
    CHECK(!(now.c_oflag & OPOST) && !(now.c_iflag & ICRNL) && now.c_cc[VMIN] == 1);
    set_mode(&terminal, CI_TERMINAL_CBREAK);
    CHECK_EQ(tcgetattr(t.fd, &now), 0);
    CHECK(now.c_oflag & OPOST && now.c_iflag & ICRNL && !(now.c_lflag & ECHO));
    set_mode(&terminal, CI_TERMINAL_FOUND);
    set_mode(&terminal, CI_TERMINAL_FOUND);
    CHECK_EQ(tcgetattr(t.fd, &now), 0);
    CHECK(now.c_iflag == found.c_iflag && now.c_oflag == found.c_oflag);
    CHECK(now.c_cflag == found.c_cflag && now.c_lflag == found.c_lflag);
    CHECK(memcmp(now.c_cc, found.c_cc, sizeof now.c_cc) == 0);
    set_mode(&terminal, CI_TERMINAL_CBREAK); /* again */
    set_mode(&terminal, CI_TERMINAL_FOUND);
    close_test_terminal(&t);
}

TEST(one_at_a_time_has_the_mode)
{
    open_test_terminal(&t);
    control(t.fd);
    struct ci_terminal first = {.fd = t.fd}, second = {.fd = open("/dev/tty", O_RDWR)};
    CHECK(second.fd >= 0);
    set_mode(&first, CI_TERMINAL_RAW);
    CHECK_EQ(ci_sys_terminal_set_mode(&second, CI_TERMINAL_CBREAK), -EBUSY);
    CHECK_EQ(ci_sys_terminal_set_mode(&second, CI_TERMINAL_FOUND), 0); /* has none */
    CHECK_EQ(mode_of(t.pty), CI_TERMINAL_RAW);
    set_mode(&first, CI_TERMINAL_FOUND);
    set_mode(&second, CI_TERMINAL_CBREAK);
    set_mode(&second, CI_TERMINAL_FOUND);
}

TEST(what_is_opened_again_blocks_alone)
{
    struct stat before, after;
    open_test_terminal(&t);
    coir_fd again = ci_sys_terminal_open(t.fd);
    CHECK(again >= 0 && fcntl(again, F_GETFL) & O_NONBLOCK && fcntl(again, F_GETFD) & FD_CLOEXEC);
    CHECK(!(fcntl(t.fd, F_GETFL) & O_NONBLOCK));
    CHECK(fstat(t.fd, &before) == 0 && fstat(again, &after) == 0);
    CHECK_EQ(before.st_rdev, after.st_rdev);
    close(again);
    int file = open("/dev/null", O_RDWR);
    CHECK_EQ(ci_sys_terminal_open(file), -ENOTTY);
    close(file);
    CHECK_EQ(ci_sys_terminal_open(file), -EBADF);
    close_test_terminal(&t);
}

/* The terminal of another user, that controls the program: as after su(1). */
TEST(another_users_terminal_may_be_opened)
{
    open_test_terminal(&t);
    if (geteuid() != 0 || fchmod(t.fd, 0600) < 0)
        return;
    control(t.fd);
    CHECK_EQ(seteuid(65534), 0);
    coir_fd again = ci_sys_terminal_open(t.fd);
    CHECK(again >= 0);
    struct ci_terminal terminal = {.fd = again};
    set_mode(&terminal, CI_TERMINAL_RAW);
    set_mode(&terminal, CI_TERMINAL_FOUND);
    CHECK_EQ(seteuid(0), 0); /* the check for leaks has to trace this process */
}

/* ---- ends ---- */

static struct ci_terminal shared;

/* A child with the terminal in raw mode, that does `how`, and ends by that. */
static int end_of_child(void (*how)(int number), int number)
{
    open_test_terminal(&t);
    pid_t child = fork_child();
    if (child == 0) {
        for (int i = 1; i < 32; i++)
            signal(i, SIG_DFL); /* sanitizers have handlers of their own */
        shared.fd = t.fd;
        control(t.fd);
        set_mode(&shared, CI_TERMINAL_RAW);
        how(number);
        _exit(99);
    }
    int status = wait_for(child, 0);
    CHECK_EQ(mode_of(t.pty), CI_TERMINAL_FOUND);
    close_test_terminal(&t);
    return status;
}

static void is_sent(int number)
{
    kill(getpid(), number);
    for (;;)
        pause();
}

TEST(a_fatal_signal_restores_the_mode_and_kills)
{
    for (int number = 1; number < 32; number++)
        switch (number) {
        case SIGKILL:
        case SIGSTOP:
        case SIGTSTP:
        case SIGTTIN:
        case SIGTTOU:
        case SIGCHLD:
        case SIGCONT:
        case SIGURG:
        case SIGWINCH: break;
        default: CHECK_EQ(WTERMSIG(end_of_child(is_sent, number)), number);
        }
}

static void crash(int number)
{
    volatile char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *page = (char)number; /* the same after the handler */
}

static void leave_program(int number)
{
    exit(number);
}

static void abort_program(int number)
{
    (void)number;
    abort();
}

TEST(a_crash_and_an_exit_restore_the_mode)
{
    CHECK_EQ(WTERMSIG(end_of_child(crash, 0)), SIGSEGV);
    CHECK_EQ(WTERMSIG(end_of_child(abort_program, 0)), SIGABRT);
    CHECK_EQ(WEXITSTATUS(end_of_child(leave_program, 3)), 3);
}

static void on_own(int number)
{
    ci_signal_leave();
    _exit(number);
}

/* A handler of the program's stays where it is, and does what it has to do. */
static void handles(int number)
{
    signal(number, on_own);
    is_sent(number);
}

TEST(a_handler_of_the_programs_may_restore_the_mode)
{
    CHECK_EQ(WEXITSTATUS(end_of_child(handles, SIGTERM)), SIGTERM);
}

static void count(void *arg)
{
    ++*(int *)arg;
}

/* The first SIGINT stops, so the mode stays; the second one, which nobody waits for, ends it. */
static void is_told_twice(int number)
{
    static int told;
    struct ci_signal_stop stop = {.fn = count, .arg = &told};
    ci_signal_watch(&stop);
    raise(number);
    CHECK_EQ(told, 1);
    CHECK_EQ(mode_of(t.pty), CI_TERMINAL_RAW);
    is_sent(number);
}

/* The handler that coir replaces is put back by the end of the watch. */
static void is_told_later(int number)
{
    static int told;
    struct ci_signal_stop stop = {.fn = count, .arg = &told};
    ci_signal_watch(&stop);
    ci_signal_unwatch(&stop);
    is_sent(number);
}

/* A watch that began before the mode was set. */
static void ends_a_watch(int number)
{
    static int told;
    struct ci_signal_stop stop = {.fn = count, .arg = &told};
    set_mode(&shared, CI_TERMINAL_FOUND);
    ci_signal_watch(&stop);
    set_mode(&shared, CI_TERMINAL_RAW);
    ci_signal_unwatch(&stop);
    is_sent(number);
}

TEST(what_only_stops_the_program_leaves_the_mode)
{
    CHECK_EQ(WTERMSIG(end_of_child(is_told_twice, SIGINT)), SIGINT);
    CHECK_EQ(WTERMSIG(end_of_child(is_told_later, SIGTERM)), SIGTERM);
    CHECK_EQ(WTERMSIG(end_of_child(ends_a_watch, SIGTERM)), SIGTERM);
}

TEST(afterwards_the_signals_are_as_they_were)
{
    struct sigaction now;
    open_test_terminal(&t);
    struct ci_terminal terminal = {.fd = t.fd};
    signal(SIGHUP, SIG_DFL);
    signal(SIGQUIT, SIG_IGN);
    signal(SIGTERM, on_own);
    set_mode(&terminal, CI_TERMINAL_RAW);
    CHECK(sigaction(SIGQUIT, NULL, &now) == 0 && now.sa_handler == SIG_IGN);
    CHECK(sigaction(SIGTERM, NULL, &now) == 0 && now.sa_handler == on_own);
    CHECK(sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler != SIG_DFL);
    set_mode(&terminal, CI_TERMINAL_FOUND);
    CHECK(sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
    close_test_terminal(&t);
}

/* The child of a fork shares the terminal with its parent. */
TEST(a_child_of_fork_changes_nothing)
{
    open_test_terminal(&t);
    struct ci_terminal terminal = {.fd = t.fd};
    ci_fork_forbid();
    set_mode(&terminal, CI_TERMINAL_RAW);
    for (int i = 0; i < 2; i++) {
        pid_t child = fork_child();
        if (child == 0 && i == 0)
            exit(0);
        if (child == 0)
            is_sent(SIGTERM);
        CHECK_EQ(wait_for(child, 0), i ? SIGTERM : 0);
        CHECK_EQ(mode_of(t.pty), CI_TERMINAL_RAW);
    }
    set_mode(&terminal, CI_TERMINAL_FOUND);
    ci_fork_allow();
    close_test_terminal(&t);
}

/* ---- stops ---- */

/* Is stopped, and says when it goes on. It gets signals nowhere else than where it waits for
 * them. */
static void job(void)
{
    struct ci_terminal terminal = {.fd = t.fd};
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    sigprocmask(SIG_BLOCK, &all, NULL);
    set_mode(&terminal, CI_TERMINAL_RAW);
    for (;;) {
        say();
        sigsuspend(&none);
    }
}

static pid_t start_job(void)
{
    pid_t child = fork_child();
    if (child == 0) {
        signal(SIGTTOU, SIG_DFL);
        CHECK_EQ(setpgid(0, 0), 0);
        hear(); /* that it is in the foreground */
        job();
    }
    CHECK(setpgid(child, child) == 0 || errno == EACCES);
    CHECK_EQ(tcsetpgrp(t.fd, child), 0);
    return child;
}

static void to_foreground(pid_t group)
{
    CHECK_EQ(tcsetpgrp(t.fd, group), 0);
}

/* What a shell does. It leads the session, so the group of its job is not orphaned. */
static void stop_and_continue(void)
{
    int go[2];
    CHECK_EQ(pipe(go), 0);
    control(t.fd);
    signal(SIGTTOU, SIG_IGN);
    int from_child = said[0];
    said[0] = go[0];
    pid_t child = start_job();
    said[0] = from_child;
    CHECK_EQ(write(go[1], "", 1), 1);
    hear();
    CHECK_EQ(mode_of(t.pty), CI_TERMINAL_RAW);
    for (int i = 0; i < 3; i++) {
        kill(child, SIGTSTP);
        CHECK(WIFSTOPPED(wait_for(child, WUNTRACED)));
        CHECK_EQ(mode_of(t.pty), CI_TERMINAL_FOUND);
        to_foreground(getpid());
        if (i == 1) { /* in the background it leaves the mode alone, until it comes back */
            kill(child, SIGCONT);
            hear();
            CHECK_EQ(mode_of(t.pty), CI_TERMINAL_FOUND);
        }
        to_foreground(child);
        kill(child, SIGCONT);
        do /* under TSan, which calls a handler after sigsuspend, the job may say it once more */
            hear();
        while (mode_of(t.pty) != CI_TERMINAL_RAW);
    }
    kill(child, SIGHUP);
    CHECK_EQ(WTERMSIG(wait_for(child, 0)), SIGHUP);
    CHECK_EQ(mode_of(t.pty), CI_TERMINAL_FOUND);
}

TEST(a_stop_restores_the_mode_until_it_goes_on)
{
    CHECK_EQ(pipe(said), 0);
    open_test_terminal(&t);
    pid_t shell = fork_child();
    if (shell == 0) {
        stop_and_continue();
        _exit(0);
    }
    CHECK_EQ(wait_for(shell, 0), 0);
    close_test_terminal(&t);
}

/* A group that no shell would let go on is not stopped by SIGTSTP. */
static void is_not_stopped(int number)
{
    kill(getpid(), SIGTSTP);
    kill(getpid(), SIGTSTP);
    CHECK_EQ(mode_of(t.pty), CI_TERMINAL_RAW);
    is_sent(number);
}

TEST(a_stop_that_does_not_stop_leaves_the_mode)
{
    CHECK_EQ(WTERMSIG(end_of_child(is_not_stopped, SIGTERM)), SIGTERM);
}

/* With a sink for it, SIGCONT is the sink's too. */
static void has_a_sink(int number)
{
    struct ci_signal_sink sink = {.wanted = (uint64_t)1 << SIGCONT | (uint64_t)1 << SIGTERM,
                                  .eventfd = -1};
    CHECK_EQ(ci_signal_attach(&sink), 0);
    raise(SIGTERM);
    CHECK_EQ(ci_signal_take(&sink), SIGTERM);
    CHECK_EQ(mode_of(t.pty), CI_TERMINAL_RAW);
    ci_signal_leave();
    CHECK_EQ(mode_of(t.pty), CI_TERMINAL_FOUND);
    raise(SIGCONT);
    CHECK_EQ(ci_signal_take(&sink), SIGCONT);
    CHECK_EQ(mode_of(t.pty), CI_TERMINAL_RAW);
    ci_signal_detach(&sink);
    is_sent(number);
}

TEST(sinks_and_guards_get_along)
{
    CHECK_EQ(WTERMSIG(end_of_child(has_a_sink, SIGTERM)), SIGTERM);
}

/* ---- sizes and ptys ---- */

TEST(a_size_is_set_and_read)
{
    struct winsize size = {.ws_row = 10, .ws_col = 20, .ws_xpixel = 30, .ws_ypixel = 40}, read;
    open_test_terminal(&t);
    CHECK_EQ(ci_sys_terminal_set_size(t.pty, &size), 0);
    CHECK_EQ(ci_sys_terminal_size(t.fd, &read), 0);
    CHECK(memcmp(&size, &read, sizeof size) == 0);
    close_test_terminal(&t);
    CHECK_EQ(ci_sys_terminal_size(t.fd, &read), -EBADF);
}

TEST(a_terminal_that_is_gone_says_so)
{
    struct winsize size;
    open_test_terminal(&t);
    struct ci_terminal terminal = {.fd = t.fd};
    set_mode(&terminal, CI_TERMINAL_RAW);
    close(t.pty);
    CHECK_EQ(ci_sys_terminal_size(t.fd, &size), -EIO);
    CHECK_EQ(ci_sys_terminal_set_mode(&terminal, CI_TERMINAL_CBREAK), -EIO);
    CHECK_EQ(ci_sys_terminal_set_mode(&terminal, CI_TERMINAL_FOUND), -EIO);
    CHECK_EQ(ci_sys_terminal_set_mode(&terminal, CI_TERMINAL_FOUND), 0);
    close(t.fd);
}
