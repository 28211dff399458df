/* What happens to names and files, for those who watch them. */
#ifndef CI_SIM_KERNEL_INOTIFY_H
#define CI_SIM_KERNEL_INOTIFY_H

#include "sim/disk.h"
#include "sim/kernel/kernel.h"

/* The names of a call, and what they led to before it. */
struct ci_kwatched {
    struct ci_kwatched_name {
        struct ci_disk_place place;
        struct ci_file *file; /* NULL: none */
    } from, to;
};

/* Before a call: false if it is of no interest. After it, if it has succeeded. */
bool ci_kwatch_look(struct ci_kwatched *ret_before, const struct ci_disk_open *at,
                    const struct ci_disk_open *to, const struct ci_file_call *call);
void ci_kwatch_names(const struct ci_node *of, const struct ci_kwatched *before,
                     const struct ci_file_call *call);

/* The bytes of a file have changed, or it was closed after it had been open for writing: `kind` of
 * enum ci_file_changes. */
void ci_kwatch_bytes(const struct ci_disk_open *open, int kind);

/* Whether a descriptor is a queue of changes: 0, -EBADF, -EINVAL. */
int ci_kwatch_is_queue(coir_fd fd);

/* Watches a file: the watch's id, or -EEXIST. */
int ci_kwatch_add(coir_fd fd, const struct ci_file *file, int changes);

/* What a path leads to: 0, -EBADF, -ENOENT, -ENOTDIR, -EIO. */
int ci_kdisk_find(coir_fd dir, const char *path, struct ci_file **ret_file);

#endif
