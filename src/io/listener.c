/* Opening and closing listeners. accept.c chooses the worker that gets a connection. */
#include "io/listener.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/un.h>

#include "coir/fiber.h"
#include "coir/name.h"
#include "sys/passed.h"
#include "task/log.h"

enum { BACKLOG = 4096 };

static const coir_time in_use_time = 1 * COIR_S, in_use_pause = 20 * COIR_MS;

/* Logs the error and what to do about it. */
static CI_COLD int cannot_listen(const coir_runtime *runtime, const char *address, int error)
{
    const char *remedy = "";
    switch (error) {
    case -EADDRINUSE: remedy = "; stop that one, or choose another port"; break;
    case -EEXIST: remedy = "; what is there is no socket, choose another path"; break;
    case -EWOULDBLOCK:
        remedy = "; its file is stale, but another program has locked (flock) the directory; stop "
                 "that one, or remove the file";
        break;
    case -EACCES: remedy = "; ports below 1024 need privileges, choose another one"; break;
    case -EADDRNOTAVAIL: remedy = "; 0.0.0.0 and [::] mean every address that it has"; break;
    case -COIR_EADDRESS:
    case -COIR_EHOST:
    case -COIR_EPORT: remedy = "; write it like 127.0.0.1:8080, [::1]:8080 or :8080"; break;
    case -COIR_EPATH: remedy = "; write it like unix:/run/program.sock or unix:@program"; break;
    case -COIR_EPASSED:
        remedy = "; fd:3 and systemd:NAME take a socket that listens already";
        break;
    default: break;
    }
    ci_log(runtime, COIR_LOG_ERROR, "cannot listen on \"%s\": %s%s", address, coir_strerror(error),
           remedy);
    return error;
}

static bool may_pass(int error)
{
    return error == -EADDRINUSE || error == -EWOULDBLOCK;
}

/* Retries for a second: a process on io_uring that was killed keeps its addresses until the kernel
 * has torn its rings down; and a process that starts or ends a listener locks its directory for a
 * moment. */
static int listen_patiently(struct ci_worker *worker, struct ci_listen *listen, const char *address)
{
    struct ci_driver *driver = worker->loop.driver;
    int rc = driver->kind->listen(driver, listen), waited;
    if (!may_pass(rc))
        return rc;
    ci_log(
        worker->runtime, COIR_LOG_WARNING, "%s %s", address,
        rc == -EADDRINUSE
            ? "is in use: retrying for a second, in case a killed server is still being torn down"
            : "is in a locked directory: retrying for a second, in case a server starts there");
    coir_time end = coir_in(in_use_time);
    while (may_pass(rc) && coir_now() < end) {
        if ((waited = coir_sleep_for(in_use_pause)) < 0)
            return waited;
        rc = driver->kind->listen(driver, listen);
    }
    if (rc != -EWOULDBLOCK)
        return rc;
    listen->without_lock = true;
    return driver->kind->listen(driver, listen);
}

/* A host whose address is not known at once is resolved: the first of its addresses. */
static int find_where(struct ci_worker *worker, const char *text, struct ci_where *where)
{
    coir_address first;
    int rc = ci_where_find(worker->loop.driver, text, where);
    if (rc != -COIR_ENAME || (rc = coir_resolve(text, &first, 1)) < 0)
        return rc;
    ci_where_parse(text, where);
    where->kind = CI_AT_ADDRESS;
    memcpy(&where->address, &first, sizeof where->address);
    where->len = where->address.ss_family == AF_INET ? sizeof(struct sockaddr_in)
                                                     : sizeof(struct sockaddr_in6);
    return 0;
}

static bool makes_file(const struct ci_where *where)
{
    const struct sockaddr_un *name = (const struct sockaddr_un *)(const void *)&where->address;
    return where->kind == CI_AT_ADDRESS && name->sun_family == AF_UNIX && name->sun_path[0];
}

/* Returns a listening descriptor. */
static int open_listener(struct ci_worker *worker, struct ci_where *where, struct ci_listen *listen,
                         const char *address)
{
    struct ci_driver *driver = worker->loop.driver;
    int rc;
    if (where->kind == CI_AT_SOCKET)
        return (rc = driver->kind->take(driver, where->fd, CI_PASSED_LISTENER)) < 0 ? rc
                                                                                    : where->fd;
    listen->address = (struct sockaddr *)&where->address;
    listen->address_len = where->len;
    rc = listen_patiently(worker, listen, address);
    if (!where->any || listen->ipv6_only || (rc != -EAFNOSUPPORT && rc != -EADDRNOTAVAIL))
        return rc;
    ci_address_become_ipv4(where); /* the system has no IPv6 */
    listen->address_len = where->len;
    return listen_patiently(worker, listen, address);
}

/* Turns TCP fast open on, where asked for. If that fails the descriptor is closed, unless it was
 * passed: then it stays the caller's, and its file stays where it is. */
static int set_fast_open(struct ci_worker *worker, coir_fd fd, size_t queue, bool was_passed)
{
    struct ci_driver *driver = worker->loop.driver;
    int rc = fd < 0 || !queue ? 0
             : !driver->kind->fast_open
                 ? -EOPNOTSUPP
                 : driver->kind->fast_open(driver, fd, queue < INT_MAX ? (int)queue : INT_MAX);
    if (rc == 0)
        return fd;
    if (!was_passed)
        driver->kind->close_named(driver, fd);
    return rc;
}

int coir_tcp_listen(const char *address, coir_listener **ret_listener)
{
    if (ci_worker_current && (!address || !ret_listener))
        return CI_MISUSE(-EINVAL, "address or ret_listener is NULL");
    return coir_tcp_listen_with(address, NULL, ret_listener);
}

int coir_tcp_listen_with(const char *address, const coir_listen_options *given,
                         coir_listener **ret_listener)
{
    int rc = 0;
    if (!ci_fiber_enter(&rc))
        return rc;
    if (!address || !ret_listener)
        return CI_MISUSE(-EINVAL, "address or ret_listener is NULL");
    struct ci_worker *worker = ci_worker_current;
    coir_listen_options options = COIR_LISTEN_OPTIONS;
    if ((rc = ci_options_read(&options, sizeof options, given)) < 0)
        return rc;
    struct ci_where where;
    struct ci_listen listen = {
        .backlog = options.backlog > INT_MAX ? INT_MAX
                   : options.backlog         ? (int)options.backlog
                                             : BACKLOG,
        .reuse_port = options.reuse_port,
        .ipv6_only = options.ipv6_only,
        .mode = options.unix_mode,
        .owner = options.unix_owner,
        .group = options.unix_group,
    };
    if (options.at_limit > COIR_LIMIT_CLOSES)
        return -EINVAL;
    rc = find_where(worker, address, &where);
    if (rc == 0 && (listen.mode || listen.owner || listen.group) && !makes_file(&where))
        rc = -EINVAL;
    if (rc < 0)
        return rc == coir_task_interrupted() ? rc : cannot_listen(worker->runtime, address, rc);
    coir_listener *listener = ci_listener_new(worker->runtime, -1);
    if (!listener)
        return -ENOMEM;
    listener->was_passed = where.kind == CI_AT_SOCKET;
    rc = open_listener(worker, &where, &listen, address);
    if ((rc = set_fast_open(worker, rc, options.fast_open, listener->was_passed)) < 0) {
        ci_listener_unref(listener);
        return rc == coir_task_interrupted() ? rc : cannot_listen(worker->runtime, address, rc);
    }
    listener->fd = rc;
    listener->connections_max =
        options.connections_max == COIR_UNLIMITED ? 0 : options.connections_max;
    listener->closes_at_limit = options.at_limit == COIR_LIMIT_CLOSES;
    listener->is_unix = ci_socket_is_unix(worker->loop.driver, listener->fd);
    ci_listener_meter(listener, address);
    *ret_listener = listener;
    return 0;
}

int coir_listener_local(const coir_listener *listener, char *text, size_t size)
{
    if (ci_forked())
        return -COIR_EFORKED;
    struct ci_worker *worker = ci_worker_current;
    if (!worker)
        return ci_no_worker();
    if (!listener || (!text && size))
        return CI_MISUSE(-EINVAL, "listener or text is NULL");
    struct sockaddr_storage address;
    socklen_t len;
    int rc = worker->loop.driver->kind->address(worker->loop.driver, listener->fd, false, &address,
                                                &len);
    return rc < 0 ? rc : ci_address_format(&address, text, size);
}

/* ---- pause and resume ---- */

/* Whether the calling thread is no worker of the listener's runtime: 0, or a misuse. */
static int elsewhere(const coir_listener *listener, const char *call, const void *place)
{
    const struct ci_worker *worker = ci_worker_current, *first = listener->seats[0].worker;
    return worker && worker->runtime == first->runtime ? 0
                                                       : ci_misused_elsewhere(first, call, place);
}

static int set_paused(coir_listener *listener, bool paused, const char *call, const void *place)
{
    int rc;
    if (ci_forked())
        return -COIR_EFORKED;
    if (!ci_worker_current)
        return ci_no_worker();
    if ((rc = elsewhere(listener, call, place)) < 0)
        return rc;
    ci_admission_pause(listener, paused);
    ci_seat_tell_all(listener);
    return 0;
}

int coir_listener_pause(coir_listener *listener)
{
    return listener ? set_paused(listener, true, CI_CALL, CI_PLACE)
                    : CI_MISUSE(-EINVAL, "listener is NULL");
}

int coir_listener_resume(coir_listener *listener)
{
    return listener ? set_paused(listener, false, CI_CALL, CI_PLACE)
                    : CI_MISUSE(-EINVAL, "listener is NULL");
}

/* ---- another process with the same socket ---- */

coir_fd coir_listener_share(coir_listener *listener)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!ci_worker_current)
        return ci_no_worker();
    if (!listener)
        return CI_MISUSE(-EINVAL, "listener is NULL");
    if (ci_worker_current->loop.driver->kind->simulated)
        return -EOPNOTSUPP;
    coir_fd fd = ci_passed_share(listener->fd);
    if (fd >= 0) {
        ci_store_relaxed(&listener->is_shared, true);
        ci_seat_tell_all(listener);
    }
    return fd;
}

/* ---- the end ---- */

void coir_listener_close(coir_listener *listener)
{
    if (!listener || ci_forked() || elsewhere(listener, CI_CALL, CI_PLACE) ||
        CI_REFUSED_AS(-EBADF, ci_load_relaxed(&listener->closed), "it was closed before"))
        return;
    ci_seat_end_all(listener);
    ci_listener_unref(listener);
}
