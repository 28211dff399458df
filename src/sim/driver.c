/* The driver of a simulated worker: operations complete in the world, and are reported in the
 * worker's own turn. */
#include "sim/driver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "driver/count.h"
#include "sim/address.h"
#include "sim/completion.h"
#include "sim/datagram.h"
#include "sim/disk.h"
#include "sim/fault.h"
#include "sim/listener.h"
#include "sim/name.h"
#include "sim/node.h"
#include "sim/stream.h"

static struct ci_sim_driver *self(struct ci_driver *driver)
{
    return ci_container_of(driver, struct ci_sim_driver, base);
}

static bool try_start(struct ci_driver *driver, struct ci_op *op)
{
    if (op->kind == CI_OP_FILE)
        return ci_disk_start(self(driver), op);
    if (op->kind >= CI_OP_FOREIGN)
        return ci_op_complete(
            op, -EOPNOTSUPP); /* the descriptors of the real world do not exist here */
    if (op->fd >= 0 && ci_count_trim(op))
        return true;
    return ci_socket_start(self(driver), op);
}

static bool start(struct ci_driver *driver, struct ci_op *op)
{
    bool complete = try_start(driver, op);
    driver->pending += !complete;
    return complete;
}

static bool cancel(struct ci_driver *driver, struct ci_op *op)
{
    bool withdrawn = op->kind == CI_OP_FILE ? ci_disk_cancel(self(driver), op)
                                            : ci_socket_cancel(self(driver), op);
    driver->pending -= withdrawn;
    return withdrawn;
}

/* Never sleeps: the scheduler of the world calls it when there is something to do. A completed
 * operation may be reported one wait later, so that timers and cancels come in between. */
static int wait_ops(struct ci_driver *driver, coir_time deadline)
{
    (void)deadline;
    struct ci_sim_driver *sim = self(driver);
    sim->woken = false;
    ci_sim_driver_report(sim);
    return 0;
}

static void wake(struct ci_driver *driver)
{
    self(driver)->woken = true;
}

static coir_time now(struct ci_driver *driver)
{
    return self(driver)->world->now;
}

/* Simulated time begins on 1 January 2026. */
static coir_time wall(struct ci_driver *driver)
{
    struct ci_sim_driver *sim = self(driver);
    if (ci_world_fault(sim->world, sim->node, sim->node->faults.clock_jump,
                       "the time of day jumps"))
        sim->node->wall_offset =
            (coir_time)ci_random_below(&sim->world->random, 7200 * COIR_S) - 3600 * COIR_S;
    return ci_time_after(sim->world->now, 1767225600 * COIR_S + sim->node->wall_offset);
}

static uint64_t random_number(struct ci_driver *driver)
{
    return ci_random_next(&self(driver)->world->random);
}

static int open_socket(struct ci_driver *driver, int family)
{
    return ci_sim_stream_open(self(driver)->world, self(driver)->node, family);
}

static int open_datagram(struct ci_driver *driver, const struct ci_datagram *datagram)
{
    if (datagram->address->sa_family == AF_UNIX)
        return -EOPNOTSUPP;
    return ci_sim_datagram_open(self(driver)->world, self(driver)->node, datagram);
}

static int datagram_options(struct ci_driver *driver, coir_fd fd, int family,
                            const struct ci_datagram_options *options)
{
    (void)driver, (void)fd, (void)family, (void)options;
    return -EOPNOTSUPP; /* nobody passes sockets to a simulated process */
}

static int datagram_join(struct ci_driver *driver, coir_fd fd, const struct sockaddr_storage *group,
                         unsigned interface, bool leave)
{
    (void)driver, (void)fd, (void)group, (void)interface, (void)leave;
    return -EOPNOTSUPP; /* there are no multicasts */
}

static int open_listener(struct ci_driver *driver, const struct ci_listen *listen)
{
    return ci_sim_listener_open(self(driver)->world, self(driver)->node, listen);
}

static int refuse(struct ci_driver *driver, coir_fd fd)
{
    return ci_sim_listener_refuse(self(driver)->world, fd);
}

static int shutdown_write(struct ci_driver *driver, coir_fd fd)
{
    return ci_sim_stream_shutdown_write(self(driver)->world, fd);
}

/* Most options have no counterpart in the simulated network, and are accepted without effect. */
static int option(struct ci_driver *driver, coir_fd fd, enum coir_tcp_option option, int value)
{
    if (value < 0 || option < COIR_TCP_NODELAY || option > COIR_TCP_KEEPALIVE_COUNT)
        return -EINVAL;
    return option == COIR_TCP_RESET_ON_CLOSE
               ? ci_sim_stream_reset_on_close(self(driver)->world, fd, value != 0)
               : 0;
}

static int unacknowledged(struct ci_driver *driver, coir_fd fd)
{
    return ci_sim_stream_unread_by_peer(self(driver)->world, fd);
}

static int address(struct ci_driver *driver, coir_fd fd, bool peer,
                   struct sockaddr_storage *ret_address, socklen_t *ret_len)
{
    return ci_socket_address(self(driver)->world, fd, peer, ret_address, ret_len);
}

/* No sockets are passed to a simulated process: it takes over only streams that it had before. */
static int take(struct ci_driver *driver, coir_fd fd, enum ci_passed kind)
{
    struct sockaddr_storage peer;
    socklen_t len;
    return kind == CI_PASSED_STREAM && address(driver, fd, true, &peer, &len) == 0 ? 0
                                                                                   : -COIR_EPASSED;
}

static int resolve(struct ci_driver *driver, const char *host, int family, struct ci_ips *ret_ips,
                   coir_time *ret_delay)
{
    return ci_world_resolve(self(driver)->world, host, family, ret_ips, ret_delay);
}

static void forget(struct ci_driver *driver, coir_fd fd)
{
    ci_socket_forget(self(driver)->world, self(driver), fd);
    ci_sim_driver_report_all(self(driver), fd);
}

static void close_fd(struct ci_driver *driver, coir_fd fd)
{
    struct ci_world *world = self(driver)->world;
    if (ci_disk_is_file(fd)) {
        ci_disk_close(world, fd);
        ci_sim_driver_report_all(self(driver), fd);
        return;
    }
    forget(driver, fd);
    ci_socket_close(world, fd);
}

static void close_named(struct ci_driver *driver, coir_fd fd)
{
    ci_driver_close(driver, fd);
}

/* A host is one process, and its pid is the host's number. */
static int credentials(struct ci_driver *driver, coir_fd fd, coir_credentials *ret_credentials)
{
    (void)fd;
    ret_credentials->pid = self(driver)->node->number;
    return 0;
}

static int file_size(struct ci_driver *driver, coir_fd fd, int64_t *ret_size)
{
    return ci_disk_size(self(driver)->world, fd, ret_size);
}

static void free_driver(struct ci_driver *driver)
{
    free(self(driver));
}

static const struct ci_driver_kind sim_kind = {
    .name = "sim",
    .simulated = true,
    .start = start,
    .cancel = cancel,
    .wait = wait_ops,
    .wake = wake,
    .now = now,
    .wall = wall,
    .random = random_number,
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
    .unacknowledged = unacknowledged,
    .address = address,
    .take = take,
    .resolve = resolve,
    .file_size = file_size,
    .close = close_fd,
    .forget = forget,
    .free = free_driver,
};

int ci_sim_driver_open(struct ci_world *world, struct ci_node *node, struct ci_driver **ret_driver)
{
    struct ci_sim_driver *sim = calloc(1, sizeof *sim);
    if (!sim)
        return -ENOMEM;
    *sim = (struct ci_sim_driver){.base.kind = &sim_kind, .world = world, .node = node};
    sim->base.file_calls = ~(1u << CI_FILE_COPY);
    sim->completed_tail = &sim->completed;
    *ret_driver = &sim->base;
    return 0;
}
