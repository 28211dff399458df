/* Files: calls on them as futures.
 *
 * 1. `users` of a file counts the opener (until coir_file_close), each operation in flight, and
 *    each call that makes several. The descriptor is closed when it becomes 0.
 * 2. At most coir_config.file_calls_max operations of a worker have taken a turn.
 *
 * A call that the driver does not have is made by a thread of the offload pool, and the future of
 * the offloaded call is awaited.
 */
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>

#include "base/atomic.h"
#include "base/check.h"
#include "coir/semaphore.h"
#include "task/completed.h"
#include "task/offload.h"

enum { IOV_MAX_COUNT = 1024 };

struct coir_file {
    coir_fd fd;
    uint32_t users;
    const coir_allocator *allocator;
    uint32_t moving; /* a call uses `position` */
    int64_t position;
};

void ci_file_unref(coir_file *file)
{
    if (!file)
        return;
    uint32_t users = ci_fetch_sub(&file->users, 1);
    ci_check(users > 0, "io/file.c 1");
    if (users > 1)
        return;
    ci_driver_close(ci_worker_current->loop.driver, file->fd);
    ci_free(file->allocator, file, sizeof *file);
}

void ci_file_ref(coir_file *file)
{
    if (file)
        ci_check(ci_fetch_add(&file->users, 1) > 0, "io/file.c 1");
}

coir_fd ci_file_fd(const coir_file *file)
{
    return file ? file->fd : AT_FDCWD;
}

int ci_file_use_begin(struct ci_file_use *use, coir_file *file, int64_t *offset)
{
    uint32_t free = 0;
    *use = (struct ci_file_use){.file = file};
    if (*offset < 0) {
        if (*offset != COIR_POSITION)
            return -EINVAL;
        if (!ci_compare_exchange(&file->moving, &free, 1))
            return -EBUSY;
        use->positioned = true;
        *offset = file->position;
    }
    ci_file_ref(file);
    return 0;
}

void ci_file_use_end(const struct ci_file_use *use, int64_t moved)
{
    if (use->positioned) {
        use->file->position += moved > 0 ? moved : 0;
        ci_store_release(&use->file->moving, 0); /* pairs with the exchange in ci_file_use_begin */
    }
    ci_file_unref(use->file);
}

/* ---- a call ---- */

static int begin(struct ci_worker *worker, struct ci_file_op *op)
{
    const coir_allocator *allocator = &worker->runtime->allocator;
    if (!ci_io_of(worker))
        return -ENOMEM;
    if (op->call.kind == CI_FILE_OPEN && !(op->opened = ci_alloc(allocator, sizeof *op->opened)))
        return -ENOMEM;
    int rc = ci_file_use_begin(&op->use, op->at, &op->call.offset);
    if (rc == 0)
        ci_file_ref(op->to);
    return rc;
}

static int end(struct ci_worker *worker, struct ci_file_op *op)
{
    const coir_allocator *allocator = &worker->runtime->allocator;
    int result = op->result;
    ci_file_use_end(&op->use, result);
    ci_file_unref(op->to);
    if (op->call.kind != CI_FILE_OPEN)
        return result;
    if (result < 0) {
        ci_free(allocator, op->opened, sizeof *op->opened);
        return result;
    }
    *op->opened = (coir_file){.fd = result, .users = 1, .allocator = allocator};
    *op->ret_file = op->opened;
    return 0;
}

static bool is_native(const struct ci_worker *worker, const struct ci_file_op *op)
{
    return worker->loop.driver->file_calls >> op->call.kind & 1;
}

/* Whether a thread makes the call, or makes it again: only there an open waits for the end of a
 * lease, or asks what else there is at the path. */
static bool is_offloaded(const struct ci_worker *worker, const struct ci_file_op *op)
{
    if (worker->runtime->simulated)
        return false;
    return !is_native(worker, op) ||
           (op->call.kind == CI_FILE_OPEN && (op->result == -EWOULDBLOCK || op->result == -ENXIO));
}

/* Runs on a thread of the pool. */
static int make_call(void *arg)
{
    int rc;
    do
        rc = ci_sys_file(arg);
    while (rc == -EINTR);
    return rc;
}

static coir_future *start_native(struct ci_file_op *op)
{
    struct ci_op io = {.kind = CI_OP_FILE, .fd = op->call.fd, .call = &op->call};
    return ci_io_init(&op->native, NULL, &io);
}

static void give_turn(struct ci_worker *worker)
{
    coir_semaphore *turns = &ci_io_of(worker)->file_turns;
    ci_debug_check(coir_semaphore_units(turns) < worker->runtime->config.file_calls_max,
                   "io/file.c 2");
    coir_semaphore_release(turns, 1);
}

static coir_future *file_poll(coir_future *future)
{
    struct ci_file_op *self = ci_container_of(future, struct ci_file_op, future);
    struct ci_worker *worker = ci_worker_current;
    COIR_BEGIN(future);
    if ((self->result = begin(worker, self)) < 0)
        COIR_RETURN(future, self->result);
    if (coir_semaphore_try_acquire(&ci_io_of(worker)->file_turns, 1) < 0) {
        COIR_AWAIT(future,
                   coir_semaphore_acquire_op(&self->turn, &ci_io_of(worker)->file_turns, 1));
        if ((self->result = (int)self->turn.future.result) < 0)
            COIR_RETURN(future, end(worker, self));
    }
    self->result = -EOPNOTSUPP;
    if (is_native(worker, self)) {
        COIR_AWAIT(future, start_native(self));
        self->result = (int)self->native.future.result;
    }
    if (is_offloaded(worker, self)) {
        COIR_AWAIT(future, ci_offload_turn_op(&self->job, make_call, &self->call));
        self->result = (int)self->job.future.result;
    }
    give_turn(worker);
    COIR_RETURN(future, end(worker, self));
}

static const coir_future_kind file_kind = COIR_FUTURE_KIND("a file", file_poll, NULL);

coir_future *ci_file_op_init(struct ci_file_op *op, coir_file *at, coir_file *to,
                             const struct ci_file_call *call)
{
    op->at = at;
    op->to = to;
    op->call = *call;
    op->call.fd = ci_file_fd(at);
    op->call.to_fd = ci_file_fd(to);
    op->opened = NULL;
    return coir_future_init(&op->future, &file_kind);
}

int ci_file_call(coir_file *at, coir_file *to, const struct ci_file_call *call)
{
    struct ci_file_op op;
    return (int)ci_await_in_fiber(ci_file_op_init(&op, at, to, call));
}

static struct ci_file_op *op_of(coir_file_op *opaque)
{
    return (struct ci_file_op *)(void *)opaque;
}

/* ---- bytes ---- */

static coir_future *transfer_op(coir_file_op *opaque, coir_file *file, enum ci_file_kind kind,
                                void *bytes, size_t len, int64_t offset)
{
    struct ci_file_op *op = op_of(opaque);
    op->one = (struct iovec){bytes, len < INT32_MAX ? len : INT32_MAX};
    return ci_file_op_init(
        op, file, NULL,
        &(struct ci_file_call){.kind = kind, .iov = &op->one, .count = 1, .offset = offset});
}

static coir_future *vector_op(coir_file_op *op, coir_file *file, enum ci_file_kind kind,
                              const struct iovec *iov, int count, int64_t offset,
                              const char *caller, const void *place)
{
    if (!op || !file || (!iov && count))
        return ci_completed_op(op, ci_misused(-EINVAL, "op, file or iov is NULL", caller, place));
    if (count < 0 || count > IOV_MAX_COUNT)
        return ci_completed_op(op, -EINVAL);
    return ci_file_op_init(
        op_of(op), file, NULL,
        &(struct ci_file_call){.kind = kind, .iov = iov, .count = count, .offset = offset});
}

coir_future *coir_file_read_op(coir_file_op *op, coir_file *file, void *buf, size_t len,
                               int64_t offset)
{
    if (!op || !file || (!buf && len))
        return ci_completed_op(op, CI_MISUSE(-EINVAL, "op, file or buf is NULL"));
    return transfer_op(op, file, CI_FILE_READ, buf, len, offset);
}

coir_future *coir_file_write_op(coir_file_op *op, coir_file *file, const void *data, size_t len,
                                int64_t offset)
{
    if (!op || !file || (!data && len))
        return ci_completed_op(op, CI_MISUSE(-EINVAL, "op, file or data is NULL"));
    return transfer_op(op, file, CI_FILE_WRITE, (void *)(uintptr_t)data, len, offset);
}

coir_future *coir_file_readv_op(coir_file_op *op, coir_file *file, const struct iovec *iov,
                                int iov_count, int64_t offset)
{
    return vector_op(op, file, CI_FILE_READ, iov, iov_count, offset, CI_CALL, CI_PLACE);
}

coir_future *coir_file_writev_op(coir_file_op *op, coir_file *file, const struct iovec *iov,
                                 int iov_count, int64_t offset)
{
    return vector_op(op, file, CI_FILE_WRITE, iov, iov_count, offset, CI_CALL, CI_PLACE);
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

ssize_t coir_file_readv(coir_file *file, const struct iovec *iov, int iov_count, int64_t offset)
{
    coir_file_op op;
    if (!file || (!iov && iov_count))
        return CI_MISUSE(-EINVAL, "file or iov is NULL");
    return ci_await_in_fiber(coir_file_readv_op(&op, file, iov, iov_count, offset));
}

ssize_t coir_file_writev(coir_file *file, const struct iovec *iov, int iov_count, int64_t offset)
{
    coir_file_op op;
    if (!file || (!iov && iov_count))
        return CI_MISUSE(-EINVAL, "file or iov is NULL");
    return ci_await_in_fiber(coir_file_writev_op(&op, file, iov, iov_count, offset));
}

/* ---- the rest of an open file ---- */

static coir_future *call_op(coir_file_op *op, coir_file *file, const struct ci_file_call *call,
                            const char *caller, const void *place)
{
    if (!op || !file)
        return ci_completed_op(op, ci_misused(-EINVAL, "op or file is NULL", caller, place));
    return ci_file_op_init(op_of(op), file, NULL, call);
}

static int call_on(coir_file *file, const struct ci_file_call *call, const char *caller,
                   const void *place)
{
    if (!file)
        return ci_misused(-EINVAL, "file is NULL", caller, place);
    return ci_file_call(file, NULL, call);
}

static const struct ci_file_call sync_all = {.kind = CI_FILE_SYNC},
                                 sync_data = {.kind = CI_FILE_SYNC, .flags = 1};

coir_future *coir_file_sync_op(coir_file_op *op, coir_file *file)
{
    return call_op(op, file, &sync_all, CI_CALL, CI_PLACE);
}

int coir_file_sync(coir_file *file)
{
    return call_on(file, &sync_all, CI_CALL, CI_PLACE);
}

coir_future *coir_file_sync_data_op(coir_file_op *op, coir_file *file)
{
    return call_op(op, file, &sync_data, CI_CALL, CI_PLACE);
}

int coir_file_sync_data(coir_file *file)
{
    return call_on(file, &sync_data, CI_CALL, CI_PLACE);
}

coir_future *coir_file_truncate_op(coir_file_op *op, coir_file *file, int64_t len)
{
    if (len < 0)
        return ci_completed_op(op, -EINVAL);
    return call_op(op, file, &(struct ci_file_call){.kind = CI_FILE_TRUNCATE, .len = len}, CI_CALL,
                   CI_PLACE);
}

int coir_file_truncate(coir_file *file, int64_t len)
{
    return len < 0 ? -EINVAL
                   : call_on(file, &(struct ci_file_call){.kind = CI_FILE_TRUNCATE, .len = len},
                             CI_CALL, CI_PLACE);
}

coir_future *coir_file_allocate_op(coir_file_op *op, coir_file *file, int64_t offset, int64_t len)
{
    if (offset < 0 || len <= 0)
        return ci_completed_op(op, -EINVAL);
    return call_op(op, file,
                   &(struct ci_file_call){.kind = CI_FILE_ALLOCATE, .offset = offset, .len = len},
                   CI_CALL, CI_PLACE);
}

int coir_file_allocate(coir_file *file, int64_t offset, int64_t len)
{
    if (offset < 0 || len <= 0)
        return -EINVAL;
    return call_on(file,
                   &(struct ci_file_call){.kind = CI_FILE_ALLOCATE, .offset = offset, .len = len},
                   CI_CALL, CI_PLACE);
}

coir_future *coir_file_stat_op(coir_stat_op *op, coir_file *file, struct stat *ret_stat)
{
    if (!op || !file || !ret_stat)
        return ci_completed_op(op, CI_MISUSE(-EINVAL, "op, file or ret_stat is NULL"));
    return ci_file_op_init(op_of(&op->op), file, NULL,
                           &(struct ci_file_call){.kind = CI_FILE_STAT,
                                                  .stat = ret_stat,
                                                  .statx = ci_stat_op_of(op)->statx});
}

int coir_file_stat(coir_file *file, struct stat *ret_stat)
{
    coir_stat_op op;
    if (!file || !ret_stat)
        return CI_MISUSE(-EINVAL, "file or ret_stat is NULL");
    return (int)ci_await_in_fiber(coir_file_stat_op(&op, file, ret_stat));
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

int64_t coir_file_position(const coir_file *file)
{
    if (!file)
        return CI_MISUSE(-EINVAL, "file is NULL");
    return file->position;
}

int coir_file_seek(coir_file *file, int64_t position)
{
    uint32_t free = 0;
    if (!file)
        return CI_MISUSE(-EINVAL, "file is NULL");
    if (position < 0)
        return -EINVAL;
    if (!ci_compare_exchange(&file->moving, &free, 1))
        return -EBUSY;
    file->position = position;
    ci_store_release(&file->moving, 0); /* pairs with the exchange in ci_file_use_begin */
    return 0;
}

/* ---- opening and closing ---- */

/* Of the call `caller`, made at `place`. */
static coir_future *open_op(coir_file_op *opaque, coir_file *dir, const char *path, int flags,
                            unsigned mode, coir_file **ret_file, const char *caller,
                            const void *place)
{
    struct ci_file_op *op = op_of(opaque);
    if (!opaque || !path || !ret_file)
        return ci_completed_op(op,
                               ci_misused(-EINVAL, "op, path or ret_file is NULL", caller, place));
    op->ret_file = ret_file;
    return ci_file_op_init(
        op, dir, NULL,
        &(struct ci_file_call){.kind = CI_FILE_OPEN, .path = path, .flags = flags, .mode = mode});
}

coir_future *coir_file_open_at_op(coir_file_op *op, coir_file *dir, const char *path, int flags,
                                  unsigned mode, coir_file **ret_file)
{
    return open_op(op, dir, path, flags, mode, ret_file, CI_CALL, CI_PLACE);
}

coir_future *coir_file_open_op(coir_file_op *op, const char *path, int flags, unsigned mode,
                               coir_file **ret_file)
{
    return open_op(op, NULL, path, flags, mode, ret_file, CI_CALL, CI_PLACE);
}

int coir_file_open_at(coir_file *dir, const char *path, int flags, unsigned mode,
                      coir_file **ret_file)
{
    coir_file_op op;
    return (int)ci_await_in_fiber(
        open_op(&op, dir, path, flags, mode, ret_file, CI_CALL, CI_PLACE));
}

int coir_file_open(const char *path, int flags, unsigned mode, coir_file **ret_file)
{
    coir_file_op op;
    return (int)ci_await_in_fiber(
        open_op(&op, NULL, path, flags, mode, ret_file, CI_CALL, CI_PLACE));
}

void coir_file_close(coir_file *file)
{
    if (!file || ci_forked())
        return;
    if (ci_worker_current)
        ci_file_unref(file);
    else
        (void)CI_MISUSE(-ESRCH, "a file is closed on a worker");
}
