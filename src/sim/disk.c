#include "sim/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/audit.h"
#include "sim/event.h"
#include "sim/fault.h"
#include "sim/node.h"
#include "sim/trace.h"

/* files have descriptors of their own, far above those of sockets */
enum { SECTOR = 512, FILE_MAX = 1 << 30, DESCRIPTORS = 1 << 20 };
static const coir_time operation_most = 200 * COIR_US, sync_most = 5 * COIR_MS;

struct contents {
    char *bytes;
    size_t len, capacity;
};

struct ci_file {
    struct ci_file *next;
    char *path;
    struct contents seen, kept;
};

struct ci_open_file {
    struct ci_open_file *next;
    coir_fd fd;
    struct ci_node *node;
    struct ci_file *file; /* NULL: the disk has passed to another host */
    struct job *jobs;     /* pending */
    int access;           /* O_RDONLY, O_WRONLY or O_RDWR */
};

struct job {
    struct job *next;
    uint64_t number;
    struct ci_op *op;
    struct ci_sim_driver *driver;
};

static void resize(struct contents *contents, size_t len)
{
    int rc = ci_grow(&ci_system_allocator, (void **)&contents->bytes, &contents->capacity, 1, len);
    ci_check(rc == 0, "world.h 2");
    if (len < contents->len)
        memset(contents->bytes + len, 0, contents->len - len);
    contents->len = len;
}

static void copy(struct contents *to, const struct contents *from, size_t at, size_t len)
{
    if (at + len > to->len)
        resize(to, at + len);
    if (len)
        memcpy(to->bytes + at, from->bytes + at, len);
}

static bool same(const struct contents *a, const struct contents *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->bytes, b->bytes, a->len) == 0);
}

static struct ci_open_file *find(const struct ci_world *world, coir_fd fd)
{
    struct ci_open_file *open = world->open_files;
    while (open && open->fd != fd)
        open = open->next;
    return open;
}

bool ci_disk_is_file(coir_fd fd)
{
    return fd >= DESCRIPTORS;
}

int ci_disk_find(struct ci_node *node, const char *path, int flags, struct ci_file **ret_file)
{
    if (node->dead)
        return -EIO;
    struct ci_file *file = node->files;
    while (file && strcmp(file->path, path) != 0)
        file = file->next;
    if (file && flags & O_CREAT && flags & O_EXCL)
        return -EEXIST;
    if (!file && !(flags & O_CREAT))
        return -ENOENT;
    if (!file) {
        file = calloc(1, sizeof *file);
        ci_check(file && (file->path = strdup(path)), "world.h 2");
        file->next = node->files;
        node->files = file;
    } else if (flags & O_TRUNC) {
        resize(&file->seen, 0);
    }
    *ret_file = file;
    return 0;
}

int ci_disk_open(struct ci_node *node, const char *path, int flags)
{
    struct ci_world *world = node->world;
    if (!node->dead && ci_world_fault(world, node, node->faults.no_descriptor, "no descriptor"))
        return -EMFILE;
    struct ci_file *file;
    int rc = ci_disk_find(node, path, flags, &file);
    if (rc < 0)
        return rc;
    struct ci_open_file *open = calloc(1, sizeof *open);
    ci_check(open, "world.h 2");
    *open =
        (struct ci_open_file){world->open_files, DESCRIPTORS, node, file, NULL, flags & O_ACCMODE};
    while (find(world, open->fd))
        open->fd++;
    world->open_files = open;
    ci_world_trace(world, node, "open fd=%d %s", open->fd, path);
    return open->fd;
}

int ci_disk_size(struct ci_world *world, coir_fd fd, int64_t *ret_size)
{
    const struct ci_open_file *open = find(world, fd);
    if (!open || !open->file)
        return open ? -EIO : -EBADF;
    *ret_size = (int64_t)open->file->seen.len;
    return 0;
}

/* ---- operations ---- */

static size_t shortened(struct ci_world *world, const struct ci_node *node, size_t len)
{
    return ci_world_shorten(world, node, node->faults.disk_short, len,
                            "the disk moves less than it could");
}

/* The error with which an operation on a file fails now, or 0. */
static int refused(struct ci_node *node)
{
    if (node->dead)
        return -EIO;
    return ci_world_fault(node->world, node, node->faults.disk_error, "the disk fails") ? -EIO : 0;
}

int64_t ci_disk_length(const struct ci_file *file)
{
    return (int64_t)file->seen.len;
}

int ci_disk_read(struct ci_node *node, const struct ci_file *file, void *buf, size_t len,
                 int64_t offset)
{
    const struct contents *seen = &file->seen;
    size_t at = (size_t)offset;
    int rc = refused(node);
    if (rc < 0 || at >= seen->len)
        return rc;
    len = shortened(node->world, node, len < seen->len - at ? len : seen->len - at);
    memcpy(buf, seen->bytes + at, len);
    return (int)len;
}

int ci_disk_write(struct ci_node *node, struct ci_file *file, const void *data, size_t len,
                  int64_t offset)
{
    struct contents *seen = &file->seen;
    size_t at = (size_t)offset;
    int rc = refused(node);
    if (rc < 0)
        return rc;
    if (ci_world_fault(node->world, node, node->faults.disk_full, "the disk is full"))
        return -ENOSPC;
    if (offset > FILE_MAX - (int64_t)len)
        return -EFBIG;
    len = shortened(node->world, node, len);
    if (at + len > seen->len)
        resize(seen, at + len);
    memcpy(seen->bytes + at, data, len);
    return (int)len;
}

int ci_disk_sync(struct ci_node *node, struct ci_file *file)
{
    int rc = refused(node);
    if (rc < 0)
        return rc;
    copy(&file->kept, &file->seen, 0, file->seen.len);
    resize(&file->kept, file->seen.len);
    ci_debug_check(same(&file->seen, &file->kept), "disk.h 1");
    return 0;
}

static int perform(const struct ci_open_file *open, const struct ci_op *op)
{
    if (!open->file || open->node->dead)
        return -EIO;
    if ((op->kind == CI_OP_READ_AT && open->access == O_WRONLY) ||
        (op->kind == CI_OP_WRITE_AT && open->access == O_RDONLY))
        return -EBADF;
    if (op->kind == CI_OP_READ_AT)
        return ci_disk_read(open->node, open->file, op->buf, (size_t)op->count, op->offset);
    if (op->kind == CI_OP_WRITE_AT)
        return ci_disk_write(open->node, open->file, op->data, (size_t)op->count, op->offset);
    return ci_disk_sync(open->node, open->file);
}

static void finish(struct ci_world *world, struct ci_open_file *open, struct job **at, int result)
{
    struct job *job = *at;
    *at = job->next;
    ci_check(job->op->pending && job->op->fd == open->fd, "disk.h 2");
    ci_world_trace(world, open->node, "complete fd=%d kind=%d result=%d", open->fd, job->op->kind,
                   result);
    ci_sim_driver_complete(job->driver, job->op, result);
    free(job);
}

static void when_due(void *arg, size_t number)
{
    struct ci_world *world = arg;
    for (struct ci_open_file *open = world->open_files; open; open = open->next)
        for (struct job **at = &open->jobs; *at; at = &(*at)->next)
            if ((*at)->number == number) {
                finish(world, open, at, perform(open, (*at)->op));
                return;
            }
}

bool ci_disk_start(struct ci_sim_driver *driver, struct ci_op *op)
{
    struct ci_world *world = driver->world;
    struct ci_open_file *open = find(world, op->fd);
    if (!open)
        return ci_op_complete(op, -EBADF);
    struct job *job = malloc(sizeof *job);
    ci_check(job, "world.h 2");
    *job = (struct job){open->jobs, ++world->event_serial, op, driver};
    open->jobs = job;
    op->pending = true;
    coir_time most = op->kind == CI_OP_SYNC ? sync_most : operation_most;
    ci_world_call(
        world,
        ci_time_after(world->now, (coir_time)ci_random_below(&world->random, (uint64_t)most)),
        when_due, world, job->number, NULL);
    return false;
}

bool ci_disk_cancel(struct ci_sim_driver *driver, struct ci_op *op)
{
    struct ci_world *world = driver->world;
    struct ci_open_file *open = find(world, op->fd);
    for (struct job **at = &open->jobs; *at; at = &(*at)->next)
        if ((*at)->op == op && ci_random_next(&world->random) & 1) {
            finish(world, open, at, -ECANCELED);
            break;
        }
    return false;
}

void ci_disk_close(struct ci_world *world, coir_fd fd)
{
    for (struct ci_open_file **at = &world->open_files; *at; at = &(*at)->next)
        if ((*at)->fd == fd) {
            struct ci_open_file *open = *at;
            while (open->jobs)
                finish(world, open, &open->jobs, -ECANCELED);
            *at = open->next;
            free(open);
            return;
        }
}

void ci_disk_close_all(struct ci_world *world)
{
    while (world->open_files)
        ci_disk_close(world, world->open_files->fd);
}

/* ---- losing power ---- */

static void lose(struct ci_world *world, struct ci_file *file)
{
    struct contents *seen = &file->seen, *kept = &file->kept;
    size_t end = ci_random_next(&world->random) & 1 ? seen->len : kept->len;
    for (size_t at = 0; at < seen->len; at += SECTOR)
        if (ci_random_next(&world->random) & 1)
            copy(kept, seen, at, SECTOR < seen->len - at ? SECTOR : seen->len - at);
    resize(kept, end);
    resize(seen, 0);
    copy(seen, kept, 0, kept->len);
    ci_debug_check(same(seen, kept), "disk.h 1");
}

void ci_disk_lose_power(struct ci_world *world, struct ci_node *node)
{
    for (struct ci_open_file *open = world->open_files; open; open = open->next)
        if (open->node == node)
            open->file = NULL;
    for (struct ci_file *file = node->files; file; file = file->next)
        lose(world, file);
}

void ci_disk_free(struct ci_node *node)
{
    while (node->files) {
        struct ci_file *file = node->files;
        node->files = file->next;
        ci_free(&ci_system_allocator, file->seen.bytes, file->seen.capacity);
        ci_free(&ci_system_allocator, file->kept.bytes, file->kept.capacity);
        free(file->path);
        free(file);
    }
}

void ci_disk_audit(struct ci_world *world)
{
    for (const struct ci_open_file *open = world->open_files; open; open = open->next)
        ci_world_leave(world, open->node, "file fd=%d %s%s", open->fd,
                       open->file ? open->file->path : "(lost)",
                       open->jobs ? ", an operation is pending" : "");
}
