/* What the system knows about names. A program of the tests may have answers of its own instead of
 * this file. */
#ifndef CI_SYS_LOOKUP_H
#define CI_SYS_LOOKUP_H

#include <netinet/in.h>
#include <stdint.h>

#include "coir/base.h"

union ci_ip {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

static inline socklen_t ci_ip_len(const union ci_ip *ip)
{
    return ip->any.sa_family == AF_INET ? sizeof ip->four : sizeof ip->six;
}

/* Addresses of one host; their ports are 0. More than that many are not looked at. */
enum { CI_IPS_MAX = 16 };
struct ci_ips {
    size_t count;
    union ci_ip ip[CI_IPS_MAX];
};

/* Asks the system, by getaddrinfo(3), for addresses of a family (AF_INET, AF_INET6), in the order
 * in which they should be tried. Blocks for as long as name servers take. 0; -COIR_ENAME there is
 * none; -COIR_ENAMESERVER name servers did not answer, or failed; others. */
int ci_sys_lookup(const char *host, int family, struct ci_ips *ret_ips);

/* A number that changes when the files change that say what names mean, /etc/hosts and
 * /etc/resolv.conf. */
uint64_t ci_sys_lookup_stamp(void);

#endif
