/* Files: bytes at offsets. io_uring has the operations natively; elsewhere, and where the kernel
 * has none, they are calls on the threads of coir_offload. In the simulator they are files of the
 * host's own disk, which can fail, and lose what was not synced (coir/sim.h).
 *
 * A file may be used from every worker of a runtime, by any number of tasks at a time. At most
 * coir_config.file_calls_max calls of a worker are in flight; the others wait for their turn, in
 * order. A directory is opened as a file, with O_RDONLY | O_DIRECTORY: paths begin at it
 * (coir/dir.h), and syncing it makes the names in it last.
 *
 * What would make a file longer than the limit of the process (RLIMIT_FSIZE) fails with -EFBIG, if
 * the program ignores SIGXFSZ; otherwise that signal ends it.
 *
 * Cancel safety of all calls here: one that waits for its turn, or for a thread, is withdrawn. One
 * that the system has begun is cancelled if the kernel can do that, otherwise waited for: until
 * then its memory is in use. If it succeeds all the same, it returns its own result: nothing that
 * was done is reported as an error. */
#ifndef COIR_FILE_H
#define COIR_FILE_H

#include <coir/stream.h>
#include <sys/stat.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open file, or directory. It is made by coir_file_open. */
typedef struct coir_file coir_file;

/* Instead of an offset: the file's own position. It begins at 0, and moves by the bytes that were
 * read or written, also where O_APPEND has put these at the end. One call at a time may use it. */
#define COIR_POSITION INT64_C(-1)

/* ---- opening and closing ---- */

/* Opens a file. `flags` and `mode` are those of open(2), close-on-exec is added. What has no
 * offsets, as a FIFO, a socket or a terminal, is refused, without waiting for its other end:
 * open(2) it with O_NONBLOCK, and use coir_fd_read.
 * Suspends: yes.  Threads: worker.  Owns: *ret_file is the caller's to close.
 * Errors: those of open(2); -ESPIPE it has no offsets; -EMFILE; -ENOMEM; -EINVAL no path, or no
 * ret_file; those of coir_offload.
 * Cancel safety: an error means that no file is open, but one may have been made. */
COIR_SUSPENDS int coir_file_open(const char *path, int flags, unsigned mode, coir_file **ret_file);

/* Opens a file whose path begins at a directory (NULL: the working directory). As coir_file_open.
 * Suspends: yes.  Threads: worker.  Owns: *ret_file is the caller's to close.
 * Errors: those of coir_file_open; -ENOTDIR `dir` is no directory.
 * Cancel safety: an error means that no file is open, but one may have been made. */
COIR_SUSPENDS int coir_file_open_at(coir_file *dir, const char *path, int flags, unsigned mode,
                                    coir_file **ret_file);

/* Opens a file to read and write, which has no name: it goes when it is closed. It is made on the
 * file system of a directory (NULL: the working directory).
 * Suspends: yes.  Threads: worker.  Owns: *ret_file is the caller's to close.
 * Errors: those of coir_file_open_at.
 * Cancel safety: an error means that no file is open, and none is left. */
COIR_SUSPENDS int coir_file_open_temporary(coir_file *dir, unsigned mode, coir_file **ret_file);

/* Closes a file and frees it, once the last call on it has ended. Takes NULL.
 * Suspends: no.  Threads: worker. */
COIR_API void coir_file_close(coir_file *file);

/* ---- bytes ---- */

/* Reads from a file at an offset and returns the count. It may be short; 0 is the end of the file.
 * Suspends: yes.  Threads: worker.
 * Errors: those of pread(2); -EINVAL a negative offset, no file, or no buffer; -EBUSY another call
 * uses COIR_POSITION; those of coir_offload.
 * Cancel safety: an error means that nothing was read. A read that has begun is waited for, and
 * returns its own result. */
COIR_SUSPENDS ssize_t coir_file_read(coir_file *file, void *buf, size_t len, int64_t offset);

/* Reads into several buffers, in order, as coir_file_read.
 * Suspends: yes.  Threads: worker.  Owns: the vector and the buffers are borrowed.
 * Errors: those of coir_file_read; -EINVAL more than 1,024 buffers.
 * Cancel safety: that of coir_file_read. */
COIR_SUSPENDS ssize_t coir_file_readv(coir_file *file, const struct iovec *iov, int iov_count,
                                      int64_t offset);

/* Reads exactly `len` bytes. *ret_done, where given, is how many came, also on an error.
 * Suspends: yes.  Threads: worker.
 * Errors: those of coir_file_read; -COIR_EEND the file ends before.
 * Cancel safety: *ret_done bytes have been read. */
COIR_SUSPENDS ssize_t coir_file_read_full(coir_file *file, void *buf, size_t len, int64_t offset,
                                          size_t *ret_done);

/* Writes to a file at an offset and returns the count, which may be short. A file that was opened
 * with O_APPEND is written at its end.
 * Suspends: yes.  Threads: worker.
 * Errors: those of pwrite(2); -EINVAL a negative offset, no file, or no buffer; -EBUSY another call
 * uses COIR_POSITION; those of coir_offload.
 * Cancel safety: an error means that nothing was written. A write that has begun is waited for,
 * and returns its own result. */
COIR_SUSPENDS ssize_t coir_file_write(coir_file *file, const void *data, size_t len,
                                      int64_t offset);

/* Writes several buffers, in order, as coir_file_write.
 * Suspends: yes.  Threads: worker.  Owns: the vector and the buffers are borrowed.
 * Errors: those of coir_file_write; -EINVAL more than 1,024 buffers.
 * Cancel safety: that of coir_file_write. */
COIR_SUSPENDS ssize_t coir_file_writev(coir_file *file, const struct iovec *iov, int iov_count,
                                       int64_t offset);

/* Writes all bytes: 0 or an error.
 * Suspends: yes.  Threads: worker.
 * Errors: those of coir_file_write.
 * Cancel safety: an error means that any number of the bytes, from the first one on, was written.
 */
COIR_SUSPENDS int coir_file_write_all(coir_file *file, const void *data, size_t len,
                                      int64_t offset);

/* Puts everything that was written so far on the disk, as fsync(2) does. Of a directory: the names
 * that were made, changed or removed in it so far. If it fails, what was written since the last
 * sync that succeeded may be lost, also if the next one succeeds: write it again.
 * Suspends: yes.  Threads: worker.
 * Errors: those of fsync(2); -EINVAL no file; those of coir_offload.
 * Cancel safety: an error means that the sync was not made. One that has begun is waited for, and
 * returns its own result. */
COIR_SUSPENDS int coir_file_sync(coir_file *file);

/* Puts the bytes that were written so far on the disk, as fdatasync(2) does. What is needed to read
 * them again goes with them, the times of the file do not. As coir_file_sync. */
COIR_SUSPENDS int coir_file_sync_data(coir_file *file);

/* Sets the length of a file: what is behind it goes, what is missing reads as zeros.
 * Suspends: yes.  Threads: worker.
 * Errors: those of ftruncate(2); -EINVAL a negative length, or no file; those of coir_offload.
 * Cancel safety: an error means that the length is as it was. */
COIR_SUSPENDS int coir_file_truncate(coir_file *file, int64_t len);

/* Takes room on the disk for a part of a file, so that writing there does not fail for lack of it.
 * The file becomes longer if the part ends behind its end.
 * Suspends: yes.  Threads: worker.
 * Errors: those of fallocate(2): -EOPNOTSUPP the file system cannot do that; -EINVAL no file; those
 * of coir_offload.
 * Cancel safety: an error means that any part of it may have been taken. */
COIR_SUSPENDS int coir_file_allocate(coir_file *file, int64_t offset, int64_t len);

/* ---- what is known of a file ---- */

/* What the system knows of an open file, as fstat(2) tells it.
 * Suspends: yes.  Threads: worker.
 * Errors: those of fstat(2); -EINVAL no file, or no ret_stat; those of coir_offload.
 * Cancel safety: *ret_stat is set only on success. */
COIR_SUSPENDS int coir_file_stat(coir_file *file, struct stat *ret_stat);

/* The length of a file now, in bytes.
 * Suspends: no.  Threads: worker.
 * Errors: those of fstat(2); -EINVAL no file, or no ret_size. */
COIR_API int coir_file_size(const coir_file *file, int64_t *ret_size);

/* The position of a file, which COIR_POSITION reads and writes at.
 * Suspends: no.  Threads: worker.
 * Errors: -EINVAL no file. */
COIR_API int64_t coir_file_position(const coir_file *file);

/* Sets the position of a file.
 * Suspends: no.  Threads: worker.
 * Errors: -EINVAL a negative position, or no file; -EBUSY a call uses COIR_POSITION. */
COIR_API int coir_file_seek(coir_file *file, int64_t position);

/* ---- whole files ---- */

/* Replaces the contents of a file at once: whoever opens it, also after a loss of power, finds the
 * old contents or the new, whole. They are written to a new file beside it, synced, and renamed
 * over it; then the directory is synced. So the new file is another one: its owner is the caller,
 * its mode is `mode`, and a link at `path` is replaced itself. There need not be a file before.
 * Suspends: yes.  Threads: worker.
 * Errors: those of coir_file_open_at, coir_file_write, coir_file_sync and coir_dir_rename.
 * Cancel safety: an error means that the old contents are there, or the new, but that they may be
 * the old again after a loss of power. The new file beside is removed, unless that fails too or
 * power is lost: then a file `path`.NUMBER.tmp is left. */
COIR_SUSPENDS int coir_file_replace(coir_file *dir, const char *path, const void *data, size_t len,
                                    unsigned mode);

/* Copies a part of a file into another one: `len` bytes (COIR_UNLIMITED: all) or up to the end.
 * Returns how many; *ret_done, where given, is the same, also on an error. The kernel copies, if it
 * can (copy_file_range(2)), on a thread of the offload pool; otherwise, and for up to 64 KiB where
 * io_uring reads and writes without such a thread, the bytes pass through a buffer. The parts must
 * not overlap in one file, and `to` must not have been opened with O_APPEND.
 * Suspends: yes.  Threads: worker.
 * Errors: those of coir_file_read and coir_file_write; -ENOMEM; -EINVAL no file, or a negative
 * offset.
 * Cancel safety: *ret_done bytes have been written. */
COIR_SUSPENDS ssize_t coir_file_copy(coir_file *to, int64_t to_offset, coir_file *from,
                                     int64_t from_offset, size_t len, size_t *ret_done);

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

/* ---- futures ---- */

/* Storage for the future of one operation on files: coir_file_read_op and the like make it. */
typedef struct coir_file_op {
    coir_future future;
    uint64_t opaque[52];
} coir_file_op;
COIR_API coir_future *coir_file_open_op(coir_file_op *op, const char *path, int flags,
                                        unsigned mode, coir_file **ret_file);
COIR_API coir_future *coir_file_open_at_op(coir_file_op *op, coir_file *dir, const char *path,
                                           int flags, unsigned mode, coir_file **ret_file);
COIR_API coir_future *coir_file_read_op(coir_file_op *op, coir_file *file, void *buf, size_t len,
                                        int64_t offset);
COIR_API coir_future *coir_file_readv_op(coir_file_op *op, coir_file *file, const struct iovec *iov,
                                         int iov_count, int64_t offset);
COIR_API coir_future *coir_file_write_op(coir_file_op *op, coir_file *file, const void *data,
                                         size_t len, int64_t offset);
COIR_API coir_future *coir_file_writev_op(coir_file_op *op, coir_file *file,
                                          const struct iovec *iov, int iov_count, int64_t offset);
COIR_API coir_future *coir_file_sync_op(coir_file_op *op, coir_file *file);
COIR_API coir_future *coir_file_sync_data_op(coir_file_op *op, coir_file *file);
COIR_API coir_future *coir_file_truncate_op(coir_file_op *op, coir_file *file, int64_t len);
COIR_API coir_future *coir_file_allocate_op(coir_file_op *op, coir_file *file, int64_t offset,
                                            int64_t len);

/* Storage for the future of coir_file_stat or coir_dir_stat. */
typedef struct coir_stat_op {
    coir_file_op op; /* coir's */
    uint64_t opaque[32];
} coir_stat_op;
COIR_API coir_future *coir_file_stat_op(coir_stat_op *op, coir_file *file, struct stat *ret_stat);

#ifdef __cplusplus
}
#endif

#endif
