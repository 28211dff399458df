/* Calls on files over io_uring: which of them the kernel has, their entries, and their results. */
#include <errno.h>
#include <fcntl.h>

#include "base/check.h"
#include "driver/uring.h"
#include "sys/statx.h"

enum { OP_FTRUNCATE = 55 }; /* Linux 6.9; the headers may be older */

static const struct {
    uint8_t kind, opcode; /* enum ci_file_kind */
} table[] = {
    {CI_FILE_READ, IORING_OP_READV},         {CI_FILE_WRITE, IORING_OP_WRITEV},
    {CI_FILE_SYNC, IORING_OP_FSYNC},         {CI_FILE_TRUNCATE, OP_FTRUNCATE},
    {CI_FILE_ALLOCATE, IORING_OP_FALLOCATE}, {CI_FILE_OPEN, IORING_OP_OPENAT},
    {CI_FILE_STAT, IORING_OP_STATX},         {CI_FILE_RENAME, IORING_OP_RENAMEAT},
    {CI_FILE_LINK, IORING_OP_LINKAT},        {CI_FILE_UNLINK, IORING_OP_UNLINKAT},
    {CI_FILE_MKDIR, IORING_OP_MKDIRAT},
};

uint32_t ci_uring_file_calls(const struct ci_ring *ring)
{
    uint64_t operations = ci_ring_operations(ring);
    uint32_t calls = 0;
    for (size_t i = 0; i < ci_countof(table); i++)
        if (operations >> table[i].opcode & 1)
            calls |= 1u << table[i].kind;
    return calls;
}

static uint8_t opcode_of(const struct ci_file_call *call)
{
    if (call->count == 1 && call->kind == CI_FILE_READ)
        return IORING_OP_READ;
    if (call->count == 1 && call->kind == CI_FILE_WRITE)
        return IORING_OP_WRITE;
    size_t i = 0;
    while (table[i].kind != call->kind)
        i++;
    return table[i].opcode;
}

static void fill_in_bytes(struct io_uring_sqe *sqe, const struct ci_file_call *call)
{
    bool one = call->count == 1;
    sqe->addr = one ? (uintptr_t)call->iov->iov_base : (uintptr_t)call->iov;
    sqe->len = one ? (uint32_t)call->iov->iov_len : (uint32_t)call->count;
    sqe->off = (uint64_t)call->offset;
}

static void fill_in_paths(struct io_uring_sqe *sqe, const struct ci_file_call *call)
{
    sqe->addr = (uintptr_t)call->path;
    sqe->addr2 = (uintptr_t)call->to_path;
    sqe->len = (uint32_t)call->to_fd;
}

static void fill_in(struct io_uring_sqe *sqe, const struct ci_file_call *call)
{
    switch (call->kind) {
    case CI_FILE_READ:
    case CI_FILE_WRITE: fill_in_bytes(sqe, call); break;
    case CI_FILE_SYNC: sqe->fsync_flags = call->flags ? IORING_FSYNC_DATASYNC : 0; break;
    case CI_FILE_TRUNCATE: sqe->off = (uint64_t)call->len; break;
    case CI_FILE_ALLOCATE:
        sqe->off = (uint64_t)call->offset;
        sqe->addr = (uint64_t)call->len;
        break;
    case CI_FILE_OPEN: /* O_NONBLOCK: it does not wait for the other end of a FIFO */
        sqe->addr = (uintptr_t)call->path;
        sqe->len = call->mode;
        sqe->open_flags = (uint32_t)(call->flags | O_CLOEXEC | O_NONBLOCK);
        break;
    case CI_FILE_STAT:
        sqe->addr = (uintptr_t)(call->path ? call->path : "");
        sqe->addr2 = (uintptr_t)call->statx;
        sqe->len = ci_statx_mask;
        sqe->statx_flags = (uint32_t)(call->flags | (call->path ? 0 : AT_EMPTY_PATH));
        break;
    case CI_FILE_RENAME:
    case CI_FILE_LINK: fill_in_paths(sqe, call); break;
    case CI_FILE_UNLINK:
        sqe->addr = (uintptr_t)call->path;
        sqe->unlink_flags = (uint32_t)call->flags;
        break;
    case CI_FILE_MKDIR:
        sqe->addr = (uintptr_t)call->path;
        sqe->len = call->mode;
        break;
    case CI_FILE_LIST:
    case CI_FILE_COPY: break; /* it has no such call */
    }
}

bool ci_uring_start_on_file(struct ci_uring *uring, struct ci_op *op)
{
    struct io_uring_sqe *sqe;
    uint32_t index =
        ci_uring_prepare(uring, CI_URING_OP, op, op->call->fd, opcode_of(op->call), &sqe);
    if (!index)
        return ci_op_complete(op, -ENOMEM);
    fill_in(sqe, op->call);
    uring->base.pending++;
    op->pending = CI_URING_IN_FLIGHT;
    op->result = (int32_t)index;
    return false;
}

int32_t ci_uring_finish_on_file(const struct ci_op *op, int32_t result)
{
    if (op->call->kind == CI_FILE_OPEN)
        return ci_sys_file_opened(result, op->call->flags);
    if (op->call->kind == CI_FILE_STAT)
        ci_statx_to_stat(op->call->statx, op->call->stat);
    return result;
}
