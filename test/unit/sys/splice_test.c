/* Moving bytes between descriptors inside of the kernel. */
#include "sys/splice.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness.h"

TEST(a_splice_moves_what_is_there_and_does_not_wait)
{
    int in[2], out[2], pipe[2];
    size_t size;
    char got[10] = "";
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, in) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, out) == 0);
    CHECK_EQ(ci_sys_pipe(pipe, 65536, &size), 0);
    CHECK(size >= 4096);
    CHECK(fcntl(pipe[0], F_GETFD) & FD_CLOEXEC);
    CHECK_EQ(ci_sys_splice(in[0], pipe[1], 100), -EAGAIN);
    CHECK_EQ(write(in[1], "hello", 5), 5);
    CHECK_EQ(ci_sys_splice(in[0], pipe[1], 3), 3);
    CHECK_EQ(ci_sys_splice(pipe[0], out[0], 100), 3);
    CHECK_EQ(read(out[1], got, sizeof got), 3);
    CHECK(memcmp(got, "hel", 3) == 0);
    close(in[1]);
    CHECK_EQ(ci_sys_splice(in[0], pipe[1], 100), 2);
    CHECK_EQ(ci_sys_splice(in[0], pipe[1], 100), 0);
    CHECK_EQ(ci_sys_splice(-1, pipe[1], 100), -EBADF);
}

TEST(a_file_is_sent_from_its_offset)
{
    char path[] = "/tmp/coir-splice-XXXXXX", got[10] = "";
    int out[2], fd = mkstemp(path);
    CHECK(fd >= 0 && unlink(path) == 0 && write(fd, "0123456789", 10) == 10);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, out) == 0);
    CHECK_EQ(ci_sys_read_ahead(fd, 0, 10), 0);
    CHECK_EQ(ci_sys_sendfile(out[0], fd, 7, 100), 3);
    CHECK_EQ(ci_sys_sendfile(out[0], fd, 10, 100), 0);
    CHECK_EQ(read(out[1], got, sizeof got), 3);
    CHECK(memcmp(got, "789", 3) == 0);
    CHECK_EQ(lseek(fd, 0, SEEK_CUR), 10); /* its own offset is not used */
    close(fd);
}
