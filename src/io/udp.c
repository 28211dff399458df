/* Datagrams. An operation is a future around a driver operation, whose message header it holds. */
#include "coir/udp.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "io/io.h"

struct address {
    struct sockaddr_storage storage; /* its family says how long it is; AF_UNSPEC: none */
};
CI_LEAVES_SPARE_WORDS(struct address, coir_address);

struct coir_udp {
    struct ci_worker *worker;
    coir_fd fd;
};

struct udp_op {
    struct ci_io_op io; /* its future is the operation's */
    struct msghdr message;
    struct iovec data;
};
CI_LEAVES_SPARE_WORDS(struct udp_op, coir_udp_op);

static struct address *address_of(const coir_address *address)
{
    return (struct address *)(uintptr_t)address;
}

/* ---- addresses ---- */

static socklen_t length(const struct address *address)
{
    return address->storage.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                  : sizeof(struct sockaddr_in);
}

static int parse(struct ci_worker *worker, const char *text, struct address *ret_address)
{
    socklen_t len;
    return ci_address_parse(worker->loop.driver, text, &ret_address->storage, &len);
}

int coir_address_parse(const char *text, coir_address *ret_address)
{
    socklen_t len;
    struct ci_driver *driver = ci_worker_current ? ci_worker_current->loop.driver : NULL;
    return ci_address_parse(driver, text, &address_of(ret_address)->storage, &len);
}

int coir_address_format(const coir_address *address, char *text, size_t size)
{
    return ci_address_format(&address_of(address)->storage, text, size);
}

/* ---- sockets ---- */

static void become_ipv4(struct sockaddr_storage *any)
{
    struct sockaddr_in6 six;
    memcpy(&six, any, sizeof six);
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = six.sin6_port};
    memcpy(any, &four, sizeof four);
}

int coir_udp_open(const char *address, const char *peer, coir_udp **ret_udp)
{
    struct ci_worker *worker = ci_worker_current;
    if (!worker)
        return ci_no_worker();
    struct ci_driver *driver = worker->loop.driver;
    struct address own, other = {0};
    coir_udp *udp = ci_alloc_zero(&worker->runtime->allocator, sizeof *udp);
    if (!udp)
        return -ENOMEM;
    udp->worker = worker;
    int rc = parse(worker, address, &own);
    if (rc == 0 && peer)
        rc = parse(worker, peer, &other);
    if (rc == 0 && other.storage.ss_family == AF_INET && own.storage.ss_family == AF_INET6)
        become_ipv4(&own.storage); /* "*" is any address of either family: of the peer's, then */
    struct ci_datagram datagram = {
        .address = (struct sockaddr *)&own.storage,
        .peer = peer ? (struct sockaddr *)&other.storage : NULL,
        .address_len = length(&own),
        .peer_len = length(&other),
    };
    if (rc == 0)
        rc = udp->fd = driver->kind->datagram(driver, &datagram);
    if (rc < 0) {
        ci_free(&worker->runtime->allocator, udp, sizeof *udp);
        return rc;
    }
    *ret_udp = udp;
    return 0;
}

void coir_udp_close(coir_udp *udp)
{
    if (!udp || ci_forked())
        return;
    ci_driver_close(udp->worker->loop.driver, udp->fd);
    ci_free(&udp->worker->runtime->allocator, udp, sizeof *udp);
}

int coir_udp_local(const coir_udp *udp, char *text, size_t size)
{
    if (ci_forked())
        return -COIR_EFORKED;
    struct ci_driver *driver = udp->worker->loop.driver;
    struct address own;
    socklen_t len;
    int rc = driver->kind->address(driver, udp->fd, false, &own.storage, &len);
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
        op->message.msg_namelen = kind == CI_OP_RECEIVE ? sizeof address->storage : length(address);
    }
    return ci_io_init(
        &op->io, NULL,
        &(struct ci_op){.fd = udp->fd, .kind = (uint8_t)kind, .message = &op->message});
}

static struct udp_op *op_of(coir_udp_op *op)
{
    return (struct udp_op *)(void *)op;
}

static coir_future *init_send(struct udp_op *op, coir_udp *udp, const void *data, size_t len,
                              const struct address *to)
{
    return init(op, udp, CI_OP_SEND, (void *)(uintptr_t)data, len, (struct address *)(uintptr_t)to);
}

coir_future *coir_udp_send_op(coir_udp_op *op, coir_udp *udp, const void *data, size_t len)
{
    return init_send(op_of(op), udp, data, len, NULL);
}

coir_future *coir_udp_send_to_op(coir_udp_op *op, coir_udp *udp, const void *data, size_t len,
                                 const coir_address *to)
{
    return init_send(op_of(op), udp, data, len, address_of(to));
}

coir_future *coir_udp_recv_op(coir_udp_op *op, coir_udp *udp, void *buf, size_t len,
                              coir_address *from)
{
    return init(op_of(op), udp, CI_OP_RECEIVE, buf, len, from ? address_of(from) : NULL);
}

static ssize_t await(coir_udp *udp, struct udp_op *op, const char *call, const void *place)
{
    int rc = 0;
    if (!ci_fiber_enter_in(&rc, call, place))
        return rc;
    if (udp->worker != ci_worker_current)
        return -EXDEV;
    return ci_await(ci_worker_current, &op->io.future);
}

ssize_t coir_udp_send(coir_udp *udp, const void *data, size_t len)
{
    coir_udp_op op;
    coir_udp_send_op(&op, udp, data, len);
    return await(udp, op_of(&op), CI_CALL, CI_PLACE);
}

ssize_t coir_udp_send_to(coir_udp *udp, const void *data, size_t len, const coir_address *to)
{
    coir_udp_op op;
    coir_udp_send_to_op(&op, udp, data, len, to);
    return await(udp, op_of(&op), CI_CALL, CI_PLACE);
}

ssize_t coir_udp_recv(coir_udp *udp, void *buf, size_t len, coir_address *from)
{
    coir_udp_op op;
    coir_udp_recv_op(&op, udp, buf, len, from);
    return await(udp, op_of(&op), CI_CALL, CI_PLACE);
}
