/* What the wrappers of system calls share. */
#ifndef CI_SYS_RESULT_H
#define CI_SYS_RESULT_H

#include <errno.h>
#include <sys/types.h>

/* A system call's return value with the error in it: negative errno instead of -1. */
static inline ssize_t ci_result(ssize_t rc)
{
    return rc < 0 ? -errno : rc;
}

/* The length of a read or write: Linux transfers at most this much by itself, and results travel as
 * 32 bits. */
static inline size_t ci_sys_clamp(size_t len)
{
    return len < 0x7ffff000 ? len : 0x7ffff000;
}

#endif
