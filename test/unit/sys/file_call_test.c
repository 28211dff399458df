/* System calls on files, where they do more than the system's. */
#include "sys/file_call.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"
#include "sys/call.h"

static int open_path(const char *path, int flags, unsigned mode)
{
    return ci_sys_file(&(struct ci_file_call){
        .kind = CI_FILE_OPEN, .fd = AT_FDCWD, .path = path, .flags = flags, .mode = mode});
}

TEST(what_has_no_offsets_is_not_opened_as_a_file)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/coir-call-test-%d", (int)getpid());
    CHECK_EQ(mkfifo(path, 0600), 0);
    CHECK_EQ(open_path(path, O_RDONLY, 0), -ESPIPE); /* and it does not wait for a writer */
    CHECK_EQ(open_path(path, O_WRONLY, 0), -ESPIPE);
    unlink(path);
    CHECK_EQ(open_path(path, O_RDONLY, 0), -ENOENT);
    int fd = open_path(path, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0);
    CHECK(!(fcntl(fd, F_GETFL) & O_NONBLOCK) && fcntl(fd, F_GETFD) & FD_CLOEXEC);
    struct iovec bytes = {(char[]){"abc"}, 3};
    CHECK_EQ(ci_sys_file(&(struct ci_file_call){
                 .kind = CI_FILE_WRITE, .fd = fd, .iov = &bytes, .count = 1, .offset = 4}),
             3);
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

TEST(a_directory_has_one_lock_at_a_time)
{
    char path[] = "/tmp/coir-file-call-test-XXXXXX";
    CHECK(mkdtemp(path));
    int fd = ci_sys_lock_directory(path);
    CHECK(fd >= 0);
    CHECK_EQ(ci_sys_lock_directory(path), -EWOULDBLOCK);
    ci_sys_close(fd);
    CHECK((fd = ci_sys_lock_directory(path)) >= 0);
    ci_sys_close(fd);
    rmdir(path);
}
