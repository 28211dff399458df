/* Temporary files, and files that are replaced at once. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "coir/deadline.h"
#include "io/file.h"

enum { NAME_TRIES = 16 };

/* `base`.NUMBER.tmp, shortened where that is too long for a name. */
static void draw_name(const char *base, char name[static NAME_MAX + 1])
{
    struct ci_driver *driver = ci_worker_current->loop.driver;
    snprintf(name, NAME_MAX + 1, "%.*s.%016" PRIx64 ".tmp", NAME_MAX - 21, base,
             driver->kind->random(driver));
}

static int open_new(coir_file *dir, const char *base, unsigned mode, char name[static NAME_MAX + 1],
                    coir_file **ret_file)
{
    int rc = -EEXIST;
    for (int tries = 0; rc == -EEXIST && tries < NAME_TRIES; tries++) {
        draw_name(base, name);
        rc = coir_file_open_at(dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, mode, ret_file);
    }
    return rc;
}

/* Whatever the caller's state is: nothing is to be left behind. */
static void remove_new(coir_file *dir, const char *name)
{
    COIR_SHIELD;
    coir_dir_unlink(dir, name);
}

int coir_file_open_temporary(coir_file *dir, unsigned mode, coir_file **ret_file)
{
    char name[NAME_MAX + 1];
    coir_file *file;
    if (!ret_file)
        return CI_MISUSE(-EINVAL, "ret_file is NULL");
    int rc = coir_file_open_at(dir, ".", O_RDWR | ci_sys_unnamed, mode, &file);
    if (rc == -EOPNOTSUPP || rc == -EISDIR || rc == -EINVAL) { /* not on this file system */
        rc = open_new(dir, "", mode, name, &file);
        if (rc == 0)
            remove_new(dir, name);
    }
    if (rc == 0)
        *ret_file = file;
    return rc;
}

/* ---- replacing ---- */

static int write_new(coir_file *dir, const char *base, char name[static NAME_MAX + 1],
                     const struct iovec *data, unsigned mode)
{
    coir_file *file;
    int rc = open_new(dir, base, mode, name, &file);
    if (rc < 0)
        return rc;
    rc = coir_file_write_all(file, data->iov_base, data->iov_len, 0);
    if (rc == 0)
        rc = coir_file_sync(file);
    coir_file_close(file);
    if (rc < 0)
        remove_new(dir, name);
    return rc;
}

/* In the directory in which the file is. */
static int replace_in(coir_file *dir, const char *base, const struct iovec *data, unsigned mode)
{
    char name[NAME_MAX + 1];
    int rc = write_new(dir, base, name, data, mode);
    if (rc < 0)
        return rc;
    if ((rc = coir_dir_rename(dir, name, dir, base)) < 0) {
        remove_new(dir, name);
        return rc;
    }
    return coir_file_sync(dir);
}

/* The path of the directory in which the file is. */
static int open_parent(coir_file *dir, const char *path, size_t len, coir_file **ret_parent)
{
    const coir_allocator *allocator = &ci_worker_current->runtime->allocator;
    char *parent = ci_alloc(allocator, len + 2);
    if (!parent)
        return -ENOMEM;
    memcpy(parent, len ? path : ".", len ? len : 1);
    parent[len ? len : 1] = '\0';
    int rc = coir_file_open_at(dir, parent, O_RDONLY | O_DIRECTORY, 0, ret_parent);
    ci_free(allocator, parent, len + 2);
    return rc;
}

int coir_file_replace(coir_file *dir, const char *path, const void *data, size_t len, unsigned mode)
{
    if (!path || (!data && len))
        return CI_MISUSE(-EINVAL, "path or data is NULL");
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    coir_file *parent;
    int rc = 0;
    if (!ci_fiber_enter(&rc))
        return rc;
    if (!base[0])
        return -EISDIR;
    rc = open_parent(dir, path, (size_t)(base - path), &parent);
    if (rc < 0)
        return rc;
    rc = replace_in(parent, base, &(struct iovec){(void *)(uintptr_t)data, len}, mode);
    coir_file_close(parent);
    return rc;
}
