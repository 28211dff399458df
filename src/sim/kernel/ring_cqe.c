/* Completions of a simulated ring, and the overflow list of those without room: io_uring.c
 * (io_cqring_event_overflow, __io_cqring_overflow_flush) of Linux 6.1; io_uring_enter(2),
 * IORING_FEAT_NODROP. */
#include <stdlib.h>

#include "sim/kernel/ring.h"

struct late {
    struct ci_list link;
    struct io_uring_cqe completion;
};

uint32_t ci_kring_completions(const struct ci_kring *ring)
{
    return ring->tail - ci_kring_completions_head(ring);
}

static bool has_room(const struct ci_kring *ring)
{
    return ci_kring_completions(ring) < ring->completion_count;
}

/* Posts into the ring, unless it is full or earlier completions wait for room: completions never
 * overtake each other. */
static bool put(struct ci_kring *ring, const struct io_uring_cqe *completion)
{
    if (!ci_list_empty(&ring->overflow) || !has_room(ring))
        return false;
    ci_kring_write_completion(ring, completion);
    return true;
}

#define COMPLETION(name, result, cqe_flags)                        \
    &(struct io_uring_cqe)                                         \
    {                                                              \
        .user_data = (name), .res = (result), .flags = (cqe_flags) \
    }

void ci_kring_post(struct ci_kring *ring, uint64_t name, int32_t result, uint32_t flags)
{
    ci_ktrace("completion", (int64_t)name, result);
    if (put(ring, COMPLETION(name, result, flags)))
        return;
    struct late *late = malloc(sizeof *late);
    ci_check(late, "kernel/kernel.h 5");
    late->completion.user_data = name;
    late->completion.res = result;
    late->completion.flags = flags;
    ci_list_push(&ring->overflow, &late->link);
    ci_kring_set_flag(ring, IORING_SQ_CQ_OVERFLOW, true);
}

bool ci_kring_post_more(struct ci_kring *ring, uint64_t name, int32_t result, uint32_t flags)
{
    if (!put(ring, COMPLETION(name, result, flags | IORING_CQE_F_MORE)))
        return false;
    ci_ktrace("completion, more", (int64_t)name, result);
    return true;
}

uint32_t ci_kring_untold_buffers(const struct ci_kring *ring)
{
    uint32_t count = 0;
    for (uint32_t i = ci_kring_completions_head(ring); i != ring->tail; i++)
        count += (ci_kring_completion(ring, i)->flags & IORING_CQE_F_BUFFER) != 0;
    ci_list_for_each (node, &ring->overflow)
        count +=
            (ci_container_of(node, struct late, link)->completion.flags & IORING_CQE_F_BUFFER) != 0;
    return count;
}

bool ci_kring_flush(struct ci_kring *ring)
{
    while (!ci_list_empty(&ring->overflow) && has_room(ring)) {
        struct late *late = ci_container_of(ci_list_pop(&ring->overflow), struct late, link);
        ci_kring_write_completion(ring, &late->completion);
        free(late);
        if (ci_list_empty(&ring->overflow))
            ci_kring_set_flag(ring, IORING_SQ_CQ_OVERFLOW, false);
    }
    return ci_list_empty(&ring->overflow);
}

void ci_kring_drop_overflow(struct ci_kring *ring)
{
    struct ci_list *node;
    while ((node = ci_list_pop(&ring->overflow)))
        free(ci_container_of(node, struct late, link));
}
