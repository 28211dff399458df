#include "sys/call.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "base/compiler.h"

/* What a call is clamped to, as Linux does by itself: counts travel as 32 bits. */
static size_t clamp(size_t len)
{
    return len < 0x7ffff000 ? len : 0x7ffff000;
}

static ssize_t answer(ssize_t rc)
{
    return rc < 0 ? -errno : rc;
}

ssize_t ci_sys_recv(coir_fd fd, void *buf, size_t len)
{
    return answer(recv(fd, buf, clamp(len), 0));
}

ssize_t ci_sys_send(coir_fd fd, const void *buf, size_t len)
{
    return answer(send(fd, buf, clamp(len), MSG_NOSIGNAL));
}

ssize_t ci_sys_recvv(coir_fd fd, const struct iovec *iov, int iov_count)
{
    return answer(readv(fd, iov, iov_count));
}

ssize_t ci_sys_sendv(coir_fd fd, const struct iovec *iov, int iov_count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)iov,
                             .msg_iovlen = (size_t)iov_count};
    return answer(sendmsg(fd, &message, MSG_NOSIGNAL));
}

ssize_t ci_sys_recvmsg(coir_fd fd, struct msghdr *message)
{
    return answer(recvmsg(fd, message, MSG_CMSG_CLOEXEC));
}

ssize_t ci_sys_sendmsg(coir_fd fd, const struct msghdr *message)
{
    return answer(sendmsg(fd, message, MSG_NOSIGNAL));
}

ssize_t ci_sys_read(coir_fd fd, void *buf, size_t len)
{
    return answer(read(fd, buf, clamp(len)));
}

ssize_t ci_sys_write(coir_fd fd, const void *buf, size_t len)
{
    return answer(write(fd, buf, clamp(len)));
}

int ci_sys_socket(int family)
{
    int type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    return (int)answer(socket(family, type, 0));
}

int ci_sys_datagram(const struct sockaddr *address, socklen_t len)
{
    int fd = (int)answer(socket(address->sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    int rc = fd < 0 ? fd : (int)answer(bind(fd, address, len));
    if (fd >= 0 && rc < 0)
        close(fd);
    return rc < 0 ? rc : fd;
}

int ci_sys_open_datagram(int family)
{
    return (int)answer(socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

int ci_sys_bind(coir_fd fd, const struct sockaddr *address, socklen_t len)
{
    return (int)answer(bind(fd, address, len));
}

int ci_sys_begin_listen(coir_fd fd, int backlog)
{
    return (int)answer(listen(fd, backlog));
}

int ci_sys_accept(coir_fd fd)
{
    return (int)answer(accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

int ci_sys_connect(coir_fd fd, const struct sockaddr *address, socklen_t len)
{
    return (int)answer(connect(fd, address, len));
}

static int set_option(coir_fd fd, int level, int option, int value)
{
    return (int)answer(setsockopt(fd, level, option, &value, sizeof value));
}

static int set_flag(coir_fd fd, int level, int option)
{
    return set_option(fd, level, option, 1);
}

int ci_sys_listen(const struct sockaddr *address, socklen_t len, int backlog, bool reuse_port,
                  bool ipv6_only)
{
    int fd = ci_sys_socket(address->sa_family), rc;
    if (fd < 0)
        return fd;
    if ((rc = set_flag(fd, SOL_SOCKET, SO_REUSEADDR)) < 0 ||
        (reuse_port && (rc = set_flag(fd, SOL_SOCKET, SO_REUSEPORT)) < 0) ||
        (address->sa_family == AF_INET6 &&
         (rc = set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, ipv6_only)) < 0) ||
        (rc = (int)answer(bind(fd, address, len))) < 0 ||
        (rc = (int)answer(listen(fd, backlog))) < 0) {
        ci_sys_close(fd);
        return rc;
    }
    return fd;
}

#if defined(__linux__)
/* A filter that drops segments with SYN. Closing at once would reset those who connect between the
 * last accept and the close. */
static int drop_handshakes(coir_fd fd)
{
    enum { FLAGS_AT = 13, SYN = 2 }; /* of a TCP header, where such a filter begins */
    struct instruction {
        /* struct sock_filter and sock_fprog of linux/filter.h, which not every C library has */
        uint16_t code;
        uint8_t if_true, if_false;
        uint32_t operand;
    } code[] = {
        {0x30, 0, 0, FLAGS_AT},   /* BPF_LD | BPF_B | BPF_ABS */
        {0x45, 0, 1, SYN},        /* BPF_JMP | BPF_JSET | BPF_K */
        {0x06, 0, 0, 0},          /* BPF_RET | BPF_K: nothing of it */
        {0x06, 0, 0, UINT32_MAX}, /* all of it */
    };
    struct {
        unsigned short len;
        struct instruction *filter;
    } program = {sizeof code / sizeof *code, code};
    return (int)answer(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
}
#else
static int drop_handshakes(coir_fd fd)
{
    (void)fd;
    return -EOPNOTSUPP;
}
#endif

int ci_sys_refuse(coir_fd fd)
{
    struct sockaddr_storage own;
    socklen_t len;
    int rc = ci_sys_name(fd, false, &own, &len);
    if (rc < 0)
        return rc;
    return own.ss_family == AF_UNIX ? (int)answer(shutdown(fd, SHUT_RD)) : drop_handshakes(fd);
}

int ci_sys_shutdown_write(coir_fd fd)
{
    return (int)answer(shutdown(fd, SHUT_WR));
}

int ci_sys_name(coir_fd fd, bool peer, struct sockaddr_storage *ret_address, socklen_t *ret_len)
{
    socklen_t len = sizeof *ret_address;
    *ret_address = (struct sockaddr_storage){0};
    int rc = peer ? getpeername(fd, (struct sockaddr *)ret_address, &len)
                  : getsockname(fd, (struct sockaddr *)ret_address, &len);
    if (rc < 0)
        return -errno;
    *ret_len = len;
    return 0;
}

int ci_sys_socket_error(coir_fd fd)
{
    int error = 0;
    socklen_t len = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        return -errno;
    return -error;
}

int ci_sys_no_delay(coir_fd fd)
{
    return set_flag(fd, IPPROTO_TCP, TCP_NODELAY);
}

static int set_reset_on_close(coir_fd fd, int on)
{
    struct linger linger = {.l_onoff = on, .l_linger = 0};
    return (int)answer(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
}

int ci_sys_reset_on_close(coir_fd fd)
{
    return set_reset_on_close(fd, 1);
}

static int set_value(coir_fd fd, int level, int option, int value)
{
    return (int)answer(setsockopt(fd, level, option, &value, sizeof value));
}

int ci_sys_tcp_option(coir_fd fd, enum coir_tcp_option option, int value)
{
    int rc;
    if (value < 0)
        return -EINVAL;
    switch (option) {
    case COIR_TCP_NODELAY: return set_value(fd, IPPROTO_TCP, TCP_NODELAY, value);
    case COIR_TCP_KEEPALIVE:
        rc = set_value(fd, SOL_SOCKET, SO_KEEPALIVE, value != 0);
        return rc < 0 || value == 0 ? rc : set_value(fd, IPPROTO_TCP, TCP_KEEPIDLE, value);
    case COIR_TCP_SEND_BUFFER: return set_value(fd, SOL_SOCKET, SO_SNDBUF, value);
    case COIR_TCP_RESET_ON_CLOSE: return set_reset_on_close(fd, value);
    case COIR_TCP_RECEIVE_BUFFER: return set_value(fd, SOL_SOCKET, SO_RCVBUF, value);
    }
    return -EINVAL;
}

void ci_sys_close(coir_fd fd)
{
    close(fd); /* on Linux the descriptor is gone whatever close answers, EINTR included */
}

int ci_sys_poll(struct pollfd *fds, size_t count, coir_time timeout)
{
    struct timespec time = {timeout / COIR_S, timeout % COIR_S};
    return (int)answer(ppoll(fds, (nfds_t)count, timeout < 0 ? NULL : &time, NULL));
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

bool ci_sys_is_socket(coir_fd fd)
{
    struct stat what;
    return fstat(fd, &what) == 0 && S_ISSOCK(what.st_mode);
}

int ci_sys_lock_directory(const char *path)
{
    int fd = (int)answer(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    int rc = fd < 0 ? fd : (int)answer(flock(fd, LOCK_EX | LOCK_NB));
    if (fd >= 0 && rc < 0)
        close(fd);
    return rc < 0 ? rc : fd;
}

bool ci_sys_is_socket_file(const char *path)
{
    struct stat what;
    return lstat(path, &what) == 0 && S_ISSOCK(what.st_mode);
}

int ci_sys_remove(const char *path)
{
    return (int)answer(unlink(path));
}

int ci_sys_set_mode(const char *path, unsigned mode)
{
    return (int)answer(chmod(path, (mode_t)mode));
}

int ci_sys_set_owner(const char *path, unsigned owner, unsigned group)
{
    return (int)answer(lchown(path, (uid_t)owner, (gid_t)group));
}

#if defined(SO_PEERCRED)
int ci_sys_credentials(coir_fd fd, coir_credentials *ret_credentials)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
        return -errno;
    if (peer.pid == 0) /* nobody has connected it, or it is no Unix socket */
        return -ENOTCONN;
    *ret_credentials = (coir_credentials){.pid = peer.pid, .uid = peer.uid, .gid = peer.gid};
    return 0;
}
#else
int ci_sys_credentials(coir_fd fd, coir_credentials *ret_credentials)
{
    uid_t uid;
    gid_t gid;
    if (getpeereid(fd, &uid, &gid) < 0)
        return -errno;
    *ret_credentials = (coir_credentials){.uid = uid, .gid = gid};
    return 0;
}
#endif

/* A descriptor without offsets is closed again: -ESPIPE. One opened with O_NONBLOCK for our sake
 * gets its flags back, without which io_uring would answer -EAGAIN where it can wait. */
static int check_opened(int fd, int flags)
{
    int rc = lseek(fd, 0, SEEK_CUR) < 0 && errno == ESPIPE ? -ESPIPE : 0;
    if (rc == 0 && !(flags & (O_NONBLOCK | O_PATH)) &&
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) < 0)
        rc = -errno;
    if (rc < 0)
        close(fd);
    return rc < 0 ? rc : fd;
}

int ci_sys_open(const char *path, int flags, unsigned mode)
{
    struct stat what;
    int fd = (int)answer(open(path, flags | O_CLOEXEC | O_NONBLOCK, mode));
    if (fd == -EWOULDBLOCK &&
        !(flags & O_NONBLOCK)) /* a lease, which the kernel takes back within fs.lease-break-time */
        fd = (int)answer(open(path, flags | O_CLOEXEC, mode));
    if (fd == -ENXIO && stat(path, &what) == 0 &&
        (S_ISFIFO(what.st_mode) || S_ISSOCK(what.st_mode)))
        return -ESPIPE; /* a FIFO that nobody reads, or a socket */
    return fd < 0 ? fd : check_opened(fd, flags);
}

int ci_sys_file_size(coir_fd fd, int64_t *ret_size)
{
    struct stat what;
    if (fstat(fd, &what) < 0)
        return -errno;
    *ret_size = what.st_size;
    return 0;
}

ssize_t ci_sys_read_at(coir_fd fd, void *buf, size_t len, int64_t offset)
{
    return answer(pread(fd, buf, len, offset));
}

ssize_t ci_sys_write_at(coir_fd fd, const void *data, size_t len, int64_t offset)
{
    return answer(pwrite(fd, data, len, offset));
}

int ci_sys_sync(coir_fd fd)
{
    return (int)answer(fsync(fd));
}

/* The one name that every machine has (RFC 6761, 6.3). */
int ci_sys_resolve(const char *host, int family, struct ci_ips *ret_ips, coir_time *ret_delay)
{
    if (strcasecmp(host, "localhost") != 0)
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

int ci_sys_eventfd(void)
{
    return (int)answer(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
}

void ci_sys_eventfd_add(coir_fd fd)
{
    uint64_t one = 1;
    while (write(fd, &one, sizeof one) < 0 && errno == EINTR) /* EAGAIN: it is set already */
        continue;
}

void ci_sys_eventfd_drain(coir_fd fd)
{
    uint64_t count;
    while (read(fd, &count, sizeof count) < 0 && errno == EINTR)
        continue;
}
