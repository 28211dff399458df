#include "sys/file_call.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/result.h"

/* Closes a descriptor that has no offsets again (-ESPIPE). Takes O_NONBLOCK, which ci_sys_open has
 * set for the open alone, off again: with it, io_uring would return -EAGAIN instead of waiting. */
static int check_opened(int fd, int flags)
{
    int rc = lseek(fd, 0, SEEK_CUR) < 0 && errno == ESPIPE ? -ESPIPE : 0;
    if (rc == 0 && !(flags & (O_NONBLOCK | O_PATH)) &&
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) < 0)
        rc = -errno;
    if (rc < 0)
        close(fd);
    return rc < 0 ? rc : fd;
}

int ci_sys_open(const char *path, int flags, unsigned mode)
{
    struct stat what;
    int fd = (int)ci_result(open(path, flags | O_CLOEXEC | O_NONBLOCK, mode));
    /* Another process holds a lease: a blocking open waits until the kernel has revoked it, at most
     * fs.lease-break-time. */
    if (fd == -EWOULDBLOCK && !(flags & O_NONBLOCK))
        fd = (int)ci_result(open(path, flags | O_CLOEXEC, mode));
    if (fd == -ENXIO && stat(path, &what) == 0 &&
        (S_ISFIFO(what.st_mode) || S_ISSOCK(what.st_mode)))
        return -ESPIPE; /* a FIFO without a reader, or a socket */
    return fd < 0 ? fd : check_opened(fd, flags);
}

int ci_sys_file_size(coir_fd fd, int64_t *ret_size)
{
    struct stat what;
    if (fstat(fd, &what) < 0)
        return -errno;
    *ret_size = what.st_size;
    return 0;
}

ssize_t ci_sys_read_at(coir_fd fd, void *buf, size_t len, int64_t offset)
{
    return ci_result(pread(fd, buf, len, offset));
}

ssize_t ci_sys_write_at(coir_fd fd, const void *data, size_t len, int64_t offset)
{
    return ci_result(pwrite(fd, data, len, offset));
}

int ci_sys_sync(coir_fd fd)
{
    return (int)ci_result(fsync(fd));
}

int ci_sys_lock_directory(const char *path)
{
    int fd = (int)ci_result(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    int rc = fd < 0 ? fd : (int)ci_result(flock(fd, LOCK_EX | LOCK_NB));
    if (fd >= 0 && rc < 0)
        close(fd);
    return rc < 0 ? rc : fd;
}

bool ci_sys_is_socket_file(const char *path)
{
    struct stat what;
    return lstat(path, &what) == 0 && S_ISSOCK(what.st_mode);
}

int ci_sys_remove(const char *path)
{
    return (int)ci_result(unlink(path));
}

int ci_sys_set_mode(const char *path, unsigned mode)
{
    return (int)ci_result(chmod(path, (mode_t)mode));
}

int ci_sys_set_owner(const char *path, unsigned owner, unsigned group)
{
    return (int)ci_result(lchown(path, (uid_t)owner, (gid_t)group));
}
