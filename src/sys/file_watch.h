/* Watches on files and directories: the queue of the system in which changes of them arrive. */
#ifndef CI_SYS_FILE_WATCH_H
#define CI_SYS_FILE_WATCH_H

#include <stdbool.h>

#include "coir/base.h"

/* The values of enum coir_changes. */
enum ci_file_changes {
    CI_CHANGE_CREATED = 1,
    CI_CHANGE_REMOVED = 2,
    CI_CHANGE_MOVED_OUT = 4,
    CI_CHANGE_MOVED_IN = 8,
    CI_CHANGE_MODIFIED = 16,
    CI_CHANGE_WRITTEN = 32,
    CI_CHANGE_ATTRIBUTES = 64,
    CI_CHANGE_MOVED = 128,
    CI_CHANGE_GONE = 256,
    CI_CHANGE_OVERFLOW = 512
};

struct ci_file_change {
    const char *name; /* in the bytes that were read; "": what is watched itself */
    int id, kind;
    uint32_t pair;
    bool is_dir;
};

/* Room for bytes of the queue: for the longest change, and many short ones. */
enum { CI_FILE_WATCH_ROOM = 4096 };

/* A queue: a descriptor that does not block; -ENOTSUP the system has none. */
coir_fd ci_sys_file_watch_open(void);

/* Reports `changes` of a file or directory from now on: its id. `dir` is what the path begins at;
 * AT_FDCWD: the directory of the process. -EEXIST it is watched already; -EOPNOTSUPP no /proc. */
int ci_sys_file_watch_add(coir_fd fd, coir_fd dir, const char *path, int changes);

/* Watches it no longer; the queue then ends with CI_CHANGE_GONE for this id. -ENOENT. */
int ci_sys_file_watch_remove(coir_fd fd, int id);

/* The next change in bytes that were read from the queue, whose buffer is aligned to 8; *at is
 * where it looks, and is moved behind the change. False: there are no more. */
bool ci_sys_file_watch_next(const char *data, size_t len, size_t *at,
                            struct ci_file_change *ret_change);

#endif
