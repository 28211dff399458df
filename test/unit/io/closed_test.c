/* What is called on a stream that was closed, while its memory lies in the pool. Sanitizers report
 * it by themselves. */
#include <coir.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/compiler.h"
#include "said.h"

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
    expect_said("coir_close", "the stream was closed before");
    CHECK_EQ(coir_read(near, &byte, 1), -EBADF);
    expect_said("an operation on a stream", "the stream was closed before");
    CHECK_EQ(coir_shutdown_write(near), -EBADF);
    expect_said("coir_shutdown_write", "the stream was closed before");
    CHECK_EQ(coir_stream_detach(near), -EBADF);
    expect_said("coir_stream_detach", "the stream was closed before");
    CHECK_EQ(coir_stream_peer(near, address, sizeof address), -EBADF);
    expect_said("the address of a stream", "the stream was closed before");
    CHECK_EQ(coir_tcp_set_option(near, COIR_TCP_NODELAY, 1), -EBADF);
    expect_said("coir_tcp_set_option", "the stream was closed before");
    CHECK_EQ(coir_tcp_get_option(near, COIR_TCP_NODELAY), -EBADF);
    expect_said("coir_tcp_get_option", "the stream was closed before");
    CHECK_EQ(coir_stream_set_timeout(near, COIR_READ, COIR_S, 0), -EBADF);
    expect_said("coir_stream_set_timeout", "the stream was closed before");
    CHECK_EQ(coir_read(far, &byte, 1), 0);
    coir_close(far);
    coir_listener_close(listener);
    return 0;
}

/* Its descriptor may be another connection's by now. */
static int use_closed_unix(void *arg)
{
    coir_listener *listener;
    coir_stream *near, *far;
    coir_credentials peer = COIR_CREDENTIALS;
    char address[64];
    (void)arg;
    snprintf(address, sizeof address, "unix:@coir-closed-%ld", (long)getpid());
    CHECK_EQ(coir_tcp_listen(address, &listener), 0);
    CHECK_EQ(coir_tcp_connect(address, &near), 0);
    CHECK_EQ(coir_accept(listener, &far), 0);
    coir_close(near);
    int pair[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    CHECK_EQ(coir_unix_peer(near, &peer), -EBADF);
    expect_said("coir_unix_peer", "the stream was closed before");
    close(pair[0]);
    close(pair[1]);
    coir_close(far);
    coir_listener_close(listener);
    return 0;
}

static void run_logged(coir_task_fn *fn)
{
    coir_config config = COIR_CONFIG;
    config.workers = 1;
    config.log = take_line;
    if (!CI_ASAN)
        CHECK_EQ(test_run(&config, fn, NULL), 0);
}

TEST(a_closed_stream_is_recognised)
{
    run_logged(use_closed);
}

TEST(a_closed_stream_tells_of_no_peer)
{
    run_logged(use_closed_unix);
}
