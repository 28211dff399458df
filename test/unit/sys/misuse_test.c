/* What cannot be right ends a debug build with the call and the place; elsewhere it is an error. */
#include "sys/misuse.h"

#include <coir.h>
#include <coir/web.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static char said[1000];

/* What misuses coir lies together in the program, and returns to there: that is the place to be
 * named. */
#define MISUSE(name, call)                                              \
    static __attribute__((section("misuses"), noinline)) int name(void) \
    {                                                                   \
        int rc = call;                                                  \
        __asm__ volatile("" ::: "memory"); /* no tail call */           \
        return rc;                                                      \
    }
extern const char __start_misuses[], __stop_misuses[];

static int take_base(struct dl_phdr_info *program, size_t size, void *arg)
{
    (void)size;
    *(uintptr_t *)arg = program->dlpi_addr;
    return 1;
}

static void check_place(void)
{
    uintptr_t base = 0;
    dl_iterate_phdr(take_base, &base);
    uintptr_t place =
        base + (uintptr_t)strtoull(strstr(said, "called at ") + strlen("called at "), NULL, 16);
    CHECK(place >= (uintptr_t)__start_misuses && place < (uintptr_t)__stop_misuses);
}

/* Runs it as a debug build would: it must abort, and what it says is in `said`. */
static void expect_abort(int (*misuse)(void), int error, const char *call)
{
    int pipe_ends[2], status;
    CHECK_EQ(misuse(), error);
    if (!CI_DEBUG)
        return;
    CHECK_EQ(pipe(pipe_ends), 0);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(pipe_ends[1], STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        ci_misuse_aborts = true;
        misuse();
        _exit(0);
    }
    close(pipe_ends[1]);
    size_t len = 0;
    for (ssize_t n; (n = read(pipe_ends[0], said + len, sizeof said - 1 - len)) > 0;)
        len += (size_t)n;
    said[len] = '\0';
    close(pipe_ends[0]);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    char start[100];
    snprintf(start, sizeof start, "coir: misuse: %s: ", call);
    CHECK(strncmp(said, start, strlen(start)) == 0 && strstr(said, " (called at 0x"));
    /* the text of the error where there is no better one: beside it, it would contradict */
    CHECK_EQ(strstr(said, coir_strerror(error)) != NULL, error == -ESRCH);
    CHECK(strstr(said, " of the program; addr2line"));
    check_place();
}

static coir_mutex mutex = COIR_MUTEX_INIT;
static coir_semaphore full = COIR_SEMAPHORE_INIT(UINT64_MAX - 1);
static coir_shared_mutex shared = COIR_SHARED_MUTEX_INIT;

MISUSE(yield_outside, coir_yield())
MISUSE(sleep_outside, coir_sleep_for(COIR_MS))
MISUSE(lock_outside, coir_mutex_lock(&mutex))
MISUSE(share_outside, coir_shared_mutex_share(&shared))
MISUSE(select_outside, coir_select(NULL, 0))
MISUSE(offload_outside, coir_offload(NULL, NULL))
MISUSE(connect_outside, coir_tcp_connect("127.0.0.1:1", &(coir_stream *){NULL}))
MISUSE(serve_outside, coir_serve_tcp("127.0.0.1:0", NULL, NULL))
MISUSE(serve_http_outside, coir_serve_http("127.0.0.1:0", NULL))
MISUSE(release_too_many, coir_semaphore_release(&full, 2))
MISUSE(spawn_nothing, coir_go(NULL, NULL, NULL))
MISUSE(spawn_nothing_with, coir_go_with(NULL, NULL, NULL, NULL))
MISUSE(spawn_nothing_on, coir_go_on(NULL, 0, NULL, NULL))
MISUSE(spawn_nothing_anywhere, coir_go_anywhere(NULL, NULL, NULL))

static void on_readable(coir_loop *on, coir_watch *of, int events, void *arg)
{
    (void)on, (void)of, (void)events, (void)arg;
}

static coir_watch watch;
static coir_loop *loop;
static int ends[2];

MISUSE(start_again, coir_watch_start(loop, &watch, ends[0], COIR_READ, on_readable, NULL))

/* Returns what the second start says. */
static int start_twice(void)
{
    CHECK_EQ(pipe(ends), 0);
    memset(&watch, 0, sizeof watch);
    CHECK_EQ(coir_loop_new(&loop), 0);
    CHECK_EQ(coir_watch_start(loop, &watch, ends[0], COIR_READ, on_readable, NULL), 0);
    int rc = start_again();
    coir_loop_free(loop);
    close(ends[0]);
    close(ends[1]);
    return rc;
}

TEST(misuse_is_named)
{
    expect_abort(yield_outside, -ESRCH, "coir_yield");
    expect_abort(sleep_outside, -ESRCH, "coir_sleep_for");
    expect_abort(lock_outside, -ESRCH, "coir_mutex_lock");
    expect_abort(share_outside, -ESRCH, "coir_shared_mutex_share");
    expect_abort(select_outside, -ESRCH, "coir_select");
    expect_abort(offload_outside, -ESRCH, "coir_offload");
    expect_abort(connect_outside, -ESRCH, "coir_tcp_connect");
    expect_abort(serve_outside, -ESRCH, "coir_serve_tcp");
    expect_abort(serve_http_outside, -ESRCH, "coir_serve_http");
    expect_abort(release_too_many, -EOVERFLOW, "coir_semaphore_release");
    CHECK_EQ(coir_semaphore_units(&full), UINT64_MAX - 1);
    expect_abort(spawn_nothing, -EINVAL, "coir_go");
    expect_abort(spawn_nothing_with, -EINVAL, "coir_go_with");
    expect_abort(spawn_nothing_on, -EINVAL, "coir_go_on");
    expect_abort(spawn_nothing_anywhere, -EINVAL, "coir_go_anywhere");
    expect_abort(start_twice, -EBUSY, "coir_watch_start");
}

/* ---- in a fiber: of a runtime that begins in the child ---- */

static int return_0(void *arg)
{
    (void)arg;
    return 0;
}

static void ignore(int64_t result, void *arg)
{
    (void)result, (void)arg;
}

static coir_scope zero;
static coir_handle unused;
static coir_generator *generator;
static coir_signals *signals;
static coir_sleep_op sleep_op;
static coir_completion completion;

MISUSE(go_closed, coir_go(&zero, return_0, NULL))
MISUSE(go_with_closed, coir_go_with(&zero, NULL, return_0, NULL))
MISUSE(go_on_closed, coir_go_on(&zero, 0, return_0, NULL))
MISUSE(go_anywhere_closed, coir_go_anywhere(&zero, return_0, NULL))
MISUSE(go_future_closed, coir_go_future(&zero, coir_sleep_for_op(&sleep_op, 0)))
MISUSE(complete_closed,
       coir_completion_start(&zero, &completion, coir_sleep_for_op(&sleep_op, 0), ignore, NULL))
MISUSE(wait_closed, coir_scope_wait(&zero))
MISUSE(call_nothing, coir_call_on(0, NULL, NULL))
MISUSE(offload_nothing, coir_offload(NULL, NULL))
MISUSE(defer_nothing, coir_defer(NULL, NULL))
MISUSE(generate_nothing, coir_generator_new(NULL, NULL, &generator))
MISUSE(no_signals, coir_signals_open(NULL, 0, &signals))
MISUSE(join_unused, coir_join(&unused))
MISUSE(await_nothing, (int)coir_await(NULL))
MISUSE(wait_for_nothing, coir_scope_wait(NULL))
MISUSE(join_nothing, coir_join(NULL))
MISUSE(any_of_nothing, coir_any(NULL, 1))
MISUSE(select_unmade, coir_select(&(coir_case){0}, 1))
MISUSE(next_of_nothing, coir_generator_next(NULL, 0, &(uint64_t){0}))
MISUSE(add_nothing, coir_set_add(NULL, NULL))
MISUSE(park_nothing, coir_parker_init(NULL))
MISUSE(go_no_future, coir_go_future(NULL, NULL))
MISUSE(complete_nothing, coir_completion_start(NULL, &completion, NULL, ignore, NULL))
MISUSE(post_nothing, coir_runtime_post(NULL, 0, NULL, NULL))

/* What is started already is not started again. */
static coir_sleep_op started;
static coir_handle given;
static coir_branch member;
static coir_set set;

MISUSE(go_future_again, coir_go_future(NULL, &started.future))
MISUSE(complete_again, coir_completion_start(NULL, &completion, &started.future, ignore, NULL))
MISUSE(give_again,
       coir_go_with(NULL, &(coir_go_options){.size = sizeof(coir_go_options), .handle = &given},
                    return_0, NULL))
MISUSE(add_again, coir_set_add(&set, &member))

static int go_future_twice(void)
{
    CHECK_EQ(coir_go_future(NULL, coir_sleep_for_op(&started, COIR_MS)), 0);
    return go_future_again();
}

static int complete_twice(void)
{
    coir_future *future = coir_sleep_for_op(&started, COIR_MS);
    CHECK_EQ(coir_completion_start(NULL, &completion, future, ignore, NULL), 0);
    return complete_again();
}

static int give_twice(void)
{
    CHECK_EQ(give_again(), 0); /* it is no misuse yet */
    return give_again();
}

static int add_twice(void)
{
    coir_set_init(&set);
    member.future = coir_sleep_for_op(&started, COIR_MS);
    CHECK_EQ(add_again(), 0);
    int rc = add_again();
    coir_set_done(&set);
    return rc;
}

/* Opened, entered, left, released and ended once too often, or too early. */
static coir_scope scope;
static coir_cancel_scope cancel_scope;
static coir_parker parker;
static coir_condition condition;

MISUSE(open_again, coir_scope_open(&scope) == &scope ? -EINVAL : 0)
MISUSE(enter_again, (coir_deadline_enter(&cancel_scope, COIR_NEVER), -EINVAL))
MISUSE(shield_again, (coir_shield_enter(&cancel_scope), -EINVAL))
MISUSE(leave_again, (coir_cancel_scope_leave(&cancel_scope), -EINVAL))
MISUSE(release_again, (coir_runtime_release(coir_runtime_current()), -EINVAL))
MISUSE(waker_of_nothing, (coir_waker_wake(coir_parker_waker(NULL)), -EINVAL))
MISUSE(waker_of_zeroes, (coir_waker_wake(coir_parker_waker(&parker)), -EINVAL))
MISUSE(wait_unlocked, coir_condition_wait(&condition, &mutex))
MISUSE(next_of_no_set, coir_set_next(NULL, NULL))

static int open_twice(void)
{
    coir_scope_open(&scope);
    int rc = open_again();
    coir_scope_close(&scope);
    return rc;
}

static int enter_twice(void)
{
    coir_deadline_enter(&cancel_scope, COIR_NEVER);
    int rc = enter_again();
    coir_cancel_scope_leave(&cancel_scope);
    return rc;
}

static int shield_twice(void)
{
    coir_shield_enter(&cancel_scope);
    int rc = shield_again();
    coir_cancel_scope_leave(&cancel_scope);
    return rc;
}

static int leave_twice(void)
{
    coir_shield_enter(&cancel_scope);
    coir_cancel_scope_leave(&cancel_scope);
    return leave_again();
}

static int release_twice(void)
{
    coir_runtime_hold(coir_runtime_current());
    coir_runtime_release(coir_runtime_current());
    return release_again();
}

MISUSE(serve_nothing, coir_serve_tcp("127.0.0.1:0", NULL, NULL))
MISUSE(serve_nothing_with, coir_serve_tcp_with(NULL, NULL, NULL))
MISUSE(serve_http_nothing, coir_serve_http("127.0.0.1:0", NULL))
MISUSE(serve_http_nothing_with, coir_serve_http_with(NULL, NULL))

static const struct {
    int (*call)(void);
    int error;
    const char *name;
} in_fiber[] = {
    {go_closed, -EBADF, "coir_go"},
    {go_with_closed, -EBADF, "coir_go_with"},
    {go_on_closed, -EBADF, "coir_go_on"},
    {go_anywhere_closed, -EBADF, "coir_go_anywhere"},
    {go_future_closed, -EBADF, "coir_go_future"},
    {complete_closed, -EBADF, "coir_completion_start"},
    {wait_closed, -EBADF, "coir_scope_wait"},
    {call_nothing, -EINVAL, "coir_call_on"},
    {offload_nothing, -EINVAL, "coir_offload"},
    {defer_nothing, -EINVAL, "coir_defer"},
    {generate_nothing, -EINVAL, "coir_generator_new"},
    {no_signals, -EINVAL, "coir_signals_open"},
    {join_unused, -EINVAL, "coir_join"},
    {await_nothing, -EINVAL, "coir_await"},
    {wait_for_nothing, -EINVAL, "coir_scope_wait"},
    {join_nothing, -EINVAL, "coir_join"},
    {any_of_nothing, -EINVAL, "coir_any"},
    {select_unmade, -EINVAL, "coir_select"},
    {next_of_nothing, -EINVAL, "coir_generator_next"},
    {add_nothing, -EINVAL, "coir_set_add"},
    {park_nothing, -EINVAL, "coir_parker_init"},
    {go_no_future, -EINVAL, "coir_go_future"},
    {complete_nothing, -EINVAL, "coir_completion_start"},
    {post_nothing, -EINVAL, "coir_runtime_post"},
    {go_future_twice, -EBUSY, "coir_go_future"},
    {complete_twice, -EBUSY, "coir_completion_start"},
    {give_twice, -EBUSY, "coir_go_with"},
    {add_twice, -EBUSY, "coir_set_add"},
    {open_twice, -EINVAL, "coir_scope_open"},
    {enter_twice, -EINVAL, "coir_deadline_enter"},
    {shield_twice, -EINVAL, "coir_shield_enter"},
    {leave_twice, -EINVAL, "coir_cancel_scope_leave"},
    {release_twice, -EINVAL, "coir_runtime_release"},
    {waker_of_nothing, -EINVAL, "coir_parker_waker"},
    {waker_of_zeroes, -EINVAL, "coir_parker_waker"},
    {wait_unlocked, -EINVAL, "coir_condition_wait"},
    {next_of_no_set, -EINVAL, "coir_set_next"},
    {serve_nothing, -EINVAL, "coir_serve_tcp"},
    {serve_nothing_with, -EINVAL, "coir_serve_tcp_with"},
    {serve_http_nothing, -EINVAL, "coir_serve_http"},
    {serve_http_nothing_with, -EINVAL, "coir_serve_http_with"},
};
static size_t chosen;

static int make_chosen_call(void *arg)
{
    (void)arg;
    return in_fiber[chosen].call();
}

static int call_in_fiber(void)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    return test_run(&config, make_chosen_call, NULL);
}

TEST(misuse_in_a_fiber_is_named)
{
    for (chosen = 0; chosen < sizeof in_fiber / sizeof *in_fiber; chosen++)
        expect_abort(call_in_fiber, in_fiber[chosen].error, in_fiber[chosen].name);
}

/* ---- in builds that do not abort ---- */

static int logged;

static void take_line(enum coir_log_level level, const char *line, void *arg)
{
    (void)arg;
    CHECK_EQ(level, COIR_LOG_ERROR);
    CHECK(strncmp(line, "misuse: coir_join: handle is NULL", 33) == 0);
    logged++;
}

static int misuse_in_a_loop(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++)
        CHECK_EQ(join_nothing(), -EINVAL);
    return 0;
}

static int calls_elsewhere; /* or it would be the same code */
MISUSE(join_nothing_elsewhere, (calls_elsewhere++, coir_join(NULL)))

/* In turns, as a server whose handlers are called in turns. */
static int misuse_in_two_places(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(join_nothing(), -EINVAL);
        CHECK_EQ(join_nothing_elsewhere(), -EINVAL);
    }
    return 0;
}

TEST(misuse_of_several_places_is_logged_once_for_each)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.log = take_line;
    CHECK_EQ(test_run(&config, misuse_in_two_places, NULL), 0);
    CHECK_EQ(logged, 2);
}

TEST(misuse_is_logged_once_for_each_place)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.log = take_line;
    CHECK_EQ(test_run(&config, misuse_in_a_loop, NULL), 0);
    CHECK_EQ(logged, 1);
}

/* A plain thread has no log; the place may be that of a function which tasks call, too. */
TEST(misuse_that_nobody_has_heard_of_is_logged_later)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.log = take_line;
    CHECK_EQ(join_nothing(), -ESRCH);
    CHECK_EQ(test_run(&config, misuse_in_a_loop, NULL), 0);
    CHECK_EQ(logged, 1);
}
