/* Calls that the kernel, or a container's seccomp filter, refuses. */
#include <coir.h>
#include <coir/loop.h>
#include <coir/poller.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness.h"
#include "seccomp.h"

static void refuse(unsigned call, unsigned error)
{
    refuse_calls(call, call, error);
}

static void refuse_all_waits(void)
{
#ifdef SYS_epoll_wait
    refuse(SYS_epoll_wait, EPERM);
#endif
    refuse(SYS_epoll_pwait, EPERM);
    refuse(SYS_epoll_pwait2, EPERM);
    refuse(SYS_ppoll, EPERM);
    refuse(SYS_io_uring_enter, EPERM);
}

static char logged[200];

static void log_line(enum coir_log_level level, const char *line, void *context)
{
    (void)context;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* more than one worker may log */
    pthread_mutex_lock(&lock);
    if (level == COIR_LOG_ERROR)
        snprintf(logged, sizeof logged, "%s", line);
    pthread_mutex_unlock(&lock);
}

static int run_on(const char *driver, coir_task_fn *fn)
{
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    config.workers = 2;
    config.driver = driver;
    config.log = log_line;
    unsetenv("COIR_DRIVER");
    unsetenv("COIR_WORKERS");
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    int rc = coir_runtime_run(runtime, fn, NULL);
    coir_runtime_free(runtime);
    return rc;
}

static int ends[2];

static int write_later(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_sleep_for(2 * COIR_MS), 0);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    return 0;
}

/* Sleeps, and waits for a descriptor, without looking again and again. */
static int sleep_and_wait(void *arg)
{
    coir_counters before = COIR_COUNTERS, after = COIR_COUNTERS;
    (void)arg;
    coir_counters_get(coir_runtime_current(), &before);
    for (int i = 0; i < 10; i++) {
        char byte;
        CHECK_EQ(coir_sleep_for(2 * COIR_MS), 0);
        CHECK_EQ(coir_go(NULL, write_later, NULL), 0);
        COIR_DEADLINE(coir_in(5 * COIR_S));
        CHECK_EQ(coir_fd_wait(ends[0], COIR_READ), COIR_READ);
        CHECK_EQ(read(ends[0], &byte, 1), 1);
    }
    coir_counters_get(coir_runtime_current(), &after);
    CHECK(after.driver_waits - before.driver_waits < 500);
    return 0;
}

TEST(where_epoll_pwait2_is_refused_epoll_wait_is_used)
{
    static const unsigned errors[] = {EPERM, EACCES, EINVAL, ENOSYS};
    CHECK_EQ(pipe(ends), 0);
    for (int i = 0; i < 4; i++) {
        refuse(SYS_epoll_pwait2, errors[i]);
        CHECK_EQ(run_on("epoll", sleep_and_wait), 0);
    }
}

static int wait_for_ever(void *arg)
{
    (void)arg;
    return coir_fd_wait(ends[0], COIR_READ);
}

static void ends_the_run(const char *driver)
{
    CHECK_EQ(pipe(ends), 0);
    refuse_all_waits();
    CHECK_EQ(run_on(driver, wait_for_ever), -EPERM);
    CHECK(strstr(logged, "refuses to wait") && strstr(logged, coir_strerror(-EPERM)));
}

TEST(a_run_on_epoll_ends_where_every_wait_is_refused)
{
    ends_the_run("epoll");
}

TEST(a_run_on_poll_ends_where_every_wait_is_refused)
{
    ends_the_run("poll");
}

/* ---- io_uring: the kernel has the memory of what it is refused to go on with ---- */

static char bytes[1 << 23], read_into[2][8];
static coir_listener *listener;
static coir_stream *near, *far;

static void connect_pair(void)
{
    char address[80];
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    CHECK(coir_listener_local(listener, address, sizeof address) > 0);
    CHECK_EQ(coir_tcp_connect(address, &near), 0);
    CHECK_EQ(coir_accept(listener, &far), 0);
}

static int read_stream(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_read(near, read_into[0], sizeof read_into[0]), -ECANCELED);
    return 0;
}

static int write_stream(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_write_all(near, bytes, sizeof bytes), -ECANCELED); /* the peer does not read */
    return 0;
}

static int accept_stream(void *arg)
{
    coir_stream *stream;
    (void)arg;
    CHECK_EQ(coir_accept(listener, &stream), -ECANCELED);
    return 0;
}

static int wait_foreign(void *arg)
{
    (void)arg;
    CHECK_EQ(coir_fd_wait(ends[0], COIR_READ), -ECANCELED);
    return 0;
}

static int close_while_refused(void *arg)
{
    (void)arg;
    coir_sleep_until(COIR_NEVER);
    coir_close(far); /* it has many unread bytes */
    return 0;
}

static int wait_for_all(void *arg)
{
    static coir_task_fn *const tasks[] = {read_stream, write_stream, accept_stream, wait_foreign,
                                          close_while_refused};
    char path[] = "/tmp/coir-refused-XXXXXX";
    coir_file *file;
    close(mkstemp(path));
    CHECK_EQ(coir_file_open(path, O_RDWR, 0, &file), 0);
    connect_pair();
    {
        COIR_SCOPE(scope);
        for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
            CHECK_EQ(coir_go(scope, tasks[i], NULL), 0);
        CHECK_EQ(coir_sleep_for(2 * COIR_MS), 0); /* they are the kernel's */
        refuse(SYS_io_uring_enter, *(const unsigned *)arg);
        CHECK_EQ(coir_file_read(file, read_into[1], sizeof read_into[1], 0), -ECANCELED);
        CHECK_EQ(coir_scope_wait(scope), -ECANCELED);
    }
    coir_close(near);
    coir_listener_close(listener);
    coir_file_close(file);
    unlink(path);
    return 0;
}

static coir_runtime *new_on_io_uring(unsigned workers)
{
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    config.workers = workers;
    config.driver = "io_uring";
    config.log = log_line;
    unsetenv("COIR_DRIVER");
    unsetenv("COIR_WORKERS");
    int rc = coir_runtime_new(&config, &runtime);
    if (rc < 0)
        printf("no io_uring here: %s\n", coir_strerror(rc));
    return rc < 0 ? NULL : runtime;
}

static int open_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void ends_while_it_runs(unsigned error)
{
    CHECK_EQ(pipe(ends), 0);
    int before = open_descriptors();
    coir_runtime *runtime = new_on_io_uring(1);
    if (!runtime)
        return;
    CHECK_EQ(coir_runtime_run(runtime, wait_for_all, &error), -(int)error);
    CHECK(strstr(logged, "refuses to wait") && strstr(logged, coir_strerror(-(int)error)));
    /* there is no ring any more */
    CHECK_EQ(coir_runtime_run(runtime, wait_for_all, &error), -(int)error);
    coir_runtime_free(runtime);
    CHECK_EQ(open_descriptors(), before);
}

TEST(a_run_on_io_uring_ends_where_entering_is_not_permitted)
{
    ends_while_it_runs(EPERM);
}

TEST(a_run_on_io_uring_ends_where_there_is_never_memory)
{
    ends_while_it_runs(ENOMEM);
}

TEST(a_run_on_io_uring_ends_where_the_ring_is_always_busy)
{
    ends_while_it_runs(EBUSY);
}

TEST(a_run_on_io_uring_ends_where_it_is_always_to_be_tried_again)
{
    ends_while_it_runs(EAGAIN);
}

TEST(a_run_on_io_uring_ends_where_entering_was_refused_before_it)
{
    CHECK_EQ(pipe(ends), 0);
    coir_runtime *runtime = new_on_io_uring(2);
    if (!runtime)
        return;
    refuse_all_waits();
    CHECK_EQ(coir_runtime_run(runtime, wait_for_ever, NULL), -EPERM);
    CHECK(strstr(logged, "refuses to wait") && strstr(logged, coir_strerror(-EPERM)));
    coir_runtime_free(runtime);
}

static int refuse_and_return(void *arg)
{
    (void)arg;
    refuse(SYS_io_uring_enter, EPERM);
    return 7;
}

static int close_and_refuse(void *arg)
{
    (void)arg;
    connect_pair();
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        /* its receive goes on */
        CHECK_EQ(coir_read(near, read_into[0], sizeof read_into[0]), -ETIME);
    }
    refuse(SYS_io_uring_enter, EPERM);
    coir_close(near);
    coir_close(far);
    coir_listener_close(listener);
    return 7;
}

static void ends_by_itself(coir_task_fn *fn)
{
    int before = open_descriptors();
    coir_runtime *runtime = new_on_io_uring(1);
    if (!runtime)
        return;
    int rc = coir_runtime_run(runtime, fn, NULL);
    CHECK(rc == 7 || rc == -EPERM); /* whether the worker has had to wait once more */
    coir_runtime_free(runtime);
    CHECK_EQ(open_descriptors(), before);
}

TEST(a_run_on_io_uring_that_ends_by_itself_returns)
{
    ends_by_itself(refuse_and_return);
}

TEST(a_run_on_io_uring_closes_its_descriptors_all_the_same)
{
    ends_by_itself(close_and_refuse);
}

static void never_called(coir_loop *loop, coir_watch *watch, int events, void *arg)
{
    (void)arg;
    (void)loop;
    (void)watch;
    CHECK_EQ(events, 0);
}

TEST(a_loop_ends_where_every_wait_is_refused)
{
    coir_loop *loop;
    coir_watch watch = {{0}};
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(coir_loop_new(&loop), 0);
    CHECK_EQ(coir_watch_start(loop, &watch, ends[0], COIR_READ, never_called, NULL), 0);
    refuse_all_waits();
    CHECK_EQ(coir_loop_run(loop), -EPERM);
    CHECK_EQ(coir_loop_run_once(loop, COIR_NEVER), -EPERM);
    coir_loop_free(loop);
}

TEST(a_poller_says_that_every_wait_is_refused)
{
    static const char *const drivers[] = {"epoll", "poll"};
    coir_poller *pollers[2];
    coir_poller_event event;
    CHECK_EQ(pipe(ends), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(coir_poller_new_with(POLLER_ON(drivers[i]), &pollers[i]), 0);
        CHECK_EQ(coir_poller_add(pollers[i], ends[0], 1, COIR_READ), 0);
    }
    refuse_all_waits();
    for (int i = 0; i < 2; i++) {
        coir_source source = {{0}};
        CHECK_EQ(coir_poller_wait(pollers[i], &event, 1, COIR_NEVER), -EPERM);
        /* what is known without the kernel is told */
        CHECK_EQ(coir_source_add(&source, pollers[i], 2), 0);
        CHECK_EQ(coir_source_set(&source, COIR_READ), 0);
        CHECK_EQ(coir_poller_wait(pollers[i], &event, 1, COIR_NEVER), 1);
        CHECK_EQ(event.token, 2);
        coir_source_remove(&source);
        coir_poller_free(pollers[i]);
    }
}

static void ends_the_poller(unsigned error)
{
    coir_poller *poller;
    coir_poller_event event;
    CHECK_EQ(pipe(ends), 0);
    int rc = coir_poller_new_with(POLLER_ON("io_uring"), &poller);
    if (rc < 0) {
        printf("no io_uring here: %s\n", coir_strerror(rc));
        return;
    }
    CHECK_EQ(coir_poller_add(poller, ends[0], 1, COIR_READ), 0);
    refuse(SYS_io_uring_enter, error);
    CHECK_EQ(coir_poller_wait(poller, &event, 1, COIR_NEVER), -(int)error);
    coir_poller_free(poller);
}

TEST(a_poller_on_io_uring_says_that_entering_is_not_permitted)
{
    ends_the_poller(EPERM);
}

TEST(a_poller_on_io_uring_says_that_the_ring_is_always_busy)
{
    ends_the_poller(EBUSY);
}

TEST(a_poller_on_io_uring_says_that_it_is_always_to_be_tried_again)
{
    ends_the_poller(EAGAIN);
}
