#include "sys/call.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "base/ascii.h"
#include "base/compiler.h"
#include "sys/result.h"

ssize_t ci_sys_read(coir_fd fd, void *buf, size_t len)
{
    return ci_result(read(fd, buf, ci_sys_clamp(len)));
}

ssize_t ci_sys_write(coir_fd fd, const void *buf, size_t len)
{
    return ci_result(write(fd, buf, ci_sys_clamp(len)));
}

ssize_t ci_sys_writev(coir_fd fd, const struct iovec *iov, int iov_count)
{
    return ci_result(writev(fd, iov, iov_count));
}

void ci_sys_close(coir_fd fd)
{
    close(fd); /* on Linux the descriptor is closed whatever close returns, also after EINTR */
}

int ci_sys_poll(struct pollfd *fds, size_t count, coir_time timeout)
{
    struct timespec time = {timeout / COIR_S, timeout % COIR_S};
    return (int)ci_result(ppoll(fds, (nfds_t)count, timeout < 0 ? NULL : &time, NULL));
}

int ci_sys_poll_check(coir_fd fd)
{
    struct stat what;
    if (fstat(fd, &what) < 0)
        return -errno;
    return S_ISREG(what.st_mode) || S_ISDIR(what.st_mode) ? -EPERM : 0;
}

bool ci_sys_is_open(coir_fd fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

int ci_sys_eventfd(void)
{
    return (int)ci_result(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
}

void ci_sys_eventfd_add(coir_fd fd)
{
    uint64_t one = 1;
    while (write(fd, &one, sizeof one) < 0 && errno == EINTR) /* EAGAIN: it is readable already */
        continue;
}

void ci_sys_eventfd_drain(coir_fd fd)
{
    uint64_t count;
    while (read(fd, &count, sizeof count) < 0 && errno == EINTR)
        continue;
}

/* localhost is the loopback address on every machine (RFC 6761, 6.3). */
int ci_sys_resolve(const char *host, int family, struct ci_ips *ret_ips, coir_time *ret_delay)
{
    if (!ci_ascii_same(host, "localhost"))
        return -EAGAIN;
    *ret_ips = (struct ci_ips){.count = 1};
    *ret_delay = 0;
    if (family == AF_INET)
        ret_ips->ip[0].four =
            (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    else
        ret_ips->ip[0].six =
            (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    return 0;
}

int ci_sys_process_id(void)
{
    return (int)getpid();
}

uint64_t ci_sys_random(void)
{
    uint64_t number = 0;
    ssize_t ignored CI_UNUSED = getrandom(&number, sizeof number, 0);
    return number;
}

#if defined(__GLIBC__)
void ci_sys_trim_heap(void)
{
    malloc_trim(0);
}
#else
void ci_sys_trim_heap(void)
{
}
#endif
