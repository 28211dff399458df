/* Calls on files, on the drivers that have them. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "env.h"

static uint64_t statx_memory[32];

static bool has(enum ci_file_kind kind)
{
    return env.driver->file_calls >> kind & 1;
}

static int call(struct ci_file_call what)
{
    return run((struct ci_op){.kind = CI_OP_FILE, .fd = what.fd, .call = &what});
}

static int on_path(enum ci_file_kind kind, const char *path, const char *to_path, int flags)
{
    return call((struct ci_file_call){.kind = kind,
                                      .fd = AT_FDCWD,
                                      .path = path,
                                      .to_fd = AT_FDCWD,
                                      .to_path = to_path,
                                      .flags = flags,
                                      .mode = 0700});
}

static int64_t size_of(coir_fd fd, const char *path)
{
    struct stat what = {.st_size = -1};
    int rc = call((struct ci_file_call){
        .kind = CI_FILE_STAT, .fd = fd, .path = path, .stat = &what, .statx = statx_memory});
    return rc < 0 ? rc : what.st_size;
}

static void use_bytes(coir_fd fd)
{
    char in[6] = "";
    struct iovec out[] = {{(char[]){"abc"}, 3}, {(char[]){"de"}, 2}}, into = {in, 5};
    CHECK_EQ(call((struct ci_file_call){.kind = CI_FILE_WRITE, .fd = fd, .iov = out, .count = 2}),
             5);
    CHECK_EQ(call((struct ci_file_call){
                 .kind = CI_FILE_READ, .fd = fd, .iov = &into, .count = 1, .offset = 1}),
             4);
    CHECK(strcmp(in, "bcde") == 0);
    CHECK_EQ(call((struct ci_file_call){.kind = CI_FILE_SYNC, .fd = fd}), 0);
    CHECK_EQ(call((struct ci_file_call){.kind = CI_FILE_SYNC, .fd = fd, .flags = 1}), 0);
    if (has(CI_FILE_TRUNCATE)) { /* Linux 6.9 */
        CHECK_EQ(call((struct ci_file_call){.kind = CI_FILE_TRUNCATE, .fd = fd, .len = 2}), 0);
        CHECK_EQ(size_of(fd, NULL), 2);
    }
    int rc =
        call((struct ci_file_call){.kind = CI_FILE_ALLOCATE, .fd = fd, .offset = 10, .len = 20});
    if (rc != -EOPNOTSUPP) /* not on every file system */
        CHECK(rc == 0 && size_of(fd, NULL) == 30);
}

static void use_paths(void)
{
    int fd = on_path(CI_FILE_OPEN, "/tmp/coir-calls/x", NULL, O_RDWR | O_CREAT);
    CHECK(fd >= 0);
    use_bytes(fd);
    ci_driver_close(env.driver, fd);
    CHECK_EQ(on_path(CI_FILE_LINK, "/tmp/coir-calls/x", "/tmp/coir-calls/y", 0), 0);
    CHECK_EQ(on_path(CI_FILE_RENAME, "/tmp/coir-calls/y", "/tmp/coir-calls/z", 0), 0);
    CHECK(size_of(AT_FDCWD, "/tmp/coir-calls/z") > 0);
    CHECK_EQ(size_of(AT_FDCWD, "/tmp/coir-calls/y"), -ENOENT);
    CHECK_EQ(on_path(CI_FILE_UNLINK, "/tmp/coir-calls/x", NULL, 0), 0);
    CHECK_EQ(on_path(CI_FILE_UNLINK, "/tmp/coir-calls/z", NULL, 0), 0);
}

CONFORM(calls_on_files)
{
    close_fd(env.client);
    close_fd(env.server);
    CHECK(!env.driver->file_calls || (has(CI_FILE_OPEN) && has(CI_FILE_STAT)));
    if (!env.driver->file_calls)
        return;
    CHECK_EQ(on_path(CI_FILE_MKDIR, "/tmp/coir-calls", NULL, 0), 0);
    CHECK_EQ(on_path(CI_FILE_MKDIR, "/tmp/coir-calls", NULL, 0), -EEXIST);
    use_paths();
    CHECK_EQ(on_path(CI_FILE_UNLINK, "/tmp/coir-calls", NULL, AT_REMOVEDIR), 0);
    CHECK_EQ(on_path(CI_FILE_OPEN, "/tmp/coir-calls", NULL, O_RDONLY), -ENOENT);
    CHECK_EQ(call((struct ci_file_call){.kind = CI_FILE_SYNC, .fd = 1000}), -EBADF);
}
