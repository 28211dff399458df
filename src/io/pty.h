/* A pseudo-terminal of a worker's.
 *
 * 1. A pty is open while it has a `stream`, over the side without a program.
 */
#ifndef CI_IO_PTY_H
#define CI_IO_PTY_H

#include "coir/terminal.h"

struct ci_worker;

struct ci_pty {
    struct ci_worker *worker;
    coir_stream *stream; /* NULL: it was closed */
};

/* The descriptor of a pty that is open, on its worker; or an error. */
coir_fd ci_pty_fd(const coir_pty *opaque, const char *call, const void *place);

#endif
