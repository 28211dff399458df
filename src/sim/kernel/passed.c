/* No sockets are passed to a simulated process, and its interfaces have no names. */
#include "sys/passed.h"

#include <errno.h>

coir_fd ci_passed_find(const char *name)
{
    (void)name;
    return -ENOENT;
}

int ci_passed_take(coir_fd fd, enum ci_passed kind)
{
    (void)fd, (void)kind;
    return -COIR_EPASSED;
}

coir_fd ci_passed_share(coir_fd fd)
{
    (void)fd;
    return -EOPNOTSUPP;
}

unsigned ci_sys_interface(const char *name)
{
    (void)name;
    return 0;
}
