/* What statx(2) tells is what stat(2) tells. */
#include "sys/statx.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "harness.h"

static void compare(const char *path)
{
    struct statx from;
    struct stat expected, got;
    CHECK_EQ(statx(AT_FDCWD, path, 0, ci_statx_mask, &from), 0);
    CHECK_EQ(stat(path, &expected), 0);
    ci_statx_to_stat(&from, &got);
    CHECK(got.st_dev == expected.st_dev && got.st_ino == expected.st_ino);
    CHECK(got.st_mode == expected.st_mode && got.st_nlink == expected.st_nlink);
    CHECK(got.st_uid == expected.st_uid && got.st_gid == expected.st_gid);
    CHECK(got.st_rdev == expected.st_rdev && got.st_size == expected.st_size);
    CHECK(got.st_blksize == expected.st_blksize && got.st_blocks == expected.st_blocks);
    CHECK(memcmp(&got.st_mtim, &expected.st_mtim, sizeof got.st_mtim) == 0);
    CHECK(memcmp(&got.st_ctim, &expected.st_ctim, sizeof got.st_ctim) == 0);
}

TEST(statx_is_stat)
{
    compare("/dev/null");
    compare("/etc/passwd");
    compare("/");
}
