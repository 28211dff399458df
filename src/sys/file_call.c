#include "sys/file_call.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/result.h"

/* ---- opening ---- */

#ifdef O_TMPFILE
const int ci_sys_unnamed = O_TMPFILE;
#else
const int ci_sys_unnamed = 0;
#endif

/* Closes a descriptor that has no offsets again (-ESPIPE). Takes O_NONBLOCK, which was set for the
 * open alone, off again: with it, io_uring would return -EAGAIN instead of waiting. */
int ci_sys_file_opened(coir_fd fd, int flags)
{
    int rc = lseek(fd, 0, SEEK_CUR) < 0 && errno == ESPIPE ? -ESPIPE : 0;
    if (rc == 0 && !(flags & (O_NONBLOCK | O_PATH)) && fcntl(fd, F_SETFL, flags) < 0)
        rc = -errno;
    if (rc < 0)
        close(fd);
    return rc < 0 ? rc : fd;
}

static int open_file(const struct ci_file_call *call)
{
    struct stat what;
    int flags = call->flags | O_CLOEXEC;
    int fd = (int)ci_result(openat(call->fd, call->path, flags | O_NONBLOCK, call->mode));
    /* Another process holds a lease: a blocking open waits until the kernel has revoked it, at most
     * fs.lease-break-time. */
    if (fd == -EWOULDBLOCK && !(flags & O_NONBLOCK))
        fd = (int)ci_result(openat(call->fd, call->path, flags, call->mode));
    if (fd == -ENXIO && fstatat(call->fd, call->path, &what, 0) == 0 &&
        (S_ISFIFO(what.st_mode) || S_ISSOCK(what.st_mode)))
        return -ESPIPE; /* a FIFO without a reader, or a socket */
    return fd < 0 ? fd : ci_sys_file_opened(fd, flags);
}

/* ---- bytes ---- */

static ssize_t read_or_write(const struct ci_file_call *call)
{
    const struct iovec *iov = call->iov;
    if (call->kind == CI_FILE_READ)
        return call->count == 1 ? pread(call->fd, iov->iov_base, iov->iov_len, call->offset)
                                : preadv(call->fd, iov, call->count, call->offset);
    return call->count == 1 ? pwrite(call->fd, iov->iov_base, iov->iov_len, call->offset)
                            : pwritev(call->fd, iov, call->count, call->offset);
}

#ifdef __linux__
static int allocate(const struct ci_file_call *call)
{
    return fallocate(call->fd, 0, call->offset, call->len);
}

static ssize_t copy_range(const struct ci_file_call *call)
{
    off_t from = call->offset, to = call->to_offset;
    return copy_file_range(call->fd, &from, call->to_fd, &to, ci_sys_clamp((size_t)call->len), 0);
}
#else
static int allocate(const struct ci_file_call *call)
{
    (void)call;
    errno = EOPNOTSUPP;
    return -1;
}

static ssize_t copy_range(const struct ci_file_call *call)
{
    return allocate(call);
}
#endif

static int sync_file(const struct ci_file_call *call)
{
#ifdef __APPLE__
    return fsync(call->fd);
#else
    return call->flags ? fdatasync(call->fd) : fsync(call->fd);
#endif
}

/* ---- listing ---- */

/* readdir changes errno only if it fails. */
static int list_entries(const struct ci_file_call *call)
{
    struct ci_file_list *list = call->list;
    const struct dirent *entry = NULL;
    int count = 0;
    if (!list->state) {
        int own = fcntl(call->fd, F_DUPFD_CLOEXEC, 0);
        if (own < 0)
            return -1;
        if (!(list->state = fdopendir(own))) {
            int error = errno;
            close(own);
            errno = error;
            return -1;
        }
    }
    errno = 0;
    while (count < CI_FILE_ENTRIES && (entry = readdir(list->state))) {
        struct ci_file_entry *found = &list->entries[count];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        found->inode = entry->d_ino;
        found->type = (unsigned)DTTOIF(entry->d_type);
        snprintf(found->name, sizeof found->name, "%s", entry->d_name);
        count++;
    }
    return !count && errno ? -1 : count;
}

void ci_sys_list_end(struct ci_file_list *list)
{
    if (list->state)
        closedir(list->state);
    list->state = NULL;
}

/* ---- the call ---- */

static ssize_t make_call(const struct ci_file_call *call)
{
    switch (call->kind) {
    case CI_FILE_READ:
    case CI_FILE_WRITE: return read_or_write(call);
    case CI_FILE_SYNC: return sync_file(call);
    case CI_FILE_TRUNCATE: return ftruncate(call->fd, call->len);
    case CI_FILE_ALLOCATE: return allocate(call);
    case CI_FILE_STAT:
        return call->path ? fstatat(call->fd, call->path, call->stat, call->flags)
                          : fstat(call->fd, call->stat);
    case CI_FILE_RENAME: return renameat(call->fd, call->path, call->to_fd, call->to_path);
    case CI_FILE_LINK: return linkat(call->fd, call->path, call->to_fd, call->to_path, 0);
    case CI_FILE_UNLINK: return unlinkat(call->fd, call->path, call->flags);
    case CI_FILE_MKDIR: return mkdirat(call->fd, call->path, (mode_t)call->mode);
    case CI_FILE_LIST: return list_entries(call);
    case CI_FILE_COPY: return copy_range(call);
    case CI_FILE_OPEN: break;
    }
    errno = EINVAL;
    return -1;
}

int ci_sys_file(const struct ci_file_call *call)
{
    return call->kind == CI_FILE_OPEN ? open_file(call) : (int)ci_result(make_call(call));
}

int ci_sys_file_size(coir_fd fd, int64_t *ret_size)
{
    struct stat what;
    if (fstat(fd, &what) < 0)
        return -errno;
    *ret_size = what.st_size;
    return 0;
}

/* ---- files of Unix sockets ---- */

int ci_sys_lock_directory(const char *path)
{
    int fd = (int)ci_result(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    int rc = fd < 0 ? fd : (int)ci_result(flock(fd, LOCK_EX | LOCK_NB));
    if (fd >= 0 && rc < 0)
        close(fd);
    return rc < 0 ? rc : fd;
}

int ci_sys_find_socket_file(const char *path)
{
    struct stat what;
    if (lstat(path, &what) < 0)
        return -errno;
    return S_ISSOCK(what.st_mode) ? 0 : -EEXIST;
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
