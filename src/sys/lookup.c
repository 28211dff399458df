#include "sys/lookup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/ascii.h"

static int error_of(int rc, int error)
{
    switch (rc) {
    case 0: return 0;
    case EAI_NONAME:
#if defined(EAI_ADDRFAMILY)
    case EAI_ADDRFAMILY:
#endif
#if defined(EAI_NODATA) && EAI_NODATA != EAI_NONAME
    case EAI_NODATA:
#endif
        return -COIR_ENAME;
    case EAI_MEMORY: return -ENOMEM;
    case EAI_SYSTEM: return error ? -error : -COIR_ENAMESERVER;
    default: return -COIR_ENAMESERVER;
    }
}

/* ---- /etc/hosts ---- */

enum { HAS_FOUR = 1, HAS_SIX = 2, HAS_LOOPBACK = 4 };

/* The families of an address, which may have a zone. */
static unsigned families_of(char *address)
{
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, address, &four) == 1)
        return HAS_FOUR;
    address[strcspn(address, "%")] = '\0';
    if (inet_pton(AF_INET6, address, &six) != 1)
        return 0;
    if (IN6_IS_ADDR_LOOPBACK(&six))
        return HAS_SIX | HAS_LOOPBACK;
    return IN6_IS_ADDR_V4MAPPED(&six) ? HAS_FOUR | HAS_SIX : HAS_SIX;
}

/* Those of a line's address, if it has the host among its names. */
static unsigned families_in(char *line, const char *host)
{
    char *rest, *name;
    line[strcspn(line, "#\n")] = '\0';
    char *address = strtok_r(line, " \t", &rest);
    if (!address)
        return 0;
    while ((name = strtok_r(NULL, " \t", &rest)))
        if (ci_ascii_same(name, host))
            return families_of(address);
    return 0;
}

/* What the file has of the host. */
static unsigned find_in_hosts(const char *host)
{
    char *line = NULL;
    size_t size = 0;
    unsigned found = 0;
    FILE *file = fopen("/etc/hosts", "re");
    while (file && getline(&line, &size, file) >= 0)
        found |= families_in(line, host);
    free(line);
    if (file)
        fclose(file);
    return found;
}

static bool lacks(unsigned found, int family)
{
    return found && !(found & (family == AF_INET ? HAS_FOUR : HAS_SIX));
}

bool ci_sys_hosts_lack(const char *host, int family)
{
    return lacks(find_in_hosts(host), family);
}

/* ---- getaddrinfo(3) ---- */

static void add(struct ci_ips *ips, const struct sockaddr *address, socklen_t len)
{
    union ci_ip *ip = &ips->ip[ips->count];
    if (len > sizeof *ip || ips->count == CI_IPS_MAX)
        return;
    memset(ip, 0, sizeof *ip);
    memcpy(ip, address, len);
    for (size_t i = 0; i < ips->count; i++)
        if (memcmp(&ips->ip[i], ip, sizeof *ip) == 0)
            return;
    ips->count++;
}

int ci_sys_lookup(const char *host, int family, struct ci_ips *ret_ips)
{
    struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_STREAM}, *found = NULL;
    unsigned has = find_in_hosts(host);
    if (lacks(has, family) && !(has & HAS_LOOPBACK)) /* of ::1 glibc makes 127.0.0.1, too */
        return -COIR_ENAME;
    int rc = getaddrinfo(host, NULL, &hints, &found), error = errno;
    if (rc)
        return error_of(rc, error);
    struct ci_ips ips = {0};
    for (const struct addrinfo *at = found; at; at = at->ai_next)
        if (at->ai_family == family)
            add(&ips, at->ai_addr, at->ai_addrlen);
    freeaddrinfo(found);
    if (!ips.count)
        return -COIR_ENAME;
    *ret_ips = ips;
    return 0;
}

uint64_t ci_sys_lookup_stamp(void)
{
    static const char *const files[] = {"/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf"};
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct stat now;
        if (stat(files[i], &now) < 0)
            memset(&now, 0, sizeof now);
        uint64_t parts[] = {(uint64_t)now.st_ino, (uint64_t)now.st_size,
                            (uint64_t)now.st_mtim.tv_sec, (uint64_t)now.st_mtim.tv_nsec};
        for (size_t part = 0; part < sizeof parts / sizeof *parts; part++)
            sum = (sum ^ parts[part]) * 1099511628211u; /* FNV-1a, by words */
    }
    return sum;
}
