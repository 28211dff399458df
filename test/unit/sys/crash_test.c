/* Fatal signals: who is told, and what happens afterwards. */
#include "sys/crash.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static const char *volatile told;
static volatile int told_times, handled;

static void note(struct ci_crash_watch *watch, const char *what)
{
    (void)watch;
    told = what;
    told_times++;
}

static void handle(int number)
{
    handled = number;
}

static void handle_informed(int number, siginfo_t *info, void *context)
{
    CHECK(context);
    CHECK_EQ(info->si_signo, number);
    handled = -number;
}

static struct ci_crash_watch watch = {.fn = note};

static struct sigaction set(int number, void (*plain)(int),
                            void (*informed)(int, siginfo_t *, void *))
{
    struct sigaction action = {.sa_flags = informed ? SA_SIGINFO : 0}, before;
    if (informed)
        action.sa_sigaction = informed;
    else
        action.sa_handler = plain;
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR1);
    CHECK_EQ(sigaction(number, &action, &before), 0);
    return before;
}

TEST(a_watch_is_told_once_before_the_handler_that_was_there)
{
    set(SIGFPE, handle, NULL);
    ci_crash_watch_add(&watch);
    raise(SIGFPE);
    CHECK(told && strcmp(told, "SIGFPE") == 0);
    CHECK_EQ(handled, SIGFPE);
    handled = 0;
    raise(SIGFPE);
    CHECK_EQ(handled, SIGFPE);
    CHECK_EQ(told_times, 1);
    ci_crash_watch_remove(&watch);
}

TEST(a_handler_gets_what_the_kernel_says)
{
    set(SIGBUS, NULL, handle_informed);
    ci_crash_watch_add(&watch);
    raise(SIGBUS);
    CHECK_EQ(handled, -SIGBUS);
    CHECK_EQ(told_times, 1);
    ci_crash_watch_remove(&watch);
}

TEST(what_was_ignored_stays_ignored)
{
    set(SIGSYS, SIG_IGN, NULL);
    ci_crash_watch_add(&watch);
    raise(SIGSYS);
    CHECK_EQ(told_times, 1);
    ci_crash_watch_remove(&watch);
}

TEST(the_last_watch_restores_the_handlers)
{
    struct ci_crash_watch other = {.fn = note};
    struct sigaction now;
    set(SIGFPE, handle, NULL);
    ci_crash_watch_add(&watch);
    ci_crash_watch_add(&other);
    ci_crash_watch_remove(&watch);
    raise(SIGFPE);
    CHECK_EQ(told_times, 1);
    ci_crash_watch_remove(&other);
    CHECK_EQ(sigaction(SIGFPE, NULL, &now), 0);
    CHECK(now.sa_handler == handle);
    raise(SIGFPE);
    CHECK_EQ(told_times, 1);
}

static struct sigaction ours;

static void handle_in_front(int number, siginfo_t *info, void *context)
{
    ours.sa_sigaction(number, info, context);
}

TEST(a_handler_that_was_put_in_front_may_call_the_watch)
{
    set(SIGFPE, handle, NULL);
    ci_crash_watch_add(&watch);
    ours = set(SIGFPE, NULL, handle_in_front);
    raise(SIGFPE);
    CHECK_EQ(handled, SIGFPE);
    CHECK_EQ(told_times, 1);
    ci_crash_watch_remove(&watch);
    ci_crash_watch_add(&watch); /* ours is in the chain still: it must not call itself */
    handled = 0;
    raise(SIGFPE);
    CHECK_EQ(handled, SIGFPE);
    ci_crash_watch_remove(&watch);
}

static int full; /* a file that must not grow */

static void write_in_vain(struct ci_crash_watch *self, const char *what)
{
    int ends[2];
    struct rlimit limit, none;
    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
    CHECK(write(full, "text", 4) < 0 && errno == EFBIG); /* SIGXFSZ */
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    CHECK_EQ(pipe(ends), 0);
    close(ends[0]);
    CHECK(write(ends[1], "text", 4) < 0 && errno == EPIPE); /* SIGPIPE */
    close(ends[1]);
    note(self, what);
}

TEST(a_watch_that_cannot_write_raises_no_other_signal)
{
    struct ci_crash_watch writer = {.fn = write_in_vain};
    FILE *file = tmpfile();
    sigset_t before, after;
    CHECK(file);
    full = fileno(file);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, NULL, &before), 0);
    set(SIGFPE, handle, NULL);
    ci_crash_watch_add(&writer);
    raise(SIGFPE);
    CHECK_EQ(told_times, 1);
    CHECK_EQ(handled, SIGFPE);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
    for (int number = 1; number < NSIG; number++) /* the rest of a set is not written */
        CHECK_EQ(sigismember(&after, number), sigismember(&before, number));
    ci_crash_watch_remove(&writer);
    fclose(file);
}

/* ---- processes that end ---- */

static int pipe_end;

static void write_name(struct ci_crash_watch *self, const char *what)
{
    (void)self;
    if (write(pipe_end, what, strlen(what)) < 0)
        _exit(99);
}

static void run_null(void)
{
    volatile int *volatile nothing = NULL;
    *nothing = 1;
}

/* Ends by the signal, or by a sanitizer's report about it. */
static void ends_by(void (*fn)(void), const char *name)
{
    int ends[2], status;
    char text[100] = "";
    CHECK_EQ(pipe(ends), 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(2); /* a sanitizer's report */
        pipe_end = ends[1];
        struct ci_crash_watch here = {.fn = write_name};
        ci_crash_watch_add(&here);
        fn();
        _exit(0);
    }
    close(ends[1]);
    CHECK(read(ends[0], text, sizeof text - 1) >= 0);
    CHECK(strcmp(text, name) == 0);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
    close(ends[0]);
}

TEST(a_fault_has_its_effect_afterwards)
{
    ends_by(run_null, "SIGSEGV");
}

TEST(an_ignored_fault_ends_the_process_all_the_same)
{
    set(SIGSEGV, SIG_IGN, NULL);
    ends_by(run_null, "SIGSEGV");
}

TEST(abort_has_its_effect_afterwards)
{
    ends_by(abort, "SIGABRT");
}

static void crash_in_the_watch(struct ci_crash_watch *self, const char *what)
{
    write_name(self, what);
    run_null();
}

static void crash_twice(void)
{
    static struct ci_crash_watch second = {.fn = crash_in_the_watch};
    ci_crash_watch_add(&second);
    run_null();
}

TEST(a_crash_in_a_watch_ends_the_process)
{
    ends_by(crash_twice, "SIGSEGV");
}
