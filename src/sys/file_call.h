/* System calls on files. They return a negative errno (call.h), and may block for as long as a disk
 * takes. */
#ifndef CI_SYS_FILE_CALL_H
#define CI_SYS_FILE_CALL_H

#include <stdbool.h>
#include <sys/types.h>

#include "coir/base.h"

/* Does not wait for another opener (of a FIFO). -ESPIPE: the file has no offsets, as a FIFO. */
int ci_sys_open(const char *path, int flags, unsigned mode);
int ci_sys_file_size(coir_fd fd, int64_t *ret_size);
ssize_t ci_sys_read_at(coir_fd fd, void *buf, size_t len, int64_t offset);
ssize_t ci_sys_write_at(coir_fd fd, const void *data, size_t len, int64_t offset);
int ci_sys_sync(coir_fd fd);

/* ---- files of Unix sockets ---- */

/* Opens and locks a directory; closing the descriptor releases the lock. -EWOULDBLOCK: another
 * process holds it. */
int ci_sys_lock_directory(const char *path);
bool ci_sys_is_socket_file(const char *path);
int ci_sys_remove(const char *path);
int ci_sys_set_mode(const char *path, unsigned mode);
int ci_sys_set_owner(const char *path, unsigned owner, unsigned group); /* UINT_MAX: unchanged */

#endif
