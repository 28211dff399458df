/* Unix sockets are not modelled: ci_sys_socket refuses their family, so there is none to bind. */
#include "sim/kernel/kernel.h"
#include "sys/file_call.h"
#include "sys/socket_call.h"
#include <errno.h>

int ci_sys_open_datagram(int family)
{
    (void)family;
    ci_kcall();
    return -EAFNOSUPPORT;
}

int ci_sys_bind(coir_fd fd, const struct sockaddr *address, socklen_t len)
{
    (void)fd, (void)address, (void)len;
    ci_kunknown("bind of a Unix socket");
}

int ci_sys_begin_listen(coir_fd fd, int backlog)
{
    (void)fd, (void)backlog;
    ci_kunknown("listen on a Unix socket");
}

int ci_sys_lock_directory(const char *path)
{
    (void)path;
    return -ENOENT;
}

bool ci_sys_is_socket_file(const char *path)
{
    (void)path;
    return false;
}

int ci_sys_remove(const char *path)
{
    (void)path;
    return -ENOENT;
}

int ci_sys_set_mode(const char *path, unsigned mode)
{
    (void)path, (void)mode;
    return -ENOENT;
}

int ci_sys_set_owner(const char *path, unsigned owner, unsigned group)
{
    (void)path, (void)owner, (void)group;
    return -ENOENT;
}

int ci_sys_credentials(coir_fd fd, coir_credentials *ret_credentials)
{
    (void)fd, (void)ret_credentials;
    return -EOPNOTSUPP;
}
