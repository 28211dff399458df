/* How long an address in a sockaddr_storage is. */
#ifndef CI_BASE_ADDRESS_H
#define CI_BASE_ADDRESS_H

#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/un.h>

/* 0 where there is none. What a Unix address does not use of the storage is zero. */
static inline socklen_t ci_address_len(const struct sockaddr_storage *address)
{
    const struct sockaddr_un *local = (const struct sockaddr_un *)(const void *)address;
    size_t name = offsetof(struct sockaddr_un, sun_path);
    if (address->ss_family == AF_UNSPEC)
        return 0;
    if (address->ss_family != AF_UNIX)
        return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                              : sizeof(struct sockaddr_in);
    if (!local->sun_path[0] && local->sun_path[1])
        return (socklen_t)(name + 1 + strnlen(local->sun_path + 1, sizeof local->sun_path - 1));
    if (!local->sun_path[0])
        return (socklen_t)name;
    size_t len = strnlen(local->sun_path, sizeof local->sun_path);
    /* includes the NUL, if there is one: a path of the full length has none */
    return (socklen_t)(name + len + (len < sizeof local->sun_path));
}

#endif
