#include "faults.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/random.h"

/* 1. An operation is the real driver's, or in one of the two lists: `held` begins, `ended`
 * completes at the next wait.
 * 2. What lies in the lists completes when its descriptor is closed or forgotten. */
struct faulty {
    struct ci_driver base;
    struct ci_driver_kind kind; /* it can do what the real one can */
    struct ci_driver *real;
    struct ci_random random;
    struct ci_op *held, *ended;
    size_t own;
    unsigned fail_one_in;
    int accept_error;
    unsigned accepts_failing; /* how many of the next ones */
};

static struct faulty *self(struct ci_driver *driver)
{
    return ci_container_of(driver, struct faulty, base);
}

static bool roll(struct faulty *faulty)
{
    return ci_random_below(&faulty->random, 3) == 0;
}

static void put(struct faulty *faulty, struct ci_op **list, struct ci_op *op)
{
    op->pending = true;
    op->next = *list;
    *list = op;
    faulty->own++;
}

static bool take(struct faulty *faulty, struct ci_op **list, const struct ci_op *op)
{
    for (struct ci_op **at = list; *at; at = &(*at)->next)
        if (*at == op) {
            *at = op->next;
            faulty->own--;
            return true;
        }
    return false;
}

static void count(struct faulty *faulty)
{
    faulty->base.pending = faulty->real->pending + faulty->own;
}

static bool fails(struct faulty *faulty)
{
    return faulty->fail_one_in && ci_random_below(&faulty->random, faulty->fail_one_in) == 0;
}

/* What the kernel might say of such an operation. */
static int error_for(struct faulty *faulty, const struct ci_op *op)
{
    bool other = ci_random_below(&faulty->random, 2);
    switch ((enum ci_op_kind)op->kind) {
    case CI_OP_ACCEPT: return other ? -EMFILE : -ECONNABORTED;
    case CI_OP_WRITE:
    case CI_OP_WRITEV:
    case CI_OP_SEND:
    case CI_OP_SEND_MANY: return other ? -ENOBUFS : -ENOMEM;
    default: return -ENOMEM;
    }
}

static void shorten_call(struct faulty *faulty, const struct ci_file_call *call)
{
    struct iovec *first = (struct iovec *)(uintptr_t)call->iov;
    if ((call->kind == CI_FILE_READ || call->kind == CI_FILE_WRITE) && call->count == 1 &&
        first->iov_len > 1)
        first->iov_len = 1 + (size_t)ci_random_below(&faulty->random, first->iov_len - 1);
}

static void shorten(struct faulty *faulty, struct ci_op *op)
{
    if ((op->kind == CI_OP_READ || op->kind == CI_OP_WRITE) && op->len > 1 && roll(faulty))
        op->len = 1 + (size_t)ci_random_below(&faulty->random, op->len - 1);
    else if (op->kind == CI_OP_FILE && faulty->fail_one_in)
        shorten_call(faulty, op->call);
    else if ((op->kind == CI_OP_READV || op->kind == CI_OP_WRITEV) && op->count > 1 &&
             op->iov[0].iov_len && roll(faulty))
        op->count = 1;
}

static bool start(struct ci_driver *driver, struct ci_op *op)
{
    struct faulty *faulty = self(driver);
    if (op->kind == CI_OP_ACCEPT && faulty->accepts_failing) {
        op->result = faulty->accept_error;
        faulty->accepts_failing--;
        return true;
    }
    if (op->kind != CI_OP_WATCH && fails(faulty)) {
        op->result = error_for(faulty, op);
        return true;
    }
    shorten(faulty, op);
    bool plain = op->no_wait || op->kind == CI_OP_WATCH, complete = false;
    if (!plain && roll(faulty)) {
        put(faulty, &faulty->held, op);
    } else {
        complete = ci_driver_start(faulty->real, op);
        if (complete && !plain && roll(faulty)) {
            put(faulty, &faulty->ended, op);
            complete = false;
        }
    }
    count(faulty);
    return complete;
}

/* As those that are started: they may fail, or be short. */
static ssize_t read_now(struct ci_driver *driver, coir_fd fd, void *buf, size_t len, bool ancillary)
{
    struct faulty *faulty = self(driver);
    struct ci_op op = {.kind = CI_OP_READ, .len = len};
    if (fails(faulty))
        return error_for(faulty, &op);
    shorten(faulty, &op);
    return roll(faulty) ? -EAGAIN : ci_driver_read_now(faulty->real, fd, buf, op.len, ancillary);
}

static ssize_t write_now(struct ci_driver *driver, coir_fd fd, const void *data, size_t len)
{
    struct faulty *faulty = self(driver);
    struct ci_op op = {.kind = CI_OP_WRITE, .len = len};
    if (fails(faulty))
        return error_for(faulty, &op);
    shorten(faulty, &op);
    return roll(faulty) ? -EAGAIN : ci_driver_write_now(faulty->real, fd, data, op.len);
}

static bool cancel(struct ci_driver *driver, struct ci_op *op)
{
    struct faulty *faulty = self(driver);
    bool withdrawn = false;
    for (const struct ci_op *ended = faulty->ended; ended; ended = ended->next)
        if (ended == op)
            return false;
    if (take(faulty, &faulty->held, op))
        withdrawn = true;
    else if (!ci_driver_cancel(faulty->real, op))
        return false;
    else
        withdrawn = true;
    op->pending = false;
    op->result = -ECANCELED;
    if (op->kind != CI_OP_WATCH && roll(faulty)) {
        put(faulty, &faulty->ended, op);
        withdrawn = false;
    }
    count(faulty);
    return withdrawn;
}

static void end(struct faulty *faulty, struct ci_op *op)
{
    op->pending = false;
    count(faulty);
    op->done(op);
}

static int wait_ops(struct ci_driver *driver, coir_time deadline)
{
    struct faulty *faulty = self(driver);
    struct ci_op *op, *held = faulty->held;
    bool any = faulty->held || faulty->ended;
    faulty->held = NULL;
    while ((op = held)) {
        held = op->next;
        op->pending = false;
        faulty->own--;
        if (ci_driver_start(faulty->real, op))
            put(faulty, &faulty->ended, op);
    }
    while ((op = faulty->ended)) {
        faulty->ended = op->next;
        faulty->own--;
        end(faulty, op);
    }
    int rc = faulty->real->kind->wait(faulty->real, any ? 0 : deadline);
    count(faulty);
    return rc;
}

static void end_all_on(struct faulty *faulty, coir_fd fd)
{
    for (bool found = true; found;) {
        found = false;
        for (struct ci_op *op = faulty->held; op && !found; op = op->next)
            if (op->fd == fd) {
                take(faulty, &faulty->held, op);
                op->result = -ECANCELED;
                end(faulty, op);
                found = true;
                break;
            }
        for (struct ci_op *op = faulty->ended; op && !found; op = op->next)
            if (op->fd == fd) {
                take(faulty, &faulty->ended, op);
                end(faulty, op);
                found = true;
                break;
            }
    }
}

static void close_fd(struct ci_driver *driver, coir_fd fd)
{
    end_all_on(self(driver), fd);
    ci_driver_close_soon(self(driver)->real, fd);
    count(self(driver));
}

static void flush(struct ci_driver *driver)
{
    const struct ci_driver_kind *kind = self(driver)->real->kind;
    if (kind->flush)
        kind->flush(self(driver)->real);
}

static int reserve(struct ci_driver *driver, size_t count_of_all)
{
    const struct ci_driver_kind *kind = self(driver)->real->kind;
    return kind->reserve ? kind->reserve(self(driver)->real, count_of_all) : 0;
}

static void forget(struct ci_driver *driver, coir_fd fd)
{
    end_all_on(self(driver), fd);
    self(driver)->real->kind->forget(self(driver)->real, fd);
    count(self(driver));
}

/* ---- handed through ---- */

#define REAL(driver) self(driver)->real
#define THROUGH(function, ...) REAL(driver)->kind->function(REAL(driver) __VA_OPT__(, ) __VA_ARGS__)

static void wake(struct ci_driver *driver)
{
    THROUGH(wake);
}

static coir_time now(struct ci_driver *driver)
{
    return THROUGH(now);
}

static coir_time wall(struct ci_driver *driver)
{
    return THROUGH(wall);
}

static uint64_t random_number(struct ci_driver *driver)
{
    return THROUGH(random);
}

static coir_fd descriptor(struct ci_driver *driver)
{
    (void)driver;
    return -ENOTSUP; /* it does not show what is held */
}

static int open_socket(struct ci_driver *driver, int family)
{
    if (fails(self(driver)))
        return -EMFILE;
    return THROUGH(socket, family);
}

static int open_datagram(struct ci_driver *driver, const struct ci_datagram *datagram)
{
    return THROUGH(datagram, datagram);
}

static int datagram_options(struct ci_driver *driver, coir_fd fd, int family,
                            const struct ci_datagram_options *options)
{
    return THROUGH(datagram_options, fd, family, options);
}

static int datagram_join(struct ci_driver *driver, coir_fd fd, const struct sockaddr_storage *group,
                         unsigned interface, bool leave)
{
    return THROUGH(datagram_join, fd, group, interface, leave);
}

static int open_listener(struct ci_driver *driver, const struct ci_listen *listen)
{
    return THROUGH(listen, listen);
}

static int refuse(struct ci_driver *driver, coir_fd fd)
{
    return THROUGH(refuse, fd);
}

static void close_named(struct ci_driver *driver, coir_fd fd)
{
    end_all_on(self(driver), fd);
    THROUGH(close_named, fd);
    count(self(driver));
}

static int credentials(struct ci_driver *driver, coir_fd fd, coir_credentials *ret_credentials)
{
    return THROUGH(credentials, fd, ret_credentials);
}

static int shutdown_write(struct ci_driver *driver, coir_fd fd)
{
    return THROUGH(shutdown_write, fd);
}

static int option(struct ci_driver *driver, coir_fd fd, enum coir_tcp_option option, int value)
{
    return THROUGH(option, fd, option, value);
}

static int address(struct ci_driver *driver, coir_fd fd, bool peer,
                   struct sockaddr_storage *ret_address, socklen_t *ret_len)
{
    return THROUGH(address, fd, peer, ret_address, ret_len);
}

static int take_passed(struct ci_driver *driver, coir_fd fd, enum ci_passed kind)
{
    return THROUGH(take, fd, kind);
}

static int resolve(struct ci_driver *driver, const char *host, int family, struct ci_ips *ret_ips,
                   coir_time *ret_delay)
{
    return THROUGH(resolve, host, family, ret_ips, ret_delay);
}

static int bind_to(struct ci_driver *driver, coir_fd fd, const struct sockaddr *address,
                   socklen_t len)
{
    return REAL(driver)->kind->bind ? THROUGH(bind, fd, address, len) : -EOPNOTSUPP;
}

static int get_option(struct ci_driver *driver, coir_fd fd, enum coir_tcp_option option)
{
    return REAL(driver)->kind->get_option ? THROUGH(get_option, fd, option) : -EOPNOTSUPP;
}

static int fast_open(struct ci_driver *driver, coir_fd fd, int queue)
{
    return REAL(driver)->kind->fast_open ? THROUGH(fast_open, fd, queue) : -EOPNOTSUPP;
}

static int unacknowledged(struct ci_driver *driver, coir_fd fd)
{
    return THROUGH(unacknowledged, fd);
}

static int tcp_info(struct ci_driver *driver, coir_fd fd, coir_tcp_info *ret_info)
{
    return REAL(driver)->kind->tcp_info ? THROUGH(tcp_info, fd, ret_info) : -EOPNOTSUPP;
}

static size_t stop_ahead(struct ci_driver *driver, coir_fd fd)
{
    return REAL(driver)->kind->stop_ahead ? THROUGH(stop_ahead, fd) : 0;
}

static int detach(struct ci_driver *driver, coir_fd fd, struct ci_ahead **ret_ahead)
{
    return ci_driver_detach(REAL(driver), fd, ret_ahead);
}

static int adopt(struct ci_driver *driver, coir_fd fd, struct ci_ahead *ahead)
{
    return THROUGH(adopt, fd, ahead);
}

static int begin(struct ci_driver *driver)
{
    return REAL(driver)->kind->begin ? THROUGH(begin) : 0;
}

static void end_thread(struct ci_driver *driver)
{
    if (REAL(driver)->kind->end)
        THROUGH(end);
}

static int file_size(struct ci_driver *driver, coir_fd fd, int64_t *ret_size)
{
    return THROUGH(file_size, fd, ret_size);
}

static void free_driver(struct ci_driver *driver)
{
    THROUGH(free);
    free(self(driver));
}

static const struct ci_driver_kind faulty_kind = {
    .name = "faulty",
    .start = start,
    .read_now = read_now,
    .write_now = write_now,
    .cancel = cancel,
    .wait = wait_ops,
    .wake = wake,
    .now = now,
    .wall = wall,
    .random = random_number,
    .descriptor = descriptor,
    .socket = open_socket,
    .datagram = open_datagram,
    .datagram_options = datagram_options,
    .datagram_join = datagram_join,
    .listen = open_listener,
    .refuse = refuse,
    .close_named = close_named,
    .credentials = credentials,
    .shutdown_write = shutdown_write,
    .option = option,
    .address = address,
    .take = take_passed,
    .resolve = resolve,
    .file_size = file_size,
    .close = close_fd,
    .flush = flush,
    .forget = forget,
    .reserve = reserve,
    .bind = bind_to,
    .fast_open = fast_open,
    .unacknowledged = unacknowledged,
    .get_option = get_option,
    .tcp_info = tcp_info,
    .stop_ahead = stop_ahead,
    .detach = detach,
    .adopt = adopt,
    .begin = begin,
    .end = end_thread,
    .free = free_driver,
};

void faults_fail(struct ci_driver *driver, unsigned one_in)
{
    self(driver)->fail_one_in = one_in;
}

void faults_fail_accepts(struct ci_driver *driver, int error, unsigned count)
{
    self(driver)->accept_error = error;
    self(driver)->accepts_failing = count;
}

/* What a driver can do goes through: a function that is new in driver.h is here, too. */
static void check_functions(const struct ci_driver_kind *real)
{
    for (size_t at = offsetof(struct ci_driver_kind, start); at < sizeof *real;
         at += sizeof(void (*)(void))) {
        void (*there)(void), (*here)(void);
        memcpy(&there, (const char *)real + at, sizeof there);
        memcpy(&here, (const char *)&faulty_kind + at, sizeof here);
        if (there && !here) {
            fprintf(stderr, "faults.c: a function of driver.h is missing: number %zu\n",
                    (at - offsetof(struct ci_driver_kind, start)) / sizeof there);
            abort();
        }
    }
}

struct ci_driver *faults_around(struct ci_driver *real, uint64_t seed)
{
    struct faulty *faulty = calloc(1, sizeof *faulty);
    if (!faulty)
        abort();
    check_functions(real->kind);
    faulty->kind = faulty_kind;
    faulty->base.kind = &faulty->kind;
    faulty->base.file_calls = real->file_calls;
    faulty->real = real;
    faulty->random = (struct ci_random){seed};
    return &faulty->base;
}
