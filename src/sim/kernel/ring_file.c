/* Calls on files by a simulated ring: rw.c, sync.c, openclose.c, statx.c, fs.c and truncate.c of
 * Linux 6.1 to 6.18. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "sim/kernel/ring.h"
#include "sys/statx.h"

enum { OP_FTRUNCATE = 55 };

static const struct {
    uint8_t opcode, kind; /* enum ci_file_kind */
    bool has_path;
    uint8_t version; /* of Linux, minor */
} operations[] = {
    {IORING_OP_READ, CI_FILE_READ, false, 0},
    {IORING_OP_READV, CI_FILE_READ, false, 0},
    {IORING_OP_WRITE, CI_FILE_WRITE, false, 0},
    {IORING_OP_WRITEV, CI_FILE_WRITE, false, 0},
    {IORING_OP_FSYNC, CI_FILE_SYNC, false, 0},
    {OP_FTRUNCATE, CI_FILE_TRUNCATE, false, 9},
    {IORING_OP_FALLOCATE, CI_FILE_ALLOCATE, false, 0},
    {IORING_OP_OPENAT, CI_FILE_OPEN, true, 0},
    {IORING_OP_STATX, CI_FILE_STAT, true, 0},
    {IORING_OP_RENAMEAT, CI_FILE_RENAME, true, 0},
    {IORING_OP_LINKAT, CI_FILE_LINK, true, 0},
    {IORING_OP_UNLINKAT, CI_FILE_UNLINK, true, 0},
    {IORING_OP_MKDIRAT, CI_FILE_MKDIR, true, 0},
};

static size_t find(uint8_t opcode)
{
    size_t i = 0;
    while (i < ci_countof(operations) && operations[i].opcode != opcode)
        i++;
    return i;
}

bool ci_kring_is_call(uint8_t opcode)
{
    return find(opcode) < ci_countof(operations);
}

bool ci_kring_call_has_path(uint8_t opcode)
{
    return ci_kring_is_call(opcode) && operations[find(opcode)].has_path;
}

void ci_kring_probe(struct io_uring_probe *probe, unsigned count)
{
    for (size_t i = 0; i < ci_countof(operations); i++)
        if (operations[i].opcode < count && operations[i].version <= ci_kring_traits.version)
            probe->ops[operations[i].opcode].flags = IO_URING_OP_SUPPORTED;
}

/* ---- reading an entry ---- */

static void prepare_bytes(struct ci_krequest *request, const struct io_uring_sqe *sqe)
{
    struct ci_file_call *call = &request->call;
    bool vector = sqe->opcode == IORING_OP_READV || sqe->opcode == IORING_OP_WRITEV;
    if (vector && sqe->len > CI_KREQUEST_IOVS)
        ci_kunknown("a vector of that length");
    call->iov = request->iovs;
    call->count = vector ? (int)sqe->len : 1;
    call->offset = (int64_t)sqe->off;
    if (vector)
        memcpy(request->iovs, (const void *)(uintptr_t)sqe->addr, sqe->len * sizeof(struct iovec));
    else
        request->iovs[0] = (struct iovec){(void *)(uintptr_t)sqe->addr, sqe->len};
}

static char *copy_path(uint64_t address)
{
    char *path = strdup((const char *)(uintptr_t)address);
    ci_check(path, "kernel/kernel.h 5");
    return path;
}

static void prepare_path(struct ci_krequest *request, const struct io_uring_sqe *sqe)
{
    struct ci_file_call *call = &request->call;
    call->path = copy_path(sqe->addr);
    switch (call->kind) {
    case CI_FILE_OPEN:
        call->flags = (int)sqe->open_flags;
        call->mode = sqe->len;
        break;
    case CI_FILE_STAT:
        request->buf = (char *)(uintptr_t)sqe->addr2;
        call->flags = (int)sqe->statx_flags & ~AT_EMPTY_PATH;
        request->of_file = !call->path[0] && sqe->statx_flags & AT_EMPTY_PATH;
        break;
    case CI_FILE_RENAME:
    case CI_FILE_LINK:
        call->to_path = copy_path(sqe->addr2);
        call->to_fd = (coir_fd)sqe->len;
        break;
    case CI_FILE_UNLINK: call->flags = (int)sqe->unlink_flags; break;
    default: call->mode = sqe->len; break; /* CI_FILE_MKDIR */
    }
}

int ci_kring_prepare_call(struct ci_krequest *request, const struct io_uring_sqe *sqe)
{
    size_t i = find(sqe->opcode);
    struct ci_file_call *call = &request->call;
    if (operations[i].version > ci_kring_traits.version)
        return -EINVAL;
    if (sqe->ioprio || (sqe->rw_flags && !operations[i].has_path && sqe->opcode != IORING_OP_FSYNC))
        ci_kunknown("a flag of a call on a file");
    *call = (struct ci_file_call){.kind = operations[i].kind, .fd = sqe->fd};
    if (operations[i].has_path)
        prepare_path(request, sqe);
    else if (call->kind == CI_FILE_READ || call->kind == CI_FILE_WRITE)
        prepare_bytes(request, sqe);
    else if (call->kind == CI_FILE_SYNC)
        call->flags = (int)sqe->fsync_flags;
    else if (call->kind == CI_FILE_TRUNCATE)
        call->len = (int64_t)sqe->off;
    else {
        call->offset = (int64_t)sqe->off;
        call->len = (int64_t)sqe->addr;
    }
    return 0;
}

/* ---- carrying it out ---- */

static bool is_transfer(const struct ci_krequest *request)
{
    return request->call.kind == CI_FILE_READ || request->call.kind == CI_FILE_WRITE;
}

static enum ci_kring_try transfer(struct ci_krequest *request)
{
    const struct ci_kfile_type *type = request->file->type;
    const struct ci_file_call *call = &request->call;
    ssize_t n;
    if (call->kind == CI_FILE_READ)
        n = type->read ? type->read(request->file, call->iov, call->count) : -EINVAL;
    else
        n = type->write ? type->write(request->file, call->iov, call->count) : -EINVAL;
    return n == -EAGAIN ? CI_KRING_AGAIN : ci_kring_set(request, n);
}

static void fill_in_statx(void *to, const struct stat *from)
{
    *(struct statx *)to = (struct statx){
        .stx_mask = ci_statx_mask,
        .stx_blksize = (uint32_t)from->st_blksize,
        .stx_nlink = (uint32_t)from->st_nlink,
        .stx_mode = (uint16_t)from->st_mode,
        .stx_ino = from->st_ino,
        .stx_size = (uint64_t)from->st_size,
    };
}

/* Only reads, writes and some opens are tried by the thread that submits them. */
static bool needs_worker(const struct ci_krequest *request)
{
    const struct ci_file_call *call = &request->call;
    bool opens = call->kind == CI_FILE_OPEN && !(call->flags & (O_CREAT | O_TRUNC | O_TMPFILE));
    return !(opens || is_transfer(request)) || ci_kone_in(2);
}

enum ci_kring_try ci_kring_call(struct ci_krequest *request, enum ci_kring_from from)
{
    struct stat what;
    if (is_transfer(request) && !ci_kdisk_is(request->file))
        return transfer(request);
    if (from != CI_KRING_WORKER && needs_worker(request))
        return CI_KRING_AGAIN;
    if (request->file && !ci_kdisk_is(request->file))
        return ci_kring_set(request, -EINVAL);
    struct ci_file_call call = request->call;
    call.stat = &what;
    if (request->of_file)
        call.path = NULL;
    int rc = ci_kdisk_call(request->file, &call);
    if (rc == 0 && request->call.kind == CI_FILE_STAT)
        fill_in_statx(request->buf, &what);
    return ci_kring_set(request, rc);
}

bool ci_kring_on_disk(const struct ci_krequest *request)
{
    return ci_kring_is_call(request->opcode) && (!request->file || ci_kdisk_is(request->file));
}
