/* System calls that return a negative errno: on descriptors of any kind here, on sockets in
 * socket_call.h, on files in file_call.h. Only sys/ reads errno: nothing in it switches stacks,
 * after which the address of errno, kept in a register, could be another thread's. */
#ifndef CI_SYS_CALL_H
#define CI_SYS_CALL_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "coir/base.h"
#include "sys/lookup.h"

ssize_t ci_sys_read(coir_fd fd, void *buf, size_t len);
ssize_t ci_sys_write(coir_fd fd, const void *buf, size_t len);
ssize_t ci_sys_writev(coir_fd fd, const struct iovec *iov, int iov_count);
void ci_sys_close(coir_fd fd);
bool ci_sys_is_open(coir_fd fd);

struct pollfd;

/* poll(2) with a timeout in nanoseconds (negative: without end). */
int ci_sys_poll(struct pollfd *fds, size_t count, coir_time timeout);

/* Whether a descriptor can be waited for: 0, -EBADF, or -EPERM for a file that is always ready. */
int ci_sys_poll_check(coir_fd fd);

/* An eventfd: non-blocking; readable from an add to the next drain. */
int ci_sys_eventfd(void);
void ci_sys_eventfd_add(coir_fd fd);
void ci_sys_eventfd_drain(coir_fd fd);

/* The addresses of a name that the machine knows without asking anything (localhost), as
 * ci_driver_kind.resolve; -EAGAIN: it does not know the name. */
int ci_sys_resolve(const char *host, int family, struct ci_ips *ret_ips, coir_time *ret_delay);

/* The calling process. */
int ci_sys_process_id(void);

/* A number from the system's generator. */
uint64_t ci_sys_random(void);

/* Makes malloc give free pages back to the system. */
void ci_sys_trim_heap(void);

#endif
