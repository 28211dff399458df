/* Opening and waking a driver whose allocations fail. */
#include <errno.h>
#include <stdlib.h>

#include "env.h"

static int left; /* how many more allocations succeed */

static void *alloc(size_t size, void *context)
{
    (void)context;
    return left-- > 0 ? malloc(size) : NULL;
}

static void release(void *memory, size_t size, void *context)
{
    (void)context;
    (void)size;
    free(memory);
}

static bool can_be_woken(struct ci_driver *driver)
{
    coir_time deadline = ci_driver_now(driver) + COIR_S;
    driver->kind->wake(driver);
    driver->kind->wait(driver, deadline);
    return ci_driver_now(driver) < deadline;
}

static void every_allocation_body(void)
{
    static const coir_allocator failing = COIR_ALLOCATOR(alloc, release, NULL);
    struct ci_driver *driver;
    int rc = -ENOMEM;
    for (int i = 0; rc < 0; i++) {
        left = i;
        rc = ci_driver_open(env.name, &failing, &driver);
        CHECK(rc == 0 || rc == -ENOMEM);
    }
    left = 0; /* an open driver needs no more memory to be woken */
    for (int i = 0; i < 3; i++)
        CHECK(can_be_woken(driver));
    driver->kind->free(driver);
    close_pair();
}

ON_REAL(opening_fails_or_the_driver_can_be_woken, every_allocation_body)
