#include "sys/statx.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

const unsigned ci_statx_mask = STATX_BASIC_STATS;

_Static_assert(sizeof(struct statx) == CI_STATX_SIZE, "it is the kernel's");

static struct timespec time_of(struct statx_timestamp from)
{
    return (struct timespec){.tv_sec = from.tv_sec, .tv_nsec = (long)from.tv_nsec};
}

void ci_statx_to_stat(const void *statx, struct stat *ret_stat)
{
    const struct statx *from = statx;
    *ret_stat = (struct stat){
        .st_dev = makedev(from->stx_dev_major, from->stx_dev_minor),
        .st_ino = from->stx_ino,
        .st_mode = from->stx_mode,
        .st_nlink = (nlink_t)from->stx_nlink,
        .st_uid = from->stx_uid,
        .st_gid = from->stx_gid,
        .st_rdev = makedev(from->stx_rdev_major, from->stx_rdev_minor),
        .st_size = (off_t)from->stx_size,
        .st_blksize = (blksize_t)from->stx_blksize,
        .st_blocks = (blkcnt_t)from->stx_blocks,
        .st_atim = time_of(from->stx_atime),
        .st_mtim = time_of(from->stx_mtime),
        .st_ctim = time_of(from->stx_ctime),
    };
}
