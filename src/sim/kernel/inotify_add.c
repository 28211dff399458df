/* sys/file_watch.h: a watch on what a path leads to. */
#include <fcntl.h>

#include "sim/kernel/inotify.h"
#include "sys/call.h"
#include "sys/file_watch.h"

int ci_sys_file_watch_add(coir_fd fd, coir_fd dir, const char *path, int changes)
{
    struct ci_file *file;
    ci_kcall();
    ci_kthread_sleep("the disk", ci_kafter((uint64_t)(100 * COIR_US)));
    int rc = ci_kwatch_is_queue(fd);
    if (rc == 0 && dir != AT_FDCWD)
        rc = ci_kfd_refused(); /* it is opened for a moment */
    if (rc == 0)
        rc = ci_kdisk_find(dir, path, &file);
    return rc < 0 ? rc : ci_kwatch_add(fd, file, changes);
}
