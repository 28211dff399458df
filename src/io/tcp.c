/* coir_tcp_connect: parses the address, and connects to it directly or by a race (race.c). */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "io/connect.h"

struct open_op {
    coir_future future;
    const char *text;
    coir_stream **ret_stream;
    union {
        struct ci_connect_op connect; /* to an address */
        struct ci_race *race;         /* to a name */
    };
};
CI_LEAVES_SPARE_WORDS(struct open_op, coir_open_op);

/* The stream takes the descriptor over when this succeeds. */
static int take_passed(struct ci_worker *worker, coir_fd fd, coir_stream **ret_stream)
{
    int rc = worker->loop.driver->kind->take(worker->loop.driver, fd, CI_PASSED_STREAM);
    return rc < 0 ? rc
                  : ci_socket_stream_new(worker, fd, ci_socket_is_unix(worker->loop.driver, fd),
                                         ret_stream);
}

/* Replaces a name by its address if it has only one, and that is known without a lookup. */
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

/* Parses the text: a numeric address, a name, or an open socket. */
static int find_where(const char *text, struct ci_driver *driver, struct ci_where *where)
{
    int rc = ci_where_parse(text, where);
    if (rc == 0 && where->any) { /* the wildcard address: connects to this machine */
        where->kind = CI_AT_HOST;
        strcpy(where->host, "localhost");
    }
    if (rc == 0 && where->kind == CI_AT_HOST)
        find_only_address(driver, where);
    return rc;
}

static coir_future *open_poll(coir_future *future)
{
    struct open_op *self = ci_container_of(future, struct open_op, future);
    struct ci_worker *worker = ci_worker_current;
    struct ci_where where;
    int rc;
    COIR_BEGIN(future);
    if (ci_leaf_refused(worker, future))
        return future->caller;
    if ((rc = find_where(self->text, worker->loop.driver, &where)) < 0)
        COIR_RETURN(future, rc);
    if (where.kind == CI_AT_SOCKET)
        COIR_RETURN(future, take_passed(worker, where.fd, self->ret_stream));
    if (where.kind == CI_AT_HOST) {
        if (!(self->race = ci_race_new(worker, &where, self->ret_stream)))
            COIR_RETURN(future, -ENOMEM);
        COIR_AWAIT(future, ci_race_future(self->race));
        COIR_RETURN(future, ci_race_free(self->race));
    }
    COIR_AWAIT(future, ci_connect_init(&self->connect, &where.address, self->ret_stream));
    COIR_RETURN(future, self->connect.future.result);
}

static const coir_future_kind open_kind =
    COIR_FUTURE_KIND("a connection to be made", open_poll, NULL);

coir_future *coir_tcp_connect_op(coir_open_op *opaque, const char *address,
                                 coir_stream **ret_stream)
{
    struct open_op *op = (struct open_op *)(void *)opaque;
    if (!address || !ret_stream)
        return ci_io_fail(&op->future, CI_MISUSE(-EINVAL));
    op->text = address;
    op->ret_stream = ret_stream;
    return coir_future_init(&op->future, &open_kind);
}

int coir_tcp_connect(const char *address, coir_stream **ret_stream)
{
    coir_open_op op;
    if (!address || !ret_stream)
        return CI_MISUSE(-EINVAL);
    return (int)ci_await_in_fiber(coir_tcp_connect_op(&op, address, ret_stream));
}
