/* The disks of simulated hosts. Operations take time, may fail, and may transfer less than
 * requested; after a power loss the seed chooses which unsynced changes were kept: of files here,
 * of directories in disk_tree.h.
 *
 * 1. A file has two contents: what a read returns, and what the disk has kept. They are equal after
 *    a sync, and after a power loss.
 * 2. An operation is pending in the world until it completes.
 *
 * At a power loss the seed chooses one of the two lengths, and for each sector one of the two
 * contents. An operation takes effect when it completes. If it is cancelled before, the seed
 * chooses whether it completes or has no effect.
 */
#ifndef CI_SIM_DISK_H
#define CI_SIM_DISK_H

#include "sim/completion.h"
#include "sim/disk_tree.h"

/* A file of a node's disk, opened as by open(2), and operations on it that complete at once. They
 * return 0, a count, or a negative error. */
int ci_disk_find(struct ci_node *node, const char *path, int flags, struct ci_file **ret_file);
int64_t ci_disk_length(const struct ci_file *file);
int ci_disk_read(struct ci_node *node, const struct ci_file *file, void *buf, size_t len,
                 int64_t offset);
int ci_disk_write(struct ci_node *node, struct ci_file *file, const void *data, size_t len,
                  int64_t offset);
int ci_disk_sync(struct ci_node *node, struct ci_file *file);

/* An open file, or a directory that paths begin at. */
struct ci_disk_open {
    struct ci_node *node;
    struct ci_file *file;
    int flags; /* O_* */
};

/* What AT_FDCWD stands for. */
struct ci_disk_open ci_disk_root(struct ci_node *node);

/* Makes a call, which takes effect at once; `to` is what call->to_fd stands for, or NULL. An open
 * sets *ret_opened instead of making a descriptor. */
int ci_disk_call(const struct ci_disk_open *at, const struct ci_disk_open *to,
                 const struct ci_file_call *call, struct ci_disk_open *ret_opened);
coir_time ci_disk_time_most(const struct ci_file_call *call); /* how long it takes */

/* Operations on descriptors, which take time. */
int ci_disk_open(struct ci_node *node, const char *path, int flags);
bool ci_disk_is_file(coir_fd fd);
bool ci_disk_start(struct ci_sim_driver *driver, struct ci_op *op);
bool ci_disk_cancel(struct ci_sim_driver *driver, struct ci_op *op);
int ci_disk_size(struct ci_world *world, coir_fd fd, int64_t *ret_size);
void ci_disk_close(struct ci_world *world, coir_fd fd);
void ci_disk_close_all(struct ci_world *world);

/* What is left of the files; and then of the open files. */
void ci_disk_lose_contents(struct ci_world *world, struct ci_disk *disk);
void ci_disk_lose_power(struct ci_world *world, struct ci_node *node);
void ci_disk_audit(struct ci_world *world); /* files that are still open */

#endif
