/* System calls that return a negative errno. With the other files of sys/ the only place that reads
 * errno: nothing here switches stacks, after which its address could be another thread's. */
#ifndef CI_SYS_CALL_H
#define CI_SYS_CALL_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "coir/base.h"
#include "coir/socket.h"
#include "sys/lookup.h"

ssize_t ci_sys_recv(coir_fd fd, void *buf, size_t len);
ssize_t ci_sys_send(coir_fd fd, const void *buf, size_t len);
ssize_t ci_sys_recvv(coir_fd fd, const struct iovec *iov, int iov_count);
ssize_t ci_sys_sendv(coir_fd fd, const struct iovec *iov, int iov_count);
ssize_t ci_sys_read(coir_fd fd, void *buf, size_t len);
ssize_t ci_sys_write(coir_fd fd, const void *buf, size_t len);

ssize_t ci_sys_recvmsg(coir_fd fd, struct msghdr *message);
ssize_t ci_sys_sendmsg(coir_fd fd, const struct msghdr *message);

/* A non-blocking, close-on-exec descriptor. */
int ci_sys_socket(int family);
int ci_sys_datagram(const struct sockaddr *address, socklen_t len);
int ci_sys_open_datagram(int family);
int ci_sys_bind(coir_fd fd, const struct sockaddr *address, socklen_t len);
int ci_sys_begin_listen(coir_fd fd, int backlog);
int ci_sys_accept(coir_fd fd);
int ci_sys_connect(coir_fd fd, const struct sockaddr *address, socklen_t len);
int ci_sys_listen(const struct sockaddr *address, socklen_t len, int backlog, bool reuse_port,
                  bool ipv6_only);
/* New connections to a listener are not answered any more (those to a Unix socket are refused);
 * handshakes that are under way may end, and what it holds can be accepted. -EOPNOTSUPP where there
 * is no way to say so. */
int ci_sys_refuse(coir_fd fd);
int ci_sys_shutdown_write(coir_fd fd);
int ci_sys_name(coir_fd fd, bool peer, struct sockaddr_storage *ret_address, socklen_t *ret_len);
int ci_sys_socket_error(coir_fd fd);
int ci_sys_no_delay(coir_fd fd);
int ci_sys_reset_on_close(coir_fd fd);
int ci_sys_tcp_option(coir_fd fd, enum coir_tcp_option option, int value);
void ci_sys_close(coir_fd fd);

struct pollfd;

/* poll(2) with a timeout in nanoseconds (negative: without end). */
int ci_sys_poll(struct pollfd *fds, size_t count, coir_time timeout);

bool ci_sys_is_open(coir_fd fd);

/* Whether a descriptor can be waited for: 0, -EBADF, or -EPERM for a file that is always ready. */
int ci_sys_poll_check(coir_fd fd);

bool ci_sys_is_socket(coir_fd fd);

/* Files of Unix sockets. The lock of a directory is a descriptor, and is released when that is
 * closed: -EWOULDBLOCK while another process has it. */
int ci_sys_lock_directory(const char *path);
bool ci_sys_is_socket_file(const char *path);
int ci_sys_remove(const char *path);
int ci_sys_set_mode(const char *path, unsigned mode);
int ci_sys_set_owner(const char *path, unsigned owner, unsigned group); /* UINT_MAX: stays */

/* Who is at the other end of a Unix socket, as of its connect or listen. */
int ci_sys_credentials(coir_fd fd, coir_credentials *ret_credentials);

/* Of files. They may block for as long as a disk takes. */
/* does not wait for another opener: -ESPIPE where there are no offsets */
int ci_sys_open(const char *path, int flags, unsigned mode);
int ci_sys_file_size(coir_fd fd, int64_t *ret_size);
ssize_t ci_sys_read_at(coir_fd fd, void *buf, size_t len, int64_t offset);
ssize_t ci_sys_write_at(coir_fd fd, const void *data, size_t len, int64_t offset);
int ci_sys_sync(coir_fd fd);

/* What the machine knows about a name by itself, as ci_driver_kind.resolve; -EAGAIN: nothing. */
int ci_sys_resolve(const char *host, int family, struct ci_ips *ret_ips, coir_time *ret_delay);

/* A number from the system's generator. */
uint64_t ci_sys_random(void);

/* Has malloc give free pages back to the system, where it would keep them. */
void ci_sys_trim_heap(void);

int ci_sys_eventfd(void);
void ci_sys_eventfd_add(coir_fd fd);
void ci_sys_eventfd_drain(coir_fd fd);

#endif
