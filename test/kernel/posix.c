/* posix.h: errno on top of sys/call.h and the kernel's files; descriptors that block do. */
#define TEST_KERNEL_POSIX_C
#include "kernel/posix.h"

#include <string.h>

#include "sim/kernel/socket.h"
#include "sys/call.h"
#include "sys/clock.h"
#include "sys/datagram_call.h"
#include "sys/file_call.h"
#include "sys/socket_call.h"
#include "sys/thread.h"

static ssize_t answer(ssize_t rc)
{
    if (rc >= 0)
        return rc;
    errno = (int)-rc;
    return -1;
}

struct awaited {
    struct ci_kfile *file;
    unsigned events;
};

static bool holds(void *arg)
{
    const struct awaited *awaited = arg;
    return ci_kfile_poll(awaited->file) & (awaited->events | POLLERR | POLLHUP);
}

/* After -EAGAIN: whether to try again, when the events hold. */
static bool block(int fd, ssize_t rc, unsigned events, int flags)
{
    struct ci_kfile *file = ci_kfd_find(fd);
    if (rc != -EAGAIN || !file->blocking || flags & MSG_DONTWAIT)
        return false;
    struct awaited awaited = {ci_kfile_ref(file), events};
    ci_kthread_wait("a file", fd, holds, &awaited, COIR_NEVER);
    ci_kfile_unref(file);
    return true;
}

int posix_socket(int family, int type, int protocol)
{
    (void)protocol;
    if ((type & 0xf) != SOCK_STREAM || family != AF_INET)
        posix_leave_out("sockets of this kind");
    int fd = ci_sys_socket(family);
    if (fd >= 0)
        ci_kfd_find(fd)->blocking = !(type & SOCK_NONBLOCK);
    return (int)answer(fd);
}

int posix_connect(int fd, const struct sockaddr *address, socklen_t len)
{
    int rc = ci_sys_connect(fd, address, len);
    struct ci_kfile *file = ci_kfd_find(fd);
    if (rc == -EINPROGRESS && file->blocking) {
        struct awaited awaited = {file, POLLOUT};
        ci_kthread_wait("a connection", fd, holds, &awaited, COIR_NEVER);
        rc = ci_sys_socket_error(fd);
    }
    return (int)answer(rc);
}

ssize_t posix_send(int fd, const void *data, size_t len, int flags)
{
    size_t done = 0;
    ssize_t rc;
    if (flags & MSG_OOB) /* it has no urgent data */
        return answer(-EOPNOTSUPP);
    do {
        rc = ci_sys_send(fd, (const char *)data + done, len - done);
        done += rc > 0 ? (size_t)rc : 0;
        /* a sender that blocks sends all */
        bool more = rc >= 0 && done < len && ci_kfd_find(fd)->blocking && !(flags & MSG_DONTWAIT);
        if (more)
            continue;
        if (rc >= 0)
            break;
    } while (rc >= 0 || block(fd, rc, POLLOUT, flags));
    return answer(done ? (ssize_t)done : rc);
}

ssize_t posix_recv(int fd, void *buf, size_t len, int flags)
{
    ssize_t rc;
    do
        rc = ci_sys_recv(fd, buf, len);
    while (block(fd, rc, POLLIN, flags));
    return answer(rc);
}

ssize_t posix_read(int fd, void *buf, size_t len)
{
    ssize_t rc;
    do
        rc = ci_sys_read(fd, buf, len);
    while (block(fd, rc, POLLIN, 0));
    return answer(rc);
}

ssize_t posix_write(int fd, const void *data, size_t len)
{
    ssize_t rc;
    do
        rc = ci_sys_write(fd, data, len);
    while (block(fd, rc, POLLOUT, 0));
    return answer(rc);
}

int posix_setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
    int number = 0;
    memcpy(&number, value, len < sizeof number ? len : sizeof number);
    if (level != SOL_SOCKET)
        return 0;
    switch (option) {
    case SO_SNDBUF: return (int)answer(ci_sys_tcp_option(fd, COIR_TCP_SEND_BUFFER, number));
    case SO_RCVBUF: return (int)answer(ci_sys_tcp_option(fd, COIR_TCP_RECEIVE_BUFFER, number));
    case SO_LINGER: return number ? (int)answer(ci_sys_reset_on_close(fd)) : 0;
    case SO_REUSEADDR: return 0;
    default: posix_leave_out("such option of setsockopt");
    }
}

int posix_getsockname(int fd, struct sockaddr *address, socklen_t *len)
{
    struct sockaddr_storage storage;
    socklen_t full;
    int rc = ci_sys_name(fd, false, &storage, &full);
    if (rc == 0) {
        memcpy(address, &storage, *len < full ? *len : full);
        *len = full;
    }
    return (int)answer(rc);
}

int posix_shutdown(int fd, int how)
{
    if (how != SHUT_WR)
        posix_leave_out("shutdown of another direction than SHUT_WR");
    return (int)answer(ci_sys_shutdown_write(fd));
}

int posix_poll(struct pollfd *fds, nfds_t count, int timeout)
{
    return (int)answer(ci_sys_poll(fds, count, timeout < 0 ? -1 : timeout * COIR_MS));
}

int posix_pipe(int fds[2])
{
    return (int)answer(ci_kpipe(fds));
}

/* The listener between them gets a name that nothing else has. */
int posix_socketpair(int family, int type, int protocol, int fds[2])
{
    const struct sockaddr any = {.sa_family = AF_UNIX};
    struct sockaddr_storage address;
    socklen_t len;
    (void)protocol;
    if ((type & 0xf) != SOCK_STREAM || family != AF_UNIX)
        posix_leave_out("pairs of such sockets");
    fds[0] = ci_sys_socket(AF_UNIX);
    int listener = ci_sys_socket(AF_UNIX);
    int rc = ci_sys_bind(listener, &any, sizeof any.sa_family);
    if (rc == 0)
        rc = ci_sys_begin_listen(listener, 1);
    if (rc == 0)
        rc = ci_sys_name(listener, false, &address, &len);
    if (rc == 0)
        rc = ci_sys_connect(fds[0], (struct sockaddr *)&address, len);
    fds[1] = rc < 0 ? rc : ci_sys_accept(listener);
    posix_close(listener);
    for (int i = 0; fds[1] >= 0 && i < 2; i++)
        ci_kfd_find(fds[i])->blocking = !(type & SOCK_NONBLOCK);
    return (int)answer(fds[1] < 0 ? fds[1] : 0);
}

int posix_dup2(int from, int to)
{
    return (int)answer(ci_kfd_copy(from, to));
}

void posix_console(void (*print)(const void *bytes, size_t len))
{
    ci_kconsole = print;
}

int posix_close(int fd)
{
    ci_kcall();
    return (int)answer(ci_kfd_close(fd));
}

int posix_pipe2(int fds[2], int flags)
{
    int rc = posix_pipe(fds);
    for (int i = 0; rc == 0 && i < 2; i++)
        ci_kfd_find(fds[i])->blocking = !(flags & O_NONBLOCK);
    return rc;
}

bool posix_has_kernel(void)
{
    return ci_k.world != NULL;
}

void posix_leave_out(const char *what)
{
    printf("left out: the simulated kernel has no %s\n", what);
    fflush(NULL);
    _exit(0);
}

int posix_none(const char *what, ...)
{
    posix_leave_out(what);
}

ssize_t posix_sendto(int fd, const void *data, size_t len, int flags, const struct sockaddr *to,
                     socklen_t to_len)
{
    (void)flags;
    struct iovec one = {(void *)(uintptr_t)data, len};
    return answer(ci_sys_sendmsg(fd, &(struct msghdr){.msg_iov = &one,
                                                      .msg_iovlen = 1,
                                                      .msg_name = (void *)(uintptr_t)to,
                                                      .msg_namelen = to_len}));
}

int posix_temporary(void)
{
    return (int)answer(ci_sys_file(&(struct ci_file_call){.kind = CI_FILE_OPEN,
                                                          .fd = AT_FDCWD,
                                                          .path = "temporary",
                                                          .flags = O_RDWR | O_CREAT,
                                                          .mode = 0600}));
}

int posix_datagram(int port)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct ci_datagram_options options = {0};
    return (int)answer(ci_sys_datagram((const struct sockaddr *)&own, sizeof own, &options));
}

int posix_lock_directory(const char *path)
{
    return (int)answer(ci_sys_lock_directory(path));
}

/* Every descriptor is closed by an exec, which there is none of. */
int posix_fcntl(int fd, int command)
{
    if (command != F_GETFD)
        posix_leave_out("such command of fcntl");
    return (int)answer(ci_sys_is_open(fd) ? FD_CLOEXEC : -EBADF);
}

int posix_getpid(void)
{
    return ci_kprocess_id(ci_k.process);
}

unsigned posix_geteuid(void)
{
    return CI_KUSER;
}

int posix_usleep(useconds_t duration)
{
    ci_clock_sleep(duration * COIR_US);
    return 0;
}

int posix_wait_for_any(void)
{
    return (int)ci_kchildren_wait(0);
}

int posix_clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    coir_time now = clock == CLOCK_REALTIME ? ci_clock_wall() : ci_clock_now();
    *ret_time = (struct timespec){now / COIR_S, now % COIR_S};
    return 0;
}

/* Of the process, as kill(2) of itself. */
int posix_raise(int number)
{
    ci_kcall();
    if (!ci_kcrash(number))
        ci_ksignal_raise(ci_k.process, number);
    return 0;
}

int posix_thread_create(pthread_t *thread, void *(*fn)(void *arg), void *arg)
{
    struct ci_thread started;
    int rc = ci_thread_start(&started, fn, arg);
    *thread = (pthread_t)(uintptr_t)started.kthread;
    return -rc;
}

int posix_thread_join(pthread_t thread)
{
    ci_thread_join(&(struct ci_thread){(struct ci_kthread *)(uintptr_t)thread});
    return 0;
}
