/* Unix sockets over a kernel, and the files that are their names.
 *
 * 1. A name is taken, and its listener begins to listen, under a lock of the directory. So a file
 * that refuses connections belongs to nobody: no other process of coir is about to listen on it.
 * 2. Only the file of a socket that refuses connections is removed, and only under that lock. Where
 *    the directory cannot be locked, nothing is removed.
 * 3. Nobody can connect before the file has its mode and owner: listening comes last.
 */
#ifndef CI_DRIVER_UNIX_H
#define CI_DRIVER_UNIX_H

#include "driver/driver.h"

/* A descriptor. -EADDRINUSE: somebody else listens, or is just about to. */
int ci_unix_listen(const struct ci_listen *listen);
int ci_unix_datagram(const struct sockaddr *address, socklen_t len);

/* The name of a socket that has been closed: its file goes, unless another socket has it already.
 */
void ci_unix_remove(const struct sockaddr *address, socklen_t len);

#endif
