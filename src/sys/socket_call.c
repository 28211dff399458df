#include "sys/socket_call.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/sanitizer.h"
#include "sys/call.h"
#include "sys/result.h"

#ifdef __linux__
#include <sys/syscall.h>

#include "sys/bare_call.h"

/* In a program with threads, glibc's own recv and send have two locked operations each and some 50
 * instructions, so that the thread can be cancelled in the call; coir's threads never are. The
 * sanitizers know only those. */
ssize_t ci_sys_recv(coir_fd fd, void *buf, size_t len)
{
    if (ci_unlikely(ci_sanitizer))
        return ci_result(recv(fd, buf, ci_sys_clamp(len), 0));
    return ci_bare_call(SYS_recvfrom, fd, (long)buf, (long)ci_sys_clamp(len), 0, 0, 0);
}

ssize_t ci_sys_send(coir_fd fd, const void *buf, size_t len)
{
    if (ci_unlikely(ci_sanitizer))
        return ci_result(send(fd, buf, ci_sys_clamp(len), MSG_NOSIGNAL));
    return ci_bare_call(SYS_sendto, fd, (long)buf, (long)ci_sys_clamp(len), MSG_NOSIGNAL, 0, 0);
}
#else
ssize_t ci_sys_recv(coir_fd fd, void *buf, size_t len)
{
    return ci_result(recv(fd, buf, ci_sys_clamp(len), 0));
}

ssize_t ci_sys_send(coir_fd fd, const void *buf, size_t len)
{
    return ci_result(send(fd, buf, ci_sys_clamp(len), MSG_NOSIGNAL));
}
#endif

ssize_t ci_sys_peek(coir_fd fd, void *buf, size_t len)
{
    return ci_result(recv(fd, buf, ci_sys_clamp(len), MSG_PEEK));
}

ssize_t ci_sys_recvv(coir_fd fd, const struct iovec *iov, int iov_count)
{
    return ci_result(readv(fd, iov, iov_count));
}

ssize_t ci_sys_sendv(coir_fd fd, const struct iovec *iov, int iov_count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)iov,
                             .msg_iovlen = (size_t)iov_count};
    return ci_result(sendmsg(fd, &message, MSG_NOSIGNAL));
}

ssize_t ci_sys_recvmsg(coir_fd fd, struct msghdr *message)
{
    return ci_result(recvmsg(fd, message, MSG_CMSG_CLOEXEC));
}

ssize_t ci_sys_sendmsg(coir_fd fd, const struct msghdr *message)
{
    return ci_result(sendmsg(fd, message, MSG_NOSIGNAL));
}

int ci_sys_socket(int family)
{
    int type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    return (int)ci_result(socket(family, type, 0));
}

int ci_sys_open_datagram(int family)
{
    return (int)ci_result(socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

int ci_sys_bind(coir_fd fd, const struct sockaddr *address, socklen_t len)
{
    return (int)ci_result(bind(fd, address, len));
}

int ci_sys_begin_listen(coir_fd fd, int backlog)
{
    return (int)ci_result(listen(fd, backlog));
}

int ci_sys_accept(coir_fd fd)
{
    return (int)ci_result(accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

int ci_sys_connect(coir_fd fd, const struct sockaddr *address, socklen_t len)
{
    return (int)ci_result(connect(fd, address, len));
}

static int set_option(coir_fd fd, int level, int option, int value)
{
    return (int)ci_result(setsockopt(fd, level, option, &value, sizeof value));
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
        (rc = (int)ci_result(bind(fd, address, len))) < 0 ||
        (rc = (int)ci_result(listen(fd, backlog))) < 0) {
        ci_sys_close(fd);
        return rc;
    }
    return fd;
}

#if defined(__linux__)
/* Attaches a filter that drops segments with SYN to the listener. If it were just closed, clients
 * that connect between the last accept and the close would be reset. */
static int drop_handshakes(coir_fd fd)
{
    enum { FLAGS_AT = 13, SYN = 2 }; /* offset in the TCP header, where the filter begins to read */
    struct instruction {
        /* struct sock_filter and sock_fprog of linux/filter.h, which not every C library has */
        uint16_t code;
        uint8_t if_true, if_false;
        uint32_t operand;
    } code[] = {
        {0x30, 0, 0, FLAGS_AT},   /* BPF_LD | BPF_B | BPF_ABS */
        {0x45, 0, 1, SYN},        /* BPF_JMP | BPF_JSET | BPF_K */
        {0x06, 0, 0, 0},          /* BPF_RET | BPF_K: drop */
        {0x06, 0, 0, UINT32_MAX}, /* BPF_RET | BPF_K: pass all of it */
    };
    struct {
        unsigned short len;
        struct instruction *filter;
    } program = {sizeof code / sizeof *code, code};
    return (int)ci_result(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
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
    return own.ss_family == AF_UNIX ? (int)ci_result(shutdown(fd, SHUT_RD)) : drop_handshakes(fd);
}

int ci_sys_shutdown_write(coir_fd fd)
{
    return (int)ci_result(shutdown(fd, SHUT_WR));
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
    return (int)ci_result(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
}

int ci_sys_reset_on_close(coir_fd fd)
{
    return set_reset_on_close(fd, 1);
}

int ci_sys_fast_open(coir_fd fd, int queue)
{
#if defined(TCP_FASTOPEN) && defined(__linux__)
    return set_option(fd, IPPROTO_TCP, TCP_FASTOPEN, queue);
#else
    (void)fd, (void)queue;
    return -EOPNOTSUPP;
#endif
}

int ci_sys_fast_open_connect(coir_fd fd)
{
#if defined(TCP_FASTOPEN_CONNECT)
    return set_option(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1);
#else
    (void)fd;
    return -EOPNOTSUPP;
#endif
}

/* Of those that are one number; false: `option` is none of them. */
static bool find_option(enum coir_tcp_option option, int *ret_level, int *ret_name)
{
    *ret_level = IPPROTO_TCP;
    switch (option) {
    case COIR_TCP_NODELAY: *ret_name = TCP_NODELAY; return true;
    case COIR_TCP_KEEPALIVE_INTERVAL: *ret_name = TCP_KEEPINTVL; return true;
    case COIR_TCP_KEEPALIVE_COUNT: *ret_name = TCP_KEEPCNT; return true;
#if defined(TCP_USER_TIMEOUT)
    case COIR_TCP_USER_TIMEOUT: *ret_name = TCP_USER_TIMEOUT; return true;
#endif
    case COIR_TCP_SEND_BUFFER: *ret_name = SO_SNDBUF; break;
    case COIR_TCP_RECEIVE_BUFFER: *ret_name = SO_RCVBUF; break;
    default: return false;
    }
    *ret_level = SOL_SOCKET;
    return true;
}

int ci_sys_tcp_option(coir_fd fd, enum coir_tcp_option option, int value)
{
    int rc, level, name;
    if (value < 0)
        return -EINVAL;
    if (find_option(option, &level, &name))
        return set_option(fd, level, name, value);
    switch (option) {
    case COIR_TCP_KEEPALIVE:
        rc = set_option(fd, SOL_SOCKET, SO_KEEPALIVE, value != 0);
        return rc < 0 || value == 0 ? rc : set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, value);
    case COIR_TCP_RESET_ON_CLOSE: return set_reset_on_close(fd, value);
    case COIR_TCP_USER_TIMEOUT: return -EOPNOTSUPP;
    default: return -EINVAL;
    }
}

static int get_number(coir_fd fd, int level, int name)
{
    int value = 0;
    socklen_t len = sizeof value;
    return getsockopt(fd, level, name, &value, &len) < 0 ? -errno : value;
}

int ci_sys_get_tcp_option(coir_fd fd, enum coir_tcp_option option)
{
    struct linger linger;
    socklen_t len = sizeof linger;
    int rc, level, name;
    if (find_option(option, &level, &name))
        return get_number(fd, level, name);
    switch (option) {
    case COIR_TCP_KEEPALIVE:
        rc = get_number(fd, SOL_SOCKET, SO_KEEPALIVE);
        return rc <= 0 ? rc : get_number(fd, IPPROTO_TCP, TCP_KEEPIDLE);
    case COIR_TCP_RESET_ON_CLOSE:
        return getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &len) < 0 ? -errno
                                                                        : linger.l_onoff != 0;
    case COIR_TCP_USER_TIMEOUT: return -EOPNOTSUPP;
    default: return -EINVAL;
    }
}

#if defined(TCP_INFO) && defined(__linux__)
int ci_sys_tcp_info(coir_fd fd, coir_tcp_info *ret_info)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0)
        return -errno;
    *ret_info = (coir_tcp_info){
        .size = sizeof *ret_info,
        .rtt = info.tcpi_rtt * COIR_US,
        .rtt_deviation = info.tcpi_rttvar * COIR_US,
        .last_received = info.tcpi_last_data_recv * COIR_MS,
        .retransmits = info.tcpi_total_retrans,
        .unacknowledged = info.tcpi_unacked,
        .window = info.tcpi_snd_cwnd,
        .segment_size = info.tcpi_snd_mss,
    };
    return 0;
}
#else
int ci_sys_tcp_info(coir_fd fd, coir_tcp_info *ret_info)
{
    (void)fd;
    (void)ret_info;
    return -EOPNOTSUPP;
}
#endif

#if defined(SO_NWRITE) /* macOS */
int ci_sys_unacknowledged(coir_fd fd)
{
    return get_number(fd, SOL_SOCKET, SO_NWRITE);
}
#elif defined(FIONWRITE) || defined(__linux__)
int ci_sys_unacknowledged(coir_fd fd)
{
#if defined(FIONWRITE) /* FreeBSD */
    const unsigned long request = FIONWRITE;
#else
    const unsigned request = TIOCOUTQ; /* tcp(7) calls it SIOCOUTQ */
#endif
    int count = 0;
    return ioctl(fd, request, &count) < 0 ? -errno : count;
}
#else
int ci_sys_unacknowledged(coir_fd fd)
{
    (void)fd;
    return -EOPNOTSUPP;
}
#endif

#if defined(SO_PEERCRED)
int ci_sys_credentials(coir_fd fd, coir_credentials *ret_credentials)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
        return -errno;
    if (peer.pid == 0) /* not connected, or not a Unix socket */
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
