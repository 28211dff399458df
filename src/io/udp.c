/* Datagrams. Each operation is a future around a driver operation, and holds its message header. */
#include "coir/udp.h"

#include "task/completed.h"
#include "task/sleep.h"
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <string.h>

#include "base/address.h"
#include "io/udp.h"
#include "sys/passed.h"

struct address {
    struct sockaddr_storage storage; /* AF_UNSPEC: none */
};
CI_LEAVES_SPARE_WORDS(struct address, coir_address);

struct udp_op {
    union {
        coir_future future;
        struct ci_io_op
            io; /* the operation; or, where it may take several tries, only `future` is used */
    };
    union {
        struct ci_io_op try_io;
        struct ci_sleep_op pause;
    };
    struct msghdr message;
    coir_udp *udp;
    struct iovec data;
};
CI_LEAVES_SPARE_WORDS(struct udp_op, coir_udp_op);

static struct address *address_of(const coir_address *address)
{
    return (struct address *)(uintptr_t)address;
}

/* ---- addresses ---- */

int coir_address_parse(const char *text, coir_address *ret_address)
{
    if (!text || !ret_address)
        return CI_MISUSE(-EINVAL, "text or ret_address is NULL");
    struct ci_where where;
    int rc = ci_where_find(ci_worker_current ? ci_worker_current->loop.driver : NULL, text, &where);
    if (rc == 0 && where.kind == CI_AT_SOCKET)
        rc = -COIR_EADDRESS; /* an open socket has no address to send to */
    if (rc == 0)
        address_of(ret_address)->storage = where.address;
    return rc;
}

int coir_address_format(const coir_address *address, char *text, size_t size)
{
    if (!address || (!text && size))
        return CI_MISUSE(-EINVAL, "address or text is NULL");
    return ci_address_format(&address_of(address)->storage, text, size);
}

/* ---- sockets ---- */

/* Sets the options of a socket that was passed to the process. */
static int take_socket(struct ci_driver *driver, coir_fd fd,
                       const struct ci_datagram_options *options)
{
    struct sockaddr_storage own;
    socklen_t len;
    int rc = driver->kind->take(driver, fd, CI_PASSED_DATAGRAM);
    if (rc == 0)
        rc = driver->kind->address(driver, fd, false, &own, &len);
    if (rc == 0)
        rc = driver->kind->datagram_options(driver, fd, own.ss_family, options);
    return rc < 0 ? rc : fd;
}

/* Opens a descriptor that is bound, and connected if there is a peer. */
static int open_socket(struct ci_driver *driver, struct ci_where *own, const struct ci_where *peer,
                       const struct ci_datagram_options *options)
{
    if (own->kind == CI_AT_SOCKET)
        return take_socket(driver, own->fd, options);
    if (own->any && !options->ipv6_only && peer && peer->address.ss_family == AF_INET)
        ci_address_become_ipv4(own); /* the wildcard address takes the family of the peer */
    for (;;) {
        struct ci_datagram datagram = {
            .address = (const struct sockaddr *)&own->address,
            .peer = peer ? (const struct sockaddr *)&peer->address : NULL,
            .address_len = own->len,
            .peer_len = peer ? peer->len : 0,
            .options = *options,
        };
        int rc = driver->kind->datagram(driver, &datagram);
        if (!own->any || own->address.ss_family == AF_INET || options->ipv6_only ||
            (rc != -EAFNOSUPPORT && rc != -EADDRNOTAVAIL))
            return rc;
        ci_address_become_ipv4(own); /* the system has no IPv6 */
    }
}

/* The number of an interface, by its name; 0: any. */
static int find_interface(const char *name, unsigned *ret_interface)
{
    *ret_interface = 0;
    if (!name)
        return 0;
    if (ci_worker_current->loop.driver->kind->simulated)
        return -EOPNOTSUPP;
    *ret_interface = ci_sys_interface(name);
    return *ret_interface ? 0 : -ENODEV;
}

static int read_options(const coir_udp_options *given, struct ci_datagram_options *ret_options)
{
    bool wrong = given->ttl > 255 || given->multicast_ttl > 255 || given->send_buffer > INT_MAX ||
                 given->receive_buffer > INT_MAX;
    *ret_options = (struct ci_datagram_options){
        .reuse_port = given->reuse_port,
        .broadcast = given->broadcast,
        .ipv6_only = given->ipv6_only,
        .tell_local = given->tell_local,
        .tell_ecn = given->tell_ecn,
        .merge = given->merge,
        .no_loop = given->no_multicast_loop,
        .ttl = (int)given->ttl,
        .multicast_ttl = (int)given->multicast_ttl,
        .send_buffer = (int)given->send_buffer,
        .receive_buffer = (int)given->receive_buffer,
    };
    return wrong ? -EINVAL : find_interface(given->multicast_interface, &ret_options->interface);
}

static in_port_t port_of(const coir_udp *udp)
{
    struct sockaddr_storage own;
    socklen_t len;
    const struct ci_driver_kind *kind = udp->worker->loop.driver->kind;
    if (kind->address(udp->worker->loop.driver, udp->fd, false, &own, &len) < 0)
        return 0;
    return ((const struct sockaddr_in *)(const void *)&own)->sin_port; /* as in sockaddr_in6 */
}

static int open_with(struct ci_worker *worker, const coir_udp_options *given, coir_udp **ret_udp)
{
    struct ci_driver *driver = worker->loop.driver;
    struct ci_where own, other;
    struct ci_datagram_options options;
    int rc = read_options(given, &options);
    if (rc == 0)
        rc = ci_where_find(driver, given->address, &own);
    if (rc == 0 && given->peer)
        rc = ci_where_find(driver, given->peer, &other);
    if (rc == 0 && given->peer && (own.kind == CI_AT_SOCKET || other.kind == CI_AT_SOCKET))
        rc = -COIR_EADDRESS; /* a passed socket is connected already, or is not to be */
    if (rc < 0)
        return rc;
    coir_udp *udp = ci_alloc_zero(&worker->runtime->allocator, sizeof *udp);
    if (!udp)
        return -ENOMEM;
    udp->worker = worker;
    if ((rc = udp->fd = open_socket(driver, &own, given->peer ? &other : NULL, &options)) < 0) {
        ci_free(&worker->runtime->allocator, udp, sizeof *udp);
        return rc;
    }
    udp->was_passed = own.kind == CI_AT_SOCKET;
    udp->is_unix = ci_socket_is_unix(driver, udp->fd);
    udp->has_peer = given->peer != NULL;
    udp->ancillary = options.tell_local || options.tell_ecn || options.merge;
    udp->local_port = options.tell_local ? port_of(udp) : 0;
    *ret_udp = udp;
    return 0;
}

int coir_udp_open_with(const coir_udp_options *given, coir_udp **ret_udp)
{
    struct ci_worker *worker = ci_worker_current;
    if (!worker)
        return ci_no_worker();
    if (!ret_udp)
        return CI_MISUSE(-EINVAL, "ret_udp is NULL");
    coir_udp_options options = COIR_UDP_OPTIONS;
    int rc = ci_options_read(&options, sizeof options, given);
    if (rc < 0)
        return rc;
    if (!options.address)
        return CI_MISUSE(-EINVAL, "options or its address is NULL");
    return open_with(worker, &options, ret_udp);
}

int coir_udp_open(const char *address, const char *peer, coir_udp **ret_udp)
{
    struct ci_worker *worker = ci_worker_current;
    if (!worker)
        return ci_no_worker();
    if (!address || !ret_udp)
        return CI_MISUSE(-EINVAL, "address or ret_udp is NULL");
    coir_udp_options options = COIR_UDP_OPTIONS;
    options.address = address;
    options.peer = peer;
    return open_with(worker, &options, ret_udp);
}

static int join(coir_udp *udp, const coir_address *group, const char *interface, bool leave,
                const char *call, const void *place)
{
    unsigned number = 0;
    if (ci_forked())
        return -COIR_EFORKED;
    if (!ci_worker_current)
        return ci_no_worker();
    if (!udp || !group)
        return ci_misused(-EINVAL, "udp or group is NULL", call, place);
    int rc = ci_elsewhere(udp->worker, call, place);
    if (rc == 0)
        rc = find_interface(interface, &number);
    return rc < 0 ? rc
                  : udp->worker->loop.driver->kind->datagram_join(udp->worker->loop.driver, udp->fd,
                                                                  &address_of(group)->storage,
                                                                  number, leave);
}

int coir_udp_join(coir_udp *udp, const coir_address *group, const char *interface)
{
    return join(udp, group, interface, false, CI_CALL, CI_PLACE);
}

int coir_udp_leave(coir_udp *udp, const coir_address *group, const char *interface)
{
    return join(udp, group, interface, true, CI_CALL, CI_PLACE);
}

static void free_socket(coir_udp *udp)
{
    ci_free(&udp->worker->runtime->allocator, udp, sizeof *udp);
}

int64_t ci_udp_leave(coir_udp *udp, int64_t result)
{
    ci_check(udp->holds > 0, "udp.h 1");
    if (--udp->holds == 0 && udp->closed)
        free_socket(udp);
    return result;
}

void coir_udp_close(coir_udp *udp)
{
    if (!udp || ci_forked() || CI_ELSEWHERE(udp->worker))
        return;
    struct ci_driver *driver = udp->worker->loop.driver;
    if (udp->is_unix && !udp->was_passed)
        driver->kind->close_named(driver, udp->fd);
    else
        ci_driver_close(driver, udp->fd);
    udp->closed = true;
    if (udp->holds == 0)
        free_socket(udp);
}

int coir_udp_local(const coir_udp *udp, char *text, size_t size)
{
    if (ci_forked())
        return -COIR_EFORKED;
    if (!udp || (!text && size))
        return CI_MISUSE(-EINVAL, "udp or text is NULL");
    int rc = CI_ELSEWHERE(udp->worker);
    if (rc < 0)
        return rc;
    struct ci_driver *driver = udp->worker->loop.driver;
    struct address own;
    socklen_t len;
    rc = driver->kind->address(driver, udp->fd, false, &own.storage, &len);
    return rc < 0 ? rc : ci_address_format(&own.storage, text, size);
}

/* ---- operations ---- */

static coir_future *init(struct udp_op *op, coir_udp *udp, enum ci_op_kind kind, void *data,
                         size_t len, struct address *address)
{
    op->data = (struct iovec){data, len};
    op->message = (struct msghdr){.msg_iov = &op->data, .msg_iovlen = 1};
    if (address) {
        op->message.msg_name = &address->storage;
        op->message.msg_namelen =
            kind == CI_OP_RECEIVE ? sizeof address->storage : ci_address_len(&address->storage);
    }
    return ci_io_init(
        &op->io, NULL,
        &(struct ci_op){
            .fd = udp->fd, .kind = (uint8_t)kind, .message = &op->message, .exact = true});
}

/* How long a send to a Unix socket whose queue is full waits before the next try: poll(2) reports
 * room only for the peer that the socket is connected to. */
const coir_time ci_udp_full_pause = 1 * COIR_MS;

static coir_future *send_poll(coir_future *future)
{
    struct udp_op *self = ci_container_of(future, struct udp_op, future);
    coir_udp *udp = self->udp;
    int64_t rc = 0;
    COIR_BEGIN(future);
    if (udp->worker != ci_worker_current)
        COIR_RETURN(future, ci_misused_elsewhere(udp->worker, "coir_udp_send_to_op", NULL));
    for (udp->holds++; rc == 0; rc = udp->closed ? -ECANCELED : self->pause.future.result) {
        struct ci_op io = {.fd = udp->fd,
                           .kind = CI_OP_SEND,
                           .message = &self->message,
                           .no_wait = true,
                           .exact = true};
        COIR_AWAIT(future, ci_io_init(&self->try_io, NULL, &io));
        if (self->try_io.future.result != -EAGAIN)
            COIR_RETURN(future, ci_udp_leave(udp, self->try_io.future.result));
        COIR_AWAIT(future,
                   coir_sleep_for_op((coir_sleep_op *)(void *)&self->pause, ci_udp_full_pause));
    }
    COIR_RETURN(future, ci_udp_leave(udp, rc));
}

static const coir_future_kind send_kind =
    COIR_FUTURE_KIND("room at a Unix socket", send_poll, NULL);

static struct udp_op *op_of(coir_udp_op *op)
{
    return (struct udp_op *)(void *)op;
}

static coir_future *init_send(struct udp_op *op, coir_udp *udp, const void *data, size_t len,
                              const struct address *to)
{
    coir_future *future =
        init(op, udp, CI_OP_SEND, (void *)(uintptr_t)data, len, (struct address *)(uintptr_t)to);
    op->udp = udp;
    return to && udp->is_unix ? coir_future_init(&op->future, &send_kind) : future;
}

/* Whether an operation may be made: 0, or the misuse. */
static int may_make(const coir_udp *udp, bool complete, const char *call, const void *place)
{
    if (!complete)
        return ci_misused(-EINVAL, "op, udp, or data or buf is NULL", call, place);
    return ci_worker_current ? ci_elsewhere(udp->worker, call, place) : 0;
}

coir_future *coir_udp_send_op(coir_udp_op *op, coir_udp *udp, const void *data, size_t len)
{
    int rc = may_make(udp, op && udp && (data || !len), CI_CALL, CI_PLACE);
    return rc < 0 ? ci_completed_op(op, rc) : init_send(op_of(op), udp, data, len, NULL);
}

coir_future *coir_udp_send_to_op(coir_udp_op *op, coir_udp *udp, const void *data, size_t len,
                                 const coir_address *to)
{
    int rc = may_make(udp, op && udp && (data || !len), CI_CALL, CI_PLACE);
    return rc < 0 ? ci_completed_op(op, rc) : init_send(op_of(op), udp, data, len, address_of(to));
}

static coir_future *begin_receive(struct udp_op *op)
{
    struct ci_op io = {
        .fd = op->udp->fd, .kind = CI_OP_RECEIVE, .message = &op->message, .exact = true};
    return ci_io_init(&op->try_io, NULL, &io);
}

static coir_future *recv_poll(coir_future *future)
{
    struct udp_op *self = ci_container_of(future, struct udp_op, future);
    COIR_BEGIN(future);
    COIR_AWAIT(future, begin_receive(self));
    if (self->try_io.future.result >= 0)
        ci_address_keep_len(self->message.msg_name, self->message.msg_namelen);
    COIR_RETURN(future, self->try_io.future.result);
}

static const coir_future_kind recv_kind =
    COIR_FUTURE_KIND("a datagram of a Unix socket", recv_poll, NULL);

static coir_future *init_recv(struct udp_op *op, coir_udp *udp, void *buf, size_t len,
                              coir_address *from)
{
    coir_future *future = init(op, udp, CI_OP_RECEIVE, buf, len, from ? address_of(from) : NULL);
    if (!from || !udp->is_unix)
        return future;
    *address_of(from) = (struct address){0}; /* recvmsg(2) writes a part: see ci_address_len */
    op->udp = udp;
    return coir_future_init(&op->future, &recv_kind);
}

coir_future *coir_udp_recv_op(coir_udp_op *op, coir_udp *udp, void *buf, size_t len,
                              coir_address *from)
{
    int rc = may_make(udp, op && udp && (buf || !len), CI_CALL, CI_PLACE);
    return rc < 0 ? ci_completed_op(op, rc) : init_recv(op_of(op), udp, buf, len, from);
}

static ssize_t await(const coir_udp *udp, coir_future *future, const char *call, const void *place)
{
    int rc = 0;
    if (!ci_fiber_enter_in(&rc, call, place))
        return rc;
    if ((rc = ci_elsewhere(udp->worker, call, place)) < 0)
        return rc;
    return ci_await(ci_worker_current, future);
}

ssize_t coir_udp_send(coir_udp *udp, const void *data, size_t len)
{
    coir_udp_op op;
    if (!udp || (!data && len))
        return CI_MISUSE(-EINVAL, "udp or data is NULL");
    return await(udp, init_send(op_of(&op), udp, data, len, NULL), CI_CALL, CI_PLACE);
}

ssize_t coir_udp_send_to(coir_udp *udp, const void *data, size_t len, const coir_address *to)
{
    coir_udp_op op;
    if (!udp || (!data && len))
        return CI_MISUSE(-EINVAL, "udp or data is NULL");
    return await(udp, init_send(op_of(&op), udp, data, len, address_of(to)), CI_CALL, CI_PLACE);
}

ssize_t coir_udp_recv(coir_udp *udp, void *buf, size_t len, coir_address *from)
{
    coir_udp_op op;
    if (!udp || (!buf && len))
        return CI_MISUSE(-EINVAL, "udp or buf is NULL");
    return await(udp, init_recv(op_of(&op), udp, buf, len, from), CI_CALL, CI_PLACE);
}
