/* The buffers that the driver over io_uring provides to the kernel (a ring of provided buffers, see
 * sys/ring.h), for multishot receives. The kernel takes one for each arrival of bytes; the driver
 * gives it back when a reader has taken the bytes (uring_ahead.c). */
#include "driver/uring.h"

void ci_uring_give_buffer(struct ci_uring *uring, uint16_t id)
{
    ci_ring_buffer_give(&uring->buffers, (uint16_t)(id - 1));
}

void ci_uring_give_more_buffers(struct ci_uring *uring)
{
    uint16_t target = uring->given ? (uint16_t)(2 * uring->given) : CI_URING_BUFFERS_FIRST;
    while (uring->given < target && uring->given < CI_URING_BUFFERS)
        ci_uring_give_buffer(uring, ++uring->given);
}

/* One receive may take any number of them before it is cancelled (uring_ahead.c). */
int ci_uring_populate_buffers(const struct ci_uring *uring)
{
    int rc = ci_ring_buffers_populate(&uring->buffers);
    return rc == -EINVAL ? 0 : rc; /* the kernel is too old: they come as they are used */
}

/* Buffers of an earlier ring may still hold bytes that were read ahead: gives the others. */
static void give_buffers_again(struct ci_uring *uring)
{
    bool held[CI_URING_BUFFERS + 1] = {false};
    for (size_t fd = 0; fd < uring->slot_count; fd++) {
        const struct ci_uring_slot *slot = &uring->slots[fd];
        for (uint16_t id = slot->has_adopted ? 0 : slot->first; id; id = uring->held[id].next)
            held[id] = true;
    }
    for (uint16_t id = 1; id <= uring->given; id++)
        if (!held[id])
            ci_uring_give_buffer(uring, id);
}

void ci_uring_give_first_buffers(struct ci_uring *uring)
{
    if (uring->given)
        give_buffers_again(uring);
    else
        ci_uring_give_more_buffers(uring);
}
