/* No sockets are passed to a simulated process: it takes over only what it had before. Its
 * interfaces have no names. */
#include "sys/passed.h"

#include <errno.h>

#include "sim/kernel/socket.h"

coir_fd ci_passed_find(const char *name)
{
    (void)name;
    return -ENOENT;
}

int ci_passed_take(coir_fd fd, enum ci_passed kind)
{
    ci_kcall();
    struct ci_kfile *file = ci_kfd_find(fd);
    bool stream = file && (file->type == &ci_kstream_type || file->type == &ci_kunix_stream_type);
    return stream && kind == CI_PASSED_STREAM ? 0 : -COIR_EPASSED;
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
