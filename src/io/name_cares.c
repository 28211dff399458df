/* See name_cares.h. */
#include "io/name_cares.h"

#include <ares.h>
#include <errno.h>
#include <string.h>
#include <sys/time.h>

#include "base/check.h"
#include "coir/descriptor.h"
#include "io/io.h"
#include "task/sleep.h"

struct ci_cares {
    coir_future future;
    ares_channel channel;
    int family;

    /* the arguments of the callback */
    bool told;
    int status;
    struct ares_addrinfo *found;

    struct ci_cares_answer answer;

    /* what the leader waits for */
    /* is_asked: the leader's future is suspended; is_polled: the sockets are polled */
    bool is_asked, is_polled;
    coir_group group;
    int socket_count;
    ares_socket_t sockets[ARES_GETSOCK_MAXNUM];
    struct ci_io_op polls[ARES_GETSOCK_MAXNUM];
    struct ci_sleep_op pause;
    /* one for each socket, and the last for the timeout */
    coir_branch branches[ARES_GETSOCK_MAXNUM + 1];
};

/* ---- one question ---- */

static void on_answer(void *arg, int status, int timeouts, struct ares_addrinfo *found)
{
    struct ci_cares *cares = arg;
    (void)timeouts;
    ci_check(!cares->told, "name_cares.h 3");
    cares->told = true;
    cares->status = status;
    cares->found = found;
}

static int error_of(int status)
{
    switch (status) {
    case ARES_SUCCESS: return 0;
    case ARES_ENODATA:
    case ARES_ENOTFOUND:
    case ARES_EBADNAME: return -COIR_ENAME;
    case ARES_ENOMEM: return -ENOMEM;
    default: return -COIR_ENAMESERVER;
    }
}

static void limit_ttl(struct ci_cares_answer *answer, int seconds)
{
    coir_time ttl = (seconds > 0 ? seconds : 0) * COIR_S;
    if (ttl < answer->ttl)
        answer->ttl = ttl;
}

/* Makes the answer from the arguments of the callback. */
static void read_answer(struct ci_cares *cares)
{
    struct ci_cares_answer *answer = &cares->answer;
    answer->error = error_of(cares->status);
    answer->ttl = COIR_NEVER;
    if (!cares->found)
        return;
    for (const struct ares_addrinfo_cname *cname = cares->found->cnames; cname; cname = cname->next)
        limit_ttl(answer, cname->ttl);
    for (const struct ares_addrinfo_node *node = cares->found->nodes; node; node = node->ai_next) {
        union ci_ip *ip = &answer->ips.ip[answer->ips.count];
        if (answer->ips.count == CI_IPS_MAX || node->ai_addrlen > sizeof *ip ||
            node->ai_family != cares->family) /* a server may answer with addresses of the other */
            continue;
        memcpy(ip, node->ai_addr, node->ai_addrlen);
        answer->ips.count++;
        limit_ttl(answer, node->ai_ttl);
    }
    ares_freeaddrinfo(cares->found);
    cares->found = NULL;
    if (answer->error == 0 && !answer->ips.count)
        answer->error = -COIR_ENAME;
}

/* The error of a question that c-ares has given up before it waited: it could not make a socket,
 * and does not tell why. */
static int find_shortage(void)
{
    struct ci_driver *driver = ci_worker_current->loop.driver;
    coir_fd fd = driver->kind->socket(driver, AF_INET);
    if (fd < 0)
        return fd;
    ci_driver_close(driver, fd);
    return 0;
}

static void free_cares(struct ci_cares *cares, const coir_allocator *allocator)
{
    if (!cares)
        return;
    ci_check(!cares->is_polled, "name_cares.h 2");
    ares_destroy(cares->channel); /* calls the callback, if it was not called yet */
    ares_freeaddrinfo(cares->found);
    ci_free(allocator, cares, sizeof *cares);
}

static int start(const coir_allocator *allocator, const char *servers, const char *host, int family,
                 struct ci_cares **ret_cares)
{
    struct ares_addrinfo_hints hints = {
        .ai_flags = ARES_AI_NOSORT, .ai_family = family, .ai_socktype = SOCK_STREAM};
    struct ci_cares *cares = ci_alloc_zero(allocator, sizeof *cares);
    if (!cares)
        return -ENOMEM;
    cares->family = family;
    if (ci_sys_hosts_lack(host, family)) {
        cares->told = true;
        cares->status = ARES_ENOTFOUND;
        *ret_cares = cares;
        return 0;
    }
    int status = ares_init(&cares->channel);
    if (status != ARES_SUCCESS) {
        ci_free(allocator, cares, sizeof *cares);
        return error_of(status);
    }
    if (servers && ares_set_servers_ports_csv(cares->channel, servers) != ARES_SUCCESS) {
        free_cares(cares, allocator);
        return -COIR_EADDRESS;
    }
    ares_getaddrinfo(cares->channel, host, NULL, &hints, on_answer, cares);
    int rc = cares->told && error_of(cares->status) == -COIR_ENAMESERVER ? find_shortage() : 0;
    if (rc < 0) {
        free_cares(cares, allocator);
        return rc;
    }
    *ret_cares = cares;
    return 0;
}

/* ---- waiting ---- */

static coir_future *wait_for_sockets(struct ci_cares *self)
{
    /* reads, then writes */
    unsigned bits = (unsigned)ares_getsock(self->channel, self->sockets, ARES_GETSOCK_MAXNUM);
    int count = 0;
    struct timeval time, *until = ares_timeout(self->channel, NULL, &time);
    for (int i = 0; i < ARES_GETSOCK_MAXNUM; i++) {
        int events = (bits >> i & 1 ? COIR_READ : 0) |
                     (bits >> (i + ARES_GETSOCK_MAXNUM) & 1 ? COIR_WRITE : 0);
        if (!events)
            continue;
        self->sockets[count] = self->sockets[i];
        coir_future *poll =
            coir_fd_wait_op((coir_io_op *)(void *)&self->polls[count], self->sockets[i], events);
        self->branches[count++] = (coir_branch)COIR_BRANCH(poll);
    }
    self->socket_count = count;
    coir_time pause = until ? until->tv_sec * COIR_S + until->tv_usec * COIR_US : COIR_NEVER;
    self->branches[count] =
        (coir_branch)COIR_BRANCH(coir_sleep_for_op((coir_sleep_op *)(void *)&self->pause, pause));
    return coir_any_op(&self->group, self->branches, (size_t)count + 1);
}

/* Has c-ares handle the sockets that are ready, and queries that have timed out. */
static void process(struct ci_cares *self)
{
    ci_check(!self->is_polled, "name_cares.h 2");
    for (int i = 0; i < self->socket_count; i++) {
        int64_t events = self->polls[i].future.result;
        if (!coir_branch_is_complete(&self->branches[i]) || events == 0)
            continue;
        bool write = events > 0 && !(events & ~COIR_WRITE);
        ares_process_fd(self->channel, write ? ARES_SOCKET_BAD : self->sockets[i],
                        write ? self->sockets[i] : ARES_SOCKET_BAD);
    }
    ares_process_fd(self->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
}

/* Where a socket cannot be waited on, which is a shortage, that is the answer: c-ares would have it
 * waited on again at once. */
static bool cannot_wait(struct ci_cares *self)
{
    int64_t rc = 0;
    for (int i = 0; i < self->socket_count && rc == 0; i++)
        if (coir_branch_is_complete(&self->branches[i]) && self->polls[i].future.result < 0 &&
            self->polls[i].future.result != -ECANCELED)
            rc = self->polls[i].future.result;
    self->answer.error = (int)rc;
    self->answer.ttl = COIR_NEVER;
    return rc < 0;
}

static coir_future *ask_poll(coir_future *future)
{
    struct ci_cares *self = ci_container_of(future, struct ci_cares, future);
    COIR_BEGIN(future);
    ci_check(!self->is_asked, "name_cares.h 1");
    self->is_asked = true;
    while (!self->told) {
        self->is_polled = true;
        COIR_AWAIT(future, wait_for_sockets(self));
        self->is_polled = false; /* the group has ended, so all of its members have */
        if (self->group.future.result < 0 || cannot_wait(self))
            break;
        process(self);
    }
    self->is_asked = false;
    if (self->told)
        read_answer(self);
    else if (self->group.future.result < 0)
        COIR_RETURN(future, self->group.future.result);
    COIR_RETURN(future, 0);
}

static const coir_future_kind ask_kind = COIR_FUTURE_KIND("a name server", ask_poll, NULL);

static coir_future *ask(struct ci_cares *cares)
{
    return coir_future_init(&cares->future, &ask_kind);
}

static const struct ci_cares_answer *answer_of(const struct ci_cares *cares)
{
    return &cares->answer;
}

static const struct ci_cares_calls calls = {start, ask, answer_of, free_cares};
const struct ci_cares_calls *const ci_cares = &calls;
