/* Entries of the driver over io_uring: the table of the kernel's requests, taking an entry together
 * with a submission queue entry (SQE), and requesting the cancel of one. */
#include <errno.h>

#include "base/check.h"
#include "driver/uring.h"

enum { SQE_TRIES = 16 };

/* Makes the kernel take what is in the ring. An enter lets requests complete, too. */
static void submit(struct ci_uring *uring, bool enters)
{
    if (enters) {
        ci_uring_enter(uring, false, 0);
        return;
    }
    ci_ring_submit(&uring->ring);
    ci_uring_note_submitted(uring);
}

/* It never reaps: whoever asks is in the middle of a change, and what reaping ends or starts again
 * might be what is being changed. */
struct io_uring_sqe *ci_uring_sqe(struct ci_uring *uring)
{
    struct io_uring_sqe *sqe = uring->open ? ci_ring_entry(&uring->ring) : NULL;
    for (int tries = 0; ci_unlikely(!sqe) && uring->open && tries < SQE_TRIES; tries++) {
        /* reaping repeats cancels that were refused because their requests are about to complete:
         * more of them than there are SQEs would be refused again at once, and reaping would never
         * end */
        submit(uring, uring->reaping || tries > 0);
        sqe = ci_ring_entry(&uring->ring);
    }
    return sqe;
}

void ci_uring_reap_for_room(struct ci_uring *uring)
{
    for (int tries = 0; !ci_ring_has_room(&uring->ring) && tries < SQE_TRIES; tries++) {
        submit(uring, tries > 0);
        if (tries > 0) /* a full completion queue makes the kernel refuse submissions */
            uring->reap(uring);
    }
}

uint64_t ci_uring_user_data(const struct ci_uring *uring, uint32_t index)
{
    return (uint64_t)uring->entries[index].generation << 32 | index;
}

static bool add_entries(struct ci_uring *uring)
{
    size_t from = uring->entry_count ? uring->entry_count : 1;
    if (ci_grow(uring->allocator, (void **)&uring->entries, &uring->entry_count,
                sizeof(struct ci_uring_entry), from + 1) < 0)
        return false;
    for (size_t i = uring->entry_count; i-- > from;) {
        uring->entries[i].fd = (coir_fd)uring->free_entry;
        uring->free_entry = (uint32_t)i;
    }
    return true;
}

int ci_uring_reserve_entries(struct ci_uring *uring, size_t count)
{
    while (uring->entry_count < count)
        if (!add_entries(uring))
            return -ENOMEM;
    return 0;
}

uint32_t ci_uring_prepare(struct ci_uring *uring, enum ci_uring_use use, struct ci_op *op,
                          coir_fd fd, uint8_t opcode, struct io_uring_sqe **ret_sqe)
{
    struct io_uring_sqe *sqe = ci_uring_sqe(uring);
    if (ci_unlikely(!sqe))
        return 0;
    if (ci_unlikely(!uring->free_entry) && !add_entries(uring)) {
        sqe->opcode = IORING_OP_NOP; /* an SQE cannot be put back */
        sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
        return 0;
    }
    uint32_t index = uring->free_entry;
    struct ci_uring_entry *entry = &uring->entries[index];
    ci_check(entry->use == CI_URING_FREE, "uring.h 1");
    uring->free_entry = (uint32_t)entry->fd;
    uring->used++;
    entry->op = op;
    entry->fd = fd;
    entry->use = use & 0x3f;
    entry->cancel_requested = entry->cancel_due = false;
    entry->generation++;
    sqe->opcode = opcode;
    sqe->fd = fd;
    sqe->user_data = ci_uring_user_data(uring, index);
    *ret_sqe = sqe;
    return index;
}

void ci_uring_free_entry(struct ci_uring *uring, uint32_t index)
{
    ci_check(uring->entries[index].use != CI_URING_FREE, "uring.h 1");
    uring->entries[index].use = CI_URING_FREE;
    uring->entries[index].fd = (coir_fd)uring->free_entry;
    uring->free_entry = index;
    uring->used--;
}

bool ci_uring_is_live(const struct ci_uring *uring, uint64_t user_data)
{
    uint32_t index = (uint32_t)user_data;
    return index && index < uring->entry_count && ci_uring_user_data(uring, index) == user_data &&
           uring->entries[index].use != CI_URING_FREE;
}

bool ci_uring_request_cancel(struct ci_uring *uring, uint32_t index)
{
    uring->entries[index].cancel_requested = true;
    uint64_t user_data = ci_uring_user_data(uring, index);
    struct io_uring_sqe *sqe = ci_uring_sqe(uring);
    uring->entries[index].cancel_due = !sqe;
    if (ci_unlikely(!sqe)) {
        uring->cancels_due = true;
        return false;
    }
    sqe->opcode = IORING_OP_ASYNC_CANCEL;
    sqe->fd = -1;
    sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
    sqe->addr = user_data;
    sqe->user_data = ci_uring_cancel_of | user_data;
    return true;
}

CI_COLD void ci_uring_repeat_cancels(struct ci_uring *uring)
{
    uring->cancels_due = false;
    for (uint32_t i = 1; i < uring->entry_count; i++) {
        bool due = uring->entries[i].use != CI_URING_FREE && uring->entries[i].cancel_due;
        if (due && !ci_uring_request_cancel(uring, i))
            return; /* nor do the others get SQEs now */
    }
}

/* The kernel was about to retry the request (ENOENT), or one of its own threads was (EALREADY);
 * either may wait again afterwards, so the cancel is requested once more. Not for a file: requests
 * on files do not wait for events, they complete by themselves. */
void ci_uring_retry_cancel(struct ci_uring *uring, uint64_t user_data)
{
    if (!ci_uring_is_live(uring, user_data))
        return;
    const struct ci_uring_entry *entry = &uring->entries[(uint32_t)user_data];
    if (entry->use != CI_URING_OP || !entry->op || !ci_uring_on_file(entry->op))
        ci_uring_request_cancel(uring, (uint32_t)user_data);
}

void ci_uring_orphan(struct ci_uring *uring, uint32_t index)
{
    uring->entries[index].op = NULL;
    ci_uring_request_cancel(uring, index);
    uring->close_queued = true; /* until then the kernel keeps the file open */
}
