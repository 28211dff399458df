/* Watches on files, by inotify(7).
 *
 * 1. The kernel hands out whole events alone.
 */
#include "sys/file_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/check.h"
#include "sys/result.h"

#ifndef IN_MASK_CREATE
#define IN_MASK_CREATE 0x10000000
#endif

static const struct {
    uint32_t mask;
    int kind;
} kinds[] = {
    {IN_CREATE, CI_CHANGE_CREATED},       {IN_DELETE, CI_CHANGE_REMOVED},
    {IN_MOVED_FROM, CI_CHANGE_MOVED_OUT}, {IN_MOVED_TO, CI_CHANGE_MOVED_IN},
    {IN_MODIFY, CI_CHANGE_MODIFIED},      {IN_CLOSE_WRITE, CI_CHANGE_WRITTEN},
    {IN_ATTRIB, CI_CHANGE_ATTRIBUTES},    {IN_MOVE_SELF, CI_CHANGE_MOVED},
    {IN_IGNORED, CI_CHANGE_GONE},         {IN_Q_OVERFLOW, CI_CHANGE_OVERFLOW},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

coir_fd ci_sys_file_watch_open(void)
{
    return (coir_fd)ci_result(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
}

static uint32_t mask_of(int changes)
{
    /* of names that are in the directory, and never in place of another watch */
    uint32_t mask = IN_MASK_CREATE | IN_EXCL_UNLINK | IN_MOVE_SELF;
    for (size_t i = 0; i < KINDS; i++)
        if (changes & kinds[i].kind)
            mask |= kinds[i].mask;
    return mask;
}

/* There is no inotify_add_watch with a directory, but each descriptor has a path. */
int ci_sys_file_watch_add(coir_fd fd, coir_fd dir, const char *path, int changes)
{
    char at[sizeof "/proc/self/fd/" + 10];
    if (dir == AT_FDCWD)
        return (int)ci_result(inotify_add_watch(fd, path, mask_of(changes)));
    int found = (int)ci_result(openat(dir, path, O_PATH | O_CLOEXEC));
    if (found < 0)
        return found;
    snprintf(at, sizeof at, "/proc/self/fd/%d", found);
    int id = (int)ci_result(inotify_add_watch(fd, at, mask_of(changes)));
    close(found);
    return id == -ENOENT ? -EOPNOTSUPP : id;
}

int ci_sys_file_watch_remove(coir_fd fd, int id)
{
    int rc = (int)ci_result(inotify_rm_watch(fd, id));
    return rc == -EINVAL ? -ENOENT : rc;
}

bool ci_sys_file_watch_next(const char *data, size_t len, size_t *at,
                            struct ci_file_change *ret_change)
{
    while (*at < len) {
        const struct inotify_event *event = (const void *)(data + *at);
        *at += sizeof *event + event->len;
        ci_check(*at <= len, "file_watch.c 1");
        for (size_t i = 0; i < KINDS; i++)
            if (event->mask & kinds[i].mask) {
                *ret_change = (struct ci_file_change){.name = event->len ? event->name : "",
                                                      .id = event->wd,
                                                      .kind = kinds[i].kind,
                                                      .pair = event->cookie,
                                                      .is_dir = event->mask & IN_ISDIR};
                return true;
            }
        /* IN_UNMOUNT: IN_IGNORED follows */
    }
    return false;
}
