/* Reads and writes of one piece, which most operations are: for readiness.c and
 * readiness_attempt.c to make part of theirs.
 *
 * A short read or write clears its bit of the slot, as EAGAIN does: that saves the call that would
 * only return EAGAIN. But not once the end of the stream, a hang-up, an error or an urgent byte was
 * reported: data and end can share one edge, and no other would come. */
#ifndef CI_DRIVER_READINESS_TRANSFER_H
#define CI_DRIVER_READINESS_TRANSFER_H

#include <errno.h>

#include "driver/readiness_slot.h"
#include "sys/socket_call.h"

/* A call would have blocked. */
CI_INLINE void ci_slot_note_blocked(struct ci_slot *slot, uint8_t bit)
{
    slot->ready &=
        (uint8_t) ~(bit == COIR_READ ? COIR_READ | CI_EVENT_END | CI_EVENT_URGENT : COIR_WRITE);
    if (slot->ready & CI_SLOT_GONE) /* of an earlier state: the next edge reports them again */
        slot->ready &= (uint8_t)~CI_SLOT_GONE;
}

/* A call moved less than it might have. */
CI_INLINE void ci_slot_note_short(struct ci_slot *slot, uint8_t bit)
{
    if (!(slot->ready & (CI_SLOT_ENDS | CI_EVENT_URGENT)))
        slot->ready &= (uint8_t)~bit;
}

/* Notes what the call of an operation returned, which might have moved `len` bytes. False: it would
 * have blocked. */
CI_INLINE bool ci_slot_note(struct ci_slot *slot, struct ci_op *op, ssize_t rc, uint8_t bit,
                            size_t len)
{
    op->result = (int32_t)rc;
    if (ci_likely(rc > 0)) {
        if ((size_t)rc < len)
            ci_slot_note_short(slot, bit);
        return true;
    }
    if (ci_likely(rc != -EAGAIN))
        return true;
    ci_slot_note_blocked(slot, bit);
    return false;
}

/* False: it would have blocked. */
CI_INLINE bool ci_slot_send(struct ci_slot *slot, struct ci_op *op)
{
    ssize_t rc;
    do
        rc = ci_sys_send(op->fd, op->data, op->len);
    while (ci_unlikely(rc == -EINTR));
    return ci_slot_note(slot, op, rc, COIR_WRITE, op->len);
}

/* Of a read that ci_slot_reads_plainly. False: it would have blocked. */
CI_INLINE bool ci_slot_receive(struct ci_slot *slot, struct ci_op *op)
{
    ssize_t rc;
    do
        rc = ci_sys_recv(op->fd, op->buf, op->len);
    while (ci_unlikely(rc == -EINTR));
    return ci_slot_note(slot, op, rc, COIR_READ, op->len);
}

/* Whether a short read says that nothing is left, or that does not matter: what is left is reported
 * all the same. `ancillary`: of the read (struct ci_op). */
CI_INLINE bool ci_slot_reads_plainly(const struct ci_slot *slot, bool ancillary)
{
    return !ancillary || slot->level || slot->once || !slot->registered;
}

#endif
