#include "sys/ring_call.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

int ci_ring_call_setup(uint32_t entries, struct io_uring_params *params)
{
    long fd = syscall(SYS_io_uring_setup, entries, params);
    return fd < 0 ? -errno : (int)fd;
}

static void *map_part(coir_fd fd, size_t size, off_t offset)
{
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, offset);
}

int ci_ring_call_map(coir_fd fd, const struct io_uring_params *params, struct ci_ring_map *ret_map)
{
    size_t submission = params->sq_off.array + params->sq_entries * sizeof(uint32_t);
    size_t completion = params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe);
    size_t rings_size = submission > completion ? submission : completion,
           entries_size = params->sq_entries * sizeof(struct io_uring_sqe);
    void *rings = map_part(fd, rings_size, IORING_OFF_SQ_RING);
    if (rings == MAP_FAILED)
        return -errno;
    void *entries = map_part(fd, entries_size, IORING_OFF_SQES);
    if (entries == MAP_FAILED) {
        int rc = -errno;
        munmap(rings, rings_size);
        return rc;
    }
    *ret_map = (struct ci_ring_map){rings, entries, rings_size, entries_size};
    return 0;
}

void ci_ring_call_unmap(const struct ci_ring_map *map)
{
    munmap(map->entries, map->entries_size);
    munmap(map->rings, map->rings_size);
}

int ci_ring_call_populate(void *memory, size_t size)
{
    return madvise(memory, size, MADV_POPULATE_WRITE) < 0 ? -errno : 0;
}

int ci_ring_call_register(coir_fd fd, unsigned what, void *arg, unsigned count)
{
    return syscall(SYS_io_uring_register, fd, what, arg, count) < 0 ? -errno : 0;
}

int ci_ring_call_enter(coir_fd fd, unsigned count, unsigned wanted, unsigned flags, const void *arg,
                       size_t arg_size)
{
    long taken = syscall(SYS_io_uring_enter, fd, count, wanted, flags, arg, arg_size);
    return taken < 0 ? -errno : (int)taken;
}
