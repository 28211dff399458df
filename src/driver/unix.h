/* Unix sockets over a kernel, and the files that are their names.
 *
 * A path is bound, and its listener begins to listen, under a lock of the directory. So the file of
 * a socket that refuses connections is stale: no other process of coir has bound it and is about to
 * listen. Listening comes last: no client can connect before the file has its mode and owner.
 *
 * 1. While another process has the lock, no listener is bound to a path.
 * 2. A file is removed only under the lock: where the directory cannot be locked, none is.
 *
 * Only the file of a socket that refuses connections is removed.
 */
#ifndef CI_DRIVER_UNIX_H
#define CI_DRIVER_UNIX_H

#include "driver/driver.h"

/* A descriptor, bound, and for ci_unix_listen listening. -EADDRINUSE: another socket has the path,
 * or is being bound in its directory. */
int ci_unix_listen(const struct ci_listen *listen);
int ci_unix_datagram(const struct sockaddr *address, socklen_t len);

/* Removes the file of a socket that has been closed, unless another socket has been bound to it
 * since. */
void ci_unix_remove(const struct sockaddr *address, socklen_t len);

#endif
