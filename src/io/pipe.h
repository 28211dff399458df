/* One end of a pipe as a stream. It is read and written by read(2) and write(2), because drivers
 * have operations for sockets only; the driver waits for its readiness. */
#ifndef CI_IO_PIPE_H
#define CI_IO_PIPE_H

#include "io/io.h"

/* A stream over `fd`, a non-blocking descriptor that can be waited for, and which it takes over if
 * it succeeds. *home is set to the stream, and to NULL when that is closed: -ENOMEM. */
int ci_pipe_open(struct ci_worker *worker, coir_fd fd, bool writes, coir_stream **home);

#endif
