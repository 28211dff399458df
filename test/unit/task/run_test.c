/* The begin and the end of a run (task/run.c): stops from before it, threads that cannot be
 * started, what comes after it. Every order of them is in test/model/run_test.c. */
#include <coir.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "harness.h"
#include "memory_limit.h"
#include "sys/cpu.h"
#include "task/runtime.h"

static coir_runtime *new_runtime(unsigned workers)
{
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    config.workers = workers;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    return runtime;
}

static int return_at_once(void *arg)
{
    (void)arg;
    return 0;
}

static int add_one(void *arg)
{
    ++*(int *)arg;
    return 0;
}

static int wait_for_ever(void *arg)
{
    if (arg)
        ++*(int *)arg;
    return coir_sleep_until(COIR_NEVER);
}

/* ---- stop ---- */

TEST(a_stop_from_before_the_run_ends_it)
{
    coir_runtime *runtime = new_runtime(2);
    int started = 0;
    coir_runtime_stop(runtime);
    CHECK_EQ(coir_runtime_run(runtime, wait_for_ever, &started), -ECANCELED);
    /* as any task that is cancelled before it starts: it is told at its first suspending call */
    CHECK_EQ(started, 1);
    CHECK_EQ(coir_runtime_run(runtime, add_one, &started), 0); /* it was for that run alone */
    coir_runtime_stop(runtime);
    CHECK_EQ(coir_runtime_run(runtime, wait_for_ever, NULL), -ECANCELED);
    coir_runtime_free(runtime);
}

TEST(a_stop_from_before_the_begin_ends_a_driven_run)
{
    coir_runtime *runtime = new_runtime(1);
    coir_runtime_stop(runtime);
    int rc = coir_runtime_begin(runtime, wait_for_ever, NULL);
    if (rc != -ENOTSUP) {
        CHECK_EQ(rc, 0);
        CHECK_EQ(coir_runtime_end(runtime), -EBUSY); /* a task is left */
        CHECK_EQ(coir_runtime_run(runtime, return_at_once, NULL), -EBUSY);
        for (int i = 0; i < 10 && coir_runtime_step(runtime); i++)
            continue;
        CHECK_EQ(coir_runtime_step(runtime), 0);
        CHECK_EQ(coir_runtime_end(runtime), -ECANCELED);
    }
    CHECK_EQ(coir_runtime_end(runtime), -EINVAL);
    coir_runtime_free(runtime);
}

TEST(without_a_run_there_is_no_step)
{
    coir_runtime *runtime = new_runtime(1);
    CHECK_EQ(coir_runtime_step(runtime), 0);
    CHECK_EQ(coir_runtime_run(runtime, return_at_once, NULL), 0);
    CHECK_EQ(coir_runtime_step(runtime), 0);
    if (coir_runtime_begin(runtime, return_at_once, NULL) == 0) {
        while (coir_runtime_step(runtime))
            continue;
        CHECK_EQ(coir_runtime_end(runtime), 0);
        CHECK_EQ(coir_runtime_step(runtime), 0);
    }
    coir_runtime_free(runtime);
}

TEST(a_driven_run_that_has_ended_may_be_freed_without_its_end)
{
    for (int i = 0; i < 50; i++) {
        coir_runtime *runtime = new_runtime(3);
        if (coir_runtime_begin(runtime, return_at_once, NULL) == 0)
            while (coir_runtime_step(runtime))
                continue;
        coir_runtime_free(runtime); /* the other threads are on their way out */
    }
}

static void *stop_soon(void *arg)
{
    coir_runtime_stop(arg);
    return NULL;
}

TEST(a_stop_that_races_with_the_begin_ends_the_run)
{
    for (int i = 0; i < 500; i++) {
        coir_runtime *runtime = new_runtime(2);
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, stop_soon, runtime), 0);
        CHECK_EQ(coir_runtime_run(runtime, wait_for_ever, NULL), -ECANCELED);
        /* the stopping thread may still be on its way out of the call */
        coir_runtime_free(runtime);
        pthread_join(thread, NULL);
    }
}

/* ---- after the end ---- */

static void on_post(void *arg)
{
    ++*(int *)arg;
}

TEST(what_comes_after_the_end_is_refused)
{
    coir_runtime *runtime = new_runtime(2);
    coir_call call;
    int count = 0;
    CHECK_EQ(coir_runtime_run(runtime, return_at_once, NULL), 0);
    CHECK_EQ(coir_block_on(runtime, coir_call_init(&call, add_one, &count)), -COIR_EENDED);
    CHECK_EQ(coir_runtime_post(runtime, 1, on_post, &count), -COIR_EENDED);
    CHECK_EQ(count, 0);
    CHECK_EQ(coir_runtime_run(runtime, add_one, &count), 0);
    CHECK_EQ(count, 1);
    CHECK_EQ(coir_runtime_run(runtime, NULL, NULL), -EINVAL);
    coir_runtime_free(runtime);
}

struct early {
    coir_runtime *runtime;
    int result, count;
};

static void *block_early(void *arg)
{
    struct early *early = arg;
    coir_call call;
    early->result =
        (int)coir_block_on(early->runtime, coir_call_init(&call, add_one, &early->count));
    return NULL;
}

TEST(a_block_on_from_before_the_run_is_run_or_refused)
{
    struct early early = {new_runtime(1), 1, 0};
    pthread_t thread;
    int posted = 0;
    CHECK_EQ(coir_runtime_post(early.runtime, 0, on_post, &posted), 0);
    CHECK_EQ(pthread_create(&thread, NULL, block_early, &early), 0);
    CHECK_EQ(posted, 0);
    CHECK_EQ(coir_runtime_run(early.runtime, return_at_once, NULL), 0);
    pthread_join(thread, NULL);
    CHECK(early.result == 0 || early.result == -COIR_EENDED);
    CHECK_EQ(early.count, early.result == 0);
    CHECK_EQ(posted, 1);
    coir_runtime_free(early.runtime);
}

/* A runtime that is freed without a run refuses those who waited for it. */
TEST(a_runtime_that_never_ran_refuses_those_who_wait_for_it)
{
    for (int i = 0; i < 50; i++) {
        struct early early = {new_runtime(1), 1, 0};
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, block_early, &early), 0);
        while (ci_inbox_empty(&early.runtime->workers[0].loop.inbox))
            sched_yield();
        coir_runtime_free(early.runtime);
        pthread_join(thread, NULL);
        CHECK_EQ(early.result, -COIR_EENDED);
        CHECK_EQ(early.count, 0);
    }
}

/* A call that posts itself again is refused at the end, so a run that has ended can be freed. */
static coir_runtime *ended_one;
static int last_post;

static void post_again(void *arg)
{
    last_post = coir_runtime_post(ended_one, 0, post_again, arg);
}

TEST(a_post_that_posts_itself_does_not_keep_a_runtime_from_its_end)
{
    ended_one = new_runtime(1);
    CHECK_EQ(coir_runtime_post(ended_one, 0, post_again, NULL), 0);
    CHECK_EQ(coir_runtime_run(ended_one, return_at_once, NULL), 0);
    CHECK_EQ(last_post, -COIR_EENDED);
    coir_runtime_free(ended_one);
}

/* ---- posts that spawn as the run ends ---- */

static int spawned, refused, called;

static int call_the_last(void *arg)
{
    int last = (int)coir_worker_count(coir_runtime_current()) - 1;
    CHECK_EQ(coir_call_on(last, add_one, arg), 0);
    return 0;
}

static void spawn_one(void *arg)
{
    int rc = coir_go(NULL, call_the_last, arg);
    CHECK(rc == 0 || rc == -COIR_EENDED || rc == -ESRCH);
    __atomic_fetch_add(rc == 0 ? &spawned : &refused, 1, __ATOMIC_RELAXED);
}

static int post_and_return(void *arg)
{
    (void)arg;
    return coir_runtime_post(coir_runtime_current(), 0, spawn_one, &called);
}

TEST(a_task_that_starts_at_the_end_reaches_every_worker_or_is_refused)
{
    coir_runtime *runtime = new_runtime(3);
    for (int i = 0; i < 1000; i++)
        CHECK_EQ(coir_runtime_run(runtime, post_and_return, NULL), 0);
    CHECK_EQ(spawned + refused, 1000);
    CHECK_EQ(called, spawned);
    coir_runtime_free(runtime);
}

/* ---- threads that cannot be started ---- */

TEST(without_a_thread_for_each_worker_nothing_starts)
{
    if (CI_ASAN || CI_TSAN)
        return; /* their runtimes need memory of their own for a thread, and give up */
    coir_runtime *runtime = new_runtime(16);
    int count = 0;
    /* the stacks that fibers need are there */
    CHECK_EQ(coir_runtime_run(runtime, call_the_last, &count), 0);
    for (int i = 0; i < 3; i++) {
        struct rlimit before = limit_memory();
        int rc = coir_runtime_run(runtime, add_one, &count);
        CHECK(rc == -EAGAIN || rc == -ENOMEM);
        CHECK_EQ(count, 1);
        unlimit_memory(before);
    }
    CHECK_EQ(coir_runtime_run(runtime, call_the_last, &count), 0); /* once there is room it runs */
    CHECK_EQ(count, 2);
    coir_runtime_free(runtime);
}

/* ---- the signal mask ---- */

static sigset_t mask_now(void)
{
    sigset_t mask;
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, NULL, &mask), 0);
    return mask;
}

static void check_mask(const sigset_t *want)
{
    sigset_t got = mask_now();
    for (int number = 1; number < 64; number++)
        CHECK_EQ(sigismember(&got, number), sigismember(want, number));
}

static int provoke_sigpipe(void *arg)
{
    (void)arg;
    int ends[2];
    sigset_t mask = mask_now();
    CHECK_EQ(sigismember(&mask, SIGPIPE), 1);
    CHECK_EQ(pipe(ends), 0);
    close(ends[0]);
    CHECK_EQ(write(ends[1], "x", 1), -1);
    CHECK_EQ(errno, EPIPE);
    close(ends[1]);
    return 0;
}

static int pipe_signals;

static void on_pipe(int number)
{
    (void)number;
    pipe_signals++;
}

/* After a run the thread has the mask that it came with, and no SIGPIPE of the run's comes to
 * it; one from before is there still. */
TEST(a_run_leaves_the_signal_mask_as_it_was)
{
    coir_runtime *runtime = new_runtime(2);
    sigset_t mask, pending;
    signal(SIGPIPE, on_pipe);
    for (int which = 0; which < 4; which++) {
        bool blocked = which & 1, was_pending = which == 3;
        sigemptyset(&mask);
        sigaddset(&mask, SIGUSR1);
        if (blocked)
            sigaddset(&mask, SIGPIPE);
        if (which & 2)
            sigaddset(&mask, SIGTERM);
        CHECK_EQ(pthread_sigmask(SIG_SETMASK, &mask, NULL), 0);
        if (was_pending)
            raise(SIGPIPE);
        CHECK_EQ(coir_runtime_run(runtime, provoke_sigpipe, NULL), 0);
        check_mask(&mask);
        CHECK_EQ(pipe_signals, 0);
        sigpending(&pending);
        CHECK_EQ(sigismember(&pending, SIGPIPE), was_pending);
    }
    coir_runtime_free(runtime);
}

/* Each step of a run that is driven, too. */
TEST(a_step_leaves_the_signal_mask_as_it_was)
{
    coir_runtime *runtime = new_runtime(1);
    sigset_t mask = mask_now();
    signal(SIGPIPE, on_pipe);
    if (coir_runtime_begin(runtime, provoke_sigpipe, NULL) == 0) {
        do
            check_mask(&mask);
        while (coir_runtime_step(runtime));
        CHECK_EQ(coir_runtime_end(runtime), 0);
    }
    check_mask(&mask);
    CHECK_EQ(pipe_signals, 0);
    coir_runtime_free(runtime);
}

/* Arguments that were copied for tasks which then may not start. */
static void spawn_with_copies(void *arg)
{
    coir_go_options options = COIR_GO_OPTIONS;
    char copied[64] = "";
    int places[] = {COIR_HERE, COIR_ANYWHERE};
    options.copy_size = sizeof copied;
    for (int i = 0; i < 2; i++) {
        options.place = places[i];
        *(int *)arg += coir_go_with(NULL, &options, return_at_once, copied) == -COIR_EENDED;
    }
}

static int post_copies_and_return(void *arg)
{
    return coir_runtime_post(coir_runtime_current(), 0, spawn_with_copies, arg);
}

TEST(a_copied_argument_of_a_task_that_may_not_start_is_given_back)
{
    coir_runtime *runtime = new_runtime(1);
    int all_refused = 0;
    for (int i = 0; i < 10; i++)
        CHECK_EQ(coir_runtime_run(runtime, post_copies_and_return, &all_refused), 0);
    CHECK_EQ(all_refused, 20);
    CHECK_EQ(runtime->workers[0].copies.live, 0);
    coir_runtime_free(runtime);
}

/* ---- workers that are tied to CPUs ---- */

static unsigned available;

static int count_cpus(void *arg)
{
    cpu_set_t cpus;
    (void)arg;
    CHECK_EQ(sched_getaffinity(0, sizeof cpus, &cpus), 0);
    return CPU_COUNT(&cpus);
}

/* The CPU of each worker in `arg`. */
static int see_pins(void *arg)
{
    const int *all = arg;
    for (int i = 0; i < 2; i++)
        CHECK_EQ(coir_call_on(i, count_cpus, NULL), 1);
    CHECK_EQ(ci_cpu_available(), available); /* of which more threads are made */
    CHECK_EQ(coir_offload(count_cpus, NULL), *all);
    return 0;
}

TEST(a_run_with_pinned_workers_ties_nothing_else_to_their_cpus)
{
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    int all = count_cpus(NULL);
    available = ci_cpu_available();
    config.workers = 2;
    config.pin_workers = true;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(coir_runtime_run(runtime, see_pins, &all), 0);
        CHECK_EQ(count_cpus(NULL), all);
    }
    coir_runtime_free(runtime);
}

/* ---- what is started on a worker's loop when a run ends ---- */

static coir_watch kept_watches[2];
static int kept_pipe[2], events_seen, ticks_seen;
static coir_timer kept_timer;

static void see_byte(coir_loop *loop, coir_watch *watch, int events, void *arg)
{
    char byte;
    (void)loop, (void)watch, (void)arg;
    CHECK_EQ(events & COIR_READ, COIR_READ);
    events_seen += (int)read(kept_pipe[0], &byte, 1);
}

static void see_tick(coir_loop *loop, coir_timer *timer, void *arg)
{
    (void)loop, (void)timer, (void)arg;
    ticks_seen++;
}

static int start_and_return(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++)
        CHECK_EQ(coir_watch_start(coir_worker_loop(), &kept_watches[i], kept_pipe[i],
                                  i ? COIR_WRITE : COIR_READ, see_byte, NULL),
                 0);
    coir_watch_stop(coir_worker_loop(), &kept_watches[1]);
    coir_timer_start(coir_worker_loop(), &kept_timer, 0, see_tick, NULL);
    return 0;
}

static int wait_and_stop(void *arg)
{
    const int *events = arg;
    while (events_seen < *events || !ticks_seen)
        CHECK_EQ(coir_sleep_for(10 * COIR_US), 0);
    coir_watch_stop(coir_worker_loop(), &kept_watches[0]);
    return 0;
}

static void keep_a_watch(const char *driver)
{
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    int events = 1;
    config.driver = driver;
    config.workers = 1;
    if (coir_runtime_new(&config, &runtime) < 0)
        return;
    CHECK_EQ(pipe(kept_pipe), 0);
    events_seen = ticks_seen = 0;
    CHECK_EQ(coir_runtime_run(runtime, start_and_return, NULL), 0);
    CHECK_EQ(write(kept_pipe[1], "x", 1), 1);
    CHECK_EQ(coir_runtime_run(runtime, wait_and_stop, &events), 0);
    CHECK_EQ(coir_runtime_run(runtime, start_and_return, NULL), 0);
    CHECK_EQ(write(kept_pipe[1], "x", 1), 1);
    events = 2;
    int rc = coir_runtime_begin(runtime, wait_and_stop, &events);
    if (rc == 0) {
        while (coir_runtime_step(runtime))
            continue;
        CHECK_EQ(coir_runtime_end(runtime), 0);
    } else {
        CHECK_EQ(rc, -ENOTSUP);
        CHECK_EQ(coir_runtime_run(runtime, wait_and_stop, &events), 0);
    }
    coir_runtime_free(runtime);
    close(kept_pipe[0]);
    close(kept_pipe[1]);
}

TEST(a_watch_and_a_timer_that_are_started_when_a_run_ends_stay_so)
{
    const char *const drivers[] = {NULL, "io_uring", "epoll", "poll"};
    for (int i = 0; i < 4; i++)
        keep_a_watch(drivers[i]);
}
