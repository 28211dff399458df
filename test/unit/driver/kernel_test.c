/* What the drivers over a kernel share: tables by descriptor, waits that fail. */
#include "driver/kernel.h"

#include <errno.h>

#include "harness.h"
#include "sys/clock.h"

TEST(a_number_that_is_no_descriptor_makes_no_table)
{
    int *table = NULL;
    size_t count = 0;
    CHECK_EQ(
        ci_kernel_reserve(&ci_system_allocator, (void **)&table, &count, sizeof *table, INT32_MAX),
        -EBADF);
    CHECK(!table && !count);
    CHECK_EQ(ci_kernel_reserve(&ci_system_allocator, (void **)&table, &count, sizeof *table, 0), 0);
    CHECK(count >= 1 && count < 10000 && table[0] == 0);
    ci_free(&ci_system_allocator, table, count * sizeof *table);
}

TEST(an_error_of_a_wait_has_to_persist)
{
    int failed = 0;
    for (int i = 0; i < CI_FAILED_WAITS_MAX; i++)
        CHECK_EQ(ci_kernel_note_failed_wait(&failed, -EPERM, 0), 0);
    CHECK_EQ(ci_kernel_note_failed_wait(&failed, -EPERM, 0), -EPERM);
    coir_time begin = ci_clock_now();
    CHECK_EQ(ci_kernel_note_failed_wait(&failed, -EPERM, -1), -EPERM);
    CHECK(ci_clock_now() - begin >= 10 * COIR_MS); /* who waits on all the same does not spin */
    failed = 0;                                    /* a wait worked */
    CHECK_EQ(ci_kernel_note_failed_wait(&failed, -EPERM, 0), 0);
}
