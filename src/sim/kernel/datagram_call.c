/* Calls on datagram sockets. Of the options, the model has those without an effect on a network
 * that has no queues of its own: a time to live, sizes of buffers. */
#include "sys/datagram_call.h"

#include <errno.h>
#include <string.h>

#include "base/address.h"
#include "sim/kernel/socket.h"
#include "sys/socket_call.h"

int ci_sys_datagram_options(coir_fd fd, int family, const struct ci_datagram_options *options)
{
    (void)fd, (void)family;
    ci_kcall();
    bool unknown =
        options->broadcast || options->tell_local || options->tell_ecn || options->interface;
    return unknown ? -EOPNOTSUPP : 0;
}

int ci_sys_datagram(const struct sockaddr *address, socklen_t len,
                    const struct ci_datagram_options *options)
{
    struct ci_kfile *file;
    int rc = ci_sys_datagram_options(-1, address->sa_family, options);
    if (rc < 0 || (rc = ci_kfd_refused()) < 0 ||
        (rc = ci_kdatagram_make(address, len, options->reuse_port, options->ipv6_only, &file)) < 0)
        return rc;
    return ci_kfd_install(file);
}

int ci_sys_datagram_join(coir_fd fd, const struct sockaddr_storage *group, unsigned interface,
                         bool leave)
{
    (void)fd, (void)group, (void)interface, (void)leave;
    return -EOPNOTSUPP;
}

/* Of a datagram of several segments, each is sent by itself. */
static int send_one(coir_fd fd, const coir_datagram *datagram)
{
    const struct sockaddr_storage *peer = (const void *)&datagram->peer;
    size_t piece = datagram->segment_len ? datagram->segment_len : datagram->len, at = 0;
    if (((const struct sockaddr_storage *)(const void *)&datagram->local)->ss_family ||
        datagram->ecn)
        return -EOPNOTSUPP;
    do {
        size_t len = datagram->len - at < piece ? datagram->len - at : piece;
        struct iovec iov = {(char *)datagram->data + at, len};
        struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
        if ((message.msg_namelen = ci_address_len(peer)))
            message.msg_name = (void *)(uintptr_t)peer;
        ssize_t rc = ci_sys_sendmsg(fd, &message);
        if (rc < 0)
            return at ? 0 : (int)rc; /* the rest is lost, as a network may lose it */
        at += len;
    } while (at < datagram->len);
    return 0;
}

int ci_sys_send_datagrams(coir_fd fd, const coir_datagram *datagrams, size_t count)
{
    int sent = 0, rc = 0;
    while (sent < (int)count && sent < COIR_DATAGRAMS_MAX &&
           (rc = send_one(fd, ci_datagram_at(datagrams, (size_t)sent))) == 0)
        sent++;
    return sent ? sent : rc;
}

static int receive_one(coir_fd fd, coir_datagram *datagram)
{
    struct iovec iov = {datagram->data, datagram->room};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_name = &datagram->peer,
                             .msg_namelen = sizeof datagram->peer};
    ssize_t rc = ci_sys_recvmsg(fd, &message);
    if (rc < 0)
        return (int)rc;
    datagram->len = (size_t)rc;
    datagram->cut = message.msg_flags & MSG_TRUNC; /* how many are lost is not modelled */
    datagram->segment_len = datagram->ecn = 0;
    datagram->interface = 0;
    datagram->local.opaque[0] = 0;
    ci_datagram_end_peer(datagram, message.msg_namelen);
    return 0;
}

/* A socket has one error at most, and tells of it before its datagrams: there is none after one. */
int ci_sys_receive_datagrams(coir_fd fd, coir_datagram *datagrams, size_t count, bool ancillary)
{
    int got = 0, rc = 0;
    (void)ancillary; /* there is none */
    while (got < (int)count && got < COIR_DATAGRAMS_MAX &&
           (rc = receive_one(fd, ci_datagram_at(datagrams, (size_t)got))) == 0)
        got++;
    return got ? got : rc;
}
