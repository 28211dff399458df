/* A buffered reader: pieces of a stream or file that end with a delimiter, as the lines of a
 * protocol, up to a bound.
 *
 * What was read beyond a piece lies in the reader: read on through it, not from the stream. A
 * reader belongs to the worker of its stream, or, over a file, to the one that has made it. One
 * task at a time: a second gets -EBUSY.
 *
 * The end of a file is where it ended when it was read: what is appended later can be read on. */
#ifndef COIR_READER_H
#define COIR_READER_H

#include <coir/file.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A buffered reader. It is made by coir_reader_new or coir_reader_new_file. */
typedef struct coir_reader coir_reader;

/* Makes a buffered reader of a stream. The stream stays the caller's to close, after the reader is
 * freed. A piece, with its delimiter, has at most `piece_max` bytes (0: 8 KiB); memory grows up to
 * that as it is needed.
 * Suspends: no.  Threads: owner.  Owns: *ret_reader is the caller's to free.
 * Errors: -EINVAL stream or ret_reader is NULL; -ENOMEM; -ESRCH. */
COIR_API int coir_reader_new(coir_stream *stream, size_t piece_max, coir_reader **ret_reader);

/* Makes a buffered reader of a file. It reads from an offset on, or from the file's position
 * (COIR_POSITION), which moves behind all that the reader has read ahead. The file stays the
 * caller's to close, also before the reader is freed. `piece_max` is as in coir_reader_new; memory
 * grows to 64 KiB, or to that where it is more.
 * Suspends: no.  Threads: worker.  Owns: *ret_reader is the caller's to free.
 * Errors: -EINVAL file or ret_reader is NULL, or the offset is negative; -ENOMEM; -ESRCH. */
COIR_API int coir_reader_new_file(coir_file *file, int64_t offset, size_t piece_max,
                                  coir_reader **ret_reader);

/* Frees a reader that no task waits for. What it has read and not handed out is lost. Takes NULL.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_reader_free(coir_reader *reader);

/* Reads a line: 1, or 0 at the end of the stream or file. A line ends with a line feed, which is
 * taken off, as is a carriage return before it. *ret_text lies in the reader, with a NUL behind it,
 * and is valid until the next call on the reader; *ret_len, if ret_len is not NULL, is its length.
 * Suspends: yes.  Threads: owner.
 * Errors: -COIR_ETOOLARGE the line is longer than `piece_max`; -COIR_EEND the stream ended within a
 * line: coir_reader_read gives what there is of it; -EINVAL no reader, or no ret_text; -ENOMEM;
 * those of coir_read or coir_file_read.
 * Cancel safety: an error means that nothing was taken: what has come of the line stays in the
 * reader. */
COIR_SUSPENDS int coir_reader_read_line(coir_reader *reader, char **ret_text, size_t *ret_len);

/* Reads up to a delimiter, a string that is not empty, as coir_reader_read_line reads a line.
 * Suspends: yes.  Threads: owner.
 * Errors: those of coir_reader_read_line; -EINVAL also no delimiter, or an empty one.
 * Cancel safety: an error means that nothing was taken. */
COIR_SUSPENDS int coir_reader_read_until(coir_reader *reader, const char *delimiter,
                                         char **ret_text, size_t *ret_len);

/* Reads what is there through a reader, at least one byte, and returns the count. What lies in the
 * reader comes first; otherwise it is as coir_read or coir_file_read.
 * Suspends: yes.  Threads: owner.
 * Errors: -EINVAL no reader, or no buffer; those of coir_read or coir_file_read.
 * Cancel safety: an error means that nothing was read. */
COIR_SUSPENDS ssize_t coir_reader_read(coir_reader *reader, void *buf, size_t len);

/* Storage for the future of a read through a reader. */
typedef struct coir_reader_op {
    coir_future future;
    uint64_t opaque[24];
} coir_reader_op;
COIR_API coir_future *coir_reader_read_line_op(coir_reader_op *op, coir_reader *reader,
                                               char **ret_text, size_t *ret_len);
COIR_API coir_future *coir_reader_read_until_op(coir_reader_op *op, coir_reader *reader,
                                                const char *delimiter, char **ret_text,
                                                size_t *ret_len);

/* A line of a reader, as a case of coir_select: a case that loses leaves its line in the reader.
 * As coir_reader_read_line. */
COIR_API coir_case coir_case_line(coir_reader *reader, char **ret_text, size_t *ret_len);

#ifdef __cplusplus
}
#endif

#endif
