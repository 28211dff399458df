/* Open files of simulated disks, and the operations that are pending on them. */
#include "sim/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "sim/audit.h"
#include "sim/event.h"
#include "sim/fault.h"
#include "sim/node.h"
#include "sim/trace.h"

/* files have descriptors of their own, far above those of sockets */
enum { DESCRIPTORS = 1 << 20 };

struct ci_open_file {
    struct ci_open_file *next;
    coir_fd fd;
    char path[64];            /* or its beginning, for the audit */
    struct ci_disk_open open; /* file NULL: the disk has passed to another host */
};

struct ci_disk_job {
    struct ci_disk_job *next;
    uint64_t number;
    struct ci_op *op;
    struct ci_sim_driver *driver;
};

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

static coir_fd add_descriptor(const struct ci_disk_open *opened, const char *path)
{
    struct ci_world *world = opened->node->world;
    struct ci_open_file *open = calloc(1, sizeof *open);
    ci_check(open, "world.h 2");
    open->next = world->open_files;
    open->fd = DESCRIPTORS;
    open->open = *opened;
    snprintf(open->path, sizeof open->path, "%s", path);
    while (find(world, open->fd))
        open->fd++;
    world->open_files = open;
    return open->fd;
}

/* What a descriptor stands for: false, nothing. */
static bool resolve(struct ci_node *node, coir_fd fd, struct ci_disk_open *ret_open)
{
    const struct ci_open_file *open = find(node->world, fd);
    if (open)
        *ret_open = open->open;
    else if (fd == AT_FDCWD)
        *ret_open = ci_disk_root(node);
    return open || fd == AT_FDCWD;
}

static int make_call(struct ci_node *node, const struct ci_file_call *call)
{
    struct ci_disk_open at, to, opened;
    if (!resolve(node, call->fd, &at))
        return -EBADF;
    bool has_to = call->to_path && resolve(node, call->to_fd, &to);
    if (call->kind == CI_FILE_OPEN && !node->dead &&
        ci_world_fault(node->world, node, node->faults.no_descriptor, "no descriptor"))
        return -EMFILE;
    int rc = ci_disk_call(&at, has_to ? &to : NULL, call, &opened);
    if (rc < 0 || call->kind != CI_FILE_OPEN)
        return rc;
    rc = add_descriptor(&opened, call->path);
    ci_world_trace(node->world, node, "open fd=%d %s", rc, call->path);
    return rc;
}

int ci_disk_open(struct ci_node *node, const char *path, int flags)
{
    return make_call(
        node,
        &(struct ci_file_call){
            .kind = CI_FILE_OPEN, .fd = AT_FDCWD, .path = path, .flags = flags, .mode = 0600});
}

int ci_disk_size(struct ci_world *world, coir_fd fd, int64_t *ret_size)
{
    const struct ci_open_file *open = find(world, fd);
    if (!open || !open->open.file)
        return open ? -EIO : -EBADF;
    *ret_size = ci_disk_length(open->open.file);
    return 0;
}

/* ---- operations ---- */

static void finish(struct ci_world *world, struct ci_disk_job **at, int result)
{
    struct ci_disk_job *job = *at;
    *at = job->next;
    ci_check(job->op->pending && job->op->kind == CI_OP_FILE, "disk.h 2");
    ci_world_trace(world, job->driver->node, "complete fd=%d call=%d result=%d", job->op->fd,
                   (int)job->op->call->kind, result);
    ci_sim_driver_complete(job->driver, job->op, result);
    free(job);
}

static void when_due(void *arg, size_t number)
{
    struct ci_world *world = arg;
    for (struct ci_disk_job **at = &world->disk_jobs; *at; at = &(*at)->next)
        if ((*at)->number == number) {
            finish(world, at, make_call((*at)->driver->node, (*at)->op->call));
            return;
        }
}

bool ci_disk_start(struct ci_sim_driver *driver, struct ci_op *op)
{
    struct ci_world *world = driver->world;
    struct ci_disk_open at;
    if (!resolve(driver->node, op->call->fd, &at))
        return ci_op_complete(op, -EBADF);
    struct ci_disk_job *job = malloc(sizeof *job);
    ci_check(job, "world.h 2");
    *job = (struct ci_disk_job){world->disk_jobs, ++world->event_serial, op, driver};
    world->disk_jobs = job;
    op->pending = true;
    uint64_t most = (uint64_t)ci_disk_time_most(op->call);
    ci_world_call(world,
                  ci_time_after(world->now, (coir_time)ci_random_below(&world->random, most)),
                  when_due, world, job->number, NULL);
    return false;
}

bool ci_disk_cancel(struct ci_sim_driver *driver, struct ci_op *op)
{
    struct ci_world *world = driver->world;
    for (struct ci_disk_job **at = &world->disk_jobs; *at; at = &(*at)->next)
        if ((*at)->op == op && ci_random_next(&world->random) & 1) {
            finish(world, at, -ECANCELED);
            break;
        }
    return false;
}

/* ---- closing ---- */

void ci_disk_close(struct ci_world *world, coir_fd fd)
{
    struct ci_open_file **at = &world->open_files;
    for (struct ci_disk_job **job = &world->disk_jobs; *job;)
        if ((*job)->op->call->fd == fd)
            finish(world, job, -ECANCELED);
        else
            job = &(*job)->next;
    while (*at && (*at)->fd != fd)
        at = &(*at)->next;
    if (*at) {
        struct ci_open_file *open = *at;
        *at = open->next;
        free(open);
    }
}

void ci_disk_close_all(struct ci_world *world)
{
    ci_disk_close(world, AT_FDCWD);
    while (world->open_files)
        ci_disk_close(world, world->open_files->fd);
}

void ci_disk_lose_power(struct ci_world *world, struct ci_node *node)
{
    for (struct ci_open_file *open = world->open_files; open; open = open->next)
        if (open->open.node == node)
            open->open.file = NULL;
    ci_disk_lose_contents(world, node->disk);
}

static bool is_pending(const struct ci_world *world, coir_fd fd)
{
    const struct ci_disk_job *job = world->disk_jobs;
    while (job && job->op->call->fd != fd)
        job = job->next;
    return job;
}

void ci_disk_audit(struct ci_world *world)
{
    for (const struct ci_open_file *open = world->open_files; open; open = open->next)
        ci_world_leave(world, open->open.node, "file fd=%d %s%s", open->fd,
                       open->open.file ? open->path : "(lost)",
                       is_pending(world, open->fd) ? ", an operation is pending" : "");
}
