/* Files.
 *
 * 1. `users` of a file counts the opener (until coir_file_close) and each operation in flight. The
 *    descriptor is closed when it becomes 0.
 *
 * If the driver has no operations on files, a thread of the offload pool makes the system calls,
 * and the future of the offloaded call is awaited.
 */
#include "coir/file.h"

#include <errno.h>

#include "base/atomic.h"
#include "base/check.h"
#include "coir/offload.h"
#include "io/io.h"
#include "sys/file_call.h"
#include "task/completed.h"

struct coir_file {
    coir_fd fd;
    uint32_t users;
    const coir_allocator *allocator;
};

struct file_op {
    coir_future future;
    coir_file *file;
    struct ci_op what;
    union {
        struct ci_io_op native;
        coir_offload_job job;
    };
};
CI_LEAVES_SPARE_WORDS(struct file_op, coir_file_op);

static void leave(coir_file *file)
{
    uint32_t users = ci_fetch_sub(&file->users, 1);
    ci_check(users > 0, "io/file.c 1");
    if (users > 1)
        return;
    ci_driver_close(ci_worker_current->loop.driver, file->fd);
    ci_free(file->allocator, file, sizeof *file);
}

coir_fd ci_file_fd(const coir_file *file)
{
    return file->fd;
}

/* Runs on a thread of the pool. */
static int make_call(void *arg)
{
    const struct ci_op *what = arg;
    ssize_t rc;
    do
        switch ((enum ci_op_kind)what->kind) {
        case CI_OP_READ_AT:
            rc = ci_sys_read_at(what->fd, what->buf, (size_t)what->count, what->offset);
            break;
        case CI_OP_WRITE_AT:
            rc = ci_sys_write_at(what->fd, what->data, (size_t)what->count, what->offset);
            break;
        default: rc = ci_sys_sync(what->fd); break;
        }
    while (rc == -EINTR);
    return (int)rc;
}

static coir_future *file_poll(coir_future *future)
{
    struct file_op *self = ci_container_of(future, struct file_op, future);
    bool native = ci_worker_current->loop.driver->kind->files;
    COIR_BEGIN(future);
    if (self->what.kind != CI_OP_SYNC && self->what.offset < 0)
        COIR_RETURN(future, -EINVAL);
    ci_check(ci_fetch_add(&self->file->users, 1) > 0, "io/file.c 1");
    COIR_AWAIT(future, native ? ci_io_init(&self->native, NULL, &self->what)
                              : coir_offload_op(&self->job, make_call, &self->what));
    leave(self->file);
    COIR_RETURN(future, native ? self->native.future.result : self->job.future.result);
}

static const coir_future_kind file_kind = COIR_FUTURE_KIND("a file", file_poll, NULL);

static coir_future *init(coir_file_op *opaque, coir_file *file, const struct ci_op *what)
{
    struct file_op *op = (struct file_op *)(void *)opaque;
    op->file = file;
    op->what = *what;
    op->what.fd = file->fd;
    return coir_future_init(&op->future, &file_kind);
}

static int32_t at_most(size_t len)
{
    return len < INT32_MAX ? (int32_t)len : INT32_MAX;
}

coir_future *coir_file_read_op(coir_file_op *op, coir_file *file, void *buf, size_t len,
                               int64_t offset)
{
    if (!op || !file || (!buf && len))
        return ci_completed_op(op, CI_MISUSE(-EINVAL, "op, file or buf is NULL"));
    return init(op, file,
                &(struct ci_op){
                    .kind = CI_OP_READ_AT, .buf = buf, .count = at_most(len), .offset = offset});
}

coir_future *coir_file_write_op(coir_file_op *op, coir_file *file, const void *data, size_t len,
                                int64_t offset)
{
    if (!op || !file || (!data && len))
        return ci_completed_op(op, CI_MISUSE(-EINVAL, "op, file or data is NULL"));
    return init(op, file,
                &(struct ci_op){
                    .kind = CI_OP_WRITE_AT, .data = data, .count = at_most(len), .offset = offset});
}

coir_future *coir_file_sync_op(coir_file_op *op, coir_file *file)
{
    if (!op || !file)
        return ci_completed_op(op, CI_MISUSE(-EINVAL, "op or file is NULL"));
    return init(op, file, &(struct ci_op){.kind = CI_OP_SYNC});
}

ssize_t coir_file_read(coir_file *file, void *buf, size_t len, int64_t offset)
{
    coir_file_op op;
    if (!file || (!buf && len))
        return CI_MISUSE(-EINVAL, "file or buf is NULL");
    return ci_await_in_fiber(coir_file_read_op(&op, file, buf, len, offset));
}

ssize_t coir_file_write(coir_file *file, const void *data, size_t len, int64_t offset)
{
    coir_file_op op;
    if (!file || (!data && len))
        return CI_MISUSE(-EINVAL, "file or data is NULL");
    return ci_await_in_fiber(coir_file_write_op(&op, file, data, len, offset));
}

int coir_file_sync(coir_file *file)
{
    coir_file_op op;
    if (!file)
        return CI_MISUSE(-EINVAL, "file is NULL");
    return (int)ci_await_in_fiber(coir_file_sync_op(&op, file));
}

/* ---- opening and closing ---- */

struct opening {
    struct ci_driver *driver;
    const char *path;
    int flags;
    unsigned mode;
};

/* Runs on a thread of the pool: the driver's open uses nothing of the worker. */
static int call_open(void *arg)
{
    const struct opening *opening = arg;
    return opening->driver->kind->open(opening->driver, opening->path, opening->flags,
                                       opening->mode);
}

int coir_file_open(const char *path, int flags, unsigned mode, coir_file **ret_file)
{
    struct ci_worker *worker = ci_worker_current;
    if (!worker)
        return ci_no_worker();
    if (!path || !ret_file)
        return CI_MISUSE(-EINVAL, "path or ret_file is NULL");
    coir_file *file = ci_alloc(&worker->runtime->allocator, sizeof *file);
    if (!file)
        return -ENOMEM;
    struct opening opening = {worker->loop.driver, path, flags, mode};
    int rc = coir_offload(call_open, &opening);
    if (rc < 0) {
        ci_free(&worker->runtime->allocator, file, sizeof *file);
        return rc;
    }
    *file = (coir_file){rc, 1, &worker->runtime->allocator};
    *ret_file = file;
    return 0;
}

int coir_file_size(const coir_file *file, int64_t *ret_size)
{
    struct ci_worker *worker = ci_worker_current;
    if (!worker)
        return ci_no_worker();
    if (!file || !ret_size)
        return CI_MISUSE(-EINVAL, "file or ret_size is NULL");
    return worker->loop.driver->kind->file_size(worker->loop.driver, file->fd, ret_size);
}

void coir_file_close(coir_file *file)
{
    if (!file || ci_forked())
        return;
    if (ci_worker_current)
        leave(file);
    else
        (void)CI_MISUSE(-ESRCH, "a file is closed on a worker");
}
