/* The lists that the operations of the driver over io_uring are in: of a descriptor, while they
 * wait or are in flight; of the driver, from their end until `done` is called. */
#include <errno.h>

#include "base/check.h"
#include "driver/kernel.h"
#include "driver/uring.h"

int ci_uring_reserve(struct ci_uring *uring, coir_fd fd)
{
    if (ci_likely((size_t)fd < uring->slot_count))
        return 0;
    return ci_kernel_reserve(uring->allocator, (void **)&uring->slots, &uring->slot_count,
                             sizeof(struct ci_uring_slot), fd);
}

void ci_uring_link(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op,
                   uint8_t state)
{
    uring->base.pending++;
    op->pending = state;
    op->next = slot->ops;
    slot->ops = op;
}

void ci_uring_unlink(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op)
{
    ci_op_remove(&slot->ops, op);
    uring->base.pending--;
}

static void append_ended(struct ci_uring *uring, struct ci_op *op, uint8_t state, int32_t result)
{
    op->pending = state;
    op->result = result;
    op->next = NULL;
    *uring->ended_tail = op;
    uring->ended_tail = &op->next;
}

void ci_uring_end(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op,
                  uint8_t state, int32_t result)
{
    ci_check(op->pending == CI_URING_WAITING || op->pending == CI_URING_IN_FLIGHT, "uring.h 2");
    if (slot) /* an operation on a file is in no list */
        ci_op_remove(&slot->ops, op);
    append_ended(uring, op, state, result);
}

void ci_uring_end_unlinked(struct ci_uring *uring, struct ci_op *op, int32_t result)
{
    uring->base.pending++;
    append_ended(uring, op, CI_URING_ENDED, result);
}

static void set_withdrawn(struct ci_op *op)
{
    op->pending = CI_URING_IDLE;
    op->result = -ECANCELED;
}

void ci_uring_withdraw(struct ci_uring *uring, struct ci_uring_slot *slot, struct ci_op *op)
{
    ci_check(op->pending == CI_URING_WAITING || ci_uring_is_poll(op), "uring.h 5");
    ci_uring_unlink(uring, slot, op);
    set_withdrawn(op);
}

void ci_uring_withdraw_ended(struct ci_uring *uring, struct ci_op *op)
{
    struct ci_op **at = &uring->ended;
    while (*at != op)
        at = &(*at)->next;
    if (!(*at = op->next))
        uring->ended_tail = at;
    uring->base.pending--;
    set_withdrawn(op);
}
