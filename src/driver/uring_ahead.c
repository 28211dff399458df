/* Bytes that the driver over io_uring has read ahead of a stream's readers.
 *
 * A stream is read by a multishot receive, into buffers provided to the kernel (uring_buffer.c).
 * Bytes that were not read yet are read ahead: they belong to the descriptor, are kept when a read
 * is cancelled, and count as readable. When CI_URING_AHEAD_MAX buffers are read ahead, the receive
 * is cancelled (an overrun), and reads use the reader's own memory until the stream is drained. If
 * the receive finds no free buffer, a receive into the reader's memory replaces it: a stream that
 * is not read cannot stop the others. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "driver/uring.h"

void ci_uring_drop_adopted(struct ci_uring_slot *slot)
{
    if (!slot->has_adopted)
        return;
    ci_ahead_free(slot->adopted);
    slot->adopted = NULL;
    slot->has_adopted = false;
}

void ci_uring_drop_ahead(struct ci_uring *uring, struct ci_uring_slot *slot)
{
    ci_uring_drop_adopted(slot);
    while (slot->first) {
        uint16_t id = slot->first;
        slot->first = uring->held[id].next;
        ci_uring_give_buffer(uring, id);
    }
    slot->last = slot->ahead = slot->taken = 0;
}

void ci_uring_put_ahead(struct ci_uring *uring, struct ci_uring_slot *slot, uint16_t id,
                        uint16_t len)
{
    ci_check(!slot->has_adopted, "uring.h 4");
    uring->held[id] = (struct ci_uring_held){0, len};
    if (slot->first)
        uring->held[slot->last].next = id;
    else
        slot->first = id;
    slot->last = id;
    slot->ahead++;
}

static size_t take_adopted(struct ci_uring_slot *slot, char *to, size_t len)
{
    struct ci_ahead *ahead = slot->adopted;
    size_t n = ahead->len - ahead->at < len ? ahead->len - ahead->at : len;
    memcpy(to, ahead->bytes + ahead->at, n);
    ahead->at += n;
    if (ahead->at == ahead->len) {
        slot->error = (uint8_t)ahead->error;
        ci_uring_drop_adopted(slot);
    }
    return n;
}

size_t ci_uring_take_some(struct ci_uring *uring, struct ci_uring_slot *slot, char *to, size_t len)
{
    size_t done = 0;
    if (slot->has_adopted)
        return take_adopted(slot, to, len);
    while (slot->first && done < len) {
        uint16_t id = slot->first;
        const struct ci_uring_held *held = &uring->held[id];
        size_t n = (size_t)(held->len - slot->taken) < len - done
                       ? (size_t)(held->len - slot->taken)
                       : len - done;
        memcpy(to + done, ci_ring_buffer(&uring->buffers, (uint16_t)(id - 1)) + slot->taken, n);
        done += n;
        slot->taken = (uint16_t)(slot->taken + n);
        if (slot->taken < held->len)
            break;
        slot->first = held->next;
        slot->taken = 0;
        slot->ahead--;
        ci_uring_give_buffer(uring, id);
    }
    return done;
}

int32_t ci_uring_take(struct ci_uring *uring, struct ci_uring_slot *slot, const struct ci_op *op)
{
    if (ci_uring_has_bytes(slot)) {
        size_t done = 0;
        if (op->kind == CI_OP_READ)
            done = ci_uring_take_some(uring, slot, op->buf, op->len);
        else
            for (int i = 0; i < op->count && ci_uring_has_bytes(slot); i++)
                done += ci_uring_take_some(uring, slot, op->iov[i].iov_base, op->iov[i].iov_len);
        return (int32_t)done;
    }
    int32_t result = -(int32_t)slot->error;
    slot->error = 0;
    return result;
}

int32_t ci_uring_peek(const struct ci_uring *uring, const struct ci_uring_slot *slot,
                      const struct ci_op *op)
{
    char *to = op->buf;
    size_t done = 0, skip = 0;
    if (!ci_uring_has_bytes(slot))
        return -(int32_t)slot->error;
    if (slot->has_adopted) {
        const struct ci_ahead *ahead = slot->adopted;
        done = ahead->len - ahead->at < op->len ? ahead->len - ahead->at : op->len;
        memcpy(to, ahead->bytes + ahead->at, done);
        return (int32_t)done;
    }
    skip = slot->taken;
    for (uint16_t id = slot->first; id && done < op->len; id = uring->held[id].next, skip = 0) {
        size_t has = uring->held[id].len - skip;
        size_t n = has < op->len - done ? has : op->len - done;
        memcpy(to + done, ci_ring_buffer(&uring->buffers, (uint16_t)(id - 1)) + skip, n);
        done += n;
    }
    return (int32_t)done;
}
