/* Which driver a runtime gets, where io_uring may not be used or memory may hardly be locked. */
#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "harness.h"
#include "seccomp.h"
#include "task/runtime.h"

static char logged[1000];

static void log_line(enum coir_log_level level, const char *line, void *context)
{
    (void)context;
    (void)level;
    size_t len = strlen(logged);
    snprintf(logged + len, sizeof logged - len, "%s\n", line);
}

static int echo(coir_stream *stream, void *arg)
{
    char buf[100];
    ssize_t n;
    (void)arg;
    while ((n = coir_read(stream, buf, sizeof buf)) > 0)
        coir_write_all(stream, buf, (size_t)n);
    return (int)n;
}

static char address[64];

static int serve(void *arg)
{
    coir_listener *listener = arg;
    return coir_serve_tcp_with(TCP_ON(listener), echo, NULL);
}

static int talk(void *arg)
{
    const char *driver = arg;
    coir_listener *listener;
    coir_stream *stream;
    char buf[5];
    for (int i = 0; i < (int)coir_worker_count(coir_runtime_current()); i++)
        CHECK_EQ(strcmp(coir_runtime_current()->workers[i].loop.driver->kind->name, driver), 0);
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    coir_listener_local(listener, address, sizeof address);
    {
        COIR_SCOPE(scope);
        CHECK_EQ(coir_go(scope, serve, listener), 0);
        CHECK_EQ(coir_tcp_connect(address, &stream), 0);
        CHECK_EQ(coir_write_all(stream, "hello", 5), 0);
        CHECK_EQ(coir_read_full(stream, buf, 5, NULL), 5);
        coir_close(stream);
        coir_scope_cancel(scope);
    }
    coir_listener_close(listener);
    return 0;
}

/* Whether it has been built in. */
static bool has_io_uring(void)
{
    return strcmp(ci_driver_choices[0], "io_uring") == 0;
}

static void works_on(const char *driver)
{
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    config.workers = 3;
    config.log = log_line;
    unsetenv("COIR_DRIVER");
    unsetenv("COIR_WORKERS");
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    for (int i = 0; i < 2; i++) /* a second run has other threads */
        CHECK_EQ(coir_runtime_run(runtime, talk, (void *)(uintptr_t)driver), 0);
    coir_runtime_free(runtime);
}

static void fails_where_it_is_named(int error)
{
    coir_config config = COIR_CONFIG;
    coir_runtime *runtime;
    config.driver = "io_uring";
    config.log = log_line;
    CHECK_EQ(coir_runtime_new(&config, &runtime), error);
    CHECK(strstr(logged, "io_uring") != NULL);
}

TEST(where_io_uring_is_forbidden_epoll_is_used)
{
    if (!has_io_uring())
        return;
    /* as the sysctl kernel.io_uring_disabled does, too */
    refuse_calls(SYS_io_uring_setup, SYS_io_uring_register, EPERM);
    works_on("readiness");
    CHECK(strstr(logged, "epoll: io_uring does not work here (Operation not permitted)") != NULL);
    fails_where_it_is_named(-EPERM);
}

TEST(where_only_entering_the_ring_is_forbidden_too)
{
    if (!has_io_uring())
        return;
    refuse_calls(SYS_io_uring_enter, SYS_io_uring_enter, EPERM);
    works_on("readiness");
    fails_where_it_is_named(-EPERM);
}

TEST(where_the_kernel_has_no_io_uring_epoll_is_used)
{
    if (!has_io_uring())
        return;
    refuse_calls(SYS_io_uring_setup, SYS_io_uring_register, ENOSYS);
    works_on("readiness");
    CHECK(strstr(logged, "not implemented") != NULL);
}

TEST(little_memory_that_may_be_locked_is_enough)
{
    struct rlimit limit = {64 * 1024, 64 * 1024};
    CHECK_EQ(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    struct ci_driver *driver;
    bool works = ci_driver_open("io_uring", &ci_system_allocator, &driver) == 0;
    if (works)
        driver->kind->free(driver);
    works_on(works ? "io_uring" : "readiness");
}
