/* System calls on files. They return a negative errno (call.h), and may block for as long as a disk
 * takes. */
#ifndef CI_SYS_FILE_CALL_H
#define CI_SYS_FILE_CALL_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "coir/base.h"

struct stat;

/* What is called. `fd` is the open file, or the directory that `path` begins at (AT_FDCWD: that of
 * the process); so are `to_fd` and `to_path`. */
enum ci_file_kind {
    CI_FILE_READ,     /* iov, count, offset: how many bytes */
    CI_FILE_WRITE,    /* iov, count, offset: how many bytes */
    CI_FILE_SYNC,     /* flags: not 0: the data alone, and what is needed to read it again */
    CI_FILE_TRUNCATE, /* len */
    CI_FILE_ALLOCATE, /* offset, len: the bytes have room on the disk, and are part of the file */
    /* path, flags (O_*), mode: a descriptor. It does not wait for another opener (of a FIFO).
     * -ESPIPE: the file has no offsets, as a FIFO */
    CI_FILE_OPEN,
    CI_FILE_STAT,   /* path (NULL: the file itself), flags (AT_SYMLINK_NOFOLLOW), stat */
    CI_FILE_RENAME, /* path, to_fd, to_path */
    CI_FILE_LINK,   /* path, to_fd, to_path */
    CI_FILE_UNLINK, /* path, flags (AT_REMOVEDIR) */
    CI_FILE_MKDIR,  /* path, mode */
    CI_FILE_LIST,   /* list: how many entries, 0 at the end */
    CI_FILE_COPY,   /* offset, len, to_fd, to_offset: how many bytes */
};

enum { CI_FILE_ENTRIES = 32 };

/* Entries of a directory, of which the caller has a descriptor of its own. Zero at first. */
struct ci_file_list {
    void *state;   /* ci_sys_list_end frees it */
    uint64_t last; /* in the simulator: the number of the last entry */
    struct ci_file_entry {
        uint64_t inode;
        unsigned type; /* S_IFREG, ...; 0: unknown */
        char name[256];
    } entries[CI_FILE_ENTRIES];
};

struct ci_file_call {
    enum ci_file_kind kind;
    coir_fd fd, to_fd;
    int flags;
    unsigned mode;
    int count;
    const char *path, *to_path;
    const struct iovec *iov;
    int64_t offset, to_offset, len;
    struct stat *stat;
    void *statx; /* 256 bytes for a ring to use; NULL: there are none */
    struct ci_file_list *list;
};

/* The flag of an open that makes a file without a name in a directory; where there is none, one
 * with which it fails (-EISDIR). */
extern const int ci_sys_unnamed;

/* Makes a call. The result is at most INT32_MAX. */
int ci_sys_file(const struct ci_file_call *call);

/* What CI_FILE_OPEN does after open(2), which was called with O_NONBLOCK and has returned `fd`. */
int ci_sys_file_opened(coir_fd fd, int flags);

void ci_sys_list_end(struct ci_file_list *list);
int ci_sys_file_size(coir_fd fd, int64_t *ret_size);

/* ---- files of Unix sockets ---- */

/* Opens and locks a directory; closing the descriptor releases the lock. -EWOULDBLOCK: another
 * process holds it. */
int ci_sys_lock_directory(const char *path);
int ci_sys_find_socket_file(const char *path); /* 0; -EEXIST: it is something else; or lstat(2)'s */
int ci_sys_remove(const char *path);
int ci_sys_set_mode(const char *path, unsigned mode);
int ci_sys_set_owner(const char *path, unsigned owner, unsigned group); /* UINT_MAX: unchanged */

#endif
