/* What an io_uring asks of the kernel: errors are negative numbers, and mappings come and go
 * whole. */
#include "sys/ring_call.h"

#include <errno.h>

#include "harness.h"
#include "sys/call.h"

TEST(errors_are_negative_errnos)
{
    struct io_uring_params params = {.flags = UINT32_MAX};
    int rc = ci_ring_call_setup(8, &params);
    CHECK(rc == -EINVAL || rc == -ENOSYS || rc == -EPERM);
    struct ci_ring_map map;
    params = (struct io_uring_params){.sq_entries = 8, .cq_entries = 16};
    CHECK_EQ(ci_ring_call_map(-1, &params, &map), -EBADF);
    if (rc == -EINVAL) {
        CHECK_EQ(ci_ring_call_enter(-1, 0, 0, 0, NULL, 0), -EBADF);
        CHECK_EQ(ci_ring_call_register(INT32_MAX, IORING_REGISTER_ENABLE_RINGS, NULL, 0), -EBADF);
    }
}

TEST(a_ring_is_mapped_as_large_as_it_is)
{
    struct io_uring_params params = {0};
    struct ci_ring_map map;
    int fd = ci_ring_call_setup(8, &params);
    if (fd < 0)
        return; /* it does not work here */
    CHECK_EQ(ci_ring_call_map(fd, &params, &map), 0);
    map.entries[params.sq_entries - 1].user_data = 1;
    CHECK(map.rings_size > params.cq_off.cqes && map.entries_size >= 8 * sizeof *map.entries);
    ci_ring_call_unmap(&map);
    ci_sys_close(fd);
}
