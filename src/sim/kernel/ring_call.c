/* io_uring: not modelled yet, so it answers as a kernel without it. */
#include "sys/ring_call.h"

#include <errno.h>

#include "sim/kernel/kernel.h"

int ci_ring_call_setup(uint32_t entries, struct io_uring_params *params)
{
    (void)entries;
    (void)params;
    return -ENOSYS;
}

int ci_ring_call_map(coir_fd fd, const struct io_uring_params *params, struct ci_ring_map *ret_map)
{
    (void)fd;
    (void)params;
    (void)ret_map;
    return -ENOSYS;
}

void ci_ring_call_unmap(const struct ci_ring_map *map)
{
    (void)map;
}

int ci_ring_call_register(coir_fd fd, unsigned what, void *arg, unsigned count)
{
    (void)fd;
    (void)what;
    (void)arg;
    (void)count;
    return -ENOSYS;
}

int ci_ring_call_enter(coir_fd fd, unsigned count, unsigned wanted, unsigned flags, const void *arg, size_t arg_size)
{
    (void)fd;
    (void)count;
    (void)wanted;
    (void)flags;
    (void)arg;
    (void)arg_size;
    return -ENOSYS;
}
