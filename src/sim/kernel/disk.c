/* Regular files: open files of the simulated disk (sim/disk.c). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "sim/disk.h"
#include "sim/kernel/kernel.h"
#include "sys/file_call.h"

struct regular {
    struct ci_kfile file;
    struct ci_node *node;
    struct ci_file *on_disk;
    int access;
};

static const coir_time operation_most = 200 * COIR_US, sync_most = 5 * COIR_MS;

static struct regular *regular_of(struct ci_kfile *file)
{
    return ci_container_of(file, struct regular, file);
}

static ssize_t read_at(struct ci_kfile *file, void *buf, size_t len, int64_t offset)
{
    const struct regular *regular = regular_of(file);
    if (offset < 0)
        return -EINVAL;
    return regular->access == O_WRONLY
               ? -EBADF
               : ci_disk_read(regular->node, regular->on_disk, buf, len, offset);
}

static ssize_t write_at(struct ci_kfile *file, const void *data, size_t len, int64_t offset)
{
    const struct regular *regular = regular_of(file);
    if (offset < 0)
        return -EINVAL;
    return regular->access == O_RDONLY
               ? -EBADF
               : ci_disk_write(regular->node, regular->on_disk, data, len, offset);
}

static int sync_file(struct ci_kfile *file)
{
    return ci_disk_sync(regular_of(file)->node, regular_of(file)->on_disk);
}

static coir_time delay(struct ci_kfile *file, bool sync)
{
    (void)file;
    return (coir_time)ci_kbelow((uint64_t)(sync ? sync_most : operation_most));
}

static void release(struct ci_kfile *file)
{
    free(regular_of(file));
}

static const struct ci_kfile_type regular_type = {
    .name = "file",
    .read_at = read_at,
    .write_at = write_at,
    .sync = sync_file,
    .delay = delay,
    .release = release,
};

int ci_sys_open(const char *path, int flags, unsigned mode)
{
    (void)mode;
    ci_kcall();
    struct ci_file *on_disk;
    int rc = ci_kfd_refused();
    if (rc < 0 || (rc = ci_disk_find(ci_k.process->node, path, flags, &on_disk)) < 0)
        return rc;
    struct regular *regular = ci_kalloc(sizeof *regular);
    *regular = (struct regular){
        .node = ci_k.process->node, .on_disk = on_disk, .access = flags & O_ACCMODE};
    ci_kfile_init(&regular->file, &regular_type);
    return ci_kfd_install(&regular->file);
}

int ci_sys_file_size(coir_fd fd, int64_t *ret_size)
{
    ci_kcall();
    struct ci_kfile *file = ci_kfd_find(fd);
    if (!file || file->type != &regular_type)
        return -EBADF;
    if (regular_of(file)->node->dead)
        return -EIO;
    *ret_size = ci_disk_length(regular_of(file)->on_disk);
    return 0;
}
