/* Addresses as text, in the forms of coir/tcp.h. Parsing makes no system call, except for systemd:
 * (which reads the environment) and for the name of an interface. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "driver/kernel.h"
#include "io/io.h"
#include "sys/passed.h"

static int parse_number(const char *text, unsigned most, unsigned *ret_number)
{
    unsigned number = 0;
    if (!*text)
        return -EINVAL;
    for (; *text; text++)
        if (*text < '0' || *text > '9' || (number = number * 10 + (unsigned)(*text - '0')) > most)
            return -EINVAL;
    *ret_number = number;
    return 0;
}

/* ---- unix:/path, unix:@name ---- */

static int parse_unix(const char *path, struct ci_where *where)
{
    struct sockaddr_un *un = (struct sockaddr_un *)(void *)&where->address;
    size_t len = strlen(path), most = sizeof un->sun_path;
    bool abstract = path[0] == '@';
    if ((path[0] != '/' && !abstract) || len + !abstract > most)
        return -COIR_EPATH;
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path, path, len);
    if (abstract)
        un->sun_path[0] = '\0';
    /* The NUL of a path counts, an abstract name has none. Without a name the system chooses an
     * abstract one. */
    size_t used = abstract ? len : len + 1;
    if (abstract && len == 1)
        used = 0;
    where->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + used);
    return 0;
}

/* ---- fd:N, systemd:NAME ---- */

static int parse_descriptor(const char *text, struct ci_where *where)
{
    unsigned fd;
    if (parse_number(text, INT32_MAX / 16, &fd) < 0)
        return -COIR_EPASSED;
    where->kind = CI_AT_SOCKET;
    where->fd = (coir_fd)fd;
    return 0;
}

static int parse_systemd(const char *name, struct ci_where *where)
{
    where->kind = CI_AT_SOCKET;
    where->fd = ci_passed_find(name);
    return where->fd < 0 ? -COIR_EPASSED : 0;
}

/* ---- host:port ---- */

void ci_address_set_port(struct sockaddr_storage *address, uint16_t port)
{
    if (address->ss_family == AF_INET)
        ((struct sockaddr_in *)(void *)address)->sin_port = htons(port);
    else
        ((struct sockaddr_in6 *)(void *)address)->sin6_port = htons(port);
}

void ci_where_set(struct ci_where *where, const union ci_ip *ip)
{
    where->kind = CI_AT_ADDRESS;
    where->len = ci_ip_len(ip);
    memset(&where->address, 0, sizeof where->address);
    memcpy(&where->address, ip, where->len);
    ci_address_set_port(&where->address, where->port);
}

void ci_address_become_ipv4(struct ci_where *any)
{
    struct sockaddr_in6 six;
    memcpy(&six, &any->address, sizeof six);
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = six.sin6_port};
    memcpy(&any->address, &four, sizeof four);
    any->len = sizeof four;
}

/* Between brackets; a zone, which a link-local address needs, is an interface's number or name. */
static int parse_ipv6(char *host, struct ci_where *where)
{
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)(void *)&where->address;
    unsigned scope = 0;
    char *zone = strchr(host, '%');
    if (zone) {
        *zone++ = '\0';
        if (parse_number(zone, INT32_MAX / 16, &scope) < 0 && !(scope = ci_sys_interface(zone)))
            return -COIR_EHOST;
    }
    six->sin6_family = AF_INET6;
    six->sin6_scope_id = scope;
    where->len = sizeof *six;
    return inet_pton(AF_INET6, host, &six->sin6_addr) == 1 ? 0 : -COIR_EHOST;
}

/* "1.2.3", "1234" and "0x7f.1" are addresses to inet_aton(3) and getaddrinfo(3), not names:
 * whatever has a number as its last label is refused, as the URL standard does. */
static bool ends_in_number(const char *host)
{
    size_t len = strlen(host), begin;
    len -= len && host[len - 1] == '.';
    for (begin = len; begin && host[begin - 1] != '.';)
        begin--;
    const char *label = host + begin, *digits = "0123456789";
    len -= begin;
    if (len >= 2 && label[0] == '0' && (label[1] | 32) == 'x') {
        digits = "0123456789abcdefABCDEF";
        label += 2;
        len -= 2;
    }
    return strspn(label, digits) >= len;
}

static bool is_name(const char *host)
{
    for (const char *at = host; *at; at++) {
        bool digit = *at >= '0' && *at <= '9', letter = (*at | 32) >= 'a' && (*at | 32) <= 'z';
        if (!digit && !letter && *at != '-' && *at != '.' && *at != '_' && !(*at & 0x80))
            return false;
        if (at[0] == '.' && (at == host || at[1] == '.'))
            return false;
    }
    return !ends_in_number(host);
}

static int parse_host(char *host, bool bracketed, struct ci_where *where)
{
    struct sockaddr_in *four = (struct sockaddr_in *)(void *)&where->address;
    if (bracketed)
        return parse_ipv6(host, where);
    if (!*host || strcmp(host, "*") == 0) {
        where->any = true;
        where->address.ss_family = AF_INET6;
        where->len = sizeof(struct sockaddr_in6);
        return 0;
    }
    if (inet_pton(AF_INET, host, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        where->len = sizeof *four;
        return 0;
    }
    if (!is_name(host))
        return -COIR_EHOST;
    where->kind = CI_AT_HOST;
    memcpy(where->host, host, strlen(host) + 1);
    return 0;
}

static int parse_host_and_port(const char *text, struct ci_where *where)
{
    char host[CI_HOST_SIZE];
    const char *colon = strrchr(text, ':');
    bool bracketed = text[0] == '[';
    unsigned port;
    const char *end = bracketed ? strchr(text, ']') : colon;
    if (bracketed && !end)
        return -COIR_EHOST;
    if (bracketed && end[1] == ':')
        colon = end + 1; /* what follows is the port, also with a colon in it */
    if (!colon || colon < end)
        return *text ? -COIR_EPORT : -COIR_EADDRESS;
    size_t len = (size_t)(end - text) - bracketed;
    if ((bracketed && colon != end + 1) || len >= sizeof host ||
        (!bracketed && memchr(text, ':', len)))
        return -COIR_EHOST;
    memcpy(host, text + bracketed, len);
    host[len] = '\0';
    int rc = parse_host(host, bracketed, where);
    if (rc < 0)
        return rc;
    if (parse_number(colon + 1, UINT16_MAX, &port) < 0)
        return -COIR_EPORT;
    where->port = (uint16_t)port;
    if (where->kind == CI_AT_ADDRESS)
        ci_address_set_port(&where->address, where->port);
    return 0;
}

static const struct {
    const char *prefix;
    int (*parse)(const char *rest, struct ci_where *where);
} forms[] = {
    {"unix:", parse_unix},
    {"fd:", parse_descriptor},
    {"systemd:", parse_systemd},
    {"", parse_host_and_port},
};

int ci_where_parse(const char *text, struct ci_where *ret_where)
{
    struct ci_where where = {.kind = CI_AT_ADDRESS, .fd = -1};
    size_t form = 0;
    while (strncmp(text, forms[form].prefix, strlen(forms[form].prefix)) != 0)
        form++;
    int rc = forms[form].parse(text + strlen(forms[form].prefix), &where);
    if (rc == 0)
        *ret_where = where;
    return rc;
}

int ci_where_find(struct ci_driver *driver, const char *text, struct ci_where *ret_where)
{
    struct ci_where where;
    struct ci_ips ips;
    coir_time delay;
    int rc = ci_where_parse(text, &where);
    if (rc == 0 && where.kind == CI_AT_HOST) {
        static const int families[] = {AF_INET, AF_INET6};
        for (size_t i = 0; i < ci_countof(families) && (i == 0 || rc < 0); i++)
            rc = driver ? driver->kind->resolve(driver, where.host, families[i], &ips, &delay)
                        : ci_kernel_resolve(NULL, where.host, families[i], &ips, &delay);
        if (rc == 0)
            ci_where_set(&where, &ips.ip[0]);
        else if (rc == -EAGAIN)
            rc = -COIR_ENAME;
    }
    if (rc == 0)
        *ret_where = where;
    return rc;
}

static bool is_abstract(const struct sockaddr_un *address)
{
    return !address->sun_path[0] && address->sun_path[1];
}

static int format_unix(const struct sockaddr_un *address, char *text, size_t size)
{
    int most = (int)sizeof address->sun_path;
    if (is_abstract(address))
        return snprintf(text, size, "unix:@%.*s", most - 1, address->sun_path + 1);
    return snprintf(text, size, "unix:%.*s", most, address->sun_path);
}

/* A peer of a socket that takes both families has an IPv4-mapped address: it is written as the IPv4
 * one that it is. A zone is written as a number. */
static int format_ipv6(const struct sockaddr_in6 *six, char *text, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "", zone[12] = "";
    unsigned port = ntohs(six->sin6_port);
    if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
        inet_ntop(AF_INET, &six->sin6_addr.s6_addr[12], host, sizeof host);
        return snprintf(text, size, "%s:%u", host, port);
    }
    inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof host);
    if (six->sin6_scope_id)
        snprintf(zone, sizeof zone, "%%%u", (unsigned)six->sin6_scope_id);
    return snprintf(text, size, "[%s%s]:%u", host, zone, port);
}

int ci_address_format(const struct sockaddr_storage *address, char *text, size_t size)
{
    char host[INET_ADDRSTRLEN] = "";
    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
        return snprintf(text, size, "%s:%u", host, (unsigned)ntohs(v4->sin_port));
    }
    if (address->ss_family == AF_INET6)
        return format_ipv6((const struct sockaddr_in6 *)(const void *)address, text, size);
    if (address->ss_family == AF_UNIX)
        return format_unix((const struct sockaddr_un *)(const void *)address, text, size);
    return -EOPNOTSUPP;
}

bool ci_socket_is_unix(struct ci_driver *driver, coir_fd fd)
{
    struct sockaddr_storage own;
    socklen_t len;
    return driver->kind->address(driver, fd, false, &own, &len) == 0 && own.ss_family == AF_UNIX;
}
