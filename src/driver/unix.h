/* Unix sockets over a kernel, and the files that are their names.
 *
 * A path is bound, and its listener begins to listen, under a lock of the directory. Listening
 * comes last: no client can connect before the file has its mode and owner. A file that no socket
 * is bound to is stale, and replaced. A listener that ends refuses connections first, and removes
 * its file if that refuses them: then no other process of coir has bound it and is about to listen.
 *
 * 1. While another process has the lock, no listener is bound to a path, unless the caller has
 * waited long enough to know that this is not a process of coir that starts or ends a listener.
 * 2. The file of another socket is removed only under the lock: where the directory cannot be
 * locked, none is. A socket that cannot be opened in full removes its own.
 */
#ifndef CI_DRIVER_UNIX_H
#define CI_DRIVER_UNIX_H

#include "driver/driver.h"

/* A descriptor, bound, and for ci_unix_listen listening. -EADDRINUSE: another socket has the path;
 * -EEXIST: something that is no socket has; -EWOULDBLOCK: the directory is locked, which of a
 * listener without_lock matters only if there is a stale file. */
int ci_unix_listen(const struct ci_listen *listen);
int ci_unix_datagram(const struct sockaddr *address, socklen_t len);

/* Removes the file of a socket that has been closed, unless another socket has been bound to it
 * since, or the directory cannot be locked. */
void ci_unix_remove(const struct sockaddr *address, socklen_t len);

#endif
