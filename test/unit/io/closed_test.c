/* What is called on a stream that was closed, while its memory lies in the pool. Sanitizers report
 * it by themselves. */
#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "harness.h"

static char said[600];

static void take_line(enum coir_log_level level, const char *line, void *arg)
{
    (void)arg;
    if (level == COIR_LOG_ERROR)
        snprintf(said, sizeof said, "%s", line);
}

static void expect_named(const char *call)
{
    char start[100];
    snprintf(start, sizeof start, "misuse: %s: the stream was closed before", call);
    if (strncmp(said, start, strlen(start)) != 0)
        test_fail(__FILE__, __LINE__, "%s is not named: %s", call, said);
    said[0] = '\0';
}

static int use_closed(void *arg)
{
    coir_listener *listener;
    coir_stream *near, *far;
    char address[64], byte;
    (void)arg;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    CHECK(coir_listener_local(listener, address, sizeof address) > 0);
    CHECK_EQ(coir_tcp_connect(address, &near), 0);
    CHECK_EQ(coir_accept(listener, &far), 0);
    coir_close(near);
    coir_close(near);
    expect_named("coir_close");
    CHECK_EQ(coir_read(near, &byte, 1), -EBADF);
    expect_named("an operation on a stream");
    CHECK_EQ(coir_shutdown_write(near), -EBADF);
    expect_named("coir_shutdown_write");
    CHECK_EQ(coir_stream_detach(near), -EBADF);
    expect_named("coir_stream_detach");
    CHECK_EQ(coir_read(far, &byte, 1), 0);
    coir_close(far);
    coir_listener_close(listener);
    return 0;
}

TEST(a_closed_stream_is_recognised)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.log = take_line;
    if (!CI_ASAN)
        CHECK_EQ(test_run(&config, use_closed, NULL), 0);
}
