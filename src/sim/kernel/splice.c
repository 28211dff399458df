/* sys/splice.h: the simulated kernel moves no bytes by itself, so that copies are plain there. */
#include "sys/splice.h"

#include <errno.h>

int ci_sys_pipe(coir_fd fds[2], size_t size, size_t *ret_size)
{
    (void)fds, (void)size, (void)ret_size;
    return -EOPNOTSUPP;
}

ssize_t ci_sys_splice(coir_fd from, coir_fd to, size_t len)
{
    (void)from, (void)to, (void)len;
    return -EOPNOTSUPP;
}

ssize_t ci_sys_sendfile(coir_fd to, coir_fd file, int64_t offset, size_t len)
{
    (void)to, (void)file, (void)offset, (void)len;
    return -EOPNOTSUPP;
}

int ci_sys_read_ahead(coir_fd file, int64_t offset, size_t len)
{
    (void)file, (void)offset, (void)len;
    return -EOPNOTSUPP;
}
