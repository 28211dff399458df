/* Datagram sockets with options, and datagrams by many in one system call. As call.h: negative
 * errno. */
#ifndef CI_SYS_DATAGRAM_CALL_H
#define CI_SYS_DATAGRAM_CALL_H

#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "base/address.h"
#include "coir/base.h"
#include "coir/socket.h"

struct ci_datagram_options {
    bool reuse_port, broadcast, ipv6_only;
    bool tell_local, tell_ecn;       /* of received datagrams */
    bool merge;                      /* received datagrams, where the system can (GRO) */
    bool no_loop;                    /* multicasts do not come back to this machine */
    int ttl, multicast_ttl;          /* 0: the system's */
    unsigned interface;              /* multicasts leave by it; 0: the system chooses */
    int send_buffer, receive_buffer; /* 0: the system's */
};

/* A datagram socket of an IP family, bound. -EOPNOTSUPP: the system does not have an option. */
int ci_sys_datagram(const struct sockaddr *address, socklen_t len,
                    const struct ci_datagram_options *options);

/* Sets the options of one that is bound. -EINVAL: ipv6_only, and it takes IPv4. */
int ci_sys_datagram_options(coir_fd fd, int family, const struct ci_datagram_options *options);

/* Joins a multicast group, or leaves it, on an interface (0: the system chooses). */
int ci_sys_datagram_join(coir_fd fd, const struct sockaddr_storage *group, unsigned interface,
                         bool leave);

/* One of an array, whose first says how large each is. */
static inline coir_datagram *ci_datagram_at(const coir_datagram *datagrams, size_t i)
{
    return (coir_datagram *)((uintptr_t)datagrams + i * datagrams->size);
}

/* The system has written `len` bytes of the sender's address: none for a Unix socket without a
 * name, and for one with an abstract name its bytes alone. What was there before is no part of it.
 */
static inline void ci_datagram_end_peer(coir_datagram *datagram, size_t len)
{
    struct sockaddr *peer = (struct sockaddr *)(void *)&datagram->peer;
    if (len == 0 || (peer->sa_family == AF_UNIX && len < sizeof datagram->peer))
        memset((char *)peer + len, 0, sizeof datagram->peer - len);
    ci_address_keep_len((struct sockaddr_storage *)(void *)peer, (socklen_t)len);
}

/* Without waiting: how many datagrams were sent or received, at most COIR_DATAGRAMS_MAX. An error
 * is returned if there was none; one that comes after some is the next call's. */
int ci_sys_send_datagrams(coir_fd fd, const coir_datagram *datagrams, size_t count);
int ci_sys_receive_datagrams(coir_fd fd, coir_datagram *datagrams, size_t count, bool ancillary);

#endif
