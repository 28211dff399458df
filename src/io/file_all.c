/* Calls on files until all bytes are read, written or copied.
 *
 * Each refers to its files from its first operation to its last: closing a file takes effect when
 * the whole call has ended, as with one operation. */
#include <errno.h>

#include "io/file.h"

enum { BUFFER = 256 * 1024, SHORT = 64 * 1024 };
static const int64_t part_max =
    16 * 1024 * 1024; /* of a copy in the kernel: cancelled in between */

ssize_t coir_file_read_full(coir_file *file, void *buf, size_t len, int64_t offset,
                            size_t *ret_done)
{
    struct ci_file_use use;
    size_t done = 0;
    ssize_t n = 1;
    int rc = 0;
    if (ret_done)
        *ret_done = 0;
    if (!file || (!buf && len))
        return CI_MISUSE(-EINVAL, "file or buf is NULL");
    if (!ci_fiber_enter(&rc) || (rc = ci_file_use_begin(&use, file, &offset)) < 0)
        return rc;
    while (done < len && n > 0) {
        n = coir_file_read(file, (char *)buf + done, len - done, offset + (int64_t)done);
        done += n > 0 ? (size_t)n : 0;
    }
    ci_file_use_end(&use, (int64_t)done);
    if (ret_done)
        *ret_done = done;
    return n < 0 ? n : done < len ? -COIR_EEND : (ssize_t)len;
}

int coir_file_write_all(coir_file *file, const void *data, size_t len, int64_t offset)
{
    struct ci_file_use use;
    size_t done = 0;
    int rc = 0;
    if (!file || (!data && len))
        return CI_MISUSE(-EINVAL, "file or data is NULL");
    if (!ci_fiber_enter(&rc) || (rc = ci_file_use_begin(&use, file, &offset)) < 0)
        return rc;
    while (rc == 0 && done < len) {
        ssize_t n =
            coir_file_write(file, (const char *)data + done, len - done, offset + (int64_t)done);
        rc = n > 0 ? 0 : n < 0 ? (int)n : -EIO;
        done += n > 0 ? (size_t)n : 0;
    }
    ci_file_use_end(&use, (int64_t)done);
    return rc;
}

/* ---- copying ---- */

struct copy {
    coir_file *to, *from;
    int64_t to_offset, offset;
    size_t len, done;
};

static size_t left(const struct copy *copy, size_t most)
{
    return copy->len - copy->done < most ? copy->len - copy->done : most;
}

/* -EOPNOTSUPP: nothing was copied, copy through a buffer. */
static int copy_in_kernel(struct copy *copy)
{
    int n = 1;
    while (copy->done < copy->len && n > 0) {
        n = ci_file_call(copy->from, copy->to,
                         &(struct ci_file_call){.kind = CI_FILE_COPY,
                                                .offset = copy->offset + (int64_t)copy->done,
                                                .to_offset = copy->to_offset + (int64_t)copy->done,
                                                .len = (int64_t)left(copy, (size_t)part_max)});
        copy->done += n > 0 ? (size_t)n : 0;
    }
    /* 0 at once: also what a file has whose length is not known, as in /proc */
    bool nothing = copy->done == 0 && copy->len > 0;
    if (nothing && (n == 0 || n == -EXDEV || n == -EINVAL || n == -ENOSYS))
        return -EOPNOTSUPP;
    return n < 0 ? n : 0;
}

/* A few bytes, where the driver reads and writes without a thread of the pool. */
static bool is_quicker_through(const struct copy *copy)
{
    const uint32_t bytes = 1u << CI_FILE_READ | 1u << CI_FILE_WRITE;
    uint32_t native = ci_worker_current->loop.driver->file_calls;
    return copy->len > 0 && copy->len <= SHORT && (native & bytes) == bytes &&
           !(native >> CI_FILE_COPY & 1);
}

static int copy_through(struct copy *copy)
{
    const coir_allocator *allocator = &ci_worker_current->runtime->allocator;
    size_t size = left(copy, BUFFER);
    char *buffer = ci_alloc(allocator, size);
    int rc = buffer ? 0 : -ENOMEM;
    ssize_t n = 1;
    while (rc == 0 && copy->done < copy->len && n > 0) {
        n = coir_file_read(copy->from, buffer, left(copy, size),
                           copy->offset + (int64_t)copy->done);
        rc = n < 0 ? (int)n : 0;
        for (size_t at = 0; rc == 0 && n > 0 && at < (size_t)n;) {
            ssize_t written = coir_file_write(copy->to, buffer + at, (size_t)n - at,
                                              copy->to_offset + (int64_t)copy->done);
            rc = written > 0 ? 0 : written < 0 ? (int)written : -EIO;
            at += written > 0 ? (size_t)written : 0;
            copy->done += written > 0 ? (size_t)written : 0;
        }
    }
    ci_free(allocator, buffer, size);
    return rc;
}

ssize_t coir_file_copy(coir_file *to, int64_t to_offset, coir_file *from, int64_t from_offset,
                       size_t len, size_t *ret_done)
{
    struct copy copy = {to, from, to_offset, from_offset, len, 0};
    int rc = 0;
    if (ret_done)
        *ret_done = 0;
    if (!to || !from)
        return CI_MISUSE(-EINVAL, "to or from is NULL");
    if (!ci_fiber_enter(&rc))
        return rc;
    if (to_offset < 0 || from_offset < 0)
        return -EINVAL;
    ci_file_ref(to);
    ci_file_ref(from);
    if ((rc = is_quicker_through(&copy) ? -EOPNOTSUPP : copy_in_kernel(&copy)) == -EOPNOTSUPP)
        rc = copy_through(&copy);
    ci_file_unref(to);
    ci_file_unref(from);
    if (ret_done)
        *ret_done = copy.done;
    return rc < 0 ? rc : (ssize_t)copy.done;
}
