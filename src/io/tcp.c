/* coir_tcp_connect: parses the address, and connects to it directly or by a race (race.c). */
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/un.h>

#include "io/connect.h"
#include "task/completed.h"

struct open_op {
    coir_future future;
    const char *text;
    coir_tcp_connect_options options;
    struct ci_connect_how *how; /* NULL: no options are given */
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
    if (rc == 0 && where->kind == CI_AT_ADDRESS &&
        where->len == offsetof(struct sockaddr_un, sun_path))
        rc = -COIR_EADDRESS; /* "unix:@" is a socket's without a name */
    return rc;
}

static int find_local(const char *text, struct sockaddr_storage *ret_local)
{
    struct ci_where where;
    int rc = ci_where_parse(text, &where);
    if (rc == 0 && (where.kind != CI_AT_ADDRESS || where.any || where.address.ss_family == AF_UNIX))
        rc = -COIR_EADDRESS;
    if (rc == 0)
        *ret_local = where.address;
    return rc;
}

/* Makes `how` of the options, if any is not the default. */
static int find_how(struct open_op *self, struct ci_worker *worker, const struct ci_where *where)
{
    const coir_tcp_connect_options *options = &self->options;
    struct ci_connect_how how = {
        .has_local = options->local,
        .fast_open = options->fast_open,
        .attempt_timeout = options->attempt_timeout ? options->attempt_timeout : COIR_NEVER,
    };
    if (how.attempt_timeout < 0)
        return -EINVAL;
    if (where->kind == CI_AT_SOCKET && (how.has_local || how.fast_open))
        return -COIR_EADDRESS; /* it is connected already */
    if (!how.has_local && !how.fast_open && how.attempt_timeout == COIR_NEVER)
        return 0;
    int rc = how.has_local ? find_local(options->local, &how.local) : 0;
    if (rc == 0 && !(self->how = ci_alloc(&worker->runtime->allocator, sizeof *self->how)))
        rc = -ENOMEM;
    if (rc == 0)
        *self->how = how;
    return rc;
}

static int64_t finish(const struct open_op *self, struct ci_worker *worker, int64_t result)
{
    ci_free(&worker->runtime->allocator, self->how, sizeof *self->how);
    return result;
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
    if ((rc = find_where(self->text, worker->loop.driver, &where)) < 0 ||
        (rc = find_how(self, worker, &where)) < 0)
        COIR_RETURN(future, rc);
    if (where.kind == CI_AT_SOCKET)
        COIR_RETURN(future, finish(self, worker, take_passed(worker, where.fd, self->ret_stream)));
    if (where.kind == CI_AT_HOST) {
        if (!(self->race = ci_race_new(worker, &where, self->how, self->ret_stream)))
            COIR_RETURN(future, finish(self, worker, -ENOMEM));
        COIR_AWAIT(future, ci_race_future(self->race));
        COIR_RETURN(future, finish(self, worker, ci_race_free(self->race)));
    }
    COIR_AWAIT(future,
               ci_connect_init(&self->connect, &where.address, self->how, self->ret_stream));
    COIR_RETURN(future, finish(self, worker, self->connect.future.result));
}

static const coir_future_kind open_kind =
    COIR_FUTURE_KIND("a connection to be made", open_poll, NULL);

static coir_future *init(coir_open_op *opaque, const char *address,
                         const coir_tcp_connect_options *options, coir_stream **ret_stream)
{
    struct open_op *op = (struct open_op *)(void *)opaque;
    op->text = address;
    op->options = *options;
    op->how = NULL;
    op->ret_stream = ret_stream;
    return coir_future_init(&op->future, &open_kind);
}

coir_future *coir_tcp_connect_op(coir_open_op *op, const char *address, coir_stream **ret_stream)
{
    if (!op || !address || !ret_stream)
        return ci_completed_op(op, CI_MISUSE(-EINVAL, "op, address or ret_stream is NULL"));
    return init(op, address, &(coir_tcp_connect_options)COIR_TCP_CONNECT_OPTIONS, ret_stream);
}

coir_future *coir_tcp_connect_with_op(coir_open_op *op, const char *address,
                                      const coir_tcp_connect_options *given,
                                      coir_stream **ret_stream)
{
    if (!op || !address || !ret_stream)
        return ci_completed_op(op, CI_MISUSE(-EINVAL, "op, address or ret_stream is NULL"));
    coir_tcp_connect_options options = COIR_TCP_CONNECT_OPTIONS;
    int rc = ci_options_read(&options, sizeof options, given);
    return rc < 0 ? ci_completed_op(op, rc) : init(op, address, &options, ret_stream);
}

int coir_tcp_connect(const char *address, coir_stream **ret_stream)
{
    coir_open_op op;
    if (!address || !ret_stream)
        return CI_MISUSE(-EINVAL, "address or ret_stream is NULL");
    return (int)ci_await_in_fiber(coir_tcp_connect_op(&op, address, ret_stream));
}

int coir_tcp_connect_with(const char *address, const coir_tcp_connect_options *options,
                          coir_stream **ret_stream)
{
    coir_open_op op;
    if (!address || !ret_stream)
        return CI_MISUSE(-EINVAL, "address or ret_stream is NULL");
    return (int)ci_await_in_fiber(coir_tcp_connect_with_op(&op, address, options, ret_stream));
}
