/* The driver of a simulated worker: operations complete in the world, and are reported in the
 * worker's own turn. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "driver/count.h"
#include "sim/address.h"
#include "sim/datagram.h"
#include "sim/listener.h"
#include "sim/stream.h"

static struct ci_sim_driver *self(struct ci_driver *driver)
{
    return ci_container_of(driver, struct ci_sim_driver, base);
}

static void put_completed(struct ci_sim_driver *driver, struct ci_op *op)
{
    op->next = NULL;
    *driver->completed_tail = op;
    driver->completed_tail = &op->next;
}

/* An event of a driver, which its number of an address stands for: no order depends on it. */
static void late_no_more(struct ci_world *world, struct ci_socket *socket, size_t driver,
                         void *data)
{
    (void)world;
    (void)socket;
    (void)data;
    struct ci_sim_driver *sim = (struct ci_sim_driver *)driver;
    struct ci_op **at = &sim->late, *op;
    while (*at && (*at)->next)
        at = &(*at)->next;
    if ((op = *at)) { /* else its descriptor has been closed meanwhile */
        *at = NULL;
        put_completed(sim, op);
    }
}

void ci_sim_driver_complete(struct ci_sim_driver *driver, struct ci_op *op, int result)
{
    struct ci_world *world = driver->world;
    op->result = result;
    if (!ci_world_fault(world, driver->node, driver->node->faults.late, "late news")) {
        put_completed(driver, op);
        return;
    }
    op->next = driver->late;
    driver->late = op;
    ci_world_schedule(
        world,
        &(struct ci_event){
            .when = ci_time_after(world->now, (coir_time)ci_random_below(&world->random, COIR_MS)),
            .what = late_no_more,
            .fd = -1,
            .amount = (size_t)driver,
        });
}

bool ci_sim_driver_busy(const struct ci_driver *driver)
{
    const struct ci_sim_driver *sim = ci_container_of(driver, struct ci_sim_driver, base);
    return sim->completed || sim->woken;
}

void ci_sim_driver_audit(const struct ci_driver *driver)
{
    const struct ci_sim_driver *sim = ci_container_of(driver, struct ci_sim_driver, base);
    for (const struct ci_op *op = sim->completed; op; op = op->next)
        ci_world_leave(sim->world, sim->node, "operation kind=%d fd=%d result=%d, never reported",
                       op->kind, op->fd, op->result);
    for (const struct ci_op *op = sim->late; op; op = op->next)
        ci_world_leave(sim->world, sim->node, "operation kind=%d fd=%d result=%d, late", op->kind,
                       op->fd, op->result);
}

static bool start(struct ci_driver *driver, struct ci_op *op)
{
    if (op->kind >= CI_OP_READ_AT)
        return ci_disk_start(self(driver), op);
    if (op->kind >= CI_OP_FOREIGN) {
        op->result = -EOPNOTSUPP; /* the descriptors of the real world do not exist here */
        return true;
    }
    if (op->fd >= 0 && ci_count_trim(op))
        return true;
    return ci_socket_start(self(driver), op);
}

static bool cancel(struct ci_driver *driver, struct ci_op *op)
{
    return op->kind >= CI_OP_READ_AT ? ci_disk_cancel(self(driver), op)
                                     : ci_socket_cancel(self(driver), op);
}

static void report(struct ci_op *op)
{
    op->pending = false;
    op->done(op);
}

/* Never sleeps: the scheduler of the world calls it when there is something to do. What is complete
 * may be reported a wait later, so that timers and cancels come between. */
static int wait_ops(struct ci_driver *driver, coir_time deadline)
{
    (void)deadline;
    struct ci_sim_driver *sim = self(driver);
    sim->woken = false;
    while (sim->completed && ci_random_below(&sim->world->random, 4) > 0) {
        struct ci_op *op = sim->completed;
        sim->completed = op->next;
        if (!sim->completed)
            sim->completed_tail = &sim->completed;
        report(op);
    }
    return 0;
}

/* What is complete but not reported is reported before the descriptor goes. */
static void report_all_of(struct ci_sim_driver *sim, coir_fd fd)
{
    for (struct ci_op **at = &sim->late, *op; (op = *at);)
        if (op->fd == fd) {
            *at = op->next;
            put_completed(sim, op);
        } else {
            at = &op->next;
        }
    for (struct ci_op **at = &sim->completed, *op; (op = *at);) {
        if (op->fd != fd) {
            at = &op->next;
            continue;
        }
        *at = op->next;
        if (!*at)
            sim->completed_tail = at;
        report(op);
        at = &sim->completed; /* `done` may have changed the list */
    }
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
    (void)family;
    return ci_sim_stream_open(self(driver)->world, self(driver)->node);
}

static int open_datagram(struct ci_driver *driver, const struct ci_datagram *datagram)
{
    return ci_sim_datagram_open(self(driver)->world, self(driver)->node, datagram);
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

/* Of most, the simulated network has nothing that they change. */
static int option(struct ci_driver *driver, coir_fd fd, enum coir_tcp_option option, int value)
{
    if (value < 0 || option < COIR_TCP_NODELAY || option > COIR_TCP_RESET_ON_CLOSE)
        return -EINVAL;
    return option == COIR_TCP_RESET_ON_CLOSE
               ? ci_sim_stream_reset_on_close(self(driver)->world, fd, value != 0)
               : 0;
}

static int address(struct ci_driver *driver, coir_fd fd, bool peer,
                   struct sockaddr_storage *ret_address, socklen_t *ret_len)
{
    return ci_socket_address(self(driver)->world, fd, peer, ret_address, ret_len);
}

static int resolve(struct ci_driver *driver, const char *host, struct sockaddr_storage *ret_address,
                   socklen_t *ret_len)
{
    return ci_world_resolve(self(driver)->world, host, ret_address, ret_len);
}

static void forget(struct ci_driver *driver, coir_fd fd)
{
    ci_socket_forget(self(driver)->world, self(driver), fd);
    report_all_of(self(driver), fd);
}

static void close_fd(struct ci_driver *driver, coir_fd fd)
{
    struct ci_world *world = self(driver)->world;
    if (ci_disk_is_file(world, fd)) {
        ci_disk_close(world, fd);
        report_all_of(self(driver), fd);
        return;
    }
    forget(driver, fd);
    ci_socket_close(world, fd);
}

static int open_file(struct ci_driver *driver, const char *path, int flags, unsigned mode)
{
    (void)mode;
    return ci_disk_open(self(driver)->node, path, flags);
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
    .files = true,
    .start = start,
    .cancel = cancel,
    .wait = wait_ops,
    .wake = wake,
    .now = now,
    .wall = wall,
    .random = random_number,
    .socket = open_socket,
    .datagram = open_datagram,
    .listen = open_listener,
    .refuse = refuse,
    .shutdown_write = shutdown_write,
    .option = option,
    .address = address,
    .resolve = resolve,
    .open = open_file,
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
    sim->completed_tail = &sim->completed;
    *ret_driver = &sim->base;
    return 0;
}
