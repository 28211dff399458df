/* Names for tests, which are the system themselves instead of sys/lookup.c: "N.example" has the
 * addresses 10.1.0.N and fd01::N; "unknown..." has none; for "broken..." the name servers fail;
 * "dead..." is not answered before `release`. */
#ifndef TEST_NAMES_H
#define TEST_NAMES_H

#include <coir.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "sys/lookup.h"

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int asked, dead, answered; /* dead: threads that wait for `release` */
    bool release;
    char last[64];
    uint64_t stamp;
} sys = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static inline void stay_dead(void)
{
    sys.dead++;
    pthread_cond_broadcast(&sys.changed);
    while (!sys.release)
        pthread_cond_wait(&sys.changed, &sys.lock);
    sys.dead--;
}

int ci_sys_lookup(const char *host, int family, struct ci_ips *ret_ips)
{
    unsigned number = 0;
    pthread_mutex_lock(&sys.lock);
    sys.asked++;
    snprintf(sys.last, sizeof sys.last, "%s", host);
    if (strncmp(host, "dead", 4) == 0)
        stay_dead();
    sys.answered++;
    pthread_cond_broadcast(&sys.changed);
    pthread_mutex_unlock(&sys.lock);
    if (strncmp(host, "broken", 6) == 0)
        return -COIR_ENAMESERVER;
    if (sscanf(host, "%u.example", &number) != 1)
        return -COIR_ENAME;
    memset(ret_ips, 0, sizeof *ret_ips);
    ret_ips->count = 1;
    ret_ips->ip[0].any.sa_family = (sa_family_t)family;
    if (family == AF_INET)
        ret_ips->ip[0].four.sin_addr.s_addr = htonl(0x0a010000 | number);
    else
        memcpy(&ret_ips->ip[0].six.sin6_addr,
               (uint8_t[16]){0xfd, 1, [14] = (uint8_t)(number >> 8), [15] = (uint8_t)number}, 16);
    return 0;
}

bool ci_sys_hosts_lack(const char *host, int family)
{
    (void)host, (void)family;
    return false;
}

uint64_t ci_sys_lookup_stamp(void)
{
    pthread_mutex_lock(&sys.lock);
    uint64_t stamp = sys.stamp;
    pthread_mutex_unlock(&sys.lock);
    return stamp;
}

static inline int asked(void)
{
    pthread_mutex_lock(&sys.lock);
    int count = sys.asked;
    pthread_mutex_unlock(&sys.lock);
    return count;
}

static inline void wait_for_dead(int count)
{
    pthread_mutex_lock(&sys.lock);
    while (sys.dead < count)
        pthread_cond_wait(&sys.changed, &sys.lock);
    pthread_mutex_unlock(&sys.lock);
}

static inline void release(void)
{
    pthread_mutex_lock(&sys.lock);
    sys.release = true;
    pthread_cond_broadcast(&sys.changed);
    pthread_mutex_unlock(&sys.lock);
}

static inline void wait_for_answers(int count)
{
    pthread_mutex_lock(&sys.lock);
    while (sys.answered < count)
        pthread_cond_wait(&sys.changed, &sys.lock);
    pthread_mutex_unlock(&sys.lock);
}

static coir_config config = COIR_CONFIG;

static inline void run(coir_task_fn *fn, size_t workers)
{
    coir_runtime *runtime;
    config.workers = workers;
    config.environment = 0;
    CHECK_EQ(coir_runtime_new(&config, &runtime), 0);
    CHECK_EQ(coir_runtime_run(runtime, fn, NULL), 0);
    coir_runtime_free(runtime);
}

static inline int resolve_one(const char *name, enum coir_family family)
{
    coir_resolve_options options = COIR_RESOLVE_OPTIONS;
    coir_address address;
    options.family = family;
    return coir_resolve_with(name, &options, &address, 1);
}

static inline int resolve_four(const char *name)
{
    return resolve_one(name, COIR_IPV4);
}

/* The name has these addresses, in this order. */
static inline void expect(const char *name, int count, ...)
{
    va_list args;
    coir_address found[8];
    char text[64];
    CHECK_EQ(coir_resolve(name, found, 8), count);
    va_start(args, count);
    for (int i = 0; i < count; i++) {
        const char *want = va_arg(args, const char *);
        CHECK(coir_address_format(&found[i], text, sizeof text) > 0);
        if (strcmp(text, want) != 0)
            test_fail(__FILE__, __LINE__, "%s is %s, not %s", name, text, want);
    }
    va_end(args);
}

static inline int ask_in_vain(void *arg)
{
    CHECK_EQ(resolve_four(arg), -ECANCELED);
    return 0;
}

static inline int see_dead(void *arg)
{
    wait_for_dead((int)(intptr_t)arg);
    return 0;
}

/* A thread asks `name`, one of so many threads without an answer, and no task waits for it. */
static inline void keep_a_thread_busy(const char *name, int count)
{
    COIR_SCOPE(scope);
    CHECK_EQ(coir_go(scope, ask_in_vain, (void *)(uintptr_t)name), 0);
    CHECK_EQ(coir_offload(see_dead, (void *)(intptr_t)count), 0);
    coir_scope_cancel(scope);
    CHECK_EQ(coir_scope_wait(scope), 0);
}

#endif
