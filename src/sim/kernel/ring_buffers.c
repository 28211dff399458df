/* Buffers that a program provides to a simulated ring: kbuf.c (io_ring_buffer_select) of Linux 6.1;
 * io_uring_register(2), IORING_REGISTER_PBUF_RING.
 *
 * - A receive looks for a buffer before it looks for data, and takes the buffer only if there is
 *   data: so -ENOBUFS also comes when nothing has arrived.
 * - Each buffer is either in the ring once, or held by the program. Giving one back twice ends the
 *   run: Linux would overwrite data that the program has not read yet.
 */
#include <errno.h>
#include <stdlib.h>

#include "sim/audit.h"
#include "sim/kernel/ring.h"

enum { ENTRIES_MOST = 32768, PAGE = 4096 };
enum { UNKNOWN, GIVEN, TAKEN };

struct ci_kring_buffers {
    struct ci_kring_buffers *next;
    struct io_uring_buf_ring *ring;
    uint32_t count;
    uint16_t group;
    uint16_t head, seen; /* seen: the tail at the last look */
    uint32_t withheld;   /* how many are still to be withheld (ci_kring_traits) */
    uint32_t taken;      /* how many the program holds */
    uint8_t states[];    /* by buffer, whose number is below `count` */
};

static struct ci_kring_buffers *find(const struct ci_kring *ring, uint16_t group)
{
    struct ci_kring_buffers *buffers = ring->groups;
    while (buffers && buffers->group != group)
        buffers = buffers->next;
    return buffers;
}

int ci_kring_buffers_register(struct ci_kring *ring, const struct io_uring_buf_reg *reg)
{
    uint32_t count = reg->ring_entries;
    if (reg->pad || reg->resv[0] || reg->resv[1] || reg->resv[2])
        return -EINVAL;
    if (!reg->ring_addr)
        return -EFAULT;
    if (reg->ring_addr % PAGE || !count || (count & (count - 1)) || count >= ENTRIES_MOST * 2)
        return -EINVAL;
    if (find(ring, reg->bgid))
        return -EEXIST;
    struct ci_kring_buffers *buffers = calloc(1, sizeof *buffers + count);
    ci_check(buffers, "kernel/kernel.h 5");
    buffers->ring = (struct io_uring_buf_ring *)(uintptr_t)reg->ring_addr;
    buffers->count = count;
    buffers->group = reg->bgid;
    buffers->withheld = ci_kring_traits.withheld;
    buffers->next = ring->groups;
    ring->groups = buffers;
    return 0;
}

static const struct io_uring_buf *at(const struct ci_kring_buffers *buffers, uint16_t index)
{
    return &buffers->ring->bufs[index & (buffers->count - 1)];
}

/* Takes in the buffers that the program has added since the last look. */
static void look(struct ci_kring_buffers *buffers)
{
    uint16_t tail = __atomic_load_n(&buffers->ring->tail, __ATOMIC_ACQUIRE);
    for (; buffers->seen != tail; buffers->seen++) {
        uint16_t id = at(buffers, buffers->seen)->bid;
        if (id >= buffers->count)
            ci_kunknown("a buffer's number beyond its ring's size");
        uint8_t *state = &buffers->states[id];
        if (*state == GIVEN)
            ci_kunknown("a buffer that is given twice");
        buffers->taken -= *state == TAKEN;
        *state = GIVEN;
    }
    for (; buffers->withheld && buffers->head != tail; buffers->withheld--)
        buffers->head++;
}

bool ci_kring_buffer_choose(struct ci_kring *ring, uint16_t group, struct io_uring_buf *ret_buf)
{
    struct ci_kring_buffers *buffers = find(ring, group);
    if (!buffers)
        return false;
    look(buffers);
    if (buffers->head == buffers->seen)
        return false;
    *ret_buf = *at(buffers, buffers->head);
    return true;
}

void ci_kring_buffer_use(struct ci_kring *ring, uint16_t group)
{
    struct ci_kring_buffers *buffers = find(ring, group);
    buffers->states[at(buffers, buffers->head)->bid] = TAKEN;
    buffers->taken++;
    buffers->head++;
}

static bool has_sockets(const struct ci_kprocess *process)
{
    for (size_t fd = 0; fd < process->file_room; fd++)
        if (process->files[fd] && process->files[fd]->type->receive)
            return true;
    return false;
}

/* When the ring is closed: if no socket is open any more, the program must have given back every
 * buffer, except those in completions that it has not seen. */
void ci_kring_buffers_audit(struct ci_kring *ring)
{
    for (struct ci_kring_buffers *buffers = ring->groups; buffers; buffers = buffers->next) {
        look(buffers);
        uint32_t untold = ci_kring_untold_buffers(ring);
        if (buffers->taken > untold && !has_sockets(ring->process))
            ci_world_leave(ci_k.world, ring->process->node,
                           "%u receive buffers that were not given back", buffers->taken - untold);
    }
}

void ci_kring_buffers_free(struct ci_kring *ring)
{
    struct ci_kring_buffers *buffers;
    while ((buffers = ring->groups)) {
        ring->groups = buffers->next;
        free(buffers);
    }
}
