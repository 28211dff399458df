/* The driver over io_uring (Linux 6.0 and newer). */
#ifndef CI_DRIVER_URING_H
#define CI_DRIVER_URING_H

#include "driver/driver.h"

/* 0, or why it cannot be: -ENOSYS, -EPERM, -EINVAL (the kernel is too old), -ENOMEM, -EMFILE. */
int ci_uring_open(const coir_allocator *allocator, struct ci_driver **ret_driver);

#endif
