/* How long an address in a sockaddr_storage is. */
#ifndef CI_BASE_ADDRESS_H
#define CI_BASE_ADDRESS_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/un.h>

/* In the last bytes of a Unix address: the length of an abstract name with a NUL in it or at its
 * end, as programs have that bind all of a sockaddr_un; 0: the name ends before the first NUL. */
enum { CI_ADDRESS_LEN_AT = sizeof(struct sockaddr_storage) - sizeof(uint16_t) };
_Static_assert((size_t)CI_ADDRESS_LEN_AT >= sizeof(struct sockaddr_un), "behind the name");

/* 0 where there is none. What a Unix address does not use of the storage is zero. */
static inline socklen_t ci_address_len(const struct sockaddr_storage *address)
{
    const struct sockaddr_un *local = (const struct sockaddr_un *)(const void *)address;
    size_t name = offsetof(struct sockaddr_un, sun_path);
    uint16_t kept;
    if (address->ss_family == AF_UNSPEC)
        return 0;
    if (address->ss_family != AF_UNIX)
        return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                              : sizeof(struct sockaddr_in);
    memcpy(&kept, (const char *)address + CI_ADDRESS_LEN_AT, sizeof kept);
    if (kept > name && kept <= sizeof *local)
        return kept;
    if (!local->sun_path[0] && local->sun_path[1])
        return (socklen_t)(name + 1 + strnlen(local->sun_path + 1, sizeof local->sun_path - 1));
    if (!local->sun_path[0])
        return (socklen_t)name;
    size_t len = strnlen(local->sun_path, sizeof local->sun_path);
    /* includes the NUL, if there is one: a path of the full length has none */
    return (socklen_t)(name + len + (len < sizeof local->sun_path));
}

/* Has an address that the system has told keep its length, where that is not to be seen. */
static inline void ci_address_keep_len(struct sockaddr_storage *address, socklen_t len)
{
    const struct sockaddr_un *local = (const struct sockaddr_un *)(const void *)address;
    uint16_t kept = (uint16_t)len;
    if (address->ss_family == AF_UNIX && !local->sun_path[0] && ci_address_len(address) != len)
        memcpy((char *)address + CI_ADDRESS_LEN_AT, &kept, sizeof kept);
}

#endif
