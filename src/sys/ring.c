#include "sys/ring.h"

#include <errno.h>
#include <sys/mman.h>

#include "sys/call.h"
#include "sys/mapping_keep.h"

/* The best first: Linux 6.1, then 6.0. */
static const uint32_t flags_wanted[] = {
    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
};
static const uint32_t flags_always =
    IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_R_DISABLED;
static const uint32_t features_needed = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP |
                                        IORING_FEAT_SUBMIT_STABLE | IORING_FEAT_EXT_ARG |
                                        IORING_FEAT_CQE_SKIP;

static uint32_t *at(const struct ci_ring *ring, uint32_t offset)
{
    return (uint32_t *)(void *)((char *)ring->map.rings + offset);
}

static int map_rings(struct ci_ring *ring, const struct io_uring_params *params)
{
    int rc = ci_ring_call_map(ring->fd, params, &ring->map);
    if (rc < 0)
        return rc;
    ring->entries = ring->map.entries;
    ring->entry_mask = params->sq_entries - 1;
    ring->kernel_head = at(ring, params->sq_off.head);
    ring->kernel_tail = at(ring, params->sq_off.tail);
    ring->kernel_flags = at(ring, params->sq_off.flags);
    ring->completion_mask = params->cq_entries - 1;
    ring->completions =
        (struct io_uring_cqe *)(void *)((char *)ring->map.rings + params->cq_off.cqes);
    ring->completion_head = at(ring, params->cq_off.head);
    ring->completion_tail = at(ring, params->cq_off.tail);
    uint32_t *order = at(ring, params->sq_off.array);
    for (uint32_t i = 0; i < params->sq_entries; i++)
        order[i] = i; /* entries are submitted in the order of the array */
    return 0;
}

int ci_ring_open(struct ci_ring *ring, uint32_t entries, uint32_t completions, bool shared)
{
    struct io_uring_params params;
    size_t step = 0;
    int fd = -1;
    do {
        params = (struct io_uring_params){.flags = (shared ? 0 : flags_wanted[step]) | flags_always,
                                          .cq_entries = completions};
        fd = ci_ring_call_setup(entries, &params);
    } while (fd == -EINVAL && !shared && ++step < ci_countof(flags_wanted));
    if (fd < 0)
        return fd;
    *ring = (struct ci_ring){.fd = fd, .deferred = params.flags & IORING_SETUP_DEFER_TASKRUN};
    int rc = (params.features & features_needed) == features_needed ? 0 : -EINVAL;
    if (rc == 0 && (rc = ci_ring_call_enter(fd, 0, 0, 0, NULL, 0)) ==
                       -EBADFD) /* the ring has no owner yet: entering works otherwise */
        rc = 0;
    if (rc == 0)
        rc = map_rings(ring, &params);
    if (rc < 0)
        ci_sys_close(fd);
    return rc;
}

void ci_ring_close(struct ci_ring *ring)
{
    ci_ring_call_unmap(&ring->map);
    ci_sys_close(ring->fd);
}

uint64_t ci_ring_operations(const struct ci_ring *ring)
{
    enum { OPERATIONS = 64 };
    union {
        struct io_uring_probe probe;
        char room[sizeof(struct io_uring_probe) + OPERATIONS * sizeof(struct io_uring_probe_op)];
    } answer = {.room = {0}};
    uint64_t operations = 0;
    if (ci_ring_call_register(ring->fd, IORING_REGISTER_PROBE, &answer, OPERATIONS) < 0)
        return 0;
    for (size_t i = 0; i < OPERATIONS; i++)
        if (answer.probe.ops[i].flags & IO_URING_OP_SUPPORTED)
            operations |= (uint64_t)1 << i;
    return operations;
}

static int enter(struct ci_ring *ring, unsigned flags, unsigned wanted, const void *arg,
                 size_t arg_size)
{
    if (ci_unlikely(!ring->enabled)) {
        int rc = ci_ring_call_register(ring->fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
        if (rc < 0)
            return rc;
        ring->enabled = true;
    }
    /* pairs with the kernel's acquire: the entries are filled in */
    ci_store_release(ring->kernel_tail, ring->tail);
    unsigned count = ring->tail - ci_load_relaxed(ring->kernel_head);
    int taken = ci_ring_call_enter(ring->fd, count, wanted, flags, arg, arg_size);
    return taken < 0 ? taken : 0;
}

int ci_ring_submit(struct ci_ring *ring)
{
    return enter(ring, 0, 0, NULL, 0);
}

int ci_ring_enter(struct ci_ring *ring, uint32_t completions, coir_time timeout)
{
    struct {
        int64_t seconds;
        int64_t nanoseconds;
    } time = {timeout / COIR_S, timeout % COIR_S};
    struct io_uring_getevents_arg arg = {.ts = timeout < 0 ? 0 : (uintptr_t)&time};
    return enter(ring, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, completions, &arg,
                 sizeof arg);
}

int ci_ring_take_back(const struct ci_ring *ring, uint64_t name)
{
    struct io_uring_sync_cancel_reg reg = {.addr = name, .fd = -1, .timeout = {-1, -1}};
    int rc;
    do
        rc = ci_ring_call_register(ring->fd, IORING_REGISTER_SYNC_CANCEL, &reg, 1);
    while (rc == -EINTR);
    return rc;
}

int ci_ring_buffers_make(struct ci_ring_buffers *buffers, uint32_t count, uint32_t size)
{
    size_t ring_size = count * sizeof(struct io_uring_buf),
           total = ring_size + (size_t)count * size;
    struct ci_kept_mapping kept = {.size = total};
    void *memory = ci_mapping_take(&kept)
                       ? kept.start
                       : mmap(NULL, total, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return -errno;
    *buffers = (struct ci_ring_buffers){
        .ring = memory, .memory = (char *)memory + ring_size, .count = count, .size = size};
    return 0;
}

static size_t length(const struct ci_ring_buffers *buffers)
{
    return buffers->count * (sizeof(struct io_uring_buf) + (size_t)buffers->size);
}

int ci_ring_buffers_populate(const struct ci_ring_buffers *buffers)
{
    return ci_ring_call_populate(buffers->ring, length(buffers));
}

int ci_ring_buffers_register(struct ci_ring *ring, struct ci_ring_buffers *buffers, uint16_t group)
{
    struct io_uring_buf_reg reg = {
        .ring_addr = (uintptr_t)buffers->ring, .ring_entries = buffers->count, .bgid = group};
    buffers->tail = 0;
    ci_store_relaxed(&buffers->ring->tail, 0);
    return ci_ring_call_register(ring->fd, IORING_REGISTER_PBUF_RING, &reg, 1);
}

void ci_ring_buffers_free(struct ci_ring_buffers *buffers)
{
    const struct ci_kept_mapping mapping = {.start = buffers->ring, .size = length(buffers)};
    if (buffers->ring && !ci_mapping_give(&mapping))
        munmap(buffers->ring, mapping.size);
}
