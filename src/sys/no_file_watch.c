/* A system without watches on files. */
#include "sys/file_watch.h"

#include <errno.h>

coir_fd ci_sys_file_watch_open(void)
{
    return -ENOTSUP;
}

int ci_sys_file_watch_add(coir_fd fd, coir_fd dir, const char *path, int changes)
{
    (void)fd, (void)dir, (void)path, (void)changes;
    return -ENOTSUP;
}

int ci_sys_file_watch_remove(coir_fd fd, int id)
{
    (void)fd, (void)id;
    return -ENOTSUP;
}

bool ci_sys_file_watch_next(const char *data, size_t len, size_t *at,
                            struct ci_file_change *ret_change)
{
    (void)data, (void)len, (void)at, (void)ret_change;
    return false;
}
