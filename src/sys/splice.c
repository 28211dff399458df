#include "sys/splice.h"

#include <fcntl.h>
#include <unistd.h>

#include "sys/result.h"

#if defined(__linux__)
#include <sys/sendfile.h>

int ci_sys_pipe(coir_fd fds[2], size_t size, size_t *ret_size)
{
    if (pipe2(fds, O_NONBLOCK | O_CLOEXEC) < 0)
        return -errno;
    int got = fcntl(fds[1], F_SETPIPE_SZ, (int)size); /* refused beyond a limit of the user's */
    if (got < 0)
        got = fcntl(fds[1], F_GETPIPE_SZ);
    *ret_size = got > 0 ? (size_t)got : 4096;
    return 0;
}

ssize_t ci_sys_splice(coir_fd from, coir_fd to, size_t len)
{
    return ci_result(splice(from, NULL, to, NULL, ci_sys_clamp(len), SPLICE_F_NONBLOCK));
}

ssize_t ci_sys_sendfile(coir_fd to, coir_fd file, int64_t offset, size_t len)
{
    off_t at = offset;
    return ci_result(sendfile(to, file, &at, ci_sys_clamp(len)));
}

int ci_sys_read_ahead(coir_fd file, int64_t offset, size_t len)
{
    return (int)ci_result(readahead(file, offset, len));
}
#else
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
#endif
