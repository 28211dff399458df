/* The memory of rings that the simulated kernel shares with the program: sys/ring.h reads and
 * writes the other ends. io_uring.c (struct io_rings) of Linux 6.1. */
#include <errno.h>
#include <stdlib.h>

#include "sim/kernel/ring.h"

/* struct io_rings: two rings' heads and tails on cache lines of their own, then this, then the
 * entries. */
enum {
    SQ_HEAD = 0,
    SQ_TAIL = 64,
    CQ_HEAD = 128,
    CQ_TAIL = 192,
    SQ_MASK = 256,
    CQ_MASK = 260,
    SQ_COUNT = 264,
    CQ_COUNT = 268
};
enum { SQ_DROPPED = 272, SQ_FLAGS = 276, CQ_FLAGS = 280, CQ_OVERFLOW = 284, CQES = 320 };

struct ci_kring_traits ci_kring_traits;
struct ci_list ci_krings;

/* ---- the list of rings ---- */

void ci_kring_each(void (*fn)(struct ci_kring *ring, int number), int number)
{
    ci_list_for_each (node, &ci_krings) {
        struct ci_kring *ring = ci_container_of(node, struct ci_kring, link);
        if (!ring->closed)
            fn(ring, number);
    }
}

/* Rings are freed only after the run, so a ring found here is not a reused structure. */
struct ci_kring *ci_kring_of(struct ci_kfile *file)
{
    ci_list_for_each (node, &ci_krings) {
        struct ci_kring *ring = ci_container_of(node, struct ci_kring, link);
        if (&ring->file == file)
            return ring;
    }
    return NULL;
}

int ci_kring_find(coir_fd fd, struct ci_kring **ret_ring)
{
    struct ci_kfile *file = ci_kfd_find(fd);
    if (!file)
        return -EBADF;
    *ret_ring = ci_kring_of(file);
    return *ret_ring ? 0 : -EOPNOTSUPP;
}

/* ---- memory ---- */

static uint32_t *word(const struct ci_kring *ring, uint32_t offset)
{
    return (uint32_t *)(void *)(ring->rings + offset);
}

void ci_kring_set_flag(struct ci_kring *ring, uint32_t flag, bool on)
{
    if (on)
        __atomic_fetch_or(word(ring, SQ_FLAGS), flag, __ATOMIC_RELAXED);
    else
        __atomic_fetch_and(word(ring, SQ_FLAGS), ~flag, __ATOMIC_RELAXED);
}

uint32_t ci_kring_entries_tail(const struct ci_kring *ring)
{
    return __atomic_load_n(word(ring, SQ_TAIL), __ATOMIC_ACQUIRE);
}

static size_t order_offset(uint32_t completions)
{
    return CQES + completions * sizeof(struct io_uring_cqe);
}

/* Found through the ring's index array, as in Linux. */
struct io_uring_sqe *ci_kring_entry(const struct ci_kring *ring)
{
    uint32_t mask = ring->entry_count - 1;
    return &ring->entries[*word(ring, (uint32_t)order_offset(ring->completion_count) +
                                          4 * (ring->head & mask)) &
                          mask];
}

void ci_kring_entry_taken(struct ci_kring *ring)
{
    ring->head++;
    __atomic_store_n(word(ring, SQ_HEAD), ring->head, __ATOMIC_RELEASE);
}

uint32_t ci_kring_completions_head(const struct ci_kring *ring)
{
    return __atomic_load_n(word(ring, CQ_HEAD), __ATOMIC_ACQUIRE);
}

struct io_uring_cqe *ci_kring_completion(const struct ci_kring *ring, uint32_t index)
{
    struct io_uring_cqe *cqes = (struct io_uring_cqe *)(void *)(ring->rings + CQES);
    return &cqes[index & (ring->completion_count - 1)];
}

void ci_kring_write_completion(struct ci_kring *ring, const struct io_uring_cqe *completion)
{
    struct io_uring_cqe *at = ci_kring_completion(ring, ring->tail);
    at->user_data = completion->user_data;
    at->res = completion->res;
    at->flags = completion->flags;
    ring->tail++;
    __atomic_store_n(word(ring, CQ_TAIL), ring->tail, __ATOMIC_RELEASE);
}

void ci_kring_make_memory(struct ci_kring *ring, struct io_uring_params *params)
{
    size_t size = order_offset(params->cq_entries) + params->sq_entries * sizeof(uint32_t);
    ring->rings = calloc(1, size);
    ring->entries = calloc(params->sq_entries, sizeof *ring->entries);
    ci_check(ring->rings && ring->entries, "kernel/kernel.h 5");
    ring->entry_count = params->sq_entries;
    ring->completion_count = params->cq_entries;
    *word(ring, SQ_MASK) = params->sq_entries - 1;
    *word(ring, CQ_MASK) = params->cq_entries - 1;
    *word(ring, SQ_COUNT) = params->sq_entries;
    *word(ring, CQ_COUNT) = params->cq_entries;
    params->sq_off = (struct io_sqring_offsets){
        .head = SQ_HEAD,
        .tail = SQ_TAIL,
        .ring_mask = SQ_MASK,
        .ring_entries = SQ_COUNT,
        .flags = SQ_FLAGS,
        .dropped = SQ_DROPPED,
        .array = (uint32_t)order_offset(params->cq_entries),
    };
    params->cq_off = (struct io_cqring_offsets){
        .head = CQ_HEAD,
        .tail = CQ_TAIL,
        .ring_mask = CQ_MASK,
        .ring_entries = CQ_COUNT,
        .overflow = CQ_OVERFLOW,
        .cqes = CQES,
        .flags = CQ_FLAGS,
    };
}

int ci_ring_call_map(coir_fd fd, const struct io_uring_params *params, struct ci_ring_map *ret_map)
{
    struct ci_kring *ring;
    ci_kcall();
    int rc = ci_kring_find(fd, &ring);
    if (rc < 0)
        return rc;
    *ret_map = (struct ci_ring_map){
        ring->rings,
        ring->entries,
        order_offset(params->cq_entries) + params->sq_entries * sizeof(uint32_t),
        params->sq_entries * sizeof *ring->entries,
    };
    return 0;
}

void ci_ring_call_unmap(const struct ci_ring_map *map) /* the memory is freed with the ring */
{
    (void)map;
    ci_kcall();
}

int ci_ring_call_populate(void *memory, size_t size) /* pages are the real kernel's */
{
    (void)memory, (void)size;
    return 0;
}
