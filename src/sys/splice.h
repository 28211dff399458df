/* System calls that move bytes from one descriptor to another inside of the kernel. They return a
 * negative errno (call.h). -EOPNOTSUPP: there are none here. */
#ifndef CI_SYS_SPLICE_H
#define CI_SYS_SPLICE_H

#include <sys/types.h>

#include "coir/base.h"

/* A non-blocking pipe: fds[0] is its end to read from. *ret_size is how many bytes it holds, at
 * most `size` or so. */
int ci_sys_pipe(coir_fd fds[2], size_t size, size_t *ret_size);

/* One of the two is a pipe. */
ssize_t ci_sys_splice(coir_fd from, coir_fd to, size_t len);

/* From a regular file to a socket. It blocks for as long as the disk takes, where the bytes are not
 * in the page cache; ci_sys_read_ahead brings them there, and blocks instead. */
ssize_t ci_sys_sendfile(coir_fd to, coir_fd file, int64_t offset, size_t len);
int ci_sys_read_ahead(coir_fd file, int64_t offset, size_t len);

#endif
