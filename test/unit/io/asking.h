/* What a runtime must do with a name server that lies (dns.h), whichever way it asks: by c-ares
 * (name_cares_test.c) or by getaddrinfo (system_names_test.c). */
#ifndef TEST_ASKING_H
#define TEST_ASKING_H

#include <coir.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dns.h"
#include "giving_up.h"

static inline int resolve(const char *name, enum coir_family family, coir_address *ret, size_t max)
{
    coir_resolve_options options = COIR_RESOLVE_OPTIONS;
    options.family = family;
    return coir_resolve_with(name, &options, ret, max);
}

/* ---- each lie ---- */

struct row {
    const char *name;
    int four, six; /* how many addresses, or the error */
};

static const struct row lies[] = {
    {"plain.test:80", 1, 1},
    {"second.test:80", 1, 1},
    {"slow.test:80", 1, 1},
    {"stale.test:80", 1, 1},
    {"wrongid.test:80", 1, 1},
    {"wrongname.test:80", 1, 1},
    {"cut.test:80", 16, 16}, /* of 20: CI_IPS_MAX */
    {"large.test:80", 16, 16},
    {"chain.test:80", 1, 1},
    {"loop.test:80", -COIR_ENAME, -COIR_ENAME},
    {"nx.test:80", -COIR_ENAME, -COIR_ENAME},
    {"other.test:80", -COIR_ENAME, -COIR_ENAME},
    {"fail.test:80", -COIR_ENAMESERVER, -COIR_ENAMESERVER},
    {"garbage.test:80", -COIR_ENAMESERVER, -COIR_ENAMESERVER},
    {"drop.test:80", -COIR_ENAMESERVER, -COIR_ENAMESERVER},
};

static inline void check_family(const char *name, enum coir_family family, int want,
                                const char *first)
{
    coir_address found[16];
    char text[64] = "";
    int got = resolve(name, family, found, 16);
    if (got > 0)
        coir_address_format(&found[0], text, sizeof text);
    if (got != want || (got > 0 && strcmp(text, first) != 0))
        test_fail(__FILE__, __LINE__, "%s: %d (%s) %s, not %d", name, got,
                  got < 0 ? coir_strerror(got) : "", text, want);
}

static inline void check_row(const struct row *row)
{
    check_family(row->name, COIR_IPV4, row->four, "192.0.2.1:80");
    check_family(row->name, COIR_IPV6, row->six, "[2001:db8::1]:80");
}

/* ---- asked once, on the wire ---- */

enum { NAMES = 100, ASKERS = 10000 };

static inline int ask_numbered(void *arg)
{
    char name[32];
    coir_address one;
    snprintf(name, sizeof name, "plain%d.test:80", (int)((uintptr_t)arg % NAMES));
    CHECK_EQ(resolve(name, COIR_IPV4, &one, 1), 1);
    return 0;
}

/* In a runtime of two workers. */
static inline void ask_all_and_count(void)
{
    COIR_SCOPE(scope);
    for (uintptr_t i = 0; i < ASKERS; i++)
        CHECK_EQ(coir_go_on(scope, (int)(i / NAMES % 2), ask_numbered, (void *)i), 0);
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(dns_asked(false), NAMES);
    CHECK_EQ(dns_asked(true), 0);
}

/* ---- a name server that is silent ---- */

static int patient; /* tasks whose question has been answered */

static inline int ask_held(void *arg)
{
    coir_address one;
    char name[32];
    snprintf(name, sizeof name, "held%d.test:80", (int)(intptr_t)arg);
    CHECK_EQ(resolve(name, COIR_IPV4, &one, 1), 1);
    patient++;
    return 0;
}

static inline int await_held(void *arg)
{
    while (dns_held() < (int)(intptr_t)arg)
        sched_yield();
    return 0;
}

static inline void use_file(void)
{
    char path[] = "/tmp/coir-names-XXXXXX", got[4];
    coir_file *file;
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    CHECK_EQ(coir_file_open(path, O_RDWR, 0, &file), 0);
    unlink(path);
    CHECK_EQ(coir_file_write(file, "file", 4, 0), 4);
    CHECK_EQ(coir_file_sync(file), 0);
    CHECK_EQ(coir_file_read(file, got, 4, 0), 4);
    coir_file_close(file);
}

static inline void use_socket(void)
{
    coir_listener *listener;
    coir_stream *client, *server;
    char local[64], to[64], byte;
    CHECK_EQ(coir_tcp_listen("127.0.0.1:0", &listener), 0);
    CHECK(coir_listener_local(listener, local, sizeof local) > 0);
    snprintf(to, sizeof to, "localhost%s", strrchr(local, ':'));
    CHECK_EQ(coir_tcp_connect(to, &client), 0);
    CHECK_EQ(coir_accept(listener, &server), 0);
    CHECK_EQ(coir_write(client, "x", 1), 1);
    CHECK_EQ(coir_read(server, &byte, 1), 1);
    coir_close(client);
    coir_close(server);
    coir_listener_close(listener);
}

/* `count` questions have reached a server that does not answer them. Whoever needs no such answer
 * goes on: names that are kept or of this machine, sockets, files, timers; with `others`, other
 * questions too. At last it answers. */
static inline void go_on_while_held(int count, bool others)
{
    coir_address one;
    CHECK_EQ(resolve("plain.test:80", COIR_IPV4, &one, 1), 1);
    COIR_SCOPE(scope);
    for (int i = 0; i < count; i++)
        CHECK_EQ(coir_go(scope, ask_held, (void *)(intptr_t)i), 0);
    CHECK_EQ(coir_offload(await_held, (void *)(intptr_t)count), 0);
    CHECK_EQ(resolve("plain.test:80", COIR_IPV4, &one, 1), 1);
    if (others)
        CHECK_EQ(resolve("plain1.test:80", COIR_IPV4, &one, 1), 1);
    use_file();
    use_socket();
    CHECK_EQ(coir_sleep_for(COIR_MS), 0);
    {
        COIR_DEADLINE(coir_in(COIR_MS));
        CHECK_EQ(resolve("held0.test:80", COIR_IPV4, &one, 1), -ETIME);
    }
    CHECK_EQ(patient, 0);
    CHECK_EQ(dns_asked(false), 1 + count + others);
    dns_release();
    CHECK_EQ(coir_scope_wait(scope), 0);
    CHECK_EQ(patient, count);
}

#endif
