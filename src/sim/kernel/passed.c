/* A simulated process takes over sockets that it had before, or that came over a Unix socket: it
 * has no environment that names others. Its interfaces have no names. */
#include "sys/passed.h"

#include <errno.h>

#include "sim/kernel/socket.h"

coir_fd ci_passed_find(const char *name)
{
    (void)name;
    return -ENOENT;
}

static bool is_datagram(const struct ci_kfile *file)
{
    return file->type == &ci_kdatagram_type || file->type == &ci_kunix_datagram_type;
}

/* As getpeername(2), and recv(2) of one that has no peer any more. */
static int check_connected(struct ci_ksocket *socket)
{
    if (socket->state == CI_KCONNECTED || socket->in.first || socket->done)
        return 0;
    if (socket->error)
        return -ci_ksocket_take_error(socket);
    return socket->in_ended ? 0 : -COIR_EPASSED;
}

int ci_passed_take(coir_fd fd, enum ci_passed kind)
{
    ci_kcall();
    struct ci_kfile *file = ci_kfd_find(fd);
    if (!ci_ksocket_is(file) || is_datagram(file) != (kind == CI_PASSED_DATAGRAM))
        return -COIR_EPASSED;
    struct ci_ksocket *socket = ci_ksocket_of(file);
    bool listens = socket->state == CI_KLISTENING;
    if (listens != (kind == CI_PASSED_LISTENER))
        return -COIR_EPASSED;
    int rc = kind == CI_PASSED_STREAM ? check_connected(socket) : 0;
    if (rc == 0)
        file->blocking = false;
    return rc;
}

coir_fd ci_passed_share(coir_fd fd)
{
    ci_kcall();
    struct ci_kfile *file = ci_kfd_find(fd);
    if (!file)
        return -EBADF;
    int copy = ci_kfd_install(ci_kfile_ref(file));
    if (copy < 0)
        ci_kfile_unref(file);
    return copy;
}

unsigned ci_sys_interface(const char *name)
{
    (void)name;
    return 0;
}
