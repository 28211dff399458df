/* Directories: the names of files, relative to an open directory, and what a directory contains.
 *
 * An open directory is a coir_file, opened with O_RDONLY | O_DIRECTORY; NULL is the working
 * directory. Changes of names last over a loss of power once their directory is synced
 * (coir_file_sync).
 *
 * The calls count, wait and are cancelled as those of coir/file.h. An error means that nothing was
 * changed. */
#ifndef COIR_DIR_H
#define COIR_DIR_H

#include <coir/file.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the system knows of a file, by its path, as fstatat(2) tells it. `flags` is 0, or
 * AT_SYMLINK_NOFOLLOW: of a link itself.
 * Suspends: yes.  Threads: worker.
 * Errors: those of fstatat(2); -EINVAL no path, or no ret_stat; those of coir_offload.
 * Cancel safety: *ret_stat is set only on success. */
COIR_SUSPENDS int coir_dir_stat(coir_file *dir, const char *path, int flags, struct stat *ret_stat);
COIR_API coir_future *coir_dir_stat_op(coir_stat_op *op, coir_file *dir, const char *path,
                                       int flags, struct stat *ret_stat);

/* Renames a file or directory, in place of what has the new name, at once.
 * Suspends: yes.  Threads: worker.
 * Errors: those of renameat(2); -EINVAL no path; those of coir_offload.
 * Cancel safety: an error means that nothing was changed. */
COIR_SUSPENDS int coir_dir_rename(coir_file *dir, const char *path, coir_file *to_dir,
                                  const char *to_path);
COIR_API coir_future *coir_dir_rename_op(coir_file_op *op, coir_file *dir, const char *path,
                                         coir_file *to_dir, const char *to_path);

/* Gives a file another name.
 * Suspends: yes.  Threads: worker.
 * Errors: those of linkat(2): -EEXIST the name is taken; -EINVAL no path; those of coir_offload.
 * Cancel safety: an error means that nothing was changed. */
COIR_SUSPENDS int coir_dir_link(coir_file *dir, const char *path, coir_file *to_dir,
                                const char *to_path);
COIR_API coir_future *coir_dir_link_op(coir_file_op *op, coir_file *dir, const char *path,
                                       coir_file *to_dir, const char *to_path);

/* Removes the name of a file, and the file if that was its last one and it is not open.
 * Suspends: yes.  Threads: worker.
 * Errors: those of unlinkat(2): -EISDIR it is a directory; -EINVAL no path; those of coir_offload.
 * Cancel safety: an error means that nothing was changed. */
COIR_SUSPENDS int coir_dir_unlink(coir_file *dir, const char *path);
COIR_API coir_future *coir_dir_unlink_op(coir_file_op *op, coir_file *dir, const char *path);

/* Makes a directory.
 * Suspends: yes.  Threads: worker.
 * Errors: those of mkdirat(2); -EINVAL no path; those of coir_offload.
 * Cancel safety: an error means that nothing was changed. */
COIR_SUSPENDS int coir_dir_mkdir(coir_file *dir, const char *path, unsigned mode);
COIR_API coir_future *coir_dir_mkdir_op(coir_file_op *op, coir_file *dir, const char *path,
                                        unsigned mode);

/* Removes a directory that is empty.
 * Suspends: yes.  Threads: worker.
 * Errors: those of unlinkat(2): -ENOTEMPTY; -EINVAL no path; those of coir_offload.
 * Cancel safety: an error means that nothing was changed. */
COIR_SUSPENDS int coir_dir_rmdir(coir_file *dir, const char *path);
COIR_API coir_future *coir_dir_rmdir_op(coir_file_op *op, coir_file *dir, const char *path);

/* ---- listing ---- */

/* A directory that is being read. It is made by coir_listing_open. */
typedef struct coir_listing coir_listing;

/* A name in a directory. */
typedef struct coir_dir_entry {
    size_t size;      /* sizeof(coir_dir_entry), set by COIR_DIR_ENTRY */
    const char *name; /* valid until the next call on the listing */
    uint64_t inode;   /* its number on its file system */
    unsigned type;    /* S_IFREG, S_IFDIR, S_IFLNK, ...; 0: the file system does not say */
} coir_dir_entry;

#define COIR_DIR_ENTRY                  \
    {                                   \
        sizeof(coir_dir_entry), 0, 0, 0 \
    }

/* Opens a directory, to read the names in it.
 * Suspends: yes.  Threads: worker.  Owns: *ret_listing is the caller's to close.
 * Errors: those of coir_file_open_at: -ENOTDIR it is no directory.
 * Cancel safety: an error means that nothing is open. */
COIR_SUSPENDS int coir_listing_open(coir_file *dir, const char *path, coir_listing **ret_listing);

/* The next name, in no particular order: 1, or 0 when there are no more. "." and ".." are left
 * out. A name that comes or goes meanwhile may be told or not; every other is told once. It reads
 * several at a time, and suspends only for that.
 * Suspends: yes.  Threads: worker.
 * Errors: those of readdir(3): -ENOENT the directory was removed; -EBUSY another task reads the
 * listing; -EINVAL no listing, or no ret_entry; -COIR_EUNSIZED; those of coir_offload.
 * Cancel safety: an error means that no name was taken. */
COIR_SUSPENDS int coir_listing_next(coir_listing *listing, coir_dir_entry *ret_entry);

/* Storage for the future of coir_listing_next. */
typedef struct coir_listing_op {
    coir_future future;
    uint64_t opaque[64];
} coir_listing_op;
COIR_API coir_future *coir_listing_next_op(coir_listing_op *op, coir_listing *listing,
                                           coir_dir_entry *ret_entry);

/* Closes a listing that no task is reading. Takes NULL.
 * Suspends: no.  Threads: worker. */
COIR_API void coir_listing_close(coir_listing *listing);

#ifdef __cplusplus
}
#endif

#endif
