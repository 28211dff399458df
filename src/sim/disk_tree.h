/* The files and directories of a simulated disk, and which of their names a loss of power keeps.
 *
 * 1. A name has two values: the file that a lookup finds, and the one that the disk has kept. They
 *    differ only while a change of the name is in the disk's list of changes.
 *
 * A file that no name leads to lives until the next loss of power, or the end of the disk. A sync
 * of a directory keeps the changes in it, and those on which they depend: the earlier ones in each
 * directory that a change touches. At a loss of power the seed chooses how many changes of a
 * directory were kept, in their order. A rename is one change: it is kept whole, or not at all.
 */
#ifndef CI_SIM_DISK_TREE_H
#define CI_SIM_DISK_TREE_H

#include "base/list.h"
#include "sim/world.h"

struct ci_disk_contents {
    char *bytes;
    size_t len, capacity;
};

struct ci_file {
    struct ci_file *next;
    uint64_t number;
    bool is_directory, marked;
    unsigned mode, links;
    struct ci_file *parent; /* of a directory; NULL: it was removed */
    /* what a read returns, and what the disk has kept */
    struct ci_disk_contents seen, kept;
    size_t changed_from, changed_to; /* the two may differ in these bytes, and in length */
};

struct ci_disk {
    struct ci_file *root;
    struct ci_file *files;      /* newest first */
    struct ci_disk_name *names; /* oldest first */
    struct ci_list changes;     /* that the disk has not kept */
    uint64_t numbers;
};

/* With a directory /tmp. */
struct ci_disk *ci_disk_new(void);
void ci_disk_free(struct ci_disk *disk);

/* A file without a name. */
struct ci_file *ci_disk_add_file(struct ci_disk *disk, bool is_directory, unsigned mode);

/* The directory in which the last part of a path is, and that part. */
struct ci_disk_place {
    struct ci_file *directory;
    const char *name; /* not terminated; empty: the directory itself */
    size_t len;
};

/* From `from` on: 0, -ENOENT, -ENOTDIR, -ENAMETOOLONG. */
int ci_disk_locate(struct ci_disk *disk, struct ci_file *from, const char *path,
                   struct ci_disk_place *ret_place);
/* NULL: there is no such file. */
struct ci_file *ci_disk_lookup(struct ci_disk *disk, const struct ci_disk_place *place);

/* One of the names of a file, if it has any. */
bool ci_disk_find_name(const struct ci_disk *disk, const struct ci_file *file,
                       struct ci_disk_place *ret_place);

/* Changes of names, which a loss of power may undo: as the system calls, whose errors they return.
 */
int ci_disk_name_file(struct ci_disk *disk, const struct ci_disk_place *place,
                      struct ci_file *file);
int ci_disk_unname(struct ci_disk *disk, const struct ci_disk_place *place, bool directory);
int ci_disk_rename(struct ci_disk *disk, const struct ci_disk_place *from,
                   const struct ci_disk_place *to);

/* The next entries of a directory: how many. */
int ci_disk_list(const struct ci_disk *disk, const struct ci_file *directory,
                 struct ci_file_list *list);

/* A sync of a directory; a loss of power, which removes what no kept name leads to. */
void ci_disk_keep_names(struct ci_disk *disk, struct ci_file *directory);
void ci_disk_lose_names(struct ci_disk *disk, struct ci_random *random);
void ci_disk_free_contents(struct ci_disk_contents *contents);

#endif
