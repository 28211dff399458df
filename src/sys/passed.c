#include "sys/passed.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FIRST = 3 }; /* SD_LISTEN_FDS_START */

static long number_of(const char *variable)
{
    const char *text = getenv(variable);
    return text ? strtol(text, NULL, 10) : 0;
}

coir_fd ci_passed_find(const char *name)
{
    const char *at = getenv("LISTEN_FDNAMES");
    long count = number_of("LISTEN_FDS");
    if (number_of("LISTEN_PID") != (long)getpid())
        return -ENOENT;
    for (int i = 0; i < count && at; i++) {
        size_t len = strcspn(at, ":");
        if (len == strlen(name) && memcmp(at, name, len) == 0)
            return FIRST + i;
        at = at[len] ? at + len + 1 : NULL;
    }
    return -ENOENT;
}

static int option_of(coir_fd fd, int option)
{
    int value = 0;
    socklen_t len = sizeof value;
    return getsockopt(fd, SOL_SOCKET, option, &value, &len) < 0 ? -1 : value;
}

/* The family has addresses that coir can write. */
static bool has_known_family(coir_fd fd)
{
    struct sockaddr_storage own;
    socklen_t len = sizeof own;
    return getsockname(fd, (struct sockaddr *)&own, &len) == 0 &&
           (own.ss_family == AF_INET || own.ss_family == AF_INET6 || own.ss_family == AF_UNIX);
}

/* 0, -COIR_EPASSED if it has never been connected, or the error that has ended the connection. One
 * that the peer has reset has no peer any more, but perhaps bytes. */
static int check_connected(coir_fd fd)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    char byte;
    if (getpeername(fd, (struct sockaddr *)&peer, &len) == 0 ||
        recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0)
        return 0;
    return errno == ENOTCONN || errno == EINVAL || errno == EAGAIN ? -COIR_EPASSED : -errno;
}

int ci_passed_take(coir_fd fd, enum ci_passed kind)
{
    if (option_of(fd, SO_TYPE) != (kind == CI_PASSED_DATAGRAM ? SOCK_DGRAM : SOCK_STREAM))
        return -COIR_EPASSED;
    if (kind != CI_PASSED_DATAGRAM && option_of(fd, SO_ACCEPTCONN) != (kind == CI_PASSED_LISTENER))
        return -COIR_EPASSED;
    if (kind == CI_PASSED_DATAGRAM && !has_known_family(fd))
        return -COIR_EPASSED;
    int rc = kind == CI_PASSED_STREAM ? check_connected(fd) : 0;
    if (rc < 0)
        return rc;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return -COIR_EPASSED;
    return 0;
}

coir_fd ci_passed_share(coir_fd fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return copy < 0 ? -errno : copy;
}

unsigned ci_sys_interface(const char *name)
{
    return if_nametoindex(name);
}
