/* TCP: connecting. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "io/connect.h"

CI_LEAVES_SPARE_WORDS(struct ci_connect_op, coir_open_op);

static int take_passed(struct ci_worker *worker, coir_fd fd, coir_stream **ret_stream)
{
    int rc = worker->loop.driver->kind->take(worker->loop.driver, fd, CI_PASSED_STREAM);
    return rc < 0 ? rc
                  : ci_socket_stream_new(worker, fd, ci_socket_is_unix(worker->loop.driver, fd),
                                         ret_stream);
}

/* A name with one address, which is known at once, needs no race. */
static bool find_only_address(struct ci_driver *driver, struct ci_where *where)
{
    struct ci_ips six, four;
    coir_time six_delay = 0, four_delay = 0;
    int six_rc = driver->kind->resolve(driver, where->host, AF_INET6, &six, &six_delay);
    int four_rc = driver->kind->resolve(driver, where->host, AF_INET, &four, &four_delay);
    if (six_delay || four_delay || (six_rc == 0) == (four_rc == 0) ||
        (six_rc < 0 ? six_rc : four_rc) != -COIR_ENAME)
        return false;
    const struct ci_ips *found = six_rc == 0 ? &six : &four;
    if (found->count == 1)
        ci_where_set(where, &found->ip[0]);
    return found->count == 1;
}

/* What the operation is to connect to: an address, a name, or a socket that is taken at once. */
static int find_where(const struct ci_connect_op *op, struct ci_driver *driver,
                      struct ci_where *where)
{
    if (!op->text) {
        *where = (struct ci_where){
            .kind = CI_AT_ADDRESS, .address = op->address, .len = sizeof(struct sockaddr_in)};
        if (op->address.ss_family == AF_INET6)
            where->len = sizeof(struct sockaddr_in6);
        return 0;
    }
    int rc = ci_where_parse(op->text, where);
    if (rc == 0 && where->any) { /* any address of this machine */
        where->kind = CI_AT_HOST;
        strcpy(where->host, "localhost");
    }
    if (rc == 0 && where->kind == CI_AT_HOST)
        find_only_address(driver, where);
    return rc;
}

/* How long a client of a Unix socket waits while the backlog is full: no event says when there is
 * room again. */
static const coir_time backlog_pause = 2 * COIR_MS;

static coir_future *begin_connect(struct ci_connect_op *self)
{
    struct ci_op io = {
        .fd = self->fd,
        .kind = CI_OP_CONNECT,
        .address = (struct sockaddr *)&self->address,
        .count = (int32_t)ci_address_len(&self->address),
    };
    return ci_io_init(&self->io, NULL, &io);
}

static coir_future *connect_poll(coir_future *future)
{
    struct ci_connect_op *self = ci_container_of(future, struct ci_connect_op, future);
    struct ci_worker *worker = ci_worker_current;
    struct ci_driver *driver = worker->loop.driver;
    struct ci_where where;
    int64_t rc = 0;
    COIR_BEGIN(future);
    rc = ci_leaf_refused(worker, future) ? future->result : find_where(self, driver, &where);
    if (rc == 0 && where.kind == CI_AT_SOCKET)
        COIR_RETURN(future, take_passed(worker, where.fd, self->ret_stream));
    if (rc == 0 && where.kind == CI_AT_HOST) {
        if (!(self->race = ci_race_new(worker, &where, self->ret_stream)))
            COIR_RETURN(future, -ENOMEM);
        COIR_AWAIT(future, ci_race_future(self->race));
        COIR_RETURN(future, ci_race_free(self->race));
    }
    if (rc < 0)
        COIR_RETURN(future, rc);
    self->address = where.address;
    if ((self->fd = driver->kind->socket(driver, self->address.ss_family)) < 0)
        COIR_RETURN(future, self->fd);
    for (;;) {
        COIR_AWAIT(future, begin_connect(self));
        if ((rc = self->io.future.result) != -EAGAIN || self->address.ss_family != AF_UNIX)
            break;
        COIR_AWAIT(future, coir_sleep_for_op((coir_sleep_op *)(void *)&self->pause, backlog_pause));
        if ((rc = self->pause.future.result) < 0)
            break;
    }
    if (rc == 0)
        rc = ci_socket_stream_new(worker, self->fd, self->address.ss_family == AF_UNIX,
                                  self->ret_stream);
    if (rc < 0)
        ci_driver_close(driver, self->fd);
    COIR_RETURN(future, rc);
}

static const coir_future_kind connect_kind =
    COIR_FUTURE_KIND("a connection to be made", connect_poll, NULL);

coir_future *ci_connect_init(struct ci_connect_op *op, const union ci_ip *ip, uint16_t port,
                             coir_stream **ret_stream)
{
    op->text = NULL;
    op->ret_stream = ret_stream;
    memcpy(&op->address, ip, sizeof *ip);
    ci_address_set_port(&op->address, port);
    return coir_future_init(&op->future, &connect_kind);
}

coir_future *coir_tcp_connect_op(coir_open_op *words, const char *address, coir_stream **ret_stream)
{
    struct ci_connect_op *op = (struct ci_connect_op *)(void *)words;
    op->text = address;
    op->ret_stream = ret_stream;
    return coir_future_init(&op->future, &connect_kind);
}

int coir_tcp_connect(const char *address, coir_stream **ret_stream)
{
    coir_open_op op;
    return (int)ci_await_in_fiber(coir_tcp_connect_op(&op, address, ret_stream));
}
