/* Writing a text whole, by a thread that may wait: dumps and traces. */
#ifndef CI_SYS_WRITE_ALL_H
#define CI_SYS_WRITE_ALL_H

#include "coir/base.h"

/* Writes all bytes: 0 or an error of write(2). Waits for room where the descriptor does not block.
 * Safe in a signal handler. */
int ci_write_all(coir_fd fd, const char *bytes, size_t len);

#endif
