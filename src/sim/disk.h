/* The disks of simulated hosts: files that take their time, fail, move less than they could, and
 * after a loss of power are what the seed makes of them.
 *
 * 1. A file has two contents: what a read sees, and what the disk has kept. A sync makes them the
 * same, and so does a loss of power.
 * 2. An operation is pending on the open file of its descriptor until it completes.
 *
 * A loss of power makes the contents the same by the seed, which chooses one of the two lengths,
 * and one of the two contents for each sector. An operation takes effect when it completes. One
 * that is cancelled before either has no effect or completes, as the seed says.
 */
#ifndef CI_SIM_DISK_H
#define CI_SIM_DISK_H

#include "sim/completion.h"

/* A file of a node's disk, as open(2) finds or makes it; and what is done with it at once. 0, a
 * count, or a negative error. */
struct ci_file;
int ci_disk_find(struct ci_node *node, const char *path, int flags, struct ci_file **ret_file);
int64_t ci_disk_length(const struct ci_file *file);
int ci_disk_read(struct ci_node *node, const struct ci_file *file, void *buf, size_t len,
                 int64_t offset);
int ci_disk_write(struct ci_node *node, struct ci_file *file, const void *data, size_t len,
                  int64_t offset);
int ci_disk_sync(struct ci_node *node, struct ci_file *file);

/* The same as operations on descriptors. */
int ci_disk_open(struct ci_node *node, const char *path, int flags);
bool ci_disk_is_file(coir_fd fd);
bool ci_disk_start(struct ci_sim_driver *driver, struct ci_op *op);
bool ci_disk_cancel(struct ci_sim_driver *driver, struct ci_op *op);
int ci_disk_size(struct ci_world *world, coir_fd fd, int64_t *ret_size);
void ci_disk_close(struct ci_world *world, coir_fd fd);
void ci_disk_close_all(struct ci_world *world);

void ci_disk_lose_power(struct ci_world *world, struct ci_node *node);
void ci_disk_free(struct ci_node *node);
void ci_disk_audit(struct ci_world *world); /* files that are still open */

#endif
