/* Buffers that the driver over io_uring has provided to the kernel come back to it. */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "driver/uring.h"
#include "env.h"

#if !defined(CONFORM_KERNEL) /* the simulated kernel may withhold buffers */

/* Closing streams that were not read gives back the buffers that they held: the next stream is read
 * ahead again, so its bytes leave the socket before they are asked for. */
static void buffers_body(void)
{
    char byte;
    for (int i = 0; i < 2; i++) {
        crowd_in();
        crowd_out();
    }
    cancel_a_read(env.server); /* its receive stays armed */
    CHECK_EQ(send(env.client, "x", 1, 0), 1);
    CHECK(wait_events(env.server, COIR_READ) & COIR_READ);
    CHECK_EQ(recv(env.server, &byte, 1, MSG_DONTWAIT), -1);
    CHECK_EQ(errno, EAGAIN);
    CHECK_EQ(read_some(env.server, &byte, 1), 1);
    close_pair();
}

ON(io_uring, buffers_of_closed_streams_are_used_again, buffers_body)

#if !CI_ASAN && !CI_TSAN
static long resident(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    CHECK(file && fscanf(file, "%*s %ld", &pages) == 1);
    fclose(file);
    return pages;
}

/* Those that have been used are there; the others come at once. */
static void reserve_body(void)
{
    long before = resident(), size = sysconf(_SC_PAGESIZE);
    CHECK_EQ(env.driver->kind->reserve(env.driver, 10), 0);
    CHECK(resident() - before >= (CI_URING_BUFFERS - CI_URING_BUFFERS_FIRST) *
                                     (CI_URING_BUFFER_SIZE / 1024) / (size / 1024));
    buffers_body();
}

ON(io_uring, buffers_are_there_before_they_are_used, reserve_body)
#endif

#endif
