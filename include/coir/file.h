/* Files: bytes at offsets. io_uring has the operations natively; elsewhere they are calls on the
 * threads of coir_offload. In the simulator they are files of the host's own disk, which can fail,
 * and lose what was not synced (coir/sim.h).
 *
 * A file may be used from every worker of a runtime, by any number of tasks at a time. */
#ifndef COIR_FILE_H
#define COIR_FILE_H

#include <coir/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open file. It is made by coir_file_open. */
typedef struct coir_file coir_file;

/* Opens a file. `flags` and `mode` are those of open(2), close-on-exec is added. What has no
 * offsets, as a FIFO, a socket or a terminal, is refused, without waiting for its other end:
 * open(2) it with O_NONBLOCK, and use coir_fd_read.
 * Suspends: yes.  Threads: worker.  Owns: *ret_file is the caller's to close.
 * Errors: those of open(2); -ESPIPE it has no offsets; -EMFILE; -ENOMEM; -EINVAL no path, or no
 * ret_file.
 * Cancel safety: an error means that no file is open, but one may have been made. */
COIR_SUSPENDS int coir_file_open(const char *path, int flags, unsigned mode, coir_file **ret_file);

/* Reads from a file at an offset and returns the count. It may be short; 0 is the end of the file.
 * Suspends: yes.  Threads: worker.
 * Errors: those of pread(2); -EINVAL a negative offset, no file, or no buffer; those of
 * coir_offload on drivers without operations on files.
 * Cancel safety: an error means that nothing was read. A read that has begun is waited for, and
 * returns its own result. */
COIR_SUSPENDS ssize_t coir_file_read(coir_file *file, void *buf, size_t len, int64_t offset);

/* Writes to a file at an offset and returns the count, which may be short.
 * Suspends: yes.  Threads: worker.
 * Errors: those of pwrite(2); -EINVAL a negative offset, no file, or no buffer; those of
 * coir_offload on drivers without operations on files.
 * Cancel safety: an error means that nothing was written. A write that has begun is waited for,
 * and returns its own result. */
COIR_SUSPENDS ssize_t coir_file_write(coir_file *file, const void *data, size_t len,
                                      int64_t offset);

/* Puts everything that was written so far on the disk, as fsync(2) does.
 * Suspends: yes.  Threads: worker.
 * Errors: those of fsync(2); -EINVAL no file; those of coir_offload on drivers without operations
 * on files.
 * Cancel safety: an error means that the sync was not made. One that has begun is waited for, and
 * returns its own result. */
COIR_SUSPENDS int coir_file_sync(coir_file *file);

/* The length of a file now, in bytes.
 * Suspends: no.  Threads: worker.
 * Errors: those of fstat(2); -EINVAL no file, or no ret_size. */
COIR_API int coir_file_size(const coir_file *file, int64_t *ret_size);

/* Copies a part of a file to a stream: `len` bytes from `offset` on (COIR_UNLIMITED: all), or up to
 * the end of the file. Returns how many; *ret_done, where given, is the same, also on an error. A
 * socket gets the bytes from the page cache (sendfile(2)), into which a thread of the offload pool
 * brings them; otherwise they pass through a buffer of 64 KiB.
 * Suspends: yes.  Threads: owner of the stream.
 * Errors: those of coir_file_read, coir_write and coir_offload; -ENOMEM; -EINVAL no file or stream.
 * Cancel safety: *ret_done bytes have been written. */
COIR_SUSPENDS ssize_t coir_file_copy_to(coir_file *file, int64_t offset, size_t len,
                                        coir_stream *to, size_t *ret_done);

/* Copies what comes from a stream into a file, from `offset` on, until `len` bytes are copied
 * (COIR_UNLIMITED: all) or the end has come. Otherwise as coir_file_copy_to, through a buffer.
 * Suspends: yes.  Threads: owner of the stream.
 * Errors: those of coir_read and coir_file_write; -ENOMEM; -EINVAL no file or stream.
 * Cancel safety: what was read and not written yet is lost. */
COIR_SUSPENDS ssize_t coir_file_copy_from(coir_file *file, int64_t offset, size_t len,
                                          coir_stream *from, size_t *ret_done);

/* Closes a file and frees it, once the last operation in flight has completed. Takes NULL.
 * Suspends: no.  Threads: worker. */
COIR_API void coir_file_close(coir_file *file);

/* Storage for the future of one operation on a file: coir_file_read_op and the like make it. */
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
