#include "sys/datagram_call.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "base/address.h"
#include "base/compiler.h"
#include "sys/control.h"
#include "sys/result.h"

/* Of linux/udp.h, which not every C library has. */
enum { SEGMENT = 103, MERGE = 104 };

/* The largest control data of a datagram: where it was sent to, ECN by two names, segments. Of IPv4
 * through a socket of IPv6 the system tells the address by both names. */
union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(struct in_pktinfo)) +
               3 * CMSG_SPACE(sizeof(int))];
};

/* ---- options ---- */

static int set(coir_fd fd, int level, int option, int value)
{
    return (int)ci_result(setsockopt(fd, level, option, &value, sizeof value));
}

/* An option that has a name of its own in each family. A socket of IPv6 may have both, as IPv4
 * comes through it, too. */
static int set_both(coir_fd fd, int family, int four, int six, int value)
{
    int rc = set(fd, IPPROTO_IP, four, value);
    if (family == AF_INET)
        return rc;
    return set(fd, IPPROTO_IPV6, six, value);
}

static int set_interface(coir_fd fd, int family, unsigned interface)
{
    struct ip_mreqn four = {.imr_ifindex = (int)interface};
    int rc = (int)ci_result(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &four, sizeof four));
    return family == AF_INET ? rc : set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)interface);
}

static int set_multicast(coir_fd fd, int family, const struct ci_datagram_options *options)
{
    int rc = 0;
    if (options->multicast_ttl)
        rc = set_both(fd, family, IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS, options->multicast_ttl);
    if (rc == 0 && options->no_loop)
        rc = set_both(fd, family, IP_MULTICAST_LOOP, IPV6_MULTICAST_LOOP, 0);
    if (rc == 0 && options->interface)
        rc = set_interface(fd, family, options->interface);
    return rc;
}

/* Whether the socket takes IPv4 is settled when it is bound. */
static int check_ipv6_only(coir_fd fd)
{
    int value = 0;
    socklen_t len = sizeof value;
    int rc = (int)ci_result(getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &value, &len));
    return rc == 0 && !value ? -EINVAL : rc;
}

int ci_sys_datagram_options(coir_fd fd, int family, const struct ci_datagram_options *options)
{
    int rc = 0;
    if (family == AF_INET6 && options->ipv6_only)
        rc = check_ipv6_only(fd);
    if (rc == 0 && options->reuse_port)
        rc = set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    if (rc == 0 && options->broadcast)
        rc = set(fd, SOL_SOCKET, SO_BROADCAST, 1);
    if (rc == 0 && options->tell_local)
        rc = set_both(fd, family, IP_PKTINFO, IPV6_RECVPKTINFO, 1);
    if (rc == 0 && options->tell_ecn)
        rc = set_both(fd, family, IP_RECVTOS, IPV6_RECVTCLASS, 1);
    if (rc == 0 && options->merge)
        rc = set(fd, IPPROTO_UDP, MERGE, 1);
    if (rc == 0 && options->ttl)
        rc = set_both(fd, family, IP_TTL, IPV6_UNICAST_HOPS, options->ttl);
    if (rc == 0 && options->send_buffer)
        rc = set(fd, SOL_SOCKET, SO_SNDBUF, options->send_buffer);
    if (rc == 0 && options->receive_buffer)
        rc = set(fd, SOL_SOCKET, SO_RCVBUF, options->receive_buffer);
    return rc == 0 ? set_multicast(fd, family, options) : rc;
}

int ci_sys_datagram(const struct sockaddr *address, socklen_t len,
                    const struct ci_datagram_options *options)
{
    int family = address->sa_family;
    int fd = (int)ci_result(socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    int rc = fd < 0 ? fd : 0;
    if (rc == 0 && family == AF_INET6)
        rc = set(fd, IPPROTO_IPV6, IPV6_V6ONLY, options->ipv6_only);
    if (rc == 0)
        rc = ci_sys_datagram_options(fd, family, options);
    if (rc == 0)
        rc = (int)ci_result(bind(fd, address, len));
    if (fd >= 0 && rc < 0)
        close(fd);
    return rc < 0 ? rc : fd;
}

int ci_sys_datagram_join(coir_fd fd, const struct sockaddr_storage *group, unsigned interface,
                         bool leave)
{
    struct group_req request = {.gr_interface = interface, .gr_group = *group};
    int level = group->ss_family == AF_INET6 ? IPPROTO_IPV6 : IPPROTO_IP;
    return (int)ci_result(setsockopt(fd, level, leave ? MCAST_LEAVE_GROUP : MCAST_JOIN_GROUP,
                                     &request, sizeof request));
}

/* ---- control data ---- */

static void put(struct msghdr *message, int level, int type, const void *data, size_t len)
{
    char *end = (char *)message->msg_control + message->msg_controllen;
    struct cmsghdr *header = (struct cmsghdr *)(void *)end;
    header->cmsg_len = (socklen_t)CMSG_LEN(len); /* size_t, or so in musl */
    header->cmsg_level = level;
    header->cmsg_type = type;
    memcpy(CMSG_DATA(header), data, len);
    message->msg_controllen += (socklen_t)CMSG_SPACE(len);
}

/* The address that a datagram is sent from. */
static void put_local(struct msghdr *message, const struct sockaddr_storage *local)
{
    if (local->ss_family == AF_INET) {
        struct in_pktinfo info = {.ipi_spec_dst =
                                      ((const struct sockaddr_in *)(const void *)local)->sin_addr};
        put(message, IPPROTO_IP, IP_PKTINFO, &info, sizeof info);
    } else if (local->ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)local;
        struct in6_pktinfo info = {.ipi6_addr = six->sin6_addr, .ipi6_ifindex = six->sin6_scope_id};
        put(message, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof info);
    }
}

static void put_control(struct msghdr *message, const coir_datagram *datagram)
{
    put_local(message, (const struct sockaddr_storage *)(const void *)&datagram->local);
    if (datagram->ecn) { /* each family ignores the other's */
        int ecn = datagram->ecn;
        put(message, IPPROTO_IP, IP_TOS, &ecn, sizeof ecn);
        put(message, IPPROTO_IPV6, IPV6_TCLASS, &ecn, sizeof ecn);
    }
    if (datagram->segment_len)
        put(message, IPPROTO_UDP, SEGMENT, &datagram->segment_len, sizeof(uint16_t));
}

static void take_local(const struct cmsghdr *header, coir_datagram *datagram)
{
    if (header->cmsg_level == IPPROTO_IP) {
        struct in_pktinfo info;
        struct sockaddr_in local = {.sin_family = AF_INET};
        memcpy(&info, CMSG_DATA(header), sizeof info);
        local.sin_addr = info.ipi_addr;
        datagram->interface = (unsigned)info.ipi_ifindex;
        memcpy(&datagram->local, &local, sizeof local);
    } else {
        struct in6_pktinfo info;
        struct sockaddr_in6 local = {.sin6_family = AF_INET6};
        memcpy(&info, CMSG_DATA(header), sizeof info);
        local.sin6_addr = info.ipi6_addr;
        if (IN6_IS_ADDR_LINKLOCAL(&info.ipi6_addr))
            local.sin6_scope_id = info.ipi6_ifindex;
        datagram->interface = info.ipi6_ifindex;
        memcpy(&datagram->local, &local, sizeof local);
    }
}

static void take_control(struct msghdr *message, coir_datagram *datagram)
{
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
         header = ci_control_next(message, header)) {
        int level = header->cmsg_level, type = header->cmsg_type, value = 0;
        size_t len = header->cmsg_len - CMSG_LEN(0);
        if ((level == IPPROTO_IP && type == IP_PKTINFO) ||
            (level == IPPROTO_IPV6 && type == IPV6_PKTINFO)) {
            take_local(header, datagram);
            continue;
        }
        if (level == IPPROTO_IP && type == IP_TOS) /* one byte */
            value = *CMSG_DATA(header);
        else if (len == sizeof value)
            memcpy(&value, CMSG_DATA(header), sizeof value);
        if (level == IPPROTO_UDP && type == MERGE)
            datagram->segment_len = (uint16_t)value;
        else if (level != IPPROTO_UDP)
            datagram->ecn = value & 3;
    }
}

/* ---- many in one call ---- */

struct batch {
    struct mmsghdr messages[COIR_DATAGRAMS_MAX];
    struct iovec iov[COIR_DATAGRAMS_MAX];
    union control control[COIR_DATAGRAMS_MAX];
};

/* Field by field: a receive prepares room for COIR_DATAGRAMS_MAX, and often gets one. Returned: the
 * message, with the peer's address and room for control data, of which none is there yet. */
static inline struct msghdr *describe(struct batch *batch, size_t at, const coir_datagram *datagram,
                                      size_t len)
{
    struct msghdr *message = &batch->messages[at].msg_hdr;
    batch->iov[at].iov_base = datagram->data;
    batch->iov[at].iov_len = ci_sys_clamp(len);
    message->msg_name = (void *)(uintptr_t)&datagram->peer;
    message->msg_namelen = sizeof datagram->peer;
    message->msg_iov = &batch->iov[at];
    message->msg_iovlen = 1;
    message->msg_control = batch->control[at].bytes;
    message->msg_controllen = 0;
    message->msg_flags = 0;
    return message;
}

int ci_sys_send_datagrams(coir_fd fd, const coir_datagram *datagrams, size_t count)
{
    struct batch batch;
    count = count < COIR_DATAGRAMS_MAX ? count : COIR_DATAGRAMS_MAX;
    for (size_t i = 0; i < count; i++) {
        const coir_datagram *datagram = ci_datagram_at(datagrams, i);
        struct msghdr *message = describe(&batch, i, datagram, datagram->len);
        message->msg_namelen = ci_address_len(message->msg_name);
        if (!message->msg_namelen)
            message->msg_name = NULL;
        put_control(message, datagram);
        if (!message->msg_controllen)
            message->msg_control = NULL;
    }
    return (int)ci_result(
        sendmmsg(fd, batch.messages, (unsigned)count, MSG_NOSIGNAL | MSG_DONTWAIT));
}

/* MSG_TRUNC as a flag has the kernel tell the whole length. */
int ci_sys_receive_datagrams(coir_fd fd, coir_datagram *datagrams, size_t count, bool ancillary)
{
    struct batch batch;
    count = count < COIR_DATAGRAMS_MAX ? count : COIR_DATAGRAMS_MAX;
    for (size_t i = 0; i < count; i++) {
        coir_datagram *datagram = ci_datagram_at(datagrams, i);
        struct msghdr *message = describe(&batch, i, datagram, datagram->room);
        message->msg_controllen = ancillary ? sizeof batch.control[i] : 0;
    }
    int got = (int)ci_result(recvmmsg(fd, batch.messages, (unsigned)count,
                                      MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC, NULL));
    for (int i = 0; i < got; i++) {
        coir_datagram *datagram = ci_datagram_at(datagrams, (size_t)i);
        size_t len = batch.messages[i].msg_len;
        datagram->len = len < datagram->room ? len : datagram->room;
        datagram->cut = len - datagram->len;
        datagram->segment_len = datagram->ecn = 0;
        datagram->interface = 0;
        datagram->local.opaque[0] = 0;
        ci_datagram_end_peer(datagram, batch.messages[i].msg_hdr.msg_namelen);
        take_control(&batch.messages[i].msg_hdr, datagram);
    }
    return got;
}
