/* Regular files and directories: open files of the simulated disk (sim/disk.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "sim/kernel/inotify.h"
#include "sys/file_watch.h"

struct regular {
    struct ci_kfile file;
    struct ci_disk_open open;
    int64_t position; /* of write(2) */
};

static void release(struct ci_kfile *file)
{
    struct regular *regular = ci_container_of(file, struct regular, file);
    if ((regular->open.flags & O_ACCMODE) != O_RDONLY)
        ci_kwatch_bytes(&regular->open, CI_CHANGE_WRITTEN);
    free(regular);
}

/* write(2): takes no time, and no other call moves the position. */
static ssize_t write_file(struct ci_kfile *file, const struct iovec *iov, int count)
{
    struct regular *regular = ci_container_of(file, struct regular, file);
    const struct ci_file_call call = {
        .kind = CI_FILE_WRITE, .iov = iov, .count = count, .offset = regular->position};
    int n = ci_disk_call(&regular->open, NULL, &call, NULL);
    if (n > 0) {
        regular->position += n;
        ci_kwatch_bytes(&regular->open, CI_CHANGE_MODIFIED);
    }
    return n;
}

static const struct ci_kfile_type regular_type = {
    .name = "file", .write = write_file, .release = release};

bool ci_kdisk_is(const struct ci_kfile *file)
{
    return file && file->type == &regular_type;
}

static int open_call(const struct ci_disk_open *at, const struct ci_file_call *call)
{
    struct ci_disk_open opened;
    int rc = ci_kfd_refused();
    if (rc < 0 || (rc = ci_disk_call(at, NULL, call, &opened)) < 0)
        return rc;
    struct regular *regular = ci_kalloc(sizeof *regular);
    regular->open = opened;
    ci_kfile_init(&regular->file, &regular_type);
    return ci_kfd_install(&regular->file);
}

/* What a descriptor, or AT_FDCWD, stands for: 0, -EBADF, or `other` for what is no file. */
static int resolve(coir_fd fd, int other, struct ci_disk_open *ret_open)
{
    struct ci_kfile *file = ci_kfd_find(fd);
    if (!file && fd != AT_FDCWD)
        return -EBADF;
    if (file && !ci_kdisk_is(file))
        return other;
    *ret_open =
        file ? ci_container_of(file, struct regular, file)->open : ci_disk_root(ci_k.process->node);
    return 0;
}

static int error_for_other(const struct ci_file_call *call)
{
    if (call->path || call->kind == CI_FILE_LIST)
        return -ENOTDIR;
    return call->kind == CI_FILE_READ || call->kind == CI_FILE_WRITE ? -ESPIPE : -EINVAL;
}

int ci_kdisk_find(coir_fd dir, const char *path, struct ci_file **ret_file)
{
    struct ci_disk_open at;
    struct ci_disk_place place;
    int rc = resolve(dir, -ENOTDIR, &at);
    if (rc == 0 && (at.node->dead || !at.file))
        rc = -EIO;
    if (rc == 0)
        rc = ci_disk_locate(at.node->disk, at.file, path, &place);
    if (rc < 0)
        return rc;
    *ret_file = ci_disk_lookup(at.node->disk, &place);
    return *ret_file ? 0 : -ENOENT;
}

int ci_kdisk_enter(const char *directory)
{
    struct ci_file *file;
    int rc = ci_kdisk_find(AT_FDCWD, directory, &file);
    return rc < 0 ? rc : file->is_directory ? 0 : -ENOTDIR;
}

static bool changes_bytes(const struct ci_file_call *call, int result)
{
    return (call->kind == CI_FILE_WRITE && result > 0) || call->kind == CI_FILE_TRUNCATE ||
           call->kind == CI_FILE_ALLOCATE;
}

int ci_kdisk_call(struct ci_kfile *file, const struct ci_file_call *call)
{
    struct ci_disk_open at, to;
    struct ci_kwatched before;
    int rc = 0, other = error_for_other(call);
    if (file)
        at = ci_container_of(file, struct regular, file)->open;
    else
        rc = resolve(call->fd, other, &at);
    if (rc == 0 && call->to_path)
        rc = resolve(call->to_fd, other, &to);
    if (rc < 0)
        return rc;
    bool watched = ci_kwatch_look(&before, &at, &to, call);
    rc = call->kind == CI_FILE_OPEN ? open_call(&at, call)
                                    : ci_disk_call(&at, call->to_path ? &to : NULL, call, NULL);
    if (rc >= 0 && watched)
        ci_kwatch_names(at.node, &before, call);
    if (rc >= 0 && changes_bytes(call, rc))
        ci_kwatch_bytes(&at, CI_CHANGE_MODIFIED);
    return rc;
}

coir_time ci_kdisk_time(const struct ci_file_call *call)
{
    return (coir_time)ci_kbelow((uint64_t)ci_disk_time_most(call));
}

/* The thread sleeps for as long as the disk takes; meanwhile another one may close the file. */
int ci_sys_file(const struct ci_file_call *call)
{
    ci_kcall();
    bool positioned = call->kind == CI_FILE_READ || call->kind == CI_FILE_WRITE;
    struct ci_kfile *file = call->path ? NULL : ci_kfd_find(call->fd);
    if (!call->path && !ci_kdisk_is(file))
        return file ? error_for_other(call) : -EBADF;
    if (positioned && call->offset < 0)
        return -EINVAL;
    if (file)
        ci_kfile_ref(file);
    ci_kthread_sleep("the disk", ci_time_after(ci_know(), ci_kdisk_time(call)));
    int result = ci_kdisk_call(file, call);
    if (file)
        ci_kfile_unref(file);
    return result;
}

const int ci_sys_unnamed = O_TMPFILE;

int ci_sys_file_opened(coir_fd fd, int flags)
{
    (void)flags;
    return fd;
}

void ci_sys_list_end(struct ci_file_list *list)
{
    (void)list;
}

int ci_sys_file_size(coir_fd fd, int64_t *ret_size)
{
    ci_kcall();
    struct ci_kfile *file = ci_kfd_find(fd);
    if (!ci_kdisk_is(file))
        return -EBADF;
    const struct ci_disk_open *open = &ci_container_of(file, struct regular, file)->open;
    if (open->node->dead)
        return -EIO;
    *ret_size = ci_disk_length(open->file);
    return 0;
}
