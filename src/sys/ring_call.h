/* The system calls of an io_uring: setup, mapping, registering, entering, unmapping. Everything
 * else is memory shared with the kernel (sys/ring.h). */
#ifndef CI_SYS_RING_CALL_H
#define CI_SYS_RING_CALL_H

#include <linux/io_uring.h>
#include <stddef.h>

#include "coir/base.h"

/* io_uring_setup(2): the descriptor or a negative errno. */
int ci_ring_call_setup(uint32_t entries, struct io_uring_params *params);

/* The two mappings of a ring. */
struct ci_ring_map {
    void *rings; /* both queues: sq_off and cq_off of io_uring_params count from here */
    struct io_uring_sqe *entries;
    size_t rings_size, entries_size;
};

/* 0 or a negative errno. */
int ci_ring_call_map(coir_fd fd, const struct io_uring_params *params, struct ci_ring_map *ret_map);
void ci_ring_call_unmap(const struct ci_ring_map *map);

/* Has all pages of memory that the kernel writes to (madvise(2), MADV_POPULATE_WRITE, Linux 5.14):
 * 0 or a negative errno. */
int ci_ring_call_populate(void *memory, size_t size);

/* io_uring_register(2): 0 or a negative errno. */
int ci_ring_call_register(coir_fd fd, unsigned what, void *arg, unsigned count);

/* io_uring_enter(2): how many entries were taken, or a negative errno. */
int ci_ring_call_enter(coir_fd fd, unsigned count, unsigned wanted, unsigned flags, const void *arg,
                       size_t arg_size);

#endif
