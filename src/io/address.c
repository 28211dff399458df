/* Addresses as text. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "driver/kernel.h"
#include "io/io.h"

enum { HOST_MOST = 256 };

static int parse_port(const char *text, uint16_t *ret_port)
{
    unsigned port = 0;
    if (!*text)
        return -COIR_EADDRESS;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || (port = port * 10 + (unsigned)(*text - '0')) > 65535)
            return -COIR_EADDRESS;
    }
    *ret_port = (uint16_t)port;
    return 0;
}

static void set_port(struct sockaddr_storage *address, uint16_t port)
{
    if (address->ss_family == AF_INET)
        ((struct sockaddr_in *)(void *)address)->sin_port = htons(port);
    else
        ((struct sockaddr_in6 *)(void *)address)->sin6_port = htons(port);
}

static int parse_host(struct ci_driver *driver, const char *host, bool bracketed,
                      struct sockaddr_storage *address, socklen_t *len)
{
    memset(address, 0, sizeof *address);
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)address;
    if (bracketed || strcmp(host, "*") == 0) {
        v6->sin6_family = AF_INET6;
        *len = sizeof *v6;
        return !bracketed || inet_pton(AF_INET6, host, &v6->sin6_addr) == 1 ? 0 : -COIR_EADDRESS;
    }
    v4->sin_family = AF_INET;
    *len = sizeof *v4;
    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1)
        return 0;
    return driver ? driver->kind->resolve(driver, host, address, len)
                  : ci_kernel_resolve(NULL, host, address, len);
}

int ci_address_parse(struct ci_driver *driver, const char *text,
                     struct sockaddr_storage *ret_address, socklen_t *ret_len)
{
    char host[HOST_MOST];
    const char *colon = strrchr(text, ':');
    bool bracketed = text[0] == '[';
    size_t len = colon ? (size_t)(colon - text) : 0;
    if (len == 0 || len >= sizeof host || (bracketed && (len < 3 || colon[-1] != ']')))
        return -COIR_EADDRESS;
    if (bracketed) {
        text++;
        len -= 2;
    }
    if (memchr(text, ':', len) && !bracketed)
        return -COIR_EADDRESS;
    memcpy(host, text, len);
    host[len] = '\0';
    uint16_t port = 0;
    int rc = parse_port(colon + 1, &port);
    struct sockaddr_storage address;
    socklen_t address_len = 0;
    if (rc == 0)
        rc = parse_host(driver, host, bracketed, &address, &address_len);
    if (rc < 0)
        return rc;
    set_port(&address, port);
    *ret_address = address;
    *ret_len = address_len;
    return 0;
}

int ci_address_format(const struct sockaddr_storage *address, char *text, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "";
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
        return snprintf(text, size, "%s:%u", host, (unsigned)ntohs(v4->sin_port));
    }
    if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
        return snprintf(text, size, "[%s]:%u", host, (unsigned)ntohs(v6->sin6_port));
    }
    return -EOPNOTSUPP;
}
