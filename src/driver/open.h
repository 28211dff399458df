/* The table of selectors. */
#ifndef CI_DRIVER_OPEN_H
#define CI_DRIVER_OPEN_H

#include "driver/driver.h"
#include "driver/selector.h"

/* A selector by name: 0, -EINVAL for an unknown one, -ENOMEM, -EMFILE, ... */
int ci_selector_open(const char *name, const coir_allocator *allocator,
                     struct ci_selector **ret_selector);

/* Where the build has io_uring. 0, or why there is none: -ENOSYS, -EPERM, -EINVAL (the kernel is
 * too old), -ENOMEM, -EMFILE. */
int ci_uring_open(const coir_allocator *allocator, struct ci_driver **ret_driver);

#endif
