/* One end of a pipe, or a terminal, as a stream. It is read and written by read(2) and write(2),
 * because drivers have operations for sockets only; the driver waits for its readiness. */
#ifndef CI_IO_PIPE_H
#define CI_IO_PIPE_H

#include "io/io.h"

enum ci_pipe_end {
    CI_PIPE_READS,
    CI_PIPE_WRITES,
    CI_PIPE_TERMINAL, /* both directions */
    CI_PIPE_PTY,      /* the other side of a terminal, which ends with its last program */
};

/* A stream over `fd`, a non-blocking descriptor that can be waited for, and which it takes over if
 * it succeeds. *home is set to the stream, and to NULL when that is closed: -ENOMEM. */
int ci_pipe_open(struct ci_worker *worker, coir_fd fd, enum ci_pipe_end end, coir_stream **home);

/* Before the memory of `home` is gone: closes the stream, if there is one. If another stream stands
 * on it, that one closes it, perhaps later. */
void ci_pipe_leave(coir_stream **home);

#endif
