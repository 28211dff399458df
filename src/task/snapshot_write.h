/* Writes a snapshot, as text or as JSON. */
#ifndef CI_TASK_SNAPSHOT_WRITE_H
#define CI_TASK_SNAPSHOT_WRITE_H

#include "coir/dump.h"
#include "task/snapshot.h"

/* 0, or an error of write(2), or -ENOMEM. */
int ci_snapshot_write(const struct ci_snapshot *snapshot, coir_fd fd, enum coir_dump_format format);

/* One finding as the text of a dump has it, with its first parties, cut to fit. 0 or -ENOMEM. */
int ci_snapshot_write_finding(const struct ci_snapshot *snapshot, size_t index, char *text,
                              size_t size);

#endif
