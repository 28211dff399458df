/* Files: bytes at offsets. io_uring has the operations natively; elsewhere they are calls on the
 * threads of coir_offload. In the simulator they are files of the host's own disk, which can fail,
 * and lose what was not synced (coir/sim.h).
 *
 * A file may be used from every worker of a runtime, by any number of tasks at a time. */
#ifndef COIR_FILE_H
#define COIR_FILE_H

#include <coir/future.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct coir_file coir_file;

/* Opens a file; flags and mode are those of open(2), close-on-exec is added. What has no offsets,
 * as a FIFO, a socket or a terminal, is refused, without waiting for its other end: open(2) it with
 * O_NONBLOCK, and use coir_fd_read.
 * Suspends: yes.  Threads: worker.  Owns: *ret_file is the caller's to close.
 * Errors: those of open(2); -ESPIPE it has no offsets; -EMFILE; -ENOMEM.
 * Cancel safety: an error means that no file is open, but one may have been made. */
COIR_SUSPENDS int coir_file_open(const char *path, int flags, unsigned mode, coir_file **ret_file);

/* Reads at an offset: the count, which may be short; 0 at the end of the file.
 * Suspends: yes.  Threads: worker.
 * Errors: those of pread(2), pwrite(2) and fsync(2); -EINVAL a negative offset.
 * Cancel safety: the kernel may have begun: then the call is waited for, and a write has been
 * made. */
COIR_SUSPENDS ssize_t coir_file_read(coir_file *file, void *buf, size_t len, int64_t offset);
COIR_SUSPENDS ssize_t coir_file_write(coir_file *file, const void *data, size_t len,
                                      int64_t offset);

/* Has everything that was written so far put on the disk.
 * Suspends: yes.  Threads: worker.
 * Errors: those of fsync(2).
 * Cancel safety: as above. */
COIR_SUSPENDS int coir_file_sync(coir_file *file);

/* The length of the file now.
 * Suspends: no.  Threads: worker.
 * Errors: those of fstat(2). */
COIR_API int coir_file_size(const coir_file *file, int64_t *ret_size);

/* Closes and frees, after the last operation that is under way. Takes NULL.
 * Suspends: no.  Threads: worker. */
COIR_API void coir_file_close(coir_file *file);

/* The futures of these calls: the same arguments, errors and ownership.
 * Suspends: no.  Threads: worker. */
typedef struct coir_file_op {
    coir_future future;
    uint64_t opaque[36];
} coir_file_op;
COIR_API coir_future *coir_file_read_op(coir_file_op *op, coir_file *file, void *buf, size_t len,
                                        int64_t offset);
COIR_API coir_future *coir_file_write_op(coir_file_op *op, coir_file *file, const void *data,
                                         size_t len, int64_t offset);
COIR_API coir_future *coir_file_sync_op(coir_file_op *op, coir_file *file);

#ifdef __cplusplus
}
#endif

#endif
