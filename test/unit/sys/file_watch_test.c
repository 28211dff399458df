/* Watches on files: the queue, and the changes in its bytes. */
#include "sys/file_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "harness.h"
#include "sys/call.h"

TEST(a_queue_reports_what_was_asked_for)
{
    static _Alignas(8) char data[CI_FILE_WATCH_ROOM];
    char path[] = "/tmp/coir-watch-XXXXXX";
    struct ci_file_change change;
    size_t at = 0;
    int file = mkstemp(path);
    coir_fd fd = ci_sys_file_watch_open();
    CHECK(file >= 0 && fd >= 0);
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    CHECK_EQ(ci_sys_read(fd, data, sizeof data), -EAGAIN);
    int id = ci_sys_file_watch_add(fd, AT_FDCWD, path, CI_CHANGE_MODIFIED);
    CHECK(id > 0);
    CHECK_EQ(ci_sys_file_watch_add(fd, AT_FDCWD, path, CI_CHANGE_WRITTEN), -EEXIST);
    CHECK_EQ(write(file, "x", 1), 1);
    CHECK_EQ(ci_sys_file_watch_remove(fd, id), 0);
    CHECK_EQ(ci_sys_file_watch_remove(fd, id), -ENOENT);
    ssize_t len = ci_sys_read(fd, data, sizeof data);
    CHECK(len > 0);
    CHECK(ci_sys_file_watch_next(data, (size_t)len, &at, &change));
    CHECK(change.id == id && change.kind == CI_CHANGE_MODIFIED && !change.name[0]);
    CHECK(ci_sys_file_watch_next(data, (size_t)len, &at, &change));
    CHECK(change.id == id && change.kind == CI_CHANGE_GONE);
    CHECK(!ci_sys_file_watch_next(data, (size_t)len, &at, &change));
    CHECK_EQ(at, len);
    unlink(path);
    close(file);
    ci_sys_close(fd);
}

/* An event in bytes as the kernel writes them; returns how many. */
static size_t put(char *data, uint32_t mask, const char *name)
{
    struct inotify_event event = {.wd = 7, .mask = mask, .cookie = 3, .len = 16};
    memcpy(data, &event, sizeof event);
    memset(data + sizeof event, 0, 16);
    memcpy(data + sizeof event, name, strlen(name));
    return sizeof event + 16;
}

/* A file system that was unmounted is reported by what follows, that its files are gone. */
TEST(what_has_no_kind_of_its_own_is_passed_over)
{
    static _Alignas(8) char data[100];
    struct ci_file_change change;
    size_t at = 0, len = put(data, IN_UNMOUNT, "");
    len += put(data + len, IN_CREATE | IN_ISDIR, "name");
    CHECK(ci_sys_file_watch_next(data, len, &at, &change));
    CHECK(change.id == 7 && change.kind == CI_CHANGE_CREATED && change.is_dir && change.pair == 3);
    CHECK(strcmp(change.name, "name") == 0);
    CHECK(!ci_sys_file_watch_next(data, len, &at, &change));
    at = 0;
    len = put(data, IN_UNMOUNT, "");
    CHECK(!ci_sys_file_watch_next(data, len, &at, &change));
    CHECK_EQ(at, len);
}
