/* Looking up names by the system. A test program may provide its own answers instead of
 * lookup.c. */
#ifndef CI_SYS_LOOKUP_H
#define CI_SYS_LOOKUP_H

#include <netinet/in.h>
#include <stdbool.h>
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

/* Addresses of one host; their ports are 0. Further addresses are ignored. */
enum { CI_IPS_MAX = 16 };
struct ci_ips {
    size_t count;
    union ci_ip ip[CI_IPS_MAX];
};

/* Whether /etc/hosts has the host, but no address of that family. Then it has none: asked for it
 * alone, name servers would be believed, and a host that the file leads elsewhere would be reached
 * where they say. */
bool ci_sys_hosts_lack(const char *host, int family);

/* Looks up, by getaddrinfo(3), the addresses of one family (AF_INET, AF_INET6), in the order in
 * which they should be tried. Blocks for as long as name servers take. 0; -COIR_ENAME there is
 * none; -COIR_ENAMESERVER name servers did not answer, or failed; others. */
int ci_sys_lookup(const char *host, int family, struct ci_ips *ret_ips);

/* A number that changes when /etc/hosts or /etc/resolv.conf change. */
uint64_t ci_sys_lookup_stamp(void);

#endif
