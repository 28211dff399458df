/* What statx(2) tells, as what stat(2) tells. */
#ifndef CI_SYS_STATX_H
#define CI_SYS_STATX_H

struct stat;

enum { CI_STATX_SIZE = 256 };

/* The fields that the kernel fills in for stat(2). */
extern const unsigned ci_statx_mask;

void ci_statx_to_stat(const void *statx, struct stat *ret_stat);

#endif
