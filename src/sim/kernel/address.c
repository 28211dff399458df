/* Addresses of the internet: ipv6(7); RFC 3493, 3.7 and 5.3; net/ipv6/af_inet6.c, tcp_ipv6.c,
 * udp.c, datagram.c and net/ipv4/inet_connection_sock.c of Linux 6.1.
 *
 * - The kernel keeps each address as an IPv6 one; one of IPv4 is mapped (::ffff:10.0.0.1). A
 *   socket of AF_INET shows its addresses as IPv4, one of AF_INET6 as they are kept.
 * - The network is that of sim/address.h: 2001:db8::/32 and 192.0.2.0/24 never answer, other
 *   prefixes than fd00:: and 10.0.0.0/8 have no route.
 * - A bound socket takes the families of its address: that of :: takes both, but for IPV6_V6ONLY.
 *   Which address of its host a peer uses does not matter otherwise. Two sockets may have the same
 *   port if they have no family in common.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "sim/address.h"
#include "sim/kernel/socket.h"

bool ci_kaddress_is_four(const struct sockaddr_in6 *address)
{
    return IN6_IS_ADDR_V4MAPPED(&address->sin6_addr);
}

unsigned ci_kaddress_family(const struct sockaddr_in6 *address)
{
    return ci_kaddress_is_four(address) ? CI_KFOUR : CI_KSIX;
}

static struct sockaddr_in6 map(const struct sockaddr_in *four)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = four->sin_port};
    memset(&six.sin6_addr.s6_addr[10], 0xff, 2);
    memcpy(&six.sin6_addr.s6_addr[12], &four->sin_addr, sizeof four->sin_addr);
    return six;
}

/* Its last 32 bits, with the port. */
static struct sockaddr_in unmap(const struct sockaddr_in6 *six)
{
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = six->sin6_port};
    memcpy(&four.sin_addr, &six->sin6_addr.s6_addr[12], sizeof four.sin_addr);
    return four;
}

struct sockaddr_in6 ci_kaddress_of(const struct ci_node *node, unsigned family, in_port_t port)
{
    struct sockaddr_in four = {
        .sin_family = AF_INET, .sin_port = port, .sin_addr = ci_sim_address_of(node)};
    struct sockaddr_storage six;
    struct sockaddr_in6 address;
    socklen_t len;
    if (family == CI_KFOUR)
        return map(&four);
    ci_sim_address_out(&four, true, &six, &len);
    memcpy(&address, &six, sizeof address);
    return address;
}

static bool is_loopback_four(const struct sockaddr_in6 *address)
{
    return ci_kaddress_is_four(address) && address->sin6_addr.s6_addr[12] == IN_LOOPBACKNET;
}

/* ip_route_output_key_hash_rcu, ipv6_dev_get_saddr */
struct sockaddr_in6 ci_kaddress_source(const struct ci_node *node,
                                       const struct sockaddr_in6 *remote, in_port_t port)
{
    struct sockaddr_in6 own = ci_kaddress_of(node, ci_kaddress_family(remote), port);
    struct in_addr loopback = {htonl(INADDR_LOOPBACK)};
    if (IN6_IS_ADDR_LOOPBACK(&remote->sin6_addr))
        own.sin6_addr = in6addr_loopback;
    else if (is_loopback_four(remote))
        memcpy(&own.sin6_addr.s6_addr[12], &loopback, sizeof loopback);
    return own;
}

static bool is_any(const struct sockaddr_in6 *address)
{
    return unmap(address).sin_addr.s_addr == INADDR_ANY;
}

/* udp_sendmsg, __ip4_datagram_connect; __mkroute_output refuses the loopback's elsewhere */
int ci_kaddress_from(const struct ci_ksocket *socket, const struct sockaddr_in6 *remote,
                     struct sockaddr_in6 *ret_from)
{
    const struct sockaddr_in6 *local = &socket->local;
    bool bound = !is_any(local) && ci_kaddress_family(local) == ci_kaddress_family(remote);
    *ret_from = bound ? *local : ci_kaddress_source(socket->node, remote, local->sin6_port);
    bool leaves = ci_kaddress_node(socket->node, remote) != socket->node;
    return leaves && is_loopback_four(ret_from) ? -EINVAL : 0;
}

/* -EINVAL, -EAFNOSUPPORT */
static int take_in(const struct sockaddr *address, socklen_t len, struct sockaddr_in6 *ret_address)
{
    enum { RFC2133_LEN = offsetof(struct sockaddr_in6, sin6_scope_id) };
    struct sockaddr_in four;
    if (address->sa_family != AF_INET && address->sa_family != AF_INET6)
        return -EAFNOSUPPORT;
    if (len < (address->sa_family == AF_INET ? sizeof four : RFC2133_LEN))
        return -EINVAL;
    if (address->sa_family == AF_INET6) {
        memcpy(ret_address, address, sizeof *ret_address);
        return 0;
    }
    memcpy(&four, address, sizeof four);
    *ret_address = map(&four);
    return 0;
}

/* The world's form. -ENETUNREACH */
static int find_route(const struct sockaddr_in6 *address, struct sockaddr_in *ret_four)
{
    bool six;
    *ret_four = unmap(address);
    if (ci_kaddress_is_four(address))
        return ci_sim_address_has_route(ret_four) ? 0 : -ENETUNREACH;
    return ci_sim_address_in((const struct sockaddr *)(const void *)address, ret_four, &six);
}

int ci_kaddress_remote(const struct ci_ksocket *socket, const struct sockaddr *address,
                       socklen_t len, struct sockaddr_in6 *ret_address)
{
    struct sockaddr_in6 remote;
    struct sockaddr_in four;
    if (!socket->six && address->sa_family != AF_INET)
        return -EAFNOSUPPORT;
    int rc = take_in(address, len, &remote);
    if (rc < 0)
        return rc;
    if (ci_kaddress_is_four(&remote) && socket->six_only)
        return -ENETUNREACH;
    if (IN6_IS_ADDR_UNSPECIFIED(&remote.sin6_addr))
        remote.sin6_addr = in6addr_loopback;
    if ((rc = find_route(&remote, &four)) < 0)
        return rc;
    *ret_address = remote;
    return 0;
}

int ci_kaddress_bind(struct ci_ksocket *socket, const struct sockaddr *address, socklen_t len,
                     bool six_only)
{
    struct sockaddr_in6 local;
    struct sockaddr_in four;
    int rc = take_in(address, len, &local);
    if (rc < 0)
        return rc;
    bool six = address->sa_family == AF_INET6;
    if (six && six_only && ci_kaddress_is_four(&local))
        return -EINVAL;
    if (find_route(&local, &four) < 0 || !ci_sim_address_is_own(socket->node, &four))
        return -EADDRNOTAVAIL; /* inet_addr_valid_or_nonlocal, ipv6_chk_addr */
    if (local.sin6_port)
        ci_sim_address_note_port(ci_k.world, local.sin6_port);
    else
        local.sin6_port = socket->local.sin6_port;
    socket->local = local;
    socket->six = six;
    socket->six_only = six && six_only;
    socket->takes = ci_kaddress_family(&local);
    if (IN6_IS_ADDR_UNSPECIFIED(&local.sin6_addr) && !socket->six_only)
        socket->takes = CI_KFOUR | CI_KSIX;
    return 0;
}

void ci_kaddress_show(const struct ci_ksocket *socket, const struct sockaddr_in6 *address,
                      void *ret_address, socklen_t *ret_len)
{
    struct sockaddr_in four = unmap(address);
    if (socket->six)
        memcpy(ret_address, address, *ret_len = sizeof *address);
    else
        memcpy(ret_address, &four, *ret_len = sizeof four);
}

const struct ci_node *ci_kaddress_node(const struct ci_node *from,
                                       const struct sockaddr_in6 *address)
{
    struct sockaddr_in four;
    if (find_route(address, &four) < 0 || ci_sim_address_is_black_hole(&four))
        return NULL;
    return four.sin_addr.s_addr == INADDR_ANY ? from : ci_sim_address_node(ci_k.world, from, &four);
}
