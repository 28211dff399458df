/* Simulated sockets: their descriptors, and the operations that are pending on them.
 *
 * 1. world->sockets[fd] is the socket whose descriptor is fd, or NULL.
 * 2. Each operation in `pending` is pending, and on the socket's own descriptor.
 *
 * A new socket gets the lowest free descriptor, as POSIX requires, so numbers are reused at once.
 * An event therefore refers to its socket by serial number as well; after the socket was closed it
 * finds none.
 *
 * A socket's operations are tried again after every change of its state. The driver reports
 * completions later, so the program sees completions that race with its cancels. The seed chooses
 * whether a cancelled operation is withdrawn or completes later. */
#include "sim/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "sim/address.h"
#include "sim/audit.h"
#include "sim/fault.h"
#include "sim/trace.h"

struct ci_pending {
    struct ci_pending *next;
    struct ci_op *op;
    struct ci_sim_driver *driver;
};

struct ci_socket *ci_socket_find(const struct ci_world *world, coir_fd fd, uint64_t serial)
{
    struct ci_socket *socket = ci_socket_of(world, fd);
    return socket && socket->serial == serial ? socket : NULL;
}

static void happen(struct ci_world *world, const struct ci_event *event)
{
    event->what(world, ci_socket_find(world, event->fd, event->serial), event->amount, event->data);
}

void ci_socket_schedule(struct ci_world *world, coir_time when, ci_socket_event_fn *what,
                        const struct ci_socket *socket, size_t amount, void *data)
{
    ci_world_schedule(world, &(struct ci_event){
                                 .when = when,
                                 .happen = happen,
                                 .amount = amount,
                                 .data = data,
                                 .what = what,
                                 .serial = socket->serial,
                                 .fd = socket->fd,
                             });
}

struct ci_socket *ci_socket_new(struct ci_world *world, struct ci_node *node,
                                const struct ci_socket_kind *kind)
{
    size_t fd = 0;
    while (fd < world->socket_capacity && world->sockets[fd])
        fd++;
    if (ci_grow(&ci_system_allocator, (void **)&world->sockets, &world->socket_capacity,
                sizeof *world->sockets, fd + 1) < 0)
        return NULL;
    struct ci_socket *socket = calloc(1, sizeof *socket);
    if (!socket)
        return NULL;
    socket->fd = (coir_fd)fd;
    socket->serial = ++world->event_serial;
    socket->kind = kind;
    socket->node = node;
    socket->in_tail = &socket->in;
    socket->outbox_tail = &socket->outbox;
    socket->peer_node = node;
    socket->backlog_tail = &socket->backlog;
    socket->local = (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_port = ci_sim_address_new_port(world),
        .sin_addr = ci_sim_address_of(node),
    };
    world->sockets[fd] = socket;
    return socket;
}

int ci_socket_no_descriptor(struct ci_world *world, const struct ci_node *node)
{
    if (!ci_world_fault(world, node, node->faults.no_descriptor, "no descriptor"))
        return 0;
    return ci_random_next(&world->random) & 1 ? -EMFILE : -ENFILE;
}

int ci_socket_take_error(struct ci_socket *socket, int otherwise)
{
    int error = socket->error ? socket->error : otherwise;
    socket->error = 0;
    return error;
}

void ci_socket_drop_input(struct ci_socket *socket)
{
    while (socket->in) {
        struct ci_segment *segment = socket->in;
        socket->in = segment->next;
        free(segment);
    }
    socket->in_tail = &socket->in;
}

/* ---- operations ---- */

/* True: the operation is complete. */
static bool attempt(struct ci_world *world, struct ci_socket *socket, struct ci_op *op)
{
    if (op->kind != CI_OP_POLL)
        return socket->kind->attempt(world, socket, op);
    int events = socket->kind->events(socket);
    if (socket->error)
        events |= COIR_EVENT_ERROR;
    events &= op->events | COIR_HANGUP | COIR_EVENT_ERROR;
    return ci_op_complete(op, events) && events;
}

/* Takes a pending operation off its socket. */
static struct ci_op *take_off(const struct ci_socket *socket, struct ci_pending **at)
{
    struct ci_pending *pending = *at;
    struct ci_op *op = pending->op;
    ci_check(op->pending && op->fd == socket->fd, "sim/socket.c 2");
    *at = pending->next;
    free(pending);
    return op;
}

static void try_all(struct ci_world *world, struct ci_socket *socket)
{
    for (struct ci_pending **at = &socket->pending; *at;) {
        if (!attempt(world, socket, (*at)->op)) {
            at = &(*at)->next;
            continue;
        }
        struct ci_sim_driver *driver = (*at)->driver;
        struct ci_op *op = take_off(socket, at);
        ci_world_trace(world, socket->node, "complete fd=%d kind=%d result=%d", socket->fd,
                       op->kind, op->result);
        ci_sim_driver_complete(driver, op, op->result);
    }
}

/* An attempt may change the socket's state itself: then all operations are tried once more. */
void ci_socket_changed(struct ci_world *world, struct ci_socket *socket)
{
    socket->changed = true;
    if (socket->trying)
        return;
    socket->trying = true;
    while (socket->changed) {
        socket->changed = false;
        try_all(world, socket);
    }
    socket->trying = false;
}

bool ci_socket_start(struct ci_sim_driver *driver, struct ci_op *op)
{
    struct ci_world *world = driver->world;
    struct ci_socket *socket = ci_socket_of(world, op->fd);
    if (!socket)
        return ci_op_complete(op, -EBADF);
    ci_check(!socket->queued, "sim/listener.c 2");
    if (ci_world_fault(world, socket->node, socket->node->faults.no_memory,
                       "no memory for an operation"))
        return ci_op_complete(op, -ENOMEM);
    if (op->kind == CI_OP_CONNECT) {
        int rc = socket->kind->connect ? socket->kind->connect(world, socket, op) : -EISCONN;
        if (rc < 0)
            return ci_op_complete(op, rc);
    }
    if (attempt(world, socket, op)) {
        ci_world_trace(world, socket->node, "at once fd=%d kind=%d result=%d", op->fd, op->kind,
                       op->result);
        return true;
    }
    if (op->no_wait)
        return ci_op_complete(op, -EAGAIN);
    struct ci_pending *pending = malloc(sizeof *pending);
    if (!pending)
        return ci_op_complete(op, -ENOMEM);
    *pending = (struct ci_pending){socket->pending, op, driver};
    socket->pending = pending;
    op->pending = true;
    return false;
}

bool ci_socket_cancel(struct ci_sim_driver *driver, struct ci_op *op)
{
    struct ci_world *world = driver->world;
    struct ci_socket *socket = ci_socket_of(world, op->fd);
    struct ci_pending **at = &socket->pending;
    while (*at && (*at)->op != op)
        at = &(*at)->next;
    if (!*at)
        return false; /* it is complete, and will be reported */
    take_off(socket, at);
    bool at_once = ci_random_next(&world->random) & 1;
    ci_world_trace(world, driver->node, "cancel fd=%d kind=%d %s", op->fd, op->kind,
                   at_once ? "withdrawn" : "to complete");
    if (!at_once) {
        ci_sim_driver_complete(driver, op, -ECANCELED);
        return false;
    }
    op->pending = false;
    op->result = -ECANCELED;
    return true;
}

void ci_socket_forget(struct ci_world *world, const struct ci_sim_driver *driver, coir_fd fd)
{
    struct ci_socket *socket = ci_socket_of(world, fd);
    if (!socket)
        return;
    for (struct ci_pending **at = &socket->pending; *at;) {
        struct ci_sim_driver *its = (*at)->driver;
        if (driver && its != driver)
            at = &(*at)->next;
        else
            ci_sim_driver_complete(its, take_off(socket, at), -ECANCELED);
    }
}

void ci_socket_close(struct ci_world *world, coir_fd fd)
{
    struct ci_socket *socket = ci_socket_of(world, fd);
    if (!socket)
        return;
    ci_check(socket->fd == fd, "sim/socket.c 1");
    ci_check(!socket->queued, "sim/listener.c 2");
    ci_world_trace(world, socket->node, "close fd=%d", fd);
    if (socket->kind->close)
        socket->kind->close(world, socket);
    ci_socket_drop_input(socket);
    ci_socket_forget(world, NULL, fd);
    world->sockets[fd] = NULL;
    free(socket);
}

void ci_socket_audit(struct ci_world *world)
{
    for (size_t fd = 0; fd < world->socket_capacity; fd++) {
        const struct ci_socket *socket = world->sockets[fd];
        if (!socket || socket->queued) /* until it is accepted it belongs to its listener */
            continue;
        char to[40] = "";
        if (socket->peer_node != socket->node)
            snprintf(to, sizeof to, " with %.24s", socket->peer_node->name);
        ci_world_leave(world, socket->node, "%s fd=%d port=%d%s%s", socket->kind->name, socket->fd,
                       ntohs(socket->local.sin_port), to,
                       socket->pending ? ", an operation is pending" : "");
    }
}
