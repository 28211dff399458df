/* Control messages: what comes beside the bytes of a socket (cmsg(3)). */
#ifndef CI_SYS_CONTROL_H
#define CI_SYS_CONTROL_H

#include <sys/socket.h>

/* Of linux/socket.h, which not every C library has: a descriptor that the option SO_PASSPIDFD of
 * the socket asks for. */
enum { CI_SCM_PIDFD = 4 };

static inline struct cmsghdr *ci_control_next(struct msghdr *message, struct cmsghdr *header)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion" /* in the macro of musl */
    return CMSG_NXTHDR(message, header);
#pragma GCC diagnostic pop
}

#endif
