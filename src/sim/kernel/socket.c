/* What all sockets have in common: making, addresses, queues of segments, freeing. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/address.h"
#include "sim/kernel/socket.h"

/* ---- queues ---- */

void ci_kqueue_init(struct ci_kqueue *queue)
{
    *queue = (struct ci_kqueue){0};
    queue->last = &queue->first;
}

void ci_kqueue_push(struct ci_kqueue *queue, struct ci_ksegment *segment)
{
    segment->next = NULL;
    *queue->last = segment;
    queue->last = &segment->next;
    queue->bytes += segment->len;
    queue->count++;
}

struct ci_ksegment *ci_kqueue_pop(struct ci_kqueue *queue)
{
    struct ci_ksegment *segment = queue->first;
    if (!(queue->first = segment->next))
        queue->last = &queue->first;
    queue->bytes -= segment->len;
    queue->count--;
    return segment;
}

void ci_kqueue_drop(struct ci_kqueue *queue)
{
    while (queue->first)
        free(ci_kqueue_pop(queue));
}

struct ci_ksegment *ci_ksegment_new(size_t len)
{
    struct ci_ksegment *segment = malloc(sizeof *segment + len);
    ci_check(segment, "kernel/kernel.h 5");
    *segment = (struct ci_ksegment){.len = len};
    return segment;
}

/* ---- making ---- */

/* A buffer size: from one or two segments to enough for a fast link. */
static size_t buffer_size(void)
{
    uint32_t sizes = ci_k.settings.buffer_sizes;
    return sizes ? (size_t)2048 << ci_kbelow(sizes) : 212992;
}

struct ci_ksocket *ci_ksocket_new(struct ci_node *node, const struct ci_kfile_type *type)
{
    struct ci_ksocket *socket = ci_kalloc(sizeof *socket);
    ci_kfile_init(&socket->file, type);
    socket->node = node;
    socket->peer_node = node;
    socket->in_most = buffer_size();
    socket->out_most = buffer_size();
    ci_kqueue_init(&socket->in);
    ci_kqueue_init(&socket->out);
    socket->local = ci_kaddress_of(node, CI_KFOUR, ci_sim_address_new_port(ci_k.world));
    socket->next = ci_k.sockets;
    ci_k.sockets = socket;
    return socket;
}

void ci_ksocket_free_all(void)
{
    while (ci_k.sockets) {
        struct ci_ksocket *socket = ci_k.sockets;
        ci_k.sockets = socket->next;
        ci_kqueue_drop(&socket->in);
        ci_kqueue_drop(&socket->out);
        free(socket);
    }
}

/* Whether no other socket of that state has the port and a family of it, unless all share it. */
bool ci_ksocket_port_is_free(const struct ci_ksocket *socket, enum ci_ksocket_state state)
{
    for (const struct ci_ksocket *other = ci_k.sockets; other; other = other->next)
        if (other != socket && other->state == state && !other->orphan &&
            other->node == socket->node && other->local.sin6_port == socket->local.sin6_port &&
            (other->takes & socket->takes) && !(other->shares_port && socket->shares_port))
            return false;
    return true;
}

int ci_ksocket_take_error(struct ci_ksocket *socket)
{
    int error = socket->error;
    socket->error = 0;
    return error;
}
