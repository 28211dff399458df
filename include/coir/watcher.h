/* Watching files and directories: what others do to them arrives as changes.
 *
 *   coir_change change = COIR_CHANGE;
 *   int rc = coir_watcher_add(watcher, "/etc/app", COIR_CHANGE_WRITTEN | COIR_CHANGE_MOVED_IN);
 *   while (rc >= 0 && (rc = coir_watcher_next(watcher, &change)) == 0)
 *       if (change.kind == COIR_CHANGE_OVERFLOW || strcmp(change.name, "app.conf") == 0)
 *           rc = load();
 *
 * A change says that something has happened, not how things are now: look at the file. Changes of
 * one watcher are in the order in which they happened; several alike in a row may be one. When they
 * come faster than they are taken, the system drops some, and COIR_CHANGE_OVERFLOW stands in their
 * place: look at everything that is watched.
 *
 * A directory is watched with the names in it, without what lies in its subdirectories. To miss
 * nothing of a new one, add it first and list it then. A file is watched, not its name: one that is
 * replaced by a rename, as editors do, is gone, so watch its directory. What is written through a
 * memory map, or by another machine to a network file system, is not reported.
 *
 * It needs Linux 4.18 (inotify). A watcher belongs to the worker that has opened it. */
#ifndef COIR_WATCHER_H
#define COIR_WATCHER_H

#include <coir/file.h>
#include <coir/select.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A set of watched files and directories. It is made by coir_watcher_open. */
typedef struct coir_watcher coir_watcher;

/* What can happen to a name in a watched directory, and to a file that is watched itself. */
enum coir_changes {
    COIR_CHANGE_CREATED = 1,     /* a name was made in the directory */
    COIR_CHANGE_REMOVED = 2,     /* a name was removed from the directory */
    COIR_CHANGE_MOVED_OUT = 4,   /* a name was renamed: the old one */
    COIR_CHANGE_MOVED_IN = 8,    /* a name was renamed: the new one */
    COIR_CHANGE_MODIFIED = 16,   /* a file was written to, or its length set; a watched file too */
    COIR_CHANGE_WRITTEN = 32,    /* a file open for writing was closed; a watched file too */
    COIR_CHANGE_ATTRIBUTES = 64, /* mode, owner, times or links; what is watched itself too */

    /* These are always reported, and need not be asked for. */
    COIR_CHANGE_MOVED = 128,   /* what is watched was renamed itself; it stays watched */
    COIR_CHANGE_GONE = 256,    /* it is watched no more: deleted, unmounted or removed */
    COIR_CHANGE_OVERFLOW = 512 /* changes of any file were lost here, also COIR_CHANGE_GONE */
};

/* A change of a watched file or directory. */
typedef struct coir_change {
    size_t size;      /* sizeof(coir_change), set by COIR_CHANGE */
    const char *name; /* in the directory, valid until the next call; "": what is watched itself */
    int id;           /* of what is watched: that of coir_watcher_add; -1 of an overflow */
    int kind;         /* one of enum coir_changes */
    uint32_t pair;    /* the same number for both names of one rename; otherwise 0 */
    bool is_dir;      /* it happened to a directory */
} coir_change;

#define COIR_CHANGE                        \
    {                                      \
        sizeof(coir_change), 0, 0, 0, 0, 0 \
    }

/* Opens a watcher, which watches nothing yet.
 * Suspends: no.  Threads: worker.  Owns: *ret_watcher is the caller's to close.
 * Errors: -EMFILE too many descriptors, or watchers of this user (fs.inotify.max_user_instances);
 * -ENOMEM; -EINVAL nowhere for the watcher; -ENOTSUP where the system has no inotify, and in
 * the simulator, except over a simulated kernel. */
COIR_API int coir_watcher_open(coir_watcher **ret_watcher);

/* Closes a watcher. No task may be waiting for it. Takes NULL.
 * Suspends: no.  Threads: owner. */
COIR_API void coir_watcher_close(coir_watcher *watcher);

/* Watches a file or directory from now on, and returns its id, a number above 0. `changes` are
 * those to report (enum coir_changes); 0: all. Links are followed. Its first changes may be taken
 * before this returns.
 * Suspends: yes.  Threads: owner.  Owns: the path is borrowed until the call returns.
 * Errors: -EEXIST it is watched already, maybe by another name; -ENOENT; -EACCES it may not be
 * read; -ENOSPC too many are watched by this user (fs.inotify.max_user_watches); -ENOMEM; -EINVAL
 * no watcher, no path, or other bits; those of coir_offload.
 * Cancel safety: an error means that it is not watched. */
COIR_SUSPENDS int coir_watcher_add(coir_watcher *watcher, const char *path, int changes);

/* The same, with a path that begins at an open directory ("." is the directory itself), unless it
 * is absolute. `dir` may be NULL: the process's own. It needs a descriptor for a moment, and /proc.
 * Suspends: yes.  Threads: owner.  Owns: dir and path are borrowed until the call returns.
 * Errors: as coir_watcher_add; -ENOTDIR `dir` is none; -EMFILE; -EOPNOTSUPP there is no /proc.
 * Cancel safety: an error means that it is not watched. */
COIR_SUSPENDS int coir_watcher_add_at(coir_watcher *watcher, coir_file *dir, const char *path,
                                      int changes);

/* Watches a file or directory no longer. Changes from before may still come; the last one with this
 * id is COIR_CHANGE_GONE.
 * Suspends: no.  Threads: owner.
 * Errors: -ENOENT no such id is watched any more; -EINVAL no watcher. */
COIR_API int coir_watcher_remove(coir_watcher *watcher, int id);

/* Takes the next change, waiting until there is one: 0.
 * Suspends: yes.  Threads: owner.
 * Errors: -EBUSY another task waits for it; -EINVAL no watcher, or nowhere for the change;
 * -COIR_EUNSIZED.
 * Cancel safety: an error means that no change was taken. */
COIR_SUSPENDS int coir_watcher_next(coir_watcher *watcher, coir_change *ret_change);

/* Storage for the future of coir_watcher_next. */
typedef struct coir_watcher_op {
    coir_future future;
    uint64_t opaque[20];
} coir_watcher_op;
COIR_API coir_future *coir_watcher_next_op(coir_watcher_op *op, coir_watcher *watcher,
                                           coir_change *ret_change);

/* A change, as a case of coir_select: a case that loses leaves its change in the watcher. As
 * coir_watcher_next. */
COIR_API coir_case coir_case_change(coir_watcher *watcher, coir_change *ret_change);

#ifdef __cplusplus
}
#endif

#endif
