/* System calls: what they answer beyond what the system's do. */
#include "sys/call.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"

TEST(what_has_no_offsets_is_not_opened_as_a_file)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/coir-call-test-%d", (int)getpid());
    CHECK_EQ(mkfifo(path, 0600), 0);
    CHECK_EQ(ci_sys_open(path, O_RDONLY, 0), -ESPIPE); /* and it does not wait for a writer */
    CHECK_EQ(ci_sys_open(path, O_WRONLY, 0), -ESPIPE);
    unlink(path);
    CHECK_EQ(ci_sys_open(path, O_RDONLY, 0), -ENOENT);
    int fd = ci_sys_open(path, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0);
    CHECK(!(fcntl(fd, F_GETFL) & O_NONBLOCK) && fcntl(fd, F_GETFD) & FD_CLOEXEC);
    CHECK_EQ(ci_sys_write_at(fd, "abc", 3, 4), 3);
    int64_t size = 0;
    CHECK_EQ(ci_sys_file_size(fd, &size), 0);
    CHECK_EQ(size, 7);
    CHECK_EQ(ci_sys_poll_check(fd), -EPERM);
    CHECK(ci_sys_is_open(fd));
    ci_sys_close(fd);
    CHECK_EQ(ci_sys_poll_check(fd), -EBADF);
    CHECK(!ci_sys_is_open(fd));
    unlink(path);
}

TEST(an_eventfd_is_readable_until_it_is_drained)
{
    struct pollfd ready = {.fd = ci_sys_eventfd(), .events = POLLIN};
    CHECK_EQ(ci_sys_poll(&ready, 1, 0), 0);
    ci_sys_eventfd_add(ready.fd);
    ci_sys_eventfd_add(ready.fd);
    CHECK_EQ(ci_sys_poll(&ready, 1, -1), 1);
    ci_sys_eventfd_drain(ready.fd);
    CHECK_EQ(ci_sys_poll(&ready, 1, 0), 0);
    ci_sys_eventfd_drain(ready.fd); /* does not block */
    ci_sys_close(ready.fd);
}

TEST(options_that_cannot_be_are_refused)
{
    int fd = ci_sys_socket(AF_INET);
    CHECK(fd >= 0);
    CHECK_EQ(ci_sys_tcp_option(fd, COIR_TCP_NODELAY, 1), 0);
    CHECK_EQ(ci_sys_tcp_option(fd, COIR_TCP_NODELAY, -1), -EINVAL);
    CHECK_EQ(ci_sys_tcp_option(fd, (enum coir_tcp_option)99, 1), -EINVAL);
    ci_sys_close(fd);
}
