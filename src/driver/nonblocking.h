/* One non-blocking attempt at an operation: EAGAIN instead of waiting. */
#ifndef CI_DRIVER_NONBLOCKING_H
#define CI_DRIVER_NONBLOCKING_H

#include "driver/driver.h"

/* Makes the operation's system call once: its result, or a negative error. -EAGAIN: it would block;
 * -EINVAL: operations of this kind make no such call. */
ssize_t ci_op_attempt(const struct ci_op *op);

#endif
