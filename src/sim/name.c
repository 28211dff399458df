#include "sim/name.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/address.h"
#include "sim/trace.h"

struct ci_sim_name {
    struct ci_sim_name *next;
    coir_name_answer answer;
    char *addresses; /* NULL: the host of that name */
    char name[];
};

static struct ci_sim_name *find(const struct ci_world *world, const char *name)
{
    struct ci_sim_name *found = world->names;
    while (found && strcmp(found->name, name) != 0)
        found = found->next;
    return found;
}

int ci_world_set_name(struct ci_world *world, const char *name, const coir_name_answer *answer)
{
    struct ci_sim_name *record = find(world, name);
    char *addresses = answer->addresses ? strdup(answer->addresses) : NULL;
    if (answer->addresses && !addresses)
        return -ENOMEM;
    if (!record) {
        if (!(record = calloc(1, sizeof *record + strlen(name) + 1))) {
            free(addresses);
            return -ENOMEM;
        }
        memcpy(record->name, name, strlen(name) + 1);
        record->next = world->names;
        world->names = record;
    }
    free(record->addresses);
    record->addresses = addresses;
    record->answer = *answer;
    ci_world_trace(world, NULL, "name %s: %s", name, addresses ? addresses : "its host");
    return 0;
}

void ci_world_free_names(struct ci_world *world)
{
    while (world->names) {
        struct ci_sim_name *record = world->names;
        world->names = record->next;
        free(record->addresses);
        free(record);
    }
}

/* The node of that name with the lowest number: a restart does not change which it is. */
static const struct ci_node *find_node(const struct ci_world *world, const char *name)
{
    const struct ci_node *found = NULL;
    for (const struct ci_node *node = world->nodes; node; node = node->next)
        if (node->number && strcmp(node->name, name) == 0 &&
            (!found || node->number < found->number))
            found = node;
    return found;
}

static bool add_host(const struct ci_world *world, const char *name, int family,
                     union ci_ip *ret_ip)
{
    const struct ci_node *node = find_node(world, name);
    if (!node)
        return false;
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = ci_sim_address_of(node)};
    struct sockaddr_storage out;
    socklen_t len;
    ci_sim_address_out(&in, family == AF_INET6, &out, &len);
    memcpy(ret_ip, &out, sizeof *ret_ip);
    return true;
}

/* Adds one word of a list: a numeric address of the family, or the name of a host. */
static bool add_word(const struct ci_world *world, const char *word, int family,
                     union ci_ip *ret_ip)
{
    union ci_ip ip = {.six = {.sin6_family = AF_INET6}};
    bool six = inet_pton(AF_INET6, word, &ip.six.sin6_addr) == 1;
    if (!six) {
        ip.four = (struct sockaddr_in){.sin_family = AF_INET};
        if (inet_pton(AF_INET, word, &ip.four.sin_addr) != 1)
            return add_host(world, word, family, ret_ip);
    }
    if (ip.any.sa_family != family)
        return false;
    *ret_ip = ip;
    return true;
}

static void add_list(const struct ci_world *world, const char *list, int family, struct ci_ips *ips)
{
    char word[64];
    while (ips->count < CI_IPS_MAX && *(list += strspn(list, " "))) {
        size_t len = strcspn(list, " ");
        snprintf(word, sizeof word, "%.*s", (int)len, list);
        ips->count += add_word(world, word, family, &ips->ip[ips->count]);
        list += len;
    }
}

int ci_world_resolve(const struct ci_world *world, const char *host, int family,
                     struct ci_ips *ret_ips, coir_time *ret_delay)
{
    const struct ci_sim_name *record = find(world, host);
    struct ci_ips ips = {0};
    *ret_delay = 0;
    if (!record) { /* without a record a host has its IPv4 address */
        ips.count = strcmp(host, "localhost") == 0 ||
                    (family == AF_INET && add_host(world, host, family, &ips.ip[0]));
        if (strcmp(host, "localhost") == 0 && family == AF_INET)
            ips.ip[0].four = (struct sockaddr_in){.sin_family = AF_INET,
                                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        else if (strcmp(host, "localhost") == 0)
            ips.ip[0].six =
                (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    } else {
        const coir_name_answer *answer = &record->answer;
        int error = family == AF_INET6 ? answer->error_ipv6 : answer->error;
        *ret_delay = family == AF_INET6 ? answer->latency_ipv6 : answer->latency;
        if (error)
            return error;
        add_list(world, record->addresses ? record->addresses : host, family, &ips);
    }
    if (!ips.count)
        return -COIR_ENAME;
    *ret_ips = ips;
    return 0;
}
