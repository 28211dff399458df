/* Sockets that another process has opened and passed to this one. */
#ifndef CI_SYS_PASSED_H
#define CI_SYS_PASSED_H

#include "coir/base.h"

/* What a passed socket is to be used as. */
enum ci_passed { CI_PASSED_LISTENER, CI_PASSED_STREAM, CI_PASSED_DATAGRAM };

/* The first socket of that name that socket activation has passed (sd_listen_fds(3)), or
 * -ENOENT. */
coir_fd ci_passed_find(const char *name);

/* Makes a descriptor that was passed non-blocking and close-on-exec: 0, or an error, which leaves
 * it as it was: -COIR_EPASSED it is not open, or not a socket of that kind; of a connection, what
 * has ended it. */
int ci_passed_take(coir_fd fd, enum ci_passed kind);

/* A second descriptor, close-on-exec, of the same open socket. */
coir_fd ci_passed_share(coir_fd fd);

/* The number of a network interface; 0: there is none of that name. */
unsigned ci_sys_interface(const char *name);

#endif
